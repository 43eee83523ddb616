"""
Candidates: what each channel brings, and the order that the evidence for each of them makes.

Documents are numbered through: first the snapshot's rows, then the tail's slots.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from serve import evidence as evidences
from serve import layers
from serve.evidence import WEIGHTS, Around, Heard
from serve.query.analysis import Analysis, Question
from serve.ranking.fusion import Ranking, reciprocal_rank, weighted_sum
from serve.reader import View
from store.topk import best

Scores = npt.NDArray[np.float32]
Docs = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Values = npt.NDArray[np.float64]

WINDOW = 200  # candidates of a channel
LEAST_NEARNESS = 0.025  # below it a vector says nothing
# by rank a channel cannot say that its best is poor: a heavier second one loses to plain BM25
_RANK_WEIGHTS = {"lexical": 1.0, "vector": 0.15, "entity": 0.1}


@dataclass(frozen=True, slots=True)
class Candidates:
    """The fused order, best first, and what it was made of."""

    channels: dict[str, Ranking]
    docs: Docs
    scores: Values
    evidence: dict[str, Values]  # by kind, in the order of `docs`; empty for fusion by rank
    weights: Mapping[str, float]  # of the evidence
    nearness: Scores  # what the vectors say, in the order of `docs`; zeros without them
    questions: Docs  # the turn before that asked, in the order of `docs`; -1: none
    passing: Mask  # the filter's mask over all documents
    heard: Heard


def candidates(view: View, question: Question, analysis: Analysis) -> Candidates:
    """Return the candidates of the question's mode, in the order of its fusion."""
    mask = _mask(view, question)
    topic = evidences.words(view, analysis.topic)
    words = topic + evidences.words(view, analysis.names) if analysis.names else topic
    scores = _channels(view, question, analysis, words)
    channels = {name: _ranking(name, one, mask) for name, one in scores.items()}
    heard = evidences.heard(view, analysis)
    weights = WEIGHTS | layers.WEIGHTS
    if question.fusion == "rrf":
        docs, fused = reciprocal_rank(list(channels.values()))
        questions = evidences.around(view, docs, mask).question
        found: dict[str, Values] = {}
    else:
        added = layers.evidence(view, question, analysis, mask)
        docs = _union(view, channels, mask, with_answers=question.mode == "auto")
        docs = np.union1d(docs, layers.entering(view, question, added, channels, mask))
        place = evidences.around(view, docs, mask)
        found = _evidence(view, question, analysis, channels, scores, topic, place, mask, heard)
        found |= {name: values[docs] for name, values in added.items()}
        docs, fused, order = weighted_sum(docs, found, weights)
        questions = place.question[order]
        found = {name: values[order] for name, values in found.items()}
    near = scores["vector"][docs] if "vector" in scores else np.zeros(len(docs), np.float32)
    return Candidates(channels, docs, fused, found, weights, near, questions, mask, heard)


def _evidence(
    view: View,
    question: Question,
    analysis: Analysis,
    channels: Mapping[str, Ranking],
    scores: Mapping[str, Scores],
    topic: Scores,
    place: Around,
    mask: Mask,
    heard: Heard,
) -> dict[str, Values]:
    found = {
        name: evidences.of_channel(name, scores[name][place.docs], one)
        for name, one in channels.items()
        if name != "entity" or question.mode == "entity"
    }
    if question.mode != "auto":
        return found
    if "lexical" in found:
        of_words = {"lexical": found["lexical"]} | evidences.of_words(
            view, analysis, place, topic, found["lexical"], mask
        )
        # a question in another language shares but a name with the memory
        found |= {name: values * (1.0 - heard.unknown) for name, values in of_words.items()}
    if "vector" in scores:
        found |= evidences.of_vectors(view, place, scores["vector"], mask)
    found |= evidences.of_traits(place, analysis.answer_type in ("when", "how_long"))
    found["speaker"] = evidences.said_by(view, analysis.people, place.docs)
    return found


def holding(view: View, term: str, docs: Docs) -> Mask:
    """Return which documents hold a term, [docs]; -1 holds none."""
    rows = len(view.snapshots.rows)
    listed, _ = view.snapshots.postings.posting_list(term)
    held = np.zeros(len(docs), np.bool_)
    if len(listed):
        places = np.minimum(np.searchsorted(listed, docs), len(listed) - 1)
        held = listed[places] == docs
    fresh = docs >= rows
    held[fresh] = view.tail.holding(term, docs[fresh] - rows)
    return held


def _mask(view: View, question: Question) -> Mask:
    """Return which documents may come back, [rows + slots]."""
    asked = question.filter
    mask = asked.mask(view.snapshots.rows)
    mask[view.tail.hidden] = False
    return np.concatenate([mask, asked.mask(view.tail.columns) & view.tail.live])


def _channels(
    view: View, question: Question, analysis: Analysis, lexical: Scores
) -> dict[str, Scores]:
    """Return the scores of every channel that has something to say, [rows + slots] each."""
    scores: dict[str, Scores] = {}
    if question.wants("lexical") and (analysis.topic or analysis.names):
        scores["lexical"] = lexical
    if question.wants("vector") and analysis.vector is not None:
        near = _nearness(view, analysis.vector)
        scores["vector"] = layers.lifted(view, question, analysis.vector, near)
    if question.wants("entity") and analysis.mentions:
        scores["entity"] = _mentioning(view, analysis)
    return scores


def _nearness(view: View, asked: Scores) -> Scores:
    """Return what each document's cosine with the query says, [rows + slots]: 0 without vectors."""
    rows, vectors = len(view.snapshots.rows), view.snapshots.vectors
    snapshot = vectors.cosines(asked) if vectors else np.zeros(rows, np.float32)
    cosines = np.concatenate([snapshot, view.tail.cosines(asked)])
    return view.snapshots.calibration.evidence(cosines)


def _mentioning(view: View, analysis: Analysis) -> Scores:
    index, rows = view.snapshots.entities, len(view.snapshots.rows)
    snapshot = index.scores(analysis.entities, rows) if index else np.zeros(rows, np.float32)
    return np.concatenate([snapshot, view.tail.mentioning(analysis.mentions)])


def _ranking(channel: str, scores: Scores, mask: Mask) -> Ranking:
    docs = best(scores, mask, WINDOW, above=LEAST_NEARNESS if channel == "vector" else 0.0)
    return Ranking(docs, scores[docs], _RANK_WEIGHTS[channel])


def _union(view: View, channels: Mapping[str, Ranking], mask: Mask, *, with_answers: bool) -> Docs:
    """Return the documents of all channels, and the answers to those that ask, ascending."""
    found = np.unique(np.concatenate([np.empty(0, np.int64), *(c.docs for c in channels.values())]))
    sessions = view.snapshots.sessions
    if sessions is None or not with_answers:
        return found
    rows = found[found < len(view.snapshots.rows)]
    answers = sessions.after[rows[sessions.asks[rows] == 1]].astype(np.int64)
    answers = answers[answers >= 0]
    return np.union1d(found, answers[mask[answers]])
