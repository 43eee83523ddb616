"""
Candidates: the documents that may answer a question, by their scores in the channels.

Documents are numbered through: first the snapshot's rows, then the tail's slots. A filter is
applied before any ranking is cut. Insights are searched apart, so that they take no other
document's place.

A channel scores every document by the words, the vectors or the entities of a question.

Arrays as long as the memory are borrowed from `Scratch` and returned when the evidence is gathered:
a fresh array of a million scores costs as much as filling it, since the system hands out its pages
one by one, and a recently used array may still be in the processor's cache.
"""

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import ClassVar, Protocol

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from serve.reader.view import View
from serve.recall.analysis import LEAST_IDF, Analysis, Question
from serve.recall.scoring import Docs, Mask, Ranking
from store.home.errors import VectorStoreError
from store.home.instants import DAY
from store.index.postings import among
from store.index.top_k import top_k
from store.index.vector_scan import Scan

Scores = npt.NDArray[np.float32]

LEAST = 0.025  # lower evidence of a vector is ignored
_ROUNDING = 1e-6  # of a cosine
_NO_DOCS = np.empty(0, np.int64)
_KEPT = 4  # arrays; more are lent where more recalls run at once, and not kept
_free: list[Scores] = []


def open_channels(
    view: View, question: Question, analysis: Analysis, topic: Scores, scratch: "Scratch"
) -> dict[str, "Channel"]:
    """Return every channel that applies to the question; `topic` are the topic's BM25 scores."""
    channels: dict[str, Channel] = {}
    if question.wants("lexical") and (analysis.topic or analysis.names):
        words = topic
        if analysis.names:
            words = bm25_scores(view, analysis.names, scratch)
            words += topic
        channels["lexical"] = ScoreChannel(words)
    if question.wants("vector") and analysis.vector is not None:
        channels["vector"] = Nearness(view, analysis.vector)
    if question.wants("entity") and analysis.mentions:
        index, rows = view.snapshots.entities, len(view.snapshots.rows)
        scores = scratch.array(view.size)
        scores[:rows] = 0.0
        if index:
            index.scores(analysis.entities, rows, out=scores[:rows])
        scores[rows:] = view.tail.entity_scores(analysis.mentions)
        channels["entity"] = ScoreChannel(scores)
    return channels


class Channel(Protocol):
    """The scores of one channel for every document."""

    least: ClassVar[float]  # only scores above it count

    def best(self, mask: Mask, k: int) -> tuple[Docs, Scores]: ...

    def of(self, docs: Docs) -> Scores: ...


class ScoreChannel(msgspec.Struct, frozen=True):
    """A channel with the computed score of every document, [rows + slots]."""

    scores: Scores
    least: ClassVar[float] = 0.0

    def best(self, mask: Mask, k: int) -> tuple[Docs, Scores]:
        docs = top_k(self.scores, mask, k)
        return docs, self.scores[docs]

    def of(self, docs: Docs) -> Scores:
        return self.scores[docs]


class Nearness:
    """The nearness of each document's vector to the query's, computed only where needed.

    It is the calibrated cosine. Calibration keeps the order, so the best are found by cosine and
    only they are calibrated.
    """

    least: ClassVar[float] = LEAST

    def __init__(self, view: View, query: Scores) -> None:
        self._rows = len(view.snapshots.rows)
        vectors = view.snapshots.vectors
        self._scan = vectors.scan(query) if vectors else None
        self._fresh = view.tail.cosines(query)
        self._calibration = view.snapshots.calibration
        self._view = view
        self.notice = ""  # why the copy of the vectors was not searched
        # rows, ascending, and their cosines: those of the best are needed again
        self._weighed = _NO_DOCS, np.empty(0, np.float32)

    def best(self, mask: Mask, k: int) -> tuple[Docs, Scores]:
        """Return up to `k` near documents whose mask is set, best first, and their nearness."""
        unrelated, related = self._calibration.unrelated, self._calibration.related
        above = unrelated + LEAST * 2.0 * (related - unrelated) - _ROUNDING
        docs = top_k(self._fresh, mask[self._rows :], k, above=above)
        cosines, docs = self._fresh[docs], docs + self._rows
        if self._scan is not None:
            built, of_built = self._best_rows(self._scan, mask[: self._rows], k, above)
            ascending = np.argsort(built)
            self._weighed = built[ascending], of_built[ascending]
            docs, cosines = np.concatenate([built, docs]), np.concatenate([of_built, cosines])
        near = self._calibration.evidence(cosines)
        order = np.lexsort((-docs, -near))
        order = order[near[order] > LEAST][:k]
        return docs[order], near[order]

    def _best_rows(self, scan: Scan, mask: Mask, k: int, above: float) -> tuple[Docs, Scores]:
        """Return the nearest rows and their cosines, by the copy of the vectors where one is
        searched and answers, else by our own scan.
        """
        search, manifest = self._view.qdrant, self._view.snapshots.manifest
        if search is not None and manifest is not None:
            parts = [file.digest for file in manifest.projections["vectors"].parts["rows"]]
            try:
                rows = search.best(scan, parts, mask, k, above=above)
            except VectorStoreError as error:
                self.notice = str(error)
            else:
                if rows is not None:
                    return rows
        return scan.best(mask, k, above=above)

    def of(self, docs: Docs) -> Scores:
        """Return the nearness of some documents, [docs]: 0 unrelated, 1/2 related, never less."""
        cosines = np.zeros(len(docs), np.float32)
        built = docs < self._rows
        if self._scan is not None:
            rows = docs[built]
            places, is_weighed = among(self._weighed[0], rows)
            of_rows = np.zeros(len(rows), np.float32)
            of_rows[is_weighed] = self._weighed[1][places[is_weighed]]
            of_rows[~is_weighed] = self._scan.of(rows[~is_weighed])
            cosines[built] = of_rows
        cosines[~built] = self._fresh[docs[~built] - self._rows]
        return self._calibration.evidence(cosines)


def bm25_scores(view: View, terms: Sequence[str], scratch: "Scratch") -> Scores:
    """Return the BM25 score of every document, [rows + slots], in a borrowed array."""
    rows, scores = len(view.snapshots.rows), scratch.array(view.size)
    scores.fill(0.0)
    view.snapshots.postings.scores(terms, least_idf=LEAST_IDF, out=scores[:rows])
    view.tail.scores(terms, least_idf=LEAST_IDF, out=scores[rows:])
    return scores


class Scratch:
    """The arrays borrowed by one recall; all are returned at the end, so keep no view of them."""

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
        """Return an uninitialised array [size]."""
        try:
            array = _free.pop()
        except IndexError:
            array = np.empty(0, np.float32)
        if len(array) < size:
            array = np.empty(size + size // 8, np.float32)  # a memory grows
        self._lent.append(array)
        return array[:size]


# the least candidates of a channel; documents found by vectors alone are mostly the first few
WINDOWS = {"lexical": 200, "vector": 50, "entity": 200, "time": 200}
INSIGHTS_SEARCHED = 1_024  # the newest: bounds the cost of a question
MOST_INSIGHTS = 16  # that each channel adds to the candidates
# ranks do not show that a channel's best is poor: a heavier second channel loses to plain BM25
_RANK_WEIGHTS = {"lexical": 1.0, "vector": 0.15, "entity": 0.1, "time": 0.3}


class Candidates(msgspec.Struct, frozen=True):
    """The candidates of every channel, and the channels' scores.

    `topic` and the scores of the channels are borrowed: valid until the evidence is gathered.
    """

    docs: Docs  # ascending: of all channels
    rankings: dict[str, Ranking]  # each channel's best
    insights: Docs  # those among `docs`, ascending
    passing: Mask  # the documents that pass the filter, [rows + slots]
    mask: Mask  # the same without insights, unless the question wants them
    channels: Mapping[str, Channel]
    topic: Scores  # BM25 of the topic's words, [rows + slots]
    time: Scores | None  # scores for the time asked for, [rows + slots], in [0, 1]

    @property
    def notice(self) -> str:
        """The message about a channel that failed; empty if all answered."""
        vector = self.channels.get("vector")
        return vector.notice if isinstance(vector, Nearness) else ""


def find_candidates(
    view: View, question: Question, analysis: Analysis, scratch: Scratch
) -> Candidates:
    """Return the candidates of the question's mode."""
    passing = view.masks.of(question.filter)
    mask, insights = passing, _NO_DOCS
    if "insight" not in question.filter.kinds:
        mask, insights = view.insights.apart(passing)
    time = time_scores(view, question, analysis, mask)
    topic = bm25_scores(view, analysis.topic, scratch)
    channels = open_channels(view, question, analysis, topic, scratch)
    windows = {name: max(question.top_k, WINDOWS[name]) for name in channels}
    rankings = {
        name: Ranking(*channel.best(mask, windows[name]), _RANK_WEIGHTS[name])
        for name, channel in channels.items()
    }
    if time is not None:  # of the topic's words, or of all that was made then
        docs = top_k(time if analysis.lists_time else topic * np.sign(time), mask, WINDOWS["time"])
        rankings["time"] = Ranking(docs, time[docs], _RANK_WEIGHTS["time"])
        if analysis.lists_time:
            insights = insights[time[insights] >= IN_TIME]
    insights = _top_insights(channels, rankings, insights, windows)
    with_answers = question.fusion == "weighted" and question.mode == "auto"
    docs = _union(view, rankings, insights, mask, with_answers=with_answers)
    return Candidates(docs, rankings, insights, passing, mask, channels, topic, time)


IN_TIME = 0.5  # the least score of a document made in the time asked for
OF_KIND, _OF_IMPORTANCE, _OF_AGE = 0.3, 0.15, 0.05  # added, if a question lists a time


def time_scores(view: View, question: Question, analysis: Analysis, mask: Mask) -> Scores | None:
    """Return each document's score for the time asked for, [rows + slots].

    A question that lists a time ranks by it: documents made in it score IN_TIME or more, first the
    named kinds, then the important, then the newer. If there are none, documents of other times
    score less, by the days between. None without a time in the question, or in another mode.
    """
    when = analysis.interval
    if when is None or question.mode != "auto":
        return None
    made = np.concatenate([view.snapshots.rows.created_at, view.tail.columns.created_at])
    within = (made >= when.since) & (made < when.until)
    if not analysis.lists_time:
        # a match among few documents counts more, like a word's idf
        few, all_ = int((within & mask).sum()), int(mask.sum())
        rarity = np.log((all_ - few + 0.5) / (few + 0.5)) / np.log(all_ + 2)
        return within.astype(np.float32) * np.float32(np.clip(rarity, 0.0, 1.0))
    if not (within & mask).any():
        away = np.maximum(when.since - made, made - (when.until - 1)) / DAY
        nearest: Scores = (IN_TIME / (1.0 + np.maximum(away, 0.01))).astype(np.float32)
        return nearest
    rows, tail = view.snapshots.rows, view.tail.columns
    important = np.concatenate([rows.importance, tail["importance"]]).astype(np.float32)
    newer = (made - when.since) / (when.until - when.since)
    scores = IN_TIME + _OF_IMPORTANCE * np.clip(important, 0.0, 1.0) + _OF_AGE * newer
    if analysis.kinds:
        of_kind = replace(question.filter, kinds=tuple(sorted(analysis.kinds)))
        scores += OF_KIND * view.masks.of(of_kind)
    listed: Scores = np.where(within, scores, 0.0).astype(np.float32)
    return listed


def _union(
    view: View,
    rankings: Mapping[str, Ranking],
    insights: Docs,
    mask: Mask,
    *,
    with_answers: bool,
) -> Docs:
    """Return the documents of all channels, ascending.

    With them are the answers to those of the channels that ask.
    """
    ranked = np.concatenate([_NO_DOCS, *(ranking.docs for ranking in rankings.values())])
    sessions, answers = view.snapshots.sessions, _NO_DOCS
    if sessions is not None and with_answers:
        rows = ranked[ranked < len(view.snapshots.rows)]
        answers = sessions.after[rows[sessions.asks[rows] == 1]].astype(np.int64)
        answers = answers[answers >= 0]
    docs = np.sort(np.concatenate([ranked, answers[mask[answers]], insights]))
    # of a few hundred this is faster than `np.unique`
    return docs[np.concatenate([[True], docs[1:] != docs[:-1]])] if len(docs) else docs


def _top_insights(
    channels: Mapping[str, Channel],
    rankings: Mapping[str, Ranking],
    insights: Docs,
    windows: Mapping[str, int],
) -> Docs:
    """Return the insights that are candidates, ascending: each channel's best few.

    In a full window, they must score above the channel's last other document.
    """
    if not len(insights):
        return insights
    docs = insights[-INSIGHTS_SEARCHED:]
    best = [_NO_DOCS]
    for name, channel in channels.items():
        others = rankings[name].scores
        least = float(others[-1]) if len(others) >= windows[name] else channel.least
        best.append(docs[top_k(channel.of(docs), None, MOST_INSIGHTS, above=least)])
    return np.unique(np.concatenate(best))
