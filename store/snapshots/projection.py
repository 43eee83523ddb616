"""
Projection: a named pure function from the log, or from other projections, to tables.

The law, tested for every one of them: `build(inputs, previous) == build(inputs, None)`. `previous`
may only make a build cheaper. A build uses no file, clock, network or chance; a projection that
needs a model gets the embedder as an argument when it is made.

A table consists of parts: runs of its rows that are made, stored and shared as one. A run unchanged
since an earlier build is that build's part. Where one part ends and the next begins must follow
from the rows, never from the order of builds: the digest of a table is that of its parts' digests.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Annotated, Any, Protocol, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Meta

from store.log.events import Event

Tables = Mapping[str, pa.Table]

T = TypeVar("T")
R = TypeVar("R")


# the range of a count in our files, which others may have written: no build counts beyond it
Count = Annotated[int, Meta(ge=0, le=2**62)]
# below the snapshots folder and in no other, whatever separators a system accepts
PartPath = Annotated[str, Meta(pattern=r"^[a-z_]+/[0-9A-Za-z_-]+\.arrow$")]


class PartFile(msgspec.Struct, frozen=True):
    """A part's file: its path below the snapshots folder, and its state when it was written.

    `digest` is of the rows, `sha256` of the file; `modified` is the file's time in nanoseconds.
    """

    path: PartPath
    rows: Count
    digest: str
    bytes: Count
    sha256: str
    modified: Annotated[int, Meta(ge=-(2**62), le=2**62)] = 0


@dataclass(frozen=True)
class Part:
    """Some rows of a table, in one chunk; `file` is where they are stored, None: nowhere yet.

    Reading the table of a stored part may raise SnapshotDamaged.
    """

    load: Callable[[], pa.Table]
    file: PartFile | None = None

    @classmethod
    def of(cls, table: pa.Table) -> "Part":
        """Return a new part of a table's rows."""
        whole = table.combine_chunks()
        return cls(lambda: whole)

    @cached_property
    def table(self) -> pa.Table:
        return self.load()

    @cached_property
    def digest(self) -> str:
        """The hex SHA-256 of the rows: the same for equal rows in any memory layout."""
        return self.file.digest if self.file else _digest(self.table)

    @property
    def rows(self) -> int:
        return self.file.rows if self.file else int(self.table.num_rows)


class Built(Mapping[str, pa.Table]):
    """The tables of a projection, each with its `parts`, opened on demand."""

    def __init__(
        self, schemas: Mapping[str, pa.Schema], parts: Mapping[str, Sequence[Part]]
    ) -> None:
        self.parts = {name: tuple(parts[name]) for name in schemas}
        self._schemas = schemas
        self._tables: dict[str, pa.Table] = {}

    def __getitem__(self, name: str) -> pa.Table:
        if name not in self._tables:
            # a table of many parts has a chunk for each; nothing is copied
            tables = [part.table for part in self.parts[name]]
            schema = self._schemas[name]
            self._tables[name] = pa.concat_tables(tables) if tables else schema.empty_table()
        return self._tables[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._schemas)

    def __len__(self) -> int:
        return len(self._schemas)

    def write_parts(self, keep: "Keep") -> "Built":
        """Return the same tables with every part in a file."""
        parts = {
            name: [part if part.file else keep(name, part.table) for part in some]
            for name, some in self.parts.items()
        }
        return Built(self._schemas, parts)

    @property
    def rows(self) -> dict[str, int]:
        """The number of rows of each table; opens no part."""
        return {name: sum(part.rows for part in parts) for name, parts in self.parts.items()}


Made = Mapping[str, pa.Table | Sequence[Part]]  # the result of a build: a table is one new part


class Keep(Protocol):
    """Stores a part of a table as soon as it is made, so that a build holds few in memory."""

    def __call__(self, name: str, table: pa.Table, /) -> Part: ...


class Mapper(Protocol):
    """The built-in `map`, or one that works on all processors; results come in order."""

    def __call__(self, function: Callable[[T], R], items: Iterable[T], /) -> Iterator[R]: ...


class Journal(Protocol):
    """Stores the results of a slow step, batch by batch: an interrupted build can resume."""

    def read(self) -> Iterable[pa.Table]: ...

    def add(self, table: pa.Table, /) -> None: ...


class _NoJournal:
    def read(self) -> Iterable[pa.Table]:
        return ()

    def add(self, table: pa.Table, /) -> None:
        pass


_NO_JOURNAL = _NoJournal()


class _Hash(Protocol):
    def update(self, data: Any, /) -> None: ...  # any object with a buffer of bytes


class Inputs(msgspec.Struct, frozen=True):
    """The inputs of a build: the log up to the watermark, and the projections it named."""

    watermark: int
    read: Callable[[int], Iterator[Event]]  # events after a seq and up to the watermark, in order
    tables: Mapping[str, Built] = {}
    keep: Keep = lambda name, table: Part.of(table)  # in memory
    map: Mapper = map
    journal: Journal = _NO_JOURNAL
    report: Callable[[int, int], None] = lambda done, total: None  # of a long step, as it goes on
    # memories of events after a seq whose rows would differ by the order of arrival
    late: Callable[[int], Sequence[str]] = lambda after: ()
    about: Callable[[Sequence[str]], Sequence[Event]] = lambda ids: ()  # in the order of all homes


class Previous(msgspec.Struct, frozen=True):
    """The tables of the same projection from an earlier build of the same version."""

    watermark: int
    tables: Built


Build = Callable[[Inputs, Previous | None], Made]


class Projection(msgspec.Struct, frozen=True):
    """A projection's name, version, inputs and build function.

    `inputs` names the sources of `build`: "log", or other projections. `schemas` names the tables
    `build` returns; those `for_builds` are read by the next build alone, never by recall. `version`
    is raised whenever the same log would give other rows; it may be any text that names the rows'
    dependencies beside the log (a model, a tokenizer). A projection that `grows` can continue only
    from fewer memories than there are now, and is built anew if an undone plan removed some.
    """

    name: str
    version: str
    inputs: tuple[str, ...]
    schemas: Mapping[str, pa.Schema]
    build: Build
    for_builds: frozenset[str] = frozenset()
    grows: bool = True


def build_checked(projection: Projection, inputs: Inputs, previous: Previous | None) -> Built:
    """Return the projection's tables, each new part checked against its declared schema."""
    made = projection.build(inputs, previous)
    if made.keys() != projection.schemas.keys():
        raise TypeError(f"{projection.name} built {sorted(made)}, not {sorted(projection.schemas)}")
    parts = {
        name: (Part.of(table),) if isinstance(table, pa.Table) else tuple(table)
        for name, table in made.items()
    }
    for name, part in ((name, part) for name, some in parts.items() for part in some):
        if part.file is None and not part.table.schema.equals(projection.schemas[name]):
            raise TypeError(f"{projection.name}.{name} has schema {part.table.schema}")
    return Built(projection.schemas, parts)


def digest(tables: Tables) -> str:
    """Return the hex SHA-256 of the rows: the same for equal rows in any memory layout.

    A table in parts counts as its parts, any other as one.
    """
    total = sha256()
    for name in sorted(tables):
        if isinstance(tables, Built):
            parts = tables.parts[name]
        else:
            parts = (Part.of(tables[name]),)
        total.update("/".join([name, *(part.digest for part in parts)]).encode())
        total.update(b"\n")
    return total.hexdigest()


def _digest(table: pa.Table) -> str:
    total = sha256(f"{table.num_rows}".encode())
    for column_name, column in zip(table.column_names, table.columns, strict=True):
        total.update(f"/{column_name}:{column.type}".encode())
        combined = column.combine_chunks()
        for chunk in combined.chunks if isinstance(combined, pa.ChunkedArray) else [combined]:
            _update(total, chunk)
    return total.hexdigest()


def _update(total: _Hash, array: pa.Array) -> None:
    """Feed an array's values and its nulls, without offsets, padding and the bytes under nulls."""
    import pyarrow.compute as pc  # takes longer to import than pyarrow: the server needs none of it

    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if array.null_count:
        total.update(np.packbits(array.is_null().to_numpy(zero_copy_only=False)).tobytes())
    kind = array.type
    if pa.types.is_fixed_size_list(kind):
        _update(total, array.flatten())
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        total.update(array.value_lengths().fill_null(0).to_numpy().tobytes())
        _update(total, array.flatten())
    elif pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_large_string(kind):
        empty = b"" if pa.types.is_binary(kind) else ""
        filled = array.fill_null(empty) if array.null_count else array
        total.update(pc.binary_length(filled).to_numpy().tobytes())
        joined = filled.cast(pa.large_binary())
        _, offsets, data = joined.buffers()
        bounds = np.frombuffer(offsets, np.int64)[joined.offset : joined.offset + len(joined) + 1]
        if len(joined) and data is not None:
            total.update(memoryview(data)[int(bounds[0]) : int(bounds[-1])])
    elif pa.types.is_fixed_size_binary(kind):
        width = kind.byte_width
        filled = array.fill_null(bytes(width)) if array.null_count else array
        data = filled.buffers()[1]
        start = array.offset * width if not array.null_count else 0
        total.update(memoryview(data)[start : start + len(array) * width] if len(array) else b"")
    elif pa.types.is_boolean(kind):
        filled = array.fill_null(False) if array.null_count else array
        total.update(np.packbits(filled.to_numpy(zero_copy_only=False)).tobytes())
    else:  # filling copies, even where there is nothing to fill
        filled = array.fill_null(0) if array.null_count else array
        total.update(np.ascontiguousarray(filled.to_numpy()).view(np.uint8))


# Columns of tables as arrays, without a copy where they lie in one chunk of a mapped file.


def column_view(table: pa.Table, name: str) -> npt.NDArray[Any]:
    """Return a column without nulls as numpy, as a view into the file if it is mapped."""
    view: npt.NDArray[Any] = column_array(table, name).to_numpy(zero_copy_only=True)
    return view


def column_array(table: pa.Table, name: str) -> pa.Array:
    """Return a column as one array."""
    column = table.column(name)
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def take_rows(table: pa.Table, rows: npt.NDArray[np.int64]) -> pa.Table:
    """Return some rows, given ascending; copies only these, and nothing if they are one run."""
    if len(rows) and rows[-1] - rows[0] + 1 == len(rows):
        return table.slice(int(rows[0]), len(rows))
    batches, start = [], 0
    for batch in table.to_batches():
        low, high = np.searchsorted(rows, (start, start + batch.num_rows))
        if low < high:
            batches.append(batch.take(pa.array(rows[low:high] - start)))
        start += batch.num_rows
    return pa.Table.from_batches(batches, table.schema)
