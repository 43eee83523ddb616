"""Where the entity graph is drawn: the same from the same log, near what belongs together."""

from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from store.derived import layout
from store.derived.entities import ENTITIES_PROJECTION, FOUND
from store.derived.entity_graph import entity_tables
from store.derived.layout import (
    LAYOUT_PROJECTION,
    Graph,
    Ints,
    communities,
    levels,
    place_nodes,
    repulsion,
)
from store.log.event_log import EventLog
from store.maintenance.audits import run_audits
from store.maintenance.memory_audits import AuditInput
from store.snapshots.projection import Built, Inputs, Part, Previous, Tables, build_checked, digest

MENTIONS = st.lists(st.tuples(st.integers(0, 39), st.sampled_from("abcdefghij")), max_size=60)


def graph(edges: list[tuple[int, int]], count: int) -> Graph:
    source, target = np.array(edges, np.int64).reshape(-1, 2).T
    return Graph(np.ones(count), source, target, np.ones(len(edges)), np.zeros(count))


def cliques(count: int, size: int) -> tuple[Graph, Ints]:
    """Return cliques in a ring, each joined to the next by one edge, and whose a node is."""
    edges = [
        (clique * size + a, clique * size + b)
        for clique in range(count)
        for a in range(size)
        for b in range(a + 1, size)
    ]
    bridges = [sorted((one * size, (one + 1) % count * size + 1)) for one in range(count)]
    return graph([*edges, *map(tuple, bridges)], count * size), np.arange(count * size) // size


def entities_of(mentions: list[tuple[int, str]]) -> Tables:
    """Return the tables of entities for mentions: pairs of a document and a name."""
    rows = [
        {"document": document, "kind": "symbol", "name": name, "alias": name}
        for document, name in sorted({*mentions})
    ]
    return entity_tables(pa.Table.from_pylist(rows, FOUND))


def built(mentions: list[tuple[int, str]], previous: Built | None = None) -> Built:
    schemas = {name: ENTITIES_PROJECTION.schemas[name] for name in entities_of([])}
    parts = {name: (Part.of(table),) for name, table in entities_of(mentions).items()}
    inputs = Inputs(1, lambda after: iter(()), {"entities": Built(schemas, parts)})
    return build_checked(LAYOUT_PROJECTION, inputs, previous and Previous(1, previous))


def test_communities_are_the_cliques_of_a_ring():
    ring, clique = cliques(8, 6)
    found = communities(ring)
    assert len({*zip(found.tolist(), clique.tolist(), strict=True)}) == 8
    assert found.max() == 7


def test_modularity_is_that_of_the_definition():
    ring, clique = cliques(5, 4)
    share = 2 * 6 / (2 * 6 * 5 + 2 * 5)  # of a clique's own edges, at both ends
    assert ring.merge(clique).modularity == pytest.approx(5 * share - 5 * (1 / 5) ** 2)


def test_levels_gain_and_end():
    ring, _ = cliques(30, 4)
    worth = [ring.modularity, *(one.modularity for one, _ in levels(ring))]
    assert worth == sorted(worth) and len(worth) > 1


def test_merging_keeps_mass_and_weight():
    ring, clique = cliques(5, 4)
    merged = ring.merge(clique)
    assert merged.mass.tolist() == [4] * 5
    assert merged.degree.sum() == pytest.approx(ring.degree.sum())


def test_repulsion_is_nearly_that_of_every_pair():
    chosen = np.random.default_rng(3)
    x, y, mass = chosen.normal(size=300), chosen.normal(size=300), chosen.random(300)
    across, down = x[:, None] - x, y[:, None] - y
    square = across**2 + down**2 + np.eye(300)
    wanted = np.stack([(mass * across / square).sum(1), (mass * down / square).sum(1)])
    found = np.stack(repulsion(x, y, mass, 128))
    far = np.hypot(x, y) > 0.5  # in the middle little is left of it
    together = (wanted * found).sum(0) / np.hypot(*wanted) / np.hypot(*found)
    assert np.quantile(together[far], 0.1) > 0.95  # the direction
    sizes = np.hypot(*found)[far] / np.hypot(*wanted)[far]
    assert np.quantile(sizes, 0.9) < 1.6 * np.quantile(sizes, 0.1)  # and the size, but for a unit


def test_what_belongs_together_lies_together():
    ring, clique = cliques(12, 8)
    found = place_nodes(ring)
    middle = np.stack([np.bincount(clique, at) / 8 for at in (found.x, found.y)])
    apart = np.hypot(*(np.stack([found.x, found.y])[:, :, None] - middle[:, None]))
    assert (apart.argmin(1) == clique).mean() > 0.95
    assert np.hypot(found.x, found.y).max() == pytest.approx(1)


def test_no_nodes_and_no_edges_are_drawn_too():
    assert len(place_nodes(graph([], 0)).x) == 0
    alone = place_nodes(graph([], 3))
    assert len({*zip(alone.x.tolist(), alone.y.tolist(), strict=True)}) == 3


def test_pictures_are_the_same_to_the_last_bit():
    ring, _ = cliques(6, 5)
    total = np.concatenate([place_nodes(ring).x, place_nodes(ring).y]).astype(np.float32)
    again = np.concatenate([place_nodes(ring).x, place_nodes(ring).y]).astype(np.float32)
    assert total.tobytes() == again.tobytes()


@settings(max_examples=60, deadline=None)
@given(mentions=MENTIONS, data=st.data())
def test_what_was_drawn_before_never_changes_the_picture(
    mentions: list[tuple[int, str]], data: st.DataObject
):
    before = data.draw(st.integers(0, len(mentions)), label="before")
    with patch.multiple(layout, ALL_ANEW=4, MOST_ENTITIES=6, MOST_EDGES=8, MOST_LATER=2):
        earlier = built(sorted(mentions)[:before])
        assert digest(built(mentions, earlier)) == digest(built(mentions))


@settings(max_examples=60, deadline=None)
@given(mentions=MENTIONS)
def test_lines_join_nodes_and_nodes_are_entities(mentions: list[tuple[int, str]]):
    with patch.multiple(layout, ALL_ANEW=4, MOST_ENTITIES=6, MOST_EDGES=8, MOST_LATER=2):
        tables = built(mentions)
    entities = tables["nodes"].column("entity").to_pylist()
    assert entities == sorted({*entities}) and len(entities) <= 8
    count = entities_of(mentions)["entities"].num_rows
    assert all(0 <= one < count for one in entities)
    assert len(tables["lines"]) <= 8
    for line in tables["lines"].to_pylist():
        assert 0 <= line["source"] < line["target"] < len(entities)


def test_the_most_mentioned_are_drawn():
    often = [(document, name) for document in range(9) for name in "ab"]
    with patch.object(layout, "MOST_ENTITIES", 2):
        tables = built([*often, (20, "c"), (20, "d")])
    assert tables["nodes"].column("entity").to_pylist() == [0, 1]


def test_between_two_steps_the_picture_stays_and_what_is_new_lies_beside_its_kin():
    told = [(document, name) for document in range(32) for name in ("ab", "cd", "ef")[document % 3]]
    with patch.object(layout, "ALL_ANEW", 4):
        first = built(told)
        with patch.object(layout, "place_nodes", side_effect=AssertionError("drawn anew")):
            more = built([*told, (32, "a"), (32, "new")], first)
    assert more["step"].equals(first["step"])
    rows = {row["entity"]: row for row in more["nodes"].to_pylist()}
    assert len(rows) == 7
    a, new = rows[0], rows[6]
    assert np.hypot(a["x"] - new["x"], a["y"] - new["y"]) < 0.01
    assert a["community"] == new["community"]


def test_a_build_whose_picture_is_wrong_is_refused(tmp_path: Path):
    tables = built([(document, name) for document in range(3) for name in "abc"])
    with EventLog(tmp_path / "log.sqlite", create=True) as log:
        one = AuditInput(log, 0, tables, tables, None, 0)
        assert [result.passed for result in run_audits("layout", one)] == [True]
        for name, column, value in (("nodes", "x", 2.0), ("lines", "target", 3)):
            table = tables[name]
            wrong = pa.array([value] * len(table), table.schema.field(column).type)
            at = table.schema.get_field_index(column)
            changed = {**tables, name: table.set_column(at, column, wrong)}
            assert [
                result.passed for result in run_audits("layout", replace(one, tables=changed))
            ] == [False]


def test_a_step_is_up_to_a_sixteenth_of_what_there_is():
    for memories in (2_001, 5_000, 100_000, 131_071, 131_072):
        step = layout._step(memories)
        assert memories * 15 / 16 < step <= memories
    assert layout._step(100_000) == layout._step(100_100)


def test_a_long_list_joins_nobody():
    listed = [(0, f"n{number}") for number in range(layout.LONGEST + 1)]
    assert len(built(listed)["nodes"]) == 0
    assert len(built(listed[:-1])["nodes"]) == layout.LONGEST
