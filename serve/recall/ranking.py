"""
Ranking: the confidence of each candidate, and the order of the profile.

Nothing here depends on the hour of the question, on when the manifest was published, or on later
recalls: ages are counted to the view's moment, which the log gives and each receipt keeps, and uses
and ratings are those of the snapshot. So the same place in the log gives the same order, built
today or next week. Memories written after the build count as just written.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from serve.reader.view import View
from serve.recall import scoring
from serve.recall.analysis import Analysis, Question
from serve.recall.candidates import IN_TIME, OF_KIND
from serve.recall.classification import KINDS
from serve.recall.evidence import Evidence
from serve.recall.scoring import (
    LASTING_KINDS,
    LETTERS,
    MEANING,
    USUAL,
    Docs,
    Values,
    confidence,
    coverage,
    decay,
)
from store.log.event_kinds import MEMORY_KINDS

Places = npt.NDArray[np.int64]

SURE = 0.15  # of confidence: a hit below it is marked as unsure
_IS_LASTING = np.array([kind in LASTING_KINDS for kind in MEMORY_KINDS])  # as columns code them


class Ranked(msgspec.Struct, frozen=True):
    """The ranked candidates: `order` are their places, best first.

    All else is in the order of the candidates. `importance` is the stated one; its signal is the
    decayed one. `insights` are the ids of insights that gave way, by the place of the source that
    replaces them; `gave_way` counts them.
    """

    order: Places
    scores: Values
    signals: dict[str, Values]
    weights: dict[str, float]
    importance: Values
    confidence: Values
    coverage: Values  # the share of the query's terms, by weight, in each
    signs: Mapping[str, Values]  # the inputs of the confidence
    insights: Mapping[int, tuple[str, ...]] = {}
    gave_way: int = 0

    def count_dropped(self, others: Mapping[str, int]) -> dict[str, int]:
        """Count the dropped candidates by reason; `others` were dropped later."""
        return {**others, **({"gave_way": self.gave_way} if self.gave_way else {})}


def rank(view: View, question: Question, analysis: Analysis, evidence: Evidence) -> Ranked:
    """Return the candidates in the order of the question's profile; ties keep the fused order.

    The words of the question before a candidate count as its own: an answer does not repeat them.
    """
    known = evidence.known
    matched = np.maximum(evidence.term_shares, evidence.question_term_shares)
    covered = coverage(matched, known.weights)
    has_meaning = view.snapshots.calibration.knows_meaning and analysis.vector is not None
    model = MEANING if has_meaning else LETTERS
    near = evidence.nearness.astype(np.float64)
    signs = {
        "near": near,
        "words": known.counts @ matched,
        "rarest": covered * (known.rarities[:, None] * matched).max(axis=0, initial=0.0),
        "unknown": np.full(len(near), known.unknown),
    }
    sure = confidence(model, near, signs["words"], signs["rarest"], known.unknown)
    if analysis.lists_time and evidence.time is not None:
        of_kind = matched.any(axis=0) | (evidence.time >= IN_TIME + OF_KIND)
        sure = scoring.listing_confidence(evidence.time >= IN_TIME, of_kind | (not analysis.kinds))
    sure = np.round(sure, 4)  # the shown value is compared with the bar
    fit = KINDS[analysis.task_mode] if analysis.task_mode else None
    ranked = _weigh(view, question, evidence, covered, sure, signs, fit)
    if question.profile == "balanced":
        # the best answer comes first, so no candidate may be surer than those above it
        own = ranked.order[~view.insights.among(evidence.docs)[ranked.order]]
        sure[own] = np.minimum.accumulate(sure[own])
    return _fold_insights(view, question, evidence.docs, ranked)


def _weigh(
    view: View,
    question: Question,
    evidence: Evidence,
    covered: Values,
    sure: Values,
    confidence_signs: Mapping[str, Values],
    fit: Mapping[str, float] | None,
) -> Ranked:
    """Return the candidates ranked by the signals of the question's profile.

    `fit` maps kinds of memories to their fit for the caller's task, in [0, 1], 0 for missing kinds;
    None, for an unknown task, is neutral.
    """
    weights = question.profiles.weights(question.profile)
    stated = _column(view, evidence.docs, view.snapshots.rows.importance, "importance")
    stated = np.clip(stated.astype(np.float64), 0.0, 1.0)
    signal: Mapping[str, Callable[[], Values]] = {
        "recency": lambda: scoring.recency(_last_used(view, evidence.docs), view.moment),
        "relevance": lambda: scoring.relevance(evidence.scores, view.insights.among(evidence.docs)),
        "importance": lambda: _fade(view, evidence.docs, stated),
        "query_overlap": lambda: np.clip(covered, 0.0, 1.0),
        "route_fit": lambda: _route_fit(view, evidence.docs, fit),
        "usefulness": lambda: _usefulness(view, evidence.docs),
    }
    signals = {name: signal[name]() for name in weights}
    if question.profile == "balanced":
        # importance counts from its default, so that saying nothing changes nothing
        priors = signals | {"importance": 2.0 * signals["importance"] - 1.0}
        scores = scoring.with_priors(evidence.scores, priors, weights)
    else:
        scores = scoring.weighted_mean(signals, weights)
    order = np.argsort(-scores, kind="stable")
    return Ranked(order, scores, signals, weights, stated, sure, covered, confidence_signs)


def _fold_insights(view: View, question: Question, docs: Docs, ranked: Ranked) -> Ranked:
    """Return the candidates with each insight replaced by its best source among them, if any.

    An insight combines several memories in one text, so it has more of a question's words than any
    of them, and would push them out. If sources of it are candidates, the best of those replaces it
    and names it; if not, the insight itself is kept if its confidence is SURE, at any bar:
    otherwise its own words, beyond those of its sources, would match questions on any topic. A
    question for insights by their kind gets them.
    """
    derived = view.insights
    places = np.flatnonzero(derived.among(docs))
    if not len(places) or "insight" in question.filter.kinds:
        return ranked
    rank = np.empty(len(docs), np.int64)
    rank[ranked.order] = np.arange(len(docs))
    ours = set(places.tolist())
    # a source is named by its row, one without a row by its document
    rows = _rows(view, docs)
    names = np.where(rows >= 0, rows, docs).tolist()
    place_of = {name: place for place, name in enumerate(names) if place not in ours}
    scores = ranked.scores.copy()
    folded: dict[int, list[int]] = {}  # by the place of the source that replaces them
    removed: list[int] = []
    for place in places[np.argsort(rank[places])].tolist():
        sources = [place_of[name] for name in derived.sources(int(docs[place])) if name in place_of]
        if sources:
            source = min(sources, key=lambda candidate: int(rank[candidate]))
            scores[source] = max(scores[source], scores[place])
            folded.setdefault(source, []).append(place)
            removed.append(place)
        elif ranked.confidence[place] < SURE:
            removed.append(place)
    order = np.lexsort((rank, -scores))
    order = order[~np.isin(order, removed)]
    ids = {source: _ids(view, docs[insights]) for source, insights in folded.items()}
    return replace(ranked, order=order, scores=scores, insights=ids, gave_way=len(removed))


def _ids(view: View, docs: Docs) -> tuple[str, ...]:
    rows = view.snapshots.rows
    return tuple(
        rows.memories.value(doc, "id")
        if doc < len(rows)
        else view.tail.take([doc - len(rows)])[0].id
        for doc in docs.tolist()
    )


def _fade(view: View, docs: Docs, stated: Values) -> Values:
    """Return the stated importances after decay, as of the view's moment."""
    faded = stated.copy()
    places = np.flatnonzero(stated > USUAL)  # the usual importance does not fade
    if len(places):
        docs, stated = docs[places], stated[places]
        uses = np.zeros(len(docs), np.int64)
        if (usage := view.snapshots.usage) is not None:
            uses = usage.counts("recalled", _rows(view, docs))
        changed = _column(view, docs, view.snapshots.rows.updated_at, "updated_at")
        idle = view.moment - np.maximum(_last_used(view, docs), changed)
        rows = view.snapshots.rows
        built = docs < len(rows)
        lasting, pinned = np.zeros(len(docs), np.bool_), np.zeros(len(docs), np.bool_)
        lasting[built] = _IS_LASTING[rows.codes("kind")[docs[built]]]
        pinned[built] = rows.codes("pinned")[docs[built]] > 0
        fresh = view.tail.take((docs[~built] - len(rows)).tolist())
        lasting[~built] = [memory.kind in LASTING_KINDS for memory in fresh]
        pinned[~built] = [memory.pinned for memory in fresh]
        faded[places] = decay(stated, idle, uses, lasting, pinned)
    return faded


def _last_used(view: View, docs: Docs) -> npt.NDArray[np.int64]:
    """Return the time of each document's last recall known to the build, else its last change."""
    changed = _column(view, docs, view.snapshots.rows.updated_at, "updated_at").astype(np.int64)
    usage = view.snapshots.usage
    if usage is None:
        return changed
    recalled = usage.counts("last_recalled_at", _rows(view, docs))
    return np.where(recalled > 0, recalled, changed)


def _usefulness(view: View, docs: Docs) -> Values:
    """Return the verdict of ratings and, for less, of judgments; a count of recalls is none, it
    would feed on itself.
    """
    usage = view.snapshots.usage
    if usage is None or not (usage.ratings.any() or usage.judged.any()):
        return np.zeros(len(docs))
    names = ("ratings", "judged", "verdicts", "judgments")
    rated, judged, verdicts, judgments = (
        counts.astype(np.float64) for counts in usage.columns(names, _rows(view, docs))
    )
    return scoring.usefulness(
        (verdicts + scoring.JUDGED * judgments) / 1_000, rated + scoring.JUDGED * judged
    )


def _route_fit(view: View, docs: Docs, fit: Mapping[str, float] | None) -> Values:
    if fit is None:
        return np.full(len(docs), scoring.NEUTRAL)
    rows = view.snapshots.rows
    kinds = rows.column_values("kind", docs[docs < len(rows)])
    fits = np.zeros(len(docs))
    fits[docs < len(rows)] = [fit.get(str(kind), 0.0) for kind in kinds]
    kinds = view.tail.columns.column_values("kind", _fresh(view, docs))
    fits[docs >= len(rows)] = [fit.get(str(kind), 0.0) for kind in kinds]
    return fits


def _column(view: View, docs: Docs, column: npt.NDArray[Any], name: str) -> npt.NDArray[Any]:
    """Return a column of the candidates; `name` is the column's name in the tail."""
    values = np.zeros(len(docs), column.dtype)
    built = docs < len(column)
    values[built] = column[docs[built]]
    values[~built] = view.tail.columns[name][_fresh(view, docs)]
    return values


def _rows(view: View, docs: Docs) -> Places:
    """Return the snapshot's row of each candidate, -1 for one first written since."""
    rows = docs.copy()
    # some were built and have changed since
    rows[rows >= len(view.snapshots.rows)] = view.tail.columns["row"][_fresh(view, docs)]
    return rows


def _fresh(view: View, docs: Docs) -> Places:
    """Return the tail's slots among the candidates, in their order."""
    rows = len(view.snapshots.rows)
    return docs[docs >= rows] - rows
