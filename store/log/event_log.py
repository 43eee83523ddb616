"""
EventLog: the append-only log in one SQLite file, the only truth mnemolog keeps.

Invariants: an append is acknowledged only after COMMIT with `synchronous=FULL`; every text is
redacted before it reaches the disk, and again with today's patterns when it is shown; an id that is
already in the log is the same event, never a second one. Several processes may append at once: each
write is one `BEGIN IMMEDIATE`, because SQLite answers an upgrade from a read lock with BUSY
regardless of the timeout (https://www.sqlite.org/lang_transaction.html).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from operator import itemgetter
from pathlib import Path
from types import TracebackType
from typing import Self

import apsw
import msgspec

from store.home.errors import ConfigError, LogCorrupt
from store.home.origin import home_of, read_or_make_origin
from store.log import event_clock, log_file, log_head, segments, vocabulary
from store.log import rows as log_rows
from store.log.checks import Check, refuse_erased
from store.log.connections import Connections
from store.log.event_kinds import Body, Undone
from store.log.events import Event, decode
from store.log.log_file import MOST_SEQ, Row
from store.log.log_head import Gap, HeadFile
from store.log.rows import BODY, COLUMNS, PUT_AWAY, Appended, decode_row, encode_row, redact_event
from store.log.segments import Segment
from store.redaction import redact

__all__ = ["MOST_SEQ", "Appended", "EventLog"]

_BATCH = 2_000  # rows fetched at a time: bounds memory without a round trip per row


class EventLog:
    """An open log. Threads may share it; close it, or use it in a `with`.

    Reads have a connection of their own: they never wait for a write or for the lock of one.
    """

    def __init__(
        self,
        path: Path,
        *,
        create: bool = False,
        waits: bool = False,
        until: int | None = None,
        wall: Callable[[], int] = event_clock.wall_clock,
    ) -> None:
        """Open the log at `path`, made first if `create`.

        Raise NotFound if there was never a log, LogForeign, LogVersion or LogCorrupt if the file is
        not a log this version can read, or is gone, LogBusy, LogFull or LogReadOnly for disk
        errors. With `waits` these LogErrors are raised only when the log is used, until a write or
        `try_again` can open it.

        With `until` it is the log as of that event, except for later erasures: it cannot be
        written. `wall` returns the time with which new events are stamped.
        """
        self.path = path
        self._wall = wall
        self._origin: str | None = None
        self._writes = 0
        self._collected: list[Event] | None = None
        self._head_file = HeadFile(path)
        self._bodies = segments.Bodies(segments.folder_of(path), self.segments)
        self._connections = Connections(path, create=create, waits=waits, until=until)

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
        self._connections.close()
        self._head_file.close()

    @property
    def is_open(self) -> bool:
        """True if the log was opened and not closed since."""
        return self._connections.is_open

    @property
    def until(self) -> int | None:
        """The last visible event of a log that shows its past; None for any other log."""
        return self._connections.until

    def show_until(self, seq: int) -> None:
        """Change the last visible event of a log that shows its past."""
        self._connections.show_until(seq)
        self._writes += 1  # for callers that compare `version`

    def later_erasures(self) -> list[Event]:
        """Return the erasures after the last event of a log that shows its past.

        Each has that event's seq: memories erased since are not known in the past either.
        """
        if (until := self.until) is None:
            return []
        rows = self.sql(
            f"SELECT {COLUMNS} FROM main.events WHERE kind = 'erased' AND seq > ? ORDER BY seq",
            (until,),
        )
        present = self.present_ids([row[4] for row in rows])
        return [decode_row(row).with_seq(until) for row in rows if row[4] in present]

    def try_again(self) -> None:
        """Open a log that could not be opened before; raise the error if it still cannot."""
        self._connections.try_again()

    def append(self, events: Sequence[Event], checks: Sequence[Check] = ()) -> list[Appended]:
        """Write all events or none, in order, redacted; return them with their `seq`.

        An event whose id is already in the log with the same kind, subject, project and body is not
        written again. Each of the `checks` runs first, with the log locked; its errors are passed
        on. Raise InvalidInput for an invalid value, IdConflict if an id was used for something
        else, NotFound if an event is about an erased memory, and LogBusy, LogFull or LogReadOnly if
        SQLite could not write; a retry with the same ids is always safe.
        """
        rows = [encode_row(event) for event in events]

        def run_checks(connection: apsw.Connection) -> None:
            for check in checks:
                check(connection)

        appended = self._write(log_file.immediate, run_checks, rows, refuse_erased)
        if self._collected is not None:
            self._collected += [line.event for line in appended if line.is_new]
        return appended

    def take(
        self, events: Sequence[Event], replaced: Sequence[tuple[Row, Event]] = ()
    ) -> list[Appended]:
        """Write events of other homes, which have a clock, and give rows, as returned by
        `select_rows`, the form that another home gave them: `store.log.merging` decides which.
        """
        rows = [encode_row(event) for event in events]
        new = [(old, encode_row(event)[1]) for old, event in replaced]

        def prepare(connection: apsw.Connection) -> None:
            log_file.note_vocabulary(connection, self.path, {vocabulary.MERGED: 1})
            log_rows.replace_rows(connection, new)

        transaction = log_file.rewrite_transaction if new else log_file.immediate
        return self._write(transaction, prepare, rows)

    def is_merged(self) -> bool:
        """Return True if the log has events of other homes; costs microseconds."""
        return vocabulary.MERGED in self.vocabulary()

    def vocabulary(self) -> dict[str, int]:
        """Return the versions of the bodies that the log notes, by kind; costs microseconds."""
        return log_file.read_vocabulary(self.sql, self.path)

    @contextmanager
    def collect(self) -> Iterator[list[Event]]:
        """Give a list that collects every event appended here meanwhile."""
        self._collected = []
        try:
            yield self._collected
        finally:
            self._collected = None

    def read(
        self, after: int = 0, until: int | None = None, *, cold: bool = True
    ) -> Iterator[Event]:
        """Yield the events with `after` < seq <= `until` (None: to the head), in order.

        Without `cold`, the archived receipts are left out and no segment is read. Raise LogVersion
        if a later mnemolog wrote a kind that this one cannot read, and LogCorrupt at the first
        event whose hash does not match, or whose segment is missing.
        """
        self._require_known()
        last = self.head() if until is None else until
        some = "" if cold else f"AND body != '{PUT_AWAY}' "
        while after < last:
            rows = self.sql(
                f"SELECT {COLUMNS} FROM events WHERE seq > ? AND seq <= ? {some}"
                "ORDER BY seq LIMIT ?",
                (after, last, _BATCH),
            )
            if not rows:
                return
            yield from self._events(rows)
            after = rows[-1][0]

    def effective_events(self, after: int, until: int, *, cold: bool = True) -> Iterator[Event]:
        """Yield the events of `read`, except those of plans that were undone up to `until`."""
        undone = self.undone_ids(until)
        events = self.read(after, until, cold=cold)
        return (event for event in events if event.id not in undone) if undone else events

    def undone_ids(self, until: int, after: int = 0) -> frozenset[str]:
        """Return the ids of the events that no longer count at seq `until` because of an `undone`;
        with `after`, of those that an event above it undid or, applied again, brought back.
        """
        where = f"FROM events WHERE {log_file.OF_JOBS} AND seq <= ? AND kind ="
        rows = self.sql(f"SELECT {COLUMNS} {where} 'undone' ORDER BY seq", (until,))
        if not rows:
            return frozenset()
        undone = [
            (event.clock or event.at, event.seq, event.subject, event.body.events)
            for event in self._events(rows)
            if isinstance(event.body, Undone)
        ]
        applied = self.sql(f"SELECT coalesce(clock, at), seq, subject {where} 'applied'", (until,))
        both = [*undone, *((*row, ()) for row in applied)]
        ids_by_plan: dict[str, tuple[str, ...]] = {}
        since = set[str]()
        # in the order of writing, if another home wrote any
        for _, seq, plan, ids in sorted(both, key=None if self.is_merged() else itemgetter(1)):
            back = ids_by_plan.pop(plan, ())
            ids_by_plan[plan] = ids
            since.update((ids or back) if seq > after else ())
        if after:
            return frozenset(since)
        return frozenset(id_ for ids in ids_by_plan.values() for id_ in ids)

    def job_events(
        self,
        kinds: Sequence[str],
        after: int = 0,
        until: int = MOST_SEQ,
        subjects: Sequence[str] | None = None,
    ) -> list[Event]:
        """Return the events of jobs of some kinds, with `after` < seq <= `until`, in order; about
        some `subjects`, or about any.

        The kinds are planned, applied, undone, judged, adopted and called.
        """
        marks, of_subjects = ", ".join("?" * len(kinds)), ""
        wanted: tuple[str, ...] = ()
        if subjects is not None:
            of_subjects = "AND subject IN (SELECT value FROM json_each(?)) "
            wanted = (msgspec.json.encode(subjects).decode(),)
        rows = self.sql(
            f"SELECT {COLUMNS} FROM events WHERE {log_file.OF_JOBS} AND kind IN ({marks}) "
            f"AND seq > ? AND seq <= ? {of_subjects}ORDER BY seq",
            (*kinds, after, until, *wanted),
        )
        return self._redact_rows(rows)

    def bodies(
        self, after: int, until: int, *, cold: bool = True
    ) -> Iterator[tuple[str, str, Body]]:
        """Yield id, subject and body of each of `effective_events`; `cold` as in `read`.

        For callers that have read them before: hashes are not checked, so it costs a quarter of
        `read`.
        """
        undone = self.undone_ids(until)
        some = "" if cold else f"AND body != '{PUT_AWAY}' "
        while rows := self.sql(
            "SELECT seq, kind, id, subject, body FROM events WHERE seq > ? AND seq <= ? "
            f"{some}ORDER BY seq LIMIT ?",
            (after, until, _BATCH),
        ):
            away = self._bodies.of([row[0] for row in rows if row[-1] == PUT_AWAY])
            for seq, kind, id_, subject, body in rows:
                if id_ not in undone:
                    yield id_, subject, decode(kind, body or away[seq])
            after = rows[-1][0]

    def events_for(self, subject: str) -> list[Event]:
        """Return every event about one memory, oldest first; empty if the id is unknown."""
        rows = self.sql(f"SELECT {COLUMNS} FROM events WHERE subject = ? ORDER BY seq", (subject,))
        return self._redact_rows(rows)

    def session_events(self, session: str, after: int = 0) -> list[Event]:
        """Return the events of one session with a seq above `after`, in order."""
        rows = self.sql(
            f"SELECT {COLUMNS} FROM events WHERE session = ? AND seq > ? ORDER BY seq",
            (redact.redact(session), after),  # as it is stored
        )
        return self._redact_rows(rows)

    def events_between(self, kinds: Sequence[str], since: int, until: int) -> list[Event]:
        """Return the events of some kinds with `since` <= at < `until`, in the order of the log."""
        marks = ", ".join("?" * len(kinds))
        rows = self.sql(
            f"SELECT {COLUMNS} FROM events WHERE at >= ? AND at < ? AND kind IN ({marks}) "
            "ORDER BY seq",
            (since, until, *kinds),
        )
        return self._redact_rows(rows)

    def present_ids(self, ids: Sequence[str]) -> set[str]:
        """Return those of `ids` that are in the log."""
        sql = "SELECT id FROM events WHERE id IN (SELECT value FROM json_each(?))"
        return {row[0] for row in self.sql(sql, (msgspec.json.encode(list(ids)).decode(),))}

    def ids_with_prefix(
        self, prefix: str, limit: int = 5, kinds: Sequence[str] = ("recorded", "prompted")
    ) -> list[str]:
        """Return up to `limit` ids of events of some kinds that start with `prefix`, in order.

        By default the ids of memories, including the prompts that begin episodes.
        """
        marks = ", ".join("?" * len(kinds))
        rows = self.sql(
            # the plus keeps SQLite from going through all memories by the index of kinds
            f"SELECT id FROM events WHERE +kind IN ({marks}) AND id >= ? AND id < ? "
            "ORDER BY id LIMIT ?",
            (*kinds, prefix, prefix + "\U0010ffff", limit),
        )
        return [row[0] for row in rows]

    def head(self) -> int:
        """Return the newest event's seq; 0 for an empty log."""
        return int(self.sql("SELECT coalesce(max(seq), 0) FROM events")[0][0])

    def version(self) -> tuple[int, int]:
        """Return a value that changes with every write, by any process; costs microseconds.

        https://www.sqlite.org/pragma.html#pragma_data_version sees other connections only.
        """
        return int(self.sql("PRAGMA data_version")[0][0]), self._writes

    # for the modules of this folder: rows, segments and SQL

    def sql(self, query: str, values: tuple[object, ...] = ()) -> list[Row]:
        """Return the rows of a query, read on the reading connection."""
        return self._connections.fetch(query, values)

    @contextmanager
    def writer(self) -> Iterator[apsw.Connection]:
        """Give the writing connection to one thread; the transaction is the caller's.

        Raise LogBusy if others hold it too long.
        """
        with self._connections.lock_writer() as connection:
            yield connection
        self._writes += 1

    def segments(self) -> list[Segment]:
        """Return the files of archived bodies, in the order they were written."""
        rows = self.sql(
            "SELECT name, first, last, events, bytes, sha256 FROM segments ORDER BY rowid"
        )
        return [Segment(*row) for row in rows]

    def select_rows(
        self, where: str, values: tuple[object, ...], *, limit: int = MOST_SEQ
    ) -> list[Row]:
        """Return rows as stored, in order, for use with `rewrite`."""
        return self.sql(
            f"SELECT {COLUMNS} FROM events WHERE {where} ORDER BY seq LIMIT ?", (*values, limit)
        )

    def whole(self, rows: Sequence[Row]) -> list[Row]:
        """Return rows with their archived bodies filled in; raise LogCorrupt if one is missing."""
        seqs = [row[0] for row in rows if row[BODY] == PUT_AWAY]
        if not seqs:
            return list(rows)
        away = self._bodies.of(seqs)
        return [(*row[:BODY], row[BODY] or away[row[0]], *row[BODY + 1 :]) for row in rows]

    def rewrite(
        self,
        bodies: Sequence[tuple[Row, str]] = (),
        events: Sequence[Event] = (),
        *,
        adding: Sequence[Segment] = (),
        dropping: Sequence[Segment] = (),
    ) -> list[Event]:
        """Give rows of `select_rows` other bodies: the only operation that changes the log.

        PUT_AWAY keeps a row's hash, which its segment must match; any other body is hashed anew.
        `events` are appended with it, and the table of segments is changed; all of it or nothing.
        Raise LogBusy if one of the rows was rewritten meanwhile.
        """
        new = [encode_row(event) for event in events]

        def change_rows(connection: apsw.Connection) -> None:
            log_rows.rewrite_rows(connection, bodies, adding, dropping)

        appended = self._write(log_file.rewrite_transaction, change_rows, new, refuse_erased)
        return [line.event for line in appended]

    def settle(self, *, shrink: bool = False) -> bool:
        """Empty the write-ahead log; with `shrink`, release unused space in the file.

        Return True if it succeeded: it fails while others read or write. Nothing is lost.
        """
        with self._connections.lock_writer() as connection:
            return log_file.settle(connection, shrink=shrink)

    def _events(self, rows: Sequence[Row]) -> list[Event]:
        try:
            return [decode_row(row) for row in self.whole(rows)]
        except LogCorrupt:
            self._require_known()  # other programs' events since may be newer, and sound
            raise

    def _require_known(self) -> None:
        """Raise LogVersion if another program wrote events that this version cannot read."""
        log_file.read_vocabulary(self.sql, self.path)

    def _redact_rows(self, rows: Sequence[Row]) -> list[Event]:
        """Return the events, redacted for display; callers of `read` redact the parts they use."""
        return [redact_event(event) for event in self._events(rows)]

    def _write(
        self,
        transaction: Callable[[apsw.Connection], AbstractContextManager[None]],
        prepare: Callable[[apsw.Connection], None],
        rows: Sequence[tuple[Event, Row]],
        check: Callable[[apsw.Connection, Sequence[Event]], None] = lambda connection, new: None,
    ) -> list[Appended]:
        """Run `prepare`, insert rows and `check` the new ones in one transaction; then move the
        head.
        """

        def insert(connection: apsw.Connection, gap: Gap | None) -> list[Appended]:
            with transaction(connection):
                prepare(connection)
                if gap is not None:
                    log_head.state_gap(connection, gap, rows[0][0].at)
                stamped = log_rows.stamp_rows(connection, rows, self._origin, self._wall())
                appended = [log_rows.insert_row(connection, *row) for row in stamped]
                new = [line.event for line in appended if line.is_new]
                check(connection, new)
                log_file.note_vocabulary(connection, self.path, vocabulary.needed(new))
                self._head_file.check(connection, new)
            self._head_file.move(new)
            return appended

        with self.writer() as connection:
            if self._origin is None and (home := home_of(self.path)) is not None:
                with suppress(ConfigError, OSError):  # without a home's id events are still written
                    self._origin = read_or_make_origin(home, self._wall())
            try:
                return insert(connection, None)
            except log_head.Gone as error:
                return insert(connection, error.gap)
