"""
Laps: how long each stage of one recall took.
"""

import time


class Laps:
    """A watch that runs from when it is made; `us` are microseconds by stage, in their order."""

    def __init__(self) -> None:
        self.us: dict[str, int] = {}
        self._last = time.perf_counter()

    def over(self, stage: str) -> None:
        """Say that a stage is over."""
        now = time.perf_counter()
        self.us[stage] = round((now - self._last) * 1e6)
        self._last = now
