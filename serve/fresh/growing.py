"""
Growing storage: appended to by one thread while others read what was there before.

A reader keeps the length it was given and never looks beyond it; what lies before is never changed
or moved under its hands. So neither waits for the other.
"""

from array import array
from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

Slots = npt.NDArray[np.int64]
Counts = npt.NDArray[np.float64]
Vectors = npt.NDArray[np.float32]

_BLOCK = 1_024  # vectors


_NO_SLOTS, _NO_COUNTS = np.empty(0, np.int64), np.empty(0)


class Records:
    """Records of one structured type, in the order of their adding."""

    def __init__(self, dtype: np.dtype[np.void]) -> None:
        self._array = np.zeros(64, dtype)
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def append(self, values: tuple[object, ...]) -> None:
        if self._length == len(self._array):
            grown = np.zeros(2 * self._length, self._array.dtype)
            grown[: self._length] = self._array
            self._array = grown  # who reads the old one keeps it
        self._array[self._length] = values
        self._length += 1

    def first(self, length: int) -> npt.NDArray[np.void]:
        """Return the first records, [length]; not to be changed."""
        return self._array[:length]


class Lists:
    """By key, the slots it was added for, ascending, and a count with each.

    `once` is how many keys stand for one slot that was not dropped.
    """

    def __init__(self) -> None:
        self.once = 0
        self._lists: dict[str, array[int]] = {}
        self._dropped: dict[str, int] = {}

    def add(self, slot: int, counts: Mapping[str, int]) -> list[str]:
        """Append a slot, greater than those before, to some keys; return those that are new."""
        lists, new, packed = self._lists, [], slot << 32
        for key, count in counts.items():
            found = lists.get(key)
            if found is None:
                found = lists[key] = array("Q")
                new.append(key)
            held = len(found) - self._dropped.get(key, 0)
            self.once += (held == 0) - (held == 1)
            found.append(packed | count)
        return new

    def drop(self, keys: Iterable[str]) -> None:
        """Count one slot less for some keys; their lists stay as they are."""
        for key in keys:
            dropped = self._dropped[key] = self._dropped.get(key, 0) + 1
            held = len(self._lists[key]) - dropped
            self.once += (held == 1) - (held == 0)

    def first(self, key: str, length: int) -> tuple[Slots, Counts]:
        """Return the slots below `length` that a key was added for, and their counts."""
        found = self._lists.get(key)
        if found is None:
            return _NO_SLOTS, _NO_COUNTS
        # copied in one step: a buffer given out would keep the writer from appending
        packed = np.frombuffer(found.tobytes(), np.uint64)
        slots = (packed >> np.uint64(32)).astype(np.int64)
        until = int(np.searchsorted(slots, length))
        return slots[:until], (packed[:until] & np.uint64(0xFFFFFFFF)).astype(np.float64)


class Matrix:
    """Vectors of one width by number, zero until they are put."""

    def __init__(self, width: int) -> None:
        self.width = width
        self._blocks: list[Vectors] = []

    def put(self, number: int, vector: Vectors) -> None:
        while number >= len(self._blocks) * _BLOCK:
            self._blocks.append(np.zeros((_BLOCK, self.width), np.float32))
        self._blocks[number // _BLOCK][number % _BLOCK] = vector

    def dots(self, query: Vectors, out: Vectors) -> None:
        """Write the dot products of the first vectors with one into `out`, [n]."""
        blocks = self._blocks[: -(-len(out) // _BLOCK)]
        for number, block in enumerate(blocks):
            part = out[number * _BLOCK : (number + 1) * _BLOCK]
            np.dot(block[: len(part)], query, out=part)
        out[len(blocks) * _BLOCK :] = 0.0
