"""
Proposals: every change that waits for a person's decision, in one form; one accept, reject, undo.

A job's plan, a recommendation and a lesson (a statement or draft) are written as different events
and answered in the same way: the CLI, REST and the dashboard all call this module. A
recommendation's own plan is part of it, not another proposal.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from typing import Any, Literal

import msgspec

from store.home.errors import Conflict, NotFound
from store.log import commands, log_queries
from store.log.event_kinds import (
    Author,
    Erased,
    Forgotten,
    Maker,
    PlanCheck,
    Planned,
    Proposed,
    Recorded,
    ReplayDiff,
    Step,
    Superseded,
    What,
)
from store.log.event_log import EventLog
from store.log.events import Event
from store.plans import lesson_proposals, plans, recommendations
from store.plans.lesson_proposals import LessonDraft
from store.plans.plans import Plan
from store.plans.recommendations import Recommendation
from store.text.excerpt import one_line

Sort = Literal["plan", "recommendation", "lesson"]
# applied: by its job alone; or by an older version, which did not record the person
State = Literal["waiting", "stale", "accepted", "applied", "rejected", "undone"]

_STATES: Mapping[str, State] = {
    "waiting": "waiting",
    "pending": "waiting",
    "stale": "stale",
    "outdated": "stale",
    "applied": "applied",
    "accepted": "accepted",
    "rejected": "rejected",
    "undone": "undone",
}
_LONGEST = 200  # characters of a title
VERBS = {
    "recorded": "new",
    "superseded": "replaced",
    "archived": "archived",
    "staled": "stale",
    "restored": "current again",
    "revised": "changed",
    "linked": "linked",
    "judged": "judged",
    "adopted": "served",
    "configured": "set",
}
# the fields of a new memory that a person is shown
_SHOWN = ("content", "kind", "context", "action", "result", "tags", "key", "value", "importance")
_TITLES: Mapping[What, str] = {
    "archive": "archive",
    "merge": "merge",
    "promote": "raise importance",
    "reword": "reword",
}


class Change(msgspec.Struct, frozen=True):
    """A field of a memory before and after; None if it has no value, or had none."""

    field: str
    before: Any
    after: Any


class Changed(msgspec.Struct, frozen=True):
    """The effect of a yes on one memory. `text` is its text if that does not change."""

    verb: str
    event: str
    subject: str
    why: str
    text: str | None
    changes: tuple[Change, ...]
    other: str | None = None  # the memory that replaces it, or that it is linked to
    relation: str | None = None
    evidence: Mapping[str, Any] = {}
    answer: State = "waiting"  # of this step alone


class Proposal(msgspec.Struct, frozen=True):
    """`at` is when it was proposed, microseconds UTC; `because` the reasons, `stale_because` the
    changes since. `plan` carried it out, or would; `memory` was recorded for it. `left` is the
    number of steps left for the next plan. `applied` and `rejected` are the positions in `made`
    that were answered one by one.
    """

    id: str
    sort: Sort
    job: Maker | None
    state: State
    at: int
    project: str | None
    title: str
    because: tuple[str, ...]
    made: tuple[Step, ...]  # the effects of a yes, as stored
    stale_because: tuple[str, ...] = ()
    plan: str | None = None
    memory: str | None = None
    left: int = 0
    model: str | None = None
    cost_usd: float = 0.0
    applied: frozenset[int] = frozenset()
    rejected: frozenset[int] = frozenset()
    replay: ReplayDiff | None = None
    checks: tuple[PlanCheck, ...] = ()
    forced: tuple[str, ...] = ()  # the checks that failed and that a person overrode


def every(log: EventLog, state: State | None = None, sort: Sort | None = None) -> list[Proposal]:
    """Return the proposals, of a state and sort or of all, the newest first."""
    proposals: list[Proposal] = []
    if sort in (None, "plan"):
        every_plan = plans.every(log, with_bulk=state != "waiting")
        proposals += [_plan_proposal(plan) for plan in every_plan if plan.body.job != "recommend"]
    if sort in (None, "recommendation"):
        proposals += map(_recommendation_proposal, recommendations.every(log))
    if sort in (None, "lesson"):
        drafts = lesson_proposals.every(log)
        forgotten = _ids_forgotten(log, [draft.memory for draft in drafts if draft.memory])
        proposals += [_draft_proposal(draft, forgotten) for draft in drafts]
    proposals.sort(key=lambda proposal: (-proposal.at, proposal.id))
    return [proposal for proposal in proposals if state in (None, proposal.state)]


def find(log: EventLog, id_: str) -> Proposal:
    """Return the proposal of an id; raise NotFound."""
    events = log.events_for(id_)
    body = events[0].body if events else None
    if isinstance(body, Planned):
        return _plan_proposal(plans.find(log, id_))
    if isinstance(body, Proposed):
        if body.what == "lesson":
            draft = lesson_proposals.read(events)
            forgotten = _ids_forgotten(log, [draft.memory] if draft.memory else [])
            return _draft_proposal(draft, forgotten)
        return _recommendation_proposal(recommendations.find(log, id_))
    is_lesson = bool(events) and lesson_proposals.may_become_rule(events[0])
    if is_lesson or lesson_proposals.is_held_advice(events):
        return _statement_proposal(log, events)
    raise NotFound(f"no proposal {id_!r}")


def accept(
    log: EventLog,
    id_: str,
    now: int,
    chosen: Collection[int] | None = None,
    *,
    force: bool = False,
    author: Author | None = None,
) -> Proposal:
    """Apply a proposal, all of it or none, or the `chosen` steps of a plan by their position;
    return it. Repeating it changes nothing. `author` is as in `lesson_proposals.accept`.

    Raise NotFound, Conflict if it was rejected or undone, PlanStale if its basis has changed,
    PlanRefused if a check failed and `force` is not set, Conflict if steps are chosen that cannot
    be.
    """
    proposal = find(log, id_)
    _check_choice(proposal, chosen)
    match proposal.sort:
        case "plan":
            plans.apply(log, id_, now, chosen=chosen, accepted=True, force=force)
        case "recommendation":
            recommendations.accept(log, id_, now)
        case "lesson":
            if proposal.state in ("rejected", "undone"):
                raise Conflict(f"draft {id_} was {proposal.state}: record the memory yourself")
            lesson_proposals.accept(log, id_, now, author)
    return find(log, id_)


def reject(
    log: EventLog,
    id_: str,
    now: int,
    reason: str | None = None,
    chosen: Collection[int] | None = None,
) -> Proposal:
    """Reject a proposal, or the `chosen` steps of a plan, so that the same is not proposed again;
    return it. Repeating it changes nothing. Raise NotFound, Conflict if it was accepted, and
    Conflict if steps are chosen that cannot be.
    """
    proposal = find(log, id_)
    _check_choice(proposal, chosen)
    match proposal.sort:
        case "plan":
            plans.reject(log, id_, now, reason, chosen=chosen)
        case "recommendation":
            recommendations.reject(log, id_, now, reason)
        case "lesson":
            lesson_proposals.reject(log, id_, now, reason)
    return find(log, id_)


def _check_choice(proposal: Proposal, chosen: Collection[int] | None) -> None:
    if chosen is not None and proposal.sort != "plan":
        raise Conflict(f"a {proposal.sort} is answered as a whole: leave the steps out")


def undo(log: EventLog, id_: str, now: int) -> Proposal:
    """Undo the accepted steps of a proposal, or those applied by its job; return it. Repeating it
    changes nothing.

    Raise NotFound, Conflict if nothing of it was accepted, PlanStale if its results have changed
    since.
    """
    proposal = find(log, id_)
    if proposal.state not in ("accepted", "applied", "undone") and not proposal.applied:
        raise Conflict(f"proposal {id_} was not accepted: there is nothing to undo")
    if proposal.plan is not None:
        plans.undo(log, proposal.plan, now)
    elif proposal.memory is not None and proposal.state == "accepted":
        commands.forget(log, proposal.memory, now, "its proposal was taken back")
    return find(log, id_)


def _plan_proposal(plan: Plan) -> Proposal:
    body = plan.body
    return Proposal(
        id=plan.id,
        sort="plan",
        job=body.job,
        state="accepted" if plan.state == "applied" and plan.accepted else _STATES[plan.state],
        at=plan.at,
        project=plan.project,
        title=_title(body),
        because=body.notes,
        made=body.steps,
        stale_because=plan.because,
        plan=plan.id,
        left=body.left,
        model=body.model,
        cost_usd=body.cost_usd,
        applied=plan.applied,
        rejected=plan.rejected,
        replay=body.replay,
        checks=body.checks,
        forced=plan.forced,
    )


def _recommendation_proposal(recommendation: Recommendation) -> Proposal:
    texts = filter(None, map(_text_of, map(_change_of, recommendation.change.steps)))
    text = next(texts, "a memory that was erased")
    return Proposal(
        id=recommendation.id,
        sort="recommendation",
        job="recommend",
        state=_STATES[recommendation.state],
        at=recommendation.at,
        project=recommendation.project,
        title=one_line(f"{_TITLES[recommendation.what]}: {text}", _LONGEST),
        because=(recommendation.because,) if recommendation.because else (),
        made=recommendation.change.steps,
        stale_because=recommendation.changed,
        plan=recommendation.plan,
    )


def _draft_proposal(draft: LessonDraft, forgotten: Set[str]) -> Proposal:
    body = draft.event.body
    assert isinstance(body, Proposed)
    because = (body.because,) if body.because else ()
    memory = {name: body.draft.get(name) for name in ("content", "kind")}
    return Proposal(
        id=draft.event.id,
        sort="lesson",
        job=None,
        state="undone" if draft.memory in forgotten else _STATES[draft.state],
        at=draft.event.at,
        project=draft.event.project,
        title=one_line(str(memory["content"]), _LONGEST),
        because=because,
        made=(
            Step(
                event="recorded",
                subject=draft.memory or draft.event.id,
                body=memory,
                why="; ".join(because),
            ),
        ),
        memory=draft.memory,
    )


def _statement_proposal(log: EventLog, events: Sequence[Event]) -> Proposal:
    first, rule_id = events[0], lesson_proposals.rule_id(events[0])
    assert isinstance(first.body, Recorded)
    text = lesson_proposals.wording(first, events[1:])
    kind = lesson_proposals.accepted_kind(first.body)
    memory = rule_id if log.present_ids([rule_id]) else None
    return Proposal(
        id=first.id,
        sort="lesson",
        job=None,
        state=_state_of_statement(log, events, memory),
        at=first.at,
        project=first.project,
        title=one_line(text, _LONGEST),
        because=(),
        made=(
            Step(
                event="recorded",
                subject=memory or first.id,
                body={"content": text, "kind": kind},
                why="",
            ),
        ),
        memory=memory,
    )


def _state_of_statement(log: EventLog, events: Sequence[Event], memory: str | None) -> State:
    if memory is not None:
        return "undone" if _ids_forgotten(log, [memory]) else "accepted"
    match events[-1].body:
        case Forgotten() | Erased():
            return "rejected"
        case Superseded():
            return "stale"
    return "waiting"


def _ids_forgotten(log: EventLog, ids: Sequence[str]) -> set[str]:
    """Return those of some memories that were forgotten or erased, and not restored since."""
    changes = log_queries.changes_of(log, ids, ("forgotten", "erased", "restored"))
    last = {line.subject: line.kind for line in changes}
    return {id_ for id_, kind in last.items() if kind != "restored"}


def _change_of(step: Step, answer: State = "waiting") -> Changed:
    """Return the effect of a step on one memory, field by field."""
    text: str | None = step.before.get("content")
    match step.event:
        case "recorded":
            text, changes = None, _fields(step, _SHOWN)
        case "revised":
            words = step.evidence.get("text")
            text = words if isinstance(words, str) else text
            changes = _fields(step, [name for name in step.body if name != "reason"])
        case "adopted":
            changes = _fields(step, ("policy",))
        case "configured":
            value = step.body["value"]
            changes = (Change(step.body["name"], step.before.get("value"), value),)
        case "judged":
            changes = _fields(step, ("verdicts",))
        case "superseded" | "archived" | "staled":
            after = step.evidence.get("by_says", step.evidence.get("kept"))
            changes = (Change("content", text, after),)
            text = None
        case "restored":
            text, changes = None, (Change("content", None, text),)
        case _:
            changes = ()
    return Changed(
        verb=VERBS[step.event],
        event=step.event,
        subject=step.subject,
        why=step.why,
        text=text,
        changes=changes,
        other=step.body.get("target") or (None if step.event == "judged" else step.body.get("by")),
        relation=step.body.get("relation"),
        evidence=step.evidence,
        answer=answer,
    )


def _fields(step: Step, names: Iterable[str]) -> tuple[Change, ...]:
    return tuple(
        Change(name, step.before.get(name), step.body[name]) for name in names if name in step.body
    )


def _title(body: Planned) -> str:
    if body.job == "settings":
        set_ = (f"{step.body['name']} = {step.body['value']}" for step in body.steps)
        return one_line(f"settings: {', '.join(set_)}", _LONGEST)
    if body.job == plans.BULK:
        return one_line(body.notes[0], _LONGEST)
    counts = Counter(VERBS[step.event] for step in body.steps).most_common()
    return f"{body.job}: {', '.join(f'{count} {verb}' for verb, count in counts) or 'nothing'}"


def _text_of(changed: Changed) -> str | None:
    """Return the text that a step is about: the old one, else the new one."""
    values = [changed.text]
    for change in changed.changes:
        values += [change.before, change.after]
    return next((value for value in values if isinstance(value, str)), None)


def steps(proposal: Proposal, start: int = 0, most: int | None = None) -> tuple[Changed, ...]:
    """Return the effects of a yes, memory by memory, from a step on; up to `most`, or all."""
    end = len(proposal.made) if most is None else min(start + most, len(proposal.made))
    return tuple(_change_of(proposal.made[at], _answer(proposal, at)) for at in range(start, end))


def _answer(proposal: Proposal, at: int) -> State:
    if at in proposal.rejected and proposal.state != "undone":
        return "rejected"
    if at in proposal.applied and proposal.state in ("waiting", "stale"):
        return "accepted"
    return proposal.state
