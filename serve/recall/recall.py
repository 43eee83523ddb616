"""
recall(): analyse, candidates, fuse, weigh, gate, select; no model and no I/O on the way.

Every stage takes the one before it as a value, so that `why` can print what each did.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from serve.reader.view import Superseded, View
from serve.recall import explanation
from serve.recall.analysis import LEAST_IDF, Analysis, Mode, Question, analyse
from serve.recall.candidates import Candidates, candidates, holding
from serve.recall.classification import KINDS
from serve.recall.ranking import Collapsed, collapsed, weigh
from serve.recall.router import bar, most
from serve.recall.scoring import LETTERS, MEANING, confidence, coverage
from serve.recall.selection import Selection, select, shown_scores
from store.embedders.embedder import Embedder
from store.log.event_kinds import Route
from store.memories.memory import Memory

# Laps: how long each stage of one recall took.


class Laps:
    """A watch that runs from when it is made; `us` are microseconds by stage, in their order."""

    def __init__(self) -> None:
        self.us: dict[str, int] = {}
        self._last = time.perf_counter()

    def over(self, stage: str) -> None:
        """Say that a stage is over."""
        now = time.perf_counter()
        self.us[stage] = round((now - self._last) * 1e6)
        self._last = now


__all__ = ["LEAST_IDF", "Answer", "Hit", "Mode", "Question", "recall"]

Values = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Hit:
    """One memory that came back, and why, where that was asked.

    `copies` are ids of memories that say the same; `conflicts_with` is a newer one that says
    another value; `history` is what this one replaced, newest first. `insights` are ids of what
    jobs made of this one and others, and that gave way to it.
    """

    memory: Memory
    score: float
    confidence: float
    copies: tuple[str, ...] = ()
    conflicts_with: str | None = None
    history: tuple[Memory, ...] = ()
    insights: tuple[str, ...] = ()
    why: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What recall says. `below_bar` counts candidates that were not sure enough to return: under
    `bar`. `route` is what the router chose, if one was asked.
    """

    hits: tuple[Hit, ...]
    below_bar: int
    dropped: dict[str, int]
    notices: tuple[str, ...]
    manifest: int | None
    watermark: int
    bar: float
    route: Route | None = None
    why: dict[str, Any] | None = None

    @property
    def degraded(self) -> bool:
        return bool(self.notices)


def recall(view: View, question: Question, embedder: Embedder, laps: Laps | None = None) -> Answer:
    """Answer a question from one state of the memory; `laps` are told when a stage is over.

    The same question gets the same answer: how long it took is no part of it.
    """
    laps, notices = laps or Laps(), list(view.notices)
    analysis = analyse(view, question, embedder, notices)
    laps.over("analysis")
    route = question.router.route(analysis.task_mode) if question.router else None
    question = _routed(question, route)
    found = candidates(view, question, analysis)
    laps.over("candidates")
    sure, covered = _confidence(view, analysis, found)
    fitting = KINDS[analysis.task_mode] if analysis.task_mode else None
    alone = weigh(view, question, found, covered, fitting)
    folded = collapsed(view, question, found.docs, alone, sure)
    weighed = folded.weighed
    laps.over("weighing")
    selection = select(question, weighed, sure, lambda places: _memories(view, found, places))
    laps.over("selection")
    replaced, scores = Superseded(view), shown_scores(weighed)
    returned = {one.memory.id for one in selection.chosen}
    hits = tuple(
        Hit(
            memory=one.memory,
            score=float(scores[one.place]),
            confidence=round(float(sure[one.place]), 4),
            copies=one.copies,
            conflicts_with=one.conflicts_with,
            history=tuple(
                old for old in replaced.by(one.memory.id, question.filter) if old.id not in returned
            ),
            insights=folded.insights.get(one.place, ()),
            why=explanation.of_hit(
                view,
                analysis,
                found,
                weighed,
                one.place,
                float(covered[one.place]),
                folded.insights.get(one.place, ()),
            )
            if question.explain
            else None,
        )
        for one in selection.chosen
    )
    return Answer(
        hits=hits,
        below_bar=len(selection.below_bar),
        dropped=folded.counted(selection.dropped),
        notices=tuple(notices),
        manifest=view.snapshots.manifest.number if view.snapshots.manifest else None,
        watermark=view.tail.watermark,
        bar=question.min_confidence,
        route=route,
        why=_why(view, question, analysis, found, folded, sure, selection)
        | {"route": {"mode": route.state, "actions": route.actions} if route else None}
        if question.explain
        else None,
    )


def _routed(question: Question, route: Route | None) -> Question:
    """Return the question as the route has it asked; what it does not speak of stays."""
    search = route.actions.get("search") if route else None
    if search is None:
        return question
    return replace(
        question,
        min_confidence=bar(search, question.min_confidence),
        top_k=most(search, question.top_k),
    )


def _confidence(view: View, analysis: Analysis, found: Candidates) -> tuple[Values, Values]:
    """Return each candidate's confidence, and the share of the query's words it covers.

    What the turn before it asked counts as its own: an answer does not say it again.
    """
    weights = found.heard.weights
    answers = np.flatnonzero(found.questions >= 0)
    docs = np.concatenate([found.docs, found.questions[answers]])
    held = holding(view, analysis.weights, docs)
    matched = held[:, : len(found.docs)]
    matched[:, answers] |= held[:, len(found.docs) :]
    covered = coverage(matched, weights)
    model = MEANING if view.snapshots.calibration.knows_meaning else LETTERS
    near = found.nearness.astype(np.float64)
    sure = confidence(model, near, covered, found.heard.counts @ matched, found.heard.unknown)
    return np.round(sure, 4), covered  # what is shown is what is held to the bar


def _memories(view: View, found: Candidates, places: Sequence[int]) -> list[Memory]:
    """Return the memories at some places of the candidates, in the order asked."""
    rows = len(view.snapshots.rows)
    chosen = [int(found.docs[place]) for place in places]
    taken = iter(view.snapshots.rows.take([doc for doc in chosen if doc < rows]))
    fresh = iter(view.tail.take([doc - rows for doc in chosen if doc >= rows]))
    return [next(taken) if doc < rows else next(fresh) for doc in chosen]


def _why(
    view: View,
    question: Question,
    analysis: Analysis,
    found: Candidates,
    folded: Collapsed,
    sure: Values,
    selection: Selection,
) -> dict[str, Any]:
    def nearest(places: Sequence[int]) -> list[tuple[Memory, float]]:
        few = places[: explanation.NEAREST]
        return [
            (memory, float(sure[place]))
            for memory, place in zip(_memories(view, found, few), few, strict=True)
        ]

    return explanation.of_answer(
        view,
        question,
        analysis,
        found,
        folded,
        selection,
        nearest(selection.below_bar),
        nearest(selection.over_top_k),
    )
