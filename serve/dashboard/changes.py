"""
Changes that a page makes to one memory or many, in one transaction, and their undo.

A change without effect is left out. Each change can be undone as long as the memory has no later
change: `Was` has the memory's former state and the change's seq.
"""

from collections.abc import Sequence
from typing import Literal, get_args

import msgspec

from serve.reader.view import View
from serve.server.open_tenants import OpenTenant
from store.home.errors import InvalidInput, NotFound
from store.log import commands, log_queries
from store.log.checks import require_unchanged
from store.log.commands import Change
from store.log.event_kinds import Archived, Forgotten, Id, Pinned, Restored, Revised, Superseded
from store.log.events import Event
from store.memories.memory import ACTIVE, ARCHIVED, FORGOTTEN, STALE, SUPERSEDED, Memory

Does = Literal["tag", "untag", "pin", "unpin", "archive", "restore", "forget"]
DOES: tuple[Does, ...] = get_args(Does)
DONE = {
    "tag": "tagged",
    "untag": "untagged",
    "pin": "pinned",
    "unpin": "unpinned",
    "archive": "archived",
    "restore": "restored",
    "forget": "forgotten",
}
MOST = 500  # memories of one form


class Was(msgspec.Struct, frozen=True, array_like=True):
    """A memory before a change; `seq` is the newest change's afterwards."""

    id: Id
    seq: int
    state: str
    by: Id | None
    expires_at: int | None
    pinned: bool
    tags: tuple[str, ...]


_was = msgspec.json.Decoder(Was)


class Done(msgspec.Struct, frozen=True):
    """The result of a form: the numbers of changed and unchanged memories, the former states for
    the undo form, and its events.
    """

    changed: int
    same: int
    was: tuple[str, ...]
    events: tuple[Event, ...] = ()


def carry_out(opened: OpenTenant, ids: Sequence[str], does: Does, now: int, tag: str = "") -> Done:
    """Change all of some memories or none; raise NotFound, InvalidInput, or ChangedSince where
    another changed one in between.
    """
    wanted = list(dict.fromkeys(ids))
    if not 0 < len(wanted) <= MOST:
        raise InvalidInput(f"choose 1 to {MOST} memories")
    if does in ("tag", "untag") and not tag.strip():
        raise InvalidInput("name the tag")
    # first: a change in between is reported, not overwritten
    newest = {id_: log_queries.newest_change(opened.log, id_) for id_ in wanted}
    before = opened.reader.answer(lambda view: [find_memory(view, id_) for id_ in wanted])
    events: list[Event] = []
    changed: list[Memory] = []
    for memory in before:
        change = _change(memory, does, tag.strip())
        if change is not None:
            events.append(commands.change_event(opened.log, memory.id, change, now))
            changed.append(memory)
    checks = [require_unchanged(memory.id, {newest[memory.id]}) for memory in changed]
    appended = [row.event for row in opened.log.append(events, checks)]
    was = tuple(
        encode_state(memory, event.seq)
        for memory, event in zip(changed, appended, strict=True)
        if _can_be_taken_back(memory, does)
    )
    return Done(len(changed), len(before) - len(changed), was, tuple(appended))


def take_back(opened: OpenTenant, sent: Sequence[str], now: int) -> int:
    """Undo changes, all or none, and return the number of memories.

    Raise ChangedSince if a memory has a later change, InvalidInput for fields that are no change.
    """
    try:
        before = [_was.decode(state) for state in sent[:MOST]]
    except msgspec.MsgspecError as error:
        raise InvalidInput(f"this change cannot be undone: {error}") from error
    if not before:
        raise InvalidInput("there is nothing to undo")
    present = opened.reader.answer(lambda view: [find_memory(view, was.id) for was in before])
    events = [
        commands.change_event(opened.log, memory.id, change, now)
        for memory, was in zip(present, before, strict=True)
        for change in _back(memory, was, now)
    ]
    opened.log.append(events, [require_unchanged(was.id, {was.seq}) for was in before])
    return len(before)


def encode_state(memory: Memory, seq: int) -> str:
    """Return a memory's state as text, for the undo form."""
    was = Was(
        memory.id,
        seq,
        memory.state,
        memory.superseded_by,
        memory.expires_at,
        memory.pinned,
        memory.tags,
    )
    return msgspec.json.encode(was).decode()


def find_memory(view: View, id_: str) -> Memory:
    """Return the memory of an id; raise NotFound."""
    memory = view.tail.find(id_)
    if memory is None:
        raise NotFound(f"no memory {id_!r}")
    return memory


def _change(memory: Memory, does: Does, tag: str) -> Change | None:
    """Return the change of a memory; None where it would have no effect."""
    state = memory.state
    changes: dict[Does, tuple[bool, Change]] = {
        "tag": (tag not in memory.tags, Revised(tags=(*memory.tags, tag))),
        "untag": (tag in memory.tags, Revised(tags=tuple(t for t in memory.tags if t != tag))),
        "pin": (not memory.pinned, Pinned(pinned=True)),
        "unpin": (memory.pinned, Pinned(pinned=False)),
        "archive": (state in (ACTIVE, STALE), Archived()),
        "restore": (state != ACTIVE or memory.expires_at is not None, Restored()),
        "forget": (state != FORGOTTEN, Forgotten()),
    }
    is_wanted, change = changes[does]
    return change if is_wanted and (state != FORGOTTEN or does == "restore") else None


def _can_be_taken_back(memory: Memory, does: Does) -> bool:
    """Return True if events of ours can restore a memory's former state.

    Only its sources make a memory stale again. Only a restore brings back a forgotten memory, and
    restoring a former value of a key would replace the present value.
    """
    is_former_value = memory.key is not None and memory.state != ACTIVE
    return memory.state != STALE and not (does == "forget" and is_former_value)


def _back(memory: Memory, was: Was, now: int) -> list[Change]:
    """Return the changes that restore a memory's former state."""
    changes: list[Change] = []
    if memory.state != was.state or memory.superseded_by != was.by:
        if was.state == ACTIVE or memory.state == FORGOTTEN:
            changes.append(Restored())
        if was.state == ARCHIVED:
            changes.append(Archived())
        elif was.state == FORGOTTEN:
            changes.append(Forgotten())
        elif was.state == SUPERSEDED and was.by is not None:
            changes.append(Superseded(by=was.by))
    # restoring a memory ends its ttl
    if was.expires_at is not None and (was.expires_at != memory.expires_at or changes):
        changes.append(Revised(ttl_s=max(1, (was.expires_at - now) // 1_000_000)))
    if memory.pinned != was.pinned:
        changes.append(Pinned(pinned=was.pinned))
    if memory.tags != was.tags:
        changes.append(Revised(tags=was.tags))
    return changes
