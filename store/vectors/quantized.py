"""
int8 rows: a quarter of the bytes of floats, and nearly their cosines.

A row's largest number becomes 127, so a scale for each row turns it back.
"""

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
