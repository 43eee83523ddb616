"""
Communities of a weighted graph: groups of nodes with more edges among them than expected by chance.

Sums are made in order, so that the same graph has the same communities on every machine.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Graph:
    """Edge i joins `source[i]` and `target[i]`, once and not to itself, [m].

    `inner` is twice the weight of the edges inside each node, [n], for nodes that were merged.
    """

    source: Ints
    target: Ints
    weight: Floats
    inner: Floats

    def __len__(self) -> int:
        return len(self.inner)

    @cached_property
    def degree(self) -> Floats:
        """The sum of the weights of each node's edges, inner ones included, [n]."""
        return self.at_ends(self.weight, self.weight) + self.inner

    @cached_property
    def modularity(self) -> float:
        """The weight inside the nodes above that expected by chance."""
        total = _sum(self.degree)
        return _sum(self.inner) / total - _sum((self.degree / total) ** 2) if total else 0.0

    def at_ends(self, of_source: Floats, of_target: Floats) -> Floats:
        """Return for each node the sum of its edges' values, [n]."""
        return sum_by(self.source, of_source, len(self)) + sum_by(self.target, of_target, len(self))

    def merge(self, label: Ints) -> "Graph":
        """Return the graph whose nodes are the labels, numbered from 0 on without a gap."""
        count = int(label.max()) + 1
        ends = np.sort(np.stack([label[self.source], label[self.target]]), axis=0)
        within = ends[0] == ends[1]
        keys, which = np.unique((ends[0] * count + ends[1])[~within], return_inverse=True)
        inner = sum_by(label, self.inner, count)
        inner += 2 * sum_by(ends[0, within], self.weight[within], count)
        return Graph(
            keys // count,
            keys % count,
            sum_by(which, self.weight[~within], len(keys)),
            inner,
        )


def sum_by(into: Ints, values: Floats, count: int) -> Floats:
    """Return for each number up to `count` the sum of its values, added in order."""
    return np.bincount(into, values, count).astype(np.float64, copy=False)  # of no value, integers


def _sum(values: Floats) -> float:
    return float(np.cumsum(values)[-1]) if len(values) else 0.0  # in order, as `sum` is not


# The local moving of Louvain (Blondel et al. 2008,
# https://doi.org/10.1088/1742-5468/2008/10/P10008), for all nodes at once. To stop two nodes from
# swapping for ever, only the nodes of one half may move in a round, and the halves change in every
# round.

ROUNDS = 12
_MIX = np.uint64(0x9E3779B97F4A7C15)  # of Fibonacci hashing


def levels(graph: Graph) -> list[tuple[Graph, Ints]]:
    """Return graphs of communities, each of the communities before it, as long as that gains.

    With each comes the community of every node of the graph before it.
    """
    graphs: list[tuple[Graph, Ints]] = []
    while len(graph):
        label = communities(graph)
        merged = graph.merge(label)
        if merged.modularity <= graph.modularity:
            break
        graphs.append((merged, label))
        graph = merged
    return graphs


def communities(graph: Graph) -> Ints:
    """Return each node's community, numbered from 0 on without a gap, [n]."""
    count = len(graph)
    label: Ints = np.arange(count)
    for turn in range(ROUNDS if len(graph.weight) else 0):
        best = _best(graph, label)
        mixed = (np.arange(count, dtype=np.uint64) + np.uint64(turn * count + 1)) * _MIX
        is_of_half = (mixed >> np.uint64(40)) & np.uint64(1) != 0
        moves = (best != label) & is_of_half
        if turn > 1 and not moves.any():
            break
        label = np.where(moves, best, label)
    return np.unique(label, return_inverse=True)[1]


def _best(graph: Graph, label: Ints) -> Ints:
    """Return each node's community of the largest modularity gain, its own in a tie."""
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


def largest_communities(graph: Graph) -> Ints:
    """Return the community of each node, [n], of the coarsest level that gains; numbered from 0,
    largest first, ties by their first node.
    """
    label: Ints = np.arange(len(graph))
    for _, coarser in levels(graph):
        label = coarser[label]
    _, first, community, sizes = np.unique(
        label, return_index=True, return_inverse=True, return_counts=True
    )
    place: Ints = np.argsort(np.lexsort((first, -sizes)))
    return place[community]
