"""
The tools that write: remember, remember_batch, update_memory, forget, feedback.

What an agent writes is known as an agent's; nothing here takes a word from a tool's output or the
web for the user's.
"""

from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from serve.fields import Importance, Reason
from serve.mcp_server.here import Here, Told
from serve.mcp_server.reading import MemoryId, Project
from store import commands
from store.body import Key, Tag
from store.commands import Draft
from store.events import Forgotten, MemoryKind, Restored, Revised
from store.home.errors import InvalidInput
from store.log import Appended

Kind = Annotated[MemoryKind, Meta(description="What it is; a fact if left out.")]
Tags = Annotated[tuple[Tag, ...], Meta(max_length=50)]
Verdict = Literal["helped", "not_helped", "wrong"]

_VERDICTS = {"helped": 1.0, "not_helped": -0.5, "wrong": -1.0}


class NewMemory(msgspec.Struct, frozen=True):
    content: Annotated[
        str, Meta(description="One statement that is understood alone, and why it holds.")
    ]
    kind: Kind | None = None
    tags: Tags | None = None
    importance: Importance | None = None
    key: (
        Annotated[
            Key, Meta(description="Of a value that changes: deploy.region. The newest holds.")
        ]
        | None
    ) = None
    value: Annotated[str, Meta(description="The value of the key: eu-west-1.")] | None = None
    id: (
        Annotated[str, Meta(description="An id of your own: the same again is no second memory.")]
        | None
    ) = None


class Remember(NewMemory, frozen=True):
    project: Project | None = None


class RememberBatch(msgspec.Struct, frozen=True):
    memories: Annotated[tuple[NewMemory, ...], Meta(min_length=1, max_length=100)]
    project: Project | None = None


class UpdateMemory(msgspec.Struct, frozen=True):
    id: MemoryId
    content: Annotated[str, Meta(description="What it says from now on.")] | None = None
    tags: Tags | None = None
    importance: Importance | None = None
    reason: Reason | None = None


class Forget(msgspec.Struct, frozen=True):
    id: MemoryId
    reason: Reason | None = None


RatedId = Annotated[
    str,
    Meta(
        description="The id of a memory, or the `recall` of an answer to rate all that it brought.",
        min_length=1,
    ),
]


class Feedback(msgspec.Struct, frozen=True):
    id: RatedId
    verdict: Annotated[Verdict, Meta(description="Whether it helped you with the task.")]
    reason: Reason | None = None


def remember(here: Here, asked: Remember) -> Told:
    """Record one memory; the same id and text again is the same memory."""
    draft = drafted(here, asked, asked.project)
    done = commands.record(here.tenant.log, draft, here.now)
    said = "Remembered." if done.is_new else "It was there already."
    return Told(said + _hidden(here, [draft], [done]), {"id": done.event.id, "new": done.is_new})


def remember_batch(here: Here, asked: RememberBatch) -> Told:
    """Record all or none."""
    drafts = [drafted(here, one, asked.project) for one in asked.memories]
    done = commands.record_batch(here.tenant.log, drafts, here.now)
    added = sum(one.is_new for one in done)
    said = f"{added} remembered, {len(done) - added} were there already."
    ids = [one.event.id for one in done]
    return Told(said + _hidden(here, drafts, done), {"ids": ids, "added": added})


def drafted(here: Here, asked: NewMemory, project: str | None, **more: object) -> Draft:
    """Return the draft of what an agent wants to have remembered here; raise InvalidInput where
    nothing is recorded.
    """
    here.must_record()
    given = {
        name: value for name, value in msgspec.structs.asdict(asked).items() if value is not None
    }
    if "value" in given and "key" not in given:
        raise InvalidInput("`value` is the value of a key: give the key too")
    whose = {
        "project": here.scope(project) or None,
        "trust": "agent",
        "agent": here.agent,
        "session": here.session,
    }
    return msgspec.convert(given | whose | more, Draft)


def _hidden(here: Here, drafts: Sequence[Draft], done: Sequence[Appended]) -> str:
    pairs = zip(drafts, done, strict=True)
    if any(commands.recorded(draft, here.now).body != one.event.body for draft, one in pairs):
        return " A secret in it was taken out before anything was written."
    return ""


def update_memory(here: Here, asked: UpdateMemory) -> Told:
    """Replace what a memory says, or its labels; the log keeps what was before."""
    here.must_record()
    id_ = commands.resolve(here.tenant.log, asked.id)
    given = {
        name: value for name, value in msgspec.structs.asdict(asked).items() if value is not None
    }
    if not given.keys() - {"id", "reason"}:
        raise InvalidInput("say what changes: `content`, `tags` or `importance`")
    del given["id"]
    commands.revise(here.tenant.log, id_, msgspec.convert(given, Revised), here.now, trust="agent")
    return Told("Updated; what it said before stays in its history.", {"id": id_})


def forget(here: Here, asked: Forget) -> Told:
    """Hide a memory for good; a second time changes nothing."""
    log = here.tenant.log
    id_ = commands.resolve(log, asked.id)
    if not _is_forgotten(here, id_):
        commands.forget(log, id_, here.now, asked.reason, trust="agent")
    undo = f"mnemolog restore {id_}"
    return Told(f"Forgotten. To undo it: `{undo}`.", {"id": id_, "undo": undo})


def _is_forgotten(here: Here, id_: str) -> bool:
    told = [one for one in here.tenant.log.about(id_) if isinstance(one.body, Forgotten | Restored)]
    return bool(told) and isinstance(told[-1].body, Forgotten)


def feedback(here: Here, asked: Feedback) -> Told:
    """Say whether a memory, or what a recall brought, helped; ranking and the router take it in
    with the next build.
    """
    here.must_record()
    here.tenant.notes.write()  # the recall that is rated may be the one just answered
    id_ = commands.resolve_rated(here.tenant.log, asked.id)
    verdict = _VERDICTS[asked.verdict]
    commands.rate(here.tenant.log, id_, verdict, here.now, asked.reason, trust="agent")
    return Told("Noted.", {"id": id_, "verdict": asked.verdict})
