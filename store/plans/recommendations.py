"""
Recommendations: changes to memories that wait for a person's yes or no. Nothing is applied unasked.

A yes applies the change as a plan, so it can be undone like any other; it is refused where what it
rests on has changed since. What a person rejected, or took back, is never proposed again.
"""

from collections.abc import Iterable, Sequence, Set
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from store.home.errors import Conflict, InvalidInput, NotFound
from store.home.instants import new_id
from store.log import log_queries
from store.log.event_kinds import Accepted, Planned, Proposed, Rejected, Step, What
from store.log.event_log import EventLog
from store.log.events import Event
from store.memories.memory import Memory
from store.plans import plans
from store.plans.lesson_proposals import histories
from store.plans.plans import Plan
from store.plans.staleness import changes_since
from store.plans.steps import content_id

About = tuple[What, frozenset[str]]  # a sort of change, and of which memories
State = Literal["pending", "outdated", "accepted", "undone", "rejected"]


class Change(msgspec.Struct, frozen=True):
    """What a yes does, as `draft` holds it: steps made of the log up to `watermark`.

    None are left of one whose memory was erased.
    """

    watermark: int = 0
    steps: tuple[Step, ...] = ()


class Recommendation(msgspec.Struct, frozen=True):
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
    parts = (
        f"{memory.id} {memory.updated_at}"
        for memory in sorted(memories, key=lambda memory: memory.id)
    )
    id_ = content_id("recommend", what, *parts)
    draft: dict[str, Any] = msgspec.to_builtins(change)
    ids = tuple(memory.id for memory in memories)
    body = Proposed(what=what, draft=draft, because=because, source_ids=ids)
    return Event(id_, now, body, id_, memories[0].project)


def rejections(recommendations: Iterable[Recommendation]) -> set[About]:
    """Return the changes a person rejected or took back: they are never proposed again."""
    return {
        _about(recommendation.what, recommendation.source_ids)
        for recommendation in recommendations
        if recommendation.state in ("rejected", "undone")
    }


def is_new(log: EventLog, event: Event, declined: Set[About]) -> bool:
    """Return True if a proposal was not made before, and nobody said no to it."""
    body = event.body
    assert isinstance(body, Proposed)
    return _about(body.what, body.source_ids) not in declined and not log.present_ids([event.id])


def every(log: EventLog) -> list[Recommendation]:
    """Return all recommendations, the newest first."""
    undone = log_queries.subjects_by_kind(log, ("undone",))["undone"]
    read = (_read(events, undone) for events in histories(log))
    recommendations = _mark_outdated(
        log, [recommendation for recommendation in read if recommendation]
    )
    return sorted(
        recommendations, key=lambda recommendation: (-recommendation.at, recommendation.id)
    )


def find(log: EventLog, prefix: str) -> Recommendation:
    """Return the one whose id begins so; raise NotFound, or InvalidInput where several do."""
    events = log.events_for(prefix.upper()) if prefix else []
    if events and (
        recommendation := _read(events, log_queries.subjects_by_kind(log, ("undone",))["undone"])
    ):
        return _mark_outdated(log, [recommendation])[0]
    recommendations = [
        other for other in every(log) if prefix and other.id.startswith(prefix.upper())
    ]
    if len(recommendations) == 1:
        return recommendations[0]
    if recommendations:
        ids = ", ".join(other.id for other in recommendations)
        raise InvalidInput(f"{prefix!r} could be {ids}: give more letters of the id")
    raise NotFound(f"no recommendation {prefix!r}: `mnemolog recommendations` lists them")


def accept(log: EventLog, prefix: str, now: int) -> Plan:
    """Do what is recommended, as a plan; return it. Said twice it is done once.

    Raise NotFound, Conflict for one that was rejected, undone or erased, and PlanStale where a
    memory changed since.
    """
    recommendation = find(log, prefix)
    if recommendation.state == "rejected":
        raise Conflict(f"{recommendation.id} was rejected: nothing is done")
    if not recommendation.change.steps:
        raise Conflict(f"the memory that {recommendation.id} is about was erased: nothing is done")
    plan = plans.propose(log, plan_of(recommendation), now, recommendation.project)
    applied = plans.apply(log, plan.id, now, accepted=True)
    if recommendation.plan is None:
        body = Accepted(plan=plan.id)
        log.append([Event(new_id(now), now, body, recommendation.id, recommendation.project)])
    return applied


def reject(log: EventLog, prefix: str, now: int, reason: str | None = None) -> Recommendation:
    """Say no; raise NotFound, Conflict for one that was accepted."""
    recommendation = find(log, prefix)
    if recommendation.plan is not None:
        raise Conflict(
            f"{recommendation.id} was accepted: `mnemolog plans undo {recommendation.plan}`"
        )
    if recommendation.state != "rejected":
        body = Rejected(reason=reason)
        log.append([Event(new_id(now), now, body, recommendation.id, recommendation.project)])
    return find(log, recommendation.id)


def plan_of(recommendation: Recommendation) -> Planned:
    """Return the plan of what is recommended."""
    return Planned(
        job="recommend",
        watermark=recommendation.change.watermark,
        steps=recommendation.change.steps,
        looked_at=len(recommendation.source_ids),
        notes=(f"recommended: {recommendation.because}",),
    )


def _mark_outdated(
    log: EventLog, recommendations: Sequence[Recommendation]
) -> list[Recommendation]:
    """Return recommendations, those that wait and rest on what has changed as outdated ones."""
    pending = [other for other in recommendations if other.state == "pending"]
    changes = changes_since(log, [plan_of(recommendation) for recommendation in pending])

    def mark(recommendation: Recommendation) -> Recommendation:
        if recommendation.state != "pending":
            return recommendation
        changed = changes.reasons(plan_of(recommendation))
        if not changed and recommendation.change.steps:
            return recommendation
        return replace(recommendation, state="outdated", changed=changed)

    return list(map(mark, recommendations))


def _read(events: Sequence[Event], undone: Set[str]) -> Recommendation | None:
    """Return the recommendation that some events, in the order of the log, tell of; `undone` are
    the plans that were taken back. It is never outdated here.
    """
    first, body = events[0], events[0].body
    if not isinstance(body, Proposed) or body.what == "lesson":
        return None
    change = msgspec.convert(body.draft, Change)
    because = body.because or ""
    recommendation = Recommendation(
        first.id, first.at, first.project, body.what, change, because, body.source_ids, "pending"
    )
    for event in events[1:]:
        if isinstance(event.body, Rejected):
            return replace(recommendation, state="rejected")
        if isinstance(event.body, Accepted) and event.body.plan is not None:
            state: State = "undone" if event.body.plan in undone else "accepted"
            return replace(recommendation, state=state, plan=event.body.plan)
    return recommendation


def _about(what: What, ids: Sequence[str]) -> About:
    return what, frozenset(ids)
