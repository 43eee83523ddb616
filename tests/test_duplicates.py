"""Duplicates are linked, on strict evidence; the texts of other memories are not."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from command_line import answer
from lookalikes import CORRECTIONS, NO_CORRECTIONS, SAME, facts

from store.derived.duplicates import DUPLICATES_PROJECTION, Duplicates, Link
from store.log import commands
from store.log.commands import Draft
from store.memories.memories_projection import MEMORIES_PROJECTION
from store.memories.rows import MemoryRows
from store.snapshots.snapshot import read

Clock = Callable[[], int]
START = datetime(2026, 3, 2, 9, tzinfo=UTC)


@pytest.fixture
def links(built) -> Callable[..., list[tuple[str, str, str]]]:
    """Record drafts, a second apart; return the links of a build: (id, of, kind)."""

    def found(*drafts: Draft) -> list[tuple[str, str, str]]:
        for number, draft in enumerate(drafts):
            commands.record(built.log, draft, 1_780_000_000_000_000 + number * 1_000_000)
        return named(built)

    return found


def named(built) -> list[tuple[str, str, str]]:
    manifest = built.rebuild()
    refs, folder = manifest.projections, built.tenant.snapshots
    rows = MemoryRows.open(read(folder, refs["memories"], MEMORIES_PROJECTION))
    opened = Duplicates.open(read(folder, refs["duplicates"], DUPLICATES_PROJECTION))
    ids = {row: rows.take([row])[0].id for link in opened.links for row in ends(link)}
    return [(ids[link.document], ids[link.of], link.kind) for link in opened.links]


def ends(link: Link) -> tuple[int, int]:
    return link.document, link.of


def drafts(*texts: str, **fields) -> list[Draft]:
    return [Draft(id=f"d{n}", content=text, **fields) for n, text in enumerate(texts)]


def test_the_labelled_pairs_are_found_and_nothing_else(links):
    texts = [text for pair in SAME for text in pair]
    pairs = [(f"d{2 * n + 1}", f"d{2 * n}") for n, (one, other) in enumerate(SAME) if one != other]
    # each pair in a project of its own: some share a text
    made = [Draft(id=f"d{n}", content=text, project=f"p{n // 2}") for n, text in enumerate(texts)]
    assert {(one, of) for one, of, _ in links(*made)} == set(pairs)


def test_of_309_facts_that_look_alike_none_is_linked(links):
    assert links(*drafts(*facts())) == []


def test_the_same_text_again_is_exact_and_another_spelling_near(links):
    texts = ("Use uv, never pip", "Use uv, never pip", "use **uv**, never pip.", "Use pip")
    assert links(*drafts(*texts)) == [("d1", "d0", "exact"), ("d2", "d0", "near")]


def test_corrections_are_updates_of_the_earlier_text_and_two_facts_are_none(links):
    pairs = [pair[:2] for pair in CORRECTIONS] + list(NO_CORRECTIONS)
    made = [
        Draft(id=f"d{2 * n + place}", content=text, project=f"p{n}")
        for n, pair in enumerate(pairs)
        for place, text in enumerate(pair)
    ]
    updates = [(f"d{2 * n + 1}", f"d{2 * n}", "update") for n in range(len(CORRECTIONS))]
    assert links(*made) == updates


def test_more_than_three_values_are_a_series(links):
    assert links(*drafts(*(f"The port is {number}" for number in range(80, 84)))) == []


def test_a_value_that_came_back_is_an_update_twice(links):
    pairs = links(*drafts("The port is 80", "The port is 81", "The port is 80"))
    assert pairs == [("d1", "d0", "update"), ("d2", "d0", "exact"), ("d2", "d1", "update")]


def test_texts_of_other_projects_or_people_are_no_duplicates(links):
    text = "The port is 5432"
    pairs = links(
        Draft(id="a", content=text, project="x/a"),
        Draft(id="b", content=text, project="x/b"),
        Draft(id="c", content=text, project="x/b", created_by="Anna Smith"),
        Draft(id="d", content=text, project="x/b", created_by="Berta Smith"),
        Draft(id="e", content="The port is 5433", project="x/c"),
    )
    assert pairs == []


def test_what_happened_twice_is_no_duplicate(links):
    text = "The login test failed"
    later = START + timedelta(days=1)
    pairs = links(
        Draft(id="a", content=text, kind="activity", session="one"),
        Draft(id="b", content=text, kind="activity", session="two"),
        Draft(id="c", content=text, kind="raw_turn", session="one"),
        Draft(id="d", content="The build broke yesterday", created_at=START),
        Draft(id="e", content="The build broke yesterday", created_at=later),
        Draft(id="f", content="I prefer tabs", trust="user"),
        Draft(id="g", content="I prefer tabs", trust="agent"),
    )
    assert pairs == []


def test_a_turn_that_was_kept_twice_is_one(links):
    turn = {"kind": "raw_turn", "session": "one", "created_at": START}
    pairs = links(
        Draft(id="a", content="we go with the queue in Postgres", **turn),
        Draft(id="b", content="We go with the queue in Postgres", **turn),
    )
    assert pairs == [("b", "a", "near")]


def test_a_forgotten_one_has_no_link_and_restored_it_has(built, links, clock: Clock):
    assert links(*drafts("Use uv, never pip", "use uv, never pip")) == [("d1", "d0", "near")]
    commands.forget(built.log, "d0", clock())
    assert named(built) == []
    commands.restore(built.log, "d0", clock())
    assert named(built) == [("d1", "d0", "near")]


def test_show_names_the_duplicates(built, links):
    links(*drafts("The port is 80", "the port is 80.", "The port is 81"))
    shown = answer("show", "d0")["duplicates"]
    assert [(duplicate["id"], duplicate["kind"], duplicate["state"]) for duplicate in shown] == [
        ("d1", "near", "active")
    ]
    update = answer("show", "d2")["duplicates"][0]
    assert (update["id"], update["was"], update["becomes"]) == ("d1", "80", "81")
    assert not update["is_newer"]
