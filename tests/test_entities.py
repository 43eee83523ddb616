import subprocess
import sys
from collections import Counter
from math import log
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from store.derived import entity_graph
from store.derived.entities import ENTITIES_PROJECTION, FOUND, GUESSES_EACH, SCHEMAS, EntityIndex
from store.log.event_kinds import Forgotten, Recorded
from store.log.events import Event
from store.memories.memories_projection import MEMORIES_PROJECTION
from store.snapshots.projection import Inputs, Previous, Tables, build_checked, digest
from store.text.mentions import mentions


def recorded(*texts: str, forgotten: tuple[int, ...] = (), by: str | None = None) -> Inputs:
    """Return the input of a build over memories of these texts, made by the real projection."""
    bodies = [(f"m{n}", Recorded(content=text, created_by=by)) for n, text in enumerate(texts)]
    bodies += [(f"m{n}", Forgotten()) for n in forgotten]
    events = [
        Event(id=f"m{n}", at=n, body=body, subject=subject, seq=n + 1)
        for n, (subject, body) in enumerate(bodies)
    ]
    of_log = Inputs(len(events), lambda after: iter(events[after:]))
    tables = build_checked(MEMORIES_PROJECTION, of_log, None)
    return Inputs(len(events), lambda after: iter(()), {"memories": tables})


def built(*texts: str, forgotten: tuple[int, ...] = (), by: str | None = None) -> Tables:
    return build_checked(ENTITIES_PROJECTION, recorded(*texts, forgotten=forgotten, by=by), None)


def index(*texts: str) -> EntityIndex:
    return EntityIndex.open(built(*texts))


def found_in(opened: EntityIndex, text: str) -> list[str]:
    return [opened.name(entity) for entity in opened.lookup(mentions(text))]


def edges(tables: Tables) -> dict[tuple[str, str], float]:
    name = tables["entities"]["name"].to_pylist()
    return {
        (name[row["source"]], name[row["target"]]): row["weight"]
        for row in tables["edges"].to_pylist()
    }


def test_entities_are_sorted_by_kind_and_name_and_count_their_memories():
    tables = built("z_z in ./b.py", "b.py, a.py and b.py", "nothing here")
    rows = tables["entities"].to_pylist()
    assert [(row["kind"], row["name"], row["documents"]) for row in rows] == [
        ("file", "a.py", 1),
        ("file", "b.py", 2),
        ("symbol", "z_z", 1),
    ]
    assert [row["entity"] for row in rows] == [0, 1, 2]
    assert rows[1]["aliases"] == ["./b.py", "b.py"]


def test_offset_and_documents_slice_the_mentions():
    opened = index("x_x y_y", "y_y", "none", "x_x, y_y")
    assert [opened.documents(entity).tolist() for entity in range(len(opened))] == [
        [0, 3],
        [0, 1, 3],
    ]


def test_edge_weights_of_a_worked_example():
    # two entities: 1 / 1 for their pair; three: 1 / 2 for each pair
    assert edges(built("a_a b_b", "a_a b_b c_c", "c_c")) == {
        ("a_a", "b_b"): 1.5,
        ("a_a", "c_c"): 0.5,
        ("b_b", "c_c"): 0.5,
    }


def test_a_memory_gives_each_of_its_entities_a_weight_of_one():
    weights = edges(built(" ".join(f"name_{n}" for n in range(7))))
    of_one = [weight for pair, weight in weights.items() if "name_3" in pair]
    assert sum(of_one) == pytest.approx(1.0)


def test_a_forgotten_memory_mentions_nothing_and_keeps_its_number():
    tables = built("gone_one with_two", "b_b", forgotten=(0,))
    assert tables["mentions"].to_pylist() == [{"entity": 0, "document": 1}]
    assert tables["edges"].num_rows == 0


def test_a_person_who_wrote_a_memory_is_an_entity_and_a_program_is_not():
    assert built("plain", by="Jane Doe")["entities"]["name"].to_pylist() == ["jane doe"]
    assert built("plain", by="claude-code")["entities"].num_rows == 0


@pytest.mark.parametrize("texts", [(), ("plain words only",)])
def test_without_entities_the_tables_are_empty_and_open(texts: tuple[str, ...]):
    tables = built(*texts)
    assert {name: table.schema for name, table in tables.items()} == SCHEMAS
    opened = EntityIndex.open(tables)
    assert len(opened) == 0
    assert opened.lookup(mentions("a.py")) == []
    assert opened.scores([], 3).tolist() == [0, 0, 0]


def test_two_builds_have_the_same_digest(monkeypatch: pytest.MonkeyPatch):
    texts = [" ".join(f"name_{(n * k) % 37}" for k in range(1, 12)) for n in range(200)]
    inputs = recorded(*texts)
    once = build_checked(ENTITIES_PROJECTION, inputs, None)
    monkeypatch.setattr(entity_graph, "PAIRS_AT_ONCE", 100)  # other parts, other order of the sums
    again = build_checked(ENTITIES_PROJECTION, inputs, Previous(1, once))
    assert digest(once) == digest(again)


def test_a_file_is_found_by_the_ends_of_its_path():
    opened = index("see src/app/auth/login.py")
    for written in (
        "login.py",
        "auth/login.py",
        "app/auth/LOGIN.py",
        "/home/dev/src/app/auth/login.py",
    ):
        assert found_in(opened, written) == ["src/app/auth/login.py"]


PATHS = [f"{folder}/mod.py" for folder in "abcdefghijkl"] + ["Mod.py", "./a/mod.py", "A/mod.py"]
SYMBOLS = ["auth.read_token", "auth::read_token", "read_token()", "jwt.read_token", "@anna", "Anna"]
NAMED = ["Kestrel runs. Anna", "at Kestrel", "Anna Lee said so to Anna Lee", "Anna Lee. Kestrel"]
SAID = st.lists(st.sampled_from(PATHS + SYMBOLS + NAMED), max_size=4).map(" and ".join)


@settings(max_examples=80, deadline=None)
@given(st.lists(SAID, min_size=1, max_size=24), st.data())
def test_more_memories_give_what_all_at_once_do(texts: list[str], data: st.DataObject):
    whole = build_checked(ENTITIES_PROJECTION, recorded(*texts), None)
    made, done = None, 0
    while done < len(texts):
        before = None if made is None else Previous(done, made)
        done += data.draw(st.integers(1, len(texts) - done), label="more")
        made = build_checked(ENTITIES_PROJECTION, recorded(*texts[:done]), before)
    assert made is not None
    assert {name: table.to_pylist() for name, table in made.items()} == {
        name: table.to_pylist() for name, table in whole.items()
    }
    assert digest(made) == digest(whole)


def named(*texts: str) -> list[tuple[str, str, int]]:
    rows = built(*texts)["entities"].to_pylist()
    return [(row["kind"], row["name"], row["documents"]) for row in rows]


def test_a_sentence_begins_with_a_name_that_another_memory_has_inside_one():
    assert named("Kestrel is slow today") == []
    assert named("Kestrel is slow today", "ask about Kestrel") == [("name", "kestrel", 2)]


def test_a_word_that_mostly_begins_sentences_is_no_name():
    starts = [f"Caching is on in part {n}" for n in range(GUESSES_EACH)]
    assert named(*starts, "we turned on Caching") == [("name", "caching", len(starts) + 1)]
    assert named(*starts, "Caching is off", "we turned on Caching") == []


def test_a_name_that_is_a_persons_elsewhere_is_that_person():
    assert named("we asked Jane Doe", "Jane Doe said no") == [("person", "jane doe", 2)]


def test_ordinary_notes_have_entities(monkeypatch: pytest.MonkeyPatch):
    """The bounds are a little below the measured values (docs/recall.md): .97 and .84."""
    monkeypatch.syspath_prepend(Path(__file__).parent / "bench")
    from entities import count, find_names, read_notes

    lives = read_notes("aside").values()
    total = sum((count(notes, find_names(notes)) for notes in lives), Counter[str]())
    assert total["wrong"] / total["found"] <= 0.05
    assert total["hits"] / total["names"] >= 0.8


def test_few_more_memories_are_not_drawn_together_with_all(monkeypatch):
    before = Previous(2, built("a/mod.py calls read_token", "nothing"))
    monkeypatch.setattr(entity_graph, "entity_tables", None)
    more = recorded("a/mod.py calls read_token", "nothing", "a/mod.py and b/mod.py of Kestrel")
    opened = EntityIndex.open(build_checked(ENTITIES_PROJECTION, more, before))
    assert found_in(opened, "mod.py") == ["a/mod.py", "b/mod.py"]


MENTIONS = st.tuples(
    st.integers(0, 6),
    st.sampled_from(["file", "symbol", "person"]),
    st.sampled_from([*(f"{n}/mod.py" for n in range(12)), *"x::f y.f strasse".split()]),
)


ALIASES = st.sampled_from("a/mod.py A/Mod.py x::f y.f Straße".split())


@given(st.dictionaries(MENTIONS, ALIASES, min_size=1, max_size=60), st.integers(0, 7))
def test_many_mentions_are_merged_into_the_tables_of_few(
    aliases: dict[tuple[int, str, str], str], first_new: int
):
    rows = [(*mention, alias) for mention, alias in sorted(aliases.items())]
    found = pa.Table.from_pylist([dict(zip(FOUND.names, row, strict=True)) for row in rows], FOUND)
    is_new = pa.array([row[0] >= first_new for row in rows])
    earlier = entity_graph.entity_tables(found.filter(pc.invert(is_new)))
    added = entity_graph.add_mentions(earlier, found.filter(is_new))
    many = {name: made.to_pydict() for name, made in entity_graph.merge_mentions(found).items()}
    assert many == {name: made.to_pydict() for name, made in added.items()}
    at_once = entity_graph.entity_tables(found)
    assert many == {name: made.to_pydict() for name, made in at_once.items()}


NAMES = st.text(alphabet="aB/.:ßİ", min_size=1, max_size=8)


@given(st.lists(st.tuples(st.sampled_from(["file", "symbol", "person"]), NAMES), max_size=4))
def test_short_names_of_many_are_those_of_each(named: list[tuple[str, str]]):
    kinds, names = [kind for kind, _ in named], [name.casefold() for _, name in named]
    columns = {"kind": kinds, "entity": range(len(named)), "alias": names}
    types = {"kind": pl.String, "entity": pl.Int32, "alias": pl.String}
    found = entity_graph._short_names(pl.DataFrame(columns, schema=types))
    wanted = [
        (alias, entity)
        for entity, (kind, name) in enumerate(zip(kinds, names, strict=True))
        for alias in entity_graph.short_names(kind, name)
    ]
    assert sorted(found.rows()) == sorted(wanted)


@given(st.lists(st.text(alphabet="aBßİKſ", max_size=4), max_size=5))
def test_many_texts_are_folded_as_each_one_is(texts: list[str]):
    folded = entity_graph._casefold(pl.Series(texts, dtype=pl.String))
    assert folded.to_list() == [text.casefold() for text in texts]


def test_a_symbol_is_found_by_its_last_part_and_as_written():
    opened = index("store.log.event_log.append() and self.max_retries")
    assert found_in(opened, "`append`") == ["store.log.event_log.append"]
    assert found_in(opened, "`self.max_retries`") == ["max_retries"]


def test_a_short_alias_of_too_many_entities_is_dropped():
    within = [f"pkg{n}/mod.py" for n in range(entity_graph.MAX_SHARED_ALIAS)]
    assert len(found_in(index(*within), "mod.py")) == len(within)
    assert found_in(index(*within, "other/mod.py"), "mod.py") == []
    assert found_in(index(*within, "other/mod.py"), "other/mod.py") == ["other/mod.py"]


def test_lookup_keeps_the_order_asked_and_repeats_nothing():
    opened = index("b_b a_a")
    assert found_in(opened, "b_b a_a `B_B`") == ["b_b", "a_a"]


def test_aliases_are_sorted_as_the_search_needs_them():
    written = built("Ünder.py z.py émile_x.py Я.py a_b Z_b")["aliases"]["alias"].to_pylist()
    assert written == sorted(written) and len(written) >= 6


def test_rare_entities_weigh_more():
    opened = index("a_a b_b", "b_b", "plain")
    scores = opened.scores(opened.lookup(mentions("a_a b_b")) * 2, 3)
    assert scores.dtype == np.float32
    assert scores.tolist() == pytest.approx([log(1 + 3 / 1) + log(1 + 3 / 2), log(1 + 3 / 2), 0])


def test_neighbours_come_strongest_first():
    opened = index("a_a b_b", "b_b c_c", "b_b c_c", "b_b d_d")
    (b,) = opened.lookup(mentions("b_b"))
    named = [(opened.name(entity), weight) for entity, weight in opened.neighbours(b)]
    assert named == [("c_c", 2.0), ("a_a", 1.0), ("d_d", 1.0)]
    assert opened.neighbours(b, limit=1) == opened.neighbours(b)[:1]


def test_the_reader_does_not_import_polars():
    code = "import sys, store.derived.entities; sys.exit('polars' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
