"""
Masks: which documents a filter lets pass, kept at hand for the filters asked last.

Documents are numbered through: first the snapshot's rows, then the tail's slots. A mask over the
rows is kept as long as its snapshot, one over all as long as nothing is written. Of the moment of
asking it only matters what has expired by then, so a filter stands for those of many moments.
"""

from functools import lru_cache, partial

import numpy as np
import numpy.typing as npt

from serve.filters import Filter
from serve.fresh.tail import Tail
from store.projections.memory.rows import Mask, MemoryRows
from store.projections.memory.table import NEVER

_KEPT = 8  # filters; a byte a memory each

Times = npt.NDArray[np.int64]


class RowMasks:
    """The masks over the rows of one snapshot. Threads may share it."""

    def __init__(self, rows: MemoryRows) -> None:
        self.expiries = _expiries(rows.expires_at)
        self.of = lru_cache(maxsize=_KEPT)(lambda asked: _fixed(asked.mask(rows)))


class Masks:
    """The masks of one view. Threads may share it."""

    def __init__(self, rows: RowMasks, tail: Tail) -> None:
        fresh = _expiries(tail.columns["expires_at"])
        self._expiries = np.union1d(rows.expiries, fresh) if len(fresh) else rows.expiries
        # of what it needs, not of ourselves: a circle would keep the files of a snapshot that
        # gave way, and what was erased since, until somebody looks for circles
        self._of = lru_cache(maxsize=_KEPT)(partial(_made, rows, tail))

    def of(self, asked: Filter) -> Mask:
        """Return which documents may come back, [rows + slots]; not yours to change."""
        passed = int(self._expiries.searchsorted(asked.now, side="right"))
        return self._of(asked.at(int(self._expiries[passed - 1]) if passed else 0))


def _made(rows: RowMasks, tail: Tail, asked: Filter) -> Mask:
    mask: Mask = rows.of(asked)
    if not len(tail):
        return mask
    mask = np.concatenate([mask, asked.mask(tail.columns) & tail.live])
    mask[tail.hidden] = False
    return _fixed(mask)


def _expiries(expires_at: Times) -> Times:
    """Return the moments at which anything expires, ascending."""
    return np.unique(expires_at[expires_at < NEVER])


def _fixed(mask: Mask) -> Mask:
    mask.setflags(write=False)
    return mask
