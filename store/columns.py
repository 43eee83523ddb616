"""
Columns of tables as arrays, without a copy where they lie in one chunk of a mapped file.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def view(table: pa.Table, name: str) -> npt.NDArray[Any]:
    """Return a column without nulls as numpy, into the mapped file where it is one."""
    found: npt.NDArray[Any] = array(table, name).to_numpy(zero_copy_only=True)
    return found


def array(table: pa.Table, name: str) -> pa.Array:
    """Return a column as one array."""
    column = table.column(name)
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def taken(table: pa.Table, rows: npt.NDArray[np.int64]) -> pa.Table:
    """Return some rows, given ascending; only these are copied, none where they are one run."""
    if len(rows) and rows[-1] - rows[0] + 1 == len(rows):
        return table.slice(int(rows[0]), len(rows))
    return pa.Table.from_batches(_taken(table, rows), table.schema)


def _taken(table: pa.Table, rows: npt.NDArray[np.int64]) -> Iterator[pa.RecordBatch]:
    start = 0
    for batch in table.to_batches():
        low, high = np.searchsorted(rows, (start, start + batch.num_rows))
        if low < high:
            yield batch.take(pa.array(rows[low:high] - start))
        start += batch.num_rows
