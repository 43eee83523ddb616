"""
The job `importance`: revises importance that was not set by a person or an agent.

Each run starts from the importance a memory was given when it was written, or from a model's score,
and adds what happened since; so repeated runs do not drift. Small changes are left out, and one
plan has the largest ones.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import log2
from typing import Any

import msgspec
import numpy as np

from pipelines.jobs import Context, Proposal, Rows
from pipelines.llm import prompt
from pipelines.llm.model_client import answered_calls
from pipelines.llm.prompt import make_prompt
from store.derived.feedback import Usage
from store.home.errors import BudgetSpent, ModelError
from store.log.event_kinds import Recorded, Revised, Step, Unit
from store.log.event_log import EventLog
from store.memories.memory import TOOL_TRUSTS, Memory
from store.memories.rows import Mask
from store.plans import plans, steps
from store.text.excerpt import plural

# Signals: a memory's history as an amount that its importance gains or loses.
#
# Ratings count most. A turn that only asks matters less than its answer; a user's "always" or
# "never" outlasts the talk around it. Links by people and agents show that something builds on a
# memory; derived memories show nothing, or jobs would feed on jobs. Frequent recalls count little,
# since importance itself causes recalls: alone they never change anything.

_OF_RATINGS = 0.3  # at most, either way
_OF_A_SUPPORT = 0.05  # each memory that is linked to it
_OF_SUPPORTS = 0.2  # at most
_OF_WORDS = 0.15  # lost by a question, gained by an order
_SAID = ("raw_turn", "fact", "context", "observation", "decision")  # kinds that may hold an order
_OF_USE = 0.1  # at most, and less than LEAST
_MANY = 64  # recalls: further ones count for nothing
_DOUBTS = 2.0  # ratings without effect that each memory starts with
LEAST = 0.15  # a change below it is not worth an event


@dataclass(frozen=True)
class Signals:
    """The signals of the memories of a context, by row."""

    context: Context

    @property
    def rows(self) -> Rows:
        """The rows of live memories with any signal, ascending."""
        used = {int(row) for row in self._usage.documents}
        every = used | self._supports.keys() | self._questions | self._orders
        return np.intersect1d(np.array(list(every), np.int64), self.context.live_rows)

    def of(self, row: int, *, of_words: bool) -> tuple[float, dict[str, Any]]:
        """Return the gain of a memory, negative for a loss, and the figures behind it.

        Without `of_words` its text is left out.
        """
        asks, orders = (of_words and row in rows for rows in (self._questions, self._orders))
        only = np.array([row], np.int64)
        recalled, ratings, verdicts = (
            int(self._usage.counts(name, only)[0]) for name in ("recalled", "ratings", "verdicts")
        )
        supports = self._supports[row]
        gain = _OF_RATINGS * (verdicts / 1_000) / (ratings + _DOUBTS)
        gain += min(_OF_SUPPORTS, _OF_A_SUPPORT * supports)
        gain += _OF_USE * min(1.0, log2(1 + recalled) / log2(1 + _MANY))
        gain += _OF_WORDS * (orders - asks)
        figures: dict[str, Any] = {
            "asks": asks,
            "orders": orders,
            "recalled": recalled,
            "ratings": ratings,
            "supports": supports,
        }
        if ratings:
            figures["verdict"] = round(verdicts / 1_000 / ratings, 2)
        return gain, {name: value for name, value in figures.items() if value}

    @cached_property
    def _questions(self) -> set[int]:
        return self._of_trait("asks", self.context.rows.equal("kind", ("raw_turn",)))

    @cached_property
    def _orders(self) -> set[int]:
        rows = self.context.rows
        return self._of_trait("rule", rows.equal("kind", _SAID) & rows.equal("trust", ("user",)))

    def _of_trait(self, name: str, among: Mask) -> set[int]:
        """Return the rows whose text has a trait of `store.text.text_features`."""
        has_trait = self.context.tables("sessions")["turns"].column(name).to_numpy() == 1
        return set(np.flatnonzero(has_trait & among).tolist())

    @cached_property
    def _usage(self) -> Usage:
        return Usage.open(self.context.tables("usage"))

    @cached_property
    def _supports(self) -> Counter[int]:
        """The number of live memories, without derived ones, that support each row."""
        rows, living = self.context.rows, set(self.context.live_rows.tolist())
        living -= set(rows.sources.documents.tolist())  # derived memories
        links: set[tuple[int, int]] = set()  # a row, and the row linked to it
        for edge in rows.edges.to_pylist():
            target, source = rows.row(edge["target"]), rows.row(edge["source"])
            if edge["relation"] != "conflict" and target is not None and source is not None:
                links.add((target, source))
        return Counter(row for row, other in links if other in living and other != row)


# The model step: scores for batches of neighbouring memories.
#
# A batch is asked about once while its texts stay the same: its prompt's digest is in the log. A
# memory's text could plead for itself, so text of a tool or the web never gains by a score.

PURPOSE = "importance"
BATCH = 20  # memories a question
MOST_BATCHES = 10  # a run
_LOOKED_AT = 10 * BATCH * MOST_BATCHES  # enough for a run where most were scored before
_LONGEST = 400  # characters of a memory
_INSTRUCTIONS = """
You look through the notes of a programmer's long-term memory, one JSON object a line. For each say
how much it will matter in later work on the same projects, from 0 to 1: 0.9 a rule or a decision
that binds all that follows, 0.5 a fact that may be looked up one day, 0.1 small talk or what is
over and done. Judge what a note says, not how urgently it says it. Give every `n` once.
"""


class Score(msgspec.Struct, frozen=True):
    n: int
    importance: Unit


class Scores(msgspec.Struct, frozen=True):
    scores: tuple[Score, ...]


@dataclass(frozen=True, slots=True)
class ModelScore:
    importance: float
    model: str


def model_scores(context: Context, past: "_PastRuns") -> dict[str, ModelScore]:
    """Return the model's scores by memory id; none without a model or for skipped memories."""
    if context.model is None:
        return {}
    scores: dict[str, ModelScore] = {}
    for batch in _new_batches(context, _memories_to_score(context, past)):
        context.report(f"importance: {len(batch)} memories before the model")
        try:
            answer = context.model.ask(PURPOSE, _INSTRUCTIONS, _data(batch), Scores, tier="cheap")
        except BudgetSpent:
            break
        except ModelError:
            continue  # these are judged by their signals alone; the call is in the log
        for score in answer.value.scores:
            if 1 <= score.n <= len(batch):
                memory = batch[score.n - 1]
                most = memory.unsaid_importance if memory.trust in TOOL_TRUSTS else 1.0
                scores[memory.id] = ModelScore(min(score.importance, most), answer.model)
    return scores


def _new_batches(context: Context, memories: Sequence[Memory]) -> Iterator[list[Memory]]:
    """Yield the batches not sent to the model before, the newest memories first."""
    answered = {call.prompt_sha256 for call in answered_calls(context.log)}
    batches: dict[int, list[Memory]] = {}  # by place in the log, so that they stay the same
    for memory in memories:
        batches.setdefault((context.rows.row(memory.id) or 0) // BATCH, []).append(memory)
    count = 0
    for number in sorted(batches, reverse=True):
        batch = batches[number]
        question = make_prompt(_INSTRUCTIONS, _data(batch), prompt.strict_schema(Scores))
        if question.sha256 in answered:
            continue
        yield batch
        count += 1
        if count == MOST_BATCHES:
            return


def _data(batch: Sequence[Memory]) -> str:
    return prompt.json_lines(
        {"n": n, "kind": memory.kind, "text": memory.content[:_LONGEST]}
        for n, memory in enumerate(batch, 1)
    )


MOST = 200  # steps of a plan
_SHOWN = 200  # characters of a memory in its step
_TRAITS = {"asks": "it asks and does not say", "orders": "a user says what always holds"}
_COUNTS = {"recalled": "recalls", "ratings": "ratings", "supports": "memories that rest on it"}


@dataclass(frozen=True, slots=True)
class _Change:
    memory: Memory
    importance: float
    evidence: dict[str, Any]

    @property
    def size(self) -> float:
        return abs(self.importance - self.memory.importance)


def propose(context: Context) -> Proposal:
    """Return steps that change importance, each by LEAST or more."""
    signals, past = Signals(context), _PastRuns.of(context.log)
    scores = past.scores | model_scores(context, past)
    rows = {int(row) for row in signals.rows}
    living = set(context.live_rows.tolist())
    before = (context.rows.row(id_) for id_ in (*scores, *past.changed))
    rows |= living.intersection(row for row in before if row is not None)
    changes = sorted(
        (change for row in sorted(rows) if (change := _change_of(context, signals, row, scores))),
        key=lambda change: (-change.size, change.memory.seq),
    )
    wanted = [change for change in changes if not past.is_given(context.log, change.memory.id)]
    notes = [f"{len(wanted) - MOST} more wait for the next run"] if len(wanted) > MOST else []
    looked_at = len(context.live_rows)
    silence = (
        f"{plural(looked_at, 'memory')} looked at: {len(rows):,} have ratings, links, recalls or "
        f"words that count, and none would change by {LEAST:g} or more"
    )
    return Proposal(tuple(map(_step, wanted[:MOST])), looked_at, tuple(notes), silence)


def _change_of(
    context: Context, signals: Signals, row: int, scores: dict[str, ModelScore]
) -> _Change | None:
    """Return the change of a row's importance; None where it is too small."""
    (memory,) = context.rows.take([row])
    score = scores.get(memory.id)
    gain, evidence = signals.of(row, of_words=score is None)  # a model has read the words
    start = memory.unsaid_importance
    if score is not None:
        start = score.importance
        evidence |= {"model": score.model, "said": score.importance}
    importance = round(min(1.0, max(0.0, start + gain)), 2)
    change = _Change(memory, importance, evidence)
    return change if change.size >= LEAST - 1e-9 else None


def _step(change: _Change) -> Step:
    evidence = change.evidence
    reasons = [text for name, text in _TRAITS.items() if name in evidence]
    reasons += [f"{evidence[name]} {noun}" for name, noun in _COUNTS.items() if name in evidence]
    if "model" in evidence:
        reasons.insert(0, f"{evidence['model']} says {evidence['said']:g}")
    verb = "matters more" if change.importance > change.memory.importance else "matters less"
    why = f"{verb} than it was given: {', '.join(reasons) or 'what told of it is gone'}"
    revised = Revised(importance=change.importance, reason=why)
    text = change.memory.content[:_SHOWN]
    return steps.revise(change.memory, revised, why, text=text, **evidence)


def _memories_to_score(context: Context, past: "_PastRuns") -> list[Memory]:
    """Return the newest live memories without a given importance, in order of recording."""
    newest = context.live_rows[-_LOOKED_AT:]
    if len(newest) < len(context.live_rows):
        # a batch cut by the window would differ in each run
        newest = newest[newest // BATCH > newest[0] // BATCH]
    return [
        memory for memory in context.memories(newest) if not past.is_given(context.log, memory.id)
    ]


@dataclass(frozen=True, slots=True)
class _PastRuns:
    """The memories this job changed before, and a model's scores of them.

    `ignored` are the job's own events and those that were undone.
    """

    ignored: frozenset[str]
    changed: frozenset[str]
    scores: dict[str, ModelScore]

    @classmethod
    def of(cls, log: EventLog) -> "_PastRuns":
        applied = [
            plan
            for plan in plans.every(log)
            if plan.body.job == "importance" and plan.applied and plan.state != "undone"
        ]
        revisions = [step for plan in reversed(applied) for step in plan.done]
        return cls(
            ignored=log.undone_ids(log.head()).union(*(plan.events for plan in applied)),
            changed=frozenset(step.subject for step in revisions),
            scores={  # the newest plan comes last
                step.subject: ModelScore(step.evidence["said"], step.evidence["model"])
                for step in revisions
                if "said" in step.evidence
            },
        )

    def is_given(self, log: EventLog, id_: str) -> bool:
        """Return True if a person or an agent set a memory's importance, at first or later."""
        return any(
            isinstance(event.body, Recorded | Revised) and event.body.importance is not None
            for event in log.events_for(id_)
            if event.id not in self.ignored
        )
