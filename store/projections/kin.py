"""
Kin: words that begin alike, for a word of the query that no memory holds.

A stemmer knows the endings of a language; this knows of none and helps in all: "formatter" finds
"format", "Rechnungsnummer" finds "Rechnungsnummern". Two words are kin where they share a beginning
of five letters or more and neither goes on for more than three. Only plain words have kin:
identifiers and numbers are meant as they are written.
"""

from collections.abc import Iterator, Sequence
from hashlib import blake2b

import numpy as np
import numpy.typing as npt
import pyarrow as pa

SHORTEST = 5  # letters of a beginning
ENDING = 3  # letters that may follow it
MOST = 8  # words that stand for one

# sorted by hash: which of the vocabulary's terms begin so, and how long they are
KIN = pa.schema([("hash", pa.uint64()), ("term", pa.int32()), ("letters", pa.uint8())])


def beginnings(word: str) -> Iterator[str]:
    """Yield the beginnings a word is filed under and looked up by, the longest first."""
    if not word.isalpha():
        return
    for length in range(len(word), max(SHORTEST, len(word) - ENDING) - 1, -1):
        yield word[:length]


def table(vocabulary: Sequence[str]) -> pa.Table:
    """Return the table of a vocabulary; a term is its place there."""
    rows = [
        (beginning_hash(beginning), place, min(len(term), 255))
        for place, term in enumerate(vocabulary)
        for beginning in beginnings(term)
    ]
    rows.sort()
    hashes, places, letters = zip(*rows, strict=True) if rows else ((), (), ())
    columns = [
        pa.array(np.asarray(values, field.type.to_pandas_dtype()))
        for values, field in zip((hashes, places, letters), KIN, strict=True)
    ]
    return pa.table(columns, schema=KIN)


def beginning_hash(beginning: str) -> int:
    """Return the 64 bits a beginning is filed under."""
    return int.from_bytes(blake2b(beginning.encode(), digest_size=8).digest(), "little")


def lookup(
    word: str,
    hashes: npt.NDArray[np.uint64],
    terms: npt.NDArray[np.int32],
    letters: npt.NDArray[np.uint8],
) -> npt.NDArray[np.int32]:
    """Return the terms that share the longest beginning with a word, of those filed; may be none.

    The arrays are the table's columns.
    """
    for beginning in beginnings(word):
        start, end = np.searchsorted(hashes, _both_sides(beginning_hash(beginning)))
        near = np.flatnonzero(letters[start:end] <= len(beginning) + ENDING)
        if len(near):
            found: npt.NDArray[np.int32] = terms[start:end][near[:MOST]]
            return found
    return terms[:0]


def _both_sides(hash_: int) -> npt.NDArray[np.uint64]:
    return np.array([hash_, min(hash_ + 1, 2**64 - 1)], np.uint64)
