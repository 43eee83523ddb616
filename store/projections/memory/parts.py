"""
MemoryParts: the rows of all parts of a memories table, found by number, by id and by key.

Nothing is read until somebody asks; a part is opened when the first of its rows is wanted.
"""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from store.projection import Built, Part, Tables
from store.projections.memory.memory import ACTIVE, Memory
from store.projections.memory.reader import RowReader
from store.projections.memory.table import MEMORIES, joined
from store.projections.places import Places


class MemoryParts:
    """Rows in parts; `ids`, `keys` and `episodes`, which are filed by session, say at which rows to
    look for a name. Threads may share it.

    Row numbers outside of it are the caller's mistake.
    """

    def __init__(self, parts: Sequence[Part], ids: Places, keys: Places, episodes: Places) -> None:
        self.parts, self.ids, self.keys, self.episodes = tuple(parts), ids, keys, episodes
        self._starts = [0, *accumulate(part.rows for part in parts)]
        self._readers: dict[int, RowReader] = {}

    @classmethod
    def open(cls, tables: Tables) -> "MemoryParts":
        places = (Places.open(tables[name]) for name in ("ids", "keys", "episodes"))
        return cls(parts_of(tables, "memories"), *places)

    def __len__(self) -> int:
        return self._starts[-1]

    def part_of(self, row: int) -> tuple[int, int]:
        """Return the number of the part a row lies in, and where in it."""
        part = bisect_right(self._starts, row) - 1
        return part, row - self._starts[part]

    def memory(self, row: int) -> Memory:
        part, place = self.part_of(row)
        return self._reader(part).memory(place)

    def value(self, row: int, name: str) -> Any:
        """Return one field of a row."""
        part, place = self.part_of(row)
        return self._reader(part).value(place, name)

    def row(self, id_: str) -> int | None:
        """Return the row of an id, or None."""
        found = (row for row in self.ids.of(id_) if self.value(row, "id") == id_)
        return next(found, None)

    def find(self, id_: str) -> Memory | None:
        row = self.row(id_)
        return None if row is None else self.memory(row)

    def holder(self, project: str | None, key: str) -> str | None:
        """Return the id of the current memory of a key in a project."""
        rows = reversed(self._rows_of(project, key))
        current = (row for row in rows if self.value(row, "state") == ACTIVE)
        return next((self.value(row, "id") for row in current), None)

    def values(self, project: str | None, key: str) -> list[str]:
        """Return the ids of all memories of a key in a project, in the order of their writing."""
        return [self.value(row, "id") for row in self._rows_of(project, key)]

    def made_of(self, filed: Places, id_: str) -> list[str]:
        """Return the ids of those filed under their sources that jobs made of a memory."""
        rows = (row for row in filed.of(id_) if id_ in self.value(row, "source_ids"))
        return [self.value(row, "id") for row in rows]

    def episode(self, session: str) -> str | None:
        """Return the id of the newest episode of a session."""
        rows = reversed(self.episodes.of(session))
        found = (row for row in rows if self.value(row, "session") == session)
        return next((self.value(row, "id") for row in found), None)

    def _rows_of(self, project: str | None, key: str) -> list[int]:
        return [
            row
            for row in self.keys.of(key_name(project, key))
            if (self.value(row, "key"), self.value(row, "project")) == (key, project)
        ]

    def _reader(self, part: int) -> RowReader:
        if part not in self._readers:
            self._readers[part] = RowReader(self.parts[part].table)
        return self._readers[part]


def parts_of(tables: Tables, name: str) -> tuple[Part, ...]:
    """Return the parts of a table, one where it is not in parts; none of an empty one."""
    if isinstance(tables, Built):
        return tables.parts[name]
    return (Part.of(tables[name]),) if tables[name].num_rows else ()


def fields_of(tables: Tables, rows: npt.NDArray[np.int64], names: Sequence[str]) -> pa.Table:
    """Return some fields of some memories, in the order of their rows, which ascend.

    Only the parts that hold them are opened.
    """
    found, start = [MEMORIES.empty_table().select(names)], 0
    for part in parts_of(tables, "memories"):
        first, last = np.searchsorted(rows, [start, start + part.rows])
        if last > first:
            places = pa.array(rows[first:last] - start)
            found.append(part.table.select(names).take(places))
        start += part.rows
    return joined(found)


def key_name(project: str | None, key: str) -> str:
    """Return the name under which the memories of a key in a project are filed."""
    return f"{key} {project or ''}"  # no key has a space
