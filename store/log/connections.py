"""
Connections: the two connections of an open log, and retrying a log that could not be opened.

One writes, a thread at a time; the other reads, so that readers never wait for a write or for the
lock of one.
"""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import apsw

from store.home import files
from store.home.errors import (
    LogBusy,
    LogClosed,
    LogCorrupt,
    LogError,
    LogForeign,
    LogReadOnly,
    NotFound,
)
from store.log import log_file, log_head, salvage
from store.log.log_file import Row


class Connections:
    """The connections of one log. Threads may share it; close it."""

    writer: apsw.Connection
    _reader: apsw.Connection

    def __init__(
        self, path: Path, *, create: bool = False, waits: bool = False, until: int | None = None
    ) -> None:
        """Open the log at `path`, made first if `create`; raise as EventLog does.

        With `waits` it is no error that a log cannot be opened now: readers get the reason until
        `try_again` or a writer succeeds. With `until` the log cannot be written, and no event with
        a greater seq is read.
        """
        self.path, self.until = path, until
        self._writing, self._reading = threading.Lock(), threading.Lock()
        self._why_not: LogError | NotFound | None = None  # neither is open
        self._is_only_read = False
        try:
            self._open(create=create)
        except LogError as error:
            if not waits:
                raise
            self._why_not = error

    @property
    def is_open(self) -> bool:
        return self._why_not is None

    def fetch(self, sql: str, values: tuple[object, ...] = ()) -> list[Row]:
        """Return the rows of a query."""
        if self._why_not is not None:
            raise type(self._why_not)(*self._why_not.args)
        self._open_writable()
        with self._reading, log_file.translate_errors(self.path):
            return self._reader.execute(sql, values).fetchall()

    @contextmanager
    def lock_writer(self) -> Iterator[apsw.Connection]:
        """Hold the writing connection in one thread; raise LogBusy if others hold it for too long.

        Each of them may wait as long for a lock of another process: after many, the waits would add
        up.
        """
        if self.until is not None:
            raise LogReadOnly("the past cannot be changed: record it as of now")
        self.try_again()
        self._open_writable()
        if not self._writing.acquire(timeout=log_file.BUSY_TIMEOUT_MS / 1_000):
            raise LogBusy(f"{self.path} is being written by others: try again")
        try:
            with log_file.translate_errors(self.path):
                yield self.writer
        finally:
            self._writing.release()

    def show_until(self, seq: int) -> None:
        """Change the last visible event."""
        self.until = seq
        with self._reading, log_file.translate_errors(self.path):
            log_file.show_until(self._reader, seq)

    def try_again(self) -> None:
        """Open a log that could not be opened; raise the error if it still cannot."""
        if self._why_not is None:
            return
        with self._writing:
            if isinstance(self._why_not, LogClosed):
                raise LogClosed(*self._why_not.args)
            if self._why_not is not None:  # else another thread was first
                self._open_or_keep_why()

    def close(self) -> None:
        with self._writing, self._reading, log_file.translate_errors(self.path):
            if self._why_not is None:
                self._reader.close()
                self.writer.close()
            self._is_only_read = False
            self._why_not = log_file.close_error(self.path)

    def _open(self, *, create: bool = False) -> None:
        try:
            self._connect(create=create)
        except LogForeign as error:
            if log_head.path_of(self.path).exists():
                raise LogCorrupt(
                    f"{self.path} is damaged, nothing in it is mnemolog's any more: "
                    "restore a backup"
                ) from error
            raise

    def _connect(self, *, create: bool) -> None:
        path = self.path
        with log_file.translate_errors(path):
            salvage.finish(path)
            if create:
                log_file.create_file(path)
            elif not path.exists():
                if log_head.path_of(path).exists():  # there was a log
                    raise LogCorrupt(f"{path} is missing: restore a backup")
                raise NotFound(f"no log at {path}: run `mnemolog init` first")
            salvage.keep_orphaned(path)
            is_only_read = files.is_read_only(path)
            with ExitStack() as opened:  # on any error, opened connections are closed
                writer = opened.enter_context(closing(log_file.connect(path)))
                log_file.prepare(writer, path, create=create)
                reader = opened.enter_context(closing(log_file.connect(path)))

                def ask(sql: str, values: tuple[object, ...]) -> list[Row]:
                    with log_file.translate_errors(path):
                        return reader.execute(sql, values).fetchall()

                salvage.keep_dropped(path, ask)
                if self.until is not None:
                    log_file.show_until(reader, self.until)
                opened.pop_all()
        self.writer, self._reader, self._is_only_read = writer, reader, is_only_read

    def _open_or_keep_why(self) -> None:
        try:
            self._open()
        except (LogError, NotFound) as error:
            self._why_not = error
            raise
        self._why_not = None

    def _open_writable(self) -> None:
        """Reopen for writing a log that could only be read, once its disk can be written.

        A file that SQLite opened read-only it never writes, nor does it see the writes of others.
        That ends with the last connection of the process, so both are closed before one is opened.
        """
        if not self._is_only_read or files.is_read_only(self.path):
            return
        with self._writing, self._reading, log_file.translate_errors(self.path):
            if self._is_only_read:  # else another thread was first
                self._reader.close()
                self.writer.close()
                self._open_or_keep_why()
