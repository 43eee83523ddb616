"""
MemoryParts: the rows of a memories table across its parts, found by number, id and key.

Reading is lazy: a part is opened when the first of its rows is requested.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from struct import calcsize
from typing import Any, Literal, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from store.memories.memory import ACTIVE, Memory
from store.memories.table import COLUMN_NAMES, MEMORIES, concat_tables
from store.snapshots.projection import Built, Part, Tables
from store.text.tokenizer import filing_hash

# RowReader: single memories of one part, read directly from the buffers of the Arrow arrays.
#
# A row has some 35 values. pyarrow makes an object of each before Python gets its own: that costs
# ten times as much as reading the buffers, by the layout
# https://arrow.apache.org/docs/format/Columnar.html

Getter = Callable[[int], Any]
Numbers: TypeAlias = "memoryview[Any]"
Bytes: TypeAlias = "memoryview[int]"
Code = Literal["b", "h", "i", "q", "d"]  # of the modules struct and array

_CODES: Mapping[str, Code] = {"int8": "b", "int16": "h", "int32": "i", "int64": "q", "double": "d"}


class RowReader:
    """The rows of a memories table of one chunk, numbered from 0; outside of it IndexError."""

    def __init__(self, table: pa.Table) -> None:
        columns = {name: table.column(name).chunk(0) for name in COLUMN_NAMES}
        self._getters = {name: _getter(column) for name, column in columns.items()}
        # most columns of most parts are empty, or have one value in all rows
        self._same: list[Any] = [None] * len(columns)
        self._texts: list[tuple[int, Numbers, Bytes]] = []
        self._coded: list[tuple[int, list[str], Numbers]] = []
        self._others: list[tuple[int, Getter]] = []
        self._with_none: list[tuple[int, Bytes, int, Getter]] = []  # and their bits of validity
        for place, (name, column) in enumerate(columns.items()):
            if _is_same(column):
                self._same[place] = self._getters[name](0) if len(column) else None
            elif column.null_count:
                valid = memoryview(column.buffers()[0])
                self._with_none.append((place, valid, column.offset, _value_getter(column)))
            elif pa.types.is_string(column.type):
                self._texts.append((place, *_text_buffers(column)))
            elif pa.types.is_dictionary(column.type):
                self._coded.append((place, *_coded_buffers(column)))
            else:
                self._others.append((place, self._getters[name]))

    def memory(self, row: int) -> Memory:
        values = self._same.copy()
        for place, starts, text in self._texts:
            values[place] = str(text[starts[row] : starts[row + 1]], "utf-8")
        for place, strings, codes in self._coded:
            values[place] = strings[codes[row]]
        for place, get in self._others:
            values[place] = get(row)
        for place, valid, start, get in self._with_none:  # most rows have none of these
            if valid[row + start >> 3] >> (row + start & 7) & 1:
                values[place] = get(row)
        return Memory(*values)

    def value(self, row: int, name: str) -> Any:
        return self._getters[name](row)


def _is_same(array: pa.Array) -> bool:
    """Return True if all rows have one value; only cheap checks are made."""
    if array.null_count:
        return bool(array.null_count == len(array))
    if pa.types.is_dictionary(array.type):
        return len(array.dictionary) <= 1
    if pa.types.is_boolean(array.type):
        return array.true_count in (0, len(array))
    return bool(pa.types.is_list(array.type)) and not len(array.values)


def _getter(array: pa.Array) -> Getter:
    if array.null_count == len(array):
        return lambda row: None
    get = _value_getter(array)
    if not array.null_count:
        return get
    valid, start = memoryview(array.buffers()[0]), array.offset

    def get_or_none(row: int) -> Any:
        bit = row + start
        return get(row) if valid[bit >> 3] >> (bit & 7) & 1 else None

    return get_or_none


def _value_getter(array: pa.Array) -> Getter:
    kind = array.type
    if pa.types.is_dictionary(kind):
        strings, codes = _coded_buffers(array)
        return lambda row: strings[codes[row]]
    if pa.types.is_string(kind):
        starts, text = _text_buffers(array)
        return lambda row: str(text[starts[row] : starts[row + 1]], "utf-8")
    if pa.types.is_list(kind):
        return _texts_getter(array)
    if pa.types.is_boolean(kind):
        bits, start = memoryview(array.buffers()[1]), array.offset
        return lambda row: bool(bits[(row + start) >> 3] >> ((row + start) & 7) & 1)
    if pa.types.is_fixed_size_binary(kind):
        data, width, first = memoryview(array.buffers()[1]), kind.byte_width, array.offset
        return lambda row: bytes(data[(row + first) * width : (row + first + 1) * width])
    return _numbers(array.buffers()[1], _CODES[str(kind)], array.offset).__getitem__


def _texts_getter(array: pa.Array) -> Getter:
    """Return the getter of a column of lists of texts, without nulls."""
    starts = _numbers(array.buffers()[1], "i", array.offset)
    ends, data = _text_buffers(array.values)

    def texts(row: int) -> tuple[str, ...]:
        first, last = starts[row], starts[row + 1]
        if first == last:
            return ()
        begin = ends[first]
        some = bytes(data[begin : ends[last]])  # to slice bytes is cheaper than to slice a view
        bounds = ends[first : last + 1].tolist()
        return tuple([some[a - begin : b - begin].decode() for a, b in pairwise(bounds)])

    return texts


def _coded_buffers(array: pa.Array) -> tuple[list[str], Numbers]:
    """Return the strings of a dictionary column, and the code of each row, [rows]."""
    codes = array.indices
    return array.dictionary.to_pylist(), _numbers(
        codes.buffers()[1], _CODES[str(codes.type)], codes.offset
    )


def _text_buffers(array: pa.Array) -> tuple[Numbers, Bytes]:
    """Return the offsets of the texts in the bytes of a column, [rows + 1], and the bytes."""
    _, offsets, data = array.buffers()
    return _numbers(offsets, "i", array.offset), memoryview(data if data else b"")


def _numbers(buffer: pa.Buffer, code: Code, start: int) -> Numbers:
    numbers = memoryview(buffer).cast("B")
    # Arrow pads its buffers, not always to whole numbers
    return numbers[: len(numbers) - len(numbers) % calcsize(code)].cast(code)[start:]


# Places: the rows of a name, by the 64 bits it is filed under.
#
# Two names may share their bits: the caller compares the names at the returned rows.

PLACES = pa.schema([("hash", pa.uint64()), ("document", pa.int32())])

Hashes = npt.NDArray[np.uint64]
Documents = npt.NDArray[np.int32]


class Places(msgspec.Struct, frozen=True):
    """Pairs of hash and row, [pairs], by hash and then by row."""

    hashes: Hashes
    documents: Documents

    @classmethod
    def none(cls) -> "Places":
        return cls(np.empty(0, np.uint64), np.empty(0, np.int32))

    @classmethod
    def open(cls, table: pa.Table) -> "Places":
        """Return the places of a table; nothing is copied."""
        if not table.num_rows:
            return cls.none()
        hashes, documents = (table.column(name).chunk(0).to_numpy() for name in PLACES.names)
        return cls(hashes, documents)

    @property
    def table(self) -> pa.Table:
        return pa.table([pa.array(self.hashes), pa.array(self.documents)], schema=PLACES)

    def of(self, name: str) -> list[int]:
        """Return the rows at which a name may be found, ascending."""
        wanted = np.uint64(filing_hash(name))
        start = int(self.hashes.searchsorted(wanted))
        end = start
        while end < len(self.hashes) and self.hashes[end] == wanted:
            end += 1
        rows: list[int] = self.documents[start:end].tolist()
        return rows

    def with_names(self, names: Iterable[str], documents: Documents) -> "Places":
        """Return these places and more, [names]; no row before one that is here already."""
        hashes = np.fromiter(map(filing_hash, names), np.uint64, len(documents))
        order = np.lexsort((documents, hashes))
        hashes, documents = hashes[order], documents[order]
        at = self.hashes.searchsorted(hashes, side="right")
        return Places(np.insert(self.hashes, at, hashes), np.insert(self.documents, at, documents))

    def without(self, documents: Documents) -> "Places":
        """Return the places but those at some rows."""
        rest = ~np.isin(self.documents, documents)
        return self if rest.all() else Places(self.hashes[rest], self.documents[rest])

    def in_order(self) -> "Places":
        """Return the pairs sorted, for rows added in any order."""
        order = np.lexsort((self.documents, self.hashes))
        return Places(self.hashes[order], self.documents[order])


class MemoryParts:
    """Rows in parts; `ids`, `keys` and `episodes`, which are filed by session, give the rows to
    search for a name. Threads may share it.

    Row numbers out of range are the caller's error.
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
        """Return the number of a row's part, and the row's place in it."""
        part = bisect_right(self._starts, row) - 1
        return part, row - self._starts[part]

    def memory(self, row: int) -> Memory:
        part, place = self.part_of(row)
        return self._reader(part).memory(place)

    def take(self, rows: Iterable[int]) -> list[Memory]:
        """Return the memories of some rows, in the order asked."""
        if len(self.parts) == 1:
            return [*map(self._reader(0).memory, rows)]
        return [self.memory(row) for row in rows]

    def value(self, row: int, name: str) -> Any:
        """Return one field of a row."""
        part, place = self.part_of(row)
        return self._reader(part).value(place, name)

    def row(self, id_: str) -> int | None:
        """Return the row of an id, or None."""
        return next((row for row in self.ids.of(id_) if self.value(row, "id") == id_), None)

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
        of_session = (row for row in rows if self.value(row, "session") == session)
        return next((self.value(row, "id") for row in of_session), None)

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
    """Return the parts of a table, one if it is not in parts; none of an empty table."""
    if isinstance(tables, Built):
        return tables.parts[name]
    return (Part.of(tables[name]),) if tables[name].num_rows else ()


def fields_of(tables: Tables, rows: npt.NDArray[np.int64], names: Sequence[str]) -> pa.Table:
    """Return some fields of some memories, in the order of their rows, which ascend.

    Only the parts that hold them are opened.
    """
    selected, start = [MEMORIES.empty_table().select(names)], 0
    for part in parts_of(tables, "memories"):
        first, last = np.searchsorted(rows, [start, start + part.rows])
        if last > first:
            places = pa.array(rows[first:last] - start)
            selected.append(part.table.select(names).take(places))
        start += part.rows
    return concat_tables(selected)


def key_name(project: str | None, key: str) -> str:
    """Return the name under which the memories of a key in a project are filed."""
    return f"{key} {project or ''}"  # no key has a space
