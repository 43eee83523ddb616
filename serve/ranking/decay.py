"""
Decay: importance fades with time and is kept up by use. Computed when it is asked for, never
written.

An exponential of the time since a memory was last used or changed, its half-life stretched by how
often it was recalled, as strength is by rehearsal (Ebbinghaus 1885; MemoryBank, Zhong et al. 2024,
https://doi.org/10.1609/aaai.v38i17.29946). What fades is what somebody said beyond the usual: a
memory of which nobody said anything is neither more nor less for its age.
"""

import numpy as np
import numpy.typing as npt

Times = npt.NDArray[np.int64]
Counts = npt.NDArray[np.int64]
Values = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

USUAL = 0.5  # the importance of a memory of which nobody said any
HALF_LIFE_DAYS = 90.0
LASTING = 4.0  # how many times as long a lasting kind holds
# what is still to be followed long after it was said
LASTING_KINDS = ("antipattern", "decision", "goal", "lesson", "preference")
_DAY = 86_400 * 1_000_000  # microseconds


def decayed(importance: Values, idle: Times, uses: Counts, lasting: Mask, pinned: Mask) -> Values:
    """Return what is left of importances in [0, 1], [n] each.

    `idle` is microseconds since each was used or changed, none below 0; `uses` how often it was
    recalled. What lies above USUAL falls towards it; what is pinned, or not above it, stays.
    """
    stretch = np.where(lasting, LASTING, 1.0) * (1.0 + np.log2(1.0 + np.maximum(uses, 0)))
    left = np.power(0.5, np.maximum(idle, 0) / (_DAY * HALF_LIFE_DAYS * stretch))
    over = np.maximum(importance - USUAL, 0.0)
    values: Values = np.where(pinned, importance, importance - over * (1.0 - left))
    return values
