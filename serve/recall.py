"""
recall(): analyse, candidates, filter, fuse, gate, select; no model and no I/O on the way.

Documents are numbered through: first the snapshot's rows, then the tail's slots. Every stage takes
the one before it as a value, so that `why` can print what each did.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from serve.filters import Filter
from serve.ranking.confidence import confidence, coverage
from serve.ranking.fusion import Ranking, reciprocal_rank, weighted_sum
from serve.ranking.topk import best
from serve.reader import View
from store import text
from store.embedding import Embedder
from store.errors import EmbedderError
from store.mentions import Mention, mentions
from store.projections.entities import EntityIndex
from store.projections.memories import Memory

Mode = Literal["auto", "lexical", "vector", "entity"]
Scores = npt.NDArray[np.float32]
Docs = npt.NDArray[np.int64]

MAX_QUERY = 2_000  # characters looked at
MAX_TERMS = 64  # different ones: bounds the work a pasted log can ask for
# In a memory of a few notes BM25Okapi's idf may be zero or less; there every word must still count.
LEAST_IDF = 0.1
# Cosines below this are what unrelated texts have under hashed features.
LEAST_COSINE = 0.1
_CHANNELS: dict[str, tuple[str, ...]] = {
    "auto": ("lexical", "vector", "entity"),
    "lexical": ("lexical",),
    "vector": ("vector",),
    "entity": ("entity",),
}
# measured with the lexical embedder: a heavier vector or entity channel loses to plain BM25
_WEIGHTS = {"lexical": 1.0, "vector": 0.15, "entity": 0.1}


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, and under which settings."""

    text: str
    filter: Filter
    top_k: int
    mode: Mode = "auto"
    fusion: Literal["rrf", "weighted"] = "rrf"
    min_confidence: float = 0.0
    explain: bool = False


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


@dataclass(frozen=True, slots=True)
class _Analysis:
    terms: list[str]  # with repeats
    weights: dict[str, float]  # idf of each different term
    mentions: tuple[Mention, ...]
    entities: list[int]  # those of the mentions that the snapshot knows
    vector: npt.NDArray[np.float32] | None


@dataclass(frozen=True, slots=True)
class _Candidates:
    """What each channel brought, and the fused order."""

    channels: dict[str, Ranking]
    docs: Docs
    scores: npt.NDArray[np.float64]
    cosines: Scores
    passing: npt.NDArray[np.bool_]  # the filter's mask over all documents


def recall(view: View, question: Question, embedder: Embedder) -> Answer:
    """Answer a question from one state of the memory."""
    notices = list(view.snapshots.notices)
    analysis = _analyse(view, question, embedder, notices)
    candidates = _candidates(view, question, analysis)
    sure, covered = _confidence(view, analysis, candidates)
    kept, dropped = _select(view, question, candidates, sure)
    memories = _memories(view, candidates.docs[kept])
    whys = [
        _why_hit(view, analysis, candidates, place, float(covered[place]))
        if question.explain
        else None
        for place in kept
    ]
    hits = tuple(
        Hit(memory, round(float(candidates.scores[place]), 6), round(float(sure[place]), 4), why)
        for memory, place, why in zip(memories, kept, whys, strict=True)
    )
    return Answer(
        hits=hits,
        below_bar=dropped.get("below_bar", 0),
        dropped=dropped,
        notices=tuple(notices),
        manifest=view.snapshots.manifest.number if view.snapshots.manifest else None,
        watermark=view.tail.watermark,
        why=_why(view, question, analysis, candidates, sure, dropped) if question.explain else None,
    )


def _analyse(view: View, question: Question, embedder: Embedder, notices: list[str]) -> _Analysis:
    asked = question.text[:MAX_QUERY]
    terms = text.terms(asked)
    if len(set(terms)) > MAX_TERMS:
        rarest = sorted(set(terms), key=view.tail.idf, reverse=True)[:MAX_TERMS]
        terms = [term for term in terms if term in set(rarest)]
    index = view.snapshots.entities
    found = mentions(asked)
    return _Analysis(
        terms=terms,
        weights={term: max(view.tail.idf(term), LEAST_IDF) for term in dict.fromkeys(terms)},
        mentions=found,
        entities=index.lookup(found) if index else [],
        vector=_embedded(asked, embedder, notices) if _wants(question, "vector") else None,
    )


def _embedded(asked: str, embedder: Embedder, notices: list[str]) -> npt.NDArray[np.float32] | None:
    try:
        vector: npt.NDArray[np.float32] = embedder.embed([asked])[0]
    except EmbedderError as error:
        notices.append(f"no vectors: {error}")
        return None
    return vector


def _wants(question: Question, channel: str) -> bool:
    return channel in _CHANNELS[question.mode]


def _candidates(view: View, question: Question, analysis: _Analysis) -> _Candidates:
    mask = _mask(view, question.filter)
    window = min(200, max(50, 5 * question.top_k))
    channels: dict[str, Ranking] = {}
    cosines = _cosines(view, analysis)
    if _wants(question, "lexical") and analysis.terms:
        channels["lexical"] = _ranking(_lexical(view, analysis), mask, window, "lexical")
    if _wants(question, "vector") and analysis.vector is not None:
        channels["vector"] = _ranking(cosines, mask, window, "vector", LEAST_COSINE)
    if _wants(question, "entity") and analysis.mentions:
        channels["entity"] = _ranking(_mentioning(view, analysis), mask, window, "entity")
    fuse = reciprocal_rank if question.fusion == "rrf" else weighted_sum
    docs, scores = fuse(list(channels.values()))
    return _Candidates(channels, docs, scores, cosines, mask)


def _mask(view: View, asked: Filter) -> npt.NDArray[np.bool_]:
    """Return which documents may come back, [rows + slots]."""
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


def _lexical(view: View, analysis: _Analysis) -> Scores:
    snapshot = view.snapshots.postings.scores(analysis.terms, least_idf=LEAST_IDF)
    return np.concatenate([snapshot, view.tail.scores(analysis.terms, least_idf=LEAST_IDF)])


def _cosines(view: View, analysis: _Analysis) -> Scores:
    """Return each document's cosine with the query, [rows + slots]; zeros without vectors."""
    rows = len(view.snapshots.rows)
    if analysis.vector is None:
        return np.zeros(rows + len(view.tail), np.float32)
    vectors = view.snapshots.vectors
    snapshot = vectors.cosines(analysis.vector) if vectors else np.zeros(rows, np.float32)
    return np.concatenate([snapshot, view.tail.cosines(analysis.vector)])


def _mentioning(view: View, analysis: _Analysis) -> Scores:
    index, rows = view.snapshots.entities, len(view.snapshots.rows)
    snapshot = index.scores(analysis.entities, rows) if index else np.zeros(rows, np.float32)
    return np.concatenate([snapshot, view.tail.mentioning(analysis.mentions)])


def _ranking(
    scores: Scores, mask: npt.NDArray[np.bool_], k: int, channel: str, above: float = 0.0
) -> Ranking:
    docs = best(scores, mask, k, above=above)
    return Ranking(docs, scores[docs], _WEIGHTS[channel])


def _confidence(
    view: View, analysis: _Analysis, candidates: _Candidates
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return each candidate's confidence, and the share of the query's words it covers."""
    weights = np.fromiter(analysis.weights.values(), np.float64, len(analysis.weights))
    matched = np.zeros((len(weights), len(candidates.docs)), np.bool_)
    for number, term in enumerate(analysis.weights):
        matched[number] = _holding(view, term, candidates.docs)
    covered = coverage(matched, weights)
    return confidence(covered, candidates.cosines[candidates.docs].astype(np.float64)), covered


def _holding(view: View, term: str, docs: Docs) -> npt.NDArray[np.bool_]:
    """Return which documents hold a term, [docs]."""
    rows = len(view.snapshots.rows)
    listed, _ = view.snapshots.postings.posting_list(term)
    holding = np.zeros(len(docs), np.bool_)
    if len(listed):
        places = np.minimum(np.searchsorted(listed, docs), len(listed) - 1)
        holding = listed[places] == docs
    for place in np.flatnonzero(docs >= rows):
        holding[place] = view.tail.holds(int(docs[place]) - rows, term)
    return holding


def _select(
    view: View, question: Question, candidates: _Candidates, sure: npt.NDArray[np.float64]
) -> tuple[list[int], dict[str, int]]:
    """Return the places of the candidates to return, best first, and how many fell to what."""
    kept: list[int] = []
    seen: set[bytes] = set()
    dropped = Counter(below_bar=0, over_top_k=0, same_text=0)
    for place in range(len(sure)):
        if sure[place] < question.min_confidence:
            dropped["below_bar"] += 1
        elif len(kept) == question.top_k:
            dropped["over_top_k"] += 1
        elif (hash_ := _text_hash(view, int(candidates.docs[place]))) in seen:
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


def _memories(view: View, docs: Docs) -> list[Memory]:
    rows = len(view.snapshots.rows)
    chosen = [int(doc) for doc in docs]
    taken = iter(view.snapshots.rows.take([doc for doc in chosen if doc < rows]))
    return [next(taken) if doc < rows else view.tail.memories[doc - rows] for doc in chosen]


def _why_hit(
    view: View, analysis: _Analysis, candidates: _Candidates, place: int, covered: float
) -> dict[str, Any]:
    doc = candidates.docs[place : place + 1]
    channels = {}
    for name, ranking in candidates.channels.items():
        rank = np.flatnonzero(ranking.docs == doc[0])
        if len(rank):
            score = float(ranking.scores[rank[0]])
            channels[name] = {"rank": int(rank[0]) + 1, "score": round(score, 4)}
    words = {
        term: round(weight, 2)
        for term, weight in analysis.weights.items()
        if _holding(view, term, doc)[0]
    }
    return {
        "channels": channels,
        "words": words,
        "coverage": round(covered, 4),
        "cosine": round(float(candidates.cosines[doc[0]]), 4),
        "fresh": int(doc[0]) >= len(view.snapshots.rows),
    }


def _why(
    view: View,
    question: Question,
    analysis: _Analysis,
    candidates: _Candidates,
    sure: npt.NDArray[np.float64],
    dropped: dict[str, int],
) -> dict[str, Any]:
    """Say what every stage did."""
    below = [place for place in range(len(sure)) if sure[place] < question.min_confidence][:5]
    index = view.snapshots.entities
    return {
        "words": {term: round(weight, 2) for term, weight in analysis.weights.items()},
        "entities": _names(index, analysis.entities, candidates.passing) if index else [],
        "memories": len(view.snapshots.rows) + len(view.tail) - len(view.tail.hidden),
        "passed_filter": int(candidates.passing.sum()),
        "candidates": {name: len(one.docs) for name, one in candidates.channels.items()},
        "fusion": question.fusion,
        "min_confidence": question.min_confidence,
        "dropped": dropped,
        "nearest_below_bar": [
            {
                "id": memory.id,
                "text": memory.content[:120],
                "confidence": round(float(sure[place]), 4),
            }
            for place, memory in zip(below, _memories(view, candidates.docs[below]), strict=True)
        ],
    }


def _names(index: EntityIndex, entities: list[int], passing: npt.NDArray[np.bool_]) -> list[str]:
    """Return the names of those entities that a memory which may come back mentions."""
    return [index.name(one) for one in entities if passing[index.documents(one)].any()]
