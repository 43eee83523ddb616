"""
Derived: the insights that jobs made, over the snapshot and the tail, and what each was made of.

Documents are numbered through: first the snapshot's rows, then the tail's slots.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from serve.reader.snapshots import Snapshots
from serve.reader.tail import Tail
from serve.recall.scoring import Ranking
from store.index.top_k import top_k

LOOKED_AT = 1_024  # insights, the newest: bounds what a question costs
ENTERING = 16  # insights that each channel adds to the candidates

Docs = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Scores = npt.NDArray[np.float32]

_NONE = np.empty(0, np.int64)


class Channel(Protocol):
    least: ClassVar[float]  # a score says something over it

    def of(self, docs: Docs) -> Scores: ...


@dataclass(frozen=True)
class Derived:
    """The insights of one view: `docs` ascend. Threads may share it."""

    docs: Docs
    snapshots: Snapshots
    tail: Tail

    @classmethod
    def of(cls, snapshots: Snapshots, tail: Tail) -> "Derived":
        """Return the insights that stand; one that changed since the build is that of the tail."""
        built = snapshots.insights.documents if snapshots.insights else _NONE
        if len(built) and len(tail.hidden):
            built = built[~np.isin(built, tail.hidden)]
        slots = np.flatnonzero(tail.columns.equal("kind", ("insight",)) & tail.live)
        made = [memory.job is not None for memory in tail.take(slots.tolist())]
        fresh = slots[np.array(made, np.bool_)] + len(snapshots.rows)
        return cls(np.concatenate([built, fresh]), snapshots, tail)

    def apart(self, passing: Mask) -> tuple[Mask, Docs]:
        """Return a mask without the insights, and those of them that it lets pass, ascending."""
        if not len(self.docs):
            return passing, _NONE
        mask = passing.copy()
        mask[self.docs] = False
        return mask, self.docs[passing[self.docs]]

    def among(self, docs: Docs) -> Mask:
        """Return which of some documents are insights, [docs]."""
        return np.isin(docs, self.docs)

    def sources(self, doc: int) -> list[int]:
        """Return the rows of what an insight was made of, and of those without one the slots.

        A source that changed since the build is named by its row all the same.
        """
        rows, of = self.snapshots.rows, self.snapshots.insights
        if doc < len(rows):
            return of.sources(doc).tolist() if of else []
        (memory,) = self.tail.take([doc - len(rows)])
        return [place for id_ in memory.source_ids if (place := self._place(id_)) is not None]

    def _place(self, id_: str) -> int | None:
        row = self.snapshots.rows.row(id_)
        if row is not None:
            return row
        slot = self.tail.slot(id_)
        return None if slot is None else slot + len(self.snapshots.rows)


def entering(
    channels: Mapping[str, Channel], rankings: Mapping[str, Ranking], insights: Docs, window: int
) -> Docs:
    """Return those of some insights, ascending, that are candidates: each channel's best few.

    They pass what the last of the channel's `window` others passed.
    """
    docs = insights[-LOOKED_AT:]
    found = [_NONE]
    for name, one in channels.items() if len(docs) else ():
        others = rankings[name].scores
        least = float(others[-1]) if len(others) >= window else one.least
        found.append(docs[top_k(one.of(docs), None, ENTERING, above=least)])
    return np.unique(np.concatenate(found))
