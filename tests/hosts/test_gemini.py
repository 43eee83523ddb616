"""Gemini CLI alone: its text around a tool's output, and its dialog before a tool."""

import pytest
from hosts.agents import GEMINI, Agent, gemini_environ
from hosts.conftest import connected
from hosts.desk import PROGRAMS, Desk
from hosts.mock_models import Script
from hosts.terminal import Terminal

from store.log.event_kinds import Acted

RULE = "Use pnpm here, never npm: the lock file is pnpm's"


@pytest.fixture
def gemini(desk: Desk) -> Agent:
    GEMINI.set_up(desk)
    return connected(desk, GEMINI)


def test_of_a_command_what_it_wrote_is_kept_and_not_what_gemini_writes_around_it(
    desk: Desk, gemini: Agent
) -> None:
    desk.program("pytest", "echo 3 passed")
    desk.program("make", "echo no rule for it; exit 2")
    desk.mnemolog("start")
    desk.models.script = Script((gemini.shell("pytest -q"), gemini.shell("make test")))
    session = gemini.session(gemini.ask(desk, "go on with what you were doing"))
    passed, failed = (event.body for event in desk.events(session, Acted))
    assert (passed.output, passed.error) == ("3 passed", None)
    assert (failed.output, failed.error) == (None, "no rule for it\nExit Code: 2")


def test_a_person_is_asked_before_a_command_that_a_rule_forbids(desk: Desk, gemini: Agent) -> None:
    desk.program("npm", 'echo ran >> "$HOME/ran"')
    desk.choose(enforce="ask")
    desk.record(RULE, "--kind", "preference")
    desk.mnemolog("start")
    desk.models.script = Script((gemini.shell("npm install lodash"),))
    command = [str(PROGRAMS / "gemini"), "--yolo", "-m", "gemini-2.5-flash"]
    with Terminal(command, desk.environ(**gemini_environ(desk)), desk.repository()) as terminal:
        terminal.until("Type your message")
        terminal.type("go on with what you were doing")
        terminal.press("\r", until=lambda: bool(desk.models.requests))
        terminal.until("the user's own rule")
        terminal.until("Allow once")
    assert not (desk.folder / "ran").exists()
