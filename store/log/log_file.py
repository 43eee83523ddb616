"""
The SQLite file behind the log: creating, opening and identifying it, and translating its errors.
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw

from store.home import files
from store.home.errors import (
    LogBusy,
    LogClosed,
    LogCorrupt,
    LogError,
    LogForeign,
    LogFull,
    LogReadOnly,
    LogVersion,
)
from store.home.files import make_folder, sync_file, sync_path
from store.log import vocabulary

APPLICATION_ID = 0x6D6E6D6F  # "mnmo": identifies a log of ours
SCHEMA_VERSION = 6
# the condition of the index: a query that repeats it word for word may use it
OF_JOBS = "kind IN ('planned', 'applied', 'undone', 'judged', 'adopted', 'called')"
# upgrades a log from each version to the next
MIGRATIONS = {
    1: "CREATE INDEX events_by_session ON events (session, seq) WHERE session IS NOT NULL",
    2: f"CREATE INDEX events_of_jobs ON events (kind, seq) WHERE {OF_JOBS}",
    3: "CREATE TABLE segments (name TEXT PRIMARY KEY, first INTEGER NOT NULL, "
    "last INTEGER NOT NULL, events INTEGER NOT NULL, bytes INTEGER NOT NULL, "
    "sha256 TEXT NOT NULL) STRICT",
    4: "CREATE INDEX events_by_kind ON events (kind, at)",
    5: "ALTER TABLE events ADD COLUMN author TEXT; ALTER TABLE events ADD COLUMN origin TEXT; "
    "ALTER TABLE events ADD COLUMN clock INTEGER; "
    "CREATE TABLE vocabulary (kind TEXT PRIMARY KEY, version INTEGER NOT NULL) STRICT",
}
# the number of events of each kind in each step of time
TALLY = """
WITH RECURSIVE
    asked (steps, since, step, kinds) AS (SELECT ?, ?, ?, ?),
    places (place) AS (
        SELECT 0 UNION ALL SELECT place + 1 FROM places, asked WHERE place + 1 < steps
    )
SELECT named.value, place, (
    SELECT count(*) FROM events WHERE kind = named.value
    AND at >= since + place * step AND at < since + (place + 1) * step
) FROM asked, json_each(asked.kinds) AS named, places
"""
BUSY_TIMEOUT_MS = 5_000
AHEAD_BYTES = 8 << 20  # the write-ahead file shrinks to this size after long reads or erasures
LEAST_SQLITE = (3, 51, 3)  # older ones can lose WAL frames when two connections checkpoint

MOST_SEQ = 2**62  # more than SQLite will ever number

Row = tuple[Any, ...]
Ask = Callable[[str, tuple[object, ...]], list[Row]]  # the rows of a query and its values


def sqlite_version() -> str:
    """Return the version of the SQLite in use, which is apsw's own."""
    return apsw.sqlite_lib_version()


@contextmanager
def immediate(connection: apsw.Connection) -> Iterator[None]:
    """Hold the write lock from the start; commit at the end, roll back on any error."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException as error:  # an interrupt too must not leave the write lock held
        number = connection.system_errno  # SQLite's reason; the next call forgets it
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        if isinstance(error, apsw.IOError) and number:
            raise OSError(number, str(error)) from error
        raise


@contextmanager
def rewrite_transaction(connection: apsw.Connection) -> Iterator[None]:
    """Hold the write lock and allow rows to be changed; no other connection sees the table
    unguarded.

    The old contents of rows are overwritten with zeros. The trigger is part of the transaction: it
    is back with the commit, and after a crash it was never gone.
    """
    overwrites = connection.pragma("secure_delete", True)
    assert overwrites, "SQLite overwrites what it deletes"
    with immediate(connection):
        guard: list[Row] = connection.execute(
            "SELECT sql FROM sqlite_schema WHERE type = 'trigger' AND name = 'events_keep_update'"
        ).fetchall()
        connection.execute("DROP TRIGGER IF EXISTS events_keep_update")
        yield
        for (sql,) in guard:
            connection.execute(sql)


def settle(connection: apsw.Connection, *, shrink: bool = False) -> bool:
    """Move everything into the one log file; with `shrink`, return unused space to the system.

    Return True if it succeeded: it fails while others read or write, and loses nothing. The former
    contents of the write-ahead log do not come back after a power cut either.
    """
    try:
        if shrink:
            connection.execute("VACUUM")
        busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()[0]
    except apsw.BusyError:
        return False
    if not busy:
        sync_file(Path(f"{connection.filename}-wal"))  # SQLite does not: to it, nothing is lost
    return not busy


@contextmanager
def translate_errors(path: Path) -> Iterator[None]:
    """Turn errors of SQLite and the file system into our own."""
    try:
        yield
    except (apsw.BusyError, apsw.LockedError) as error:
        raise LogBusy(f"{path} is locked by another process: try again") from error
    except apsw.ConnectionClosedError as error:
        raise close_error(path) from error
    except apsw.FullError as error:
        raise LogFull(
            f"no space left for {path}: nothing was written; free space and retry"
        ) from error
    except (
        apsw.ReadOnlyError,
        apsw.CantOpenError,
        apsw.PermissionsError,
        PermissionError,
    ) as error:
        if (too_many := files.handles_error(path)) is not None:
            raise too_many from error
        if files.is_read_only(path):
            raise files.read_only_error(path) from error
        raise LogReadOnly(f"{path} cannot be written ({error}): check owner and mode") from error
    except apsw.NotADBError as error:
        raise LogForeign(
            f"{path} is not a SQLite file: move it away, or set MNEMOLOG_HOME"
        ) from error
    except (apsw.CorruptError, apsw.SQLError, UnicodeDecodeError) as error:
        # a damaged schema page reads as a missing table, a damaged text as no UTF-8
        raise LogCorrupt(f"{path} is damaged ({error}): restore a backup") from error
    except (apsw.Error, OSError) as error:
        if isinstance(error, OSError):
            ours = files.disk_error(error, path)
        else:
            ours = files.handles_error(path)
        unknown = LogError(f"reading or writing {path} failed ({error}): check the disk")
        raise ours or unknown from error


def close_error(path: Path) -> LogClosed:
    """Return the error for a log whose tenant was deleted, or whose server ends: a retry finds out
    which.
    """
    return LogClosed(f"the log of {path.parent.name} was closed: ask again")


def create_file(path: Path) -> None:
    """Make an empty file that only its owner can read, if it does not exist."""
    make_folder(path.parent)
    # SQLite gives -wal and -shm the mode of the file, so it must be private before SQLite sees it.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))


def connect(path: Path) -> apsw.Connection:
    """Return a connection that waits a while for the locks of others.

    On a read-only disk it can only read. There SQLite needs the write-ahead file and -shm, which
    exist while a program has the log open or after one was killed; if neither exists, SQLite would
    have to create them, so it is told that the file never changes.
    """
    ahead = Path(f"{path}-wal")
    if files.is_read_only(path) and not (ahead.exists() and ahead.stat().st_size):
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        connection = apsw.Connection(f"{path.absolute().as_uri()}?immutable=1", flags=flags)
    else:
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    connection.set_busy_timeout(BUSY_TIMEOUT_MS)
    return connection


def show_until(connection: apsw.Connection, seq: int) -> None:
    """Hide the events with a greater seq from a connection; the whole table remains `main.events`.

    A temporary view hides the table of its name: https://www.sqlite.org/lang_naming.html.
    """
    connection.execute(
        "DROP VIEW IF EXISTS temp.events; "
        f"CREATE TEMP VIEW events AS SELECT * FROM main.events WHERE seq <= {int(seq)}"
    )


def prepare(connection: apsw.Connection, path: Path, *, create: bool) -> None:
    """Check that the file is ours, create the table in an empty one, configure the connection."""
    if create and not _tables(connection):
        write_ahead(connection)
        with immediate(connection):
            if not _tables(connection):  # another process may have been first
                from importlib.resources import files

                sync_path(path.parent)  # no log exists before its folders do
                connection.execute(files("store.log").joinpath("schema.sql").read_text())
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    owner = connection.pragma("application_id")
    version = int(connection.pragma("user_version"))
    if owner != APPLICATION_ID:
        raise LogForeign(f"{path} is another program's database: set MNEMOLOG_HOME elsewhere")
    if not 0 < version <= SCHEMA_VERSION:
        raise LogVersion(
            f"{path} has schema version {version}, this mnemolog reads {SCHEMA_VERSION}: "
            "upgrade mnemolog"
        )
    if version == SCHEMA_VERSION:  # earlier versions note none
        read_vocabulary(connection.execute, path)
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(f"PRAGMA journal_size_limit = {AHEAD_BYTES}")
    if version < SCHEMA_VERSION:
        _migrate(connection)


def read_vocabulary(
    ask: Callable[[str, tuple[object, ...]], Iterable[Row]], path: Path
) -> dict[str, int]:
    """Return the versions of the bodies that a log notes, by kind; raise LogVersion for one unknown
    here. It costs microseconds.
    """
    noted: dict[str, int] = dict(ask("SELECT kind, version FROM vocabulary", ()))
    if unknown := vocabulary.first_unknown(noted.items()):
        kind, version = unknown
        raise LogVersion(
            f"{path} holds events of the kind {kind!r}, version {version}, which this mnemolog "
            "does not read: upgrade mnemolog"
        )
    return noted


def note_vocabulary(connection: apsw.Connection, path: Path, needs: Mapping[str, int]) -> None:
    """Note the versions that new events need; the caller holds the log."""
    noted = read_vocabulary(connection.execute, path)
    new = [(kind, version) for kind, version in needs.items() if version > noted.get(kind, 0)]
    connection.executemany("INSERT OR REPLACE INTO vocabulary VALUES (?, ?)", new)


def is_older(path: Path) -> bool:
    """Return True if opening a log would upgrade its schema, so that earlier versions cannot read
    it.
    """
    with translate_errors(path):
        connection = connect(path)
        try:
            return 0 < int(connection.pragma("user_version")) < SCHEMA_VERSION
        finally:
            connection.close()


def write_ahead(connection: apsw.Connection) -> None:
    """Turn write-ahead logging on; SQLite ignores its busy timeout here."""
    deadline = time.monotonic() + BUSY_TIMEOUT_MS / 1_000
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchall()
            return
        except apsw.BusyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _migrate(connection: apsw.Connection) -> None:
    """Upgrade a log to the current schema, wholly or not at all; its events stay as they are."""
    with immediate(connection):
        version = int(connection.pragma("user_version"))  # another process may have been first
        for older in range(version, SCHEMA_VERSION):
            connection.execute(MIGRATIONS[older])
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def _tables(connection: apsw.Connection) -> int:
    rows: list[Row] = connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
    return int(rows[0][0])
