"""
How likely it is that a candidate answers the query, in [0, 1] and comparable between queries.

A logistic model of four kinds of evidence: what its vector says (calibrated, so another embedding
model means the same), the share of the query's information its words cover, how many words agree,
and how much of the query the memory never heard of. The last counts as far as the memory's
vocabulary is complete: its sample coverage (Good 1953, https://doi.org/10.1093/biomet/40.3-4.237),
small for a few notes, near one for a long history.

The coefficients were fitted on answered questions against prompts that deserve nothing, the best
hit of each (docs/recall.md); vectors of a model that knows meaning tell more than hashed letters.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Model:
    """Coefficients of the logistic model; the `alone` ones hold where no word is known at all."""

    near: float
    covered: float
    words: float
    unknown: float
    bias: float
    near_alone: float
    bias_alone: float


MEANING = Model(5.5, 3.5, 1.0, -4.2, -4.1, near_alone=10.4, bias_alone=-4.7)
# alone, hashed letters stand for a misspelt word: more careful than the fit
LETTERS = Model(7.7, 3.8, 1.3, -5.7, -2.8, near_alone=50.0, bias_alone=-5.5)


def coverage(matched: npt.NDArray[np.bool_], weights: Values) -> Values:
    """Return the share of the query's weight that each candidate holds, [candidates].

    `matched` is [terms, candidates], `weights` [terms] and not negative. A query without terms, or
    whose terms weigh nothing, is covered by nothing.
    """
    total = weights.sum()
    if total <= 0:
        return np.zeros(matched.shape[1])
    share: Values = weights @ matched / total
    return share


def confidence(
    model: Model, near: Values, covered: Values, words: Values, unknown: float
) -> Values:
    """Return the probability that each candidate answers, [candidates].

    `near` and `covered` are in [0, 1], `words` counts the different ones a candidate holds, common
    ones in part,
    `unknown` is the share of the query's weight that no memory holds, in [0, 1]. Where that is all
    of it, or the query has no words, the vector speaks alone.
    """
    if unknown >= 1.0:
        return _logistic(model.near_alone * near + model.bias_alone)
    said = model.near * near + model.covered * covered + model.words * np.log1p(words)
    return _logistic(said + model.unknown * unknown + model.bias)


def _logistic(odds: Values) -> Values:
    chances: Values = 1.0 / (1.0 + np.exp(-odds))
    return chances
