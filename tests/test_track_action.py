"""After a tool call: the action is logged in one append, with the facts in its output."""

from pathlib import Path

import pytest
from agent import Agent
from test_pretool import agent, tenants

from store.agents.tool_calls import MAX_LINE, MAX_LINES
from store.log.event_kinds import Acted
from store.text import frame

__all__ = ["agent", "tenants"]  # fixtures


def acted(agent: Agent) -> list[Acted]:
    return [event.body for event in agent.events("action")]


def test_a_command_is_kept_with_what_it_was_for_and_whether_it_passed(agent: Agent):
    agent.runs("cd web && pytest -q", told="3 passed")
    assert acted(agent) == [
        Acted(
            tool="Bash",
            doing="run",
            effort="test",
            command="cd web && pytest -q",
            passed=True,
            output="3 passed",
        )
    ]


def test_a_failure_is_kept_with_its_end(agent: Agent):
    agent.runs("pytest", fails="long " * 400 + "E  assert 1 == 2")
    (act,) = acted(agent)
    assert act.passed is False and act.error.endswith("E  assert 1 == 2")
    assert len(act.error) <= 600


def test_a_failure_that_a_pipe_hides_is_one(agent: Agent):
    agent.runs("pytest | tail -3", told="1 failed, 2 passed in 0.1s")
    assert acted(agent)[0].passed is False


def test_of_what_a_passing_command_wrote_the_telling_lines_are_kept(agent: Agent):
    lines = [f"compiling part {number} of the app" for number in range(300)]
    agent.runs("make", told="\n".join([*lines, "warning: cart.c:7: unused variable"]))
    (act,) = acted(agent)
    assert "cart.c:7" in act.output and len(act.output) <= MAX_LINES * (MAX_LINE + 1)
    assert "part 100 of" not in act.output


def test_a_secret_that_a_command_wrote_is_not_kept(agent: Agent):
    agent.runs("env", told="PORT=1\nAWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYzK3p9Q2vXy")
    assert "wJalrXUtnFEMI" not in str(agent.events())


def test_an_edit_is_kept_with_its_diff_and_the_names_in_it(agent: Agent):
    old, new = "def rate():\n    return 16", "def rate():\n    return 19\n\ndef tax():\n    pass"
    agent.uses("Edit", {"file_path": "a.py", "old_string": old, "new_string": new})
    (act,) = acted(agent)
    assert act.diff.splitlines()[:3] == ["  def rate():", "-     return 16", "+     return 19"]
    assert set(act.names) == {"rate", "tax"}


def test_a_secret_in_an_edit_is_not_kept(agent: Agent):
    key = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYzK3p9Q2vXy"
    agent.uses("Write", {"file_path": ".env", "content": f"AWS_SECRET_ACCESS_KEY={key}\nPORT=1"})
    (act,) = acted(agent)
    assert "PORT=1" in act.diff and "wJalrXUtnFEMI" not in str(agent.events())


@pytest.mark.parametrize("field", ["content", "patch"])
def test_a_token_on_a_line_of_its_own_in_an_edit_is_not_kept(agent: Agent, field: str):
    token = "Mxiws1qqI5DH57NT1zeueL/8CgYRGAAUwvwWvE/J5+ZMiaBzvO0opBgPPOUTI"
    text = token if field == "content" else f"*** Begin Patch\n*** Add File: t\n+{token}\n-{token}"
    agent.uses("apply_patch", {"file_path": "t", field: text})
    assert len(acted(agent)) == 1 and token not in str(agent.events())


def test_a_file_is_kept_by_its_place_in_the_project(agent: Agent, tmp_path: Path):
    inside = Agent(agent.client, agent.tenants, agent.cwd / "web")
    inside.edits("src/../app.ts")
    inside.uses("Write", {"file_path": str(tmp_path / "elsewhere.md")})
    files = [act.files for act in acted(agent)]
    assert files == [("web/app.ts",), ((tmp_path / "elsewhere.md").as_posix(),)]


@pytest.mark.parametrize("tool", ["Read", "Grep", "Glob", "WebFetch", "TodoWrite"])
def test_what_was_only_read_or_searched_is_not_kept(agent: Agent, tool: str):
    agent.uses(tool, {"file_path": "x.py", "pattern": "x", "url": "http://x"})
    assert acted(agent) == []


def test_our_own_tools_are_kept_by_name_alone(agent: Agent):
    agent.uses("mcp__mnemolog__recall", {"query": "deploy"}, told="what was recalled")
    assert acted(agent) == [Acted(tool="mcp__mnemolog__recall", doing="recall", passed=True)]


def test_a_block_of_ours_in_a_failure_is_not_kept(agent: Agent):
    agent.runs("pytest", fails=f"E  boom\n{frame.OPENING}\n{{}}\n{frame.CLOSING}")
    assert acted(agent)[0].error == "E  boom"


def test_an_action_is_on_the_disk_when_it_was_told(agent: Agent):
    agent.runs("make")
    kinds = [event.kind for event in agent.tenants.get("default").log.read()]
    assert kinds == ["action"]
