"""
EventLog: the append-only log in one SQLite file, the only truth mnemolog keeps.

What must stay true: an append is acknowledged only after COMMIT with `synchronous=FULL`; every text
is redacted before it reaches the disk; an id that is there already is the same event, never a
second one. Several processes may append at once: each write is one `BEGIN IMMEDIATE`, because
SQLite answers an upgrade from a read lock with BUSY whatever the timeout
(https://www.sqlite.org/lang_transaction.html).
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Self

import apsw
import msgspec

from store import log_file, redact
from store.body import Body
from store.errors import (
    IdConflict,
    InvalidInput,
    LogCorrupt,
    LogError,
    NotFound,
)
from store.events import (
    RECEIPTS,
    Event,
    decode,
    encode,
)
from store.job_events import Undone
from store.log_file import Row

_COLUMNS = "seq, id, at, kind, subject, project, session, agent, trust, body, sha256"
MOST_SEQ = 2**62  # more than SQLite will ever number
_BATCH = 2_000  # rows fetched at a time: bounds memory without a round trip per row


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
        with log_file.translated(path):
            if create:
                log_file.create_file(path)
            elif not path.exists():
                raise NotFound(f"no log at {path}: run `mnemolog init` first")
            self._connection = log_file.connect(path)
            try:
                log_file.prepare(self._connection, path, create=create)
                self._reader = log_file.connect(path)
            except BaseException:  # an interrupt too: what was opened is closed, then it goes on
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
        with self._lock, self._reading, log_file.translated(self.path):
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

    def standing(self, after: int, until: int) -> Iterator[Event]:
        """Yield the events that `read` does, but those of plans that were undone up to `until`."""
        gone = self.undone(until)
        events = self.read(after, until)
        return (event for event in events if event.id not in gone) if gone else events

    def undone(self, until: int, after: int = 0) -> frozenset[str]:
        """Return the ids of the events that count no more, for an `undone` with a seq up to `until`
        and above `after` says so.
        """
        found = (event.body for event in self.of_jobs(("undone",), after, until))
        return frozenset(id_ for body in found if isinstance(body, Undone) for id_ in body.events)

    def of_jobs(self, kinds: Sequence[str], after: int = 0, until: int = MOST_SEQ) -> list[Event]:
        """Return what jobs told, of some of their kinds, with `after` < seq <= `until`, in order.

        The kinds are planned, applied, undone, judged, adopted and called.
        """
        marks = ", ".join("?" * len(kinds))
        rows = self._fetch(
            f"SELECT {_COLUMNS} FROM events WHERE {log_file.OF_JOBS} AND kind IN ({marks}) "
            "AND seq > ? AND seq <= ? ORDER BY seq",
            (*kinds, after, until),
        )
        return [_event(row) for row in rows]

    def bodies(self, after: int, until: int) -> Iterator[tuple[str, str, Body]]:
        """Yield id, subject and body of the events that `standing` yields.

        For who read them before: their hashes are not looked at, so it costs a quarter of `read`.
        """
        gone = self.undone(until)
        while rows := self._fetch(
            "SELECT seq, kind, id, subject, body FROM events WHERE seq > ? AND seq <= ? "
            "ORDER BY seq LIMIT ?",
            (after, until, _BATCH),
        ):
            for _, kind, id_, subject, body in rows:
                if id_ not in gone:
                    yield id_, subject, decode(kind, body)
            after = rows[-1][0]

    def about(self, subject: str) -> list[Event]:
        """Return every event about one memory, oldest first; empty where the id is unknown."""
        rows = self._fetch(
            f"SELECT {_COLUMNS} FROM events WHERE subject = ? ORDER BY seq", (subject,)
        )
        return [_event(row) for row in rows]

    def of_session(self, session: str, after: int = 0) -> list[Event]:
        """Return the events of one session with a seq above `after`, in order."""
        rows = self._fetch(
            f"SELECT {_COLUMNS} FROM events WHERE session = ? AND seq > ? ORDER BY seq",
            (redact.redact(session), after),  # as it was kept
        )
        return [_event(row) for row in rows]

    def told(self, kinds: Sequence[str], since: int, until: int) -> list[Event]:
        """Return the events of some kinds with `since` <= at < `until`, in the order of the log."""
        marks = ", ".join("?" * len(kinds))
        rows = self._fetch(
            f"SELECT {_COLUMNS} FROM events WHERE at >= ? AND at < ? AND kind IN ({marks}) "
            "ORDER BY seq",
            (since, until, *kinds),
        )
        return [_event(row) for row in rows]

    def known(self, ids: Sequence[str]) -> set[str]:
        """Return those of `ids` that are in the log already."""
        found = self._fetch(
            "SELECT id FROM events WHERE id IN (SELECT value FROM json_each(?))",
            (msgspec.json.encode(list(ids)).decode(),),
        )
        return {row[0] for row in found}

    def matching(
        self, prefix: str, limit: int = 5, kinds: Sequence[str] = ("recorded",)
    ) -> list[str]:
        """Return up to `limit` ids that start with `prefix`, in order; of memories, or `kinds`."""
        marks = ", ".join("?" * len(kinds))
        found = self._fetch(
            f"SELECT id FROM events WHERE kind IN ({marks}) AND id >= ? AND id < ? "
            "ORDER BY id LIMIT ?",
            (*kinds, prefix, prefix + "\U0010ffff", limit),
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
        with self._reading, log_file.translated(self.path):
            return self._reader.execute(sql, values).fetchall()

    @contextmanager
    def _transaction(self) -> Iterator[apsw.Connection]:
        with self._lock, log_file.translated(self.path), log_file.immediate(self._connection):
            yield self._connection


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
