"""
Recommendations: changes to memories that wait for a person's yes or no. Nothing is applied unasked.

A yes applies the change as a plan, so it can be undone like any other; it is refused where what it
rests on has changed since. What a person rejected, or took back, is never proposed again.
"""

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, Literal

import msgspec

from store.home.errors import Conflict, InvalidInput, NotFound
from store.home.instants import EVER, derived_id, new_id
from store.log import log_queries
from store.log.event_kinds import Accepted, Planned, Proposed, Rejected, Step, What
from store.log.event_log import EventLog
from store.log.events import Event
from store.memories.memory import Memory
from store.plans import plans
from store.plans.plans import Plan
from store.plans.staleness import changes_since

About = tuple[What, frozenset[str]]  # a sort of change, and of which memories
State = Literal["pending", "outdated", "accepted", "undone", "rejected"]

_HASH = 10  # a ULID's letters from here on are those of its hash


class Change(msgspec.Struct, frozen=True):
    """What a yes does, as `draft` holds it: steps made of the log up to `watermark`.

    None are left of one whose memory was erased.
    """

    watermark: int = 0
    steps: tuple[Step, ...] = ()


@dataclass(frozen=True, slots=True)
class Recommendation:
    """`because` says why; `plan` carried an accepted one out. Outdated: its memories changed."""

    id: str
    at: int
    project: str | None
    what: What
    change: Change
    because: str
    source_ids: tuple[str, ...]
    state: State
    plan: str | None = None
    changed: tuple[str, ...] = ()  # since, where it is outdated


def proposal(
    what: What, memories: Sequence[Memory], change: Change, because: str, now: int
) -> Event:
    """Return the event that recommends a change of some memories, without writing it.

    It is the same for the same change of memories that did not change since.
    """
    parts = (f"{one.id} {one.updated_at}" for one in sorted(memories, key=lambda one: one.id))
    id_ = derived_id(0, "recommend", what, *parts)[_HASH:]
    draft: dict[str, Any] = msgspec.to_builtins(change)
    ids = tuple(one.id for one in memories)
    body = Proposed(what=what, draft=draft, because=because, source_ids=ids)
    return Event(id_, now, body, id_, memories[0].project)


def rejections(known: Iterable[Recommendation]) -> set[About]:
    """Return what a person said no to, or took back: it is never proposed again."""
    return {
        _about(one.what, one.source_ids) for one in known if one.state in ("rejected", "undone")
    }


def is_new(log: EventLog, event: Event, declined: Set[About]) -> bool:
    """Return whether a proposal was not made before, and nobody said no to it."""
    body = event.body
    assert isinstance(body, Proposed)
    return _about(body.what, body.source_ids) not in declined and not log.present_ids([event.id])


def every(log: EventLog) -> list[Recommendation]:
    """Return all recommendations, the newest first."""
    told: dict[str, list[Event]] = {}
    for event in log.events_between(("proposed", "accepted", "rejected"), 0, EVER):
        told.setdefault(event.subject, []).append(event)
    undone = log_queries.subjects_by_kind(log, ("undone",))["undone"]
    read = (_read(events, undone) for events in told.values())
    found = _mark_outdated(log, [one for one in read if one])
    return sorted(found, key=lambda one: (-one.at, one.id))


def find(log: EventLog, prefix: str) -> Recommendation:
    """Return the one whose id begins so; raise NotFound, or InvalidInput where several do."""
    told = log.events_for(prefix.upper()) if prefix else []
    if told and (one := _read(told, log_queries.subjects_by_kind(log, ("undone",))["undone"])):
        return _mark_outdated(log, [one])[0]
    found = [one for one in every(log) if prefix and one.id.startswith(prefix.upper())]
    if len(found) == 1:
        return found[0]
    if found:
        ids = ", ".join(one.id for one in found)
        raise InvalidInput(f"{prefix!r} could be {ids}: give more letters of the id")
    raise NotFound(f"no recommendation {prefix!r}: `mnemolog recommendations` lists them")


def accept(log: EventLog, prefix: str, now: int) -> Plan:
    """Do what is recommended, as a plan; return it. Said twice it is done once.

    Raise NotFound, Conflict for one that was rejected, undone or erased, and PlanStale where a
    memory changed since.
    """
    found = find(log, prefix)
    if found.state == "rejected":
        raise Conflict(f"{found.id} was rejected: nothing is done")
    if not found.change.steps:
        raise Conflict(f"the memory that {found.id} is about was erased: nothing is done")
    plan = plans.propose(log, plan_of(found), now, found.project)
    done = plans.apply(log, plan.id, now, accepted=True)
    if found.plan is None:
        log.append([Event(new_id(now), now, Accepted(plan=plan.id), found.id, found.project)])
    return done


def reject(log: EventLog, prefix: str, now: int, reason: str | None = None) -> Recommendation:
    """Say no; raise NotFound, Conflict for one that was accepted."""
    found = find(log, prefix)
    if found.plan is not None:
        raise Conflict(f"{found.id} was accepted: `mnemolog plans undo {found.plan}`")
    if found.state != "rejected":
        log.append([Event(new_id(now), now, Rejected(reason=reason), found.id, found.project)])
    return find(log, found.id)


def plan_of(one: Recommendation) -> Planned:
    """Return the plan of what is recommended."""
    return Planned(
        job="recommend",
        watermark=one.change.watermark,
        steps=one.change.steps,
        looked_at=len(one.source_ids),
        notes=(f"recommended: {one.because}",),
    )


def _mark_outdated(log: EventLog, found: Sequence[Recommendation]) -> list[Recommendation]:
    """Return recommendations, those that wait and rest on what has changed as outdated ones."""
    said = changes_since(log, [plan_of(one) for one in found if one.state == "pending"])

    def mark(one: Recommendation) -> Recommendation:
        changed = said.reasons(plan_of(one)) if one.state == "pending" else ()
        is_gone = one.state == "pending" and not one.change.steps
        return replace(one, state="outdated", changed=changed) if changed or is_gone else one

    return list(map(mark, found))


def _read(told: Sequence[Event], undone: Set[str]) -> Recommendation | None:
    """Return the recommendation that some events, in the order of the log, tell of; `undone` are
    the plans that were taken back. It is never outdated here.
    """
    first, body = told[0], told[0].body
    if not isinstance(body, Proposed) or body.what == "lesson":
        return None
    change = msgspec.convert(body.draft, Change)
    because = body.because or ""
    found = Recommendation(
        first.id, first.at, first.project, body.what, change, because, body.source_ids, "pending"
    )
    for event in told[1:]:
        if isinstance(event.body, Rejected):
            return replace(found, state="rejected")
        if isinstance(event.body, Accepted) and event.body.plan is not None:
            state: State = "undone" if event.body.plan in undone else "accepted"
            return replace(found, state=state, plan=event.body.plan)
    return found


def _about(what: What, ids: Sequence[str]) -> About:
    return what, frozenset(ids)
