"""
Journal: one agent session's events in the log so far.

It is no state of its own: after a restart it is read again. Only the latest sessions are cached,
and only their newly appended events are read.
"""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from store.home.errors import LogError
from store.log.event_kinds import Place, Prompted, SessionTold, Surfaced
from store.log.event_log import EventLog
from store.log.events import Event

_KEPT = 64  # sessions


@dataclass(frozen=True)
class SessionEvents:
    """The events of a session, oldest first."""

    events: Sequence[Event] = ()

    @cached_property
    def turn(self) -> Sequence[Event]:
        """The events since the last prompt, that prompt first; all events if there was none."""
        for place in range(len(self.events) - 1, -1, -1):
            if isinstance(self.events[place].body, Prompted):
                return self.events[place:]
        return self.events

    @cached_property
    def beginning(self) -> SessionTold | None:
        """The first report of the session's course; None if it has yet to begin."""
        bodies = (event.body for event in self.events)
        return next((body for body in bodies if isinstance(body, SessionTold)), None)

    @property
    def is_held_out(self) -> bool:
        """Return True if the session was drawn, at its beginning, to get no unasked context."""
        return self.beginning is not None and self.beginning.is_held_out

    @cached_property
    def lesson_ids(self) -> frozenset[str]:
        """The ids of the lessons that this session was shown."""
        return frozenset(event.subject for event in self.events if isinstance(event.body, Surfaced))

    def lesson_ids_at(self, place: Place) -> frozenset[str]:
        """Return the ids of the lessons that this session was shown at one place."""
        return frozenset(
            event.subject
            for event in self.events
            if isinstance(event.body, Surfaced) and event.body.place == place
        )


class SessionEventCache:
    """The journals of one tenant's sessions. Threads may share it."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._lock = threading.Lock()
        self._cached: OrderedDict[str, tuple[Event, ...]] = OrderedDict()

    def of(self, session: str) -> SessionEvents:
        """Return a session's events up to the newest in the log, or the cached ones if the log
        cannot be read.
        """
        cached = self._cached.get(session, ())
        try:
            events = (*cached, *self._log.session_events(session, cached[-1].seq if cached else 0))
        except LogError:  # at worst something is said twice
            return SessionEvents(cached)
        with self._lock:
            self._cached[session] = events
            self._cached.move_to_end(session)
            while len(self._cached) > _KEPT:
                self._cached.popitem(last=False)
        return SessionEvents(events)
