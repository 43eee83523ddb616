"""
Sender: the rows of a log, sent to a generation at a remote as the log grows.

The log is never held up: the sender reads it as any reader does, and one number marks how far it
has sent. A sender killed between two steps sends a part again, under the same name. Text erased
from the log is rewritten there too: a part is replaced if its mark differs from that of the log's
rows. Small parts are merged in time, so that a year does not leave a million files.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from store.home.errors import RemoteError
from store.home.instants import new_id
from store.log import copies, segments
from store.log.event_log import EventLog
from store.log.log_file import Row
from store.replica import parts
from store.replica.parts import About, DamagedPart, Generation, Part, read_about, read_part
from store.replica.remote import Remote
from store.replica.state import State, read_state, write_state

_MOST_BYTES = 8 << 20  # bodies in a part
_SMALL = 1 << 20  # bytes: such parts are merged
_MOST_SMALL = 64
_HOUR_S = 3_600.0  # between checks for rewritten rows of the log


class Sent(msgspec.Struct, frozen=True):
    """The counts of one pass: events and bytes sent, and parts replaced."""

    events: int
    bytes: int
    replaced: int


class LogSender:
    """The sender of one log's rows. One thread at a time.

    The generations are in the folder `top`; the file `state` notes this log's progress. With
    `origins` only the events written by those homes and of use elsewhere are sent
    (`store.log.copies`).
    """

    def __init__(
        self, remote: Remote, top: str, state: Path, anew: str, origins: Sequence[str] = ()
    ) -> None:
        """`anew` is the command that begins anew at a remote that lost everything."""
        self._remote, self._top, self._file, self._anew = remote, top, state, anew
        self._origins = origins
        self._state: State | None = None
        self._at: Generation | None = None
        self._about = About("", "")
        self._checked_at = 0.0
        self._looked = 0  # up to which event of the log

    def send(self, log: EventLog, about: About, now: int, *, anew: bool = False) -> Sent:
        """Send the new events, as the home described by `about`.

        With `anew`, and once an hour, each part is compared with the log. Raise RemoteError, or a
        LogError; the parts sent until then count.
        """
        replaced = 0
        is_told = about == self._about
        self._about = about
        if anew or self.is_due():
            replaced = self._join(log, now)
        elif not is_told and self.generation.has_about:
            self._put_about(self.generation)
        events, size, has_erased = self._send_new(log)
        if has_erased:
            replaced += self._mend(log, now)
            self._send_new(log)  # if a new generation began
        self._merge(log)
        return Sent(events, size, replaced)

    def is_due(self) -> bool:
        """Return True if the next pass compares all parts with the log."""
        is_late = self._at is None or time.monotonic() - self._checked_at > _HOUR_S
        return is_late or read_state(self._file) != self._state

    @property
    def generation(self) -> Generation:
        """The generation being written; requires an earlier pass."""
        assert self._at is not None, "`_join` came first"
        return self._at

    def note_waiting(self, names: Sequence[str]) -> None:
        """Note which copies of waiting batches the generation holds."""
        self._at = self.generation._replace(waiting=tuple(names))

    def _join(self, log: EventLog, now: int) -> int:
        """Find the generation that this log continues, or begin one; return the number of parts
        replaced.
        """
        state = read_state(self._file)
        if state is not None and state.url != self._remote.url:
            state = None
        there = parts.list_generations(self._remote, self._top)
        if state is not None:
            there = [generation for generation in there if generation.id == state.generation]
            if state.seq and not there:
                raise RemoteError(
                    f"{self._remote.url} holds nothing of {self._top.rpartition('/')[2]} any more: "
                    f"mount its disk, or begin anew with `{self._anew}`"
                )
        self._at = next(
            (generation for generation in reversed(there) if self._continues(log, generation)), None
        )
        if self._at is None:
            self._begin(now)
        replaced = self._mend(log, now)
        self._note(self.generation.last)
        return replaced

    def _continues(self, log: EventLog, generation: Generation) -> bool:
        """Return True if a generation is this home's and the log has its last event in its place.

        Two homes never write one generation: a home that was copied to another machine, or
        restored, begins its own.
        """
        if not generation.parts or not generation.has_about:
            return False
        try:
            about = read_about(self._remote, generation)
        except DamagedPart:
            return False  # another writer's; ours begins a new one
        if not about.is_of(self._about):
            return False
        newest = generation.parts[-1]
        hashes = copies.hashes_between(log, newest.first, newest.last, self._origins)
        if parts.mark_of(hashes) != newest.mark:  # rewritten since, or another log's
            row = read_part(self._remote, generation, newest)[-1]
            if copies.id_at(log, row[0]) != row[1]:
                return False
        if about != self._about:
            self._put_about(generation)
        return True

    def _begin(self, now: int) -> None:
        self._at = Generation(f"{self._top}/{new_id(now)}", (), (), (), has_about=False)
        self._looked = 0

    def _put_about(self, generation: Generation) -> None:
        self._remote.put(generation.path(parts.ABOUT), msgspec.json.encode(self._about))

    def _send_new(self, log: EventLog) -> tuple[int, int, bool]:
        """Send the new events; return their number, their bytes, and whether one erased others."""
        events = size = 0
        has_erased = False
        head, looked = log.head(), self._looked
        for first, rows in self._batches(log, self.generation.last, head, looked):
            if not self.generation.has_about:
                self._put_about(self.generation)
                self._at = self.generation._replace(has_about=True)
            part = self._put(first, rows)
            self._keep((*self.generation.parts, part))
            self._note(part.last)
            events, size = events + len(rows), size + part.bytes
            has_erased = has_erased or any(row[3] == "erased" for row in rows)
        self._looked = head
        return events, size, has_erased

    def _mend(self, log: EventLog, now: int) -> int:
        """Replace the parts that differ from the log, and delete the leftovers of killed writers;
        return the number of parts replaced.

        If the log lost events that a part holds, that generation stays as it is and another begins:
        a replica keeps the events that its log lost.
        """
        at, mended, gone = self.generation, list[Part](), list(self.generation.others)
        for part in at.parts:
            after = mended[-1].last if mended else 0
            hashes = copies.hashes_between(log, part.first, part.last, self._origins)
            if part.first == after + 1 and parts.mark_of(hashes) == part.mark:
                mended.append(part)
            elif self._lost(log, at, part):
                self._begin(now)
                return 0
            else:
                batches = self._batches(log, after, part.last)
                mended += [self._put(first, rows) for first, rows in batches]
                gone.append(part)
        self._delete(gone, mended)
        self._keep(mended)
        self._checked_at = time.monotonic()
        return len(gone) - len(at.others)

    def _lost(self, log: EventLog, at: Generation, part: Part) -> bool:
        """Return True if a part holds an event that is no longer in the log."""
        seqs = {seq for seq, _ in copies.hashes_between(log, part.first, part.last)}
        try:
            return any(row[0] not in seqs for row in read_part(self._remote, at, part))
        except DamagedPart:
            return False

    def _merge(self, log: EventLog) -> None:
        """Send many small parts at the end as a few; the small ones are deleted last."""
        there = self.generation.parts
        small = 0
        while small < len(there) and there[-1 - small].bytes < _SMALL:
            small += 1
        if small < _MOST_SMALL:
            return
        kept, old = there[:-small], there[-small:]
        batches = self._batches(log, old[0].first - 1, old[-1].last)
        merged = [self._put(first, rows) for first, rows in batches]
        self._delete(old, merged)
        self._keep((*kept, *merged))

    def _batches(
        self, log: EventLog, after: int, until: int, looked: int = 0
    ) -> Iterator[tuple[int, Sequence[Row]]]:
        """Yield rows after a seq, a part's at a time, each with the part's first seq.

        Events that the log lost or keeps to itself belong to the part that follows them. Nothing up
        to `looked` needs to be sent.
        """
        start = max(after, looked)
        for rows in copies.rows_between(log, start, until, _MOST_BYTES, self._origins):
            yield after + 1, rows
            after = rows[-1][0]

    def _put(self, first: int, rows: Sequence[Row]) -> Part:
        data = segments.encode(rows)
        part = Part(first, rows[-1][0], parts.mark_of_rows(rows), len(data))
        self._remote.put(self.generation.path(part.name), data)
        return part

    def _delete(self, gone: Iterable[Part], kept: Iterable[Part]) -> None:
        """Delete files except the kept ones, compared by name: a remote may store them in another
        size than they were sent in.
        """
        names = {part.name for part in gone} - {part.name for part in kept}
        if names:
            self._remote.delete(self.generation.path(name) for name in sorted(names))

    def _keep(self, there: Sequence[Part]) -> None:
        self._at = self.generation._replace(parts=tuple(there), others=())

    def _note(self, seq: int) -> None:
        state = State(self._remote.url, self.generation.id, seq)
        if state != self._state:
            write_state(self._file, state)
            self._state = state
