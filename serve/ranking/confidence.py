"""
How sure recall is that a candidate answers the query, in [0, 1] and comparable between queries.

Two kinds of evidence, either of which suffices: the share of the query's information that the
memory's own words cover (idf mass), and the cosine of their vectors. They are joined as independent
(noisy or, Pearl 1988). One shared word is weaker evidence than several that weigh as much: it may
mean something else.
"""

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]

# One word of several is taken for 4/5, two for 8/9.
DOUBT = 0.25


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


def confidence(covered: Values, cosines: Values, words: npt.NDArray[np.int64]) -> Values:
    """Return the noisy or of coverage and cosine, less a doubt where few words agree, [candidates].

    `words` counts the different ones a candidate holds; none, found by its letters, is taken for
    one. What covers the whole query is not doubted. A negative cosine says nothing.
    """
    either = 1.0 - (1.0 - np.clip(covered, 0.0, 1.0)) * (1.0 - np.clip(cosines, 0.0, 1.0))
    agreeing = np.maximum(words, 1)
    sure: Values = np.where(covered >= 1.0 - 1e-9, either, either * agreeing / (agreeing + DOUBT))
    return sure
