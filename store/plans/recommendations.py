"""
Recommendations: changes to memories that wait for a person's yes or no. Nothing is applied unasked.

A yes applies the change as a plan, so it can be undone like any other; it is refused if its basis
has changed since. A change that a person rejected or undid is never proposed again.
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

About = tuple[What, frozenset[str]]  # a sort of change, and the memories it is about
State = Literal["pending", "outdated", "accepted", "undone", "rejected"]


class Change(msgspec.Struct, frozen=True):
    """The effect of a yes, as `draft` stores it: steps computed from the log up to `watermark`.

    The steps are empty if a memory of it was erased.
    """

    watermark: int = 0
    steps: tuple[Step, ...] = ()


class Recommendation(msgspec.Struct, frozen=True):
    """`because` is the reason; `plan` applied an accepted one. Outdated: its memories changed."""

    id: str
    at: int
    project: str | None
    what: What
    change: Change
    because: str
    source_ids: tuple[str, ...]
    state: State
    plan: str | None = None
    changed: tuple[str, ...] = ()  # since, if it is outdated


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
    """Return the changes a person rejected or undid: they are never proposed again."""
    return {
        _about(recommendation.what, recommendation.source_ids)
        for recommendation in recommendations
        if recommendation.state in ("rejected", "undone")
    }


def is_new(log: EventLog, event: Event, declined: Set[About]) -> bool:
    """Return True if a proposal was not made before, and was not rejected."""
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
    """Return the recommendation of an id's prefix; raise NotFound, or InvalidInput for several."""
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
    """Apply a recommendation as a plan; return it. Accepted twice it is applied once.

    Raise NotFound, Conflict if it was rejected, undone or erased, and PlanStale if a memory changed
    since.
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
    """Reject a recommendation; raise NotFound, Conflict if it was accepted."""
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
    """Return the plan of a recommendation."""
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
    """Return recommendations, marking pending ones as outdated if their basis has changed."""
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
    """Return the recommendation described by some events, in the order of the log; `undone` are the
    undone plans. It is never outdated here.
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
