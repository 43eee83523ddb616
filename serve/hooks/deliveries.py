"""
Deliveries: the same event told twice is answered once.

Cursor, Copilot CLI and VS Code also run the hooks in Claude Code's settings, and in one another's;
and a host may retry. An answer would stand twice before the model, an action twice in the journal.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256

from serve.hooks.event import HookEvent

WITHIN_S = 60.0
_KEPT = 1_024


@dataclass(frozen=True, slots=True)
class _Told:
    at: float
    host: str
    number: str | None


class Deliveries:
    """What was told of late. Threads may share it."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` gives seconds that never go back."""
        self._clock = clock
        self._lock = threading.Lock()
        self._told: OrderedDict[bytes, _Told] = OrderedDict()

    def is_first(self, tenant: str, event: HookEvent) -> bool:
        """Return whether this is the first we hear of an event."""
        parts = (tenant, event.session, event.moment, *_mark(event))
        key = sha256("\x00".join(parts).encode()).digest()
        now = self._clock()
        with self._lock:
            told = self._told.get(key)
            if told is not None and now - told.at <= WITHIN_S and _is_same(told, event):
                return False
            self._told[key] = _Told(now, event.host, _number(event))
            self._told.move_to_end(key)
            while len(self._told) > _KEPT:
                self._told.popitem(last=False)
        return True


def _mark(event: HookEvent) -> tuple[str, ...]:
    """Return what the two tellings of one event have in common."""
    if event.moment == "prompt":
        return (event.prompt,)
    if event.tool is None:
        return (event.start,)
    return (event.tool.doing, event.tool.command or "", *event.tool.files)


def _number(event: HookEvent) -> str | None:
    """Return what tells an event from another with its mark, where the host numbers them."""
    return event.tool.id if event.tool is not None else event.turn


def _is_same(told: _Told, event: HookEvent) -> bool:
    """Return whether an event is the one that was told with the same mark.

    Told by two hosts, it is. Told by one host, the number decides: a prompt without one is a retry;
    a tool may be used twice, and a turn may end twice.
    """
    number = _number(event)
    if told.host != event.host:
        return True
    if event.moment == "prompt":
        return None in (told.number, number) or told.number == number
    return event.tool is not None and number is not None and told.number == number
