"""
Source files: the imported files of a folder, their lines, unpacked from gzip or zstd, and the rows
of another program's database.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import IO, Any, TypeVar

import apsw
import msgspec

from store.agents.json_fields import join_surrogates
from store.home.capped_files import is_crowded, open_capped
from store.home.errors import SourceError

Progress = Callable[[int, int], None]  # is called with the numbers of those read and of all
UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)  # the errors of JSON
MAX_FIELD = 1 << 20  # characters of a text in a database
BUSY_MS = 2_000
_SQLITE = b"SQLite format 3\x00"


def no_progress(done: int, total: int) -> None:
    """Report nothing."""


def read_lines(path: Path, longest: int) -> Iterator[bytes]:
    """Yield a source's lines with their ends; a longer one is cut to `longest` + 1 bytes.

    Raise OSError as the disk does, SourceError if it cannot be unpacked.
    """
    with open_capped(path) as file:
        yield from split_lines(file, longest)


def split_lines(file: IO[bytes], longest: int) -> Iterator[bytes]:
    """Yield an open file's lines as `read_lines` does."""
    while line := file.readline(longest + 1):
        yield line
        while len(line) > longest and not line.endswith(b"\n"):
            line = file.readline(longest + 1)


def read_records(
    path: Path, longest: int, on_skip: Callable[[str], None]
) -> Iterator[tuple[int, bytes]]:
    """Yield the number and bytes of each non-empty line of a source of JSON Lines.

    One that is longer, or has too many values, is left out and reported to `on_skip`. Raise as
    `read_lines` does.
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


_object = msgspec.json.Decoder(dict[str, Any])


def decode_object(raw: bytes) -> dict[str, Any]:
    """Return the object that a line of JSON is; raise one of UNREADABLE."""
    return decode_json(raw, _object)


# Files: the ones read in a folder, and their printable names.


def is_source_file(path: Path, top: Path) -> bool:
    """Return True if a path is a file, or a link to one, that lies below `top`.

    A pipe or a device would never end; a link that leads out may lead to foreign files.
    """
    try:
        return path.is_file() and path.resolve().is_relative_to(top.resolve())
    except (OSError, RuntimeError):  # the second: a ring of links, before Python 3.13
        return False


def files_below(
    top: Path,
    is_wanted: Callable[[str], object],
    is_skipped: Callable[[Path], bool] = lambda folder: False,
) -> Iterator[Path]:
    """Yield the source files below a folder whose names are wanted, in the order of their names;
    none of a folder that is skipped.
    """
    for folder, folders, names in os.walk(top):
        folders[:] = sorted(name for name in folders if not is_skipped(Path(folder, name)))
        paths = (Path(folder, name) for name in sorted(names) if is_wanted(name))
        yield from (path for path in paths if is_source_file(path, top))


def printable_name(name: str) -> str:
    """Return a name with a mark for every byte that is no UTF-8, which texts cannot hold."""
    return os.fsencode(name).decode(errors="replace")


# Databases of other programs: opened for reading only, from tables alone.


def is_database(path: Path) -> bool:
    """Return True if a file is an SQLite database; raise OSError."""
    with path.open("rb") as file:
        return file.read(len(_SQLITE)) == _SQLITE


def open_database(path: Path, tables: Iterable[str], program: str) -> apsw.Connection:
    """Return a connection that only reads, from tables alone: a view could run for ever.

    Raise SourceError if one of `tables` is missing, apsw.Error if the file is no database.
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
    except BaseException:  # any error propagates, once the file is closed
        database.close()
        raise
    if missing := set(tables) - there:
        database.close()
        raise SourceError(f"{path} has no table {min(missing)}: it is no database of {program}'s")
    return database


Row = dict[str, Any]  # a column's value by its name; None if the table has no such column


def table_rows(path: Path, program: str, table: str, columns: str) -> Iterator[Row]:
    """Yield the rows of a table in the order they were written, with the columns named in a text.

    A column that this version of the table lacks is None; a text is cut at MAX_FIELD characters.
    Raise SourceError for a file that is no database of the program's.
    """
    names = columns.split()
    try:
        with closing(open_database(path, (table,), program)) as database:
            infos = database.execute("SELECT name FROM pragma_table_info(?)", (table,))
            there = {str(name) for (name,) in infos}
            parts = [
                f'CASE typeof("{name}") WHEN \'text\' THEN substr("{name}", 1, {MAX_FIELD}) '
                f"WHEN 'blob' THEN NULL ELSE \"{name}\" END"
                if name in there
                else "NULL"
                for name in names
            ]
            for values in database.execute(
                f'SELECT {", ".join(parts)} FROM "{table}" ORDER BY rowid'
            ):
                yield dict(zip(names, values, strict=True))
    except (apsw.Error, UnicodeDecodeError) as error:
        raise SourceError(f"{path} cannot be read as a database of {program}'s: {error}") from error
