"""Two settings, interleaved in one answer and judged by the use of its memories."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from hook_session import NOW, Session, opened, speaks_where_recall_is_sure
from test_replay import TOPICS, search
from test_setting_plans import file_of, propose

from serve.cli import main
from serve.evaluation.bundle import make_bundle, rerun
from serve.evaluation.replay import replay
from serve.evaluation.trial import count_credits, sign_test
from serve.recall.recall import Hit
from serve.recall.request import Asker, RecallRequest, answer
from serve.recall.team_draft import team_draft
from store.embedders.lexical import LexicalEmbedder
from store.home.config import Choices
from store.home.errors import Conflict, InvalidInput
from store.home.instants import moment
from store.log import commands, receipts
from store.log.event_kinds import Recalled, Recorded
from store.log.events import Event
from store.log.receipts import Wanted
from store.memories.fold import new_memory
from store.plans import plans
from store.plans.plans import Plan
from store.plans.setting_changes import start_trial, trial_end

EMBEDDER = LexicalEmbedder()


def hits(*ids: str, copies: tuple[str, ...] = ()) -> tuple[Hit, ...]:
    body = Recorded(content="x")
    memories = (new_memory(Event(id_, NOW, body, id_), body) for id_ in ids)
    return tuple(Hit(memory, 1.0, 0.5, copies) for memory in memories)


def test_teams_pick_in_turn_and_a_draw_decides_who_begins():
    drafts = {team_draft(hits("a", "b"), hits("c", "d"), f"r{number}") for number in range(40)}
    orders = {("".join(hit.memory.id for hit in some), teams) for some, teams in drafts}
    assert orders == {("ac", "AB"), ("ca", "BA")}
    draft = team_draft(hits("a", "b"), hits("c", "d"), "r1")
    assert draft == team_draft(hits("a", "b"), hits("c", "d"), "r1")


def test_hits_of_both_teams_are_returned_once():
    for number in range(20):
        draft, teams = team_draft(hits("a", "b", "c"), hits("b", "a", "d"), f"r{number}")
        ids = [hit.memory.id for hit in draft]
        assert len(ids) == len(set(ids)) == len(teams) == 3 and {"a", "b"} <= set(ids)
    copied, _ = team_draft(hits("a", copies=("b",)), hits("b"), "r")
    assert len(copied) == 1


def test_an_empty_team_leaves_the_hits_of_the_other():
    draft, teams = team_draft(hits("a", "b"), (), "r1")
    assert [hit.memory.id for hit in draft] == ["a", "b"] and teams == "AA"
    assert team_draft((), (), "r1") == ((), "")


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    speaks_where_recall_is_sure(monkeypatch)
    for session in opened(tmp_path):
        for number, topic in enumerate(TOPICS):
            for sort in ("owned by", "watched by", "run by"):
                session.remember(f"The {topic} is {sort} team {number}", importance=0.1 * number)
        search(session, "who owns the parser")
        yield session


def tried(session: Session, **changes: str) -> Plan:
    plan = propose(session, **changes)
    start_trial(session.log, plan.body, plan.id, moment(session.at + 86_400_000_000))
    session.tenants.refresh_settings()
    return plan


def ask(session: Session, query: str) -> Event:
    """Ask as a program does, with the server's settings."""
    session.at += 60_000_000
    served, choices = session.tenants.get("default"), session.tenants.settings.choices
    request = RecallRequest(query=query)
    _, receipt = answer(served.reader, request, choices, session.at, Asker(door="mcp"))
    assert receipt is not None
    served.log.append([receipt])
    return receipt


def test_without_a_trial_nothing_is_tried(session: Session):
    assert ask(session, "who owns the parser").body.trial is None


def test_a_receipt_records_the_team_of_each_hit_and_replays_to_the_byte(session: Session):
    plan, start = tried(session, top_k="3", profile="wal"), session.at + 1
    for topic in TOPICS:
        ask(session, f"who owns the {topic}")
        session.ask(f"which team owns the {topic}?")
    newest = receipts.page(session.log, Wanted(since=start), 99).receipts
    bodies = [event.body for event in newest if isinstance(event.body, Recalled)]
    assert all(body.trial and body.trial.plan == plan.id for body in bodies)
    assert {len(body.trial.teams) == len(body.hits) for body in bodies if body.trial} == {True}
    assert {"A", "B"} <= {team for body in bodies if body.trial for team in body.trial.teams}
    again = list(replay(session.log, EMBEDDER, newest, Choices()))
    assert {event.body.door for event in newest} == {"mcp", "prompt"}
    assert [replay.verdict for replay in again] == ["same"] * len(newest)
    bundle = make_bundle(session.log, EMBEDDER, "lexical", newest[0], all_projects=True)
    assert rerun(bundle, EMBEDDER).verdict == "same"
    plans.reject(session.log, plan.id, session.at)  # nor does the end of the trial change that
    assert {result.verdict for result in replay(session.log, EMBEDDER, newest, Choices())} == {
        "same"
    }


@pytest.mark.parametrize("end", ["apply", "reject", "time"])
def test_a_trial_ends_with_its_plan_or_its_time(session: Session, end: str):
    plan = tried(session, profile="wal")
    assert ask(session, "who owns the parser").body.trial is not None
    if end == "apply":
        plans.apply(session.log, plan.id, session.at, force=True)
    elif end == "reject":
        plans.reject(session.log, plan.id, session.at)
    else:
        session.at += 2 * 86_400_000_000
    session.tenants.refresh_settings()
    assert ask(session, "who owns the parser").body.trial is None
    if end != "time":
        assert trial_end(session.log, plan.id) is None
        assert "[trial]" not in file_of(session).read_text()


def test_a_rated_hit_is_a_vote_for_its_team(session: Session):
    plan = tried(session, profile="wal")
    assert count_credits(session.log, plan) is None
    for number in range(9):
        receipt = ask(session, f"who owns the {TOPICS[number % 6]}" + "?" * number)
        teams = dict(zip(receipt.body.trial.teams, receipt.body.hits, strict=True))
        commands.rate(session.log, teams["B" if number else "A"].id, 1.0, session.at + 1)
    credits = count_credits(session.log, plan)
    assert credits is not None and credits.recalls == 9 and credits.present + credits.planned > 0


def test_the_sign_test_is_the_binomial_one():
    assert sign_test(0, 0) == sign_test(3, 3) == 1.0
    assert sign_test(1, 9) == pytest.approx(2 * 11 / 1024)
    assert sign_test(0, 5) == pytest.approx(0.0625)


def test_settings_that_cannot_be_tried_are_refused(session: Session):
    first, second = tried(session, profile="wal"), propose(session, top_k="3")
    until = moment(NOW)
    with pytest.raises(Conflict, match=rf"plan {first.id} is being tried: .*--stop"):
        start_trial(session.log, second.body, second.id, until)
    step = msgspec.structs.replace(first.body.steps[0], body={"name": "embedder", "value": "x"})
    with pytest.raises(InvalidInput, match="cannot be tried"):
        start_trial(session.log, msgspec.structs.replace(first.body, steps=(step,)), "x", until)


def test_the_command_starts_shows_and_stops_a_trial(session: Session):
    def run(*words: str) -> tuple[int, str]:
        home = str(session.tenants.settings.home)
        result = CliRunner().invoke(main, ["--home", home, "plans", *words])
        return result.exit_code, result.output

    plan = propose(session, profile="wal")
    code, text = run("trial", plan.id, "--days", "3")
    assert code == 0 and "tried beside what is set, until 20" in text
    session.tenants.refresh_settings()
    ask(session, "who owns the parser")
    code, text = run("show", plan.id)
    assert "1 recall answered both ways: 0 speak for what is set" in text
    assert "too few to tell" in text
    assert msgspec.json.decode(run("show", plan.id, "--json")[1])["trial"]["recalls"] == 1
    assert run("trial", plan.id, "--stop")[0] == 0 and file_of(session).read_text() == ""
    assert run("trial", plan.id, "--stop")[0] == 2
