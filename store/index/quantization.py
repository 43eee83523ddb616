"""
Quantised vectors: int8 rows, nearly as exact as floats, and binary codes of 512 bits.

A row's largest number becomes 127, so a scale for each row turns it back.
"""

from collections.abc import Sequence
from functools import cache
from hashlib import shake_128

import numpy as np
import numpy.typing as npt

try:
    from numkong import cdist
except ImportError:  # no wheel for this platform: numpy is a few times slower and as exact
    cdist = None  # type: ignore[assignment]

Bytes = npt.NDArray[np.int8]
Halves = npt.NDArray[np.float16]
Floats = npt.NDArray[np.float32]

_BLOCK = 4_096  # rows that stay in the processor's cache as floats


def quantize(vectors: Floats | Halves) -> tuple[Bytes, Floats]:
    """Return int8 rows [n, d] and the scale [n] that turns each back; zero rows stay zero."""
    rows = np.empty(vectors.shape, np.int8)
    scale = np.empty(len(vectors), np.float32)
    for start in range(0, len(vectors), _BLOCK):
        block = vectors[start : start + _BLOCK].astype(np.float32)
        largest = np.abs(block).max(axis=1, initial=0.0)
        scale[start : start + _BLOCK] = np.where(largest > 0, largest, 1.0) / np.float32(127.0)
        block /= scale[start : start + _BLOCK, None]
        rows[start : start + _BLOCK] = np.rint(block, out=block)
    return rows, scale


def int8_dots(query: Bytes, rows: Bytes) -> npt.NDArray[np.floating]:
    """Return the dot products of one int8 row [d] with many [n, d]: [n], exact; n is not 0."""
    if cdist is not None:
        dots: npt.NDArray[np.floating] = np.asarray(cdist(query[None, :], rows, "dot")).ravel()
        return dots
    dots = np.empty(len(rows), np.float32)
    asked = query.astype(np.float32)
    block = np.empty((_BLOCK, rows.shape[1]), np.float32)
    for start in range(0, len(rows), _BLOCK):
        part = rows[start : start + _BLOCK]
        block[: len(part)] = part
        np.dot(block[: len(part)], asked, out=dots[start : start + len(part)])
    return dots


def half_dots(query: Floats, rows: Halves) -> Floats:
    """Return the dot products of a vector [d] with half-precision rows [n, d]: [n]."""
    if not len(rows):
        return np.empty(0, np.float32)
    if cdist is None:
        products: Floats = rows.astype(np.float32) @ query
        return products
    # the kernel wants both sides alike: what halves leave of the query is a second query
    asked = np.zeros((2, len(query)), np.float16)
    asked[0] = query
    asked[1] = query - asked[0]
    both = np.asarray(cdist(asked, rows, "dot"))
    found: Floats = (both[0] + both[1]).astype(np.float32)
    return found


# Signs: 512 bits of a vector, of which side of the middle it lies on in 512 directions.
#
# Two vectors differ in about as many bits as the angle between them says (Charikar 2002), so of a
# million rows the few per cent with the fewest differences hold the nearest ones, and looking for
# them reads a fraction of what the int8 rows are. The directions are those of a Hadamard matrix
# under
# random signs (Ailon and Chazelle 2009); the middle is that of a part's own rows. All is counted
# in
# whole numbers that 32-bit floats hold exactly, so the bits are the same everywhere.

CODE_WORDS = 8  # of 64 bits
CODE_BITS = 64 * CODE_WORDS
Words = npt.NDArray[np.uint64]
Differences = npt.NDArray[np.uint16]

_GRAINS = 4_096  # of a number between 0 and 1
_PROJECTED = 8_192  # rows whose directions are held: 16 MB
_SAMPLED = 8  # every so manieth row tells the middle
_CODE_BLOCK = 65_536  # rows at a time: what is done for each word stays in the second cache


def binary_codes(halves: Halves) -> Words:
    """Return the bits of rows [n, d] by word: [WORDS, n]; n is not 0."""
    sample = _project(halves[::_SAMPLED])
    middle = sample.sum(axis=0, dtype=np.float64) / len(sample)
    words = np.empty((CODE_WORDS, len(halves)), np.uint64)
    for start in range(0, len(halves), _PROJECTED):
        is_above = _project(halves[start : start + _PROJECTED]) > middle
        words[:, start : start + _PROJECTED] = _pack_bits(is_above).T
    return words


def query_code(query: Floats) -> Words:
    """Return the bits of a query's vector [d]: [WORDS]."""
    bits: Words = _pack_bits(_project(query[None, :]) > 0)[0]
    return bits


def count_differences(query: Words, words: Sequence[Words], into: Differences) -> None:
    """Write in how many bits each of some rows differs from a query, [n]."""
    other, count = np.empty(_CODE_BLOCK, np.uint64), np.empty(_CODE_BLOCK, np.uint8)
    into[:] = 0
    for start in range(0, len(into), _CODE_BLOCK):
        found = into[start : start + _CODE_BLOCK]
        size = len(found)
        for bits, word in zip(query, words, strict=True):
            np.bitwise_xor(word[start : start + size], bits, out=other[:size])
            np.add(found, np.bitwise_count(other[:size], out=count[:size]), out=found)


def _project(rows: Halves | Floats) -> Floats:
    whole = np.rint(rows.astype(np.float32) * np.float32(_GRAINS))
    projected: Floats = whole @ _directions(rows.shape[1])
    return projected


def _pack_bits(bits: npt.NDArray[np.bool_]) -> Words:
    packed: Words = np.packbits(bits, axis=1, bitorder="little").view("<u8").astype(np.uint64)
    return packed


@cache
def _directions(width: int) -> Floats:
    """Return the directions [width, BITS], of ones and minus ones."""
    size = min(CODE_BITS, 1 << max(0, width - 1).bit_length())
    rows, columns = np.arange(width, dtype=np.uint64), np.arange(size, dtype=np.uint64)
    hadamard = 1.0 - 2.0 * (np.bitwise_count(rows[:, None] & columns) & 1)
    count = CODE_BITS // size
    data = np.frombuffer(shake_128(b"directions").digest(-(-count * width // 8)), np.uint8)
    signs = 1.0 - 2.0 * np.unpackbits(data)[: count * width].reshape(count, width)
    return np.hstack([one[:, None] * hadamard for one in signs]).astype(np.float32)
