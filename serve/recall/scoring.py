"""
Scoring, as pure functions of arrays: fusion, signals of a profile, decay, and confidence.

Fusion by rank is reciprocal rank fusion (Cormack, Clarke and Buettcher, SIGIR 2009,
https://doi.org/10.1145/1571941.1572114); by score it is a weighted sum of evidence in [0, 1]
(Bruch, Gai and Ingber 2023, https://doi.org/10.1145/3596512).

A profile orders the candidates by several signals. Generative Agents (Park et al. 2023,
https://doi.org/10.1145/3586183.3606763) use a weighted mean of recency, relevance, importance and
more; a mean lets a fresh or important memory pass a better answer. `with_priors` does not: it can
only swap memories whose scores are nearly equal.

Importance decays exponentially with the time since a memory was last used or changed, its half-life
stretched by how often it was recalled (Ebbinghaus 1885; MemoryBank, Zhong et al. 2024,
https://doi.org/10.1609/aaai.v38i17.29946). Only the part above the usual importance fades.

Confidence is the probability that a candidate answers the query, comparable between queries: a
logistic model of the nearness of its vector (calibrated, so that embedding models compare), the
number of the query's words it has and the rarest of them, and the share of the query that the
memory does not know. The last counts as far as the memory's vocabulary is complete: its sample
coverage (Good 1953, https://doi.org/10.1093/biomet/40.3-4.237). The coefficients were fitted as
tests/bench/fit_confidence.py fits them (its last run differs by .6 at most) on conversations,
notes, code and six languages; docs/recall.md has the results on workspaces left out.
"""

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

K = 60  # the paper's constant; damps the lead of the first ranks

Docs = npt.NDArray[np.int64]
Scores = npt.NDArray[np.float64]


class Ranking(msgspec.Struct, frozen=True):
    """One channel's candidates, best first, without repeats, and their scores, both [n]."""

    docs: Docs
    scores: npt.NDArray[np.float32]
    weight: float = 1.0


def reciprocal_rank(rankings: Sequence[Ranking], *, k: int = K) -> tuple[Docs, Scores]:
    """Return every document of any ranking and the sum of weight / (k + rank), ranks from 1.

    Both are [n], best first; of equal scores the newer (higher) document first. A document that a
    ranking misses gains nothing from it. No rankings give two empty arrays.
    """
    gains = [ranking.weight / (k + 1 + np.arange(len(ranking.docs))) for ranking in rankings]
    every = np.concatenate([np.empty(0, np.int64), *(ranking.docs for ranking in rankings)])
    docs, where = np.unique(every, return_inverse=True)
    scores = np.zeros(len(docs))
    np.add.at(scores, where, np.concatenate([np.empty(0), *gains]))
    order = np.lexsort((-docs, -scores))
    return docs[order], scores[order]


def beside(
    rankings: Sequence[Ranking], scores: Sequence[npt.NDArray[np.float32]], *, k: int = K
) -> Scores:
    """Return the gain by `reciprocal_rank` of documents that are in no ranking, [n].

    `scores` are theirs in each ranking, [n]: they gain by the rank these would have. Scores of 0 or
    less gain nothing. The array is empty without rankings.
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


Times = npt.NDArray[np.int64]
Values = npt.NDArray[np.float64]

DECAY = 0.995  # of recency, an hour: a half in 138 hours
HOUR = 3_600 * 1_000_000  # microseconds
# Ratings without effect that a memory starts with: one verdict moves it by a third of the way.
SHRINK = 2.0
JUDGED = 0.2  # a job's judgment as a share of a person's or an agent's rating
NEUTRAL = 0.5


def recency(last: Times, now: int) -> Values:
    """Return 0.995 to the power of the hours since `last`, microseconds; the future is now."""
    hours = np.maximum(now - last, 0) / HOUR
    values: Values = np.power(DECAY, hours)
    return values


def relevance(scores: Values, repeats: npt.NDArray[np.bool_]) -> Values:
    """Return the scores as shares of the greatest, 1 at most; zeros without a positive score.

    `repeats`, [scores], marks documents that repeat others; they set the greatest only if all do.
    """
    measured = scores if repeats.all() else scores[~repeats]
    greatest = float(measured.max(initial=0.0))
    if greatest <= 0:
        return np.zeros(len(scores))
    shares: Values = np.clip(scores / greatest, 0.0, 1.0)
    return shares


def usefulness(verdicts: Values, ratings: Values) -> Values:
    """Return the mean verdict, [-1, 1], shrunk to nothing if there are few; none gives 0."""
    means: Values = np.clip(verdicts / (ratings + SHRINK), -1.0, 1.0)
    return means


def weighted_mean(signals: Mapping[str, Values], weights: Mapping[str, float]) -> Values:
    """Return the mean of the signals by weight, in [0, 1]; one weight at least is over 0.

    Every weight has its signal, and all signals have one shape.
    """
    total = sum(weights.values())
    return np.asarray(
        sum(weights[name] / total * signals[name] for name in sorted(weights)), np.float64
    )


def with_priors(
    scores: Values, priors: Mapping[str, Values], bounds: Mapping[str, float]
) -> Values:
    """Return the scores, each changed by its priors in [-1, 1]: at most by the sum of the bounds.

    Of two scores further apart than that the higher stays higher; priors of 0 change nothing.
    """
    changed: Values = scores * (
        1.0 + np.asarray(sum(bounds[name] * priors[name] for name in sorted(bounds)), np.float64)
    )
    return changed


Counts = npt.NDArray[np.int64]

Mask = npt.NDArray[np.bool_]

USUAL = 0.5  # the importance of a memory without a stated one
HALF_LIFE_DAYS = 90.0
LASTING = 4.0  # times the half-life, for a lasting kind
# the kinds that stay binding for long
LASTING_KINDS = ("antipattern", "decision", "goal", "lesson", "preference")
_DAY = 86_400 * 1_000_000  # microseconds


def decay(importance: Values, idle: Times, uses: Counts, lasting: Mask, pinned: Mask) -> Values:
    """Return importances in [0, 1] after decay; all arrays are [n].

    `idle` is the time since the last use or change in microseconds, a negative one counts as 0;
    `uses` the number of recalls. An importance above USUAL falls towards it; others, and pinned
    ones, stay.
    """
    stretch = np.where(lasting, LASTING, 1.0) * (1.0 + np.log2(1.0 + np.maximum(uses, 0)))
    left = np.power(0.5, np.maximum(idle, 0) / (_DAY * HALF_LIFE_DAYS * stretch))
    over = np.maximum(importance - USUAL, 0.0)
    values: Values = np.where(pinned, importance, importance - over * (1.0 - left))
    return values


class Model(msgspec.Struct, frozen=True):
    """Coefficients of the logistic model; the `alone` ones apply if no word is known at all."""

    near: float
    words: float
    rarest: float
    unknown: float
    bias: float
    near_alone: float
    bias_alone: float


MEANING = Model(2.49, 1.38, 2.88, -2.17, -4.56, near_alone=10.4, bias_alone=-4.7)
# near_alone: hashed letters alone indicate a misspelt word; more careful than the fit
LETTERS = Model(2.95, 1.56, 3.34, -3.36, -4.31, near_alone=50.0, bias_alone=-5.5)


def coverage(matched: npt.NDArray[np.float32], weights: Values) -> Values:
    """Return each candidate's share of the query's weight, [candidates].

    `matched` is [terms, candidates], in [0, 1], `weights` [terms] and not negative. The shares are
    0 for a query without terms, or whose terms have no weight.
    """
    total = weights.sum()
    if total <= 0:
        return np.zeros(matched.shape[1])
    share: Values = weights @ matched / total
    return share


def confidence(model: Model, near: Values, words: Values, rarest: Values, unknown: float) -> Values:
    """Return the probability that each candidate answers, [candidates].

    `near` is in [0, 1]; `words` counts the query's different ones that a candidate holds, common
    and similar ones in part; `rarest` is in [0, 1] how rare the rarest of them is, times the share
    of the query's weight that it holds; `unknown` is the share that no memory holds, in [0, 1].
    Where that is all of it, or the query has no words, the vector speaks alone.
    """
    if unknown >= 1.0:
        return _logistic(model.near_alone * near + model.bias_alone)
    odds = model.near * near + model.words * np.log1p(words) + model.rarest * rarest
    return _logistic(odds + model.unknown * unknown + model.bias)


LISTED, OTHER_KIND, OTHER_TIME = 0.8, 0.5, 0.1


def listing_confidence(within: Mask, of_kind: Mask) -> Values:
    """Return the confidence of each candidate for a question that lists a time, [candidates].

    Candidates made `within` it are answers, with less confidence if of another kind.
    """
    sure: Values = np.where(within, np.where(of_kind, LISTED, OTHER_KIND), OTHER_TIME)
    return sure


def _logistic(odds: Values) -> Values:
    chances: Values = 1.0 / (1.0 + np.exp(-odds))
    return chances
