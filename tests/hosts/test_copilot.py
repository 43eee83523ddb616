"""Copilot CLI as its user runs it, with a model of their own: what reaches it, and what is kept."""

import json

from hosts.desk import ASKED, FACT, Desk, Done, blocks
from hosts.mock_models import Script

from store.log.event_kinds import Acted, Prompted

RULE = "Use pnpm here, never npm: the lock file is pnpm's"
ECHO = ("bash", {"command": "echo done", "description": "as asked"})


def ask(desk: Desk, prompt: str) -> Done:
    """Give Copilot CLI a prompt: it asks the provider that is named, and no service of GitHub's."""
    provider = {
        "COPILOT_PROVIDER_TYPE": "anthropic",
        "COPILOT_PROVIDER_BASE_URL": f"http://127.0.0.1:{desk.models.port}",
        "COPILOT_PROVIDER_API_KEY": "none",
        "COPILOT_MODEL": "claude-sonnet-4.5",
        "COPILOT_OFFLINE": "true",
    }
    words = ("copilot", "-p", prompt, "--allow-all-tools", "--output-format", "json")
    done = desk.run(*words, **provider)
    assert done.code == 0, done.err
    return done


def test_what_is_known_of_a_prompt_reaches_the_model(desk: Desk) -> None:
    desk.mnemolog("connect", "copilot", "--yes")
    desk.record(FACT)
    desk.mnemolog("start")
    ask(desk, ASKED)
    (request,) = desk.models.requests
    assert [block.count(FACT) for block in blocks(request)] == [1]
    assert "mnemolog-recall" in json.dumps(request["tools"])
    assert "Copilot CLI is connected, and its hooks arrive" in desk.mnemolog("doctor")


def test_a_rule_is_said_after_the_command_that_breaks_it(desk: Desk) -> None:
    desk.program("npm", "echo nothing is installed")
    desk.mnemolog("connect", "copilot", "--yes")
    desk.record(RULE, "--kind", "preference")
    desk.mnemolog("start")
    desk.models.script = Script((("bash", {"command": "npm install ms", "description": "ms"}),))
    ask(desk, "go on with what you were doing")
    said = [sum(RULE in block for block in blocks(one)) for one in desk.models.requests]
    assert said == [1, 2]  # the project's brief, then the command's result


def test_what_it_does_is_kept(desk: Desk) -> None:
    desk.mnemolog("connect", "copilot", "--yes")
    desk.mnemolog("start")
    desk.models.script = Script((ECHO,))
    session = ask(desk, "go on with what you were doing").said[-1]["sessionId"]
    (prompt,) = desk.events(session, Prompted)
    (used,) = desk.events(session, Acted)
    assert (prompt.agent, prompt.body.prompt) == ("copilot", "go on with what you were doing")
    assert (used.body.command, used.body.passed) == ("echo done", True)


def test_disconnecting_leaves_nothing_of_ours(desk: Desk) -> None:
    desk.mnemolog("connect", "copilot", "--yes")
    ask(desk, "hello!")
    desk.mnemolog("disconnect", "copilot", "--yes")
    left = [file for file in (desk.folder / ".copilot").rglob("*.json") if file.is_file()]
    assert not [file for file in left if "mnemolog" in file.read_text(errors="replace")]
