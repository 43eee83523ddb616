"""
BM25 as rank_bm25's BM25Okapi computes it: what a posting adds, and what a term weighs.

What a posting adds to a score does not depend on the query but for how often it asks, so it is
computed once: `impact` is tf (k1 + 1) / (tf + k1 (1 - b + b length / average)). The average length
is rounded to one of 64 steps to an octave, that is by half a per cent at most, so that one memory
more does not change every impact; the scores are those of a BM25Okapi whose `avgdl` is that. An idf
has BM25Okapi's floor: a negative one becomes epsilon times the average.

Robertson and Zaragoza 2009, https://doi.org/10.1561/1500000019; the floor is rank_bm25's own.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

# Best of a grid on long conversations and issues; rank_bm25's own defaults are 1.5, .75, .25.
K1, B, EPSILON = 0.9, 0.3, 0.25

STEPS = 64  # of the average length, to an octave
_AT_ONCE = 1 << 18  # postings; bounds the memory of what is computed on the way


@dataclass(frozen=True, slots=True)
class Formula:
    """BM25's parameters."""

    k1: float = K1
    b: float = B
    epsilon: float = EPSILON


def rounded(average: float) -> float:
    """Return the nearest step to an average length; 0 for one of 0."""
    return 2.0 ** (round(math.log2(average) * STEPS) / STEPS) if average > 0 else 0.0


def norms(
    lengths: npt.NDArray[np.int32], average: float, formula: Formula
) -> npt.NDArray[np.float64]:
    """Return what damps the counts of each document, [documents]."""
    k1, b = formula.k1, formula.b
    return k1 * (1 - b + b * lengths.astype(np.float64) / (average or 1.0))


def impacts(
    documents: npt.NDArray[np.uint32],
    counts: npt.NDArray[np.uint16],
    norms: npt.NDArray[np.float64],
    formula: Formula,
) -> npt.NDArray[np.float32]:
    """Return what each posting adds, [postings]; `norms` are of all documents."""
    found = np.empty(len(counts), np.float32)
    for start in range(0, len(counts), _AT_ONCE):
        some = slice(start, start + _AT_ONCE)
        found[some] = counts[some] * (formula.k1 + 1) / (counts[some] + norms[documents[some]])
    return found


def okapi_idf(
    frequencies: npt.NDArray[np.int64], documents: int, epsilon: float = EPSILON
) -> tuple[npt.NDArray[np.float64], float]:
    """Return BM25Okapi's idf for document frequencies, and the average its floor is made of.

    A term of no document that counts weighs nothing, and is not part of the average.
    """
    held = frequencies > 0
    found = np.zeros(len(frequencies))
    if not held.any():
        return found, 0.0
    counts = frequencies[held]
    idf = np.log(documents - counts + 0.5) - np.log(counts + 0.5)
    average = float(idf.sum()) / len(idf)
    found[held] = np.where(idf < 0, epsilon * average, idf)
    return found, average


def sample_coverage(once: int, occurrences: int) -> float:
    """Return the share of a language's running words that a sample has met, by Good and Turing.

    `once` counts the terms in one document only. An empty sample has met nothing.
    """
    return 1.0 - once / occurrences if occurrences else 0.0
