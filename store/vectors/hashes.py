"""
Text hashes as numbers: two 64-bit words each, so that a million are compared and found at once.

Two words of zero stand for no text.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Hashes = npt.NDArray[np.uint64]  # [n, 2]
Places = npt.NDArray[np.int64]


def of_column(column: pa.ChunkedArray) -> Hashes:
    """Return a column of 16-byte hashes as numbers [n, 2]; one chunk is not copied."""
    chunks = [
        np.frombuffer(chunk.buffers()[1], "<u8").reshape(-1, 2)[chunk.offset :][: len(chunk)]
        for chunk in column.chunks
        if len(chunk)
    ]
    if len(chunks) == 1:
        return chunks[0]
    return np.concatenate(chunks) if chunks else np.empty((0, 2), np.uint64)


def as_column(hashes: Hashes) -> pa.Array:
    """Return hashes as an Arrow column of 16 bytes each."""
    data = pa.py_buffer(np.ascontiguousarray(hashes, "<u8"))
    return pa.Array.from_buffers(pa.binary(16), len(hashes), [None, data])


def of_bytes(hashes: list[bytes]) -> Hashes:
    return np.frombuffer(b"".join(hashes), "<u8").reshape(-1, 2)


def are_set(hashes: Hashes) -> npt.NDArray[np.bool_]:
    """Return which hashes are of a text, [n]."""
    return np.asarray(hashes.any(axis=1), np.bool_)


def differ(one: Hashes, other: Hashes) -> npt.NDArray[np.bool_]:
    """Return where two arrays of as many hashes differ, [n]."""
    return np.asarray((one != other).any(axis=1), np.bool_)


def first_of_each(hashes: Hashes) -> Places:
    """Return for each hash the place at which it stands first, [n]."""
    order = np.lexsort((np.arange(len(hashes)), hashes[:, 1], hashes[:, 0]))
    begins = np.ones(len(hashes), np.bool_)
    begins[1:] = differ(hashes[order[1:]], hashes[order[:-1]])
    first = np.empty(len(hashes), np.int64)
    first[order] = order[begins][np.cumsum(begins) - 1]
    return first


class Finder:
    """Finds where a hash stands among many; hashes of no text are not found."""

    def __init__(self, hashes: Hashes) -> None:
        self._hashes = hashes
        places = np.flatnonzero(are_set(hashes))
        order = places[np.argsort(hashes[places, 0], kind="stable")]
        self._places, self._words = order, hashes[order, 0]

    def find(self, wanted: Hashes) -> Places:
        """Return a place of each wanted hash, [m]; -1 where it is not there."""
        found = np.full(len(wanted), -1, np.int64)
        at = np.searchsorted(self._words, wanted[:, 0])
        open_ = np.arange(len(wanted))
        while len(open_):  # more than once where two hashes begin alike
            open_ = open_[at[open_] < len(self._words)]
            open_ = open_[self._words[at[open_]] == wanted[open_, 0]]
            places = self._places[at[open_]]
            is_it = self._hashes[places, 1] == wanted[open_, 1]
            found[open_[is_it]] = places[is_it]
            open_ = open_[~is_it]
            at[open_] += 1
        return found
