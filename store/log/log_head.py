"""
Head: the newest acknowledged event, in a small file of its own beside the log.

It is written after COMMIT, so it is never ahead of its log: if it appears to be, acknowledged
events are gone, as when the write-ahead file was deleted, or an older copy of the log restored. The
log alone cannot show that. The file is not fsynced, and lags after a power cut; a missing or
unreadable file means nothing, and the next append writes it anew.

A hash over all rows would detect no more: each row has its hash, the numbering has no holes, and an
attacker able to write a row with its hash could write the sum too. An event's id is never
rewritten, so neither erasing nor compaction touches this file.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from zlib import crc32

import apsw
import msgspec

from store.home.errors import LogCorrupt
from store.home.files import replace_file
from store.home.instants import new_id
from store.log.event_kinds import Lost
from store.log.events import Event, decode
from store.log.log_file import MOST_SEQ, Ask, Row
from store.log.rows import encode_row, insert_numbered, row_hash

_LONGEST = 1024  # bytes: two ids and a number
_BINARY = getattr(os, "O_BINARY", 0)  # Windows would change line ends


class Head(msgspec.Struct, frozen=True, array_like=True):
    """The newest event's number and id, and the id of the log's first event, which identifies the
    log.
    """

    seq: int
    id: str
    first: str


_decoder = msgspec.json.Decoder(Head)


class Gap(msgspec.Struct, frozen=True):
    """Events that were acknowledged and are gone; `first` and `last` are seqs."""

    first: int
    last: int

    def __str__(self) -> str:
        were = "was acknowledged and is" if self.first == self.last else "were acknowledged and are"
        return f"{numbers([(self.first, self.last)])} {were} gone"


class OtherLog(msgspec.Struct, frozen=True):
    """The head belongs to another log: one of the two was exchanged."""

    seq: int

    def __str__(self) -> str:
        return f"event {self.seq} is not the one that was acknowledged: it is another log"


def numbers(gaps: Sequence[tuple[int, int]]) -> str:
    """Return "event 3" or "events 3, 5 to 8" for the first and last number of each gap."""
    text = ", ".join(f"{first}" if first == last else f"{first} to {last}" for first, last in gaps)
    return f"event {text}" if text.isdigit() else f"events {text}"


def path_of(log: Path) -> Path:
    return log.with_suffix(".head")


def encode_head(head: Head) -> bytes:
    body = msgspec.json.encode(head)
    return b"%08x %s\n" % (crc32(body), body)


def decode_head(data: bytes) -> Head | None:
    """Return the head in the first line of its file; None if the line is damaged."""
    mark, _, body = data.partition(b"\n")[0].partition(b" ")
    if mark != b"%08x" % crc32(body):
        return None
    try:
        return _decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def read(log: Path) -> Head | None:
    """Return the head in a log's file; None if there is none that can be read."""
    try:
        return decode_head(path_of(log).read_bytes())
    except OSError:
        return None


def make(log: Path, ask: Ask) -> None:
    """Write a log's head anew, from the log; an empty log has none."""
    ends = ask("SELECT seq, id FROM events ORDER BY seq DESC LIMIT 1", ())
    first = ask("SELECT id FROM events ORDER BY seq LIMIT 1", ())
    if ends:
        seq, id_ = ends[0]
        replace_file(path_of(log), encode_head(Head(seq, id_, first[0][0])))


def compare(head: Head | None, ask: Ask) -> Gap | OtherLog | None:
    """Compare a head that was read before with the log; return the difference, None if all is
    there.

    Losses that the log itself states are not reported.
    """
    if head is None:
        return None
    first = ask("SELECT id FROM events ORDER BY seq LIMIT 1", ())
    newest = int(ask("SELECT coalesce(max(seq), 0) FROM events", ())[0][0])
    if first and first[0][0] != head.first:
        if not any(start <= 1 <= last for start, last in read_gaps(ask)):
            return OtherLog(head.seq)
    if newest < head.seq:
        return Gap(newest + 1, head.seq)
    there = ask("SELECT id FROM events WHERE seq = ?", (head.seq,))
    if there and there[0][0] != head.id:
        return OtherLog(head.seq)
    return None  # if it is missing, the numbering shows it


def read_gaps(ask: Ask, after: int = 0, until: int = MOST_SEQ) -> list[tuple[int, int]]:
    """Return the lost numbers that the log states, first and last of each gap, in order.

    Only statements at a seq above `after` and up to `until` count. Raise LogCorrupt if they cannot
    be read.
    """
    sql = "SELECT body FROM events WHERE kind = 'lost' AND seq > ? AND seq <= ?"
    rows = ask(sql, (after, until))
    try:
        bodies = [decode("lost", row[0]) for row in rows]
    except msgspec.MsgspecError as error:
        raise LogCorrupt(f"what was lost cannot be read ({error}): restore a backup") from error
    gaps = sorted(gap for body in bodies if isinstance(body, Lost) for gap in body.gaps)
    if strange := [gap for gap in gaps if not 0 < gap[0] <= gap[1] < MOST_SEQ]:
        raise LogCorrupt(f"what was lost cannot be {strange[0]}: restore a backup")
    return gaps


def gap_event(gaps: Sequence[tuple[int, int]], at: int, ids: Sequence[str] = ()) -> Event:
    """Return the event that states lost numbers, and their ids if known."""
    id_ = new_id(at)
    return Event(id_, at, Lost(gaps=tuple(gaps), ids=tuple(ids)), id_)


class Gone(Exception):
    """The appended events took numbers that had been assigned; append them after `gap` is stated.

    Raised by `HeadFile.check` and handled by the appender.
    """

    def __init__(self, gap: Gap) -> None:
        super().__init__(str(gap))
        self.gap = gap


def state_gap(connection: apsw.Connection, gap: Gap, at: int) -> None:
    """State in the log which events are gone, unless another process just did."""
    rows: list[Row] = connection.execute("SELECT max(seq) FROM events").fetchall()
    newest = int(rows[0][0] or 0)
    if newest < gap.last:
        _, row = encode_row(gap_event([(newest + 1, gap.last)], at))
        insert_numbered(connection, [(gap.last + 1, *row, row_hash(row))])


class HeadFile:
    """A log's head, as kept by a writer of the log. One thread at a time."""

    def __init__(self, log: Path) -> None:
        self._path = path_of(log)
        self._descriptor: int | None = None
        self._next: int | None = None  # the number of the next event if no other process appends
        self._first = ""
        self._is_anothers = False

    def check(self, connection: apsw.Connection, new: Sequence[Event]) -> None:
        """Check before COMMIT that events took unassigned numbers; else raise Gone.

        So a number is never assigned twice: snapshots built from lost events keep their place.
        """
        if not new or new[0].seq == self._next:
            return

        def ask(sql: str, values: tuple[object, ...]) -> list[Row]:
            return connection.execute(sql, values).fetchall()

        head = decode_head(self._read_file())
        self._first = ask("SELECT id FROM events ORDER BY seq LIMIT 1", ())[0][0]
        if head is not None and head.seq >= new[0].seq:
            if self._first == head.first or new[0].seq == 1:
                raise Gone(Gap(new[0].seq, head.seq))
        # a head that contradicts the log stays, for a person to see
        self._is_anothers = compare(head, ask) is not None

    def move(self, new: Sequence[Event]) -> None:
        """After COMMIT: make the newest of these events the head. Failing to write it loses
        nothing.
        """
        if not new:
            return
        self._next = new[-1].seq + 1
        if self._descriptor is not None and not self._is_anothers:
            with suppress(OSError):
                os.lseek(self._descriptor, 0, os.SEEK_SET)
                os.write(self._descriptor, encode_head(Head(new[-1].seq, new[-1].id, self._first)))

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _read_file(self) -> bytes:
        """Return the file's contents; empty if it cannot be read."""
        with suppress(OSError):
            if self._descriptor is None:
                flags = os.O_RDWR | os.O_CREAT | _BINARY
                self._descriptor = os.open(self._path, flags, 0o600)
            os.lseek(self._descriptor, 0, os.SEEK_SET)
            return os.read(self._descriptor, _LONGEST)
        return b""
