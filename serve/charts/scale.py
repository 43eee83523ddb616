"""
Scales: from values to places in a drawing, and the round values that an axis names.
"""

import math
from dataclasses import dataclass

_ROUND = (1.0, 2.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True, slots=True)
class Scale:
    """Values from `low` to `high` lie evenly between the places `start` and `end`."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Return a value's place; where all values are one, the middle."""
        if self.high == self.low:
            return (self.start + self.end) / 2
        share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)


def ticks(high: float, most: int = 4, *, whole: bool = False) -> list[float]:
    """Return even, round values from 0 up to `high` or above, `most` steps at most.

    The last is where an axis ends; `whole` gives none but whole numerals.
    """
    if not math.isfinite(high) or high <= 0:
        return [0.0, 1.0]
    rough = high / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(one * power for one in _ROUND if one * power >= rough * (1 - 1e-9))
    if whole:
        step = max(1.0, math.ceil(step))
    return [place * step for place in range(math.ceil(high / step - 1e-9) + 1)]
