"""
Weighing: the order in which a profile puts the candidates.

Nothing here depends on the hour of the question or on what was recalled since the build: age is
counted to the moment the manifest was published, and uses and ratings are those of the snapshot. So
the same manifest gives the same order on every run. What was written after the build counts as
just written.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from serve.reader.view import View
from serve.recall import scoring
from serve.recall.analysis import Question
from serve.recall.candidates import Candidates
from serve.recall.scoring import LASTING_KINDS, USUAL, decayed
from store.log.event_kinds import MEMORY_KINDS

Places = npt.NDArray[np.int64]
Values = npt.NDArray[np.float64]

_LASTING = np.array([MEMORY_KINDS.index(kind) for kind in LASTING_KINDS])  # as columns code them


@dataclass(frozen=True, slots=True)
class Weighed:
    """The places of the candidates, best first; scores and signals in the candidates' order.

    `told` is the importance that was said; the signal is what time has left of it.
    """

    order: Places
    scores: Values
    signals: dict[str, Values]
    weights: dict[str, float]
    told: Values


def weigh(
    view: View,
    question: Question,
    found: Candidates,
    covered: Values,
    fitting: Mapping[str, float] | None = None,
) -> Weighed:
    """Return the candidates in the order of the question's profile; equals stay as they were fused.

    `covered` is the share of the query's words each holds; `fitting` says how well a kind of memory
    fits what the asker is at, in [0, 1], kinds not named 0; None, where nobody knows, is neutral.
    """
    weights = question.profiles.weights(question.profile)
    told = _importance(view, found)
    made: Mapping[str, Callable[[], Values]] = {
        "recency": lambda: scoring.recency(_last_used(view, found), _moment(view)),
        "relevance": lambda: scoring.relevance(found.scores, view.derived.among(found.docs)),
        "importance": lambda: _faded(view, found, told),
        "query_overlap": lambda: np.clip(covered, 0.0, 1.0),
        "route_fit": lambda: _route_fit(view, found, fitting),
        "usefulness": lambda: _usefulness(view, found),
    }
    signals = {name: made[name]() for name in weights}
    if question.profile == "balanced":
        # importance is told from its default, so that saying nothing changes nothing
        priors = signals | {"importance": 2.0 * signals["importance"] - 1.0}
        scores = scoring.with_priors(found.scores, priors, weights)
    else:
        scores = scoring.weighted_mean(signals, weights)
    return Weighed(np.argsort(-scores, kind="stable"), scores, signals, weights, told)


def _moment(view: View) -> int:
    """Return when the manifest was published; without one, the tail's newest change."""
    manifest = view.snapshots.manifest
    if manifest is not None:
        return manifest.at
    return int(view.tail.columns["updated_at"].max(initial=0))


def _importance(view: View, found: Candidates) -> Values:
    values = _column(view, found, view.snapshots.rows.importance, "importance")
    return np.clip(values.astype(np.float64), 0.0, 1.0)


def _faded(view: View, found: Candidates, told: Values) -> Values:
    """Return what is left of the importances that were told, as of the manifest's moment."""
    faded = told.copy()
    places = np.flatnonzero(told > USUAL)  # what is usual does not fade
    if len(places):
        uses = np.zeros(len(told), np.int64)
        if (usage := view.snapshots.usage) is not None:
            uses = usage.counts("recalled", _rows(view, found))
        changed = _column(view, found, view.snapshots.rows.updated_at, "updated_at")
        idle = _moment(view) - np.maximum(_last_used(view, found), changed)
        lasting, pinned = _held(view, found.docs[places])
        faded[places] = decayed(told[places], idle[places], uses[places], lasting, pinned)
    return faded


def _held(view: View, docs: Places) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Return which of some documents are of a lasting kind, and which are pinned."""
    rows = view.snapshots.rows
    built = docs < len(rows)
    lasting, pinned = np.zeros(len(docs), np.bool_), np.zeros(len(docs), np.bool_)
    lasting[built] = np.isin(rows.codes("kind")[docs[built]], _LASTING)
    pinned[built] = rows.codes("pinned")[docs[built]] > 0
    fresh = view.tail.take((docs[~built] - len(rows)).tolist())
    lasting[~built] = [memory.kind in LASTING_KINDS for memory in fresh]
    pinned[~built] = [memory.pinned for memory in fresh]
    return lasting, pinned


def _last_used(view: View, found: Candidates) -> npt.NDArray[np.int64]:
    """Return when each was last recalled, as far as the build knows, else last changed."""
    changed = _column(view, found, view.snapshots.rows.updated_at, "updated_at").astype(np.int64)
    usage = view.snapshots.usage
    if usage is None:
        return changed
    recalled = usage.counts("last_recalled_at", _rows(view, found))
    return np.where(recalled > 0, recalled, changed)


def _usefulness(view: View, found: Candidates) -> Values:
    """Return the verdict of ratings and, for less, of judgments; a count of recalls is none, it
    would feed on itself.
    """
    usage = view.snapshots.usage
    if usage is None or not (usage.ratings.any() or usage.judged.any()):
        return np.zeros(len(found.docs))
    rows = _rows(view, found)
    rated, judged, verdicts, judgments = (
        usage.counts(name, rows).astype(np.float64)
        for name in ("ratings", "judged", "verdicts", "judgments")
    )
    return scoring.usefulness(
        (verdicts + scoring.JUDGED * judgments) / 1_000, rated + scoring.JUDGED * judged
    )


def _route_fit(view: View, found: Candidates, fitting: Mapping[str, float] | None) -> Values:
    if fitting is None:
        return np.full(len(found.docs), scoring.NEUTRAL)
    rows = view.snapshots.rows
    kinds = rows.named("kind", found.docs[found.docs < len(rows)])
    fits = np.zeros(len(found.docs))
    fits[found.docs < len(rows)] = [fitting.get(str(kind), 0.0) for kind in kinds]
    kinds = view.tail.columns.named("kind", _fresh(view, found))
    fits[found.docs >= len(rows)] = [fitting.get(str(kind), 0.0) for kind in kinds]
    return fits


def _column(view: View, found: Candidates, column: npt.NDArray[Any], name: str) -> npt.NDArray[Any]:
    """Return a column of the candidates; `name` is that of the tail's."""
    values = np.zeros(len(found.docs), column.dtype)
    built = found.docs < len(column)
    values[built] = column[found.docs[built]]
    values[~built] = view.tail.columns[name][_fresh(view, found)]
    return values


def _rows(view: View, found: Candidates) -> Places:
    """Return the snapshot's row of each candidate, -1 for one first written since."""
    rows = found.docs.copy()
    # some were built and have changed since
    rows[rows >= len(view.snapshots.rows)] = view.tail.columns["row"][_fresh(view, found)]
    return rows


def _fresh(view: View, found: Candidates) -> Places:
    """Return the tail's slots among the candidates, in their order."""
    rows = len(view.snapshots.rows)
    return found.docs[found.docs >= rows] - rows


# Collapse: an insight gives way to what it was made of.
#
# An insight says in one text what several memories say, so it holds more of a question's words
# than
# any of them, and would push them out. It is weighed beside them and takes no part in what they
# are
# weighed by. Where a source of it is a candidate, the best of those stands for it and names it;
# where
# none is, it comes as itself, if it is SURE, whatever bar is asked for: else the words it has
# beyond
# its sources' ("4 notes, 2026-03-01 to ...") would bring it to questions on anything. Who asks for
# insights by their kind gets them.

Docs = npt.NDArray[np.int64]


SURE = 0.3  # of confidence: the bar that recall has unless told otherwise


@dataclass(frozen=True, slots=True)
class Collapsed:
    """The candidates as they are chosen from; `insights` are the ids by the place of a source."""

    weighed: Weighed
    insights: Mapping[int, tuple[str, ...]]
    gone: int = 0  # insights that gave way

    def counted(self, dropped: Mapping[str, int]) -> dict[str, int]:
        """Return how many candidates fell to what, these among them."""
        return {**dropped, **({"gave_way": self.gone} if self.gone else {})}


def collapsed(
    view: View, question: Question, docs: Docs, weighed: Weighed, sure: Values
) -> Collapsed:
    """Return the candidates with each insight given way to its best source, where it has one.

    `sure` are the candidates' confidences, in the order of `docs`.
    """
    derived = view.derived
    places = np.flatnonzero(derived.among(docs))
    if not len(places) or "insight" in question.filter.kinds:
        return Collapsed(weighed, {})
    rank = np.empty(len(docs), np.int64)
    rank[weighed.order] = np.arange(len(docs))
    ours = set(places.tolist())
    place_of = {row: place for place, row in enumerate(_named(view, docs)) if place not in ours}
    scores, found, gone = weighed.scores.copy(), dict[int, list[int]](), list[int]()
    for place in places[np.argsort(rank[places])].tolist():
        sources = [place_of[row] for row in derived.sources(int(docs[place])) if row in place_of]
        if sources:
            source = min(sources, key=lambda one: int(rank[one]))
            scores[source] = max(scores[source], scores[place])
            found.setdefault(source, []).append(place)
            gone.append(place)
        elif sure[place] < SURE:
            gone.append(place)
    order = np.lexsort((rank, -scores))
    order = order[~np.isin(order, gone)]
    ids = {source: _ids(view, docs[some]) for source, some in found.items()}
    return Collapsed(replace(weighed, order=order, scores=scores), ids, len(gone))


def _named(view: View, docs: Docs) -> list[int]:
    """Return how sources are named: by their rows, those without one by their documents."""
    rows, names = len(view.snapshots.rows), docs.copy()
    fresh = docs >= rows
    of = view.tail.columns["row"][docs[fresh] - rows]
    names[fresh] = np.where(of >= 0, of, docs[fresh])
    found: list[int] = names.tolist()
    return found


def _ids(view: View, docs: Docs) -> tuple[str, ...]:
    rows = view.snapshots.rows
    return tuple(
        rows.memories.value(doc, "id")
        if doc < len(rows)
        else view.tail.take([doc - len(rows)])[0].id
        for doc in docs.tolist()
    )
