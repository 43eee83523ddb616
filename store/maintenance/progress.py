"""Progress: how far a long step is, how fast it goes, and how long it still takes."""

import time
from collections.abc import Callable

_PAUSE_S = 1.0  # between two lines


class ProgressEstimate:
    """Turns counts into lines: `embedded 3,200 of 11,000, 85/s, 1 min 32 s left`."""

    def __init__(
        self, what: str, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._what, self._say, self._clock = what, say, clock
        self._began = self._said = clock()

    def __call__(self, done: int, total: int) -> None:
        """Report that `done` of `total` are done; at most once a second, but for the last."""
        now = self._clock()
        if done and (now - self._said >= _PAUSE_S or done == total):
            self._said = now
            rate = done / max(now - self._began, 1e-9)
            left = f", {format_duration((total - done) / rate)} left" if done < total else ""
            rate_text = f"{rate:,.0f}" if rate >= 10 else f"{rate:.1f}"
            self._say(f"{self._what} {done:,} of {total:,}, {rate_text}/s{left}")


def format_duration(seconds: float) -> str:
    """Return seconds in words: 8 s, 1 min 32 s, 2 h 5 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3_600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3_600} h {whole % 3_600 // 60} min"
