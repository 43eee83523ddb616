"""
Plans: proposed, then applied exactly as they are, or refused where what they rest on has changed;
and undone.

All events of a plan are written at once, or none. Applied or undone a second time, nothing more
happens. One that a person rejected is not applied, and its steps are not proposed again.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Literal

import msgspec

from store.home.errors import Conflict, InvalidInput, NotFound, PlanStale
from store.home.instants import EVER, derived_id, new_id
from store.log import log_queries
from store.log.event_kinds import Applied, Planned, Rejected, Step, Undone
from store.log.event_log import EventLog
from store.log.events import Event, decode
from store.plans.staleness import changes_since, step_memory_ids

State = Literal["waiting", "applied", "undone", "rejected", "stale"]

MOST_STEPS = 1_000  # of one plan: a person is to look at it
_HASH = 10  # a ULID's letters from here on are those of its hash


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan and what became of it. `at` is when it was proposed, microseconds UTC.

    `because` says what has changed since, where it is stale.
    """

    id: str
    at: int
    body: Planned
    state: State
    project: str | None = None
    events: tuple[str, ...] = ()  # that carried it out
    because: tuple[str, ...] = ()


def propose(log: EventLog, planned: Planned, now: int, project: str | None = None) -> Plan:
    """Write a plan down for a person to look at; return it.

    The same plan again is the same, and so is one of the same steps that waits: a job that runs
    every night is answered once. Steps over MOST_STEPS are left for the next plan.
    """
    fitting = _steps_that_fit(planned.steps)
    if over := len(planned.steps) - fitting:
        planned = msgspec.structs.replace(
            planned, steps=planned.steps[:fitting], left=planned.left + over
        )
    if any(one.event not in _ALLOWED for one in planned.steps):
        raise InvalidInput(f"a plan may contain {', '.join(sorted(_ALLOWED))} only")
    digest = sha256(msgspec.json.encode((planned.watermark, planned.steps))).hexdigest()
    id_ = derived_id(0, "plan", planned.job, project or "", digest)[_HASH:]
    if (found := _find(log, id_) or _open_plan(log, planned, project)) is not None:
        return found
    event = log.append([Event(id_, now, planned, id_, project)])[0].event
    assert isinstance(event.body, Planned)  # as it was redacted
    return Plan(event.id, event.at, event.body, "waiting", project)


def _steps_that_fit(steps: Sequence[Step]) -> int:
    """Return how many steps a plan takes: none that records a memory without those that name it."""
    if len(steps) <= MOST_STEPS:
        return len(steps)
    made = {step.subject: at for at, step in enumerate(steps) if step.event == "recorded"}
    fitting = MOST_STEPS
    while True:
        cut = [
            at
            for id_ in step_memory_ids(steps[fitting:])
            if (at := made.get(id_, fitting)) < fitting
        ]
        if not cut:
            return fitting
        fitting = min(cut)


def every(log: EventLog) -> list[Plan]:
    """Return all plans, the newest first."""
    told: dict[str, list[Event]] = {}
    for event in log.job_events(("planned", "applied", "undone")):
        told.setdefault(event.subject, []).append(event)
    for event in log.events_between(("rejected",), 0, EVER):
        if event.subject in told:  # else of a recommendation, or of a draft
            told[event.subject].append(event)
    return _mark_stale(log, [_plan(events) for events in reversed(told.values())])


def newest(log: EventLog) -> list[Plan]:
    """Return each job's newest plan, the newest first."""
    told = [_plan_events(log, id_) for id_ in log_queries.newest_plan_ids(log)]
    return _mark_stale(log, [_plan(events) for events in told])


def find(log: EventLog, prefix: str) -> Plan:
    """Return the one plan whose id begins so; raise NotFound, or InvalidInput where several do."""
    wanted = prefix.upper()
    ids = log.ids_with_prefix(wanted, kinds=("planned",)) if wanted else []
    if len(ids) == 1 and (found := _find(log, ids[0])) is not None:
        return found
    if ids:
        raise InvalidInput(f"{prefix!r} could be {', '.join(ids)}: give more letters of the id")
    raise NotFound(f"no plan {prefix!r}: `mnemolog plans` lists them")


def apply(log: EventLog, id_: str, now: int) -> Plan:
    """Carry a plan out, all of it; return it.

    Raise NotFound, Conflict for one that was undone or rejected, and PlanStale, naming what has
    changed.
    """
    plan = find(log, id_)
    if plan.state == "applied":
        return plan
    if plan.state in ("undone", "rejected"):
        raise Conflict(f"plan {plan.id} was {plan.state}: make another")
    if plan.state == "stale":
        raise PlanStale(f"plan {plan.id} is stale: {'; '.join(plan.because)}: make another")
    events = events_of(plan.body, now)
    applied = Applied(events=tuple(event.id for event in events))
    # an id that follows from the plan: of two who apply it at once one is told of a conflict
    done = Event(derived_id(0, "applied", plan.id), now, applied, plan.id, plan.project)
    log.append([*events, done])
    return find(log, plan.id)


def events_of(planned: Planned, now: int) -> list[Event]:
    """Return the events that a plan would write if it were applied at a moment."""
    return [_event(one, now) for one in planned.steps]


def undo(log: EventLog, id_: str, now: int) -> Plan:
    """Take an applied plan back, so that the memory is what it would be without; return it.

    Raise NotFound, Conflict for one that was not applied, and PlanStale where somebody changed
    since what it made or changed: that would be lost.
    """
    plan = find(log, id_)
    if plan.state == "undone":
        return plan
    if plan.state != "applied":
        raise Conflict(f"plan {plan.id} was not applied: there is nothing to undo")
    own = set(plan.events)
    if because := changes_since(log, [plan.body]).reasons(plan.body, own):
        raise PlanStale(f"plan {plan.id} cannot be undone: {'; '.join(because)}")
    undone = Undone(events=plan.events)
    log.append([Event(derived_id(0, "undone", plan.id), now, undone, plan.id, plan.project)])
    return find(log, plan.id)


def reject(log: EventLog, id_: str, now: int, reason: str | None = None) -> Plan:
    """Say no to a plan: its steps are not proposed again; return it.

    Raise NotFound, and Conflict for one that was applied.
    """
    plan = find(log, id_)
    if plan.state in ("applied", "undone"):
        raise Conflict(f"plan {plan.id} was {plan.state}: `mnemolog plans undo` undoes one")
    if plan.state != "rejected":
        log.append([Event(new_id(now), now, Rejected(reason=reason), plan.id, plan.project)])
    return find(log, plan.id)


def new_steps(log: EventLog, steps: Sequence[Step]) -> list[Step]:
    """Return the steps but those that a person undid or rejected before, and those that rest on
    such a one.
    """
    told = log.job_events(("planned", "undone"))
    gone_plans = {event.subject for event in told if isinstance(event.body, Undone)}
    gone_plans |= {event.subject for event in log.events_between(("rejected",), 0, EVER)}
    declined = {
        _mark(step)
        for event in told
        if isinstance(event.body, Planned) and event.id in gone_plans
        for step in event.body.steps
    }
    kept = [step for step in steps if _mark(step) not in declined]
    gone = {step.subject for step in steps if step.event == "recorded"}
    gone -= {step.subject for step in kept}
    return [step for step in kept if gone.isdisjoint(step_memory_ids([step]))]


def changes_since_plan(log: EventLog, planned: Planned) -> tuple[str, ...]:
    """Return what changed since of what a plan rests on; nothing while it can be applied."""
    return changes_since(log, [planned]).reasons(planned)


def _mark(step: Step) -> tuple[str, str, str | None]:
    return step.event, step.subject, step.body.get("by")


def _open_plan(log: EventLog, planned: Planned, project: str | None) -> Plan | None:
    """Return the plan that a job made of the same steps and that still can be applied."""
    acts = _acts(planned)
    for event in reversed(log.job_events(("planned",))):
        body = event.body
        assert isinstance(body, Planned)
        if (body.job, event.project) == (planned.job, project) and _acts(body) == acts:
            plan = _find(log, event.id)
            if plan is not None and plan.state == "waiting":
                return plan
    return None


def _acts(planned: Planned) -> list[bytes]:
    """Return what the steps of a plan write, whatever the figures behind them."""
    steps = ((one.event, one.subject, one.body) for one in planned.steps)
    return [msgspec.json.encode(one) for one in steps]


def _find(log: EventLog, id_: str) -> Plan | None:
    told = _plan_events(log, id_)
    return _mark_stale(log, [_plan(told)])[0] if told else None


def _plan_events(log: EventLog, id_: str) -> list[Event]:
    """Return what tells of a plan; nothing where there is none."""
    kinds = Planned | Applied | Undone | Rejected
    return [event for event in log.events_for(id_) if isinstance(event.body, kinds)]


def _mark_stale(log: EventLog, found: Sequence[Plan]) -> list[Plan]:
    """Return plans, those that wait and rest on what has changed as stale ones."""
    said = changes_since(log, [one.body for one in found if one.state == "waiting"])
    return [
        replace(one, state="stale", because=because)
        if one.state == "waiting" and (because := said.reasons(one.body))
        else one
        for one in found
    ]


def _plan(told: Sequence[Event]) -> Plan:
    """Return the plan that some events, in the order of the log, tell of; never as a stale one."""
    first = told[0]
    body = first.body
    assert isinstance(body, Planned)
    plan = Plan(first.id, first.at, body, "waiting", first.project)
    for event in told[1:]:
        if isinstance(event.body, Applied):
            plan = Plan(plan.id, plan.at, body, "applied", plan.project, event.body.events)
        elif isinstance(event.body, Undone):
            plan = Plan(plan.id, plan.at, body, "undone", plan.project, plan.events)
        elif isinstance(event.body, Rejected) and plan.state == "waiting":
            plan = Plan(plan.id, plan.at, body, "rejected", plan.project)
    return plan


def _event(step: Step, now: int) -> Event:
    """Return the event of a step; one that records a memory has its id."""
    body = decode(step.event, msgspec.json.encode(step.body).decode())
    id_ = step.subject if step.event == "recorded" else new_id(now)
    return Event(id_, now, body, step.subject, step.project, step.session, None, step.trust)


_ALLOWED = frozenset(
    "recorded superseded archived staled restored revised linked judged adopted".split()
)
