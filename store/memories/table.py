"""
The tables of memories, and the conversion of rows to and from them.

`memories` has every field of every memory, in parts of ROWS rows; `columns` repeats, in one run
over all parts, the numbers needed for masks and weights. A row has the same number in both, which
is the document number of every other projection.
"""

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from types import UnionType
from typing import Any, get_args

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec.structs import astuple

from store.log.event_kinds import MEMORY_KINDS, TIERS, TRUSTS
from store.memories.memory import (
    FIELDS,
    STATES,
    TEXT_FIELDS,
    UNSEEN,
    Edge,
    Field,
    Memory,
    indexed_text,
    searched_text,
)
from store.snapshots.projection import column_array

ROWS = 16_384  # of a part; the last one has fewer
NEVER = np.iinfo(np.int64).max  # the time of "does not expire" and "did not end"

_TYPES: Mapping[Any, pa.DataType] = {
    str: pa.string(),
    int: pa.int64(),
    float: pa.float64(),
    bool: pa.bool_(),
    bytes: pa.binary(16),
    tuple[str, ...]: pa.list_(pa.string()),
}
_CODES: Mapping[int, pa.DataType] = {8: pa.int8(), 16: pa.int16(), 32: pa.int32()}


def _column_type(field: Field) -> pa.DataType:
    """Return the type of a field's column; a None field is null."""
    if field.code_bits:
        return pa.dictionary(_CODES[field.code_bits], pa.string())
    of = Memory.__annotations__[field.name]
    return _TYPES[get_args(of)[0] if isinstance(of, UnionType) else of]


COLUMN_NAMES = Memory.__struct_fields__
_COLUMN_TYPES = {field.name: _column_type(field) for field in FIELDS}
MEMORIES = pa.schema([(name, _COLUMN_TYPES[name]) for name in COLUMN_NAMES])
# the values of the codes of `columns`; codes of projects are the rows of `projects`
CODES: Mapping[str, tuple[str, ...]] = {
    "state": STATES,
    "kind": MEMORY_KINDS,
    "tier": TIERS,
    "trust": TRUSTS,
}
COLUMNS = pa.schema(
    [
        ("seq", pa.int64()),
        ("state", pa.int8()),
        ("kind", pa.int8()),
        ("tier", pa.int8()),
        ("trust", pa.int8()),
        ("pinned", pa.int8()),
        ("project", pa.int32()),  # -1: none
        ("importance", pa.float64()),
        ("created_at", pa.int64()),
        ("updated_at", pa.int64()),
        ("expires_at", pa.int64()),  # NEVER if there is none
        ("ended_at", pa.int64()),
        ("text_hash", pa.binary(16)),
    ]
)
PROJECTS = pa.schema([("name", pa.string())])  # in the order of their first memories
EDGES = pa.schema(
    [
        ("source", pa.string()),
        ("target", pa.string()),
        ("relation", pa.string()),
        ("seq", pa.int64()),
    ]
)


def table_of(rows: Sequence[Memory]) -> pa.Table:
    """Return memories as rows of MEMORIES."""
    return _columns(rows, MEMORIES)


def edge_table(edges: Sequence[Edge]) -> pa.Table:
    """Return edges as rows of EDGES."""
    return _columns(edges, EDGES)


def _columns(rows: Sequence[msgspec.Struct], schema: pa.Schema) -> pa.Table:
    """Return structs that have the fields of a schema, in its order, as its rows."""
    if not rows:
        return schema.empty_table()
    columns = zip(*map(astuple, rows), strict=True)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return pa.table(arrays, schema=schema)


def with_rows(table: pa.Table, places: Sequence[int], rows: Sequence[Memory]) -> pa.Table:
    """Return a table with other memories at some places; all else unchanged."""
    order = np.arange(table.num_rows)
    order[list(places)] = table.num_rows + np.arange(len(rows))
    return concat_tables([table, table_of(rows)]).take(pa.array(order))


def concat_tables(tables: Sequence[pa.Table]) -> pa.Table:
    """Return the rows of some tables as one of one chunk."""
    return pa.concat_tables(tables).unify_dictionaries().combine_chunks()


def columns_of(table: pa.Table, projects: MutableMapping[str, int]) -> pa.Table:
    """Return the rows of COLUMNS of a memories table; `projects` gains those it does not know."""
    arrays: dict[str, Any] = {
        name: _codes(column_array(table, name), values) for name, values in CODES.items()
    }
    arrays["project"] = _project_codes(column_array(table, "project"), projects)
    arrays["pinned"] = column_array(table, "pinned").cast(pa.int8())
    for name in ("expires_at", "ended_at"):
        arrays[name] = column_array(table, name).fill_null(NEVER)
    columns = [arrays.get(name, table.column(name)) for name in COLUMNS.names]
    return pa.table(columns, schema=COLUMNS)


def _codes(column: pa.DictionaryArray, values: Sequence[str]) -> npt.NDArray[Any]:
    code_of = {value: code for code, value in enumerate(values)}
    # one place more than there are values: null has code -1 and finds it
    codes = [code_of.get(value, -1) for value in column.dictionary.to_pylist()]
    row_codes: npt.NDArray[Any] = np.array([*codes, -1], np.int8)[indices(column)]
    return row_codes


def _project_codes(
    column: pa.DictionaryArray, projects: MutableMapping[str, int]
) -> npt.NDArray[Any]:
    values, places = column.dictionary.to_pylist(), indices(column)
    present, first = np.unique(places, return_index=True)
    for place in present[np.argsort(first)].tolist():
        if place >= 0:
            projects.setdefault(values[place], len(projects))
    codes = [projects.get(value, -1) for value in values]
    row_codes: npt.NDArray[Any] = np.array([*codes, -1], np.int32)[places]
    return row_codes


def indices(column: pa.DictionaryArray) -> npt.NDArray[Any]:
    """Return the codes of a dictionary column, -1 for null."""
    array = column.indices
    if array.null_count:
        array = array.fill_null(-1)
    codes: npt.NDArray[Any] = array.to_numpy()
    return codes


def text_fingerprints(columns: pa.Table) -> npt.NDArray[np.uint64]:
    """Return the fingerprints of the rows' texts, which show changes, [rows], from `columns`.

    A fingerprint is half the hash of the text, and 0 in an `UNSEEN` state.
    """
    if not columns.num_rows:
        return np.empty(0, np.uint64)
    column = column_array(columns, "text_hash")
    halves = np.frombuffer(column.buffers()[1], np.uint64)[2 * column.offset :: 2]
    marks: npt.NDArray[np.uint64] = halves[: len(column)].copy()
    unseen = [STATES.index(state) for state in UNSEEN]
    marks[np.isin(np.asarray(column_array(columns, "state")), unseen)] = 0
    return marks


def insight_mask(table: pa.Table) -> npt.NDArray[np.bool_]:
    """Return a mask of the rows of a memories table that are insights of a job, [rows].

    They repeat their sources, so they count in no statistic of words or names.
    """
    masks = [np.empty(0, np.bool_)]
    for batch in table.select(["kind", "job"]).to_batches():
        kinds, jobs = batch.columns
        wanted = np.array([*(kind == "insight" for kind in kinds.dictionary.to_pylist()), False])
        masks.append(wanted[indices(kinds)] & (indices(jobs) >= 0))
    return np.concatenate(masks)


def read_memories(table: pa.Table) -> Iterator[Memory]:
    """Yield the rows of a memories table, or of a slice of it, in order."""
    lists = {memory.name for memory in MEMORIES if pa.types.is_list(memory.type)}
    for batch in table.select(COLUMN_NAMES).to_batches(max_chunksize=10_000):
        columns = [
            [tuple(value) for value in column.to_pylist()] if name in lists else column.to_pylist()
            for name, column in zip(COLUMN_NAMES, batch.columns, strict=True)
        ]
        yield from map(Memory, *columns)


def indexed_texts(table: pa.Table) -> Iterator[str]:
    """Yield the text under which each row is indexed, in order."""
    for batch in table.select(TEXT_FIELDS).to_batches(max_chunksize=10_000):
        for values in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            yield indexed_text(*values)


def searched_texts(table: pa.Table) -> Iterator[str]:
    """Yield the text of each row for the word index, in order."""
    speakers = table.column("created_by").to_pylist()
    days = table.column("created_at").to_pylist()
    for text, speaker, at in zip(indexed_texts(table), speakers, days, strict=True):
        yield searched_text(text, speaker, at)


def states(table: pa.Table) -> list[str]:
    """Return the state of each row, in order."""
    names: list[str] = []
    for column in table.column("state").chunks:
        values = np.asarray([*column.dictionary.to_pylist(), None], object)
        names += values[indices(column)].tolist()
    return names
