"""
One ranking out of several whose scores cannot be compared as they are.

By rank: reciprocal rank fusion, Cormack, Clarke and Buettcher, SIGIR 2009,
https://doi.org/10.1145/1571941.1572114. By score: evidence in [0, 1], summed by weight (the linear
combination of Bruch, Gai and Ingber 2023, https://doi.org/10.1145/3596512).
"""

from collections.abc import Mapping, Sequence
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


def beside(
    rankings: Sequence[Ranking], scores: Sequence[npt.NDArray[np.float32]], *, k: int = K
) -> Scores:
    """Return what documents that are in no ranking would gain by `reciprocal_rank`, [n].

    `scores` are theirs in each ranking, [n]: they gain by the rank these would have. One of no
    more than 0 gains nothing. No rankings give an empty array.
    """
    gains = np.zeros(len(scores[0]) if scores else 0)
    for one, said in zip(rankings, scores, strict=True):
        ranks = np.searchsorted(-one.scores, -said)
        gains += np.where(said > 0, one.weight / (k + 1 + ranks), 0.0)
    return gains


def weighted_sum(
    docs: Docs, evidence: Mapping[str, Scores], weights: Mapping[str, float]
) -> tuple[Docs, Scores, npt.NDArray[np.int64]]:
    """Return `docs` by the weighted sum of their evidence, the sums, and the order taken, all [n].

    Each kind of evidence is [n] and in [0, 1], so that a poor best of one kind stays poor beside
    a good one of another. Best first; of equal sums the newer (higher) document first.
    """
    scores = np.zeros(len(docs))
    for name in sorted(evidence):  # sums of floats depend on their order
        scores += weights[name] * evidence[name]
    order = np.lexsort((-docs, -scores))
    return docs[order], scores[order], order


def _summed(docs: Sequence[Docs], gains: Sequence[Scores]) -> tuple[Docs, Scores]:
    every = np.concatenate([np.empty(0, np.int64), *docs])
    found, where = np.unique(every, return_inverse=True)
    scores = np.zeros(len(found))
    np.add.at(scores, where, np.concatenate([np.empty(0), *gains]))
    order = np.lexsort((-found, -scores))
    return found[order], scores[order]
