"""
Projection: a named pure function from the log, or from other projections, to tables.

The law, tested for every one of them: `build(inputs, previous) == build(inputs, None)`. `previous`
may only make a build cheaper. A build uses no file, clock, network or chance; a projection that
needs a model gets the embedder as an argument when it is made.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from store.events import Event

Tables = Mapping[str, pa.Table]


class _Hash(Protocol):
    def update(self, data: bytes | memoryview, /) -> None: ...


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a build may look at: the log up to the watermark, and the projections it named."""

    watermark: int
    read: Callable[[int], Iterator[Event]]  # events after a seq and up to the watermark, in order
    tables: Mapping[str, Tables] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Previous:
    """The same projection's tables as an earlier build of the same version left them."""

    watermark: int
    tables: Tables


Build = Callable[[Inputs, Previous | None], Tables]


@dataclass(frozen=True, slots=True)
class Projection:
    """`inputs` names what `build` looks at: "log", or other projections. `schemas` names the tables
    `build` returns; those in `lance` lie on disk as Lance.

    `version` is raised whenever the same log would give other rows; it may be any text that names
    what the rows depend on beside the log (a model, a tokenizer).
    """

    name: str
    version: str
    inputs: tuple[str, ...]
    schemas: Mapping[str, pa.Schema]
    build: Build
    lance: frozenset[str] = frozenset()


def checked_build(projection: Projection, inputs: Inputs, previous: Previous | None) -> Tables:
    """Return the projection's tables, each held to its declared schema and in one chunk."""
    tables = projection.build(inputs, previous)
    if tables.keys() != projection.schemas.keys():
        raise TypeError(
            f"{projection.name} built {sorted(tables)}, not {sorted(projection.schemas)}"
        )
    for name, table in tables.items():
        if not table.schema.equals(projection.schemas[name]):
            raise TypeError(f"{projection.name}.{name} has schema {table.schema}")
    return {name: table.combine_chunks() for name, table in tables.items()}


def digest(tables: Tables) -> str:
    """Return the hex SHA-256 of the rows: the same for equal rows however they lie in memory."""
    total = sha256()
    for name in sorted(tables):
        table = tables[name]
        total.update(f"{name}:{table.num_rows}".encode())
        for column_name, column in zip(table.column_names, table.columns, strict=True):
            total.update(f"/{column_name}:{column.type}".encode())
            combined = column.combine_chunks()
            for chunk in combined.chunks if isinstance(combined, pa.ChunkedArray) else [combined]:
                _update(total, chunk)
    return total.hexdigest()


def _update(total: _Hash, array: pa.Array) -> None:
    """Feed an array's values and its nulls, free of offsets, padding and what lies under nulls."""
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
        filled = array.fill_null(b"" if pa.types.is_binary(kind) else "")
        total.update(pc.binary_length(filled).to_numpy().tobytes())
        joined = filled.cast(pa.large_binary())
        _, offsets, data = joined.buffers()
        bounds = np.frombuffer(offsets, np.int64)[joined.offset : joined.offset + len(joined) + 1]
        if len(joined) and data is not None:
            total.update(memoryview(data)[int(bounds[0]) : int(bounds[-1])])
    elif pa.types.is_fixed_size_binary(kind):
        width = kind.byte_width
        data = array.fill_null(bytes(width)).buffers()[1]
        start = array.offset * width if not array.null_count else 0
        total.update(memoryview(data)[start : start + len(array) * width] if len(array) else b"")
    elif pa.types.is_boolean(kind):
        total.update(np.packbits(array.fill_null(False).to_numpy(zero_copy_only=False)).tobytes())
    else:
        total.update(array.fill_null(0).to_numpy(zero_copy_only=False).tobytes())
