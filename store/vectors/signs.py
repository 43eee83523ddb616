"""
Signs: 512 bits of a vector, of which side of the middle it lies on in 512 directions.

Two vectors differ in about as many bits as the angle between them says (Charikar 2002), so of a
million rows the few per cent with the fewest differences hold the nearest ones, and looking for
them reads a fraction of what the int8 rows are. The directions are those of a Hadamard matrix under
random signs (Ailon and Chazelle 2009); the middle is that of a part's own rows. All is counted in
whole numbers that 32-bit floats hold exactly, so the bits are the same everywhere.
"""

from collections.abc import Sequence
from functools import cache
from hashlib import shake_128

import numpy as np
import numpy.typing as npt

from store.vectors.quantized import Floats, Halves

WORDS = 8  # of 64 bits
BITS = 64 * WORDS
Words = npt.NDArray[np.uint64]
Differences = npt.NDArray[np.uint16]

_GRAINS = 4_096  # of a number between 0 and 1
_PROJECTED = 8_192  # rows whose directions are held: 16 MB
_SAMPLED = 8  # every so manieth row tells the middle
_BLOCK = 65_536  # rows at a time: what is done for each word stays in the second cache


def of_rows(halves: Halves) -> Words:
    """Return the bits of rows [n, d] by word: [WORDS, n]; n is not 0."""
    sample = _projected(halves[::_SAMPLED])
    middle = sample.sum(axis=0, dtype=np.float64) / len(sample)
    words = np.empty((WORDS, len(halves)), np.uint64)
    for start in range(0, len(halves), _PROJECTED):
        is_above = _projected(halves[start : start + _PROJECTED]) > middle
        words[:, start : start + _PROJECTED] = _packed(is_above).T
    return words


def of_query(query: Floats) -> Words:
    """Return the bits of a query's vector [d]: [WORDS]."""
    bits: Words = _packed(_projected(query[None, :]) > 0)[0]
    return bits


def differences(query: Words, words: Sequence[Words], into: Differences) -> None:
    """Write in how many bits each of some rows differs from a query, [n]."""
    other, count = np.empty(_BLOCK, np.uint64), np.empty(_BLOCK, np.uint8)
    into[:] = 0
    for start in range(0, len(into), _BLOCK):
        found = into[start : start + _BLOCK]
        size = len(found)
        for bits, word in zip(query, words, strict=True):
            np.bitwise_xor(word[start : start + size], bits, out=other[:size])
            np.add(found, np.bitwise_count(other[:size], out=count[:size]), out=found)


def _projected(rows: Halves | Floats) -> Floats:
    whole = np.rint(rows.astype(np.float32) * np.float32(_GRAINS))
    projected: Floats = whole @ _directions(rows.shape[1])
    return projected


def _packed(bits: npt.NDArray[np.bool_]) -> Words:
    packed: Words = np.packbits(bits, axis=1, bitorder="little").view("<u8").astype(np.uint64)
    return packed


@cache
def _directions(width: int) -> Floats:
    """Return the directions [width, BITS], of ones and minus ones."""
    size = min(BITS, 1 << max(0, width - 1).bit_length())
    rows, columns = np.arange(width, dtype=np.uint64), np.arange(size, dtype=np.uint64)
    hadamard = 1.0 - 2.0 * (np.bitwise_count(rows[:, None] & columns) & 1)
    count = BITS // size
    data = np.frombuffer(shake_128(b"directions").digest(-(-count * width // 8)), np.uint8)
    signs = 1.0 - 2.0 * np.unpackbits(data)[: count * width].reshape(count, width)
    return np.hstack([one[:, None] * hadamard for one in signs]).astype(np.float32)
