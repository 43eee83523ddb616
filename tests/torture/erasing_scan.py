"""
erasing_scan: a separate scanner, which shares no code with the product's.

It knows the form of a marker, and finds each one below a folder: in the bytes of each file, in each
page and row of SQLite, in decoded Arrow and Parquet, in gzip and zlib data.
"""

import gzip
import re
import sqlite3
import zlib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyarrow import ipc, parquet

LETTERS = "bcdfghjk"  # no vowel: no stem of a language is shorter
_MARKER = re.compile(rb"zq([bcdfghjk]{4})([a-z]{3})x", re.IGNORECASE)


def marker(number: int, field: str) -> str:
    """Return a word unique to a memory, by its number, and one of its fields."""
    assert len(field) == 3
    digits = "".join(LETTERS[number >> shift & 7] for shift in (9, 6, 3, 0))
    return f"zq{digits}{field}x"


def markers(data: bytes) -> set[tuple[int, str]]:
    """Return the memories and fields with a marker in some bytes, also as UTF-16."""
    return _in(data) | _in(data.replace(b"\x00", b""))


def _in(data: bytes) -> set[tuple[int, str]]:
    numbers = set()
    for digits, field in _MARKER.findall(data):
        number = 0
        for letter in digits.decode().lower():
            number = number * 8 + LETTERS.index(letter)
        numbers.add((number, field.decode().lower()))
    return numbers


class Seen(dict[int, set[str]]):
    """The files and encodings in which each memory was seen."""

    def __init__(self) -> None:
        super().__init__()
        self.files = 0
        self.bytes = 0


def seen(folder: Path) -> Seen:
    """Return the memories with markers below a folder."""
    sightings = Seen()
    for path in sorted(folder.rglob("*")):
        try:
            if not path.is_file():
                continue
            data = path.read_bytes()
        except FileNotFoundError:  # a server runs meanwhile
            continue
        sightings.files += 1
        sightings.bytes += len(data)
        name = path.relative_to(folder).as_posix()
        for how, part in (("bytes", data), *_decoded(path, data)):
            for number, field in markers(part):
                sightings.setdefault(number, set()).add(f"{name} ({how}, {field})")
    return sightings


def _decoded(path: Path, data: bytes) -> Iterator[tuple[str, bytes]]:
    if data.startswith(b"SQLite format 3\x00"):
        yield from _pages(data)
        yield from _rows(path)
    elif data.startswith(b"PAR1"):
        yield "parquet", repr(parquet.read_table(pa.BufferReader(data)).to_pydict()).encode()
    elif data.startswith(b"ARROW1"):
        table = ipc.open_file(pa.BufferReader(data)).read_all()
        texts = [column for column in table.columns if "string" in str(column.type)]
        yield "arrow", repr([column.to_pylist() for column in texts]).encode()
    elif data.startswith(b"\x1f\x8b"):
        yield "gzip", gzip.decompress(data)
    for start in re.finditer(rb"\x78[\x01\x5e\x9c\xda]", data):
        try:
            yield "zlib", zlib.decompressobj().decompress(data[start.start() :], 1 << 20)
        except zlib.error:
            continue


def _pages(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield each page by itself: a text may not continue on the next page."""
    size = int.from_bytes(data[16:18], "big")
    size = 65_536 if size == 1 else size
    for at in range(0, len(data), size):
        yield f"page {at // size + 1}", data[at : at + size]


def _rows(path: Path) -> Iterator[tuple[str, bytes]]:
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
        for (name,) in tables.fetchall():
            for row in connection.execute(f'SELECT * FROM "{name}"'):
                yield f"table {name}", repr(row).encode()
    finally:
        connection.close()


def of_fields(numbers: set[int], seen: Seen) -> dict[int, list[str]]:
    """Return places where some memories were seen, a few each."""
    places: dict[int, list[str]] = defaultdict(list)
    for number in sorted(numbers & seen.keys()):
        places[number] = sorted(seen[number])[:4]
    return places
