"""
Event clock: an order of events across homes that no wrong wall clock can bend far.

A hybrid logical clock in microseconds: the wall's, but never less than what was seen before. What
another home claims is heeded up to MAX_SKEW ahead of this home's wall; a home whose clock is set a
year ahead drags nobody along. Kulkarni et al., Logical Physical Clocks, OPODIS 2014,
https://cse.buffalo.edu/tech-reports/2014-04.pdf.
"""

import time

MAX_SKEW = 25 * 3_600 * 1_000_000  # microseconds: a machine may be set to another day


def wall_clock() -> int:
    """Return the microseconds since 1970 UTC that this machine's clock shows."""
    return time.time_ns() // 1_000


def next_clock(wall: int, last: int, heard: int = 0) -> int:
    """Return the clock of a new event: greater than `last`, this home's newest, and than `heard`,
    the greatest that came from other homes, unless that is too far ahead of the `wall`.
    """
    believed = heard if heard <= wall + MAX_SKEW else 0
    return max(wall, last + 1, believed + 1)
