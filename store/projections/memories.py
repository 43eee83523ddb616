"""
memories: one row for each memory ever recorded, as it stands at the watermark.

A fold over the log (`memory_fold`), as a table. Rows keep the order in which memories were
recorded, so a row's number is the document number in every other projection. Whether a ttl has run
out depends on the clock and is asked at recall, by `expires_at`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from hashlib import blake2b

import numpy as np
import pyarrow as pa

from store.projection import Inputs, Previous, Projection, Tables
from store.projections.memory import (
    ACTIVE,
    ARCHIVED,
    DEFAULT_IMPORTANCE,
    DEFAULT_SCORE,
    FORGOTTEN,
    STATES,
    SUPERSEDED,
    Edge,
    Memory,
    indexed_text,
    searched_text,
)
from store.projections.memory_fold import Fold

# readers of the table take what its rows are made of from here too
__all__ = [
    "ACTIVE",
    "ARCHIVED",
    "DEFAULT_IMPORTANCE",
    "DEFAULT_SCORE",
    "EDGES",
    "FORGOTTEN",
    "IDS",
    "MEMORIES",
    "MEMORIES_PROJECTION",
    "STATES",
    "SUPERSEDED",
    "Edge",
    "Fold",
    "Memory",
    "build",
    "id_hash",
    "indexed_text",
    "memories",
    "searched_text",
    "searched_texts",
    "states",
    "texts",
]

_TYPES: Mapping[str, pa.DataType] = {
    "seq": pa.int64(),
    "kind": pa.dictionary(pa.int16(), pa.string()),
    "state": pa.dictionary(pa.int8(), pa.string()),
    "tags": pa.list_(pa.string()),
    "project": pa.dictionary(pa.int32(), pa.string()),
    "trust": pa.dictionary(pa.int8(), pa.string()),
    "tier": pa.dictionary(pa.int8(), pa.string()),
    "source_ids": pa.list_(pa.string()),
    "importance": pa.float64(),
    "score": pa.float64(),
    "pinned": pa.bool_(),
    "progress": pa.float64(),
    "created_at": pa.int64(),
    "updated_at": pa.int64(),
    "expires_at": pa.int64(),
    "ended_at": pa.int64(),
    "text_hash": pa.binary(16),
}
MEMORIES = pa.schema(
    [(field.name, _TYPES.get(field.name, pa.string())) for field in fields(Memory)]
)
# where to find an id without reading all of them: sorted by hash
IDS = pa.schema([("hash", pa.uint64()), ("document", pa.int32())])
EDGES = pa.schema(
    [
        ("source", pa.string()),
        ("target", pa.string()),
        ("relation", pa.string()),
        ("seq", pa.int64()),
    ]
)


def build(inputs: Inputs, previous: Previous | None) -> Tables:
    """Fold the log up to the watermark; from `previous` on where there is one."""
    if previous is None:
        fold, after = Fold(), 0
    else:
        fold, after = _unfolded(previous.tables), previous.watermark
    for event in inputs.read(after):
        fold.apply(event)
    rows = sorted(fold.rows.values(), key=lambda memory: memory.seq)
    return {"memories": _table(rows), "ids": _ids(rows), "edges": _edges(fold.edges)}


def _unfolded(tables: Tables) -> Fold:
    edges = (Edge(**row) for row in tables["edges"].to_pylist())
    return Fold(memories(tables["memories"]), edges)


def _table(rows: list[Memory]) -> pa.Table:
    columns = {
        field.name: pa.array([getattr(row, field.name) for row in rows], field.type)
        for field in MEMORIES
    }
    return pa.table(columns, schema=MEMORIES)


def _ids(rows: list[Memory]) -> pa.Table:
    hashes = np.fromiter((id_hash(memory.id) for memory in rows), np.uint64, len(rows))
    order = np.argsort(hashes, kind="stable").astype(np.int32)
    return pa.table([pa.array(hashes[order]), pa.array(order)], schema=IDS)


def id_hash(id_: str) -> int:
    """Return the 64 bits an id is filed under; two ids may share them."""
    return int.from_bytes(blake2b(id_.encode(), digest_size=8).digest(), "little")


def _edges(edges: list[Edge]) -> pa.Table:
    rows = [{name: getattr(edge, name) for name in EDGES.names} for edge in edges]
    return pa.Table.from_pylist(rows, schema=EDGES)


def memories(table: pa.Table) -> Iterator[Memory]:
    """Yield the rows of a memories table, or of a slice of it, in order."""
    names = [field.name for field in fields(Memory)]
    lists = {"tags", "source_ids"}
    for batch in table.select(names).to_batches(max_chunksize=10_000):
        columns = [
            [tuple(value) for value in column.to_pylist()] if name in lists else column.to_pylist()
            for name, column in zip(names, batch.columns, strict=True)
        ]
        yield from map(Memory, *columns)


def texts(table: pa.Table) -> Iterator[str]:
    """Yield the text under which each row is indexed, in order."""
    names = ("content", "context", "action", "result", "tags")
    for batch in table.select(names).to_batches(max_chunksize=10_000):
        for values in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            yield indexed_text(*values)


def searched_texts(table: pa.Table) -> Iterator[str]:
    """Yield the text under whose words each row is indexed, in order."""
    speakers = table.column("created_by").to_pylist()
    days = table.column("created_at").to_pylist()
    for text, speaker, at in zip(texts(table), speakers, days, strict=True):
        yield searched_text(text, speaker, at)


def states(table: pa.Table) -> list[str]:
    """Return the state of each row, in order."""
    column = table.column("state").combine_chunks()
    array = column.chunk(0) if isinstance(column, pa.ChunkedArray) else column
    values = np.asarray(array.dictionary.to_pylist(), object)
    found: list[str] = values[array.indices.to_numpy()].tolist()
    return found


MEMORIES_PROJECTION = Projection(
    name="memories",
    version="2",
    inputs=("log",),
    schemas={"memories": MEMORIES, "ids": IDS, "edges": EDGES},
    build=build,
)
