"""
Nearness: what the vectors say of every document, asked only where it matters.

It is the calibrated cosine of a document's text with the query, or of one of its fields where that
is more and the layer `fields` is on. Calibration keeps the order, so the best are found by cosine
and only they are calibrated.
"""

from types import TracebackType
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from serve.reader.view import View
from store.index.top_k import top_k

Scores = npt.NDArray[np.float32]
Docs = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

LEAST = 0.025  # below it a vector says nothing
_ROUNDING = 1e-6  # of a cosine


class Nearness:
    """What the vectors say of one query, over the snapshot's rows and then the tail's slots."""

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


# Scratch: arrays as long as the memory, lent to one recall after the other.
#
# A fresh array of a million scores costs as much as filling it: the system hands out its pages one
# by one. One that was used a moment ago is at hand, and may still lie in the processor's cache.

_KEPT = 4  # arrays; more are lent where more recalls run at once, and not kept
_free: list[Scores] = []


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
