"""The tool `goals`: what is wanted and how far it is, and the milestones on the way."""

from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from serve.mcp_server.here import Here, Told
from serve.mcp_server.notes import note
from serve.mcp_server.reading import Project
from serve.mcp_server.writing import NewMemory, drafted
from serve.newest import newest
from store import commands
from store.body import Name, Unit
from store.errors import InvalidInput
from store.events import GoalStatus, Recorded, Revised
from store.projections.memories import Memory

_MOST = 200  # goals and milestones that are looked at
_SHOWN = 20


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
    progress: Annotated[Unit, Meta(description="0 to 1.")] | None = None
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
        draft = drafted(here, new, asked.project, **more)
    elif asked.chain:
        draft = drafted(here, new, asked.project, chain=asked.chain)
    else:
        raise InvalidInput("`chain` is missing: which milestones does this one follow?")
    done = commands.record(here.tenant.log, draft, here.now)
    return Told("The goal is set." if action == "add" else "Reached.", {"id": done.event.id})


def _update(here: Here, asked: Goals) -> Told:
    log = here.tenant.log
    if not asked.id:
        raise InvalidInput("`id` is missing: which goal?")
    id_ = commands.resolve(log, asked.id)
    first = log.about(id_)[0].body
    if not isinstance(first, Recorded) or first.kind != "goal":
        raise InvalidInput(f"{id_} is no goal: `goals` without arguments lists them")
    names = ("content", "status", "progress")
    given = {name: value for name in names if (value := getattr(asked, name)) is not None}
    if not given:
        raise InvalidInput("say what changes: `status`, `progress` or `content`")
    commands.revise(log, id_, msgspec.convert(given, Revised), here.now)
    return Told("The goal is updated.", {"id": id_})


def _list(here: Here, asked: Goals) -> Told:
    wanted = asked.status
    goals = [one for one in _newest(here, asked, "goal") if _is_wanted(one, wanted)]
    reached = [one for one in _newest(here, asked, "milestone") if one.chain]
    if asked.chain:
        reached = [one for one in reached if one.chain == asked.chain]
    latest = sorted(reached[:_SHOWN], key=lambda one: (one.chain or "", one.created_at, one.seq))
    said = f"Goals that are {wanted or 'open'}: {len(goals)}. Milestones: {len(reached)}."
    groups = {"goals": goals[:_SHOWN], "milestones": latest}
    return Told(said, groups={name: [note(one) for one in those] for name, those in groups.items()})


def _newest(here: Here, asked: Goals, kind: str) -> Sequence[Memory]:
    of = here.filter(asked.project, (kind,))
    return here.tenant.reader.answered(lambda view: newest(view, of, _MOST))


def _is_wanted(goal: Memory, status: GoalStatus | None) -> bool:
    return goal.status == status if status else goal.status in ("open", "blocked")
