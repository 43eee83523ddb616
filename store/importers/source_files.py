"""
Source files: which files of a folder are imported, their lines, unpacked where gzip or zstd, and
the rows of another program's database.

What unpacks to more than MOST_RATIO times its size, or to more than MOST_BYTES, is no source but a
bomb. What it is packed with is read off its first bytes: RFC 1952 and RFC 8878.
"""

import gzip
import io
import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import apsw
import msgspec

from store.agents.json_fields import join_surrogates
from store.home.errors import SourceError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


MOST_RATIO = 100
MOST_BYTES = 1 << 30
MOST_VALUES = 400_000  # lists and objects of one line of JSON, each some 100 bytes and more
Progress = Callable[[int, int], None]  # is told how many were read, and of how many
UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)  # what JSON may raise
MAX_FIELD = 1 << 20  # characters of a text in a database
BUSY_MS = 2_000
_SLACK = 1 << 20  # a few lines that repeat each other may be packed tighter
_PIECE = 1 << 16
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_SQLITE = b"SQLite format 3\x00"


def no_progress(done: int, total: int) -> None:
    """Tell nobody."""


def is_crowded(line: bytes) -> bool:
    """Return whether a line of JSON says so many values that they would fill the memory."""
    return len(line) > _PIECE and line.count(b"{") + line.count(b"[") > MOST_VALUES


def read_lines(path: Path, longest: int) -> Iterator[bytes]:
    """Yield a source's lines with their ends; of a longer one the first `longest` bytes and one.

    Raise OSError as the disk does, SourceError for what cannot be unpacked.
    """
    with path.open("rb") as file:
        unpacked = _unpack(path, file)
        while line := unpacked.readline(longest + 1):
            yield line
            while len(line) > longest and not line.endswith(b"\n"):
                line = unpacked.readline(longest + 1)


def read_records(
    path: Path, longest: int, on_skip: Callable[[str], None]
) -> Iterator[tuple[int, bytes]]:
    """Yield the number and bytes of each line of a source of JSON Lines that says something.

    One that is longer, or says too many values, is left out and `on_skip` is told which. Raise as
    `lines` does.
    """
    for number, raw in enumerate(read_lines(path, longest), 1):
        if len(raw) > longest or is_crowded(raw):
            on_skip(f"{path} line {number} was left out: it is too long, or holds too much")
        elif not raw.isspace():
            yield number, raw


T = TypeVar("T")


def decode_json(raw: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    """Return the value of a line of JSON; raise one of UNREADABLE."""
    try:
        return decoder.decode(raw)
    except msgspec.DecodeError:
        whole = join_surrogates(raw)
        if whole == raw:
            raise
        return decoder.decode(whole)


def _unpack(path: Path, file: io.BufferedReader) -> io.BufferedReader:
    first = file.peek(len(_ZSTD))
    if first.startswith(_GZIP):
        counted = _Counted(file)
        return io.BufferedReader(_Unpacked(path, gzip.GzipFile(fileobj=counted), counted), _PIECE)
    if first.startswith(_ZSTD):
        import pyarrow as pa

        counted = _Counted(file)
        source = pa.CompressedInputStream(pa.PythonFile(counted, "r"), "zstd")
        return io.BufferedReader(_Unpacked(path, source, counted), _PIECE)
    return file


class _Source(Protocol):
    def read(self, size: int, /) -> bytes: ...


class _Counted(io.RawIOBase):
    """A file, and how much was read of it; a pipe cannot tell."""

    def __init__(self, file: io.BufferedReader) -> None:
        super().__init__()
        self._file, self.count = file, 0

    def readable(self) -> bool:
        return True

    def readinto(self, into: "WriteableBuffer", /) -> int:
        size = self._file.readinto(into)
        self.count += size
        return size


class _Unpacked(io.RawIOBase):
    """What a packed source holds, for as long as it is no bomb."""

    def __init__(self, path: Path, source: _Source, packed: _Counted) -> None:
        super().__init__()
        self._path, self._source, self._packed, self._count = path, source, packed, 0

    def readable(self) -> bool:
        return True

    def readinto(self, into: "WriteableBuffer", /) -> int:
        room = memoryview(into)
        try:
            data = self._source.read(min(len(room), _PIECE))
        except (OSError, EOFError, ValueError, zlib.error) as error:
            raise SourceError(f"{self._path} cannot be unpacked: {error}") from error
        self._count += len(data)
        if self._count > min(MOST_BYTES, MOST_RATIO * self._packed.count + _SLACK):
            raise SourceError(
                f"{self._path} unpacks to over {MOST_RATIO} times its size, or over "
                f"{MOST_BYTES >> 20} MiB: unpack it yourself and look at it"
            )
        room[: len(data)] = data
        return len(data)


# Files: which of those in a folder are read, and how their names are written down.


def is_source_file(path: Path, top: Path) -> bool:
    """Return whether a path is a file, or a link to one, that lies below `top`.

    A pipe or a device would never end; a link that leads out may lead to what is no part of it.
    """
    try:
        return path.is_file() and path.resolve().is_relative_to(top.resolve())
    except (OSError, RuntimeError):  # the second: a ring of links, before Python 3.13
        return False


def printable_name(name: str) -> str:
    """Return a name with a mark for every byte that is no UTF-8, for texts cannot hold such."""
    return os.fsencode(name).decode(errors="replace")


# Databases of other programs: opened for reading only, from tables alone.


def is_database(path: Path) -> bool:
    """Return whether a file is a database of SQLite's; raise OSError."""
    with path.open("rb") as file:
        return file.read(len(_SQLITE)) == _SQLITE


def open_database(path: Path, tables: Iterable[str], program: str) -> apsw.Connection:
    """Return a connection that only reads, from tables alone: a view could run for ever.

    Raise SourceError where one of `tables` is missing, apsw.Error for a file that is no database.
    """
    database = apsw.Connection(os.fspath(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        database.set_busy_timeout(BUSY_MS)
        database.limit(apsw.SQLITE_LIMIT_LENGTH, 32 << 20)
        database.execute("PRAGMA trusted_schema = OFF")
        kinds = database.execute("SELECT name, type, sql FROM sqlite_schema")
        there = {
            name for name, kind, sql in kinds if kind == "table" and "VIRTUAL" not in (sql or "")
        }
    except BaseException:  # whatever it is goes on, once the file is closed
        database.close()
        raise
    if missing := set(tables) - there:
        database.close()
        raise SourceError(f"{path} has no table {min(missing)}: it is no database of {program}'s")
    return database


Row = dict[str, Any]  # a column's value by its name; None where the table has no such column


def table_rows(path: Path, program: str, table: str, columns: str) -> Iterator[Row]:
    """Yield the rows of a table in the order they were written, with the columns named in a text.

    A column that this version of the table lacks is None; a text is cut at MAX_FIELD characters.
    Raise SourceError for a file that is no database of the program's.
    """
    names = columns.split()
    try:
        with closing(open_database(path, (table,), program)) as database:
            found = database.execute("SELECT name FROM pragma_table_info(?)", (table,))
            there = {str(name) for (name,) in found}
            parts = [_column(name) if name in there else "NULL" for name in names]
            for values in database.execute(
                f'SELECT {", ".join(parts)} FROM "{table}" ORDER BY rowid'
            ):
                yield dict(zip(names, values, strict=True))
    except (apsw.Error, UnicodeDecodeError) as error:
        raise SourceError(f"{path} cannot be read as a database of {program}'s: {error}") from error


def _column(name: str) -> str:
    return (
        f'CASE typeof("{name}") WHEN \'text\' THEN substr("{name}", 1, {MAX_FIELD}) '
        f"WHEN 'blob' THEN NULL ELSE \"{name}\" END"
    )
