"""
EventLog: the append-only log in one SQLite file, the only truth mnemolog keeps.

What must stay true: an append is acknowledged only after COMMIT with `synchronous=FULL`; every text
is redacted before it reaches the disk, and what is shown once more, by today's patterns; an id that
is there already is the same event, never a second one. Several processes may append at once: each
write is one `BEGIN IMMEDIATE`, because SQLite answers an upgrade from a read lock with BUSY
whatever the timeout (https://www.sqlite.org/lang_transaction.html).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Self

import apsw

from store.log import integrity, log_file, log_head, log_queries, segments
from store.log import rows as log_write
from store.log.checks import Check, unerased
from store.log.connections import Connections
from store.log.event_kinds import Body, Recorded, Undone
from store.log.events import Event, decode
from store.log.log_file import MOST_SEQ, Row
from store.log.log_head import Gap, HeadFile, OtherLog
from store.log.log_queries import EventLine, KeyedFact
from store.log.rows import BODY, COLUMNS, PUT_AWAY, Appended, decode_row, encode_row, redact_event
from store.log.segments import Segment
from store.redaction import redact

__all__ = ["MOST_SEQ", "Appended", "EventLog"]

_BATCH = 2_000  # rows fetched at a time: bounds memory without a round trip per row


class EventLog:
    """An open log. Threads may share it; close it, or use it in a `with`.

    Reads have a connection of their own: none waits for a write, nor for the lock of one.
    """

    def __init__(self, path: Path, *, create: bool = False, waits: bool = False) -> None:
        """Open the log at `path`, made first if `create`.

        Raise NotFound where there was never one, LogForeign, LogVersion or LogCorrupt where the
        file is not a log this version can read, or is gone, LogBusy, LogFull or LogReadOnly as the
        disk says. With `waits` none of these LogErrors is raised but by who uses the log, until a
        write or `try_again` finds that it can be opened.
        """
        self.path = path
        self._appends = 0
        self._head_file = HeadFile(path)
        self._bodies = segments.Bodies(segments.folder_of(path), self.segments)
        self._connections = Connections(path, create=create, waits=waits)

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
        """Whether it could be opened, and was not closed."""
        return self._connections.is_open

    def try_again(self) -> None:
        """Open a log that could not be opened before; raise what stands in the way still."""
        self._connections.try_again()

    def append(self, events: Sequence[Event], checks: Sequence[Check] = ()) -> list[Appended]:
        """Write all events or none, in order, redacted; return them with their `seq`.

        An id that is there already and says the same (kind, subject, project, body) is not written
        again. Each of the `checks` is asked first, with the log held: what one raises is raised.
        Raise InvalidInput for a value no event may hold, IdConflict where an id was used for
        something else, NotFound where one tells of a memory that was erased,
        and LogBusy, LogFull or LogReadOnly where SQLite could not write; a retry
        with the same ids is always safe.
        """
        rows = [encode_row(event) for event in events]

        def checked(connection: apsw.Connection) -> None:
            for check in checks:
                check(connection)

        return self._written(log_file.immediate, checked, rows)

    def read(
        self, after: int = 0, until: int | None = None, *, cold: bool = True
    ) -> Iterator[Event]:
        """Yield the events with `after` < seq <= `until` (None: to the head), in order.

        Without `cold`, the receipts that were put away are left out and no segment is read.
        Raise LogCorrupt at the first event whose hash does not match what it says, or whose segment
        is missing.
        """
        last = self.head() if until is None else until
        some = "" if cold else f"AND body != '{PUT_AWAY}' "
        while after < last:
            rows = self._fetch(
                f"SELECT {COLUMNS} FROM events WHERE seq > ? AND seq <= ? {some}"
                "ORDER BY seq LIMIT ?",
                (after, last, _BATCH),
            )
            if not rows:
                return
            yield from self._events(rows)
            after = rows[-1][0]

    def effective_events(self, after: int, until: int, *, cold: bool = True) -> Iterator[Event]:
        """Yield the events that `read` does, but those of plans that were undone up to `until`."""
        gone = self.undone_ids(until)
        events = self.read(after, until, cold=cold)
        return (event for event in events if event.id not in gone) if gone else events

    def undone_ids(self, until: int, after: int = 0) -> frozenset[str]:
        """Return the ids of the events that count no more, for an `undone` with a seq up to `until`
        and above `after` says so.
        """
        found = (event.body for event in self.job_events(("undone",), after, until))
        return frozenset(id_ for body in found if isinstance(body, Undone) for id_ in body.events)

    def job_events(
        self, kinds: Sequence[str], after: int = 0, until: int = MOST_SEQ
    ) -> list[Event]:
        """Return what jobs told, of some of their kinds, with `after` < seq <= `until`, in order.

        The kinds are planned, applied, undone, judged, adopted and called.
        """
        marks = ", ".join("?" * len(kinds))
        rows = self._fetch(
            f"SELECT {COLUMNS} FROM events WHERE {log_file.OF_JOBS} AND kind IN ({marks}) "
            "AND seq > ? AND seq <= ? ORDER BY seq",
            (*kinds, after, until),
        )
        return self._redacted(rows)

    def bodies(
        self, after: int, until: int, *, cold: bool = True
    ) -> Iterator[tuple[str, str, Body]]:
        """Yield id, subject and body of the events that `standing` yields; `cold` as in `read`.

        For who read them before: their hashes are not looked at, so it costs a quarter of `read`.
        """
        gone = self.undone_ids(until)
        some = "" if cold else f"AND body != '{PUT_AWAY}' "
        while rows := self._fetch(
            "SELECT seq, kind, id, subject, body FROM events WHERE seq > ? AND seq <= ? "
            f"{some}ORDER BY seq LIMIT ?",
            (after, until, _BATCH),
        ):
            away = self._bodies.of([row[0] for row in rows if row[-1] == PUT_AWAY])
            for seq, kind, id_, subject, body in rows:
                if id_ not in gone:
                    yield id_, subject, decode(kind, body or away[seq])
            after = rows[-1][0]

    def events_for(self, subject: str) -> list[Event]:
        """Return every event about one memory, oldest first; empty where the id is unknown."""
        rows = self._fetch(
            f"SELECT {COLUMNS} FROM events WHERE subject = ? ORDER BY seq", (subject,)
        )
        return self._redacted(rows)

    def newest_change(self, subject: str) -> int:
        """Return the seq of the newest event that changed a memory; 0: none did."""
        return log_queries.newest_change(self._fetch, subject)

    def session_events(self, session: str, after: int = 0) -> list[Event]:
        """Return the events of one session with a seq above `after`, in order."""
        rows = self._fetch(
            f"SELECT {COLUMNS} FROM events WHERE session = ? AND seq > ? ORDER BY seq",
            (redact.redact(session), after),  # as it was kept
        )
        return self._redacted(rows)

    def events_between(self, kinds: Sequence[str], since: int, until: int) -> list[Event]:
        """Return the events of some kinds with `since` <= at < `until`, in the order of the log."""
        marks = ", ".join("?" * len(kinds))
        rows = self._fetch(
            f"SELECT {COLUMNS} FROM events WHERE at >= ? AND at < ? AND kind IN ({marks}) "
            "ORDER BY seq",
            (since, until, *kinds),
        )
        return self._redacted(rows)

    def window(
        self, kind: str, since: int, until: int, holding: str = ""
    ) -> list[tuple[int, str | None, str, Body]]:
        """Return moment, session, subject and body of the events of a kind with `since` <= at <
        `until`, the newest first; those that were put away are left out.

        With `holding`, only bodies whose JSON holds that text. Read off the index of kinds and
        moments; hashes are not looked at.
        """
        return log_queries.window(self._fetch, kind, since, until, holding)

    def nth_newest(self, kind: str, until: int, number: int) -> int | None:
        """Return when the event of a kind happened that `number` others before `until` are newer
        than; None where there are fewer. Read off the same index.
        """
        return log_queries.nth_newest(self._fetch, kind, until, number)

    def known_ids(self, ids: Sequence[str]) -> set[str]:
        """Return those of `ids` that are in the log already."""
        return log_queries.known_ids(self._fetch, ids)

    def ids_with_prefix(
        self, prefix: str, limit: int = 5, kinds: Sequence[str] = ("recorded", "prompted")
    ) -> list[str]:
        """Return up to `limit` ids that start with `prefix`, in order; of memories, which a
        prompt begins too, or `kinds`.
        """
        return log_queries.ids_with_prefix(self._fetch, prefix, limit, kinds)

    def counts(self, until: int) -> dict[tuple[str, int], int]:
        """Return how many events up to a seq there are of each kind on each day since 1970 UTC."""
        return log_queries.counts(self._fetch, until)

    def tally(
        self, kinds: Sequence[str], since: int, step: int, steps: int
    ) -> dict[str, list[int]]:
        """Return how many events there are of each kind in each of `steps` equal steps of time from
        `since` on, both in microseconds; read off an index.
        """
        return log_queries.tally(self._fetch, kinds, since, step, steps)

    def newest(self, kind: str, most: int) -> list[tuple[int, Body]]:
        """Return when each of the newest events of a kind happened, microseconds UTC, and its body,
        the newest first; those of the `most` that were put away are left out.

        Their hashes are not looked at.
        """
        return log_queries.newest(self._fetch, kind, most)

    def bytes_by_kind(self) -> dict[str, int]:
        """Return about how many bytes the events of each kind take; bodies are not read."""
        return log_queries.bytes_by_kind(self._fetch)

    def subjects(self, kinds: Sequence[str]) -> dict[str, frozenset[str]]:
        """Return what the events of each kind are about."""
        return log_queries.subjects(self._fetch, kinds)

    def head(self) -> int:
        """Return the newest event's seq; 0 for an empty log."""
        return log_queries.head(self._fetch)

    def last_change(self) -> int:
        """Return the seq of the newest event that is no receipt; 0 where there is none."""
        return log_queries.last_change(self._fetch)

    def version(self) -> tuple[int, int]:
        """Return what changes with every append, by whomever; costs microseconds.

        https://www.sqlite.org/pragma.html#pragma_data_version sees other connections only.
        """
        return int(self._fetch("PRAGMA data_version")[0][0]), self._appends

    def integrity(self) -> list[str]:
        """Return what is wrong with the file, in words; empty when every check passes.

        SQLite's own check of table and indexes, every event's hash, the numbering (but for the
        gaps that are stated: `stated`) and the head beside the log are looked at.
        """
        return integrity.problems(self._fetch, self.read, self.segments, self.path)

    def missing_events(self) -> Gap | OtherLog | None:
        """Return what the head beside the log tells to be gone; None where all is there.

        The next append states it. It costs microseconds.
        """
        return log_head.compare(log_head.read(self.path), self._fetch)

    def damage(self) -> tuple[str, bool]:
        """Return the first thing that is wrong with the file itself, and whether only its indexes
        are; "" where nothing is. Neither segments nor head are judged.
        """
        return integrity.damage(self._fetch, self.whole)

    def event_count(self) -> int:
        """Return how many numbers up to the head stand for an event: all but those it says it lost.

        Raise LogCorrupt where what it says of that cannot be read.
        """
        return self.head() - sum(last - first + 1 for first, last in self.stated_gaps())

    def count(self) -> int:
        """Return how many events there are."""
        return int(self._fetch("SELECT count(*) FROM events")[0][0])

    def reindex(self) -> None:
        """Make the indexes anew from the table."""
        with self._connections.writing() as connection:
            connection.execute("REINDEX")

    def state(self, gap: Gap, at: int) -> None:
        """Say in the log that events are gone; the numbers after them come next."""
        with self._connections.writing() as connection, log_file.immediate(connection):
            self._head_file.state(connection, gap, at)
        self._appends += 1

    def make_head(self) -> None:
        """Write the head beside the log anew, from the log."""
        log_head.make(self.path, self._fetch)

    def stated_gaps(self, after: int = 0, until: int = MOST_SEQ) -> list[tuple[int, int]]:
        """Return the numbers whose events are gone, first and last of each gap, as the log itself
        says at a seq above `after` and up to `until`.
        """
        return log_head.stated(self._fetch, after, until)

    def undamaged_events(self, after: int) -> tuple[list[Event], list[str]]:
        """Return what `read` without the cold yields, but for what is damaged, and what that is."""
        return integrity.events(self._fetch, after)

    def at(self, seq: int) -> int | None:
        """Return when the event of a seq happened, microseconds UTC; None where there is none."""
        return log_queries.at(self._fetch, seq)

    def segments(self) -> list[Segment]:
        """Return the files that hold what was put away, in the order of their writing."""
        found = self._fetch(
            "SELECT name, first, last, events, bytes, sha256 FROM segments ORDER BY rowid"
        )
        return [Segment(*row) for row in found]

    def erased_ids(self, until: int, after: int = 0) -> frozenset[str]:
        """Return the ids of the memories that were erased with `after` < seq <= `until`."""
        return log_queries.erased_ids(self._fetch, until, after)

    def select_rows(
        self, where: str, values: tuple[object, ...], *, limit: int = MOST_SEQ
    ) -> list[Row]:
        """Return rows as they lie, in order, for who is to rewrite them: `rewrite`."""
        return self._fetch(
            f"SELECT {COLUMNS} FROM events WHERE {where} ORDER BY seq LIMIT ?", (*values, limit)
        )

    def select_newest_rows(self, where: str, values: tuple[object, ...], limit: int) -> list[Row]:
        """Return rows as they lie, the newest first by when they happened."""
        return self._fetch(
            f"SELECT {COLUMNS} FROM events WHERE {where} ORDER BY at DESC, seq DESC LIMIT ?",
            (*values, limit),
        )

    def select_places(
        self, where: str, values: tuple[object, ...], limit: int
    ) -> list[tuple[int, int]]:
        """Return when some events happened, and their seqs, the newest first."""
        return log_queries.select_places(self._fetch, where, values, limit)

    def row_batches(self, size: int) -> Iterator[list[Row]]:
        """Yield all rows as they lie, in order, up to `size` at a time; each batch is read when it
        is asked for.
        """
        after = 0
        while rows := self.select_rows("seq > ?", (after,), limit=size):
            yield rows
            after = rows[-1][0]

    def session_row_batches(
        self, kinds: Sequence[str], since: int, until: int, size: int
    ) -> Iterator[list[Row]]:
        """Yield, as `row_batches` does, the rows of some kinds that sessions told with `since` <=
        at < `until`.
        """
        marks = ", ".join("?" * len(kinds))
        where = f"seq > ? AND kind IN ({marks}) AND session IS NOT NULL AND at >= ? AND at < ?"
        after = 0
        while rows := self.select_rows(where, (after, *kinds, since, until), limit=size):
            yield rows
            after = rows[-1][0]

    def memories_of_kind(self, kind: str) -> list[Event]:
        """Return the events that recorded memories of a kind, in order, as they were kept."""
        rows = self.select_rows("kind = 'recorded' AND body LIKE ?", (f'%"kind":"{kind}"%',))
        events = (decode_row(row) for row in rows)
        return [one for one in events if isinstance(one.body, Recorded) and one.body.kind == kind]

    def has_archived(self, kind: str) -> bool:
        """Return whether the body of any event of a kind lies in a segment."""
        return bool(self.select_rows("kind = ? AND body = ?", (kind, PUT_AWAY), limit=1))

    def newest_plan_ids(self) -> list[str]:
        """Return the id of each job's newest plan, the newest first."""
        return log_queries.newest_plan_ids(self._fetch)

    def changes_of(self, subjects: Sequence[str], kinds: Sequence[str]) -> list[EventLine]:
        """Return the events of some kinds about some memories, in order, without their bodies."""
        return log_queries.changes_of(self._fetch, subjects, kinds)

    def other_changes_of(
        self, subjects: Sequence[str], kinds: Sequence[str], after: int
    ) -> list[EventLine]:
        """Return the events about some memories with a seq above `after`, but for those of some
        kinds.
        """
        return log_queries.other_changes_of(self._fetch, subjects, kinds, after)

    def restorings(self, after: int) -> list[EventLine]:
        """Return the events that brought memories back, with a seq above `after`."""
        return log_queries.restorings(self._fetch, after)

    def keyed_facts(self, ids: Sequence[str]) -> list[KeyedFact]:
        """Return those of some memories that were recorded as the value of a key, in order."""
        return log_queries.keyed_facts(self._fetch, ids)

    def new_keyed_facts(self, after: int) -> list[KeyedFact]:
        """Return the memories recorded as the value of a key with a seq above `after`, in order."""
        return log_queries.new_keyed_facts(self._fetch, after)

    def whole(self, rows: Sequence[Row]) -> list[Row]:
        """Return rows with the bodies that were put away; raise LogCorrupt where one is missing."""
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
        """Give rows, as `rows` returned them, other bodies: the one thing that changes the log.

        PUT_AWAY keeps a row's hash, for its segment is held to it; any other body is hashed anew.
        `events` are appended with it, and the table of segments changed; all of it or nothing.
        Raise LogBusy where somebody else rewrote one of the rows meanwhile.
        """
        new = [encode_row(event) for event in events]

        def rewritten(connection: apsw.Connection) -> None:
            log_write.rewrite_rows(connection, bodies, adding, dropping)

        return [one.event for one in self._written(log_file.rewriting, rewritten, new)]

    def settle(self, *, shrink: bool = False) -> bool:
        """Leave nothing in the write-ahead log; with `shrink`, give back what the file need not.

        Return whether it could be done: while others read or write it cannot. Nothing is lost.
        """
        with self._connections.writing() as connection:
            return log_file.settle(connection, shrink=shrink)

    def _events(self, rows: Sequence[Row]) -> list[Event]:
        return [decode_row(row) for row in self.whole(rows)]

    def _redacted(self, rows: Sequence[Row]) -> list[Event]:
        """Return what may be shown; who folds all events (`read`) redacts what it takes of them."""
        return [redact_event(event) for event in self._events(rows)]

    def _fetch(self, sql: str, values: tuple[object, ...] = ()) -> list[Row]:
        return self._connections.fetch(sql, values)

    def _written(
        self,
        transaction: Callable[[apsw.Connection], AbstractContextManager[None]],
        first: Callable[[apsw.Connection], None],
        rows: Sequence[tuple[Event, Row]],
    ) -> list[Appended]:
        """Do something and insert rows in one transaction; then move the head."""

        def written(connection: apsw.Connection, gap: Gap | None) -> list[Appended]:
            with transaction(connection):
                first(connection)
                if gap is not None:
                    self._head_file.state(connection, gap, rows[0][0].at)
                appended = [log_write.insert_row(connection, *row) for row in rows]
                new = [one.event for one in appended if one.is_new]
                unerased(connection, new)
                self._head_file.check(connection, new)
            self._head_file.move(new)
            return appended

        with self._connections.writing() as connection:
            try:
                appended = written(connection, None)
            except log_head.Gone as found:
                appended = written(connection, found.gap)
        self._appends += 1
        return appended
