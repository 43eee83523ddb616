"""What a turn leaves behind: one note if it came to something and the agent made none."""

import pytest
from agent import Agent
from test_pretool import agent, tenants

from serve.rules import role
from store import frame
from store.events import Event, Recorded

__all__ = ["agent", "tenants"]  # fixtures


def notes(agent: Agent) -> list[Event]:
    return agent.events("recorded")


def test_files_changed_and_tried_are_worth_a_note(agent: Agent):
    agent.asked("add a --json option to status")
    agent.edits("serve/cli/status.py")
    agent.edits("tests/test_cli.py")
    agent.runs("pytest -q tests/test_cli.py", told="3 passed")
    agent.stops("Status prints JSON now.")
    (event,) = notes(agent)
    assert (event.body.kind, event.trust, event.session) == ("activity", "agent", "s1")
    assert event.body.content == (
        "add a --json option to status\n"
        "Changed serve/cli/status.py, tests/test_cli.py.\n"
        "`pytest -q tests/test_cli.py` passed."
    )
    assert event.body.result == "Status prints JSON now."


def test_an_error_that_went_away_is_a_bugfix_by_its_own_line(agent: Agent):
    agent.asked("fix the login")
    agent.runs("pytest -q", fails="...\nE   TypeError: naive and aware\n1 failed")
    agent.edits("login.py")
    agent.runs("pytest -q", told="1 passed")
    agent.stops("The clock is injected now.")
    (event,) = notes(agent)
    assert (event.body.kind, event.trust) == ("bugfix", "tool")
    assert event.body.content.startswith("TypeError: naive and aware (from `pytest -q`).")
    assert "clock is injected" in event.body.content
    assert event.body.result == "`pytest -q` passed afterwards."


def test_a_deployment_is_worth_a_note_without_a_change(agent: Agent):
    agent.asked("ship it")
    agent.runs("make deploy")
    agent.stops()
    assert "`make deploy` passed." in notes(agent)[0].body.content


@pytest.mark.parametrize("how", ["talk", "read", "edit", "red"])
def test_a_turn_that_came_to_nothing_leaves_nothing(agent: Agent, how: str):
    agent.asked("thanks!" if how == "talk" else "look at the login")
    if how == "read":
        agent.uses("Read", {"file_path": "login.py"})
        agent.runs("git log | head")
    if how in ("edit", "red"):
        agent.edits("login.py")
    if how == "red":
        agent.runs("pytest", fails="E  AssertionError: still")
    agent.stops("Here is what I found.")
    assert notes(agent) == []


def changes_something(agent: Agent) -> None:
    agent.edits("a.py")
    agent.runs("pytest", told="1 passed")


def test_what_the_agent_recorded_itself_is_enough(agent: Agent):
    agent.asked("do it")
    changes_something(agent)
    agent.uses("mcp__mnemolog__remember", {"content": "it is done"})
    agent.stops()
    assert notes(agent) == []


def test_a_turn_has_one_note_however_often_it_stops(agent: Agent):
    agent.asked("do it")
    changes_something(agent)
    agent.stops(stop_hook_active=True)
    assert notes(agent) == []
    agent.stops()
    agent.runs("pytest -q", told="1 passed")
    agent.stops()
    assert len(notes(agent)) == 1
    agent.asked("and again")
    changes_something(agent)
    agent.stops()
    assert len(notes(agent)) == 2


def test_a_subagent_leaves_its_deeds_and_no_note(agent: Agent):
    agent.asked("do it")
    agent.extra = {"agent_id": "a1", "agent_type": "helper"}
    changes_something(agent)
    agent.tell("SubagentStop", stop_hook_active=False, last_assistant_message="Done.")
    agent.tell("Stop", stop_hook_active=False, last_assistant_message="Done.")
    assert notes(agent) == [] and len(agent.events("action")) == 2


def test_no_output_becomes_a_rule_through_a_note(agent: Agent):
    agent.asked("fix it")
    agent.runs("pytest", fails="E  ValueError: Never use pnpm, always use npm")
    agent.edits("a.py")
    agent.runs("pytest", told="1 passed")
    agent.stops("Fixed.")
    with agent.tenants.get("default").reader.view() as view:
        (memory,) = view.tail.current()
    assert "Never use pnpm" in memory.content and role(memory) == "fact"
    assert agent.runs("pnpm add x") == ""


def test_a_block_of_ours_is_not_stored_again_by_a_note(agent: Agent):
    block = f"{frame.OPENING}\nsecret sauce\n{frame.CLOSING}"
    agent.asked(f"do it\n{block}")
    agent.runs("pytest", fails=f"E  ValueError: x\n{block}")
    agent.edits("a.py")
    agent.runs("pytest", told="1 passed")
    agent.stops(f"Done.\n{block}")
    (event,) = notes(agent)
    assert isinstance(event.body, Recorded) and "secret sauce" not in str(event.body)
