"""
Collapse: an insight gives way to what it was made of.

An insight says in one text what several memories say, so it holds more of a question's words than
any of them, and would push them out. It is weighed beside them and takes no part in what they are
weighed by. Where a source of it is a candidate, the best of those stands for it and names it; where
none is, it comes as itself, if it is SURE, whatever bar is asked for: else the words it has beyond
its sources' ("4 notes, 2026-03-01 to ...") would bring it to questions on anything. Who asks for
insights by their kind gets them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from serve.query.analysis import Question
from serve.reader.reader import View
from serve.stages.weighing import Weighed

Docs = npt.NDArray[np.int64]
Values = npt.NDArray[np.float64]

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
