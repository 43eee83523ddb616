"""When the agent stops: lessons are judged, outcomes recorded, and nothing is shown or proposed."""

import pytest
from agent import Agent
from hook_session import speaks_where_recall_is_sure
from test_pretool import agent, learn, tenants

from store.log.event_kinds import Outcome

__all__ = ["agent", "tenants"]  # fixtures


def verdicts(agent: Agent) -> list[tuple[str, str, str | None]]:
    events = agent.events("followed")
    return [(event.subject, event.body.verdict, event.body.evidence) for event in events]


# Lessons


@pytest.mark.parametrize(
    ("lines", "verdict"),
    [
        (["npm i x", "pnpm add x"], ("followed", "pnpm add x")),
        (["npm i x", "npm i y"], ("ignored", "npm i y")),
        (["npm i x", "npm i y", "pnpm add y"], ("followed", "pnpm add y")),
        (["npm i x", "make"], ("not_applicable", None)),
        (["npm i x"], ("not_applicable", None)),
    ],
)
def test_a_lesson_is_judged_by_what_was_done_after_it(
    agent: Agent, lines: list[str], verdict: tuple[str, str | None]
):
    learn(agent, id="pnpm")
    agent.asked("add lodash")
    for line in lines:
        agent.runs(line)
    agent.stops()
    assert verdicts(agent) == [("pnpm", *verdict)]


@pytest.mark.parametrize(
    ("lines", "verdict"),
    [
        (["pytest", "git commit -m x"], "followed"),
        (["git commit -m x"], "ignored"),
        (["ls"], "not_applicable"),
    ],
)
def test_what_is_wanted_before_something_must_stand_before_it(
    agent: Agent, lines: list[str], verdict: str
):
    learn(agent, "Always run the tests before committing", id="tests")
    agent.asked("fix the cart, then commit it")
    assert [event.body.place for event in agent.events("surfaced")] == ["prompt"]
    for line in lines:
        agent.runs(line)
    agent.stops()
    assert [verdict for _, verdict, _ in verdicts(agent)] == [verdict]


def test_a_file_that_was_to_be_left_alone_and_was_edited_again(agent: Agent):
    learn(agent, "Don't edit generated/*.py", id="gen")
    agent.asked("change the model")
    agent.edits("generated/a.py")
    agent.edits("generated/b.py")
    agent.stops()
    assert verdicts(agent) == [("gen", "ignored", "generated/b.py")]


def test_a_lesson_is_judged_once_a_turn(agent: Agent):
    learn(agent)
    agent.asked("add lodash")
    agent.runs("npm i x")
    agent.runs("pnpm add x")
    agent.stops(stop_hook_active=True)
    agent.stops()
    assert len(verdicts(agent)) == 1


def test_a_lesson_that_names_nothing_is_not_judged(agent: Agent, monkeypatch: pytest.MonkeyPatch):
    speaks_where_recall_is_sure(monkeypatch)
    learn(agent, "The customers of the shop want short answers and plain words")
    agent.asked("what do the customers of the shop want?")
    assert agent.events("surfaced")
    agent.stops()
    assert verdicts(agent) == []


def test_a_verdict_says_how_the_turn_came_out(agent: Agent):
    learn(agent)
    agent.asked("add lodash")
    agent.runs("npm i x")
    agent.runs("pnpm add x")
    agent.runs("pytest", told="1 failed")
    agent.stops()
    assert agent.events("followed")[0].body.stood == {"test": False}


# Outcomes


def test_an_outcome_says_how_an_effort_stands_and_how_it_stood(agent: Agent):
    agent.asked("fix it")
    agent.runs("pytest", fails="E  boom")
    agent.runs("ruff check .")
    agent.runs("pytest")
    agent.stops()
    agent.asked("break it")
    agent.runs("pytest", fails="E  boom")
    agent.stops()
    assert [event.body for event in agent.events("outcome")] == [
        Outcome(effort="test", passed=True, before=False),
        Outcome(effort="lint", passed=True),
        Outcome(effort="test", passed=False, before=True),
    ]


def test_a_turn_that_tried_nothing_has_no_outcome(agent: Agent):
    agent.asked("look")
    agent.runs("ls")
    agent.stops()
    assert agent.events("outcome") == []


def test_a_goal_that_a_recap_told_is_no_lesson_to_be_judged(agent: Agent):
    learn(agent, "Use pnpm, never npm, everywhere", kind="goal", id="goal")
    assert '"goal"' in agent.asked("where did we leave off?")
    agent.runs("npm i x")
    agent.runs("pnpm add x")
    agent.stops()
    assert verdicts(agent) == []


def test_the_end_of_a_turn_proposes_nothing(agent: Agent):
    agent.asked("no, use pnpm instead of npm")
    agent.stops()
    assert agent.events("proposed") == []
