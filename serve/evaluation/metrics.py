"""
How good rankings are, query by query; what a bar on confidence lets through; whether two runs
differ.

Relevance is yes or no. nDCG: Järvelin and Kekäläinen 2002, https://doi.org/10.1145/582415.582418.
The paired bootstrap: Sakai 2006, https://doi.org/10.1145/1148170.1148261.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

CUTS = (1, 3, 5, 10, 20)
DEPTH = 10  # ranks that MRR and nDCG look at
RESAMPLES = 10_000

Values = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Judged:
    """Rankings beside what is relevant.

    `found` [queries, ranks] says where a relevant one stands, `relevant` [queries] how many there
    are, at least one of each query.
    """

    found: npt.NDArray[np.bool_]
    relevant: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Interval:
    """The mean of paired differences and where 95 % of its resampled means lie."""

    mean: float
    low: float
    high: float


def judge(rankings: Sequence[Sequence[str]], relevant: Sequence[Collection[str]]) -> Judged:
    """Return each ranking (best first) judged by the ids relevant to its query.

    An id counts at its first place only; what follows a repeat moves up.
    """
    distinct = [list(dict.fromkeys(ranking)) for ranking in rankings]
    found = np.zeros((len(distinct), max(map(len, distinct), default=0)), np.bool_)
    for row, ranking, wanted in zip(found, distinct, map(set, relevant), strict=True):
        row[: len(ranking)] = [id_ in wanted for id_ in ranking]
    return Judged(found, np.array([len(set(wanted)) for wanted in relevant], np.int64))


def measures(judged: Judged) -> dict[str, Values]:
    """Return every measure we report by its name, each [queries]."""
    return {
        **{f"recall@{k}": recall_at(judged, k) for k in CUTS},
        **{f"hit@{k}": hit_at(judged, k) for k in CUTS},
        f"mrr@{DEPTH}": mrr(judged, DEPTH),
        f"ndcg@{DEPTH}": ndcg(judged, DEPTH),
    }


def recall_at(judged: Judged, k: int) -> Values:
    """Return the share of the relevant ones among the first `k`, [queries]."""
    share: Values = judged.found[:, :k].sum(axis=1) / judged.relevant
    return share


def hit_at(judged: Judged, k: int) -> Values:
    """Return 1 where a relevant one is among the first `k`, else 0, [queries]."""
    return (recall_at(judged, k) > 0).astype(np.float64)


def mrr(judged: Judged, k: int) -> Values:
    """Return 1 / the rank of the first relevant one of the first `k`, 0 without one, [queries]."""
    found = judged.found[:, :k]
    first: Values = (found / np.arange(1, found.shape[1] + 1)).max(axis=1, initial=0.0)
    return first


def ndcg(judged: Judged, k: int) -> Values:
    """Return the discounted gain of the first `k` over that of the best order, [queries]."""
    gains = 1.0 / np.log2(np.arange(2, k + 2))
    found = judged.found[:, :k]
    ideal = np.cumsum(gains)[np.minimum(judged.relevant, k) - 1]
    share: Values = found @ gains[: found.shape[1]] / ideal
    return share


def bar(confidences: Values, keep: float) -> float:
    """Return the highest bar that the share `keep` (over 0) of `confidences` [n > 0] clears.

    It is one of them, and what equals the bar clears it.
    """
    return float(np.sort(confidences)[int((1.0 - keep) * len(confidences))])


def clearing(confidences: Values, bar: float) -> float:
    """Return the share of `confidences` [n] that clear a bar; 0 of none."""
    return float((confidences >= bar).mean()) if len(confidences) else 0.0


def paired_bootstrap(differences: Values, generator: np.random.Generator) -> Interval:
    """Return the mean of `differences` [n > 0] and its 95 % interval over resampled queries."""
    means = [generator.choice(differences, len(differences)).mean() for _ in range(RESAMPLES)]
    low, high = np.percentile(means, [2.5, 97.5])
    return Interval(float(differences.mean()), float(low), float(high))
