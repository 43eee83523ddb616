"""
How sure recall is that a candidate answers the query, in [0, 1] and comparable between queries.

Two kinds of evidence, either of which suffices: the share of the query's information that the
memory's own words cover (idf mass), and the cosine of their vectors. They are joined as independent
(noisy or, Pearl 1988).
"""

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]


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


def confidence(covered: Values, cosines: Values) -> Values:
    """Return the noisy or of coverage and cosine, [candidates]; a negative cosine says nothing."""
    return 1.0 - (1.0 - np.clip(covered, 0.0, 1.0)) * (1.0 - np.clip(cosines, 0.0, 1.0))
