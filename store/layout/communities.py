"""
Communities: nodes that are joined to one another more than chance would join them.

The local moving of Louvain (Blondel et al. 2008, https://doi.org/10.1088/1742-5468/2008/10/P10008),
for all nodes at once. Two that would swap for ever are kept apart by halves: in a round only the
nodes of one half may move, and the halves are others in every round.
"""

import numpy as np
import numpy.typing as npt

from store.layout.graph import Graph, Ints

ROUNDS = 12
_MIX = np.uint64(0x9E3779B97F4A7C15)  # of Fibonacci hashing


def levels(graph: Graph) -> list[tuple[Graph, Ints]]:
    """Return graphs of communities, each of the communities before it, as long as that gains.

    With each comes the community that every node of the graph before it is in.
    """
    found: list[tuple[Graph, Ints]] = []
    while len(graph):
        label = communities(graph)
        merged = graph.merged(label)
        if merged.modularity <= graph.modularity:
            break
        found.append((merged, label))
        graph = merged
    return found


def communities(graph: Graph) -> Ints:
    """Return each node's community, numbered from 0 on without a gap, [n]."""
    label: Ints = np.arange(len(graph))
    for turn in range(ROUNDS if len(graph.weight) else 0):
        best = _best(graph, label)
        moves = (best != label) & _half(len(graph), turn)
        if turn > 1 and not moves.any():
            break
        label = np.where(moves, best, label)
    return np.unique(label, return_inverse=True)[1]


def _best(graph: Graph, label: Ints) -> Ints:
    """Return the community in which each node gains the most modularity: its own where equal."""
    count, degree = len(graph), graph.degree
    node = np.concatenate([graph.source, graph.target])
    towards = label[np.concatenate([graph.target, graph.source])]
    # every node is joined to its own community, be it by nothing
    keys = np.concatenate([node * count + towards, np.arange(count) * count + label])
    weight = np.concatenate([graph.weight, graph.weight, np.zeros(count)])
    keys, which = np.unique(keys, return_inverse=True)
    at, into = keys // count, keys % count
    is_own = into == label[at]
    total = np.bincount(label, degree, count)
    others = total[into] - np.where(is_own, degree[at], 0.0)
    gain = np.bincount(which, weight) - degree[at] * others / np.cumsum(degree)[-1]
    order = np.lexsort((-into, is_own, gain, at))  # the best of each node comes last
    best: Ints = into[order[np.flatnonzero(np.diff(at[order], append=count))]]
    return best


def _half(count: int, turn: int) -> npt.NDArray[np.bool_]:
    mixed = (np.arange(count, dtype=np.uint64) + np.uint64(turn * count + 1)) * _MIX
    stays: npt.NDArray[np.bool_] = (mixed >> np.uint64(40)) & np.uint64(1) == 0
    return ~stays
