"""
Prefix expansion: an unknown query term expands to indexed terms with a common prefix.

A stemmer knows the endings of a language; this knows of none and helps in all: "formatter" finds
"format", "Rechnungsnummer" finds "Rechnungsnummern". Two words are kin where they share a beginning
of five letters or more and neither goes on for more than three. Only plain words have kin:
identifiers and numbers are meant as they are written.
"""

from collections.abc import Iterator, Sequence
from functools import reduce

import numpy as np
import numpy.typing as npt
import pyarrow as pa

MIN_PREFIX = 5  # letters of a beginning
MAX_ENDING = 3  # letters that may follow it
MAX_TERMS = 8  # words that stand for one

# FNV-1a over code points: one step a letter gives the hashes of all beginnings of all words at once
_START, _PRIME = 0xCBF29CE484222325, 0x100000001B3

# sorted by hash: which of a vocabulary's terms begin so, and how long they are
PREFIXES = pa.schema([("hash", pa.uint64()), ("term", pa.int32()), ("letters", pa.uint8())])

Places = npt.NDArray[np.int32]


def prefixes(word: str) -> Iterator[str]:
    """Yield the beginnings a word is filed under and looked up by, the longest first."""
    if not word.isalpha():
        return
    for length in range(len(word), max(MIN_PREFIX, len(word) - MAX_ENDING) - 1, -1):
        yield word[:length]


def prefix_table(vocabulary: Sequence[str]) -> pa.Table:
    """Return the table of a vocabulary; a term is its place there."""
    by_length: dict[int, list[int]] = {}
    for place, term in enumerate(vocabulary):
        if len(term) >= MIN_PREFIX and term.isalpha():
            by_length.setdefault(len(term), []).append(place)
    hashes, places = [np.empty(0, np.uint64)], [np.empty(0, np.int32)]
    letters = [np.empty(0, np.uint8)]
    for length, some in by_length.items():
        found = _hashes([vocabulary[place] for place in some], length)
        hashes += found
        places += [np.asarray(some, np.int32)] * len(found)
        letters += [np.full(len(some), min(length, 255), np.uint8)] * len(found)
    filed, terms, sizes = np.concatenate(hashes), np.concatenate(places), np.concatenate(letters)
    order = np.lexsort((terms, filed))
    return pa.table([filed[order], terms[order], sizes[order]], schema=PREFIXES)


def _hashes(words: Sequence[str], length: int) -> list[npt.NDArray[np.uint64]]:
    """Return the hashes of each beginning of words of one length, the shortest first."""
    codes = np.frombuffer("".join(words).encode("utf-32-le"), np.uint32).reshape(-1, length)
    total = np.full(len(words), _START, np.uint64)
    found = []
    for letter, code in enumerate(codes.T, start=1):
        total = (total ^ code) * np.uint64(_PRIME)
        if letter >= max(MIN_PREFIX, length - MAX_ENDING):
            found.append(total)
    return found


def prefix_hash(beginning: str) -> int:
    """Return the 64 bits a beginning is filed under."""
    return reduce(lambda total, code: (total ^ code) * _PRIME % 2**64, map(ord, beginning), _START)


def terms_with_prefix(
    beginning: str,
    hashes: npt.NDArray[np.uint64],
    terms: Places,
    letters: npt.NDArray[np.uint8],
) -> Places:
    """Return the terms filed under a beginning that do not go on for too long, ascending.

    The arrays are the table's columns.
    """
    start, end = np.searchsorted(hashes, _both_sides(prefix_hash(beginning)))
    near: Places = terms[start:end][letters[start:end] <= len(beginning) + MAX_ENDING]
    return near


def _both_sides(hash_: int) -> npt.NDArray[np.uint64]:
    return np.array([hash_, min(hash_ + 1, 2**64 - 1)], np.uint64)
