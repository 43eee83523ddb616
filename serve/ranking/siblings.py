"""
Siblings: the memories said right before and after some others, in the same session.
"""

import numpy as np
import numpy.typing as npt

Docs = npt.NDArray[np.int64]


def siblings(docs: Docs, session: npt.NDArray[np.int32], at: npt.NDArray[np.int64]) -> Docs:
    """Return the neighbours of `docs` in their sessions, ascending, each once.

    `session` (-1: none) and `at` are [documents]; a session's order is that of `at`, then of the
    numbers. What is no turn of a session has no neighbour.
    """
    turns = docs[session[docs] >= 0]
    rows = np.flatnonzero(np.isin(session, session[turns]))
    said = rows[np.lexsort((rows, at[rows], session[rows]))]
    places = np.flatnonzero(np.isin(said, turns))
    found = [np.empty(0, np.int64)]
    for step in (-1, 1):
        beside = places + step
        inside = (beside >= 0) & (beside < len(said))
        own, other = said[places[inside]], said[beside[inside]]
        found.append(other[session[own] == session[other]])
    return np.unique(np.concatenate(found))
