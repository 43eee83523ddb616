"""
EventLog: the append-only log in one SQLite file, the only truth mnemolog keeps.

What must stay true: an append is acknowledged only after COMMIT with `synchronous=FULL`; every text
is redacted before it reaches the disk; an id that is there already is the same event, never a
second one. Several processes may append at once: each write is one `BEGIN IMMEDIATE`, because
SQLite answers an upgrade from a read lock with BUSY whatever the timeout
(https://www.sqlite.org/lang_transaction.html).
"""

import errno
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import apsw
import msgspec

from store import redact
from store.errors import (
    IdConflict,
    InvalidInput,
    LogBusy,
    LogCorrupt,
    LogError,
    LogForeign,
    LogFull,
    LogReadOnly,
    LogVersion,
    NotFound,
)
from store.events import RECEIPTS, Event, decode, encode

APPLICATION_ID = 0x6D6E6D6F  # "mnmo": tells our file from anybody else's
SCHEMA_VERSION = 1
BUSY_TIMEOUT_MS = 5_000
LEAST_SQLITE = (3, 51, 3)  # older ones can lose WAL frames when two connections checkpoint
_COLUMNS = "seq, id, at, kind, subject, project, session, agent, trust, body, sha256"
_BATCH = 2_000  # rows fetched at a time: bounds memory without a round trip per row

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Appended:
    """An event as it stands in the log; `is_new` is False where its id was there already."""

    event: Event
    is_new: bool


class EventLog:
    """An open log. Threads may share it; close it, or use it in a `with`.

    Reads have a connection of their own: none waits for a write, nor for the lock of one.
    """

    def __init__(self, path: Path, *, create: bool = False) -> None:
        """Open the log at `path`, made first if `create`.

        Raise NotFound where there is none, LogForeign, LogVersion or LogCorrupt where the file is
        not a log this version can read, LogBusy, LogFull or LogReadOnly as the disk says.
        """
        self.path = path
        self._lock, self._reading = threading.Lock(), threading.Lock()
        self._appends = 0
        with _translated(path):
            if create:
                _create_file(path)
            elif not path.exists():
                raise NotFound(f"no log at {path}: run `mnemolog init` first")
            self._connection = _connect(path)
            try:
                _prepare(self._connection, path, create=create)
                self._reader = _connect(path)
            except BaseException:
                self._connection.close()
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        with self._lock, self._reading, _translated(self.path):
            self._reader.close()
            self._connection.close()

    def append(self, events: Sequence[Event]) -> list[Appended]:
        """Write all events or none, in order, redacted; return them with their `seq`.

        An id that is there already and says the same (kind, subject, project, body) is not written
        again.
        Raise InvalidInput for a value no event may hold, IdConflict where an id was used for
        something else, and LogBusy, LogFull or LogReadOnly where SQLite could not write; a retry
        with the same ids is always safe.
        """
        rows = [_row(event) for event in events]
        with self._transaction() as connection:
            appended = [_insert(connection, event, row) for event, row in rows]
        self._appends += 1
        return appended

    def read(self, after: int = 0, until: int | None = None) -> Iterator[Event]:
        """Yield the events with `after` < seq <= `until` (None: to the head), in order.

        Raise LogCorrupt at the first event whose hash does not match what it says.
        """
        last = self.head() if until is None else until
        while after < last:
            rows = self._fetch(
                f"SELECT {_COLUMNS} FROM events WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT ?",
                (after, last, _BATCH),
            )
            if not rows:
                return
            for row in rows:
                yield _event(row)
            after = rows[-1][0]

    def about(self, subject: str) -> list[Event]:
        """Return every event about one memory, oldest first; empty where the id is unknown."""
        rows = self._fetch(
            f"SELECT {_COLUMNS} FROM events WHERE subject = ? ORDER BY seq", (subject,)
        )
        return [_event(row) for row in rows]

    def known(self, ids: Sequence[str]) -> set[str]:
        """Return those of `ids` that are in the log already."""
        found = self._fetch(
            "SELECT id FROM events WHERE id IN (SELECT value FROM json_each(?))",
            (msgspec.json.encode(list(ids)).decode(),),
        )
        return {row[0] for row in found}

    def matching(self, prefix: str, limit: int = 5) -> list[str]:
        """Return up to `limit` ids of memories that start with `prefix`, in order."""
        found = self._fetch(
            "SELECT id FROM events WHERE kind = 'recorded' AND id >= ? AND id < ? "
            "ORDER BY id LIMIT ?",
            (prefix, prefix + "\U0010ffff", limit),
        )
        return [row[0] for row in found]

    def counts(self, until: int) -> dict[tuple[str, int], int]:
        """Return how many events up to a seq there are of each kind on each day since 1970 UTC."""
        found = self._fetch(
            "SELECT kind, at / 86400000000, count(*) FROM events WHERE seq <= ? GROUP BY 1, 2",
            (until,),
        )
        return {(kind, day): count for kind, day, count in found}

    def head(self) -> int:
        """Return the newest event's seq; 0 for an empty log."""
        return int(self._fetch("SELECT coalesce(max(seq), 0) FROM events")[0][0])

    def last_change(self) -> int:
        """Return the seq of the newest event that is no receipt; 0 where there is none."""
        marks = ", ".join("?" * len(RECEIPTS))
        found = self._fetch(
            f"SELECT seq FROM events WHERE kind NOT IN ({marks}) ORDER BY seq DESC LIMIT 1",
            tuple(sorted(RECEIPTS)),
        )
        return int(found[0][0]) if found else 0

    def version(self) -> tuple[int, int]:
        """Return what changes with every append, by whomever; costs microseconds.

        https://www.sqlite.org/pragma.html#pragma_data_version sees other connections only.
        """
        return int(self._fetch("PRAGMA data_version")[0][0]), self._appends

    def integrity(self) -> list[str]:
        """Return what is wrong with the file, in words; empty when every check passes.

        SQLite's own check, every event's hash and the unbroken numbering are looked at.
        """
        problems: list[str] = []
        expected = 1
        try:
            checked = self._fetch("PRAGMA quick_check")
            problems += (f"SQLite: {row[0]}" for row in checked if row[0] != "ok")
            for event in self.read():
                if event.seq != expected:
                    problems.append(f"events {expected} to {event.seq - 1} are missing")
                expected = event.seq + 1
        except LogError as error:
            problems.append(str(error))
        return problems

    def _fetch(self, sql: str, values: tuple[object, ...] = ()) -> list[Row]:
        with self._reading, _translated(self.path):
            return self._reader.execute(sql, values).fetchall()

    @contextmanager
    def _transaction(self) -> Iterator[apsw.Connection]:
        with self._lock, _translated(self.path), _immediate(self._connection):
            yield self._connection


def sqlite_version() -> str:
    """Return the version of the SQLite in use, which is apsw's own."""
    return apsw.sqlite_lib_version()


@contextmanager
def _immediate(connection: apsw.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    """Turn what SQLite and the file system say into our own errors."""
    try:
        yield
    except (apsw.BusyError, apsw.LockedError) as error:
        raise LogBusy(f"{path} is locked by another process: try again") from error
    except apsw.FullError as error:
        raise LogFull(
            f"no space left for {path}: nothing was written, free some and retry"
        ) from error
    except (
        apsw.ReadOnlyError,
        apsw.CantOpenError,
        apsw.PermissionsError,
        PermissionError,
    ) as error:
        raise LogReadOnly(f"{path} cannot be written ({error}): check owner and mode") from error
    except apsw.NotADBError as error:
        raise LogForeign(
            f"{path} is not a SQLite file: move it away, or set MNEMOLOG_HOME"
        ) from error
    except (apsw.CorruptError, apsw.SQLError, UnicodeDecodeError) as error:
        # a damaged schema page reads as a missing table, a damaged text as no UTF-8
        raise LogCorrupt(f"{path} is damaged ({error}): restore a backup") from error
    except (apsw.Error, OSError) as error:
        number = getattr(error, "errno", None)
        if number == errno.EROFS:
            raise LogReadOnly(f"{path} lies on a read-only disk: set MNEMOLOG_HOME") from error
        if number == errno.ENOSPC:
            raise LogFull(
                f"no space left for {path}: nothing was written, free some and retry"
            ) from error
        raise LogError(f"reading or writing {path} failed ({error}): check the disk") from error


def _create_file(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # SQLite gives -wal and -shm the mode of the file, so it must be private before SQLite sees it.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))


def _connect(path: Path) -> apsw.Connection:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    connection.set_busy_timeout(BUSY_TIMEOUT_MS)
    return connection


def _prepare(connection: apsw.Connection, path: Path, *, create: bool) -> None:
    """Check whose file it is, make the table in an empty one, set what each connection needs."""
    if create and not _tables(connection):
        connection.execute("PRAGMA journal_mode = WAL").fetchall()
        with _immediate(connection):
            if not _tables(connection):  # another process may have been first
                connection.execute(files("store").joinpath("schema.sql").read_text())
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    owner = connection.pragma("application_id")
    version = connection.pragma("user_version")
    if owner != APPLICATION_ID:
        raise LogForeign(f"{path} is another program's database: set MNEMOLOG_HOME elsewhere")
    if version != SCHEMA_VERSION:
        raise LogVersion(
            f"{path} has schema version {version}, this mnemolog reads {SCHEMA_VERSION}: "
            "upgrade mnemolog"
        )
    connection.execute("PRAGMA synchronous = FULL")


def _tables(connection: apsw.Connection) -> int:
    rows: list[Row] = connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
    return int(rows[0][0])


def _redacted(event: Event) -> Event:
    # as JSON, not by to_builtins: that leaves tuples, which are no JSON, and a tag in one unread
    values = redact.redact_value(msgspec.json.decode(encode(event.body)))
    return replace(
        event,
        body=msgspec.convert(values, type(event.body)),
        project=redact.redact(event.project) if event.project else None,
        session=redact.redact(event.session) if event.session else None,
        agent=redact.redact(event.agent) if event.agent else None,
    )


def _row(event: Event) -> tuple[Event, Row]:
    """Return the event as it is kept, and its row; raise InvalidInput for what cannot be kept."""
    try:
        event = _redacted(event)
        return event, _columns(event)
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        raise InvalidInput(f"event {event.id} cannot be recorded: {error}") from error


def _columns(event: Event) -> Row:
    row = (
        event.id,
        event.at,
        event.kind,
        event.subject,
        event.project,
        event.session,
        event.agent,
        event.trust,
        encode(event.body),
    )
    return (*row, _sha256(row))


def _sha256(row: Row) -> bytes:
    return sha256(msgspec.json.encode(row)).digest()


def _insert(connection: apsw.Connection, event: Event, row: Row) -> Appended:
    inserted: list[Row] = connection.execute(
        "INSERT INTO events (id, at, kind, subject, project, session, agent, trust, body, sha256) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING RETURNING seq",
        row,
    ).fetchall()
    if inserted:
        return Appended(event.numbered(inserted[0][0]), is_new=True)
    there = _event(
        connection.execute(f"SELECT {_COLUMNS} FROM events WHERE id = ?", (event.id,)).fetchall()[0]
    )
    # as it reads back: JSON knows no tuple and no NaN
    body = decode(event.kind, encode(event.body))
    known = (there.kind, there.subject, there.project, there.body)
    if known != (event.kind, event.subject, event.project, body):
        raise IdConflict(
            f"id {event.id} was used before for something else: send a new id, or none"
        )
    return Appended(there, is_new=False)


def _event(row: Row) -> Event:
    seq, id_, at, kind, subject, project, session, agent, trust, body, digest = row
    if _sha256(row[1:-1]) != digest:
        raise LogCorrupt(f"event {seq} does not match its hash: restore a backup")
    try:
        value = decode(kind, body)
    except msgspec.MsgspecError as error:
        raise LogCorrupt(f"event {seq} ({kind}) cannot be read: {error}") from error
    return Event(id_, at, value, subject, project, session, agent, trust, seq)
