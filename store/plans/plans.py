"""
Plans: proposed, then applied unchanged, or refused if their basis has changed; and undone.

A person may answer it step by step; it waits until each step has its answer. All events of an
answer are written at once, or none. Applying or undoing it a second time has no effect. Steps that
a person rejected are not applied, and not proposed again.
"""

from collections.abc import Collection, Iterable, Sequence
from hashlib import sha256
from typing import Final, Literal, NoReturn

import msgspec
from msgspec.structs import replace

from store.home.errors import Conflict, InvalidInput, NotFound, PlanRefused, PlanStale
from store.home.instants import EVER, derived_id, new_id
from store.log import log_queries
from store.log.event_kinds import (
    Applied,
    PlanCheck,
    Planned,
    Prompted,
    Rejected,
    ReplayDiff,
    Step,
    Undone,
)
from store.log.event_log import EventLog
from store.log.events import RECEIPTS, Event, decode
from store.plans import setting_changes
from store.plans.lesson_proposals import may_become_rule
from store.plans.staleness import changes_since, step_memory_ids
from store.plans.steps import content_id

State = Literal["waiting", "applied", "undone", "rejected", "stale"]

BULK: Final = "bulk"  # the job name of a plan made from one bulk command
FEWEST_BULK = 10  # memories: fewer are changed back by hand
MOST_STEPS = 1_000  # of one plan: a person has to review it


class Plan(msgspec.Struct, frozen=True):
    """A plan and its state. `at` is when it was proposed, microseconds UTC.

    `because` lists the changes that made it stale. `applied` and `rejected` are the answered steps,
    by position; `accepted`: a person agreed to some.
    """

    id: str
    at: int
    body: Planned
    state: State
    project: str | None = None
    events: tuple[str, ...] = ()  # that carried it out
    because: tuple[str, ...] = ()
    applied: frozenset[int] = frozenset()
    rejected: frozenset[int] = frozenset()
    accepted: bool = False
    forced: tuple[str, ...] = ()  # the checks that failed and that a person overrode

    @property
    def open(self) -> tuple[int, ...]:
        """The positions of the unanswered steps."""
        answered = self.applied | self.rejected
        return tuple(at for at in range(len(self.body.steps)) if at not in answered)

    @property
    def failed(self) -> tuple[PlanCheck, ...]:
        """The failed checks: the plan can be applied only by force."""
        return tuple(check for check in self.body.checks if not check.passed)

    @property
    def done(self) -> tuple[Step, ...]:
        """The applied steps, in order; also those of a plan that was undone."""
        return tuple(self.body.steps[at] for at in sorted(self.applied))


def propose(log: EventLog, planned: Planned, now: int, project: str | None = None) -> Plan:
    """Record a plan for a person to review; return it.

    The same plan again is the same, and so is a waiting plan with the same steps: a job that runs
    every night is answered once. Steps over MOST_STEPS are left for the next plan.
    """
    fitting = _steps_that_fit(planned.steps)
    if over := len(planned.steps) - fitting:
        planned = msgspec.structs.replace(
            planned, steps=planned.steps[:fitting], left=planned.left + over
        )
    if any(step.event not in _ALLOWED for step in planned.steps):
        raise InvalidInput(f"a plan may contain {', '.join(sorted(_ALLOWED))} only")
    digest = sha256(msgspec.json.encode((planned.watermark, planned.steps))).hexdigest()
    id_ = content_id("plan", planned.job, project or "", digest)
    if (plan := _find(log, id_) or _open_plan(log, planned, project)) is not None:
        return plan
    event = log.append([Event(id_, now, planned, id_, project)])[0].event
    assert isinstance(event.body, Planned)  # as it was redacted
    return Plan(event.id, event.at, event.body, "waiting", project)


def _steps_that_fit(steps: Sequence[Step]) -> int:
    """Return the number of steps that fit: none that records a memory without those naming it."""
    if len(steps) <= MOST_STEPS:
        return len(steps)
    makers = {step.subject: at for at, step in enumerate(steps) if step.event == "recorded"}
    fitting = MOST_STEPS
    while True:
        cut = [
            at
            for id_ in step_memory_ids(steps[fitting:])
            if (at := makers.get(id_, fitting)) < fitting
        ]
        if not cut:
            return fitting
        fitting = min(cut)


def every(log: EventLog, *, with_bulk: bool = True) -> list[Plan]:
    """Return all plans, the newest first.

    Without `with_bulk`, leave out the bulk changes, which never wait and name each event that they
    wrote.
    """
    histories = reversed(_histories(log, with_bulk=with_bulk))
    return _mark_stale(log, [_plan(events) for events in histories])


def _histories(log: EventLog, *, with_bulk: bool = True) -> list[list[Event]]:
    """Return the events of each plan, in the order of the log."""
    by_plan: dict[str, list[Event]] = {}
    for event in log.job_events(("planned",)):
        if with_bulk or not (isinstance(event.body, Planned) and event.body.job == BULK):
            by_plan[event.subject] = [event]
    for event in log.job_events(("applied", "undone"), subjects=list(by_plan)):
        by_plan[event.subject].append(event)
    for event in log.events_between(("rejected",), 0, EVER):
        if event.subject in by_plan:  # else of a recommendation, or of a draft
            by_plan[event.subject].append(event)
    return [sorted(events, key=lambda event: event.seq) for events in by_plan.values()]


def newest(log: EventLog) -> list[Plan]:
    """Return each job's newest plan, the newest first."""
    histories = [_plan_events(log, id_) for id_ in log_queries.newest_plan_ids(log)]
    return _mark_stale(log, [_plan(events) for events in histories])


def find(log: EventLog, prefix: str) -> Plan:
    """Return the plan whose id starts with `prefix`; raise NotFound, or InvalidInput for
    several.
    """
    wanted = prefix.upper()
    ids = log.ids_with_prefix(wanted, kinds=("planned",)) if wanted else []
    if len(ids) == 1 and (plan := _find(log, ids[0])) is not None:
        return plan
    if ids:
        raise InvalidInput(f"{prefix!r} could be {', '.join(ids)}: give more letters of the id")
    raise NotFound(f"no plan {prefix!r}: `mnemolog plans` lists them")


def count_memories(events: Iterable[Event]) -> int:
    """Return the number of memories that some events create or change."""
    changes = (
        event for event in events if event.kind not in RECEIPTS or isinstance(event.body, Prompted)
    )
    return len({event.subject for event in changes})


def keep_bulk(
    log: EventLog,
    notes: Sequence[str],
    events: Sequence[str],
    now: int,
    replay: ReplayDiff | None = None,
    checks: Sequence[PlanCheck] = (),
) -> Plan:
    """Record a bulk change whose events are in the log as an applied plan; return it.

    So it is listed, shown and undone as any other plan.
    """
    id_ = content_id("plan", BULK, *events)
    planned = Planned(
        job=BULK,
        watermark=log.head(),
        steps=(),
        looked_at=replay.asked if replay else 0,
        notes=tuple(notes),
        replay=replay,
        checks=tuple(checks),
    )
    applied = Applied(events=tuple(events), accepted=True)
    answer = Event(derived_id(0, "applied", id_), now, applied, id_)
    log.append([Event(id_, now, planned, id_), answer])
    return find(log, id_)


def apply(
    log: EventLog,
    id_: str,
    now: int,
    *,
    chosen: Collection[int] | None = None,
    accepted: bool = False,
    force: bool = False,
) -> Plan:
    """Carry out the unanswered steps of a plan, or the `chosen` ones; return the plan.

    A chosen step includes the steps that record the memories it names. `accepted`: a person agreed;
    `force`: apply despite failed checks, which the log keeps. Raise NotFound, Conflict for an
    unknown step and for a plan or step that was undone or rejected, PlanStale, naming the changes,
    and PlanRefused, naming the failed checks. A bulk change that was undone counts again.
    """
    plan = find(log, id_)
    if plan.state == "applied" and chosen is None:
        return plan
    if plan.state == "undone" and plan.body.job == BULK:
        log.append([Event(new_id(now), now, Applied(events=(), accepted=accepted), plan.id)])
        return find(log, plan.id)
    if plan.state in ("undone", "rejected"):
        raise Conflict(f"plan {plan.id} was {plan.state}: make another")
    wanted = (
        _with_makers(plan.body, _check_places(plan, chosen)) if chosen is not None else plan.open
    )
    if refused := plan.rejected.intersection(wanted):
        raise Conflict(f"step {min(refused) + 1} of plan {plan.id} was rejected")
    wanted = tuple(at for at in wanted if at not in plan.applied)
    if not wanted and plan.body.steps:
        return plan
    because = changes_since(log, [plan.body]).reasons(
        _with_steps(plan.body, wanted), set(plan.events)
    )
    because += setting_changes.stale_settings(log, _with_steps(plan.body, wanted))
    if because:
        raise PlanStale(f"plan {plan.id} is stale: {'; '.join(because)}: make another")
    if plan.failed and not force:
        refuse(plan)
    events = events_of(_with_steps(plan.body, wanted), now)
    if accepted:  # an agent's lesson that a person accepted is binding
        events = [
            replace(event, trust="user") if may_become_rule(event) else event for event in events
        ]
    applied = Applied(
        events=tuple(event.id for event in events),
        steps=None if wanted == plan.open else wanted,
        accepted=accepted,
        forced=tuple(check.name for check in plan.failed),
    )
    # an id derived from the plan: if two answer it at once, one gets a conflict
    so_far = (str(len(plan.applied)),) if plan.applied else ()
    answer = Event(derived_id(0, "applied", plan.id, *so_far), now, applied, plan.id, plan.project)
    setting_changes.keep_settings(log, _with_steps(plan.body, wanted))
    try:
        log.append([*events, answer])
    except BaseException:  # an interrupt too: config.toml must not differ from the log
        setting_changes.keep_settings(log, _with_steps(plan.body, wanted), is_undo=True)
        raise
    setting_changes.end_trial(log, plan.id)
    return find(log, plan.id)


def refuse(plan: Plan) -> NoReturn:
    """Raise PlanRefused, naming the failed checks of a plan."""
    reasons = "; ".join(f"{check.name}: {check.detail}" for check in plan.failed)
    raise PlanRefused(
        f"plan {plan.id} fails its checks: {reasons}. `mnemolog plans show {plan.id}` shows what "
        f"would change; `mnemolog plans apply {plan.id} --force` applies it all the same"
    )


def _check_places(plan: Plan, chosen: Collection[int]) -> tuple[int, ...]:
    """Return chosen steps in order; raise Conflict if there are none, or not in the plan."""
    places, count = tuple(sorted({*chosen})), len(plan.body.steps)
    if not places or not 0 <= places[0] <= places[-1] < count:
        raise Conflict(f"choose among the {count} steps of plan {plan.id}")
    return places


def _with_makers(planned: Planned, chosen: Iterable[int]) -> tuple[int, ...]:
    """Return the steps and the ones that record the memories they name, in order."""
    makers = {step.subject: at for at, step in enumerate(planned.steps) if step.event == "recorded"}
    places: set[int] = set()
    waiting = list(chosen)
    while waiting:
        at = waiting.pop()
        if at not in places:
            places.add(at)
            named = step_memory_ids([planned.steps[at]])
            waiting += [makers[id_] for id_ in named if id_ in makers]
    return tuple(sorted(places))


def _with_steps(planned: Planned, places: Iterable[int]) -> Planned:
    """Return a plan reduced to some of its steps."""
    steps = tuple(planned.steps[at] for at in places)
    return msgspec.structs.replace(planned, steps=steps)


def events_of(planned: Planned, now: int) -> list[Event]:
    """Return the events that applying a plan at a moment would write."""
    events: list[Event] = []
    for step in planned.steps:
        body = decode(step.event, msgspec.json.encode(step.body).decode())
        id_ = step.subject if step.event == "recorded" else new_id(now)
        whose = (step.project, step.session, None, step.trust)
        events.append(Event(id_, now, body, step.subject, *whose, author=step.author))
    return events


def undo(log: EventLog, id_: str, now: int) -> Plan:
    """Undo the applied steps of a plan, as if they had never been; return the plan.

    Waiting steps are closed with it. Raise NotFound, Conflict for a plan that was not applied, and
    PlanStale if its results were changed since: those changes would be lost. A bulk change loses
    nothing for good: applied again, it counts again.
    """
    plan = find(log, id_)
    if plan.state == "undone":
        return plan
    if plan.state != "applied" and not plan.applied:
        raise Conflict(f"plan {plan.id} was not applied: there is nothing to undo")
    applied = _with_steps(plan.body, sorted(plan.applied))
    because = changes_since(log, [applied]).reasons(applied, set(plan.events), is_undo=True)
    because += setting_changes.stale_settings(log, applied, is_undo=True)
    if because:
        raise PlanStale(f"plan {plan.id} cannot be undone: {'; '.join(because)}")
    setting_changes.keep_settings(log, applied, is_undo=True)
    undone = Undone(events=plan.events)
    # a bulk change may be undone more than once
    undone_id = new_id(now) if plan.body.job == BULK else derived_id(0, "undone", plan.id)
    log.append([Event(undone_id, now, undone, plan.id, plan.project)])
    return find(log, plan.id)


def reject(
    log: EventLog,
    id_: str,
    now: int,
    reason: str | None = None,
    *,
    chosen: Collection[int] | None = None,
) -> Plan:
    """Reject the unanswered steps of a plan, or the `chosen` ones, so that they are not proposed
    again; return the plan.

    Raise NotFound, and Conflict for an unknown step and for an applied one.
    """
    plan = find(log, id_)
    if plan.state in ("applied", "undone"):
        raise Conflict(f"plan {plan.id} was {plan.state}: `mnemolog plans undo` undoes one")
    wanted = plan.open
    if chosen is not None:
        wanted = _with_namers(plan.body, _check_places(plan, chosen))
    if applied := plan.applied.intersection(wanted):
        raise Conflict(f"step {min(applied) + 1} of plan {plan.id} was applied")
    wanted = tuple(at for at in wanted if at in plan.open)
    if plan.state != "rejected" and (wanted or not plan.body.steps):
        body = Rejected(reason=reason, steps=None if wanted == plan.open else wanted)
        log.append([Event(new_id(now), now, body, plan.id, plan.project)])
    setting_changes.end_trial(log, plan.id)
    return find(log, plan.id)


def _with_namers(planned: Planned, chosen: Iterable[int]) -> tuple[int, ...]:
    """Return steps and those that name the memories they would have recorded, in order."""
    places = set(chosen)
    records = {planned.steps[at].subject for at in places if planned.steps[at].event == "recorded"}
    for at, step in enumerate(planned.steps):  # a step names only memories recorded before it
        if at not in places and not records.isdisjoint(step_memory_ids([step])):
            places.add(at)
            records |= {step.subject} if step.event == "recorded" else set()
    return tuple(sorted(places))


def new_steps(log: EventLog, steps: Sequence[Step]) -> list[Step]:
    """Return the steps, except those that a person undid or rejected before and those that depend
    on them.
    """
    declined = {
        _mark(step)
        for plan in map(_plan, _histories(log))
        for at, step in enumerate(plan.body.steps)
        if plan.state == "undone" or at in plan.rejected
    }
    open_steps = [step for step in steps if _mark(step) not in declined]
    unrecorded = {step.subject for step in steps if step.event == "recorded"}
    unrecorded -= {step.subject for step in open_steps}
    return [step for step in open_steps if unrecorded.isdisjoint(step_memory_ids([step]))]


def _mark(step: Step) -> tuple[str, str, str | None]:
    return step.event, step.subject, step.body.get("by")


def _open_plan(log: EventLog, planned: Planned, project: str | None) -> Plan | None:
    """Return the plan of a job in which the same steps wait and can still be applied."""
    acts = _writes(planned)
    for event in reversed(log.job_events(("planned",))):
        body = event.body
        assert isinstance(body, Planned)
        if (body.job, event.project) != (planned.job, project) or not {*acts} <= {*_writes(body)}:
            continue
        plan = _find(log, event.id)
        if plan is None or plan.state != "waiting":
            continue
        if _writes(_with_steps(plan.body, plan.open)) == acts:
            return plan
    return None


def _writes(planned: Planned) -> list[bytes]:
    """Return the writes of a plan's steps, regardless of their figures."""
    steps = ((step.event, step.subject, step.body) for step in planned.steps)
    return [msgspec.json.encode(step) for step in steps]


def _find(log: EventLog, id_: str) -> Plan | None:
    events = _plan_events(log, id_)
    return _mark_stale(log, [_plan(events)])[0] if events else None


def _plan_events(log: EventLog, id_: str) -> list[Event]:
    """Return the events of a plan; none if there is no plan."""
    kinds = Planned | Applied | Undone | Rejected
    return [event for event in log.events_for(id_) if isinstance(event.body, kinds)]


def _mark_stale(log: EventLog, plans: Sequence[Plan]) -> list[Plan]:
    """Return plans, marking waiting ones as stale if their basis has changed."""
    changes = changes_since(log, [plan.body for plan in plans if plan.state == "waiting"])

    def mark(plan: Plan) -> Plan:
        if plan.state != "waiting":
            return plan
        rest = _with_steps(plan.body, plan.open)
        because = changes.reasons(rest, set(plan.events)) + setting_changes.stale_settings(
            log, rest
        )
        return replace(plan, state="stale", because=because) if because else plan

    return list(map(mark, plans))


def _plan(events: Sequence[Event]) -> Plan:
    """Return the plan described by some events, in the order of the log; never as a stale one."""
    first = events[0]
    body = first.body
    assert isinstance(body, Planned)
    plan = Plan(first.id, first.at, body, "waiting", first.project)
    for event in events[1:]:
        if isinstance(event.body, Applied):
            plan = replace(
                plan,
                events=plan.events + event.body.events,
                applied=plan.applied | _answered(plan, event.body.steps),
                accepted=plan.accepted or event.body.accepted,
                forced=plan.forced + event.body.forced,
            )
        elif isinstance(event.body, Rejected):
            plan = replace(plan, rejected=plan.rejected | _answered(plan, event.body.steps))
        elif isinstance(event.body, Undone):
            plan = replace(plan, state="undone")
            continue
        if not plan.open:
            is_applied = plan.applied or (isinstance(event.body, Applied) and not body.steps)
            plan = replace(plan, state="applied" if is_applied else "rejected")
    return plan


def _answered(plan: Plan, steps: Sequence[int] | None) -> frozenset[int]:
    return frozenset(plan.open if steps is None else set(steps).intersection(plan.open))


_ALLOWED = frozenset(
    "recorded superseded archived staled restored revised linked judged adopted configured".split()
)
