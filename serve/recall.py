"""
recall(): analyse, candidates, fuse, gate, select; no model and no I/O on the way.

Every stage takes the one before it as a value, so that `why` can print what each did.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from serve import why
from serve.candidates import Candidates, candidates, holding
from serve.query.analysis import LEAST_IDF, Analysis, Mode, Question, analyse
from serve.query.smalltalk import is_smalltalk
from serve.ranking.confidence import LETTERS, MEANING, confidence, coverage
from serve.reader import View
from store.embedding import Embedder
from store.projections.memories import Memory

__all__ = ["LEAST_IDF", "Answer", "Hit", "Mode", "Question", "recall"]

Values = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Hit:
    """One memory that came back, and why, where that was asked."""

    memory: Memory
    score: float
    confidence: float
    why: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What recall says. `below_bar` counts candidates that were not sure enough to return."""

    hits: tuple[Hit, ...]
    below_bar: int
    dropped: dict[str, int]
    notices: tuple[str, ...]
    manifest: int | None
    watermark: int
    why: dict[str, Any] | None = None

    @property
    def degraded(self) -> bool:
        return bool(self.notices)


def recall(view: View, question: Question, embedder: Embedder) -> Answer:
    """Answer a question from one state of the memory."""
    notices = list(view.snapshots.notices)
    analysis = analyse(view, question, embedder, notices)
    found = candidates(view, question, analysis)
    sure, covered = _confidence(view, analysis, found)
    kept, dropped = _select(view, question, found, sure)
    hits = tuple(
        Hit(
            memory,
            round(float(found.scores[place]), 6),
            round(float(sure[place]), 4),
            why.of_hit(view, analysis, found, place, float(covered[place]))
            if question.explain
            else None,
        )
        for memory, place in zip(_memories(view, found, kept), kept, strict=True)
    )
    return Answer(
        hits=hits,
        below_bar=dropped.get("below_bar", 0),
        dropped=dropped,
        notices=tuple(notices),
        manifest=view.snapshots.manifest.number if view.snapshots.manifest else None,
        watermark=view.tail.watermark,
        why=_why(view, question, analysis, found, sure, dropped) if question.explain else None,
    )


def _confidence(view: View, analysis: Analysis, found: Candidates) -> tuple[Values, Values]:
    """Return each candidate's confidence, and the share of the query's words it covers.

    What the turn before it asked counts as its own: an answer does not say it again.
    """
    weights = found.heard.weights
    matched = np.zeros((len(weights), len(found.docs)), np.bool_)
    answers = np.flatnonzero(found.questions >= 0)
    for number, term in enumerate(analysis.weights):
        matched[number] = holding(view, term, found.docs)
        matched[number, answers] |= holding(view, term, found.questions[answers])
    covered = coverage(matched, weights)
    model = MEANING if view.snapshots.calibration.knows_meaning else LETTERS
    near = found.nearness.astype(np.float64)
    sure = confidence(model, near, covered, matched.sum(axis=0), found.heard.unknown)
    return np.round(sure, 4), covered  # what is shown is what is held to the bar


def _select(
    view: View, question: Question, found: Candidates, sure: Values
) -> tuple[list[int], dict[str, int]]:
    """Return the places of the candidates to return, best first, and how many fell to what."""
    if question.mode == "auto" and is_smalltalk(question.text):
        return [], {"small_talk": len(sure)}
    kept: list[int] = []
    seen: set[bytes] = set()
    dropped = Counter(below_bar=0, over_top_k=0, same_text=0)
    for place in range(len(sure)):
        if sure[place] < question.min_confidence:
            dropped["below_bar"] += 1
        elif len(kept) == question.top_k:
            dropped["over_top_k"] += 1
        elif (hash_ := _text_hash(view, int(found.docs[place]))) in seen:
            dropped["same_text"] += 1
        else:
            seen.add(hash_)
            kept.append(place)
    return kept, {reason: count for reason, count in dropped.items() if count}


def _text_hash(view: View, doc: int) -> bytes:
    rows = len(view.snapshots.rows)
    if doc >= rows:
        return view.tail.memories[doc - rows].text_hash
    return view.snapshots.rows.text_hash(doc)


def _memories(view: View, found: Candidates, places: list[int]) -> list[Memory]:
    rows = len(view.snapshots.rows)
    chosen = [int(found.docs[place]) for place in places]
    taken = iter(view.snapshots.rows.take([doc for doc in chosen if doc < rows]))
    return [next(taken) if doc < rows else view.tail.memories[doc - rows] for doc in chosen]


def _why(
    view: View,
    question: Question,
    analysis: Analysis,
    found: Candidates,
    sure: Values,
    dropped: dict[str, int],
) -> dict[str, Any]:
    places = [place for place in range(len(sure)) if sure[place] < question.min_confidence][:5]
    memories = _memories(view, found, places)
    below = [(one, float(sure[place])) for one, place in zip(memories, places, strict=True)]
    return why.of_answer(view, question, analysis, found, below, dropped)
