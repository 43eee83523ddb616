"""
Rate: how often a token may ask, as a bucket that fills while nobody asks.

https://en.wikipedia.org/wiki/Token_bucket; a bucket holds what ten seconds allow, so that in no
minute more than seven sixths of `per_minute` are answered.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass

from serve.access.caller import Caller

BURST_S = 10.0


@dataclass(slots=True)
class _Bucket:
    left: float
    at: float


class Rates:
    """The buckets of the tokens that asked. Threads may share it."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` gives seconds that never go back."""
        self._clock = clock
        self._lock = threading.Lock()
        self._buckets: dict[str, _Bucket] = {}

    def wait_s(self, caller: Caller) -> float:
        """Count a request; return 0, or in how many seconds the next one would be answered."""
        if caller.per_minute is None or caller.token_id is None:
            return 0.0
        a_second = caller.per_minute / 60
        most, now = max(1.0, a_second * BURST_S), self._clock()
        with self._lock:
            bucket = self._buckets.setdefault(caller.token_id, _Bucket(most, now))
            bucket.left = min(most, bucket.left + (now - bucket.at) * a_second)
            bucket.at = now
            if bucket.left >= 1.0:
                bucket.left -= 1.0
                return 0.0
            return (1.0 - bucket.left) / a_second
