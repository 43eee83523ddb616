"""The queue's file: its connection, its rows, and their jobs."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, get_args

import apsw
import msgspec

from store.home.errors import LogBusy, LogForeign, LogVersion
from store.home.files import is_read_only
from store.home.instants import isoformat
from store.ingest.batch import Refused
from store.log import log_file
from store.log.events import Event
from store.log.log_file import Row

# A job: an accepted batch, its outcome, and the time of its next attempt.

State = Literal["queued", "running", "done", "dead"]
STATES: tuple[State, ...] = get_args(State)

MOST_ATTEMPTS = 5
LEASE_US = 30_000_000
FIRST_RETRY_US = 2_000_000
_GROWS = 4  # times, from one retry to the next: 2, 8, 32 and 128 seconds


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A batch in the queue; times are microseconds UTC.

    `done` counts the processed items, `refused` those of them that were refused. A dead job was
    tried `MOST_ATTEMPTS` times and waits for a person: `error` is the reason.
    """

    number: int
    id: str
    at: int
    state: State
    attempts: int
    next_at: int
    owner: str | None
    lease_until: int | None
    ended_at: int | None
    items: int
    turns: int
    done: int
    refused: int
    error: str | None

    @property
    def is_over(self) -> bool:
        return self.state in ("done", "dead")


class Outcome(msgspec.Struct, frozen=True):
    """The memory of each item, None if it was refused, and the reasons of refusals."""

    ids: tuple[str | None, ...]
    refused: tuple[Refused, ...]


class Lease(msgspec.Struct, frozen=True):
    """A job that is ours until its lease ends, and its remaining events, by place."""

    job: Job
    owner: str
    left: tuple[tuple[int, Event], ...]


def retry_us(attempts: int, chance: float) -> int:
    """Return the wait after so many attempts, in microseconds; `chance` is in [0, 1).

    It grows fourfold, and up to half of it is left to chance, so that jobs that failed together do
    not come back together.
    """
    longest: int = FIRST_RETRY_US * _GROWS ** (attempts - 1)
    return round(longest * (1 - chance / 2))


APPLICATION_ID = 0x6D6E6D71  # "mnmq": the log has another
SCHEMA_VERSION = 1

Value = str | bytes | int | None

COLUMNS = (
    "number, id, at, state, attempts, next_at, owner, lease_until, ended_at, items, turns, done, "
    "json_array_length(refused), error"
)


def job_from_row(row: Sequence[Any]) -> Job:
    """Return the job in a row of `COLUMNS`."""
    return Job(**dict(zip(Job.__struct_fields__, row, strict=True)))


def job_fields(job: Job) -> dict[str, Any]:
    """Return a job's fields as they are sent."""
    return {
        "id": job.id,
        "at": isoformat(job.at),
        "state": job.state,
        "attempts": job.attempts,
        "next_at": isoformat(job.next_at) if job.state == "queued" else None,
        "ended_at": isoformat(job.ended_at) if job.ended_at is not None else None,
        "items": job.items,
        "turns": job.turns,
        "done": job.done,
        "refused": job.refused,
        "error": job.error,
    }


class QueueFile:
    """The file at a path, opened when it is first needed. Threads may share it.

    All methods raise LogBusy if other threads or processes hold it for too long.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._connection: apsw.Connection | None = None
        self._inode: int | None = None
        self._is_only_read = False  # it was opened on a read-only disk

    @property
    def exists(self) -> bool:
        return self.path.exists()

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def read(self, sql: str, *values: Value) -> list[Row]:
        """Return rows; none if there is no file, or one that was never finished."""
        if not self.exists:
            return []
        with self._alone():
            connection = self._ours(make=False)
            return [] if connection is None else read_rows(connection, sql, *values)

    @contextmanager
    def transaction(self) -> Iterator[apsw.Connection]:
        """Hold the write lock of the file, made if missing; all is done or nothing."""
        with self._alone():
            connection = self._ours(make=True)
            assert connection is not None, "it was made"
            with log_file.immediate(connection):
                yield connection

    def settle(self) -> None:
        """Empty the write-ahead log, unless another process is reading it."""
        ahead = self.path.with_name(f"{self.path.name}-wal")
        with self._alone():
            connection = self._ours(make=False) if ahead.exists() else None
            if connection is not None and ahead.stat().st_size:
                log_file.settle(connection)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the file in one thread; raise LogBusy if others hold it for too long.

        Each of them may wait as long for a lock of another process: after many, the waits would add
        up.
        """
        if not self._lock.acquire(timeout=log_file.BUSY_TIMEOUT_MS / 1_000):
            raise LogBusy(f"{self.path} is being written by others: try again")
        try:
            with log_file.translate_errors(self.path):
                yield
        finally:
            self._lock.release()

    def _ours(self, *, make: bool) -> apsw.Connection | None:
        """Return our connection to the current file: its tenant may have been deleted since, and
        another made of the same name. None if it was never finished and `make` is False.
        """
        is_writable_again = self._is_only_read and not is_read_only(self.path)
        if self._connection is not None and (_inode(self.path) != self._inode or is_writable_again):
            self._connection.close()
            self._connection = None
        if self._connection is None:
            self._connection = _open_queue(self.path, make=make)
            self._inode = _inode(self.path)
            self._is_only_read = is_read_only(self.path)
        return self._connection


def read_rows(connection: apsw.Connection, sql: str, *values: Value) -> list[Row]:
    """Return all rows of a statement."""
    rows: list[Row] = connection.execute(sql, values).fetchall()
    return rows


def _inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except OSError:
        return None


def _open_queue(path: Path, *, make: bool) -> apsw.Connection | None:
    """Return a connection to the queue at a path, made if `make`; None if it was never finished.

    Raise SQLite's errors, LogForeign for another program's file, LogVersion for a later one's.
    """
    if make:
        log_file.create_file(path)
    connection = log_file.connect(path)
    try:
        if not make and not int(connection.pragma("user_version")):
            connection.close()  # the disk was full when it was made
            return None
        _prepare(connection, path)
    except BaseException:  # interrupts too: close the connection and pass them on
        connection.close()
        raise
    return connection


def _prepare(connection: apsw.Connection, path: Path) -> None:
    if not int(connection.pragma("user_version")):
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # before there is a page
        log_file.write_ahead(connection)
        with log_file.immediate(connection):
            if not int(connection.pragma("user_version")):  # another process may have been first
                connection.execute(files("store.ingest").joinpath("schema.sql").read_text())
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    if connection.pragma("application_id") != APPLICATION_ID:
        raise LogForeign(f"{path} is another program's database: move it away")
    if int(connection.pragma("user_version")) > SCHEMA_VERSION:
        raise LogVersion(f"{path} is of a newer mnemolog: upgrade mnemolog")
    connection.execute("PRAGMA synchronous = FULL")
    # recorded items may be erased from the log later: no bytes of them may stay here
    connection.pragma("secure_delete", True)
