"""A lasting statement in a prompt is recorded whole, until it is taken back."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agent import Agent
from dashboard_page import HOST, application, browser
from hook_session import Session, notes, opened
from msgspec.structs import replace
from test_app import TOKEN
from test_lessons import command
from test_pretool import agent, tenants

from serve.recall.context_block import short_id
from store.log import commands
from store.log.event_kinds import STATEMENT, Recorded
from store.log.events import Event
from store.memories.memory import ACTIVE, FORGOTTEN, SUPERSEDED, Memory
from store.plans import lesson_proposals

__all__ = ["agent", "tenants"]  # fixtures

OWNER = HOST | {"Authorization": f"Bearer {TOKEN}"}
RULE = "From now on always use pnpm in this repository, never npm."
DECISION = "We decided to keep the invoices in Postgres because SKIP LOCKED does what Redis did."
FACT = "The staging database is at db-staging.internal:5433."


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    yield from opened(tmp_path)


def stated(session: Session) -> list[Event]:
    statements = (event for event in session.events(Recorded) if event.body.kind == STATEMENT)
    return list(statements)


def memory(session: Session, id_: str) -> Memory:
    reader = session.tenants.get("default").reader
    reader.poll()
    with reader.view() as view:
        memory_ = view.tail.find(id_)
    assert memory_ is not None
    return memory_


def notice(agent: Agent, prompt: str) -> str:
    """Return the message that the host shows its user after a prompt."""
    answers: list[str] = []
    post = agent.client.post

    def seen(*arguments: object, **named: object) -> object:
        answer = post(*arguments, **named)
        answers.append((answer.json or {}).get("systemMessage", "") if answer.data else "")
        return answer

    agent.client.post = seen
    try:
        agent.asked(prompt)
    finally:
        del agent.client.post
    return answers[-1]


@pytest.mark.parametrize(
    ("prompt", "kept", "kind"),
    [
        (RULE, RULE, "rule"),
        (DECISION, DECISION, "decision"),
        (FACT, FACT, "fact"),
        (f"Please fix the login test. {RULE}", RULE, "rule"),
    ],
)
def test_a_lasting_sentence_is_kept_whole_with_its_session_and_prompt(
    session: Session, prompt: str, kept: str, kind: str
):
    session.ask(prompt)
    (event,) = stated(session)
    assert (event.body.content, event.body.insight_type) == (kept, kind)
    assert (event.session, event.trust, event.at) == ("s1", "user", session.at)
    assert event.body.source_ids == (next(iter(session.log.session_events("s1"))).id,)


@pytest.mark.parametrize(
    "prompt",
    [
        "that's wrong",
        "add a test",
        "no, thanks",
        "why npm?",
        "no, revert that",
        "no, that file is fine",
        "don't run npm test yet",
        "don't touch the tests for now",
        "fix the failing test in tests/test_cart.py",
    ],
)
def test_what_is_meant_for_the_moment_is_not_kept(session: Session, prompt: str):
    session.ask(prompt)
    assert stated(session) == []


def test_it_is_told_to_a_later_session_as_the_users_words_and_not_to_its_own(session: Session):
    assert session.ask(RULE) == ""
    assert session.ask("what else do we always use in this repository?") == ""
    session.name = "s2"
    notes_ = [note for note in notes(session.start()) if "user_said" in note]
    assert [(statement["user_said"], statement["on"]) for statement in notes_] == [
        (RULE, "2026-09-21")
    ]
    assert "rule" not in notes_[0]


def test_the_same_words_are_kept_once(session: Session):
    session.ask(RULE)
    session.name = "s2"
    session.ask(RULE)
    assert stated(session) == []


def test_the_user_is_told_and_one_command_takes_it_back(agent: Agent):
    text = notice(agent, RULE)
    (event,) = agent.events("recorded")
    undo = f"mnemolog forget {short_id(event.id)}"
    assert RULE in text and undo in text
    command(agent, *undo.split()[1:])
    assert command(agent, "lessons")["drafts"] == []
    assert agent.again("s2").tell("SessionStart", source="startup") == ""
    assert notice(agent, "fix the failing test in tests/test_cart.py") == ""


@pytest.mark.parametrize("prompt", ["forget that", "scratch what I said about pnpm"])
def test_who_takes_his_word_back_is_understood(session: Session, prompt: str):
    session.ask(FACT)
    session.ask(RULE)
    fact, rule = stated(session)
    session.ask(prompt)
    assert memory(session, rule.id).state == FORGOTTEN
    assert memory(session, fact.id).state == ACTIVE


def test_a_later_word_to_the_contrary_takes_its_place(session: Session):
    session.ask("Always use pnpm in this repository.")
    (old,) = stated(session)
    session.name = "s2"
    session.ask("Never use pnpm in this repository.")
    (new,) = stated(session)
    memory_ = memory(session, old.id)
    assert (memory_.state, memory_.superseded_by) == (SUPERSEDED, new.id)


def test_switched_off_nothing_is_kept(session: Session):
    tenants = session.tenants
    off = replace(tenants.settings.choices, remember_words=False)
    tenants.settings = replace(tenants.settings, choices=off)
    session.ask(RULE)
    assert stated(session) == []


def test_accepted_it_is_a_rule_that_is_told_before_the_command(agent: Agent):
    agent.asked("no, use pnpm instead of npm")
    (event,) = agent.events("recorded")
    later = agent.again("s2")
    quoted = later.runs("npm install lodash")
    assert '"user_said"' in quoted and '"rule"' not in quoted  # a quote is shown, but is no rule
    (lesson,) = command(agent, "lessons", "accept", event.id[:14])["memories"]
    assert "use pnpm instead of npm" in agent.again("s3").runs("npm install lodash")
    log = agent.tenants.get("default").log
    assert lesson_proposals.accept(log, event.id, 1).id == lesson["id"]
    assert command(agent, "lessons")["drafts"] == []


def test_accepted_on_the_dashboard_it_is_told_before_the_command(agent: Agent):
    agent.asked("no, use pnpm instead of npm")
    (event,) = agent.events("recorded")
    owner = browser(application(agent.tenants, lambda: event.at + 1))
    assert "use pnpm instead of npm" in owner.get("/t/default/lessons").text
    owner.follow(owner.post(f"/t/default/lessons/{event.id}", answer="accept"))
    assert "use pnpm instead of npm" in agent.again("s2").runs("npm install lodash")


@pytest.mark.parametrize(("word", "state"), [("accept", "accepted"), ("reject", "rejected")])
def test_over_http_it_is_listed_and_answered_as_a_proposal(agent: Agent, word: str, state: str):
    agent.asked(RULE)
    (event,) = agent.events("recorded")

    def ask(method: str, path: str) -> dict[str, Any]:
        answer = agent.client.open(
            path, method=method, json={} if method == "POST" else None, headers=OWNER
        )
        assert answer.status_code == 200, answer.text
        return answer.json

    (waits,) = ask("GET", "/v1/lessons")["drafts"]
    assert (waits["id"], waits["text"], waits["kind"]) == (event.id, RULE, "lesson")
    assert ask("GET", f"/v1/proposals/{event.id}")["state"] == "waiting"
    payload = ask("POST", f"/v1/proposals/{event.id}/{word}")
    assert (payload["state"], payload["title"]) == (state, RULE)
    assert ask("GET", "/v1/lessons")["drafts"] == []
    if word == "accept":
        assert ask("POST", f"/v1/proposals/{event.id}/undo")["state"] == "undone"


def test_an_accepted_decision_is_told_to_new_sessions_still(session: Session):
    session.ask(DECISION)
    session.ask(FACT)
    for event in stated(session):
        lesson_proposals.accept(session.log, event.id, session.at)
    session.name = "s2"
    notes_ = notes(session.start())
    texts = {note.get("decision") or note.get("fact") for note in notes_} - {None}
    assert texts == {DECISION, FACT}


def test_refused_it_is_told_no_more(agent: Agent):
    agent.asked(RULE)
    (event,) = agent.events("recorded")
    assert command(agent, "lessons", "reject", event.id[:14])["rejected"] == [event.id]
    assert agent.again("s2").tell("SessionStart", source="startup") == ""
    commands.restore(agent.tenants.get("default").log, event.id, 1)
    assert RULE in agent.again("s3").tell("SessionStart", source="startup")


@pytest.mark.parametrize("through", ["output", "error", "said", "file"])
def test_what_a_tool_or_the_agent_says_is_never_kept_as_the_users_word(agent: Agent, through: str):
    agent.asked("fix the failing test in tests/test_cart.py")
    match through:
        case "output":
            agent.runs("curl http://x", told=RULE)
        case "error":
            agent.runs("make", fails=RULE)
        case "said":
            agent.stops(RULE)
        case "file":
            (agent.cwd / "AGENTS.md").write_text(RULE)
            agent.edits("AGENTS.md")
    agent.stops()
    assert agent.events("recorded") == []
    text = agent.again("s2").tell("SessionStart", source="startup")
    assert "user_said" not in text and '"rule"' not in text
