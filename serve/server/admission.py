"""
Turns: which request a thread takes next, and which is sent away because it waited too long.

Recalls have two threads of their own. Ranking holds the interpreter's lock, so more at once would
be answered no sooner, only all of them later; where a model elsewhere is asked there are more, as
most of them wait for it. So have the hooks, which a host waits for: none is late because writes
wait for a log that another process holds. What else is asked, a long batch among it, takes no turn
from either.

A recall that found no thread free and waited `_RECALL_S` is answered 503 with Retry-After: it would
come late, and those behind it too. Waiting costs no thread, and being sent away a thirtieth of a
recall (B. Maurer, Fail at Scale, ACM Queue 13(8), 2015,
https://queue.acm.org/detail.cfm?id=2839461).
"""

import math
import threading
import time
from collections.abc import Callable
from typing import Any

from waitress.task import ThreadedTaskDispatcher

_HOOKS = "/v1/hooks/"
_RECALLS = frozenset({"/v1/recall", "/v1/memories/search"})
RANKING, WAITING = 2, 8  # recalls at once: with a model on this machine, and with one elsewhere
_RECALL_S = 0.04
_HOOK_THREADS, _HOOK_S = 4, 1.0  # each is answered within 0.2 s, and a host gives up after a second
_OTHER_THREADS, _OTHERS_S = 6, 5.0

_turn = threading.local()


def is_late() -> bool:
    """Return whether the request this thread answers waited too long for its turn."""
    return getattr(_turn, "is_late", False)


def current_channel() -> Any:
    """Return the connection whose request this thread answers; None outside of waitress."""
    return getattr(_turn, "channel", None)


class Dispatcher:
    """What waitress asks for a thread, with a channel that has a request."""

    def __init__(self, recalls: int, clock: Callable[[], float] = time.monotonic) -> None:
        """`recalls` are answered at once; `clock` gives seconds that never go back."""
        self._recalls = _Lane(recalls, _RECALL_S, clock)
        self._hooks = _Lane(_HOOK_THREADS, _HOOK_S, clock)
        self._others = _Lane(_OTHER_THREADS, _OTHERS_S, clock)

    def add_task(self, channel: Any) -> None:
        # a request that could not be read has no path
        self._lane(getattr(channel.requests[0], "path", "")).add_task(channel)

    def shutdown(self) -> None:
        for lane in (self._recalls, self._hooks, self._others):
            lane.shutdown()

    def _lane(self, path: str) -> "_Lane":
        if path in _RECALLS:
            return self._recalls
        return self._hooks if path.startswith(_HOOKS) else self._others


class _Lane(ThreadedTaskDispatcher):  # type: ignore[misc]  # waitress has no types
    """Threads that take what was added in turn."""

    def __init__(self, threads: int, patience_s: float, clock: Callable[[], float]) -> None:
        super().__init__()
        self._patience_s, self._clock = patience_s, clock
        self.set_thread_count(threads)

    def add_task(self, channel: Any) -> None:
        # who finds a thread free waits for the machine alone, and being sent away helps nobody
        is_alone = len(self.queue) < len(self.threads) - self.stop_count - self.active_count
        patience_s = math.inf if is_alone else self._patience_s
        super().add_task(_Waiting(channel, self._clock() + patience_s, self._clock))


class _Waiting:
    """A channel that waits for its turn, until when at most."""

    def __init__(self, channel: Any, until: float, clock: Callable[[], float]) -> None:
        self._channel, self._until, self._clock = channel, until, clock

    def service(self) -> None:
        _turn.is_late, _turn.channel = self._clock() > self._until, self._channel
        self._channel.service()

    def cancel(self) -> None:
        self._channel.cancel()
