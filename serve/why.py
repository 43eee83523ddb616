"""
Why: what every stage of a recall did, and the evidence for each hit.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from serve.candidates import Candidates, Docs, holding
from serve.query.analysis import Analysis, Question
from serve.reader import View
from store.projections.entities import EntityIndex
from store.projections.memories import Memory


def of_hit(
    view: View, analysis: Analysis, candidates: Candidates, place: int, covered: float
) -> dict[str, Any]:
    """Return the evidence for the candidate at a place."""
    doc = candidates.docs[place : place + 1]
    channels = {}
    for name, ranking in candidates.channels.items():
        rank = np.flatnonzero(ranking.docs == doc[0])
        if len(rank):
            score = float(ranking.scores[rank[0]])
            channels[name] = {"rank": int(rank[0]) + 1, "score": round(score, 4)}
    return {
        "channels": channels,
        "evidence": {
            name: round(float(values[place]), 4)
            for name, values in candidates.evidence.items()
            if values[place] > 0
        },
        "words": _held(view, analysis, doc),
        "question_words": _held(view, analysis, candidates.questions[place : place + 1]),
        "coverage": round(covered, 4),
        "nearness": round(float(candidates.nearness[place]), 4),
        "fresh": int(doc[0]) >= len(view.snapshots.rows),
    }


def _held(view: View, analysis: Analysis, doc: Docs) -> dict[str, float]:
    """Return the words of the question that one document holds, and their weight."""
    return {
        term: round(weight, 2)
        for term, weight in analysis.weights.items()
        if holding(view, term, doc)[0]
    }


def of_answer(
    view: View,
    question: Question,
    analysis: Analysis,
    candidates: Candidates,
    below: Sequence[tuple[Memory, float]],
    dropped: dict[str, int],
) -> dict[str, Any]:
    """Return what every stage did; `below` are the best of those under the bar."""
    index = view.snapshots.entities
    return {
        "words": {term: round(weight, 2) for term, weight in analysis.weights.items()},
        "people": sorted(analysis.people),
        "entities": _names(index, analysis.entities, candidates.passing) if index else [],
        "memories": len(view.snapshots.rows) + len(view.tail) - len(view.tail.hidden),
        "passed_filter": int(candidates.passing.sum()),
        "candidates": {name: len(one.docs) for name, one in candidates.channels.items()},
        "fusion": question.fusion,
        "min_confidence": question.min_confidence,
        "dropped": dropped,
        "nearest_below_bar": [
            {"id": memory.id, "text": memory.content[:120], "confidence": round(sure, 4)}
            for memory, sure in below
        ],
    }


def _names(index: EntityIndex, entities: list[int], passing: npt.NDArray[np.bool_]) -> list[str]:
    """Return the names of those entities that a memory which may come back mentions."""
    return [index.name(one) for one in entities if passing[index.documents(one)].any()]
