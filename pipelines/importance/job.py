"""
importance: revises how much memories matter, where no person and no agent said how much.

Each run begins from what the memory was given when it was written, or from what a model says of it,
and adds what became of it since; so it does not drift, however often it runs. Small changes are
left alone, and one plan holds the greatest ones.
"""

from dataclasses import dataclass
from typing import Any

from pipelines.importance.scored import BATCH, MOST_BATCHES, Scored, scored
from pipelines.importance.signals import LEAST, Signals
from pipelines.jobs.context import Context
from pipelines.jobs.job import Job, Proposal
from store.log.event_kinds import Recorded, Revised, Step
from store.log.event_log import EventLog
from store.memories.memory import Memory
from store.plans import plans, steps

MOST = 200  # steps of a plan
_SHOWN = 200  # characters of a memory in its step
_WORDS = {"asks": "it asks and does not say", "orders": "a user says what always holds"}
_NAMES = {"recalled": "recalls", "ratings": "ratings", "supports": "memories that rest on it"}


@dataclass(frozen=True, slots=True)
class _Change:
    memory: Memory
    importance: float
    evidence: dict[str, Any]

    @property
    def size(self) -> float:
        return abs(self.importance - self.memory.importance)


def propose(context: Context) -> Proposal:
    """Return steps that set the importance of memories it is to be changed of by LEAST or more."""
    signals, own = Signals(context), _Own.of(context.log)
    of_model = own.said | scored(context, _askable(context, own))
    rows = {int(row) for row in signals.rows}
    living = set(context.living.tolist())
    before = (context.rows.row(id_) for id_ in (*of_model, *own.changed))
    rows |= living.intersection(row for row in before if row is not None)
    changes = sorted(
        (one for row in sorted(rows) if (one := _change(context, signals, row, of_model))),
        key=lambda one: (-one.size, one.memory.seq),
    )
    wanted = [one for one in changes if not own.is_given(context.log, one.memory.id)]
    notes = [f"{len(wanted) - MOST} more wait for the next run"] if len(wanted) > MOST else []
    return Proposal(
        tuple(map(_step, wanted[:MOST])), looked_at=len(context.living), notes=tuple(notes)
    )


def _change(
    context: Context, signals: Signals, row: int, of_model: dict[str, Scored]
) -> _Change | None:
    """Return the change of a row's importance; None where it is too small."""
    (memory,) = context.rows.take([row])
    said = of_model.get(memory.id)
    gain, evidence = signals.of(row, of_words=said is None)  # a model has read the words
    start = memory.unsaid_importance
    if said is not None:
        start = said.importance
        evidence |= {"model": said.model, "said": said.importance}
    found = round(min(1.0, max(0.0, start + gain)), 2)
    change = _Change(memory, found, evidence)
    return change if change.size >= LEAST - 1e-9 else None


def _step(change: _Change) -> Step:
    evidence = change.evidence
    told = [what for name, what in _WORDS.items() if name in evidence]
    told += [f"{evidence[name]} {what}" for name, what in _NAMES.items() if name in evidence]
    if "model" in evidence:
        told.insert(0, f"{evidence['model']} says {evidence['said']:g}")
    verb = "matters more" if change.importance > change.memory.importance else "matters less"
    why = f"{verb} than it was given: {', '.join(told) or 'what told of it is gone'}"
    revised = Revised(importance=change.importance, reason=why)
    text = change.memory.content[:_SHOWN]
    return steps.revise(change.memory, revised, why, text=text, **evidence)


def _askable(context: Context, own: "_Own") -> list[Memory]:
    """Return the newest living memories whose importance nobody gave, in order of recording."""
    if context.model is None:
        return []
    # enough for the batches of a run where most were asked about before
    newest = context.living[-_LOOKED_AT:]
    if len(newest) < len(context.living):  # a batch that the window cuts would be another each time
        newest = newest[newest // BATCH > newest[0] // BATCH]
    return [one for one in context.memories(newest) if not own.is_given(context.log, one.id)]


_LOOKED_AT = 10 * BATCH * MOST_BATCHES


@dataclass(frozen=True, slots=True)
class _Own:
    """What this job did before: to which memories, and what a model said of them.

    `passed` are the events that nobody else meant: its own, and those that were undone.
    """

    passed: frozenset[str]
    changed: frozenset[str]
    said: dict[str, Scored]

    @classmethod
    def of(cls, log: EventLog) -> "_Own":
        applied = [
            one
            for one in plans.every(log)
            if one.body.job == "importance" and one.state == "applied"
        ]
        done = [step for plan in reversed(applied) for step in plan.body.steps]
        return cls(
            passed=log.undone(log.head()).union(*(plan.events for plan in applied)),
            changed=frozenset(step.subject for step in done),
            said={  # the newest plan comes last
                step.subject: Scored(step.evidence["said"], step.evidence["model"])
                for step in done
                if "said" in step.evidence
            },
        )

    def is_given(self, log: EventLog, id_: str) -> bool:
        """Whether a person or an agent said how much a memory matters, at first or later."""
        return any(
            isinstance(event.body, Recorded | Revised) and event.body.importance is not None
            for event in log.about(id_)
            if event.id not in self.passed
        )


JOB = Job("importance", "revises how much memories matter, by what became of them", propose)
