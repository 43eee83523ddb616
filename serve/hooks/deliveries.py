"""
Deliveries: the same event told twice is answered once.

Copilot CLI also runs the hooks in Claude Code's settings, and a host may retry: a prompt's answer
would stand twice before the model.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha256

from serve.hooks.event import HookEvent

WITHIN_S = 60.0
_KEPT = 1_024


class Deliveries:
    """What was told of late. Threads may share it."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` gives seconds that never go back."""
        self._clock = clock
        self._lock = threading.Lock()
        self._told: OrderedDict[bytes, float] = OrderedDict()

    def is_first(self, tenant: str, event: HookEvent) -> bool:
        """Return whether this is the first we hear of an event; one without a mark always is."""
        mark = _mark(event)
        if mark is None:
            return True
        key = sha256("\x00".join((tenant, event.session, event.moment, mark)).encode()).digest()
        now = self._clock()
        with self._lock:
            is_new = now - self._told.get(key, float("-inf")) > WITHIN_S
            if is_new:
                self._told[key] = now
                self._told.move_to_end(key)
            while len(self._told) > _KEPT:
                self._told.popitem(last=False)
        return is_new


def _mark(event: HookEvent) -> str | None:
    """Return what tells an event from the next of its kind in a session; None: nothing does."""
    if event.moment == "prompt":
        return event.prompt
    return event.tool.id if event.tool is not None else None
