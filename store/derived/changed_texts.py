"""Reading the texts of memories that changed since a build, many of them on all processors."""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from store.memories.parts import parts_of
from store.snapshots.parallel import pack_table, unpack_table
from store.snapshots.projection import Inputs, Mapper

FEW = 10_000  # texts that are read before other processes have started


def read_changed_texts(
    inputs: Inputs,
    differs: npt.NDArray[np.bool_],
    fields: Sequence[str],
    read: Callable[[pa.Buffer], pa.Buffer],
) -> Iterator[tuple[int, npt.NDArray[np.int64], pa.Table]]:
    """Yield each part of the memories that has changed ones: its number, their documents, a table.

    The table is the result of `read` on the `fields` of the memories marked in `differs`, by
    document. `read` takes and returns packed tables, as other processes may run it.
    """
    parts = parts_of(inputs.tables["memories"], "memories")
    starts = np.cumsum([0, *(part.rows for part in parts)])
    rows = [np.flatnonzero(differs[start:end]) for start, end in pairwise(starts)]
    changed = [number for number, rows_of_part in enumerate(rows) if len(rows_of_part)]

    def pack(number: int) -> pa.Buffer:
        table = parts[number].table.select(fields)
        is_whole = len(rows[number]) == parts[number].rows
        return pack_table(table if is_whole else table.take(pa.array(rows[number])))

    apply: Mapper = inputs.map if differs.sum() > FEW else map
    for number, data in zip(changed, apply(read, map(pack, changed)), strict=True):
        yield number, rows[number] + starts[number], unpack_table(data)
