"""
The projection `layout`: the entity graph as it is drawn: places of entities, and the edges shown.

What is drawn are the most mentioned entities and the strongest edges between them; an entity that
no such edge joins to another is left out. Places are computed from the memories up to a step, and
from one step to the next there are up to a sixteenth more: so most builds draw nothing anew, and
the picture that somebody remembers stays. What came since the step lies amid what it is named with.
"""

from hashlib import sha256

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from store.derived.entity_graph import UNIT, pairs
from store.derived.graph_drawing import Graph, Ints, Places, place_nodes, sunflower
from store.snapshots.projection import Inputs, Made, Previous, Projection, Tables, column_view

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
