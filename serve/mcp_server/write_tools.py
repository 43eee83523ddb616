"""
The tools that write: remember, remember_batch, update_memory, link, forget, feedback, goals.

Memories written by an agent are marked as an agent's; no text from a tool's output or the web is
taken for the user's.
"""

from collections.abc import Sequence
from datetime import date
from typing import Annotated, Literal

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from serve.mcp_server.read_tools import MemoryId, Project
from serve.mcp_server.tool_context import Note, ToolContext, ToolResult, memory_note
from serve.reader import goals as every
from serve.reader.filters import Filter
from serve.reader.request_fields import Importance, Progress, Reason
from serve.reader.view import View, newest
from store.home.errors import InvalidInput
from store.log import commands
from store.log.commands import Draft, change_goal
from store.log.event_kinds import (
    Forgotten,
    GoalStatus,
    Key,
    Name,
    RecordedKind,
    Relation,
    Restored,
    Revised,
    Tag,
)
from store.log.event_log import Appended
from store.memories.memory import Memory

Kind = Annotated[RecordedKind, Meta(description="The kind; a fact if omitted.")]
Tags = Annotated[tuple[Tag, ...], Meta(max_length=50)]
Verdict = Literal["helped", "not_helped", "wrong"]

_VERDICTS = {"helped": 1.0, "not_helped": -0.5, "wrong": -1.0}


class NewMemory(msgspec.Struct, frozen=True):
    content: Annotated[str, Meta(description="One self-contained statement, with its reason.")]
    kind: Kind | None = None
    tags: Tags | None = None
    importance: Importance | None = None
    key: (
        Annotated[
            Key,
            Meta(
                description="The key of a value that changes: deploy.region. The newest is current."
            ),
        ]
        | None
    ) = None
    value: Annotated[str, Meta(description="The value of the key: eu-west-1.")] | None = None
    id: (
        Annotated[str, Meta(description="Your own id: repeating it does not add a second memory.")]
        | None
    ) = None


class Remember(NewMemory, frozen=True):
    project: Project | None = None


class RememberBatch(msgspec.Struct, frozen=True):
    memories: Annotated[tuple[NewMemory, ...], Meta(min_length=1, max_length=100)]
    project: Project | None = None


class UpdateMemory(msgspec.Struct, frozen=True):
    id: MemoryId
    content: Annotated[str, Meta(description="The new text.")] | None = None
    tags: Tags | None = None
    importance: Importance | None = None
    reason: Reason | None = None


class Forget(msgspec.Struct, frozen=True):
    id: MemoryId
    reason: Reason | None = None


class Link(msgspec.Struct, frozen=True):
    id: MemoryId
    target: Annotated[str, Meta(description="The other memory's id.", min_length=1)]
    relation: Annotated[Relation, Meta(description="What the target is to the memory.")]


RatedId = Annotated[
    str,
    Meta(
        description="The id of a memory, or the `recall` of an answer to rate all its results.",
        min_length=1,
    ),
]


class Feedback(msgspec.Struct, frozen=True):
    id: RatedId
    verdict: Annotated[Verdict, Meta(description="Whether it helped with the task.")]
    reason: Reason | None = None


def remember(here: ToolContext, arguments: Remember) -> ToolResult:
    """Record one memory; repeating an id and text adds nothing."""
    draft = draft_memory(here, arguments, arguments.project)
    appended = commands.record(here.tenant.log, draft, here.now)
    text = "Remembered." if appended.is_new else "It was already stored."
    return ToolResult(
        text + _redaction_notice(here, [draft], [appended]),
        {"id": appended.event.id, "new": appended.is_new},
    )


def remember_batch(here: ToolContext, batch: RememberBatch) -> ToolResult:
    """Record all memories or none."""
    drafts = [draft_memory(here, memory, batch.project) for memory in batch.memories]
    appended = commands.record_batch(here.tenant.log, drafts, here.now)
    added = sum(memory.is_new for memory in appended)
    text = f"{added} stored, {len(appended) - added} were already stored."
    ids = [memory.event.id for memory in appended]
    text += _redaction_notice(here, drafts, appended)
    return ToolResult(text, {"ids": ids, "added": added})


def draft_memory(
    here: ToolContext, memory: NewMemory, project: str | None, **more: object
) -> Draft:
    """Return the draft of an agent's new memory; raise InvalidInput if this session is not
    recorded.
    """
    here.must_record()
    fields = {
        name: value for name, value in msgspec.structs.asdict(memory).items() if value is not None
    }
    if "value" in fields and "key" not in fields:
        raise InvalidInput("`value` needs a `key`")
    whose = {
        "project": here.scope(project) or None,
        "trust": "agent",
        "author": "agent",
        "agent": here.agent,
        "session": here.session,
    }
    return msgspec.convert(fields | whose | more, Draft)


def _redaction_notice(
    here: ToolContext, drafts: Sequence[Draft], appended: Sequence[Appended]
) -> str:
    for draft, memory in zip(drafts, appended, strict=True):
        if commands.memory_event(draft, here.now).body != memory.event.body:
            return " A secret in it was redacted before anything was written."
    return ""


def update_memory(here: ToolContext, memory: UpdateMemory) -> ToolResult:
    """Replace a memory's text or labels; the log keeps the old ones."""
    here.must_record()
    id_ = commands.resolve(here.tenant.log, memory.id)
    fields = {
        name: value for name, value in msgspec.structs.asdict(memory).items() if value is not None
    }
    if not fields.keys() - {"id", "reason"}:
        raise InvalidInput("give at least one change: `content`, `tags` or `importance`")
    del fields["id"]
    changes = msgspec.convert(fields, Revised)
    commands.revise(here.tenant.log, id_, changes, here.now, "agent", "agent")
    return ToolResult("Updated; the old text is in its history.", {"id": id_})


def link(here: ToolContext, arguments: Link) -> ToolResult:
    """Link a memory to another; a second call changes nothing."""
    here.must_record()
    log, relation = here.tenant.log, arguments.relation
    id_, target = commands.resolve(log, arguments.id), commands.resolve(log, arguments.target)
    if id_ == target:
        raise InvalidInput("a memory cannot be linked to itself: give another as `target`")
    edges = here.tenant.reader.answer(lambda view: view.tail.edges_of(id_))
    drawn = {(edge.source, edge.relation, edge.target) for edge in edges}
    is_new = (id_, relation, target) not in drawn
    if is_new:
        commands.link(log, id_, target, relation, here.now, trust="agent")
    text = "Linked." if is_new else "They were linked already."
    return ToolResult(text, {"id": id_, "relation": relation, "target": target, "new": is_new})


def forget(here: ToolContext, arguments: Forget) -> ToolResult:
    """Hide a memory for good; a second call changes nothing."""
    log = here.tenant.log
    id_ = commands.resolve(log, arguments.id)
    bodies = [event.body for event in log.events_for(id_)]
    changes = [body for body in bodies if isinstance(body, Forgotten | Restored)]
    if not changes or isinstance(changes[-1], Restored):
        commands.forget(log, id_, here.now, arguments.reason, trust="agent")
    undo = f"mnemolog restore {id_}"
    return ToolResult(f"Forgotten. To undo it: `{undo}`.", {"id": id_, "undo": undo})


def feedback(here: ToolContext, arguments: Feedback) -> ToolResult:
    """Rate a memory or a recall as helpful or not; ranking and the router use it from the next
    build.
    """
    here.must_record()
    here.tenant.notes.write()  # the rated recall may be the latest one
    id_ = commands.resolve_rated(here.tenant.log, arguments.id)
    verdict = _VERDICTS[arguments.verdict]
    commands.rate(here.tenant.log, id_, verdict, here.now, arguments.reason, trust="agent")
    return ToolResult("Noted.", {"id": id_, "verdict": arguments.verdict})


# The tool `goals`: the goals with their progress, and the milestones on the way.

_SHOWN = 20  # goals, and milestones of a chain


class Goals(msgspec.Struct, frozen=True):
    action: (
        Annotated[
            Literal["list", "add", "update", "milestone"],
            Meta(description="list if omitted; milestone: record that a step was reached."),
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
    chain: Annotated[Name, Meta(description="The name of a chain of milestones.")] | None = None
    project: Project | None = None


def goals(here: ToolContext, arguments: Goals) -> ToolResult:
    """List goals and milestones, or change one; without `action`, infer it."""
    action = arguments.action or (
        "update" if arguments.id else "add" if arguments.content else "list"
    )
    if action == "list":
        return _list_goals(here, arguments)
    if action == "update":
        return _update_goal(here, arguments)
    if not arguments.content:
        raise InvalidInput(f"`content` is missing: what is the {action} about?")
    new = NewMemory(arguments.content, kind="goal" if action == "add" else "milestone")
    if action == "add":
        state = {name: getattr(arguments, name) for name in ("status", "progress")}
        more = {name: value for name, value in state.items() if value is not None}
        if arguments.due:
            more["metadata"] = {"due": arguments.due.isoformat()}
        draft = draft_memory(here, new, arguments.project, **more)
    elif arguments.chain:
        draft = draft_memory(here, new, arguments.project, chain=arguments.chain)
    else:
        raise InvalidInput("`chain` is missing: which milestones does this one follow?")
    event = commands.record(here.tenant.log, draft, here.now).event
    return ToolResult("The goal is set." if action == "add" else "Reached.", {"id": event.id})


def _update_goal(here: ToolContext, arguments: Goals) -> ToolResult:
    here.must_record()
    log = here.tenant.log
    if not arguments.id:
        raise InvalidInput("`id` is missing: which goal?")
    id_ = commands.resolve(log, arguments.id)
    names = ("content", "status", "progress")
    fields = {name: value for name in names if (value := getattr(arguments, name)) is not None}
    if not fields and arguments.due is None:
        raise InvalidInput("give at least one change: `status`, `progress`, `due` or `content`")
    changes = msgspec.convert(fields, Revised)
    change_goal(log, id_, changes, here.now, arguments.due, trust="agent")
    return ToolResult("The goal is updated.", {"id": id_})


def _list_goals(here: ToolContext, arguments: Goals) -> ToolResult:
    wanted = here.filter(arguments.project)
    memories, chains = here.tenant.reader.answer(
        lambda view: (
            _select_goals(view, wanted, arguments.status),
            every.milestone_chains(view, wanted),
        )
    )
    reached = [
        memory
        for chain in chains
        if arguments.chain in (None, chain.name)
        for memory in chain.milestones[-_SHOWN:]
    ]
    text = (
        f"Goals that are {arguments.status or 'open'}: {len(memories)}. Milestones: {len(reached)}."
    )
    notes = {
        "goals": [_goal_note(memory) for memory in memories],
        "milestones": [memory_note(memory) for memory in reached],
    }
    return ToolResult(text, groups={name: those[:_SHOWN] for name, those in notes.items()})


def _select_goals(view: View, wanted: Filter, status: GoalStatus | None) -> Sequence[Memory]:
    if status is None:
        return every.open_goals(view, wanted)
    memories = newest(view, replace(wanted, kinds=("goal",)), every.MOST_GOALS)
    return [memory for memory in memories if memory.status == status]


def _goal_note(goal: Memory) -> Note:
    day = every.due_date(goal)
    return memory_note(goal) | ({"due": day} if day else {})
