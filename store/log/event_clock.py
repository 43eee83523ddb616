"""
Event clock: an order of events across homes that no wrong wall clock can bend far.

A hybrid logical clock in microseconds: the wall clock, but never less than a clock seen before.
Another home's clock is accepted up to MAX_SKEW ahead of this home's wall clock; a home whose clock
is set a year ahead drags no other along. Kulkarni et al., Logical Physical Clocks, OPODIS 2014,
https://cse.buffalo.edu/tech-reports/2014-04.pdf.
"""

import time

MAX_SKEW = 25 * 3_600 * 1_000_000  # microseconds: a machine may be set to another day


def wall_clock() -> int:
    """Return the time of this machine's clock, in microseconds since 1970 UTC."""
    return time.time_ns() // 1_000


def next_clock(wall: int, last: int, heard: int = 0) -> int:
    """Return the clock of a new event: greater than `last`, this home's newest, and than `heard`,
    the greatest received from other homes, unless that is too far ahead of `wall`.
    """
    believed = heard if heard <= wall + MAX_SKEW else 0
    return max(wall, last + 1, believed + 1)
