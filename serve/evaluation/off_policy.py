"""
The worth of another policy, estimated on the log of the policy in use.

Self-normalised importance sampling: each recall counts by the inverse probability of its action, so
that rare trials represent the untried ones. The interval is the normal one of the ratio's
linearised variance (Owen, Monte Carlo theory, 2013, chapter 9.2, https://artowen.su.domains/mc/),
with two more rewards, 1 and -1, in the variance: a few recalls that agree are not certain. The
recalls of two actions are different ones, so variances add.

Only recalls with a chance of another action count: in the others an action was never compared with
another.
"""

from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]

SIGMAS = 1.96  # of the 95 % interval


class Worth(msgspec.Struct, frozen=True):
    """The mean reward of an action, its standard error, and the number of recalls behind it.

    `samples` is the effective number: unequal weights count for less than as many equal ones.
    """

    mean: float
    error: float
    samples: float


class Gain(msgspec.Struct, frozen=True):
    """The gain of a change in mean reward, and the ends of its 95 % interval."""

    value: float
    low: float
    high: float


def worth(rewards: Values, weights: Values) -> Worth:
    """Return the worth of an action by rewards, [n], in [-1, 1], and weights, [n], above 0.

    Without rewards the mean is 0 with an error of 1.
    """
    if not len(rewards):
        return Worth(0.0, 1.0, 0.0)
    total = float(weights.sum())
    mean = float(weights @ rewards) / total
    usual = total / len(weights)
    spread = float((weights**2) @ ((rewards - mean) ** 2))
    spread += usual**2 * ((1.0 - mean) ** 2 + (1.0 + mean) ** 2)
    return Worth(mean, float(np.sqrt(spread)) / total, total**2 / float(weights @ weights))


def gain(served: Worth, other: Worth, share: float = 1.0) -> Gain:
    """Return the gain of another policy that is applied to a share of all recalls."""
    value = share * (other.mean - served.mean)
    error = share * float(np.hypot(served.error, other.error))
    return Gain(value, value - SIGMAS * error, value + SIGMAS * error)


def total_gain(gains: Sequence[Gain]) -> Gain:
    """Return the gain of several changes that touch different recalls; none are worth 0."""
    value = sum(change.value for change in gains)
    error = float(np.sqrt(sum((change.value - change.low) ** 2 for change in gains)))
    return Gain(value, value - error, value + error)
