"""
The erase scan: every file below a home, decoded and searched for erased texts; records that quote
them are dropped.

Searched are the raw bytes, in UTF-8 and UTF-16, and the decoded data: rows of SQLite, columns of
Parquet and Arrow, compressed data and archives. Remains on a free page of SQLite, or in the space
of a longer row, are among the bytes.
"""

import gzip
import os
import re
import shutil
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import chain
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

import apsw
import msgspec

from store.home.files import remove_files
from store.log import log_file
from store.text.fingerprints import Looker, Marks

_MOST = 64 << 20  # bytes that one value may decompress to: no bomb is unpacked
# a run of text: printable ASCII, and letters beyond it in UTF-8
_UTF8 = re.compile(
    rb"(?:[\t\n\r\x20-\x7e]|[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}"
    rb"|[\xf0-\xf4][\x80-\xbf]{3}){4,4096}"
)
_UTF16 = re.compile(rb"(?:[\t\n\r\x20-\x7e]\x00){4,4096}|(?:\x00[\t\n\r\x20-\x7e]){4,4096}")
_OVERLAP = 1_024  # bytes that two windows on a long text share: a run of words is in one of them

Decode = Callable[[Path], Iterator[str]]
# the errors of decoding a damaged file, or one of another format than it appears
Unreadable = (OSError, ValueError, EOFError, zlib.error, apsw.Error, zipfile.BadZipFile)


def raw_texts(path: Path) -> Iterator[str]:
    """Yield the texts among a file's bytes."""
    with path.open("rb") as file:
        if not path.stat().st_size:
            return
        with mmap(file.fileno(), 0, access=ACCESS_READ) as data:
            yield from _texts(data)


def texts_in_file(path: Path) -> Iterator[str] | None:
    """Yield the texts that a file's bytes decode to; None if the format has no decoder.

    A damaged file raises one of `Unreadable`.
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
        for match in pattern.finditer(data):
            if encoding:
                text = match[0].decode(encoding, "replace")
            else:
                text = match[0].replace(b"\x00", b"").decode("ascii")
            yield tail + text if match.start() == before else text
            before, tail = match.end(), text[-_OVERLAP:]


def _sqlite(path: Path) -> Iterator[str]:
    """Yield every text of every row of every table, including those in compressed values."""
    with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
        connection.set_busy_timeout(5_000)
        tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
        for (name,) in tables.fetchall():
            quoted = str(name).replace('"', '""')
            for row in connection.execute(f'SELECT * FROM "{quoted}"'):
                for value in row:
                    yield from texts_in_value(value)


def texts_in_value(value: object) -> Iterator[str]:
    """Yield the texts of a value of a row."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, bytes) and value:
        yield from _texts(_unpack(value))


def _unpack(value: bytes) -> bytes:
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
        or any(_has_text(child.type, types) for child in inner)
    )


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from _strings(list(value.values()))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _strings(item)


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


# The scan: every file below a home is searched for the erased texts, as bytes and decoded.

_LOCKS = (".lock", "-shm")  # nothing is ever written to them, or numbers alone


class FileHit(msgspec.Struct, frozen=True):
    """A file, relative to the home, that still contains a mark; `is_plain` if undecoded."""

    path: str
    is_plain: bool


class ScanReport(msgspec.Struct, frozen=True):
    """The report of a scan: its size, the number of marks, and the files with hits.

    `bytes` are those of all `files`; `decoded` counts the files that were also decoded. `unread`
    files could not be read and may hold anything.
    """

    files: int = 0
    bytes: int = 0
    decoded: int = 0
    marks: int = 0
    found: tuple[FileHit, ...] = ()
    unread: tuple[str, ...] = ()


def walk_files(folder: Path) -> Iterator[Path]:
    """Yield every file below a folder, in order; links are not followed."""
    for where, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = Path(where, name)
            if path.is_file() and not path.is_symlink():
                yield path


def scan(home: Path, tenant: Path, marks: Marks) -> ScanReport:
    """Search every file below a home for marks; return a report.

    Single words are searched in the tenant's folder alone: elsewhere they may be anybody's.
    """
    looker = Looker(marks)
    count = size = decoded = 0
    hits: list[FileHit] = []
    unread: list[str] = []
    for path in walk_files(home):
        name = path.relative_to(home).as_posix()
        try:
            length = path.stat().st_size
            how = _look(path, looker, words=path.is_relative_to(tenant))
        except FileNotFoundError:  # it went meanwhile
            continue
        except Unreadable:
            unread.append(name)
            continue
        count, size = count + 1, size + length
        decoded += how.is_decoded
        if how.plainly or how.within:
            hits.append(FileHit(name, how.plainly))
    return ScanReport(count, size, decoded, len(marks), tuple(hits), tuple(unread))


class _How(msgspec.Struct, frozen=True):
    plainly: bool = False
    within: bool = False
    is_decoded: bool = False


def _look(path: Path, looker: Looker, *, words: bool) -> _How:
    if path.name.endswith(_LOCKS):
        return _How()
    plainly = any(looker.holds(text, words=words) for text in raw_texts(path))
    texts = texts_in_file(path)
    if texts is None:
        return _How(plainly)
    within = any(looker.holds(text, words=words) for text in texts)
    return _How(plainly, within, is_decoded=True)


# Records: files of other programs below the home that may quote a memory: Dagster's runs, logs,
# failures, copies of damaged files.
#
# Dagster keeps each run in SQLite files below `dagster/`, with the pages' metadata: samples, plans,
# a memory before and after. A run that quotes an erased text is dropped whole, with its images.

_ENDED = ("SUCCESS", "FAILURE", "CANCELED")
_OURS = ("dagster.yaml", "ui.json")  # settings, and the address of the pages


@dataclass
class _Database:
    """One of Dagster's files: its tables and their columns, and the rows that quote."""

    path: Path
    columns: dict[str, list[str]] = field(default_factory=dict)
    rows: dict[str, list[int]] = field(default_factory=dict)
    runs: set[str] = field(default_factory=set)


def drop_records(home: Path, tenant: Path, looker: Looker) -> list[str]:
    """Drop the records below a home that quote the erased texts; return their relative paths.

    An unfinished run loses only the rows that quote; the scan names anything it writes later. Raise
    LogBusy if Dagster holds a file for long.
    """
    dropped = [
        *_runs(home / "dagster", looker),
        *_logs(home, tenant, looker),
        *_drop_damaged_files(tenant / "damaged", looker),
    ]
    return [path.relative_to(home).as_posix() for path in dropped]


def _logs(home: Path, tenant: Path, looker: Looker) -> Iterator[Path]:
    """Empty logs that quote, which their writers hold open, and delete failure reports that do."""
    for path in (*_beside(home), *_beside(tenant)):
        if any(looker.holds(text) for text in raw_texts(path)):
            if path.suffix == ".json":
                remove_files([path])
            else:
                with path.open("r+b") as file:
                    file.truncate(0)
                    os.fsync(file.fileno())  # else it may be as long again after a power cut
            yield path


def _beside(folder: Path) -> Iterator[Path]:
    for pattern in ("*.log", "*.log.*", "failures/*.json", "refused.json"):
        yield from sorted(folder.glob(pattern))


def _drop_damaged_files(folder: Path, looker: Looker) -> Iterator[Path]:
    """Delete the kept copies of damaged files that quote, or cannot be read."""
    for path in walk_files(folder):
        try:
            within = texts_in_file(path) or ()
            quotes = any(looker.holds(text, words=True) for text in chain(raw_texts(path), within))
        except Unreadable:
            quotes = True
        if quotes:
            remove_files([path])
            yield path


def _runs(folder: Path, looker: Looker) -> Iterator[Path]:
    """Drop Dagster's runs that quote, out of all its files."""
    databases = [_find_rows(path, looker) for path in sorted(folder.rglob("*.db"))]
    going = set[str]().union(*(other.runs for other in databases))
    going -= _at_work(folder, going)
    for database in databases:
        if database.path.stem in going:  # a run's own file
            remove_files([database.path, *database.path.parent.glob(f"{database.path.name}-*")])
            yield database.path
        elif database.rows or going:
            if _clear_rows(database, going):
                yield database.path
    for run in going:
        shutil.rmtree(folder / "storage" / run, ignore_errors=True)
    for path in walk_files(folder):
        is_plain = path.suffix not in (".db", ".db-wal", ".db-shm") and path.name not in _OURS
        if is_plain and any(looker.holds(text) for text in raw_texts(path)):
            remove_files([path])
            yield path


def _find_rows(path: Path, looker: Looker) -> _Database:
    """Return the rows and runs of a file that quote."""
    database = _Database(path)
    with _connect(path) as connection:
        for (name,) in connection.execute(_TABLES).fetchall():
            table = str(name)
            names = [row[1] for row in connection.execute(f'PRAGMA table_info("{table}")')]
            database.columns[table] = names
            for number, *row in connection.execute(f'SELECT rowid, * FROM "{table}"'):
                if any(looker.holds(text) for value in row for text in texts_in_value(value)):
                    database.rows.setdefault(table, []).append(number)
                    if "run_id" in names and (run := row[names.index("run_id")]):
                        database.runs.add(run)
    return database


def _at_work(folder: Path, runs: set[str]) -> set[str]:
    """Return the runs that are not over."""
    path = folder / "history" / "runs.db"
    if not path.exists() or not runs:
        return set()
    with _connect(path) as connection:
        statuses = connection.execute("SELECT run_id, status FROM runs").fetchall()
    return {run for run, status in statuses if run in runs and status not in _ENDED}


def _clear_rows(database: _Database, runs: set[str]) -> bool:
    """Delete the rows that quote and all rows of some runs; return True if there were any."""
    changed = 0
    with _connect(database.path) as connection:
        assert connection.pragma("secure_delete", True), "SQLite overwrites what it deletes"
        with log_file.immediate(connection):
            for table, names in database.columns.items():
                for number in database.rows.get(table, ()):
                    connection.execute(f'DELETE FROM "{table}" WHERE rowid = ?', (number,))
                    changed += connection.changes()
                if "run_id" in names:
                    for run in runs:
                        connection.execute(f'DELETE FROM "{table}" WHERE run_id = ?', (run,))
                        changed += connection.changes()
        if changed:
            connection.execute("VACUUM")
            if connection.pragma("journal_mode") == "wal":
                log_file.settle(connection)
    return bool(changed)


_TABLES = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"


@contextmanager
def _connect(path: Path) -> Iterator[apsw.Connection]:
    with log_file.translate_errors(path), closing(log_file.connect(path)) as connection:
        yield connection
