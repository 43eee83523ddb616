"""
One ranking out of several whose scores cannot be compared as they are.

By rank: reciprocal rank fusion, Cormack, Clarke and Buettcher, SIGIR 2009,
https://doi.org/10.1145/1571941.1572114. By score: each channel brought to [0, 1] by its own least
and greatest candidate, then summed by weight (min-max, as in Lee 1997,
https://doi.org/10.1145/258525.258587).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

K = 60  # the paper's constant; damps the lead of the first ranks

Docs = npt.NDArray[np.int64]
Scores = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Ranking:
    """One channel's candidates, best first, without repeats, and their scores, both [n]."""

    docs: Docs
    scores: npt.NDArray[np.float32]
    weight: float = 1.0


def reciprocal_rank(rankings: Sequence[Ranking], *, k: int = K) -> tuple[Docs, Scores]:
    """Return every document of any ranking and the sum of weight / (k + rank), ranks from 1.

    Both are [n], best first; of equal scores the newer (higher) document first. A document that a
    ranking misses gains nothing from it. No rankings give two empty arrays.
    """
    gains = [one.weight / (k + 1 + np.arange(len(one.docs))) for one in rankings]
    return _summed([one.docs for one in rankings], gains)


def weighted_sum(rankings: Sequence[Ranking]) -> tuple[Docs, Scores]:
    """Return every document of any ranking and the weighted sum of its scores brought to [0, 1].

    Order as in `reciprocal_rank`. A channel whose candidates all score the same gives each 1.
    """
    return _summed([one.docs for one in rankings], [one.weight * _unit(one) for one in rankings])


def _unit(ranking: Ranking) -> Scores:
    if not len(ranking.docs):
        return np.empty(0)
    scores = ranking.scores.astype(np.float64)
    span = scores.max() - scores.min()
    unit: Scores = (scores - scores.min()) / span if span > 0 else np.ones(len(scores))
    return unit


def _summed(docs: Sequence[Docs], gains: Sequence[Scores]) -> tuple[Docs, Scores]:
    every = np.concatenate([np.empty(0, np.int64), *docs])
    found, where = np.unique(every, return_inverse=True)
    scores = np.zeros(len(found))
    np.add.at(scores, where, np.concatenate([np.empty(0), *gains]))
    order = np.lexsort((-found, -scores))
    return found[order], scores[order]
