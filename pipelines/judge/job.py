"""
The job judge: how recalls nobody rated turned out, by what was done in the two hours after them.

A recall is judged once its two hours, or its session, are over. One that tells of no session is
held against what was done in its project. What nothing tells of is judged 0, so that it waits no
longer.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from pipelines.jobs.context import Context
from pipelines.jobs.job import Job, Proposal
from pipelines.judge import asking
from pipelines.judge.signs import Sign, deeds, sign
from pipelines.route.tiers import tier_for
from store.home.errors import BudgetSpent, ModelError
from store.log.event_kinds import Acted, Judge, Judged, Made, Rated, Recalled, SessionTold, Step
from store.log.events import Event
from store.log.receipts import DAY_US, may_rate, pending
from store.memories.memory import Memory
from store.plans import steps
from store.text.text_features import MAY_RULE

DAYS = 14  # looked back
AFTER_US = 2 * 3_600 * 1_000_000  # of what was done


@dataclass
class Known:
    """What is known of memories while recalls are judged: how often each came in vain."""

    brought: Counter[str] = field(default_factory=Counter)
    used: set[str] = field(default_factory=set)

    def in_vain(self, id_: str) -> int:
        return 0 if id_ in self.used else self.brought[id_]


def propose(context: Context) -> Proposal:
    """Return a judgment for each recall that waits for one and is over."""
    since = context.now - DAYS * DAY_US
    waiting = [
        one
        for one in pending(context.log, since, context.now + 1)
        if context.project is None or one.project in (None, context.project)
    ]
    known = _known(context, since)
    found: list[Step] = []
    asks = context.model is not None
    elsewhere = context.log.told(("action", "followed"), since, context.now + 1) if waiting else []
    for recall in waiting:
        after = _after(context, recall, elsewhere)
        if not _is_over(recall, after, context.now):
            continue
        step, asks = _judged(context, recall, after, known, asks=asks)
        found.append(step)
    left = len(waiting) - len(found)
    notes = (f"{left} recalls are too young to be judged",) if left else ()
    return Proposal(tuple(found), len(waiting), notes)


def _judged(
    context: Context, recall: Event, after: Sequence[Event], known: Known, *, asks: bool
) -> tuple[Step, bool]:
    """Return the judgment of a recall, and whether a model may be asked of the next one."""
    body = recall.body
    assert isinstance(body, Recalled)
    done = deeds(after)
    found = (context.rows.find(hit.id) for hit in body.hits)
    memories = [one for one in found if one is not None and one.content]  # but what was erased
    signs = {
        one.id: told
        for one in memories
        if (told := sign(one, done, known.in_vain(one.id))) is not None
    }
    by: Judge = "heuristic"
    made: Made | None = None
    if asks and not any(one.verdict > 0 for one in signs.values()):
        opinions, made, asks = _opinions(context, body, memories, after)
        signs = {id_: one for id_, one in opinions.items() if one.verdict} | signs
        by = "model" if made is not None else by
    known.used |= {id_ for id_, one in signs.items() if one.verdict > 0}
    judged = Judged(
        verdicts={hit.id: signs[hit.id].verdict if hit.id in signs else 0.0 for hit in body.hits},
        by=by,
        evidence={id_: one.evidence for id_, one in signs.items()},
        made=made,
    )
    return steps.judge(recall.id, judged, _why(signs)), asks


def _opinions(
    context: Context, body: Recalled, memories: Sequence[Memory], after: Sequence[Event]
) -> tuple[dict[str, Sign], Made | None, bool]:
    """Return what a model says, its lineage, and whether it may be asked again."""
    trusted = [one for one in memories if one.trust in MAY_RULE]
    acted = [one for one in after if isinstance(one.body, Acted) and one.trust in MAY_RULE]
    if context.model is None or not trusted or not acted:
        return {}, None, True
    tier = tier_for(context, body.route.state if body.route else None)
    try:
        opinions, answer = asking.asked(context.model, body.query, trusted, acted, tier)
    except BudgetSpent:
        return {}, None, False
    except ModelError:
        return {}, None, True
    return opinions, answer.made("judge"), True


def _known(context: Context, since: int) -> Known:
    """Return how often the memories were brought lately, and which were of use."""
    known = Known()
    for event in context.log.told(("recalled", "rated"), since, context.now + 1):
        if isinstance(event.body, Recalled):
            known.brought.update({hit.id for hit in event.body.hits})
        elif isinstance(event.body, Rated) and event.body.verdict > 0 and may_rate(event):
            known.used.add(event.subject)
    gone = context.log.undone(context.log.head())
    for event in context.log.of_jobs(("judged",)):
        if isinstance(event.body, Judged) and event.at >= since and event.id not in gone:
            known.used |= {id_ for id_, one in event.body.verdicts.items() if one > 0}
    return known


def _after(context: Context, recall: Event, elsewhere: Sequence[Event]) -> list[Event]:
    """Return what happened after a recall in its session; where it tells of none, what of all that
    was done `elsewhere` was done in its project.
    """
    until = recall.at + AFTER_US
    if recall.session is not None:
        told = context.log.of_session(recall.session, recall.seq)
        return [one for one in told if one.at < until or isinstance(one.body, SessionTold)]
    return [
        one
        for one in elsewhere
        if one.seq > recall.seq and one.at < until and one.project == recall.project
    ]


def _is_over(recall: Event, after: Sequence[Event], now: int) -> bool:
    ended = any(isinstance(one.body, SessionTold) and one.body.stage == "ended" for one in after)
    return ended or now >= recall.at + AFTER_US


def _why(signs: dict[str, Sign]) -> str:
    def said() -> Iterator[str]:
        for id_, one in sorted(signs.items(), key=lambda pair: -abs(pair[1].verdict)):
            yield f"{id_} {one.verdict:+.2f}: {one.evidence}"

    return "; ".join(list(said())[:3]) or "nothing tells of it"


JOB = Job("judge", "judges recalls by what was done after them", propose)
