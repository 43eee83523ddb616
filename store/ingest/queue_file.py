"""
The queue's file: how it is made, opened and written, and what its rows say.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

import apsw

from store.home.errors import LogBusy, LogForeign, LogVersion
from store.home.files import is_read_only
from store.ingest.job import Job
from store.log import log_file
from store.log.log_file import Row

APPLICATION_ID = 0x6D6E6D71  # "mnmq": the log's is another
SCHEMA_VERSION = 1

Value = str | bytes | int | None

COLUMNS = (
    "number, id, at, state, attempts, next_at, owner, lease_until, ended_at, items, turns, done, "
    "json_array_length(refused), error"
)


def job_of(row: Sequence[Any]) -> Job:
    """Return the job that a row of `COLUMNS` tells."""
    return Job(**dict(zip(Job.__struct_fields__, row, strict=True)))


class QueueFile:
    """The file at a path, opened when it is first needed. Threads may share it.

    All raise LogBusy where others of the process, or another one, hold it for too long.
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
        """Return rows; there are none where there is no file, or one that was never finished."""
        if not self.exists:
            return []
        with self._alone():
            connection = self._ours(make=False)
            return [] if connection is None else rows(connection, sql, *values)

    @contextmanager
    def changing(self) -> Iterator[apsw.Connection]:
        """Hold the write lock of the file, made where there is none; all is done or nothing."""
        with self._alone():
            connection = self._ours(make=True)
            assert connection is not None, "it was made"
            with log_file.immediate(connection):
                yield connection

    def settle(self) -> None:
        """Leave nothing in the write-ahead log, unless somebody else reads it just now."""
        ahead = self.path.with_name(f"{self.path.name}-wal")
        with self._alone():
            connection = self._ours(make=False) if ahead.exists() else None
            if connection is not None and ahead.stat().st_size:
                log_file.settle(connection)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Be the one thread at the file; raise LogBusy where others are for too long.

        Each of them may wait for a lock of another process as long: who comes after many would wait
        for the sum.
        """
        if not self._lock.acquire(timeout=log_file.BUSY_TIMEOUT_MS / 1_000):
            raise LogBusy(f"{self.path} is being written by others: try again")
        try:
            with log_file.translated(self.path):
                yield
        finally:
            self._lock.release()

    def _ours(self, *, make: bool) -> apsw.Connection | None:
        """Return our connection to the file that is there: its tenant may have been deleted since,
        and another made of the same name. None where it was never finished and is not to be made.
        """
        is_writable_again = self._is_only_read and not is_read_only(self.path)
        if self._connection is not None and (_inode(self.path) != self._inode or is_writable_again):
            self._connection.close()
            self._connection = None
        if self._connection is None:
            self._connection = _opened(self.path, make=make)
            self._inode = _inode(self.path)
            self._is_only_read = is_read_only(self.path)
        return self._connection


def rows(connection: apsw.Connection, sql: str, *values: Value) -> list[Row]:
    """Return what a statement gives, run to its end."""
    found: list[Row] = connection.execute(sql, values).fetchall()
    return found


def _inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except OSError:
        return None


def _opened(path: Path, *, make: bool) -> apsw.Connection | None:
    """Return a connection to the queue at a path, made where there is none; else None.

    Raise what SQLite says, LogForeign for another program's file, LogVersion for a later one's.
    """
    if make:
        log_file.create_file(path)
    connection = log_file.connect(path)
    try:
        if not make and not int(connection.pragma("user_version")):
            connection.close()  # the disk was full when it was to be made
            return None
        _prepare(connection, path)
    except BaseException:  # an interrupt too: what was opened is closed, then it goes on
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
    # what was recorded may be erased from the log later: nothing of it is to stay here
    connection.pragma("secure_delete", True)
