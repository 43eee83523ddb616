"""
Placing: a point in the plane for each node, near those it is joined to and apart from the rest.

Edges pull with the square root of their length, masses push as 1 / distance: between the spring
model, which crowds the middle, and LinLog (Noack 2007, https://doi.org/10.7155/jgaa.00154), which
draws communities apart. It goes from the coarse to the fine (Hu 2005, Efficient and high quality
force-directed graph drawing): communities of communities first, then what they are made of, around
where they lie.
"""

import math
from dataclasses import dataclass

import numpy as np

from store.layout.communities import levels
from store.layout.graph import Floats, Graph, Ints
from store.layout.repulsion import repulsion

STEPS, FINEST_STEPS = 60, 30
_GRAVITY = 0.02  # for each unit of mass: what is joined to nothing stays in sight
_GOLDEN = (3 - math.sqrt(5)) / 2  # of a turn
_LEAST_CELLS, _MOST_CELLS = 64, 256


@dataclass(frozen=True)
class Places:
    """Where each node lies, within 1 of the middle, and which community it is in, [n]."""

    x: Floats
    y: Floats
    community: Ints


def placed(graph: Graph) -> Places:
    """Return the places of a graph's nodes; communities are numbered by mass, the largest first."""
    if not len(graph):
        return Places(np.empty(0), np.empty(0), np.empty(0, np.int64))
    coarser = levels(graph)
    graphs = [graph, *(one for one, _ in coarser)]
    community: Ints = np.argsort(np.argsort(-graphs[-1].mass, kind="stable"))
    x, y = _settled(graphs[-1], *sunflower(community), STEPS)
    for finer, (_, label) in zip(reversed(graphs[:-1]), reversed(coarser), strict=True):
        community = community[label]
        x, y = _unfolded(finer, label, x, y)
        x, y = _settled(finer, x, y, FINEST_STEPS if finer is graph else STEPS)
    x, y = x - (x.max() + x.min()) / 2, y - (y.max() + y.min()) / 2
    reach = math.sqrt(max(float((x * x + y * y).max()), 1e-18))
    return Places(x / reach, y / reach, community)


def _settled(graph: Graph, x: Floats, y: Floats, steps: int) -> tuple[Floats, Floats]:
    """Return places after so many steps, each shorter than the one before."""
    cells = _LEAST_CELLS
    while cells < _MOST_CELLS and cells * cells < 4 * len(graph):
        cells *= 2
    held = _GRAVITY * graph.mass
    for step in range(steps):
        across, down = x[graph.target] - x[graph.source], y[graph.target] - y[graph.source]
        # a square root of a square root: powers are not the same everywhere
        pull = graph.weight / (np.sqrt(np.sqrt(across * across + down * down)) + 1e-3)
        stiff = graph.at_ends(pull, pull) + held
        push_x, push_y = repulsion(x, y, graph.mass, cells)
        move_x = graph.at_ends(pull * across, -pull * across) + graph.mass * push_x - held * x
        move_y = graph.at_ends(pull * down, -pull * down) + graph.mass * push_y - held * y
        move_x, move_y = move_x / stiff, move_y / stiff
        size = max(float(np.ptp(x)), float(np.ptp(y)), 1.0)
        furthest = 0.1 * size * (1 - step / steps)
        length = np.sqrt(move_x * move_x + move_y * move_y) + 1e-12
        share = 0.7 * np.minimum(1.0, furthest / length)
        x, y = x + move_x * share, y + move_y * share
    return x, y


def _unfolded(graph: Graph, label: Ints, x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Return places for nodes around those of their labels, the heaviest in the middle."""
    order = np.lexsort((-graph.mass, label))
    first = np.searchsorted(label[order], np.arange(len(x)))
    rank: Ints = np.empty(len(label), np.int64)
    rank[order] = np.arange(len(label)) - first[label[order]]
    room = 0.6 * math.sqrt(max(float(np.ptp(x)) * float(np.ptp(y)), 1.0) / len(label))
    around_x, around_y = sunflower(rank)
    return x[label] + room * around_x, y[label] + room * around_y


def sunflower(rank: Ints) -> tuple[Floats, Floats]:
    """Return places that fill a disc from the middle, by rank, as the seeds of a sunflower do."""
    turns = (np.arange(int(rank.max(initial=-1)) + 1) * np.float64(_GOLDEN)) % 1.0
    # sine and cosine by their parabolas: near enough for seeds, and the same everywhere
    sine, cosine = _wave(turns), _wave((turns + 0.25) % 1.0)
    spread = np.sqrt(rank + 0.5)
    return spread * cosine[rank], spread * sine[rank]


def _wave(turns: Floats) -> Floats:
    """Return roughly the sine of turns from 0 to 1."""
    half = (turns * 2) % 1.0
    return np.where(turns < 0.5, 1.0, -1.0) * 4 * half * (1 - half)
