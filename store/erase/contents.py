"""
Contents: all that a file says, as texts, whatever it is written in.

Its bytes as they lie, in UTF-8 and UTF-16, and beside them what they decode to: rows of SQLite,
columns of Parquet and Arrow, what is compressed or in an archive. What is left on a free page of
SQLite, or where a longer row lay, is among the bytes.
"""

import gzip
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

import apsw

_MOST = 64 << 20  # bytes that one compressed value may become: no bomb is unpacked
# what reads as a text: printable ASCII, and letters beyond it as UTF-8 writes them
_UTF8 = re.compile(
    rb"(?:[\t\n\r\x20-\x7e]|[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}"
    rb"|[\xf0-\xf4][\x80-\xbf]{3}){4,4096}"
)
_UTF16 = re.compile(rb"(?:[\t\n\r\x20-\x7e]\x00){4,4096}|(?:\x00[\t\n\r\x20-\x7e]){4,4096}")
_OVERLAP = 1_024  # bytes that two windows on a long text share: a run of words is in one of them

Decode = Callable[[Path], Iterator[str]]
# what decoding a file that is damaged, or is not what it looks like, may raise
Unreadable = (OSError, ValueError, EOFError, zlib.error, apsw.Error, zipfile.BadZipFile)


def raw(path: Path) -> Iterator[str]:
    """Yield the texts among a file's bytes."""
    with path.open("rb") as file:
        if not path.stat().st_size:
            return
        with mmap(file.fileno(), 0, access=ACCESS_READ) as data:
            yield from _texts(data)


def decoded(path: Path) -> Iterator[str] | None:
    """Yield the texts that a file's bytes decode to; None where they are no more than bytes.

    What is damaged raises one of `Unreadable`.
    """
    with path.open("rb") as file:
        begin = file.read(16)
    for magic, decode in _FORMATS.items():
        if begin.startswith(magic):
            return decode(path)
    return None


def _texts(data: "bytes | mmap") -> Iterator[str]:
    for pattern, encoding in ((_UTF8, "utf-8"), (_UTF16, "")):
        before, tail = -1, ""
        for found in pattern.finditer(data):
            text = found[0].decode(encoding, "replace") if encoding else _wide(found[0])
            yield tail + text if found.start() == before else text
            before, tail = found.end(), text[-_OVERLAP:]


def _wide(data: bytes) -> str:
    return data.replace(b"\x00", b"").decode("ascii")


def _sqlite(path: Path) -> Iterator[str]:
    """Yield every text of every row of every table, and what their bytes unpack to."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        connection.set_busy_timeout(5_000)
        tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
        for (name,) in tables.fetchall():
            quoted = str(name).replace('"', '""')
            for row in connection.execute(f'SELECT * FROM "{quoted}"'):
                for value in row:
                    yield from of_value(value)
    finally:
        connection.close()


def of_value(value: object) -> Iterator[str]:
    """Yield the texts of a value of a row."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, bytes) and value:
        yield from _texts(_unpacked(value))


def _unpacked(value: bytes) -> bytes:
    if value[:1] == b"\x78" or value[:2] == b"\x1f\x8b":
        try:
            return zlib.decompressobj(zlib.MAX_WBITS | 32).decompress(value, _MOST)
        except zlib.error:
            pass  # it only began like that
    return value


def _parquet(path: Path) -> Iterator[str]:
    from pyarrow import parquet

    file = parquet.ParquetFile(path)
    for group in range(file.metadata.num_row_groups):
        yield from _columns(file.read_row_group(group))


def _arrow(path: Path) -> Iterator[str]:
    import pyarrow as pa

    with pa.memory_map(str(path)) as source:
        yield from _columns(pa.ipc.open_file(source).read_all())


def _columns(table: Any) -> Iterator[str]:
    import pyarrow as pa

    for column in table.columns:
        if _has_text(column.type, pa.types):
            for value in column.to_pylist():
                yield from _strings(value)


def _has_text(of: Any, types: Any) -> bool:
    if types.is_dictionary(of):
        return _has_text(of.value_type, types)
    inner = [of.field(place) for place in range(of.num_fields)]
    return (
        types.is_string(of)
        or types.is_large_string(of)
        or types.is_string_view(of)
        or any(_has_text(one.type, types) for one in inner)
    )


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from _strings(list(value.values()))
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _strings(one)


def _gzip(path: Path) -> Iterator[str]:
    with gzip.open(path) as file:
        yield from _chunks(file)


def _zstd(path: Path) -> Iterator[str]:
    import pyarrow as pa

    with pa.CompressedInputStream(pa.OSFile(str(path)), "zstd") as file:
        yield from _chunks(file)


def _zip(path: Path) -> Iterator[str]:
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            with archive.open(name) as file:
                yield from _chunks(file)


def _chunks(file: Any) -> Iterator[str]:
    before = b""
    while data := file.read(4 << 20):
        yield from _texts(before + data)
        before = data[-_OVERLAP:]


_FORMATS: dict[bytes, Decode] = {
    b"SQLite format 3\x00": _sqlite,
    b"PAR1": _parquet,
    b"ARROW1": _arrow,
    b"\x1f\x8b": _gzip,
    b"\x28\xb5\x2f\xfd": _zstd,
    b"PK\x03\x04": _zip,
}
