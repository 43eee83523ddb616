"""Usefulness: the figures of a day, a week and a month match the agents' sessions."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from agent import Agent
from click.testing import CliRunner
from dashboard_page import application, browser
from hook_session import NOW, Session, opened, speaks_where_recall_is_sure
from plain_receipt import plain_receipt
from test_pretool import agent, tenants

from serve.cli import main
from serve.hooks import speaking
from serve.recall.context_block import short_id
from serve.reports import usefulness as counted
from serve.reports.usefulness import Period, Usefulness, usefulness
from store.agents.prompt_statements import SAID_OTHERWISE
from store.home.instants import DAY
from store.log import commands, receipts
from store.log.commands import Draft
from store.log.event_kinds import (
    STATEMENT,
    Body,
    Followed,
    Hit,
    Prompted,
    Rated,
    Recalled,
    Recorded,
    SessionTold,
    Superseded,
    Surfaced,
)
from store.log.events import Event
from store.log.receipts import Wanted
from store.plans import lesson_proposals

__all__ = ["agent", "tenants"]  # fixtures

RULE = "From now on always use pnpm in this repository, never npm."


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    speaks_where_recall_is_sure(monkeypatch)
    yield from opened(tmp_path)


def of(session: Session, at: int | None = None) -> Usefulness:
    tenant = session.tenants.get("default")
    tenant.notes.write()
    tenant.reader.poll()
    with tenant.reader.view() as view:
        return usefulness(tenant.log, view, session.at if at is None else at)


def today(session: Session, at: int | None = None) -> Period:
    return of(session, at).periods["today"]


def append_event(session: Session, body: Body, at: int = NOW, subject: str = "") -> None:
    id_ = f"e{session.log.head() + 1}"
    session.log.append([Event(id_, at, body, subject or id_, session="s1")])


def recalled(*ids: str, characters: int | None = None) -> Recalled:
    return plain_receipt(hits=tuple(Hit(id_, 1.0, 0.9) for id_ in ids), characters=characters)


def stated(session: Session) -> list[Event]:
    return [
        event
        for event in session.log.read()
        if isinstance(event.body, Recorded) and event.body.kind == STATEMENT
    ]


def test_prompts_with_a_block_and_silent_ones_are_counted(session: Session):
    session.remember("The staging database listens on port 5433.", kind="fact")
    text = session.ask("which port does the staging database listen on?")
    assert text
    session.ask("thanks")
    session.ask("why is the sky blue over the ocean?")
    period = today(session)
    assert (period.prompts, period.told, period.silent) == (3, 1, 2)
    assert (period.blocks, period.notes, period.measured) == (1, 1, 1)
    assert period.characters == len(text) and period.tokens == -(-len(text) // 4)


def test_silent_prompts_with_a_nearly_sure_memory_are_counted_apart(
    session: Session, monkeypatch: pytest.MonkeyPatch
):
    session.remember("The staging database listens on port 5433.", kind="fact")
    monkeypatch.setattr(speaking, "best", lambda weighed: ())
    session.ask("thanks")
    session.ask("which port does the staging database listen on?")
    period = today(session)
    assert (period.prompts, period.told, period.silent, period.near) == (2, 0, 2, 1)
    page = receipts.page(session.log, Wanted(silent=True, near=True), 5)
    assert [
        receipt.body.query for receipt in page.receipts if isinstance(receipt.body, Recalled)
    ] == ["which port does the staging database listen on?"]


def test_the_length_of_a_recap_is_counted(session: Session):
    session.remember("Move invoices to Postgres", kind="goal", status="open")
    text = session.ask("what did we leave open?")
    assert text
    period = today(session)
    assert (period.told, period.characters) == (1, len(text))


def test_briefs_are_counted_with_their_length(session: Session):
    session.start()
    session.remember("Use pnpm, never npm", kind="lesson")
    session.name = "s2"
    text = session.start()
    assert text
    period = today(session)
    assert (period.briefs, period.notes, period.characters) == (1, 1, len(text))
    assert period.prompts == 0


def test_a_rule_before_a_tool_is_a_note_that_was_followed_or_ignored(agent: Agent):
    log = agent.tenants.get("default").log
    now = 1_790_000_000_000_000
    commands.record(log, Draft(content="Use pnpm, never npm", kind="lesson"), now)
    agent.asked("add lodash to the page")
    text = agent.runs("npm install lodash")
    assert text
    agent.runs("pnpm add lodash")
    agent.stops()
    ((surfaced,), (followed,)) = agent.events("surfaced"), agent.events("followed")
    assert (surfaced.body.characters, followed.body.verdict) == (len(text), "followed")
    tenant = agent.tenants.get("default")
    tenant.reader.poll()
    with tenant.reader.view() as view:
        period = usefulness(log, view, followed.at).periods["today"]
    assert (period.warnings, period.notes, period.characters) == (1, 1, len(text))
    assert (period.followed, period.ignored) == (1, 0)


def test_receipts_of_earlier_versions_count_and_have_no_tokens(session: Session):
    append_event(session, Prompted(prompt="which port?"))
    append_event(session, recalled("m1", "m2"))
    append_event(session, Surfaced(place="prompt"), subject="m1")
    append_event(session, SessionTold(stage="started"), NOW + 1)
    append_event(session, Surfaced(place="session"), NOW + 1, "m3")
    period = today(session, NOW + 2)
    assert (period.told, period.briefs, period.blocks, period.notes) == (1, 1, 2, 3)
    assert (period.measured, period.tokens) == (0, None)
    append_event(session, recalled("m1", characters=10), NOW + 2)
    assert today(session, NOW + 2).tokens == 3


def test_a_recall_that_somebody_asked_for_is_no_block(session: Session):
    append_event(session, msgspec.structs.replace(recalled("m1"), mode="hybrid"))
    append_event(session, recalled())
    append_event(session, msgspec.structs.replace(recalled("m1"), door="cli"))
    append_event(session, msgspec.structs.replace(recalled("m1"), door="mcp"))
    assert today(session, NOW).blocks == 0
    append_event(session, msgspec.structs.replace(recalled("m1"), door="prompt"))
    assert today(session, NOW).blocks == 1


def test_imported_prompts_do_not_count(session: Session):
    append_event(session, Prompted(prompt="which port?", imported=True))
    assert today(session, NOW).prompts == 0


def test_every_period_includes_the_running_day(session: Session):
    midnight = NOW - NOW % DAY
    for at in (
        midnight,
        midnight - 1,
        midnight - 6 * DAY,
        midnight - 29 * DAY,
        midnight - 30 * DAY,
    ):
        append_event(session, Prompted(prompt="which port?"), at)
    append_event(session, Prompted(prompt="which port?"), NOW + 1)
    periods = of(session, NOW).periods
    assert [period.prompts for period in periods.values()] == [1, 3, 4]
    assert periods["today"].since == midnight


def test_verdicts_and_ratings_are_counted(session: Session):
    for verdict in ("followed", "followed", "ignored", "not_applicable"):
        append_event(session, Followed(verdict=verdict, place="prompt"), subject="m1")
    for rating in (1.0, -1.0, -0.5, 0.0):
        append_event(session, Rated(verdict=rating), subject="m1")
    period = today(session, NOW)
    assert (period.followed, period.ignored, period.not_applicable) == (2, 1, 1)
    assert (period.helped, period.harmed) == (1, 2)


def test_a_note_superseded_by_later_words_of_the_user_is_contradicted(session: Session):
    session.ask("Always use pnpm in this repository.")
    session.name = "s2"
    assert session.start()
    session.ask("Never use pnpm in this repository.")
    period = today(session)
    assert period.contradicted == 1
    append_event(
        session, Superseded(by="m8", reason=SAID_OTHERWISE), session.at, "m9"
    )  # never injected
    assert today(session).contradicted == 1


def test_statements_are_kept_accepted_and_taken_back(session: Session):
    session.ask(RULE)
    session.ask("The staging database is at db-staging.internal:5433.")
    rule, fact = stated(session)
    figures = of(session)
    assert [memory.id for memory in figures.kept_today] == [fact.id, rule.id]
    assert figures.periods["today"].kept == 2
    lesson_proposals.accept(session.log, rule.id, session.at)
    commands.forget(session.log, fact.id, session.at)
    figures = of(session)
    assert figures.kept_today == ()
    period = figures.periods["today"]
    assert (period.kept, period.accepted, period.taken_back) == (2, 1, 1)
    commands.restore(session.log, fact.id, session.at)
    assert today(session).taken_back == 0


def test_a_memory_that_is_forgotten_is_no_statement_taken_back(session: Session):
    commands.forget(session.log, session.remember("The port is 5433"), session.at)
    assert today(session).taken_back == 0


def test_episodes_are_counted_on_the_day_of_their_prompt(session: Session):
    session.ask("why does the build fail?")
    session.use(command="make", doing="run", passed=True)
    session.stop()
    assert today(session).episodes == 1
    assert today(session, session.at + DAY).episodes == 0


def test_the_events_read_are_bounded_and_the_cut_is_reported(
    session: Session, monkeypatch: pytest.MonkeyPatch
):
    for number in range(4):
        append_event(session, Prompted(prompt="which port?"), NOW - number * DAY)
    monkeypatch.setattr(counted, "LOOKED_AT", 2)
    figures = of(session, NOW)
    assert [period.prompts for period in figures.periods.values()] == [1, 2, 2]
    assert figures.periods["last_7_days"].since == figures.cut_at == NOW - 2 * DAY + 1
    monkeypatch.setattr(counted, "LOOKED_AT", 4)
    assert of(session, NOW).cut_at is None


def run(session: Session, *arguments: str) -> str:
    home = str(session.tenants.settings.home)
    answer = CliRunner().invoke(main, ["--home", home, "stats", *arguments])
    assert answer.exit_code == 0, answer.output
    return answer.output


def test_the_command_prints_lines_and_json(session: Session, monkeypatch: pytest.MonkeyPatch):
    session.ask(RULE)
    (rule,) = stated(session)
    monkeypatch.setattr("serve.cli.environment.now", lambda: session.at)
    lines, payload = run(session), msgspec.json.decode(run(session, "--json"))["usefulness"]
    undo = f"mnemolog forget {short_id(rule.id)}"
    assert "today     1 prompt: 0 with notes, 1 without" in lines
    assert "statements: 1 kept, 0 accepted, 0 taken back" in lines
    assert f"{RULE}\u201d (take it back: {undo})" in lines
    assert payload["today"]["prompts"] == {"seen": 1, "told": 0, "silent": 1, "near": 0}
    assert payload["last_30_days"]["statements"]["kept"] == 1
    assert [(statement["text"], statement["take_back"]) for statement in payload["kept_today"]] == [
        (RULE, undo)
    ]


def test_the_overview_shows_usefulness_and_how_to_take_a_statement_back(session: Session):
    session.ask(RULE)
    (rule,) = stated(session)
    owner = browser(application(session.tenants, lambda: session.at))
    page = owner.get("/t/default/overview").text
    part = page[page.index("What hooks injected") :].partition("</section>")[0]
    assert "Prompts" in part and "without notes" in part and "Statements kept" in part
    assert RULE in page and f'action="/t/default/lessons/{rule.id}"' in page
    assert "<script>" not in part and "style=" not in part
