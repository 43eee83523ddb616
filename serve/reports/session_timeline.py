"""
The timeline of a session: its events by turn, a turn from one prompt to the next.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import msgspec

from store.agents.work import Work, work
from store.log.event_kinds import Acted, Prompted, Recalled, Recorded, SessionTold, Surfaced
from store.log.events import Event


class Edits(msgspec.Struct, frozen=True):
    """What was done to one file, or to several by patches; `diffs` are those that are recorded."""

    files: tuple[str, ...]
    diffs: tuple[str, ...]


@dataclass(frozen=True)
class Turn:
    """The events from one prompt up to the next, in the order of the log.

    The events before the first prompt are a turn without one. `number` counts from 1, `at` is
    microseconds UTC.
    """

    number: int
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
    def answer(self) -> str:
        """The agent's last message; "" where no host reported any."""
        return next((body.said for body in reversed(self._told) if body.said), "")

    @property
    def stages(self) -> list[str]:
        """The stages of the session, except its start and the ends of turns."""
        return [body.stage for body in self._told if body.stage not in ("started", "stopped")]

    @property
    def _told(self) -> list[SessionTold]:
        return [event.body for event in self.events if isinstance(event.body, SessionTold)]

    @cached_property
    def work(self) -> Work:
        return work(self.events)

    @cached_property
    def acts(self) -> list[Acted]:
        return [event.body for event in self.events if isinstance(event.body, Acted)]

    @cached_property
    def edits(self) -> list[Edits]:
        """The edits that were made, the first edited files first."""
        diffs: dict[tuple[str, ...], list[str]] = {}
        for act in self.acts:
            if act.doing == "edit" and act.passed is not False:
                diffs.setdefault(act.files, []).append(act.diff or "")
        return [Edits(files, tuple(filter(None, own))) for files, own in diffs.items()]

    @property
    def recalls(self) -> list[Event]:
        return [event for event in self.events if isinstance(event.body, Recalled)]

    @property
    def surfaced(self) -> list[str]:
        """The ids of the lessons and rules shown to the agent, each once."""
        ids = (event.subject for event in self.events if isinstance(event.body, Surfaced))
        return list(dict.fromkeys(ids))

    @property
    def recorded(self) -> list[str]:
        """The ids of the memories that were recorded."""
        return [event.subject for event in self.events if isinstance(event.body, Recorded)]

    def holds(self, words: Sequence[str]) -> bool:
        """Return True if the prompt, acts or answer have each of some words, in any case."""
        if not words:
            return True
        texts = [self.prompt, self.answer]
        for act in self.acts:
            texts += [act.command or "", act.error or "", act.output or "", *act.files]
            texts += [act.diff or ""]
        whole = "\n".join(texts).casefold()
        return all(word.casefold() in whole for word in words)


def session_turns(events: Iterable[Event]) -> list[Turn]:
    """Return the turns of a session's events, the oldest first; empty without events."""
    turns: list[list[Event]] = []
    for event in events:
        if isinstance(event.body, Prompted) or not turns:
            turns.append([])
        turns[-1].append(event)
    return [Turn(number, tuple(own)) for number, own in enumerate(turns, start=1)]
