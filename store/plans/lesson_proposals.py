"""
The lessons that wait for a person's yes: statements, lessons of agents, advice held back from
agents (`store.text.hazards`), and drafts made by earlier versions.

An accepted statement or lesson is superseded by a binding memory with the same text; a rejected one
is forgotten.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from store.home.errors import Conflict, NotFound
from store.home.instants import EVER, derived_id, moment, new_id
from store.log import commands
from store.log.commands import Draft
from store.log.event_kinds import (
    STATEMENT,
    Accepted,
    Author,
    Forgotten,
    Proposed,
    Recorded,
    RecordedKind,
    Rejected,
    Revised,
    Superseded,
)
from store.log.event_log import EventLog
from store.log.events import Event
from store.text.hazards import hazard
from store.text.text_features import RULE_KINDS

ACCEPTED, DRAFTED = "statement", "draft"  # of memories made from a statement, a draft
MADE_A_RULE = "accepted as a rule"  # why the statement was superseded
State = Literal["pending", "accepted", "rejected"]


class LessonDraft(msgspec.Struct, frozen=True):
    """A draft and its state; `memory` was recorded for it."""

    event: Event
    state: State
    memory: str | None = None


def is_draft(event: Event) -> bool:
    """Return True if an event proposes a lesson, and nothing else."""
    return isinstance(event.body, Proposed) and event.body.what == "lesson"


def every(log: EventLog) -> list[LessonDraft]:
    """Return all drafts, answered or not, in the order of the log."""
    return [read(events) for events in histories(log) if is_draft(events[0])]


def histories(log: EventLog) -> list[list[Event]]:
    """Return the events of each draft and recommendation, answers too, in the order of the log."""
    by_subject: dict[str, list[Event]] = {}
    for event in log.events_between(("proposed", "accepted", "rejected"), 0, EVER):
        by_subject.setdefault(event.subject, []).append(event)
    return list(by_subject.values())


def read(events: Sequence[Event]) -> LessonDraft:
    """Return the draft described by some events, in the order of the log."""
    for event in events:
        if isinstance(event.body, Accepted):
            return LessonDraft(events[0], "accepted", event.body.memory)
    is_rejected = any(isinstance(event.body, Rejected) for event in events)
    return LessonDraft(events[0], "rejected" if is_rejected else "pending")


def accept(log: EventLog, id_: str, now: int, author: Author | None = None) -> Event:
    """Record the memory that a statement or draft asks for, as the person's own word; return its
    event. `author` is `typed` if a person was seen to say yes: that alone raises an author.

    Accepted twice it is the same memory. Raise NotFound for an unknown one, Conflict for a
    statement that was forgotten.
    """
    first, since = _find(log, id_)
    memory_id = rule_id(first)
    if events := log.events_for(memory_id):
        return events[0]
    if isinstance(first.body, Recorded):
        return _accept_memory(log, first, since, memory_id, now, author)
    assert isinstance(first.body, Proposed)
    draft = msgspec.convert(
        first.body.draft
        | {
            "id": memory_id,
            "source": DRAFTED,
            "source_ids": first.body.source_ids,
            "context": first.body.because,
            "project": first.project,
            "session": first.session,
            "author": author,
        },
        Draft,
    )
    memory = commands.memory_event(draft, now)
    accepted = Event(new_id(now), now, Accepted(memory=memory.id), id_, first.project)
    return log.append([memory, accepted])[0].event


def _accept_memory(
    log: EventLog,
    stated: Event,
    since: Sequence[Event],
    memory_id: str,
    now: int,
    author: Author | None,
) -> Event:
    assert isinstance(stated.body, Recorded)
    if any(isinstance(event.body, Forgotten) for event in since[-1:]):
        raise Conflict(f"{stated.id} was taken back: `mnemolog restore {stated.id}` first")
    draft = Draft(
        id=memory_id,
        content=wording(stated, since),
        kind=accepted_kind(stated.body),
        source=ACCEPTED,
        source_ids=stated.body.source_ids,
        project=stated.project,
        session=stated.session,
        agent=stated.agent,
        author=author,
        created_at=moment(stated.at),
    )
    memory = commands.memory_event(draft, now)
    body = Superseded(by=memory.id, reason=MADE_A_RULE)
    given_way = Event(new_id(now), now, body, stated.id, stated.project)
    return log.append([memory, given_way])[0].event


def reject(log: EventLog, id_: str, now: int, reason: str | None = None) -> Event:
    """Forget a statement or reject a draft. Raise NotFound for an unknown one, Conflict for one
    that was accepted.
    """
    first, since = _find(log, id_)
    for event in since:
        if isinstance(event.body, Accepted):
            raise Conflict(f"{id_} was accepted: `mnemolog forget {event.body.memory}`")
        if isinstance(event.body, Rejected):
            return event
    if isinstance(first.body, Recorded):
        return commands.forget(log, id_, now, reason or "not meant to last")
    rejected = Event(new_id(now), now, Rejected(reason=reason), id_, first.project)
    return log.append([rejected])[0].event


def rule_id(first: Event) -> str:
    """Return the id of the memory that a statement or draft becomes, the same for all who accept
    it.
    """
    return derived_id(first.at, "accepted", first.id)


def rule_kind(text: str | None) -> RecordedKind:
    """Return the kind of memory that a statement becomes once accepted, by its insight type."""
    return _KINDS.get(text or "", "lesson")


def accepted_kind(body: Recorded) -> RecordedKind:
    """Return the kind of memory that a statement or lesson becomes once accepted."""
    if body.kind == STATEMENT:
        return rule_kind(body.insight_type)
    kind: RecordedKind = msgspec.convert(_lesson_kind(body), RecordedKind)
    return kind


def wording(first: Event, since: Sequence[Event]) -> str:
    """Return the text of a statement or lesson after its revisions."""
    bodies = [event.body for event in (first, *since)]
    texts = [body.content for body in bodies if isinstance(body, Recorded | Revised)]
    return [text for text in texts if text][-1]


def may_become_rule(event: Event) -> bool:
    """Return True if an event records words of the user from a prompt, or a lesson of an agent."""
    if not isinstance(event.body, Recorded):
        return False
    if event.body.kind == STATEMENT:
        return True
    return event.trust == "agent" and _lesson_kind(event.body) in RULE_KINDS


def is_held_advice(events: Sequence[Event]) -> bool:
    """Return True if the events of a memory are advice that is held back from agents."""
    is_memory = bool(events) and isinstance(events[0].body, Recorded)
    return is_memory and hazard(wording(events[0], events[1:])) is not None


def _lesson_kind(body: Recorded) -> str | None:
    return body.insight_type if body.kind == "insight" else body.kind


def _find(log: EventLog, id_: str) -> tuple[Event, list[Event]]:
    events = log.events_for(id_)
    is_known = bool(events) and (is_draft(events[0]) or may_become_rule(events[0]))
    if not is_known and not is_held_advice(events):
        raise NotFound(
            f"no statement, lesson of an agent or draft {id_!r}: `mnemolog lessons` lists them"
        )
    return events[0], events[1:]


# the kind of memory that a statement becomes once it binds
_KINDS: Mapping[str, RecordedKind] = {
    "rule": "lesson",
    "preference": "preference",
    "decision": "decision",
    "fact": "fact",
}
