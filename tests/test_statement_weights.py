"""Statements of the user lead the brief by weight, not by date."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hook_session import MINUTE, Session, ids, notes, opened

from store.derived.feedback import Counts
from store.derived.statement_weights import (
    STATEMENT_WEIGHTS_PROJECTION,
    Scores,
    lasting,
    weigh,
)
from store.embedders.lexical import LexicalEmbedder
from store.home import tenant
from store.log import commands
from store.log.event_kinds import Followed
from store.log.events import Event
from store.maintenance.build import rebuild
from store.snapshots import manifest as manifests
from store.snapshots.snapshot import read

CHORES = (
    "the footer looks odd on the login page",
    "rename the second column to amount",
    "move the button a bit to the left",
    "the export of yesterday had a wrong title",
    "split the parser test in two files",
)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    yield from opened(tmp_path)


def state(session: Session, text: str, /, **fields: object) -> str:
    return session.remember(text, kind="statement", trust="user", **fields)


def build(session: Session, home: Path) -> None:
    rebuild(tenant.tenant(home), session.log, LexicalEmbedder(), session.at)
    session.tenants.get("default").reader.poll()


def weights(home: Path) -> list[dict[str, object]]:
    built = tenant.tenant(home)
    ref = manifests.current(built).projections["statement_weights"]
    tables = read(built.snapshots, ref, STATEMENT_WEIGHTS_PROJECTION)
    return tables["statement_weights"].to_pylist()


def test_brief_begins_with_the_rule_of_long_ago_before_chores_of_yesterday(
    session: Session, tmp_path: Path
):
    state(session, "Never push to main without a review, in any repository of ours.", id="rule")
    for number, chore in enumerate(CHORES):
        state(session, chore, id=f"chore{number}", session=f"s{number}")
    assert ids(session.start())[0] == "rule"
    build(session, tmp_path)
    assert ids(session.start("clear"))[0] == "rule"


def test_statement_said_again_in_other_words_counts_once_per_session(
    session: Session, tmp_path: Path
):
    state(session, "Invoices are rounded to whole cents, always.", id="a", session="s1")
    state(session, "always round the invoices to whole cents", id="b", session="s2")
    state(session, "Round invoices always to whole cents!", id="c", session="s2")
    state(session, "Always round the invoices to whole cents", id="d", project="other")
    state(session, "The deploy key expires in june", id="e", session="s3")
    build(session, tmp_path)
    rows = session.tenants.get("default").reader.answer(
        lambda view: [memory.id for memory in view.snapshots.rows.take(range(5))]
    )
    assert dict(zip(rows, (row["restated"] for row in weights(tmp_path)), strict=True)) == {
        "a": 1,
        "b": 1,
        "c": 1,
        "d": 0,
        "e": 0,
    }
    notes_ = [note for note in notes(session.start()) if "user_said" in note]
    assert {"a", "b"}.isdisjoint(note["id"] for note in notes_), "the newest wording stands"


def test_followed_statement_outweighs_an_equal_one(session: Session, tmp_path: Path):
    state(session, "Tests of the parser live beside the parser", id="first")
    state(session, "Docs of the parser live beside the docs", id="second")
    order = ids(session.start())
    last = order[-1]
    for _ in range(60):
        session.at += MINUTE
        id_ = f"f{session.at}"
        session.log.append([Event(id_, session.at, Followed(verdict="followed"), last)])
    build(session, tmp_path)
    assert ids(session.start("clear"))[0] == last


def test_weight_grows_with_followers_and_falls_with_refusals():
    plain = weigh(Scores(0.7), Counts())
    assert weigh(Scores(0.7, restated=1), Counts()) > plain
    assert (
        weigh(Scores(0.7, routine=2), Counts()) < plain == weigh(Scores(0.7, routine=1), Counts())
    )
    assert weigh(Scores(0.7), Counts(followed=2)) > plain > weigh(Scores(0.7), Counts(ignored=2))
    assert weigh(Scores(1.0), Counts()) == weigh(Scores(0.999), Counts()), "it has a ceiling"


def test_chore_of_every_week_stands_below_a_rule_however_it_sounds(
    session: Session, tmp_path: Path
):
    """Each review has the same form with new content; a repeated rule has the same content."""
    for number, (name, file) in enumerate(
        (("queue", "api/main.tf"), ("labels", "docs/oncall.md"), ("depot", "envs/rds.tf"))
    ):
        state(
            session,
            f"always the same on the pr: naming of {name}, and split {file} in two",
            id=f"review{number}",
            session=f"s{number}",
        )
    for number in range(3):
        state(session, "Never close a ticket that somebody else opened.", session=f"r{number}")
    build(session, tmp_path)
    rows = weights(tmp_path)
    assert [row["routine"] for row in rows] == [2, 2, 2, 0, 0, 0]
    assert [row["restated"] for row in rows] == [0, 0, 0, 2, 2, 2]
    statements = [note["user_said"] for note in notes(session.start()) if "user_said" in note]
    assert statements[0].startswith("Never close a ticket")


def test_long_statement_is_shown_by_its_lasting_sentences(session: Session):
    state(
        session,
        "I looked at the screen for a while this morning and the table on the left was rather hard "
        "to read for somebody like me. Never use colour alone to tell states apart, in any page. "
        "The other one looked fine when I opened it a second time.",
    )
    (note,) = [note for note in notes(session.start()) if "user_said" in note]
    assert "Never use colour alone" in note["user_said"]
    assert "second time" not in note["user_said"]


def test_forgotten_statement_has_no_weight(session: Session, tmp_path: Path):
    state(session, "Never push to main", id="gone")
    commands.forget(session.log, "gone", session.at)
    build(session, tmp_path)
    assert weights(tmp_path) == []


@pytest.mark.parametrize("text", ["Never push to main without a review.", CHORES[0]])
def test_a_raised_importance_never_lowers_a_statement_and_a_lowered_one_never_raises_it(text: str):
    by_classifier = lasting(text, 0.6, "user")  # the usual importance
    raised, lowered = lasting(text, 0.8, "user"), lasting(text, 0.3, "user")
    assert raised == max(by_classifier, 0.8) and lowered == min(by_classifier, 0.3)
