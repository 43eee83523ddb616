"""The memories table equals the fold of the log, and its reader finds every row."""

import pytest

from store.memories import memories_projection
from store.memories.memory import ACTIVE, ARCHIVED, FIELDS, FORGOTTEN, Memory, indexed_text
from store.memories.rows import MemoryRows
from store.memories.table import MEMORIES, NEVER, indexed_texts, read_memories
from store.snapshots.projection import Tables
from store.snapshots.snapshot import read


@pytest.fixture
def rows(built) -> MemoryRows:
    return MemoryRows.open(tables(built))


def tables(built) -> Tables:
    ref = built.manifest.projections["memories"]
    return read(built.tenant.snapshots, ref, memories_projection.MEMORIES_PROJECTION)


def test_rows_keep_the_order_in_which_they_were_recorded(built, rows: MemoryRows):
    recorded = [event.id for event in built.log.read() if event.kind == "recorded"]
    assert [memory.id for memory in rows.take(range(len(rows)))] == recorded
    assert len(rows) == len(recorded)


def test_every_id_leads_to_its_row(built, rows: MemoryRows):
    for number, memory in enumerate(read_memories(tables(built)["memories"])):
        assert rows.row(memory.id) == number
        assert rows.find(memory.id) == memory
    assert rows.row("nobody") is None and rows.find("nobody") is None


def test_take_gives_memories_in_the_order_asked(rows: MemoryRows):
    assert [memory.id for memory in rows.take([5, 0, 5])] == ["m05", "m00", "m05"]
    assert rows.take([]) == []


def test_states_follow_the_commands(rows: MemoryRows):
    states = {id_: rows.find(id_).state for id_ in ("m00", "m06", "m19", "k2")}
    assert states == {"m00": ACTIVE, "m06": FORGOTTEN, "m19": ARCHIVED, "k2": ACTIVE}
    assert [rows.find(id_).superseded_by for id_ in ("m22", "k1")] == ["m28", "k2"]


def test_masks_match_the_rows(built, rows: MemoryRows):
    goals = rows.equal("kind", ["goal", "no such kind"])
    assert [memory.id for memory in rows.take(goals.nonzero()[0])] == ["g1", "g2"]
    assert rows.lacks("project").sum() == len(rows) - 1
    assert rows.with_tags([]).all() and not rows.with_tags(["team", "nobody"]).any()
    assert rows.with_tags(["team"]).sum() == sum(
        "team" in memory.tags for memory in read_memories(tables(built)["memories"])
    )


def test_the_holder_of_a_key_is_its_newest_memory(rows: MemoryRows):
    assert rows.holder(None, "deploy.region") == "k2"
    assert rows.holder("acme/web", "deploy.region") is None


def test_memories_without_a_ttl_never_expire(rows: MemoryRows):
    assert (rows.expires_at == NEVER).all()


def test_a_link_is_an_edge(built):
    edge = tables(built)["edges"].to_pylist()
    assert [(link["source"], link["target"], link["relation"]) for link in edge] == [
        ("m04", "m15", "support")
    ]


def test_empty_rows_answer_everything():
    empty = MemoryRows.empty()
    assert len(empty) == 0 and empty.find("a") is None and empty.take([]) == []
    assert not empty.equal("kind", ["fact"]).size and not empty.with_tags(["a"]).size
    assert not empty.lacks("project").size and not empty.expires_at.size


def test_the_indexed_text_is_the_fields_one_a_line_and_tags_last():
    assert indexed_text("a", None, "b", "", ["x", "y"]) == "a\nb\nx y"


def test_the_schema_has_a_column_for_every_field():
    assert MEMORIES.names == [*Memory.__struct_fields__]
    assert sorted(field.name for field in FIELDS) == sorted(Memory.__struct_fields__)


def test_a_table_and_its_slices_come_back_as_memories(built, rows: MemoryRows):
    table = tables(built)["memories"]
    all_of_them = list(read_memories(table))
    assert rows.take(range(len(rows))) == all_of_them
    assert list(read_memories(table.slice(3, 4))) == all_of_them[3:7]
    assert list(indexed_texts(table)) == [memory.text for memory in all_of_them]
