"""
Known: the vectors that were made before, found by their text's hash, so none is made twice.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from store.vectors import hashes as text_hashes
from store.vectors.hashes import Finder, Hashes
from store.vectors.quantized import Halves

Places = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Known:
    """Runs of vectors [n, d] and the hashes of their texts [all]; zeros where there is none."""

    hashes: Hashes
    runs: Sequence[Halves]

    @classmethod
    def of(cls, tables: Iterable[pa.Table]) -> "Known":
        """Return what tables with the columns `text_hash` and `half` hold, in their order."""
        some = [table for table in tables if table.num_rows]
        columns = [chunk for table in some for chunk in table.column("text_hash").chunks]
        halves = [chunk for table in some for chunk in table.column("half").chunks]
        return cls(
            text_hashes.of_column(pa.chunked_array(columns, pa.binary(16))),
            [matrix(chunk) for chunk in halves if len(chunk)],
        )

    def find(self, wanted: Hashes) -> Places:
        """Return a place of each wanted hash, [m]; -1 where it is not there."""
        if not len(wanted) or not len(self.hashes):
            return np.full(len(wanted), -1, np.int64)
        return self._finder.find(wanted)

    @cached_property
    def _finder(self) -> Finder:
        return Finder(self.hashes)

    @cached_property
    def _starts(self) -> Places:
        return np.cumsum([0, *map(len, self.runs)])

    def copy(self, places: Places, into: Halves, at: Places) -> None:
        """Write the vectors of some places into rows `at` of `into`."""
        for run, start in zip(self.runs, self._starts, strict=False):
            here = np.flatnonzero((places >= start) & (places < start + len(run)))
            if len(here):
                into[at[here]] = run[places[here] - start]


def matrix(column: pa.FixedSizeListArray) -> npt.NDArray[Any]:
    """Return a column of vectors as [n, d], into the mapped file."""
    width = column.type.list_size
    # not `flatten`, which would load pyarrow.compute into the server
    flat = column.values.slice(column.offset * width, len(column) * width)
    rows: npt.NDArray[Any] = flat.to_numpy(zero_copy_only=True).reshape(-1, width)
    return rows


def column(rows: npt.NDArray[Any]) -> pa.FixedSizeListArray:
    """Return vectors [n, d] as a column; nothing is copied."""
    return pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), rows.shape[1])
