"""
Pairs: memories whose words are much the same, without all being compared with all.

MinHash (Broder, 1997, https://doi.org/10.1109/SEQUEN.1997.666900): two sets of words agree in a
hash's smallest value as often as in their words. Two that agree in a band of two such values are
compared: 88 in 100 of the pairs that share four words in ten, 99 in 100 of those that share six.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations
from zlib import crc32

import numpy as np
import numpy.typing as npt

from store.text import tokenizer

_HASHES, _BAND = 24, 2
_PRIME = (1 << 31) - 1
_MOST_IN_ONE = 12  # of one bucket: more say something everybody says
LEAST = 0.4  # of the words of both, the share that both have


def pairs(said: Sequence[str], groups: Sequence[object], most: int) -> list[tuple[int, int, float]]:
    """Return the places of those texts of one group that share most words, the likest first.

    The third is the share of their words that both have, LEAST to 1; at most `most` are returned.
    """
    words = [frozenset(tokenizer.terms(one)) for one in said]
    signed = np.array([_signature(some) for some in words], np.int64).reshape(-1, _HASHES)
    seen: set[tuple[int, int]] = set()
    found: list[tuple[float, int, int]] = []
    for one, other in _candidates(signed, groups):
        if (one, other) in seen or not words[one]:
            continue
        seen.add((one, other))
        share = len(words[one] & words[other]) / len(words[one] | words[other])
        if share >= LEAST:
            found.append((-share, one, other))
    return [(one, other, -share) for share, one, other in sorted(found)[:most]]


def _candidates(
    signed: npt.NDArray[np.int64], groups: Sequence[object]
) -> Iterator[tuple[int, int]]:
    for start in range(0, _HASHES, _BAND):
        buckets: dict[object, list[int]] = {}
        for place, row in enumerate(signed[:, start : start + _BAND].tolist()):
            buckets.setdefault((groups[place], *row), []).append(place)
        for places in buckets.values():
            if 2 <= len(places) <= _MOST_IN_ONE:
                yield from combinations(places, 2)


_odd = 2 * np.arange(1, _HASHES + 1, dtype=np.int64) + 1
_FACTORS = (_odd * 1_103_515_245 % _PRIME)[:, None]
_SHIFTS = (_odd * 69_069 % _PRIME)[:, None]


def _signature(words: frozenset[str]) -> npt.NDArray[np.int64]:
    """Return the smallest value of each hash over some words, [hashes]."""
    if not words:
        return np.full(_HASHES, _PRIME, np.int64)
    numbers = np.array([crc32(word.encode()) % _PRIME for word in words], np.int64)
    least: npt.NDArray[np.int64] = ((numbers * _FACTORS + _SHIFTS) % _PRIME).min(axis=1)
    return least
