"""
Forgeries of a table: tables that a faulty builder, or another program, might have written instead.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

# columns that refer to something else: a row, a place in another table, a code
PLACES = frozenset(
    "after before community document entity member of offset project row session source speaker "
    "start target term".split()
)


@dataclass(frozen=True, slots=True)
class Forgery:
    """A table in the place of another, and its fault in words.

    If `is_seen`, the schema, the number of rows, a place or a number (NaN) is wrong: this must be
    found when it is opened. All else may be left to `verify`.
    """

    what: str
    table: pa.Table
    is_seen: bool = True


# tables without a row count elsewhere
UNCOUNTED = frozenset(
    "projects keys replaced made_of edges speakers terms aliases found shared duplicates facts "
    "goals milestones usage receipts lessons efforts drafts insights routes policies recalls "
    "settled nodes lines step mark calibration missing ranges".split()
)


def forgeries(name: str, table: pa.Table) -> Iterator[Forgery]:
    """Yield the forgeries of a table; without rows it has no values to forge."""
    is_counted = name.rpartition(".")[2] not in UNCOUNTED and name != "fields.rows"
    yield Forgery("a column more", table.append_column("more", pa.nulls(len(table), pa.int8())))
    if not len(table):
        nulls = [pa.nulls(1, field.type) for field in table.schema]
        filled = pa.table(nulls, schema=table.schema)
        yield Forgery("a row where none was", filled, is_seen=False)
    else:
        twice = pa.concat_tables([table, table.slice(len(table) - 1)])
        yield Forgery("no rows", table.slice(0, 0), is_counted)
        yield Forgery("a row less", table.slice(0, len(table) - 1), is_counted)
        yield Forgery("its last row twice", twice, is_counted)
    if len(table) > 1:
        backwards = table.take(pa.array(range(len(table) - 1, -1, -1)))
        yield Forgery("its rows backwards", backwards, is_seen=False)
    for number, name in enumerate(table.column_names):
        yield from _of_column(table, number, name)


def _of_column(table: pa.Table, number: int, name: str) -> Iterator[Forgery]:
    renamed = [
        other if at != number else f"{other}_" for at, other in enumerate(table.column_names)
    ]
    yield Forgery(f"{name}: another name", table.rename_columns(renamed))
    yield Forgery(f"{name}: not there", table.remove_column(number))
    column = table.column(number).combine_chunks()
    array = column.chunk(0) if isinstance(column, pa.ChunkedArray) else column
    other = _another_type(array.type)
    yield Forgery(f"{name}: {other}", _with(table, number, pa.nulls(len(table), other)))
    if len(table):
        for what, array_, is_seen in _values(name, array):
            yield Forgery(f"{name}: {what}", _with(table, number, array_), is_seen)


def _values(name: str, array: pa.Array) -> Iterator[tuple[str, pa.Array, bool]]:
    """Yield names, columns with wrong values of their type, and whether these must be seen."""
    kind, values = array.type, array.to_pylist()
    yield "null", pa.array([None, *values[1:]], kind), pa.types.is_integer(kind)
    yield "always the same", pa.array([values[0]] * len(values), kind), False
    is_place = name in PLACES
    if pa.types.is_integer(kind):
        most = int(np.iinfo(kind.to_pandas_dtype()).max)
        least = int(np.iinfo(kind.to_pandas_dtype()).min)
        yield "beyond all", pa.array([*values[:-1], most], kind), is_place
        yield "below all", pa.array([least, *values[1:]], kind), is_place and least < 0
        yield (
            "one more",
            pa.array([*values[:-1], (values[-1] or 0) + (values[-1] != most)], kind),
            False,
        )
    elif pa.types.is_floating(kind):
        for number in (float("nan"), float("inf"), float("-inf")):
            yield str(number), pa.array([number, *values[1:]], kind), True
        yield "negative", pa.array([-1e6, *values[1:]], kind), False
    elif pa.types.is_string(kind):
        yield "another text", pa.array(["quite another", *values[1:]], kind), False
        if len(values) > 1:
            yield "offsets beyond the text", _beyond(array), True
    elif pa.types.is_dictionary(kind):
        codes = pa.array([100] * len(values), kind.index_type)
        forged = pa.DictionaryArray.from_arrays(codes, array.dictionary, safe=False)
        yield "codes beyond the words", forged, True
    elif pa.types.is_fixed_size_list(kind) and pa.types.is_floating(kind.value_type):
        wrong = np.asarray(array.flatten()).copy()
        wrong[: kind.list_size] = np.nan
        yield "nan", pa.FixedSizeListArray.from_arrays(pa.array(wrong), kind.list_size), True


def _beyond(array: pa.Array) -> pa.Array:
    """Return texts; all but the first begin far behind the end of their bytes."""
    data = b"".join((text or "").encode() for text in array.to_pylist())
    offsets = np.full(len(array) + 1, 1 << 30, np.int32)
    offsets[[0, -1]] = 0, len(data)
    buffers = [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.string(), len(array), buffers)


def _another_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(kind.value_type, kind.list_size + 1)
    if pa.types.is_integer(kind):
        return pa.int16() if kind != pa.int16() else pa.int64()
    if pa.types.is_floating(kind):
        return pa.float32() if kind != pa.float32() else pa.float64()
    return pa.large_binary()


def _with(table: pa.Table, number: int, array: pa.Array) -> pa.Table:
    return table.set_column(number, table.column_names[number], array)
