"""The laws of every projection: the log alone decides the rows, however they were built."""

from collections.abc import Mapping
from itertools import product
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from folds import fold_events
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_receipt import plain_receipt

from store.derived import catalog
from store.embedders.lexical import LexicalEmbedder
from store.home.instants import moment
from store.log.event_kinds import (
    Archived,
    Body,
    Erased,
    Forgotten,
    Hit,
    Judged,
    Linked,
    Made,
    Pinned,
    Rated,
    Recorded,
    Restored,
    Revised,
    Staled,
    Superseded,
    Unknown,
)
from store.log.events import Event
from store.memories import memories_projection
from store.memories import table as memory_table
from store.memories.fold import Fold
from store.memories.memory import ACTIVE, Memory
from store.memories.rows import MemoryRows
from store.memories.table import NEVER, read_memories
from store.snapshots.projection import Inputs, Previous, Projection, Tables, build_checked, digest

NOW = 1_790_000_000_000_000
ALL = catalog.all_projections(LexicalEmbedder())

IDS = st.sampled_from(["m0", "m1", "m2", "m3"])
TEXT = st.sampled_from(
    ["", "we use SQLite", "store/log.py calls apsw", "store/log.py is slow", "мы пишем", "日本"]
)
MAYBE = st.none() | TEXT
TAGS = st.lists(st.sampled_from(["a", "b"]), max_size=3).map(tuple)
UNIT = st.none() | st.floats(0, 1)
RECORDED = st.builds(
    Recorded,
    content=TEXT,
    kind=st.sampled_from(["fact", "goal", "milestone", "insight"]),
    context=MAYBE,
    tags=TAGS,
    created_by=st.sampled_from([None, "Anna Smith", "@bob"]),
    importance=UNIT,
    pinned=st.booleans(),
    key=st.sampled_from([None, "a.b", "c.d"]),
    chain=st.sampled_from([None, "x", "y"]),
    status=st.sampled_from([None, "open", "done"]),
    progress=UNIT,
    ttl_s=st.sampled_from([None, 60]),
    created_at=st.sampled_from([None, moment(NOW - 9), moment(NOW - 5)]),
    metadata=st.sampled_from([{}, {"a": [1]}]),
    source_ids=st.lists(IDS, max_size=2).map(tuple),
    made=st.sampled_from([None, Made(job="reflect")]),
)
ABOUT = st.one_of(
    st.builds(Revised, content=MAYBE, action=MAYBE, tags=st.none() | TAGS, progress=UNIT),
    st.builds(Superseded, by=IDS),
    st.builds(Linked, target=IDS, relation=st.sampled_from(["cause", "conflict"])),
    st.builds(Rated, verdict=st.floats(-1, 1)),
    st.builds(Judged, verdicts=st.dictionaries(IDS, st.floats(-1, 1), max_size=2)),
    st.builds(Pinned, pinned=st.booleans()),
    st.sampled_from(
        [Archived(), Erased(), Forgotten(), Restored(), Staled(reason="so"), Unknown(kind="dreamt")]
    ),
)
HITS = st.lists(st.builds(Hit, id=IDS, score=st.just(1.0), confidence=st.just(0.5)), max_size=3)
RECALLED = HITS.map(lambda hits: plain_receipt(hits=tuple(hits)))
STEPS = st.tuples(
    IDS, st.one_of(RECORDED, ABOUT, ABOUT, RECALLED), st.sampled_from([None, "p", "q"])
)
LOGS = st.lists(STEPS, max_size=25).map(lambda steps: logged(steps))


def logged(steps: list[tuple[str, Body, str | None]]) -> list[Event]:
    """Return steps as a log's events: an id is recorded once and revised from then on."""
    events, ids = [], set()
    for seq, (subject, body, project) in enumerate(steps, start=1):
        if isinstance(body, Recorded) and subject in ids:
            body = Revised(content=body.content, progress=body.progress)
        is_recorded = isinstance(body, Recorded)
        ids |= {subject} if is_recorded else set()
        id_ = subject if is_recorded else f"e{seq}"
        events.append(Event(id_, NOW + seq % 3, body, subject, project, seq=seq))
    return events


def inputs(events: list[Event], watermark: int, tables: Mapping[str, Tables]) -> Inputs:
    return Inputs(watermark, lambda after: iter(events[after:watermark]), tables)


def build_all(
    events: list[Event], watermark: int, before: tuple[int, Mapping[str, Tables]] | None = None
) -> dict[str, Tables]:
    tables: dict[str, Tables] = {}
    with (
        patch.object(memory_table, "ROWS", 3),
        patch.object(memories_projection, "MOST_CHANGED", 2),
    ):
        for projection in ALL:
            previous = Previous(before[0], before[1][projection.name]) if before else None
            of = inputs(events, watermark, tables)
            tables[projection.name] = build_checked(projection, of, previous)
    return tables


def digests(made: Mapping[str, Tables]) -> dict[str, str]:
    return {name: digest(tables) for name, tables in made.items()}


@settings(max_examples=40, deadline=None)
@given(events=LOGS, data=st.data())
def test_previous_never_changes_the_answer(events: list[Event], data: st.DataObject):
    whole = build_all(events, len(events))
    split = data.draw(st.integers(0, len(events)), label="split")
    before = (split, build_all(events, split))
    assert digests(build_all(events, len(events), before)) == digests(whole)


@settings(max_examples=15, deadline=None)
@given(events=LOGS)
def test_a_replay_gives_the_same_digests(events: list[Event]):
    assert digests(build_all(events, len(events))) == digests(build_all(events, len(events)))


@settings(max_examples=8, deadline=None)
@given(events=LOGS)
def test_building_after_every_event_comes_to_the_same(events: list[Event]):
    events = events[:8]
    before = (0, build_all(events, 0))
    for watermark in range(1, len(events) + 1):
        before = (watermark, build_all(events, watermark, before))
    assert digests(before[1]) == digests(build_all(events, len(events)))


@settings(max_examples=60, deadline=None)
@given(events=LOGS, data=st.data())
def test_the_tail_over_a_snapshot_is_what_a_build_would_give(
    events: list[Event], data: st.DataObject
):
    whole, snapshot = Fold(), Fold()
    split = data.draw(st.integers(0, len(events)), label="split")
    for event in events[:split]:
        snapshot.apply(event)
    frozen = Fold(list(snapshot.rows.values()))
    tail = Fold(beneath=frozen)
    for event in events:
        whole.apply(event)
        if event.seq > split:
            tail.apply(event)
    assert frozen.rows | tail.rows == whole.rows


@settings(max_examples=60, deadline=None)
@given(events=LOGS, data=st.data())
def test_rows_in_parts_are_what_the_events_left(events: list[Event], data: st.DataObject):
    memory = [*fold_events(events).rows.values()]
    split = data.draw(st.integers(0, len(events)), label="split")
    before = (split, build_all(events, split))
    rows = MemoryRows.open(build_all(events, len(events), before)["memories"])
    assert rows.take(range(len(rows))) == memory
    for number, row in enumerate(memory):
        assert rows.row(row.id) == number
        assert rows.column_values("state", np.array([number])) == [row.state]
        assert rows.column_values("project", np.array([number])) == [row.project]
        assert rows.text_hash(number) == row.text_hash
        replaced = [at for at, other in enumerate(memory) if other.superseded_by == row.id]
        assert rows.predecessor_rows(row.id) == replaced
    assert rows.created_at.tolist() == [other.created_at for other in memory]
    assert rows.expires_at.tolist() == [other.expires_at or NEVER for other in memory]
    for key, project in product(("a.b", "c.d"), (None, "p", "q")):
        of_key = [other for other in memory if (other.key, other.project) == (key, project)]
        assert rows.values(project, key) == [other.id for other in of_key]
        current = [other.id for other in of_key if other.state == ACTIVE]
        assert rows.holder(project, key) == (current[-1] if current else None)
        assert rows.with_key(key).tolist() == [other.key == key for other in memory]
    for tag in ("a", "b"):
        assert rows.with_tags([tag]).tolist() == [tag in other.tags for other in memory]


@pytest.mark.parametrize("projection", ALL, ids=lambda projection: projection.name)
def test_an_empty_log_gives_empty_tables_of_the_declared_schema(projection: Projection):
    tables = build_all([], 0)[projection.name]
    assert {name: table.schema for name, table in tables.items()} == projection.schemas
    rows = {name: table.num_rows for name, table in tables.items()}
    always_one = {"statistics", "calibration", "starts"} & rows.keys()
    assert rows == dict.fromkeys(rows, 0) | dict.fromkeys(always_one, 1)


@pytest.mark.parametrize("projection", ALL, ids=lambda projection: projection.name)
def test_every_projection_is_named_after_what_it_needs(projection: Projection):
    earlier = [other.name for other in ALL[: ALL.index(projection)]]
    assert set(projection.inputs) <= {"log", *earlier}


def test_a_build_of_another_schema_is_refused():
    wrong = Projection("w", "1", (), {"t": pa.schema([("a", pa.int64())])}, lambda i, p: tables)
    tables: Tables = {"t": pa.table({"a": pa.array([1], pa.int32())})}
    with pytest.raises(TypeError, match=r"w\.t has schema"):
        build_checked(wrong, inputs([], 0, {}), None)
    tables = {}
    with pytest.raises(TypeError, match=r"w built \[\], not \['t'\]"):
        build_checked(wrong, inputs([], 0, {}), None)


COLUMNS = {
    "text": (pa.string(), st.none() | st.text(max_size=4)),
    "large": (pa.large_string(), st.none() | st.text(max_size=4)),
    "bytes": (pa.binary(), st.none() | st.binary(max_size=4)),
    "fixed": (pa.binary(4), st.none() | st.binary(min_size=4, max_size=4)),
    "number": (pa.int64(), st.none() | st.integers(-9, 9)),
    "float": (pa.float64(), st.none() | st.floats(-9, 9)),
    "flag": (pa.bool_(), st.none() | st.booleans()),
    "list": (pa.list_(pa.string()), st.none() | st.lists(st.none() | st.text(max_size=2))),
    "vector": (pa.list_(pa.int8(), 2), st.lists(st.integers(0, 9), min_size=2, max_size=2)),
    "coded": (pa.dictionary(pa.int8(), pa.string()), st.none() | st.sampled_from("abc")),
}


@settings(max_examples=100, deadline=None)
@given(st.data())
@pytest.mark.parametrize("name", COLUMNS)
def test_a_digest_is_of_the_rows_and_not_of_how_they_lie(name: str, data: st.DataObject):
    kind, values = COLUMNS[name]
    rows = data.draw(st.lists(values, max_size=8))
    whole = pa.table({"c": pa.array(rows, kind)})
    cut = data.draw(st.integers(0, len(rows)))
    padded = pa.table({"c": pa.array([*rows[:1], *rows, *rows[:2]], kind)})
    skipped = len(rows[:1])
    chunked = pa.chunked_array([pa.array(rows[:cut], kind), pa.array(rows[cut:], kind)], kind)
    wanted = digest({"t": whole})
    assert digest({"t": padded.slice(skipped, len(rows))}) == wanted
    assert digest({"t": pa.table({"c": chunked})}) == wanted
    other = data.draw(st.lists(values, max_size=8))
    assert (digest({"t": pa.table({"c": pa.array(other, kind)})}) == wanted) == (other == rows)


def test_a_digest_knows_no_order_of_a_dictionary():
    array = pa.DictionaryArray.from_arrays(pa.array([0, 1, None], pa.int8()), ["a", "b"])
    other = pa.DictionaryArray.from_arrays(pa.array([2, 0, None], pa.int8()), ["b", "x", "a"])
    assert digest({"t": pa.table({"c": array})}) == digest({"t": pa.table({"c": other})})


def test_a_digest_tells_names_types_and_order_apart():
    column = pa.array([1, 2], pa.int32())
    tables = [
        {"t": pa.table({"c": column})},
        {"u": pa.table({"c": column})},
        {"t": pa.table({"d": column})},
        {"t": pa.table({"c": column.cast(pa.int64())})},
        {"t": pa.table({"c": pa.array(np.int32([2, 1]))})},
        {"t": pa.table({"c": pa.array([1, None], pa.int32())})},
    ]
    assert len({digest(table) for table in tables}) == len(tables)


def test_unknown_kinds_and_events_about_nobody_change_no_memory():
    events = logged([("m0", Recorded(content="x"), None), ("m9", Forgotten(), None)])
    later = [*events, Event("u", NOW, Unknown(kind="dreamt"), "m0", seq=3)]
    assert digests(build_all(later, 3)) == digests(build_all(events[:1], 1))
    rows: list[Memory] = list(read_memories(build_all(later, 3)["memories"]["memories"]))
    assert [row.id for row in rows] == ["m0"]
