"""
The timeline of a session: its events by turn, a turn from one prompt to the next.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from store.log.event_kinds import Prompted, Recalled, Recorded, Surfaced
from store.log.events import Event


@dataclass(frozen=True, slots=True)
class Turn:
    """What happened from one prompt up to the next, in the order of the log.

    What lies before the first prompt is a turn without one. `at` is microseconds UTC.
    """

    events: Sequence[Event]

    @property
    def at(self) -> int:
        return self.events[0].at

    @property
    def prompt(self) -> str:
        first = self.events[0].body
        return first.prompt if isinstance(first, Prompted) else ""

    @property
    def is_imported(self) -> bool:
        first = self.events[0].body
        return isinstance(first, Prompted) and first.imported

    @property
    def recalls(self) -> list[Event]:
        return [one for one in self.events if isinstance(one.body, Recalled)]

    @property
    def surfaced(self) -> list[str]:
        """The ids of the lessons and rules that were put before the agent, each once."""
        shown = (one.subject for one in self.events if isinstance(one.body, Surfaced))
        return list(dict.fromkeys(shown))

    @property
    def recorded(self) -> list[str]:
        """The ids of the memories that were recorded."""
        return [one.subject for one in self.events if isinstance(one.body, Recorded)]


def session_turns(events: Iterable[Event]) -> list[Turn]:
    """Return the turns of a session's events, the oldest first; none of no events."""
    turns: list[list[Event]] = []
    for event in events:
        if isinstance(event.body, Prompted) or not turns:
            turns.append([])
        turns[-1].append(event)
    return [Turn(tuple(some)) for some in turns]
