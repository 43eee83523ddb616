"""
Candidates: the documents that may answer a question, by the channels and the optional layers.

Documents are numbered through: first the snapshot's rows, then the tail's slots. A filter is
applied before any ranking is cut. Insights are searched apart, so that they take no other
document's place.

A channel is what the words, the vectors or the entities of a question say of every document. A
layer is optional, off unless a setting names it: it gives every document evidence in [0, 1], which
is fused by its weight, and its best enter the candidates; but `siblings` only adds candidates, and
`fields` only raises what the vectors say. docs/recall.md has figures for each.

Arrays as long as the memory are borrowed from `Scratch` and go back when the evidence is gathered:
a fresh array of a million scores costs as much as filling it, since the system hands out its pages
one by one, and one that was used a moment ago may still lie in the processor's cache.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from serve.reader.view import View
from serve.recall import neighbours
from serve.recall.analysis import (
    LEAST_IDF,
    MAX_QUERY,
    Analysis,
    Question,
    entity_hints,
    split_question,
)
from serve.recall.neighbours import siblings
from serve.recall.scoring import Ranking
from store.home.config import Layer
from store.index.top_k import top_k
from store.text import tokenizer
from store.text.mentions import Mention

Scores = npt.NDArray[np.float32]
Docs = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Values = npt.NDArray[np.float64]

LEAST = 0.025  # below it a vector says nothing
_ROUNDING = 1e-6  # of a cosine
_KEPT = 4  # arrays; more are lent where more recalls run at once, and not kept
_free: list[Scores] = []


def open_channels(
    view: View, question: Question, analysis: Analysis, topic: Scores, scratch: "Scratch"
) -> dict[str, "Channel"]:
    """Return every channel that has something to say; `topic` are the topic's BM25 scores."""
    found: dict[str, Channel] = {}
    if question.wants("lexical") and (analysis.topic or analysis.names):
        words = topic
        if analysis.names:
            words = bm25_scores(view, analysis.names, scratch)
            words += topic
        found["lexical"] = ScoreChannel(words)
    if question.wants("vector") and analysis.vector is not None:
        found["vector"] = Nearness(view, analysis.vector, with_fields=question.uses_fields)
    if question.wants("entity") and analysis.mentions:
        found["entity"] = ScoreChannel(_entity_scores(view, analysis, scratch))
    return found


class Channel(Protocol):
    """What one channel says of every document."""

    least: ClassVar[float]  # a score says something over it

    def best(self, mask: Mask, k: int) -> tuple[Docs, Scores]: ...

    def of(self, docs: Docs) -> Scores: ...


@dataclass(frozen=True, slots=True)
class ScoreChannel:
    """A channel that has the score of every document at hand, [rows + slots]."""

    scores: Scores
    least: ClassVar[float] = 0.0

    def best(self, mask: Mask, k: int) -> tuple[Docs, Scores]:
        docs = top_k(self.scores, mask, k)
        return docs, self.scores[docs]

    def of(self, docs: Docs) -> Scores:
        return self.scores[docs]


class Nearness:
    """How near each document's vector is to the query's, computed only where it matters.

    It is the calibrated cosine of a document's text with the query, or of one of its fields where
    that is more and the layer `fields` is on. Calibration keeps the order, so the best are found by
    cosine and only they are calibrated.
    """

    least: ClassVar[float] = LEAST

    def __init__(self, view: View, asked: Scores, *, with_fields: bool = False) -> None:
        self._rows = len(view.snapshots.rows)
        vectors = view.snapshots.vectors
        self._scan = vectors.scan(asked) if vectors else None
        self._fresh = view.tail.cosines(asked)
        self._calibration = view.snapshots.calibration
        self._fields = _of_fields(view, asked) if with_fields else None

    def best(self, mask: Mask, k: int) -> tuple[Docs, Scores]:
        """Return up to `k` documents whose mask is set and that are near, best first; how near."""
        unrelated, related = self._calibration.unrelated, self._calibration.related
        above = unrelated + LEAST * 2.0 * (related - unrelated) - _ROUNDING
        docs = top_k(self._fresh, mask[self._rows :], k, above=above)
        cosines, docs = self._fresh[docs], docs + self._rows
        if self._scan is not None:
            built, of_built = self._scan.best(mask[: self._rows], k, above=above)
            docs, cosines = np.concatenate([built, docs]), np.concatenate([of_built, cosines])
        near = self._calibration.evidence(cosines)
        if self._fields is not None:
            docs = np.union1d(docs, top_k(self._fields, mask, k, above=LEAST))
            near = self.of(docs)
        order = np.lexsort((-docs, -near))
        order = order[near[order] > LEAST][:k]
        return docs[order], near[order]

    def of(self, docs: Docs) -> Scores:
        """Return the nearness of some documents, [docs]: 0 unrelated, 1/2 related, never less."""
        cosines = np.zeros(len(docs), np.float32)
        built = docs < self._rows
        if self._scan is not None:
            cosines[built] = self._scan.of(docs[built])
        cosines[~built] = self._fresh[docs[~built] - self._rows]
        near = self._calibration.evidence(cosines)
        return near if self._fields is None else np.maximum(near, self._fields[docs])


def _of_fields(view: View, asked: Scores) -> Scores:
    """The evidence of each document's nearest field, [rows + slots]; 0 without fields."""
    fields, rows = view.snapshots.fields, len(view.snapshots.rows)
    snapshot = fields.cosines(asked, rows) if fields else np.full(rows, -1, np.float32)
    cosines = np.concatenate([snapshot, view.tail.field_cosines(asked)])
    return view.snapshots.calibration.evidence(cosines)


def bm25_scores(view: View, terms: Sequence[str], scratch: "Scratch") -> Scores:
    """Return the BM25 score of every document, [rows + slots], in a borrowed array."""
    rows, scores = len(view.snapshots.rows), scratch.array(view.size)
    scores.fill(0.0)
    view.snapshots.postings.scores(terms, least_idf=LEAST_IDF, out=scores[:rows])
    view.tail.scores(terms, least_idf=LEAST_IDF, out=scores[rows:])
    return scores


def _entity_scores(view: View, analysis: Analysis, scratch: "Scratch") -> Scores:
    index, rows = view.snapshots.entities, len(view.snapshots.rows)
    scores = scratch.array(view.size)
    scores[:rows] = 0.0
    if index:
        index.scores(analysis.entities, rows, out=scores[:rows])
    scores[rows:] = view.tail.entity_scores(analysis.mentions)
    return scores


class Scratch:
    """What one recall borrows; all of it goes back at the end, so keep no view of it."""

    def __init__(self) -> None:
        self._lent: list[Scores] = []

    def __enter__(self) -> "Scratch":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _free.extend(self._lent)
        del _free[_KEPT:]

    def array(self, size: int) -> Scores:
        """Return an array [size] that holds anything."""
        try:
            array = _free.pop()
        except IndexError:
            array = np.empty(0, np.float32)
        if len(array) < size:
            array = np.empty(size + size // 8, np.float32)  # a memory grows
        self._lent.append(array)
        return array[:size]


_NO_DOCS = np.empty(0, np.int64)

WINDOW = 200  # candidates of a channel
INSIGHTS_SEARCHED = 1_024  # the newest: bounds what a question costs
MOST_INSIGHTS = 16  # that each channel adds to the candidates
# by rank a channel cannot say that its best is poor: a heavier second one loses to plain BM25
_RANK_WEIGHTS = {"lexical": 1.0, "vector": 0.15, "entity": 0.1}


@dataclass(frozen=True, slots=True)
class Candidates:
    """The candidates of every channel, and the channels' scores.

    `topic` and the scores of the channels are borrowed: they hold until the evidence is gathered.
    """

    docs: Docs  # ascending: of all channels and layers
    rankings: dict[str, Ranking]  # each channel's best
    insights: Docs  # those among `docs`, ascending
    optional: dict[str, Values]  # evidence of the layers that are on, [rows + slots] each
    passing: Mask  # what the filter lets pass, [rows + slots]
    mask: Mask  # the same without insights, unless they are asked for
    channels: Mapping[str, Channel]
    topic: Scores  # BM25 of the topic's words, [rows + slots]


def find_candidates(
    view: View, question: Question, analysis: Analysis, scratch: Scratch
) -> Candidates:
    """Return the candidates of the question's mode."""
    passing = view.masks.of(question.filter)
    mask, insights = passing, _NO_DOCS
    if "insight" not in question.filter.kinds:
        mask, insights = view.insights.apart(passing)
    topic = bm25_scores(view, analysis.topic, scratch)
    channels = open_channels(view, question, analysis, topic, scratch)
    rankings = {
        name: Ranking(*one.best(mask, WINDOW), _RANK_WEIGHTS[name])
        for name, one in channels.items()
    }
    insights = _top_insights(channels, rankings, insights, WINDOW)
    optional: dict[str, Values] = {}
    entering = insights
    if question.fusion == "weighted":
        optional = layer_evidence(view, question, analysis, mask)
        added = layer_documents(view, question, optional, rankings, mask)
        entering = np.concatenate([added, insights])
    with_answers = question.fusion == "weighted" and question.mode == "auto"
    docs = _union(view, rankings, entering, mask, with_answers=with_answers)
    return Candidates(docs, rankings, insights, optional, passing, mask, channels, topic)


def _union(
    view: View,
    rankings: Mapping[str, Ranking],
    entering: Docs,
    mask: Mask,
    *,
    with_answers: bool,
) -> Docs:
    """Return the documents of all channels and of the layers, ascending.

    With them are the answers to those of the channels that ask.
    """
    found = np.concatenate([entering[:0], *(one.docs for one in rankings.values())])
    sessions, answers = view.snapshots.sessions, entering[:0]
    if sessions is not None and with_answers:
        rows = found[found < len(view.snapshots.rows)]
        answers = sessions.after[rows[sessions.asks[rows] == 1]].astype(np.int64)
        answers = answers[answers >= 0]
    return _distinct(np.concatenate([found, answers[mask[answers]], entering]))


def _distinct(docs: Docs) -> Docs:
    """Return each of some documents once, ascending; of a few hundred faster than numpy's own."""
    docs = np.sort(docs)
    return docs[np.concatenate([[True], docs[1:] != docs[:-1]])] if len(docs) else docs


def _top_insights(
    channels: Mapping[str, Channel], rankings: Mapping[str, Ranking], insights: Docs, window: int
) -> Docs:
    """Return those of some insights, ascending, that are candidates: each channel's best few.

    They pass what the last of the channel's `window` others passed.
    """
    docs = insights[-INSIGHTS_SEARCHED:]
    found = [_NO_DOCS]
    for name, one in channels.items() if len(docs) else ():
        others = rankings[name].scores
        least = float(others[-1]) if len(others) >= window else one.least
        found.append(docs[top_k(one.of(docs), None, MOST_INSIGHTS, above=least)])
    return np.unique(np.concatenate(found))


LAYER_WINDOW = 200  # candidates of a layer
FROM_BEST = 20  # candidates whose siblings enter
LAYER_WEIGHTS: dict[str, float] = {
    "parts": 2.0,
    "hints": 0.2,
    "pagerank": 0.2,
    "aggregate": 0.2,
    "dates": 0.3,
}


def layer_evidence(
    view: View, question: Question, analysis: Analysis, mask: Mask
) -> dict[str, Values]:
    """Return the evidence of each layer that is on and has some, in [0, 1], [rows + slots] each.

    Only documents under the mask have evidence; another mode than `auto` has no layers.
    """
    if question.mode != "auto":
        return {}
    chosen = {name: layer for name, layer in _LAYERS.items() if name in question.layers}
    found = {
        name: _shares(np.where(mask, layer(view, question, analysis), np.float32(0.0)))
        for name, layer in chosen.items()
    }
    return {name: values.astype(np.float64) for name, values in found.items() if values.any()}


def layer_documents(
    view: View,
    question: Question,
    found: Mapping[str, Values],
    channels: Mapping[str, Ranking],
    mask: Mask,
) -> Docs:
    """Return the documents that the layers add to the candidates: their best, and siblings.

    Siblings are the neighbours of the best by words in their sessions, and bring no evidence of
    their own: the turns around them do. The tail has none until the next build.
    """
    added = [top_k(values.astype(np.float32), mask, LAYER_WINDOW) for values in found.values()]
    sessions, rows = view.snapshots.sessions, view.snapshots.rows
    wanted = question.mode == "auto" and "siblings" in question.layers
    if wanted and sessions is not None and "lexical" in channels:
        first = channels["lexical"].docs[:FROM_BEST]
        beside = siblings(first[first < len(rows)], sessions.session, rows.created_at)
        added.append(beside[mask[beside]])
    return np.concatenate([np.empty(0, np.int64), *added])


def _parts(view: View, question: Question, analysis: Analysis) -> Scores:
    """The score of each document for that part of the question it answers best."""
    found = split_question(question.text[:MAX_QUERY])
    shares = np.zeros(view.size, np.float32)
    for part in found if len(found) > 1 else ():
        topic = [term for term in tokenizer.terms(part) if term not in analysis.names]
        with Scratch() as scratch:
            shares = np.maximum(shares, _shares(bm25_scores(view, topic, scratch)))
    return shares


def _hints(view: View, question: Question, analysis: Analysis) -> Scores:
    """Return the weight of the entities that the question may name, by who mentions them."""
    index, rows = view.snapshots.entities, len(view.snapshots.rows)
    asked = _entities(question, analysis)
    snapshot = index.scores(index.lookup(asked), rows) if index else np.zeros(rows, np.float32)
    return np.concatenate([snapshot, view.tail.entity_scores(asked)])


def _pagerank(view: View, question: Question, analysis: Analysis) -> Scores:
    """The PageRank of each document, started at two entities or more that the question names."""
    scores, index = np.zeros(view.size, np.float32), view.snapshots.entities
    if index is None or len(seeds := index.lookup(_entities_and_people(question, analysis))) < 2:
        return scores
    start = np.asarray(seeds, np.int64)
    graph = neighbours.neighbourhood(*index.mention_runs, start)
    docs, visits = neighbours.pagerank(*graph, start)
    scores[docs] = visits
    return scores


def _aggregate(view: View, question: Question, analysis: Analysis) -> Scores:
    """Return the documents of the entities named, for a question that wants all there is."""
    if analysis.answer_type not in ("how_many", "list"):
        return np.zeros(view.size, np.float32)
    return np.minimum(_hints(view, question, analysis), 1.0)


def _dates(view: View, question: Question, analysis: Analysis) -> Scores:
    """Return 1 for what was made in the time that the question speaks of."""
    scores, when = np.zeros(view.size, np.float32), analysis.interval
    if when is not None:
        made = np.concatenate([view.snapshots.rows.created_at, view.tail.columns.created_at])
        scores[(made >= when.since) & (made < when.until)] = 1.0
    return scores


_LAYERS: Mapping[Layer, Callable[[View, Question, Analysis], Scores]] = {
    "parts": _parts,
    "hints": _hints,
    "pagerank": _pagerank,
    "aggregate": _aggregate,
    "dates": _dates,
}


def _entities(question: Question, analysis: Analysis) -> Sequence[Mention]:
    """Return the entities that the question names or may name, but for who said something."""
    found = entity_hints(question.text[:MAX_QUERY])
    return [
        *analysis.mentions,
        *(one for one in found if not set(tokenizer.terms(one.name)) & set(analysis.names)),
    ]


def _entities_and_people(question: Question, analysis: Analysis) -> Sequence[Mention]:
    """Return the entities and the people that the question names."""
    people = [Mention("person", name, name) for name in sorted(analysis.people)]
    return [*_entities(question, analysis), *people]


def _shares(scores: Scores) -> Scores:
    """Return scores as shares of the greatest; zeros stay."""
    greatest = scores.max(initial=0.0)
    return scores / greatest if greatest > 0 else scores
