"""
The impact of following a lesson: the gain in turns with a good outcome.

The difference of two shares with Newcombe's hybrid score interval (method 10 of Statistics in
Medicine 17, 1998, https://doi.org/10.1002/(SICI)1097-0258(19980430)17:8<873::AID-SIM779>3.0.CO;2-I)
from Wilson's intervals of each (https://doi.org/10.1080/01621459.1927.10502953). It compares turns
that were not assigned at random: a hint, no proof.
"""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mnemolog.wire import Impact

Z = 1.959964  # of a 95 % interval
LEAST = 3  # turns on each side; with fewer there is no impact
RESTS_BELOW = 0.3


def wilson(good: int, of: int) -> tuple[float, float]:
    """Return the 95 % interval of a share, by Wilson's score; (0, 1) for no turns."""
    if not of:
        return 0.0, 1.0
    share, square = good / of, Z * Z
    middle = (share + square / (2 * of)) / (1 + square / of)
    half = Z * math.sqrt(share * (1 - share) / of + square / (4 * of * of)) / (1 + square / of)
    return max(0.0, middle - half), min(1.0, middle + half)


def difference(good: int, of: int, other_good: int, other_of: int) -> "Impact":
    """Return the first share minus the other, with its 95 % interval."""
    from mnemolog.wire import Impact  # 40 ms, and the rules before a tool need none

    first, other = good / of, other_good / other_of
    low, high = wilson(good, of)
    other_low, other_high = wilson(other_good, other_of)
    value = first - other
    return Impact(
        value=value,
        low=value - math.hypot(first - low, other_high - other),
        high=value + math.hypot(high - first, other - other_low),
    )


def impact(counts: Mapping[str, int]) -> "Impact | None":
    """Return P(turn came out well | followed) - P(... | ignored); None where too few are known."""
    good, bad = counts["good_followed"], counts["bad_followed"]
    other_good, other_bad = counts["good_ignored"], counts["bad_ignored"]
    if min(good + bad, other_good + other_bad) < LEAST:
        return None
    return difference(good, good + bad, other_good, other_good + other_bad)


def likely_followed(counts: Mapping[str, int]) -> float:
    """Return the upper end of the 95 % interval of a lesson's follow rate.

    "Did not apply" counts where it was shown before a tool: a prompt gets many for context.
    """
    followed = counts["followed"]
    return wilson(followed, followed + counts["ignored"] + counts["in_vain"])[1]


def is_at_rest(counts: Mapping[str, int], *, pinned: bool) -> bool:
    """Return True if a lesson is no longer shown before a tool, because it is not followed.

    The upper end of the 95 % interval of its follow rate is below 0.3: after nine verdicts without
    a "followed", or fifteen with one. It is still recalled, a verdict elsewhere may wake it, and a
    pinned lesson is never at rest.
    """
    return not pinned and likely_followed(counts) < RESTS_BELOW
