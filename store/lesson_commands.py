"""
Drafts of lessons that wait for a person: proposed, then accepted or rejected.

A draft has its id from its project and words, so what was proposed once, whatever became of it, is
never proposed again. Only a person's yes makes it a memory, and then it is the person's word.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from store import commands
from store.agent_events import Accepted, Proposed, Rejected
from store.commands import Draft
from store.errors import Conflict, NotFound
from store.events import EVER, Event, MemoryKind, derived_id, new_id
from store.importers.rules import CORRECTION
from store.log import EventLog

State = Literal["pending", "accepted", "rejected"]

_LEAD = re.compile(r"^(?:(?:actually|please|well|and|but|so|ok|okay)\b[,:]?\s+)+", re.IGNORECASE)
_HASH = 10  # a ULID's letters from here on are those of its hash


@dataclass(frozen=True, slots=True)
class Proposal:
    """A draft and what became of it; `memory` was recorded for it."""

    event: Event
    state: State
    memory: str | None = None


def lasting(sentence: str) -> str:
    """Return a correction as a rule reads: "no, actually use pnpm" is "Use pnpm"."""
    text = _LEAD.sub("", CORRECTION.sub("", sentence.strip()))
    return text[:1].upper() + text[1:]


def draft_id(project: str | None, content: str) -> str:
    """Return the id of a draft, the same for the same words in a project."""
    said = " ".join(content.casefold().split()).strip(" .!")
    return derived_id(0, "lesson", project or "", said)[_HASH:]


def proposal(
    content: str,
    kind: MemoryKind,
    now: int,
    *,
    because: str | None = None,
    project: str | None = None,
    session: str | None = None,
    agent: str | None = None,
    source_ids: Sequence[str] = (),
) -> Event:
    """Return the event that proposes a lesson, without writing it.

    Raise JunkText or InvalidInput for words that would make no memory.
    """
    text = commands.checked_text(content)
    draft: dict[str, Any] = {"content": text, "kind": kind}
    body = Proposed(what="lesson", draft=draft, because=because, source_ids=tuple(source_ids))
    id_ = draft_id(project, text)
    return Event(id_, now, body, id_, project, session, agent, "user")


def is_draft(event: Event) -> bool:
    """Return whether an event proposes a lesson, and nothing else."""
    return isinstance(event.body, Proposed) and event.body.what == "lesson"


def every(log: EventLog) -> list[Proposal]:
    """Return all drafts, answered or not, in the order of the log."""
    told: dict[str, list[Event]] = {}
    for event in log.told(("proposed", "accepted", "rejected"), 0, EVER):
        told.setdefault(event.subject, []).append(event)
    return [read(events) for events in told.values() if is_draft(events[0])]


def read(told: Sequence[Event]) -> Proposal:
    """Return the draft that some events, in the order of the log, tell of."""
    for event in told:
        if isinstance(event.body, Accepted):
            return Proposal(told[0], "accepted", event.body.memory)
    is_rejected = any(isinstance(event.body, Rejected) for event in told)
    return Proposal(told[0], "rejected" if is_rejected else "pending")


def accept(log: EventLog, id_: str, now: int) -> Event:
    """Record the memory that a draft asks for, as the person's own word; return its event.

    Said twice it is the same memory. Raise NotFound for an unknown draft.
    """
    proposed, since = _found(log, id_)
    for event in since:
        if isinstance(event.body, Accepted) and event.body.memory is not None:
            return log.about(event.body.memory)[0]
    body = proposed.body
    assert isinstance(body, Proposed)
    memory_id = derived_id(proposed.at, "accepted", id_)  # the same for two who accept it at once
    draft = msgspec.convert(
        body.draft
        | {
            "id": memory_id,
            "source": "draft",
            "source_ids": body.source_ids,
            "context": body.because,
            "project": proposed.project,
            "session": proposed.session,
        },
        Draft,
    )
    memory = commands.recorded(draft, now)
    accepted = Event(new_id(now), now, Accepted(memory=memory.id), id_, proposed.project)
    return log.append([memory, accepted])[0].event


def reject(log: EventLog, id_: str, now: int, reason: str | None = None) -> Event:
    """Say no to a draft; raise NotFound for an unknown one, Conflict for an accepted one."""
    proposed, since = _found(log, id_)
    for event in since:
        if isinstance(event.body, Accepted):
            raise Conflict(f"{id_} was accepted: `mnemolog forget {event.body.memory}`")
        if isinstance(event.body, Rejected):
            return event
    rejected = Event(new_id(now), now, Rejected(reason=reason), id_, proposed.project)
    return log.append([rejected])[0].event


def _found(log: EventLog, id_: str) -> tuple[Event, list[Event]]:
    events = log.about(id_)
    if not events or not is_draft(events[0]):
        raise NotFound(f"no draft {id_!r}: `mnemolog lessons` lists them")
    return events[0], events[1:]
