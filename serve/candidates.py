"""
Candidates: what each channel brings, the evidence for each of them, and the order it makes.

Documents are numbered through: first the snapshot's rows, then the tail's slots. Evidence lies in
[0, 1]; the score is its weighted sum. The weights were found on conversations and issues
(docs/recall.md has what each brings) and lie in the middle of wide plateaus.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from serve import layers
from serve.query.analysis import LEAST_IDF, Analysis, Question
from serve.ranking import context
from serve.ranking.fusion import Ranking, reciprocal_rank, weighted_sum
from serve.ranking.topk import best
from serve.reader import View
from store.projections.sessions import Sessions

Scores = npt.NDArray[np.float32]
Docs = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Values = npt.NDArray[np.float64]

WINDOW = 200  # candidates of a channel
# Cosines below this are what unrelated texts have under hashed features.
LEAST_COSINE = 0.1
WEIGHTS = {
    "lexical": 1.0,
    "vector": 0.6,  # hashed letters mend spelling; a heavier one drowns the rare word
    "entity": 1.0,  # alone only: beside the words it adds candidates, and told nothing more
    "speaker": 0.3,  # settles who of two said it, and finds nothing alone
    "question": 0.4,  # an answer repeats little of its question
    "before": 0.2,
    "after": 0.2,
    "session": 0.5,
}
# by rank a channel cannot say that its best is poor: a heavier second one loses to plain BM25
_RANK_WEIGHTS = {"lexical": 1.0, "vector": 0.15, "entity": 0.1}


@dataclass(frozen=True, slots=True)
class Candidates:
    """The fused order, best first, and what it was made of."""

    channels: dict[str, Ranking]
    docs: Docs
    scores: Values
    evidence: dict[str, Values]  # by kind, in the order of `docs`; empty for fusion by rank
    cosines: Scores  # in the order of `docs`
    questions: Docs  # the turn before that asked, in the order of `docs`; -1: none
    passing: Mask  # the filter's mask over all documents


def candidates(view: View, question: Question, analysis: Analysis) -> Candidates:
    """Return the candidates of the question's mode, in the order of its fusion."""
    mask = _mask(view, question)
    topic = _words(view, analysis.topic)
    words = topic + _words(view, analysis.names) if analysis.names else topic
    scores = _channels(view, question, analysis, words)
    channels = {name: _ranking(name, one, mask) for name, one in scores.items()}
    sessions = view.snapshots.sessions if question.mode == "auto" else None
    if question.fusion == "rrf":
        evidence: dict[str, Values] = {}
        docs, fused = reciprocal_rank(list(channels.values()))
    else:
        layered = layers.evidence(view, question, analysis, mask)
        entering = layers.entering(view, question, layered, channels.get("lexical"), mask)
        docs = np.union1d(_union(view, channels, sessions, mask), entering)
        evidence = {
            name: _share(name, scores[name][docs], one)
            for name, one in channels.items()
            if name != "entity" or question.mode == "entity"
        }
        if question.mode == "auto":
            evidence["speaker"] = _said_by(view, analysis.people, docs)
        if sessions is not None and analysis.topic:
            evidence |= _context(view, sessions, analysis, topic, docs, mask)
        evidence |= {name: values[docs] for name, values in layered.items()}
        docs, fused, order = weighted_sum(docs, evidence, WEIGHTS | layers.WEIGHTS)
        evidence = {name: values[order] for name, values in evidence.items()}
    cosines = scores["vector"][docs] if "vector" in scores else np.zeros(len(docs), np.float32)
    return Candidates(
        channels, docs, fused, evidence, cosines, _questions(view, sessions, docs, mask), mask
    )


def holding(view: View, term: str, docs: Docs) -> Mask:
    """Return which documents hold a term, [docs]; -1 holds none."""
    rows = len(view.snapshots.rows)
    listed, _ = view.snapshots.postings.posting_list(term)
    held = np.zeros(len(docs), np.bool_)
    if len(listed):
        places = np.minimum(np.searchsorted(listed, docs), len(listed) - 1)
        held = listed[places] == docs
    for place in np.flatnonzero(docs >= rows):
        held[place] = view.tail.holds(int(docs[place]) - rows, term)
    return held


def _mask(view: View, question: Question) -> Mask:
    """Return which documents may come back, [rows + slots]."""
    asked = question.filter
    mask = asked.mask(view.snapshots.rows)
    if view.tail.hidden:
        mask[list(view.tail.hidden)] = False
    slots = np.fromiter(
        (
            view.tail.live(slot) and asked.accepts(memory)
            for slot, memory in enumerate(view.tail.memories)
        ),
        np.bool_,
        len(view.tail),
    )
    return np.concatenate([mask, slots])


def _channels(
    view: View, question: Question, analysis: Analysis, lexical: Scores
) -> dict[str, Scores]:
    """Return the scores of every channel that has something to say, [rows + slots] each."""
    scores: dict[str, Scores] = {}
    if question.wants("lexical") and (analysis.topic or analysis.names):
        scores["lexical"] = lexical
    if question.wants("vector") and analysis.vector is not None:
        scores["vector"] = _cosines(view, analysis.vector)
    if question.wants("entity") and analysis.mentions:
        scores["entity"] = _mentioning(view, analysis)
    return scores


def _words(view: View, terms: list[str]) -> Scores:
    snapshot = view.snapshots.postings.scores(terms, least_idf=LEAST_IDF)
    return np.concatenate([snapshot, view.tail.scores(terms, least_idf=LEAST_IDF)])


def _cosines(view: View, asked: Scores) -> Scores:
    """Return each document's cosine with the query, [rows + slots]; zeros without vectors."""
    rows, vectors = len(view.snapshots.rows), view.snapshots.vectors
    snapshot = vectors.cosines(asked) if vectors else np.zeros(rows, np.float32)
    return np.concatenate([snapshot, view.tail.cosines(asked)])


def _mentioning(view: View, analysis: Analysis) -> Scores:
    index, rows = view.snapshots.entities, len(view.snapshots.rows)
    snapshot = index.scores(analysis.entities, rows) if index else np.zeros(rows, np.float32)
    return np.concatenate([snapshot, view.tail.mentioning(analysis.mentions)])


def _ranking(channel: str, scores: Scores, mask: Mask) -> Ranking:
    docs = best(scores, mask, WINDOW, above=LEAST_COSINE if channel == "vector" else 0.0)
    return Ranking(docs, scores[docs], _RANK_WEIGHTS[channel])


def _union(
    view: View, channels: Mapping[str, Ranking], sessions: Sessions | None, mask: Mask
) -> Docs:
    """Return the documents of all channels, and the answers to those that ask, ascending."""
    found = np.unique(np.concatenate([np.empty(0, np.int64), *(c.docs for c in channels.values())]))
    if sessions is None:
        return found
    rows = found[found < len(view.snapshots.rows)]
    answers = sessions.after[rows[sessions.asks[rows] == 1]].astype(np.int64)
    answers = answers[answers >= 0]
    return np.union1d(found, answers[mask[answers]])


def _share(channel: str, scores: Scores, ranking: Ranking) -> Values:
    """Return a channel's evidence: a cosine as it is, another score as its share of the best."""
    greatest = 1.0 if channel == "vector" else float(ranking.scores[:1].sum())
    return context.scaled(scores.astype(np.float64), greatest)


def _said_by(view: View, people: frozenset[str], docs: Docs) -> Values:
    """Return 1 for each document that one of the people said, [docs]."""
    said = np.zeros(len(docs))
    if not people:
        return said
    rows, sessions = len(view.snapshots.rows), view.snapshots.sessions
    if sessions is not None:
        wanted = [sessions.places[name] for name in people if name in sessions.places]
        said[docs < rows] = np.isin(sessions.speaker[docs[docs < rows]], wanted)
    for place in np.flatnonzero(docs >= rows):
        said[place] = view.tail.speakers[int(docs[place]) - rows] in people
    return said


def _context(
    view: View, sessions: Sessions, analysis: Analysis, topic: Scores, docs: Docs, mask: Mask
) -> dict[str, Values]:
    """Return what the turns beside each document and its session lend it; the tail has none."""
    in_rows = docs < len(view.snapshots.rows)
    before, after, session = (
        _linked(links, docs, in_rows)
        for links in (sessions.before, sessions.after, sessions.session)
    )
    asked = np.zeros(len(docs), np.bool_)
    asked[before >= 0] = sessions.asks[before[before >= 0]] == 1
    lent = context.around(
        topic[docs].astype(np.float64),
        context.gathered(topic, before, mask),
        context.gathered(topic, after, mask),
        asked,
    )
    whole = sessions.index.scores(analysis.topic, least_idf=LEAST_IDF)
    every = np.ones(len(whole), np.bool_)
    of_session = context.gathered(whole, session, every)
    return {**lent, "session": context.of_session(of_session, (before >= 0) | (after >= 0))}


def _linked(links: context.Links, docs: Docs, in_rows: Mask) -> context.Links:
    found = np.full(len(docs), -1, np.int32)
    found[in_rows] = links[docs[in_rows]]
    return found


def _questions(view: View, sessions: Sessions | None, docs: Docs, mask: Mask) -> Docs:
    """Return for each document the turn before it, if that asked and may come back, else -1."""
    if sessions is None:
        return np.full(len(docs), -1, np.int64)
    before = _linked(sessions.before, docs, docs < len(view.snapshots.rows)).astype(np.int64)
    is_question = before >= 0
    is_question[is_question] = (sessions.asks[before[is_question]] == 1) & mask[before[is_question]]
    return np.where(is_question, before, -1)
