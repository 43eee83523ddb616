"""OpenCode alone: the prompts of its subagents, and the end of a turn."""

import json

import pytest
from hosts.agents import OPENCODE, Agent
from hosts.conftest import connected
from hosts.desk import Desk, blocks
from hosts.mock_models import Script, parts

from store.log.event_kinds import Acted, Prompted, SessionTold

ASKED = "find out why the login test fails"
ORDER = "From now on always run the linter before you commit"


@pytest.fixture
def opencode(desk: Desk) -> Agent:
    OPENCODE.set_up(desk)
    return connected(desk, OPENCODE)


def test_what_a_model_asks_of_a_subagent_is_no_prompt_and_its_tools_belong_to_the_session(
    desk: Desk, opencode: Agent
) -> None:
    task = ("task", {"description": "look", "prompt": ORDER, "subagent_type": "general"})
    desk.program("pytest", "echo 3 passed")
    desk.mnemolog("start")
    desk.models.script = Script((task,))

    def play() -> None:
        texts = [text for _, text in parts(desk.models.requests[-1])]
        of_task = ASKED not in "".join(texts)
        desk.models.script = Script((opencode.shell("pytest -q") if of_task else task,))

    desk.models.meanwhile = play
    session = opencode.session(opencode.ask(desk, ASKED))
    assert [event.body.prompt for event in desk.events(session, Prompted)] == [ASKED]
    assert [event.body.command for event in desk.events(session, Acted)] == ["pytest -q"]
    stages = [event.body.stage for event in desk.events(session, SessionTold)]
    assert stages == ["started", "stopped", "ended"]
    assert ORDER not in desk.mnemolog("lessons")


def test_a_turn_leaves_an_episode_of_what_was_asked_done_and_said(
    desk: Desk, opencode: Agent
) -> None:
    desk.program("pytest", "echo 3 passed")
    desk.mnemolog("start")
    desk.models.script = Script((opencode.shell("pytest -q"),))
    opencode.ask(desk, ASKED)
    desk.mnemolog("stop")
    (recorded,) = json.loads(desk.mnemolog("list", "--kind", "episode", "--json"))["memories"]
    episode = json.loads(desk.mnemolog("show", recorded["id"], "--json"))
    assert episode["text"].startswith(ASKED)
    assert "$ pytest -q -> 3 passed" in episode["action"]
    assert episode["result"] == "FINAL-ANSWER"


def test_a_note_stands_beside_its_prompt_in_every_request_of_the_session(
    desk: Desk, opencode: Agent
) -> None:
    desk.record("The tax rates come from the ledger service", "--kind", "decision")
    desk.mnemolog("start")
    desk.models.script = Script((opencode.shell("echo 1"), opencode.shell("echo 2")))
    opencode.ask(desk, ASKED)
    texts = [
        [(role, text) for role, text in parts(request) if "ledger service" in text]
        for request in desk.models.requests
    ]
    assert len(texts) == 3 and texts[0] == texts[1] == texts[2]  # a provider's cache stays valid
    ((role, _),) = texts[0]
    assert role == "user" and len(blocks(desk.models.requests[0])) == 1
