"""
Deferred events: notes that are written after the answers, many in one transaction.

While the log cannot be written they wait, up to some thousands; any beyond that are lost, and so is
an event that the log rejects, or that refers to a memory erased meanwhile. The server's own log
reports waiting and lost notes.
"""

import logging
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from store.home.errors import InvalidInput, LogBusy, LogError, NotFound
from store.log.event_kinds import Recalled
from store.log.event_log import EventLog
from store.log.events import Event

log = logging.getLogger("mnemolog")

MOST = 5_000  # some 10 MB: hours of an agent's work
PATIENCE_S = 0.5  # for another thread that writes: beyond it, another process has the log


class DeferredEvents:
    """The pending events of one log, oldest first. Threads may share it."""

    def __init__(self, events: EventLog, written: Callable[[Sequence[Event]], None]) -> None:
        """`written` is called with the events that were written, one thread at a time."""
        self.waiting: list[Event] = []
        self._log, self._tell = events, written
        self._writing = threading.Lock()
        self._is_held_up = False
        self._lost = 0

    def add(self, *events: Event) -> None:
        """Note events, to be written soon; a crash may lose the last few."""
        if len(self.waiting) < MOST:
            self.waiting.extend(events)
        else:
            self._lost += len(events)

    def write(self) -> None:
        """Append the pending events; raise LogError, and they wait for the next write."""
        if not self._writing.acquire(timeout=PATIENCE_S):
            raise LogBusy(f"{self._log.path} is busy with a long write: try again")
        try:
            self._write(self.waiting[:])
        except LogError as error:
            if not self._is_held_up:
                log.warning("what was noted waits to be written: %s", error)
            self._is_held_up = True
            raise
        finally:
            self._writing.release()

    def write_if_possible(self) -> None:
        """Append the pending events, unless the log cannot be written, or could not at the last
        try: upkeep tries again, and no other thread waits for it.
        """
        if not self._is_held_up:
            with suppress(LogError):
                self.write()

    def give_up(self) -> None:
        """Write the pending events a last time; events that fail are lost, and logged."""
        self._is_held_up = False
        try:
            self.write()
        except LogError as error:
            log.error("%d notes are lost: %s", len(self.waiting) + self._lost, error)

    def _write(self, events: list[Event]) -> None:
        if events:
            try:
                self._log.append(events)
            except (InvalidInput, NotFound):  # an invalid event must not hold up the others
                events = [event for event in events if self._takes(event)]
            del self.waiting[: len(events)]
            self._tell(events)
        if self._is_held_up or self._lost:
            log.warning("%d notes were written that waited; %d are lost", len(events), self._lost)
            self._is_held_up, self._lost = False, 0

    def _takes(self, event: Event) -> bool:
        try:
            self._log.append([event])
        except (InvalidInput, NotFound) as error:
            log.error("a note is lost: %s", error)
            self.waiting.remove(event)
            return False
        return True


class RecallCounts:
    """The number, silent ones and latencies of a tenant's recalls since it was opened."""

    def __init__(self) -> None:
        self.silent, self.seconds = 0, 0.0
        self.within = [0] * (len(BOUNDS_S) + 1)  # per bound, and beyond the last

    def count(self, receipts: Iterable[Event]) -> None:
        """Count the recall receipts among some events. One thread counts at a time."""
        for body in (event.body for event in receipts):
            if isinstance(body, Recalled):
                seconds = body.took_us / 1e6
                self.silent += not body.hits
                self.seconds += seconds
                self.within[bisect_left(BOUNDS_S, seconds)] += 1

    @property
    def total(self) -> int:
        return sum(self.within)


BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)
