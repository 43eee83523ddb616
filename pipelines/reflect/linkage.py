"""
Average linkage: groups of points whose members are alike on average, each pair counting the same.

The nearest-neighbour chain finds the pairs to merge in n^2 steps and n^2 numbers of memory, with
the same groups as merging the most similar pair over and over, for average linkage never makes two
groups more alike than either was to what it was merged with.

Murtagh 1983, https://doi.org/10.1093/comjnl/26.4.354; the update is Lance and Williams 1967.
"""

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float32]
Members = npt.NDArray[np.int64]


def groups(similarity: Matrix, least: float, most: int) -> list[Members]:
    """Return the groups of two or more, each ascending, the one with the smallest member first.

    `similarity` [n, n] is symmetric and is overwritten. Two groups are merged while the mean
    similarity between their members is `least` or more and they are `most` together or fewer.
    """
    count = len(similarity)
    np.fill_diagonal(similarity, -np.inf)
    sizes = np.ones(count, np.int64)
    parent = np.arange(count)
    chain: list[int] = []
    waiting = np.ones(count, np.bool_)  # may still be merged
    while chain or waiting.any():
        if not chain:
            chain.append(int(waiting.argmax()))
        last = chain[-1]
        row = np.where(waiting & (sizes + sizes[last] <= most), similarity[last], -np.inf)
        nearest = int(row.argmax())
        if len(chain) > 1 and row[chain[-2]] >= row[nearest]:
            nearest = chain[-2]  # of equals the one we came from, or the chain never ends
        if row[nearest] < least:
            waiting[last] = False
            chain.pop()
        elif len(chain) > 1 and nearest == chain[-2]:
            del chain[-2:]
            _merge(similarity, sizes, last, nearest)
            parent[nearest] = last
            waiting[nearest] = False
        else:
            chain.append(nearest)
    return _gathered(parent)


def _merge(similarity: Matrix, sizes: Members, into: int, other: int) -> None:
    """Let a group stand for itself and another: its similarities are the means of all pairs."""
    whole = sizes[into] + sizes[other]
    row = (similarity[into] * sizes[into] + similarity[other] * sizes[other]) / whole
    row[into] = -np.inf
    similarity[into], similarity[:, into] = row, row
    sizes[into] = whole


def _gathered(parent: Members) -> list[Members]:
    roots = parent.copy()
    while (roots != roots[roots]).any():
        roots = roots[roots]
    order = np.argsort(roots, kind="stable")
    starts = np.flatnonzero(np.diff(roots[order], prepend=-1))
    found = [some for some in np.split(order, starts[1:]) if len(some) > 1]
    return sorted(found, key=lambda some: int(some[0]))
