"""
RowReader: single memories out of one part, read from where the Arrow arrays lie.

A row has 34 values. pyarrow makes an object of each before Python gets its own: that costs ten
times what reading the buffers does, by the layout https://arrow.apache.org/docs/format/Columnar.html
says.
"""

from collections.abc import Callable, Mapping
from struct import calcsize
from typing import Any, Literal

import pyarrow as pa

from store.projections.memory.memory import Memory
from store.projections.memory.table import FIELDS

Getter = Callable[[int], Any]
Code = Literal["b", "h", "i", "q", "d"]  # of the modules struct and array

_CODES: Mapping[str, Code] = {"int8": "b", "int16": "h", "int32": "i", "int64": "q", "double": "d"}


class RowReader:
    """The rows of a memories table of one chunk, numbered from 0; outside of it IndexError."""

    def __init__(self, table: pa.Table) -> None:
        arrays = (table.column(name).chunk(0) for name in FIELDS)
        self._getters = {name: _getter(one) for name, one in zip(FIELDS, arrays, strict=True)}
        self._in_order = tuple(self._getters.values())

    def memory(self, row: int) -> Memory:
        return Memory(*[get(row) for get in self._in_order])

    def value(self, row: int, name: str) -> Any:
        return self._getters[name](row)


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
        values, code = array.dictionary.to_pylist(), _value_getter(array.indices)
        return lambda row: values[code(row)]
    if pa.types.is_string(kind):
        return _text_getter(array)
    if pa.types.is_list(kind):
        starts, item = _numbers(array.buffers()[1], "i", array.offset), _getter(array.values)
        return lambda row: tuple([item(at) for at in range(starts[row], starts[row + 1])])
    if pa.types.is_boolean(kind):
        bits, start = memoryview(array.buffers()[1]), array.offset
        return lambda row: bool(bits[(row + start) >> 3] >> ((row + start) & 7) & 1)
    if pa.types.is_fixed_size_binary(kind):
        data, width, first = memoryview(array.buffers()[1]), kind.byte_width, array.offset
        return lambda row: bytes(data[(row + first) * width : (row + first + 1) * width])
    return _numbers(array.buffers()[1], _CODES[str(kind)], array.offset).__getitem__


def _text_getter(array: pa.Array) -> Getter:
    _, offsets, data = array.buffers()
    starts, text = _numbers(offsets, "i", array.offset), memoryview(data if data else b"")
    return lambda row: str(text[starts[row] : starts[row + 1]], "utf-8")


def _numbers(buffer: pa.Buffer, code: Code, start: int) -> "memoryview[Any]":
    numbers = memoryview(buffer).cast("B")
    # Arrow pads its buffers, not always to whole numbers
    return numbers[: len(numbers) - len(numbers) % calcsize(code)].cast(code)[start:]
