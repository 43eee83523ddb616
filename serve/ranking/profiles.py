"""
Profiles: the order of the candidates by several signals, each in [0, 1].

A weighted mean of recency, relevance, importance and more is what Generative Agents (Park et al.
2023, https://doi.org/10.1145/3586183.3606763) and, after them, Pali use. A sum lets a fresh or
important memory pass one that answers better; `with_priors` does not: it can only swap memories
whose scores are nearly equal.
"""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

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
    """Return the scores as shares of the greatest, 1 at most; zeros where none is positive.

    Those that repeat what others say, [scores], are no measure unless there are no others.
    """
    measured = scores if repeats.all() else scores[~repeats]
    greatest = float(measured.max(initial=0.0))
    if greatest <= 0:
        return np.zeros(len(scores))
    shares: Values = np.clip(scores / greatest, 0.0, 1.0)
    return shares


def usefulness(verdicts: Values, ratings: Values) -> Values:
    """Return the mean verdict, [-1, 1], shrunk to nothing where there are few; none gives 0."""
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
