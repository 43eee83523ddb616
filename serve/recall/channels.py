"""
Channels: what the words, the vectors and the entities of a question say of every document.

Documents are numbered through: first the snapshot's rows, then the tail's slots. Arrays as long as
the memory are borrowed from `Scratch` and go back when the evidence is gathered: a fresh array of a
million scores costs as much as filling it, since the system hands out its pages one by one, and one
that was used a moment ago may still lie in the processor's cache.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from serve.reader.view import View
from serve.recall.analysis import LEAST_IDF, Analysis, Question
from store.index.top_k import top_k

Scores = npt.NDArray[np.float32]
Docs = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

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
    """Return what the nearest field of each document says, [rows + slots]; 0 without fields."""
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
