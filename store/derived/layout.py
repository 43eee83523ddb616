"""
The projection `layout`: the entity graph as it is drawn: places of entities, and the edges shown.

What is drawn are the most mentioned entities and the strongest edges between them; an entity that
no such edge joins to another is left out. Places are computed from the memories up to a step, and
from one step to the next there are up to a sixteenth more: so most builds draw nothing anew, and
the picture that somebody remembers stays. What came since the step lies amid what it is named with.

A graph is drawn by communities and forces, with operations that IEEE 754 fixes to the last bit and
sums in order only: drawn again, on another machine or by another numpy, it looks the same.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from store.derived.entity_graph import UNIT, pairs
from store.snapshots.projection import Inputs, Made, Previous, Projection, Tables, column_view

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
            sum_by(label, self.mass, count),
            keys // count,
            keys % count,
            sum_by(which, self.weight[~within], len(keys)),
            inner,
        )


def sum_by(into: Ints, values: Floats, count: int) -> Floats:
    """Return for each number up to `count` the sum of the values it gets, in their order."""
    return np.bincount(into, values, count).astype(np.float64, copy=False)  # of no value, integers


def _sum(values: Floats) -> float:
    return float(np.cumsum(values)[-1]) if len(values) else 0.0  # in order, as `sum` is not


# Communities: nodes that are joined to one another more than chance would join them.
#
# The local moving of Louvain (Blondel et al. 2008,
# https://doi.org/10.1088/1742-5468/2008/10/P10008), for all nodes at once. Two that would swap for
# ever are kept apart by halves: in a round only the nodes of one half may move, and the halves are
# others in every round.

ROUNDS = 12
_MIX = np.uint64(0x9E3779B97F4A7C15)  # of Fibonacci hashing


def levels(graph: Graph) -> list[tuple[Graph, Ints]]:
    """Return graphs of communities, each of the communities before it, as long as that gains.

    With each comes the community that every node of the graph before it is in.
    """
    found: list[tuple[Graph, Ints]] = []
    while len(graph):
        label = communities(graph)
        merged = graph.merge(label)
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


# Repulsion: how masses in the plane push one another apart, as 1 / distance.
#
# They do so down the slope of a potential that falls with the logarithm of the distance. Such a
# potential is one bump for each octave, all of one height: the masses are counted on a grid, on one
# half as fine, and so on; each count is blurred a little, and their sum is the potential. The
# pyramid is that of Burt and Adelson (1983, https://doi.org/10.1109/TCOM.1983.1095851). It costs
# what the grid costs, however many masses there are; what is nearer than a cell is not told apart.

_MARGIN = 1.6  # sides of the grid for one of the masses: at its end it is less exact
_COARSEST = 4  # cells a side


def repulsion(x: Floats, y: Floats, mass: Floats, cells: int) -> tuple[Floats, Floats]:
    """Return the push along both axes on a unit of mass at each place, [n].

    `cells` is how many the grid has a side, a power of two.
    """
    side = max(float(np.ptp(x)), float(np.ptp(y)), 1e-9)
    scale = cells / (side * _MARGIN)
    column = (x - float(x.min())) * scale + cells * (1 - 1 / _MARGIN) / 2
    row = (y - float(y.min())) * scale + cells * (1 - 1 / _MARGIN) / 2
    corners = _corners(column, row, cells)
    count = np.zeros(cells * cells)
    for at, share in corners:
        count += np.bincount(at, mass * share, len(count))
    wide = np.pad(_potential(count.reshape(cells, cells)), 1, mode="edge")
    right = ((wide[1:-1, :-2] - wide[1:-1, 2:]) * (scale / 2)).ravel()
    down = ((wide[:-2, 1:-1] - wide[2:, 1:-1]) * (scale / 2)).ravel()
    push_x, push_y = np.zeros(len(x)), np.zeros(len(x))
    for at, share in corners:
        push_x += right[at] * share
        push_y += down[at] * share
    return push_x, push_y


def _corners(column: Floats, row: Floats, cells: int) -> list[tuple[Ints, Floats]]:
    """Return the four cells around each place and how much of it each one gets."""
    left, top = column.astype(np.int64), row.astype(np.int64)
    across, down = column - left, row - top
    first = top * cells + left
    return [
        (first, (1 - down) * (1 - across)),
        (first + 1, (1 - down) * across),
        (first + cells, down * (1 - across)),
        (first + cells + 1, down * across),
    ]


def _potential(count: Floats) -> Floats:
    """Return the potential of masses that were counted on a square grid."""
    total = _blur(count)
    if len(count) <= _COARSEST:
        return total
    half = count[::2, ::2] + count[1::2, ::2] + count[::2, 1::2] + count[1::2, 1::2]
    return total + _upsample(_potential(half))


def _blur(grid: Floats) -> Floats:
    """Return a grid blurred by 1 4 6 4 1 along both axes, each bump as high as its mass."""
    for _ in range(2):
        wide = np.pad(grid, ((2, 2), (0, 0)))
        near, far = wide[1:-3] + wide[3:-1], wide[:-4] + wide[4:]
        grid = (grid + near * (4 / 6) + far * (1 / 6)).T
    return grid


def _upsample(grid: Floats) -> Floats:
    """Return a grid twice as fine, with what lies between the old cells' middles."""
    for _ in range(2):
        wide = np.pad(grid, ((1, 1), (0, 0)), mode="edge")
        finer = np.empty((2 * len(grid), grid.shape[1]))
        finer[::2] = 0.75 * grid + 0.25 * wide[:-2]
        finer[1::2] = 0.75 * grid + 0.25 * wide[2:]
        grid = finer.T
    return grid


# Placing: a point in the plane for each node, near those it is joined to and apart from the rest.
#
# Edges pull with the square root of their length, masses push as 1 / distance: between the spring
# model, which crowds the middle, and LinLog (Noack 2007, https://doi.org/10.7155/jgaa.00154), which
# draws communities apart. It goes from the coarse to the fine (Hu 2005, Efficient and high quality
# force-directed graph drawing): communities of communities first, then what they are made of,
# around where they lie.

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


def place_nodes(graph: Graph) -> Places:
    """Return the places of a graph's nodes; communities are numbered by mass, the largest first."""
    if not len(graph):
        return Places(np.empty(0), np.empty(0), np.empty(0, np.int64))
    coarser = levels(graph)
    graphs = [graph, *(one for one, _ in coarser)]
    community: Ints = np.argsort(np.argsort(-graphs[-1].mass, kind="stable"))
    x, y = _relax(graphs[-1], *sunflower(community), STEPS)
    for finer, (_, label) in zip(reversed(graphs[:-1]), reversed(coarser), strict=True):
        community = community[label]
        x, y = _unfold(finer, label, x, y)
        x, y = _relax(finer, x, y, FINEST_STEPS if finer is graph else STEPS)
    x, y = x - (x.max() + x.min()) / 2, y - (y.max() + y.min()) / 2
    reach = math.sqrt(max(float((x * x + y * y).max()), 1e-18))
    return Places(x / reach, y / reach, community)


def _relax(graph: Graph, x: Floats, y: Floats, steps: int) -> tuple[Floats, Floats]:
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


def _unfold(graph: Graph, label: Ints, x: Floats, y: Floats) -> tuple[Floats, Floats]:
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


# The projection: which entities and edges are drawn, and the places taken over from before.

MOST_ENTITIES = 20_000
MOST_EDGES = 40_000
MOST_LATER = 2_000  # entities that came since the step
LONGEST = 64  # entities of a memory; one that names more lists them, and joins none
ALL_ANEW = 2_000  # memories; with fewer, each is a step
_APART = 0.004  # between what came since the step

NODES = pa.schema(
    [
        ("entity", pa.int32()),  # ascending
        ("x", pa.float32()),  # from -1 to 1, as y
        ("y", pa.float32()),
        ("community", pa.int32()),  # from 0 on, the heaviest first
    ]
)
LINES = pa.schema(  # rows of the nodes; the strongest first
    [("source", pa.int32()), ("target", pa.int32()), ("weight", pa.float32())]
)
STEP = pa.schema([("x", pa.float64()), ("y", pa.float64()), ("community", pa.int64())])
MARK = pa.schema([("graph", pa.string())])  # SHA-256 of the graph whose places the step's are
SCHEMAS = {"nodes": NODES, "lines": LINES, "step": STEP, "mark": MARK}


def build(inputs: Inputs, previous: Previous | None) -> Made:
    """Return where entities lie; the places of an equal graph are taken over."""
    tables = inputs.tables["entities"]
    entity, document = (
        column_view(tables["mentions"], name).astype(np.int64) for name in ("entity", "document")
    )
    if not len(entity):
        return {name: schema.empty_table() for name, schema in SCHEMAS.items()}
    count = tables["entities"].num_rows
    before = document < _step(int(document.max()) + 1)
    drawn, graph = _graph(entity[before], document[before], count)
    mark = _mark(graph)
    places = _previous_places(previous, mark) or place_nodes(graph)
    is_later = np.ones(count, np.bool_)
    is_later[entity[before]] = False
    nodes = _nodes(tables, drawn, places, is_later)
    return {
        "nodes": nodes,
        "lines": _lines(tables["edges"], column_view(nodes, "entity"), count),
        "step": pa.table([places.x, places.y, places.community], schema=STEP),
        "mark": pa.table([[mark]], schema=MARK),
    }


LAYOUT_PROJECTION = Projection(
    name="layout",
    version="1",
    inputs=("entities",),
    schemas=SCHEMAS,
    build=build,
    for_builds=frozenset({"step", "mark"}),
)


def _step(memories: int) -> int:
    """Return how many memories the places are of: their number, but for its first five bits."""
    if memories <= ALL_ANEW:
        return memories
    shift = max(0, memories.bit_length() - 5)
    return memories >> shift << shift


def _graph(entity: Ints, document: Ints, count: int) -> tuple[Ints, Graph]:
    """Return the entities that are drawn, ascending, and their graph."""
    mentions = np.bincount(entity, minlength=count)
    often = np.zeros(count, np.bool_)
    often[np.argsort(-mentions, kind="stable")[:MOST_ENTITIES]] = True
    entity, document = entity[often[entity]], document[often[entity]]
    short = (np.bincount(document) <= LONGEST)[document]
    keys, units = _entity_pairs(entity[short], document[short])
    kept = np.sort(np.argsort(-units, kind="stable")[:MOST_EDGES])
    ends = np.stack([keys[kept] >> 32, keys[kept] & 0xFFFFFFFF])
    drawn, places = np.unique(ends, return_inverse=True)
    source, target = places.reshape(2, -1)
    weight = np.sqrt(units[kept] / UNIT)
    none = np.zeros(len(drawn))
    degree = Graph(none, source, target, weight, none).degree
    return drawn, Graph(1 + np.sqrt(degree), source, target, weight, none)


def _entity_pairs(entity: Ints, document: Ints) -> tuple[Ints, Ints]:
    """Return the pairs of entities that share memories, ascending, and their units."""
    found, sums = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for some, each in pairs(entity, document):
        keys, counts = np.unique(some, return_counts=True)
        found.append(keys)
        sums.append(counts * each)
    keys, which = np.unique(np.concatenate(found), return_inverse=True)
    units = np.zeros(len(keys), np.int64)
    np.add.at(units, which, np.concatenate(sums))
    return keys, units


def _mark(graph: Graph) -> str:
    total = sha256()
    for values in (graph.source, graph.target, graph.weight):
        total.update(values.tobytes())
    return total.hexdigest()


def _previous_places(previous: Previous | None, mark: str) -> Places | None:
    """Return the places of an earlier build where they are of an equal graph."""
    if previous is None or previous.tables["mark"].to_pylist() != [{"graph": mark}]:
        return None
    return Places(*(column_view(previous.tables["step"], name) for name in STEP.names))


def _nodes(
    tables: Tables, drawn: Ints, places: Places, is_later: npt.NDArray[np.bool_]
) -> pa.Table:
    """Return the drawn entities, and amid them those that came later."""
    source, target = (
        column_view(tables["edges"], name).astype(np.int64) for name in ("source", "target")
    )
    weight = column_view(tables["edges"], "weight").astype(np.float64)
    at = np.full(len(is_later), -1)
    at[drawn] = np.arange(len(drawn))
    later, known = np.concatenate([source, target]), np.concatenate([target, source])
    joins = is_later[later] & (at[known] >= 0)
    weights = np.concatenate([weight, weight])[joins]
    found, which = np.unique(later[joins], return_inverse=True)
    sums = np.bincount(which, weights, len(found))
    beside = at[known[joins]]
    strongest = np.lexsort((-beside, weights, which))[np.cumsum(np.bincount(which)) - 1]
    x, y = (
        np.bincount(which, weights * values[beside], len(found)) / sums
        for values in (places.x, places.y)
    )
    aside_x, aside_y = sunflower(np.arange(len(found)) % 64)
    mentions = column_view(tables["entities"], "documents")[found]
    kept = np.argsort(-mentions, kind="stable")[:MOST_LATER]
    entity = np.concatenate([drawn, found[kept]])
    order = np.argsort(entity)
    columns = (
        entity,
        np.concatenate([places.x, (x + _APART * aside_x)[kept]]),
        np.concatenate([places.y, (y + _APART * aside_y)[kept]]),
        np.concatenate([places.community, places.community[beside[strongest]][kept]]),
    )
    arrays = [
        pa.array(values[order]).cast(of.type, safe=False)
        for values, of in zip(columns, NODES, strict=True)
    ]
    return pa.table(arrays, schema=NODES)


def _lines(edges: pa.Table, entities: Ints, count: int) -> pa.Table:
    """Return the strongest edges between drawn entities."""
    row = np.full(count, -1)
    row[entities] = np.arange(len(entities))
    source, target = (row[column_view(edges, name)] for name in ("source", "target"))
    between = np.flatnonzero((source >= 0) & (target >= 0))
    strength = column_view(edges, "units")[between]
    kept = between[np.argsort(-strength, kind="stable")[:MOST_EDGES]]
    columns = [
        pa.array(source[kept], pa.int32()),
        pa.array(target[kept], pa.int32()),
        pa.array(column_view(edges, "weight")[kept]),
    ]
    return pa.table(columns, schema=LINES)
