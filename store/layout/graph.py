"""
Graph: nodes with a mass, joined by weighted edges; what it comes to when nodes are drawn together.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Graph:
    """`mass` is [n]; edge i joins `source[i]` and `target[i]`, once and not to itself, [m].

    `inner` is twice the weight of the edges that each node holds in it, [n]: of one that stands for
    several.
    """

    mass: Floats
    source: Ints
    target: Ints
    weight: Floats
    inner: Floats

    def __len__(self) -> int:
        return len(self.mass)

    @cached_property
    def degree(self) -> Floats:
        """The sum of the weights of each node's edges, those in it among them, [n]."""
        return self.at_ends(self.weight, self.weight) + self.inner

    @cached_property
    def modularity(self) -> float:
        """How much more weight lies in the nodes than chance would put there."""
        total = _sum(self.degree)
        return _sum(self.inner) / total - _sum((self.degree / total) ** 2) if total else 0.0

    def at_ends(self, of_source: Floats, of_target: Floats) -> Floats:
        """Return for each node the sum of what its edges bring to it, [n]."""
        return summed(self.source, of_source, len(self)) + summed(self.target, of_target, len(self))

    def merged(self, label: Ints) -> "Graph":
        """Return the graph whose nodes are the labels, numbered from 0 on without a gap."""
        count = int(label.max()) + 1
        ends = np.sort(np.stack([label[self.source], label[self.target]]), axis=0)
        within = ends[0] == ends[1]
        keys, which = np.unique((ends[0] * count + ends[1])[~within], return_inverse=True)
        inner = summed(label, self.inner, count)
        inner += 2 * summed(ends[0, within], self.weight[within], count)
        return Graph(
            summed(label, self.mass, count),
            keys // count,
            keys % count,
            summed(which, self.weight[~within], len(keys)),
            inner,
        )


def summed(into: Ints, values: Floats, count: int) -> Floats:
    """Return for each number up to `count` the sum of the values it gets, in their order."""
    return np.bincount(into, values, count).astype(np.float64, copy=False)  # of no value, integers


def _sum(values: Floats) -> float:
    return float(np.cumsum(values)[-1]) if len(values) else 0.0  # in order, as `sum` is not
