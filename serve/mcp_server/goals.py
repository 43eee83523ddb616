"""The tool `goals`: what is wanted and how far it is, and the milestones on the way."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from serve.fields import Progress
from serve.mcp_server.here import Here, Told
from serve.mcp_server.notes import Note, note
from serve.mcp_server.reading import Project
from serve.mcp_server.writing import NewMemory, drafted
from serve.reader.filters import Filter
from serve.reader.reader import View
from serve.summaries import goals as every
from serve.summaries.newest import newest
from store import commands
from store.body import Name
from store.events import GoalStatus, Revised
from store.goal_commands import change_goal
from store.home.errors import InvalidInput
from store.memories.memory import Memory

_SHOWN = 20  # goals, and milestones of a chain


class Goals(msgspec.Struct, frozen=True):
    action: (
        Annotated[
            Literal["list", "add", "update", "milestone"],
            Meta(description="list if left out; milestone: say that a step was reached."),
        ]
        | None
    ) = None
    content: (
        Annotated[str, Meta(description="The goal to add, or the step that was reached.")] | None
    ) = None
    id: Annotated[str, Meta(description="The goal to update.", min_length=1)] | None = None
    status: GoalStatus | None = None
    progress: Progress | None = None
    due: Annotated[date, Meta(description="The day it is due: 2026-12-01.")] | None = None
    chain: (
        Annotated[Name, Meta(description="The name of the milestones that follow one another.")]
        | None
    ) = None
    project: Project | None = None


def goals(here: Here, asked: Goals) -> Told:
    """List goals and milestones, or change one; without an action what the rest means."""
    action = asked.action or ("update" if asked.id else "add" if asked.content else "list")
    if action == "list":
        return _list(here, asked)
    if action == "update":
        return _update(here, asked)
    if not asked.content:
        raise InvalidInput(f"`content` is missing: what is the {action} about?")
    new = NewMemory(asked.content, kind="goal" if action == "add" else "milestone")
    if action == "add":
        state = {name: getattr(asked, name) for name in ("status", "progress")}
        more = {name: value for name, value in state.items() if value is not None}
        if asked.due:
            more["metadata"] = {"due": asked.due.isoformat()}
        draft = drafted(here, new, asked.project, **more)
    elif asked.chain:
        draft = drafted(here, new, asked.project, chain=asked.chain)
    else:
        raise InvalidInput("`chain` is missing: which milestones does this one follow?")
    done = commands.record(here.tenant.log, draft, here.now)
    return Told("The goal is set." if action == "add" else "Reached.", {"id": done.event.id})


def _update(here: Here, asked: Goals) -> Told:
    here.must_record()
    log = here.tenant.log
    if not asked.id:
        raise InvalidInput("`id` is missing: which goal?")
    id_ = commands.resolve(log, asked.id)
    names = ("content", "status", "progress")
    given = {name: value for name in names if (value := getattr(asked, name)) is not None}
    if not given and asked.due is None:
        raise InvalidInput("say what changes: `status`, `progress`, `due` or `content`")
    change_goal(log, id_, msgspec.convert(given, Revised), here.now, asked.due, trust="agent")
    return Told("The goal is updated.", {"id": id_})


def _list(here: Here, asked: Goals) -> Told:
    wanted = here.filter(asked.project)
    found, chains = here.tenant.reader.answered(
        lambda view: (_wanted(view, wanted, asked.status), every.chains(view, wanted))
    )
    reached = [
        one
        for chain in chains
        if asked.chain in (None, chain.name)
        for one in chain.milestones[-_SHOWN:]
    ]
    said = f"Goals that are {asked.status or 'open'}: {len(found)}. Milestones: {len(reached)}."
    notes = {"goals": [_note(one) for one in found], "milestones": [note(one) for one in reached]}
    return Told(said, groups={name: those[:_SHOWN] for name, those in notes.items()})


def _wanted(view: View, wanted: Filter, status: GoalStatus | None) -> Sequence[Memory]:
    if status is None:
        return every.open_goals(view, wanted)
    found = newest(view, replace(wanted, kinds=("goal",)), every.LOOKED_AT)
    return [one for one in found if one.status == status]


def _note(goal: Memory) -> Note:
    day = every.due(goal)
    return note(goal) | ({"due": day} if day else {})
