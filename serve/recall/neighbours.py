"""
Scores that a document takes from its neighbours: turns beside it, and its session.

A short turn is often an answer that repeats no word of its question ("By the lake, last summer"),
so it takes a share of its neighbours' scores, most of a neighbour before it that asked. Only turns
that answer another speaker have neighbours (-1: none), so a self-contained memory is ranked by
itself. The neighbours' shares follow passage retrieval with local context (Fernandez et al. 2011,
https://doi.org/10.1007/s10791-010-9146-4).
"""

import numpy as np
import numpy.typing as npt

Docs = npt.NDArray[np.int64]
Links = npt.NDArray[np.int32]  # by document: another document's number, or -1
Mask = npt.NDArray[np.bool_]
Values = npt.NDArray[np.float64]

# A session's share for a memory without an answer: its topic is weak evidence.
UNANSWERED = 0.15
BEST_OF_SESSION = 3  # turns whose vectors represent their session


def take_scores(
    scores: npt.NDArray[np.float32], places: Links, allowed: Mask | None = None
) -> Values:
    """Return the score at each place, [places]; zero for -1 and for a place not allowed.

    `scores` and `allowed` are [documents]; without the latter all are.
    """
    values = np.zeros(len(places))
    linked = np.flatnonzero(places >= 0)
    if allowed is not None:
        linked = linked[allowed[places[linked]]]
    values[linked] = scores[places[linked]]
    return values


def scale(values: Values, greatest: float) -> Values:
    """Return values as shares of the greatest, in [0, 1]; zeros if that is not positive."""
    if greatest <= 0:
        return np.zeros(len(values))
    shares: Values = np.clip(values / greatest, 0.0, 1.0)
    return shares


def turn_shares(
    own: Values, before: Values, after: Values, asked: npt.NDArray[np.bool_]
) -> dict[str, Values]:
    """Return the shares of the turns before and after, and of a turn before that asked.

    All are [documents]; a share is of the greatest score among the documents and their neighbours.
    """
    greatest = max(
        (float(values.max()) for values in (own, before, after) if len(values)), default=0.0
    )
    return {
        "before": scale(before, greatest),
        "after": scale(after, greatest),
        "question": scale(np.where(asked, before, 0.0), greatest),
    }


def session_shares(scores: Values, own: Values, is_turn: npt.NDArray[np.bool_]) -> Values:
    """Return each document's share of its session's score, [documents].

    A turn takes it whole. A note is a session of one: its `own` share in [0, 1] counts, and
    `UNANSWERED` parts of its surrounding session's.
    """
    greatest = float(scores.max()) if len(scores) else 0.0
    shares = scale(scores, greatest)
    return np.where(is_turn, shares, (own + UNANSWERED * shares) / (1.0 + UNANSWERED))


def runs(starts: Links, ends: Links) -> Docs:
    """Return the numbers from each start up to its end, one run after the other."""
    sizes = (ends - starts).astype(np.int64)
    firsts = np.cumsum(sizes) - sizes
    places: Docs = np.arange(sizes.sum()) + np.repeat(starts - firsts, sizes)
    return places


def best_of_groups(scores: npt.NDArray[np.float32], sizes: Links, count: int) -> Values:
    """Return the mean of the `count` greatest scores of each group, [groups].

    `scores` are those of one group after the other; `sizes` are the groups', at least one each.
    Negative scores count as zero, and so do those that a smaller group lacks.
    """
    values = scores.astype(np.float64)
    firsts = np.cumsum(sizes, dtype=np.int64) - sizes
    groups = np.repeat(np.arange(len(sizes)), sizes)
    sums = np.zeros(len(sizes))
    for _ in range(count if len(values) else 0):
        greatest = np.maximum.reduceat(values, firsts)
        sums += np.maximum(greatest, 0.0)
        hits = np.flatnonzero(values == greatest[groups])
        _, one_each = np.unique(groups[hits], return_index=True)
        values[hits[one_each]] = 0.0
    return sums / count
