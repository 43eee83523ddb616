"""
MemoryRows: the memories as recall reads them, columns mapped, texts fetched only when returned.

A row's number is the document number of every other projection. Opening reads no row.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from store.memories.memories_projection import SCHEMAS
from store.memories.memory import ACTIVE, TEXT_FIELDS, UNSEEN, Edge, Memory, indexed_text
from store.memories.parts import MemoryParts, Places
from store.memories.table import CODES, NEVER
from store.snapshots.projection import Part, Tables

Mask = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class MemoryRows:
    """The rows of one snapshot. Row numbers outside of it are the caller's mistake."""

    memories: MemoryParts
    columns: pa.Table
    projects: pa.Table
    superseded: Places  # by the id that took a row's place
    sources: Places  # rows that jobs made, by the ids they were made of
    edges: pa.Table

    @classmethod
    def open(cls, tables: Tables) -> "MemoryRows":
        return cls(
            MemoryParts.open(tables),
            tables["columns"],
            tables["projects"],
            Places.open(tables["replaced"]),
            Places.open(tables["made_of"]),
            tables["edges"],
        )

    @classmethod
    def empty(cls) -> "MemoryRows":
        """Return the rows of a memory from which nothing was built yet."""
        return cls.open({name: schema.empty_table() for name, schema in SCHEMAS.items()})

    def __len__(self) -> int:
        return len(self.memories)

    @property
    def by_hash(self) -> npt.NDArray[np.int32]:
        """All rows in the order of their ids' hashes, [rows]."""
        return self.memories.ids.documents

    def row(self, id_: str) -> int | None:
        """Return the row of an id, or None."""
        return self.memories.row(id_)

    def ids(self) -> list[str]:
        """Return the id of every row."""
        return [id_ for _, part in self._by_part() for id_ in part.table.column("id").to_pylist()]

    def find(self, id_: str) -> Memory | None:
        return self.memories.find(id_)

    def holder(self, project: str | None, key: str) -> str | None:
        """Return the id of the current memory of a key in a project."""
        return self.memories.holder(project, key)

    def values(self, project: str | None, key: str) -> Sequence[str]:
        """Return the ids of all memories of a key in a project, in the order of their writing."""
        return self.memories.values(project, key)

    def made_of(self, id_: str) -> Sequence[str]:
        """Return the ids of the memories that jobs made of this one, in order of their writing."""
        return self.memories.made_of(self.sources, id_)

    def episode(self, session: str) -> str | None:
        """Return the id of the newest episode of a session."""
        return self.memories.episode(session)

    def take(self, rows: Sequence[int]) -> list[Memory]:
        """Return the memories of some rows, in the order asked."""
        return self.memories.take(rows)

    def text(self, row: int) -> str:
        """Return the text of the memory of a row, without reading the rest of it."""
        return indexed_text(*(self.memories.value(row, name) for name in TEXT_FIELDS))

    def predecessor_rows(self, id_: str) -> list[int]:
        """Return the rows that a memory superseded, ascending."""
        rows = self.superseded.of(id_)
        if not rows:
            return rows
        return [row for row in rows if self.memories.value(row, "superseded_by") == id_]

    def edges_of(self, id_: str) -> list[Edge]:
        """Return the reasoning edges from a memory and to it, oldest first."""
        import pyarrow.compute as pc

        ends = (pc.equal(self.edges.column(name), id_) for name in ("source", "target"))
        return [Edge(**row) for row in self.edges.filter(pc.or_(*ends)).to_pylist()]

    def text_hash(self, row: int) -> bytes:
        data: bytes = self.columns.column("text_hash")[row].as_py()
        return data

    @cached_property
    def created_at(self) -> npt.NDArray[np.int64]:
        return self._numbers("created_at")

    @cached_property
    def updated_at(self) -> npt.NDArray[np.int64]:
        return self._numbers("updated_at")

    @cached_property
    def importance(self) -> npt.NDArray[np.float64]:
        return self._numbers("importance")

    @cached_property
    def expires_at(self) -> npt.NDArray[np.int64]:
        """The end of each row's ttl, [rows]; NEVER if it has none."""
        return self._numbers("expires_at")

    def active_at(self, now: int) -> Mask:
        """Return a mask of the rows active and not expired at a moment, [rows]; always a copy."""
        if not self._is_expiring:
            return self._active.copy()
        mask: Mask = self._active & (self.expires_at > now)
        return mask

    def holds_at(self, at: int) -> Mask:
        """Return a mask of the rows valid at a moment, [rows]; forgotten ones never were."""
        ends = np.minimum(self._numbers("ended_at"), self.expires_at)
        mask: Mask = (self.created_at <= at) & (ends > at) & ~self.equal("state", UNSEEN)
        return mask

    @cached_property
    def _active(self) -> Mask:
        return self.equal("state", (ACTIVE,))

    @cached_property
    def _is_expiring(self) -> bool:
        return bool((self._active & (self.expires_at < NEVER)).any())

    def codes(self, name: str) -> npt.NDArray[Any]:
        """Return the codes of the rows' state, kind, tier, trust or project; -1: none, [rows]."""
        return self._numbers(name)

    def equal(self, name: str, wanted: Sequence[str]) -> Mask:
        """Return a mask of the rows with one of the values in a column of text, [rows]."""
        if name not in self.columns.column_names:
            import pyarrow.compute as pc

            mask = np.zeros(len(self), np.bool_)
            texts = pa.array([text for text in wanted if _is_text(text)], pa.string())
            for start, part in self._by_part():
                is_equal = pc.is_in(part.table.column(name), texts)
                mask[start : start + part.rows] = is_equal.to_numpy()
            return mask
        codes, values = self._numbers(name), self._values_of(name)
        mask = np.zeros(len(codes), np.bool_)
        for value in dict.fromkeys(wanted):
            if (code := values.get(value)) is not None:
                mask |= codes == code
        return mask

    def values_with(self, name: str, part: str) -> list[str]:
        """Return the values of a column of `codes` that have a text in them."""
        return [value for value in self._values_of(name) if part in value]

    def lacks(self, name: str) -> Mask:
        """Return a mask of the rows without a value in a column of `codes`, [rows]."""
        mask: Mask = self._numbers(name) < 0
        return mask

    def column_values(self, name: str, rows: Rows) -> list[str | None]:
        """Return the values of a column of `codes` for some rows."""
        values = [*self._values_of(name), None]
        return [values[code] for code in self._numbers(name)[rows].tolist()]

    def with_tags(self, tags: Sequence[str]) -> Mask:
        """Return a mask of the rows with every tag, [rows]."""
        mask = np.ones(len(self), np.bool_)
        if not tags:
            return mask
        if not all(map(_is_text, tags)):
            return ~mask
        import pyarrow.compute as pc

        tags = tuple(dict.fromkeys(tags))
        for start, part in self._by_part():
            column = part.table.column("tags").chunk(0)
            parents = pc.list_parent_indices(column).to_numpy()
            values = pc.list_flatten(column)
            for tag in tags:
                has = np.zeros(part.rows, np.bool_)
                has[parents[pc.equal(values, tag).to_numpy(zero_copy_only=False)]] = True
                mask[start : start + part.rows] &= has
                if not mask[start : start + part.rows].any():  # no row left
                    break
        return mask

    def with_key(self, key: str) -> Mask:
        """Return a mask of the rows that are values of a key, in any project, [rows]."""
        import pyarrow.compute as pc

        mask = np.zeros(len(self), np.bool_)
        if not _is_text(key):
            return mask
        keyed = np.zeros(len(self), np.bool_)
        keyed[self.memories.keys.documents] = True
        for start, part in self._by_part():
            if keyed[start : start + part.rows].any():
                is_equal = pc.fill_null(pc.equal(part.table.column("key"), key), False)
                mask[start : start + part.rows] = is_equal.to_numpy()
        return mask

    def _by_part(self) -> Iterator[tuple[int, Part]]:
        """Yield each part of the memories and the number of its first row."""
        start = 0
        for part in self.memories.parts:
            yield start, part
            start += part.rows

    def _numbers(self, name: str) -> npt.NDArray[Any]:
        """Return one of the columns, into the mapped file, [rows]."""
        numbers = self._columns_by_name.get(name)
        if numbers is None:
            column = self.columns.column(name)
            array = column.chunk(0) if column.num_chunks else pa.array([], column.type)
            numbers = self._columns_by_name[name] = array.to_numpy()
        return numbers

    @cached_property
    def _columns_by_name(self) -> dict[str, npt.NDArray[Any]]:
        return {}

    def _values_of(self, name: str) -> dict[str, int]:
        """Return the values of a column's codes, in their order."""
        return self._project_values if name == "project" else _FIXED[name]

    @cached_property
    def _project_values(self) -> dict[str, int]:
        names = self.projects.column("name").to_pylist()
        return {name: code for code, name in enumerate(names)}


_FIXED = {name: {value: code for code, value in enumerate(of)} for name, of in CODES.items()}


def _is_text(text: str) -> bool:
    """Return True if a text can be in a table; text from a shell that is not UTF-8 cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
