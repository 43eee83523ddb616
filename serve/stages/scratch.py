"""
Scratch: arrays as long as the memory, lent to one recall after the other.

A fresh array of a million scores costs as much as filling it: the system hands out its pages one
by one. One that was used a moment ago is at hand, and may still lie in the processor's cache.
"""

from types import TracebackType

import numpy as np
import numpy.typing as npt

Scores = npt.NDArray[np.float32]

_KEPT = 4  # arrays; more are lent where more recalls run at once, and not kept
_free: list[Scores] = []


class Scratch:
    """What one recall borrows; all of it goes back at the end, so keep no view of it."""

    def __init__(self) -> None:
        self._lent: list[Scores] = []

    def __enter__(self) -> "Scratch":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _free.extend(self._lent)
        del _free[_KEPT:]

    def array(self, size: int) -> Scores:
        """Return an array [size] that holds anything."""
        try:
            array = _free.pop()
        except IndexError:
            array = np.empty(0, np.float32)
        if len(array) < size:
            array = np.empty(size + size // 8, np.float32)  # a memory grows
        self._lent.append(array)
        return array[:size]
