"""
MemoryRows: the memories table as recall reads it, columns mapped, texts fetched only when returned.

A row's number is the document number of every other projection.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from store.columns import view
from store.projection import Tables
from store.projections.memories import (
    ACTIVE,
    EDGES,
    FORGOTTEN,
    IDS,
    MEMORIES,
    Edge,
    Memory,
    id_hash,
    memories,
)

Mask = npt.NDArray[np.bool_]
NEVER = np.iinfo(np.int64).max  # stands for "does not expire"


@dataclass(frozen=True)
class MemoryRows:
    """The rows of one snapshot. Row numbers outside of it are the caller's mistake."""

    table: pa.Table
    hashes: npt.NDArray[np.uint64]
    by_hash: npt.NDArray[np.int32]
    edges: pa.Table

    @classmethod
    def open(cls, tables: Tables) -> "MemoryRows":
        ids = tables["ids"]
        return cls(tables["memories"], view(ids, "hash"), view(ids, "document"), tables["edges"])

    @classmethod
    def empty(cls) -> "MemoryRows":
        """Return the rows of a memory from which nothing was built yet."""
        return cls.open(
            {
                "memories": MEMORIES.empty_table(),
                "ids": IDS.empty_table(),
                "edges": EDGES.empty_table(),
            }
        )

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def row(self, id_: str) -> int | None:
        """Return the row of an id, or None."""
        start = int(np.searchsorted(self.hashes, np.uint64(id_hash(id_))))
        for place in range(start, len(self.hashes)):
            if int(self.hashes[place]) != id_hash(id_):
                return None
            row = int(self.by_hash[place])
            if self.table.column("id")[row].as_py() == id_:
                return row
        return None

    def find(self, id_: str) -> Memory | None:
        row = self.row(id_)
        return None if row is None else self.take([row])[0]

    def holder(self, project: str | None, key: str) -> str | None:
        return self._holders.get((project, key))

    def values(self, project: str | None, key: str) -> Sequence[str]:
        return self._values.get((project, key), ())

    def take(self, rows: Sequence[int]) -> list[Memory]:
        """Return the memories of some rows, in the order asked."""
        chosen = self.table.take(pa.array(rows, pa.int64()))
        return list(memories(chosen))

    def edges_of(self, id_: str) -> list[Edge]:
        """Return the reasoning edges from a memory and to it, oldest first."""
        ends = (pc.equal(self.edges.column(name), id_) for name in ("source", "target"))
        return [Edge(**row) for row in self.edges.filter(pc.or_(*ends)).to_pylist()]

    def text_hash(self, row: int) -> bytes:
        found: bytes = self.table.column("text_hash")[row].as_py()
        return found

    @cached_property
    def created_at(self) -> npt.NDArray[np.int64]:
        return view(self.table, "created_at")

    @cached_property
    def updated_at(self) -> npt.NDArray[np.int64]:
        return view(self.table, "updated_at")

    @cached_property
    def importance(self) -> npt.NDArray[np.float64]:
        return view(self.table, "importance")

    @cached_property
    def expires_at(self) -> npt.NDArray[np.int64]:
        return self._or_never("expires_at")

    def _or_never(self, name: str) -> npt.NDArray[np.int64]:
        filled: npt.NDArray[np.int64] = pc.fill_null(self.table.column(name), NEVER).to_numpy()
        return filled

    def living(self, now: int) -> Mask:
        """Return which rows are active and not expired at a moment, [rows]; yours to change."""
        if not self._is_expiring:
            return self._active.copy()
        mask: Mask = self._active & (self.expires_at > now)
        return mask

    def held(self, at: int) -> Mask:
        """Return which rows held at a moment, [rows]; forgotten ones never did."""
        ends = np.minimum(self._ended_at, self.expires_at)
        mask: Mask = (self.created_at <= at) & (ends > at) & ~self.equal("state", (FORGOTTEN,))
        return mask

    @cached_property
    def _ended_at(self) -> npt.NDArray[np.int64]:
        return self._or_never("ended_at")

    @cached_property
    def _active(self) -> Mask:
        return self.equal("state", (ACTIVE,))

    @cached_property
    def _is_expiring(self) -> bool:
        return bool((self._active & (self.expires_at < NEVER)).any())

    def equal(self, name: str, wanted: Sequence[str]) -> Mask:
        """Return where a dictionary column holds one of the values, [rows]."""
        codes, values = self._dictionaries[name]
        # one place more than there are values: null has code -1 and finds it
        is_wanted = np.zeros(len(values) + 1, np.bool_)
        is_wanted[[code for code, value in enumerate(values) if value in wanted]] = True
        mask: Mask = is_wanted[codes]
        return mask

    def missing(self, name: str) -> Mask:
        """Return where a dictionary column is null, [rows]."""
        return self._dictionaries[name][0] < 0

    def named(self, name: str, rows: npt.NDArray[np.int64]) -> list[str | None]:
        """Return a dictionary column's values for some rows."""
        codes, values = self._dictionaries[name]
        return [values[code] if code >= 0 else None for code in codes[rows].tolist()]

    def tagged(self, tags: Sequence[str]) -> Mask:
        """Return which rows carry every tag, [rows]."""
        mask = np.ones(len(self), np.bool_)
        column = self.table.column("tags").combine_chunks()
        parents = pc.list_parent_indices(column).to_numpy()
        values = pc.list_flatten(column)
        for tag in tags:
            has = np.zeros(len(self), np.bool_)
            has[parents[pc.equal(values, tag).to_numpy(zero_copy_only=False)]] = True
            mask &= has
        return mask

    def keyed(self, key: str) -> Mask:
        """Return which rows are values of a key, of whatever project, [rows]."""
        is_value = pc.fill_null(pc.equal(self.table.column("key"), key), False)
        mask: Mask = is_value.to_numpy()
        return mask

    @cached_property
    def _dictionaries(self) -> dict[str, tuple[npt.NDArray[Any], list[str]]]:
        """The dictionary columns: the codes of their rows and the values the codes stand for."""
        return {
            field.name: _codes(self.table.column(field.name))
            for field in self.table.schema
            if pa.types.is_dictionary(field.type)
        }

    @cached_property
    def replaced(self) -> dict[str, list[int]]:
        """The rows that each id took the place of."""
        found: dict[str, list[int]] = {}
        column = self.table.column("superseded_by")
        rows = np.flatnonzero(pc.is_valid(column).to_numpy())
        for row, id_ in zip(rows.tolist(), column.take(pa.array(rows)).to_pylist(), strict=True):
            found.setdefault(id_, []).append(row)
        return found

    @cached_property
    def _holders(self) -> dict[tuple[str | None, str], str]:
        return {of: id_ for of, id_, state in self._keyed if state == ACTIVE}

    @cached_property
    def _values(self) -> dict[tuple[str | None, str], list[str]]:
        found: dict[tuple[str | None, str], list[str]] = {}
        for of, id_, _ in self._keyed:
            found.setdefault(of, []).append(id_)
        return found

    @cached_property
    def _keyed(self) -> list[tuple[tuple[str | None, str], str, str]]:
        """The keyed memories: of which project and key, their id and state."""
        keyed = self.table.filter(pc.is_valid(self.table.column("key")))
        columns = (keyed.column(name).to_pylist() for name in ("project", "key", "id", "state"))
        return [
            ((project, key), id_, state) for project, key, id_, state in zip(*columns, strict=True)
        ]


def _codes(column: pa.ChunkedArray) -> tuple[npt.NDArray[Any], list[str]]:
    if column.num_chunks == 0:
        return np.empty(0, np.int32), []
    array = column.chunk(0)
    indices = array.indices
    if indices.null_count:
        indices = pc.fill_null(indices, -1)
    return indices.to_numpy(), array.dictionary.to_pylist()
