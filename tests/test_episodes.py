"""Every turn of an agent is an episode: searchable as it happened, quoted, in no list, erasable."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import answer, succeed
from hook_session import Session, notes, opened, speaks_where_recall_is_sure
from hypothesis import example, given, settings
from hypothesis import strategies as st
from test_app import TOKEN, get

from serve.app import create_app
from serve.cli import environment as cli
from serve.reader.filters import Filter
from serve.reader.view import newest
from serve.recall.analysis import default_question
from serve.recall.recall import Question, recall
from store.embedders.lexical import LexicalEmbedder
from store.home import tenant
from store.home.config import Choices
from store.home.errors import InvalidInput, NotFound
from store.log import commands
from store.log.commands import Draft
from store.log.event_kinds import (
    EPISODE,
    Acted,
    Forgotten,
    Prompted,
    Recalled,
    Revised,
    SessionTold,
)
from store.log.event_log import EventLog
from store.log.events import Event, encode
from store.maintenance.build import rebuild
from store.maintenance.export import export
from store.memories.fold import Fold
from store.memories.memory import ACTIVE, FORGOTTEN, OPEN

MODEL = LexicalEmbedder()
ASKED = "make the parcel tracker survive an outage of the carrier"
PASSED = "FAILED tests/test_parcel.py::test_outage - ConnectionResetError: zanzibar.example:7443"
SAID = "The tracker keeps the last known position in a quokka cache now."
# words of the prompt, of a command's output, of an edited file's name and names, of the last
# message
QUESTIONS = {
    "prompt": "outage of the carrier",
    "output": "ConnectionResetError zanzibar.example:7443",
    "file": "parcel_tracker.py",
    "words": "last known position quokka cache",
}


@pytest.fixture
def session(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    made = opened(home)
    one = next(made)
    monkeypatch.setattr(cli, "now", lambda: one.at)
    yield one
    made.close()
    one.tenants.close()


def turn(session: Session) -> str:
    """Play a turn; return the id of its episode."""
    session.ask(ASKED)
    session.use(doing="run", command="pytest tests/test_parcel.py", passed=False, output=PASSED)
    session.use("Edit", doing="edit", files=("src/parcel_tracker.py",), passed=True)
    return session.events(Prompted)[-1].id


def found(session: Session, question: str, **asked: object) -> list[str]:
    reader = session.tenants.get("default").reader
    reader.poll()
    with reader.view() as view:
        asked_for = Filter(session.at, "", **asked)
        wanted = Question(text=question, filter=asked_for, top_k=5, min_confidence=0.0)
        return [hit.memory.id for hit in recall(view, wanted).hits]


def first(session: Session, question: str) -> str:
    """Return the kind of the first hit of a recall with the default settings."""
    session.tenants.get("default").reader.poll()
    with session.tenants.get("default").reader.view() as view:
        asked = default_question(question, Filter(session.at, ""), Choices())
        return recall(view, asked).hits[0].memory.kind


def build(session: Session, *, full: bool = False) -> dict[str, str]:
    manifest = rebuild(
        session.tenants.get("default").tenant, session.log, MODEL, session.at, full=full
    )
    session.tenants.get("default").reader.poll()
    return dict(manifest.digests)


def test_an_episode_is_found_once_its_turn_is_over_by_what_was_asked_done_and_said(
    session: Session,
):
    id_ = turn(session)
    assert all(id_ not in found(session, question) for question in QUESTIONS.values())
    session.stop(SAID)
    for where, question in QUESTIONS.items():
        assert found(session, question) == [id_], where
    build(session)
    for where, question in QUESTIONS.items():
        assert found(session, question) == [id_], where


@pytest.mark.parametrize("built", [True, False])
def test_a_long_turn_that_holds_a_questions_words_by_chance_stands_behind_the_note(
    session: Session, built: bool
):
    for number in range(40):
        session.ask(f"look at module {number} and list what it needs")
        session.stop(f"Module {number} needs only part{number} and the lock.")
    session.ask("the skip markers are wrong in the nightly run, please look")
    for number in range(60):
        line = f"skip worker{number}, report line {number}, show stage{number} of host{number}"
        session.use(doing="run", command=f"run shard{number}", passed=True, output=line)
    session.stop("Done, the nightly run is green.")
    draft = Draft(content="Skip reports give the line of the decorated function")
    commands.record_batch(session.log, [draft], session.at)
    if built:
        build(session)
    assert first(session, "which line should a skip report show?") == "fact"
    assert first(session, "skip markers wrong in the nightly run, show line of report") == EPISODE


def test_an_open_episode_is_not_found_after_a_build_either(session: Session):
    id_ = turn(session)
    build(session)
    assert all(id_ not in found(session, question) for question in QUESTIONS.values())
    session.stop(SAID)
    assert found(session, QUESTIONS["words"]) == [id_]


@pytest.mark.parametrize("prompt", ["thanks!", "go on", "/compact"])
def test_a_turn_of_small_talk_is_no_episode_unless_something_was_done(
    session: Session, prompt: str
):
    session.ask(prompt)
    session.stop("You are welcome: the zeppelin hangar is ready.")
    assert found(session, "zeppelin hangar") == []
    session.ask(prompt)
    session.use("Edit", doing="edit", files=("src/zeppelin_hangar.py",), passed=True)
    session.stop("The zeppelin hangar is ready.")
    assert found(session, "zeppelin hangar") == [session.events(Prompted)[-1].id]


def test_what_a_later_session_is_told_of_a_turn_is_who_said_what(
    session: Session, monkeypatch: pytest.MonkeyPatch
):
    speaks_where_recall_is_sure(monkeypatch)
    id_ = turn(session)
    session.stop(SAID)
    session.name = "s2"
    (payload,) = notes(session.ask("why does the parcel tracker survive an outage of the carrier?"))
    assert id_.startswith(payload["id"]) and len(payload["id"]) >= 10
    assert (payload["user_asked"], payload["agent_said"]) == (ASKED, SAID)
    assert "zanzibar" in payload["tool_output"] and "rule" not in payload


def test_a_turn_is_told_with_the_files_it_edited_those_of_the_question_first(
    session: Session, monkeypatch: pytest.MonkeyPatch
):
    speaks_where_recall_is_sure(monkeypatch)
    far = "/home/kit/a-folder-of-a-long-name/another-one/third/src/outage.py"
    files = (*(f"src/part{number}.py" for number in range(6)), "src/carrier.py", far)
    session.ask(ASKED)
    session.use("Edit", doing="edit", files=files, passed=True)
    session.stop(SAID)
    session.name = "s2"
    (payload,) = notes(session.ask("why does the parcel tracker survive an outage of the carrier?"))
    edited = payload["edited"]
    assert len(edited) == 4 and edited[-2] == "src/carrier.py"
    assert edited[-1] == ".../kit/a-folder-of-a-long-name/another-one/third/src/outage.py"


def test_what_an_agent_reports_is_told_before_what_it_was_about_to_do(
    session: Session, monkeypatch: pytest.MonkeyPatch
):
    speaks_where_recall_is_sure(monkeypatch)
    session.ask(ASKED)
    session.stop(
        f"Perfect! Let me look at the tracker. Now I'll read the carrier's outage log. {SAID} "
        "Three steps: 1. The carrier answers. 2. The cache is cleared."
    )
    session.name = "s2"
    (payload,) = notes(session.ask("why does the parcel tracker survive an outage of the carrier?"))
    assert payload["agent_said"].startswith(SAID)
    assert "2. The cache is cleared." in payload["agent_said"]


def test_what_a_command_wrote_of_a_variable_that_names_a_secret_is_no_text(session: Session):
    session.ask(ASKED)
    session.use(doing="run", command="echo $DEPLOY_TOKEN", output="q7Xk29LmPz84vTr1Zb", passed=True)
    session.stop(SAID)
    build(session)
    assert found(session, "q7Xk29LmPz84vTr1Zb") == []
    assert len(found(session, QUESTIONS["words"])) == 1  # the rest of the turn is there


def test_episodes_are_in_no_list_but_where_they_are_asked_for(session: Session):
    id_ = turn(session)
    session.stop(SAID)
    session.remember("The carrier is called Albatross", id="fact")
    for built in (False, True):
        if built:
            build(session)
        with session.tenants.get("default").reader.view() as view:
            assert [memory.id for memory in newest(view, Filter(session.at, ""), 9)] == ["fact"]
            of_kind = Filter(session.at, "", kinds=(EPISODE,))
            assert [memory.id for memory in newest(view, of_kind, 9)] == [id_]
    listed = succeed("list", "--json")
    assert id_ not in listed.output and "fact" in listed.output
    assert [json.loads(line)["id"] for line in export(session.log, session.at)] == ["fact"]


# One turn, from any source

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["s1", "s2", None]),
        st.sampled_from(
            [
                Prompted(prompt="why does the cart lose items?", intent="work"),
                Prompted(prompt="thanks", intent="small_talk"),
                Acted(tool="Bash", doing="run", command="make", passed=False, error="boom"),
                Acted(tool="Edit", doing="edit", files=("cart.py",), passed=True, names=("Cart",)),
                SessionTold(stage="stopped", said="The cart keeps its items."),
                SessionTold(stage="compacted", said="a summary"),
                SessionTold(stage="ended"),
                Forgotten(),
            ]
        ),
    ),
    max_size=14,
)


ASKS = Prompted(prompt="why does the cart lose items?", intent="work")
EDITS = Acted(tool="Edit", doing="edit", files=("cart.py",), passed=True, names=("Cart",))
GOES_ON = [("s2", ASKS), ("s2", SessionTold(stage="ended")), ("s2", EDITS), ("s2", ASKS)]


@example(GOES_ON, 2)
@example(GOES_ON[:3], 1)
@settings(max_examples=12, deadline=None)
@given(STEPS, st.integers(0, 14))
def test_built_in_two_steps_or_one_or_not_at_all_the_episodes_are_the_same(
    tmp_path_factory: pytest.TempPathFactory, steps: list, split: int
):
    for session in opened(tmp_path_factory.mktemp("home")):
        events = []
        for number, (name, body) in enumerate(steps):
            of = events[0].id if isinstance(body, Forgotten) and events else f"e{number}"
            events.append(Event(f"e{number}", session.at + number, body, of, None, name))
        session.log.append(events[:split])
        if events[:split]:
            build(session)
        session.log.append(events[split:])
        unbuilt = _rows(session, events)
        if not events:
            continue
        grown = build(session)
        assert _rows(session, events) == unbuilt == _folded(session)
        assert build(session, full=True) == grown


def _rows(session: Session, events: list[Event]) -> list[object]:
    reader = session.tenants.get("default").reader
    reader.poll()
    with reader.view() as view:
        memories = [view.tail.find(event.id) for event in events]
    return [memory for memory in memories if memory is not None and memory.state != OPEN]


def _folded(session: Session) -> list[object]:
    fold = Fold()
    for event in session.log.read():
        fold.apply(event)
    return [row for row in fold.rows.values() if row.state != OPEN]


# By its id


def test_the_beginning_of_an_episodes_id_names_it_everywhere(session: Session):
    id_ = turn(session)
    session.stop(SAID)
    short = id_[:14]
    client = create_app(
        session.tenants, TOKEN, lambda: session.at, hook_deadline_s=30.0
    ).test_client()
    response = get(client, f"/v1/memories/{short}")
    assert (response.status_code, response.json["id"], response.json["kind"]) == (200, id_, EPISODE)
    assert get(client, "/v1/memories/01ZZZZZZZZ").status_code == 404
    assert commands.resolve(session.log, short) == id_
    assert answer("show", short)["id"] == id_


def test_an_id_that_could_be_two_is_refused_with_both(session: Session):
    for id_ in ("01AAAAAAAAAAAAA1", "01AAAAAAAAAAAAA2"):
        body = Prompted(prompt=f"ask {id_}")
        session.log.append([Event(id_, session.at, body, id_, session="s1")])
    client = create_app(
        session.tenants, TOKEN, lambda: session.at, hook_deadline_s=30.0
    ).test_client()
    answer = get(client, "/v1/memories/01AAAAAAAAAAAA")
    assert answer.status_code == 400
    assert "could be 01AAAAAAAAAAAAA1, 01AAAAAAAAAAAAA2" in answer.json["detail"]


def test_an_episode_is_rated_and_forgotten_and_never_revised(session: Session):
    id_ = turn(session)
    session.stop(SAID)
    assert commands.rate(session.log, id_, -1.0, session.at).subject == id_
    assert commands.resolve_rated(session.log, id_[:14]) == id_
    with pytest.raises(InvalidInput, match="a record of what happened: record a new"):
        commands.revise(session.log, id_, Revised(content="It never failed"), session.at)
    commands.forget(session.log, id_, session.at)
    assert found(session, QUESTIONS["words"]) == []
    commands.restore(session.log, id_, session.at)
    assert found(session, QUESTIONS["words"]) == [id_]
    with pytest.raises(NotFound):
        commands.forget(session.log, session.events(Acted)[0].id, session.at)


# Erased


@pytest.mark.usefixtures("jobs_here")
def test_an_erased_episode_leaves_nothing_of_its_turn_and_all_of_the_others(
    session: Session, home: Path
):
    first = turn(session)
    session.stop(SAID)
    session.ask("rename the invoice printer to billing press")
    session.stop("The billing press prints.")
    build(session)
    session.name = "s2"
    session.ask("has the tracker a cache?")
    session.stop("It has.")
    session.tenants.close()
    succeed("erase", first[:14], "--yes", "--json")
    gone = ("zanzibar", "quokka", "outage", "parcel_tracker", "test_parcel")
    for path in home.rglob("*"):
        text = path.read_bytes() if path.is_file() else b""
        assert [word for word in gone if word.encode() in text] == [], path
    with EventLog(tenant.tenant(home).log) as log:
        bodies = [encode(event.body) for event in log.read()]
        assert not any(word in body for body in bodies for word in gone)
        assert any("billing press" in body for body in bodies)
        kinds = [event.kind for event in log.read() if event.session == "s1"]
        assert {"prompted", "action", "session"} <= set(kinds)  # the event itself stays
        receipts = [other.body for other in log.read() if isinstance(other.body, Recalled)]
        assert receipts[0].query == ""
        fold = Fold()
        for event in log.read():
            fold.apply(event)
        assert (fold.rows[first].state, fold.rows[first].text) == (FORGOTTEN, "")
        others = [row for row in fold.rows.values() if row.id != first and row.kind == EPISODE]
        assert [memory.state for memory in others] == [ACTIVE, ACTIVE]
        with pytest.raises(NotFound, match="erased"):
            commands.restore(log, first, session.at)
