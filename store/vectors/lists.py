"""
Inverted lists: the rows of a part in the order of what they are near to, so that few are looked at.

Spherical k-means over a part's own int8 rows (Sculley 2010 draws as small a sample). It is counted
in whole numbers that 32-bit floats hold exactly, and what is drawn is every so manieth row, so the
same rows give the same lists on every machine.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from store.vectors.quantized import Bytes, Floats

LISTS = 256  # of a part
_SAMPLE = 8_192  # rows that the centres are drawn from
_ROUNDS = 8
_BLOCK = 8_192  # rows whose products with every centre are held
_EXACT = 2**24  # whole numbers up to here are exact in 32-bit floats


@dataclass(frozen=True, slots=True)
class Lists:
    """The lists of a part: their centres [lists, d], by what to divide a product with one, sizes.

    The rows lie in their order; those at the end are in no list, as they are zero.
    """

    centres: Bytes
    norms: Floats
    sizes: npt.NDArray[np.int32]


def listed(rows: Bytes) -> tuple[Lists, npt.NDArray[np.int64]]:
    """Return the lists of int8 rows [n, d], and the order [n] in which these then lie."""
    own = np.flatnonzero(rows.any(axis=1))
    centres = _centres(rows[own[:: max(1, len(own) // _SAMPLE)]][:_SAMPLE].astype(np.float32))
    nearest = np.full(len(rows), len(centres), np.int64)  # zero rows come last
    for start in range(0, len(own), _BLOCK):
        some = own[start : start + _BLOCK]
        nearest[some] = _nearest(rows[some].astype(np.float32), centres)
    sizes = np.bincount(nearest, minlength=len(centres))[: len(centres)]
    lists = Lists(centres.astype(np.int8), _norms(centres), sizes.astype(np.int32))
    return lists, np.argsort(nearest, kind="stable")


def _centres(sample: Floats) -> Floats:
    """Return whole-numbered centres [LISTS, d] of a sample of rows."""
    if not len(sample):
        return np.ones((LISTS, sample.shape[1]), np.float32)
    centres = sample[np.arange(LISTS) * len(sample) // LISTS]
    for _ in range(_ROUNDS):
        nearest = _nearest(sample, centres)
        belongs = (nearest == np.arange(LISTS)[:, None]).astype(np.float32)
        sums = belongs @ sample
        largest = np.abs(sums).max(axis=1, keepdims=True)
        most = min(127, _EXACT // (127 * sample.shape[1]))
        moved = np.rint(sums / np.where(largest > 0, largest, 1) * np.float32(most))
        centres = np.where(largest > 0, moved, centres)  # who is nobody's nearest stays
    return centres


def _nearest(rows: Floats, centres: Floats) -> npt.NDArray[np.int64]:
    return np.argmax((rows @ centres.T) / _norms(centres), axis=1)


def _norms(centres: Floats) -> Floats:
    return np.sqrt(np.einsum("ld,ld->l", centres, centres, dtype=np.float64)).astype(np.float32)
