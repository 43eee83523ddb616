"""Claude Code alone: its compaction, its http hooks and the plugin."""

import json
import sys
from pathlib import Path

import pytest
from hosts.agents import CLAUDE_CODE, Agent, claude_environ, meet_claude
from hosts.desk import ASKED, FACT, PROGRAMS, Desk, blocks
from hosts.mock_models import Script
from hosts.terminal import Terminal

from store.log.event_kinds import Prompted, SessionTold


def test_after_a_compaction_the_session_is_told_what_it_did_and_again_what_is_known(
    desk: Desk, claude: Agent
) -> None:
    desk.record(FACT)
    desk.mnemolog("start")
    desk.program("pytest", "echo 3 passed")
    desk.models.script = Script((claude.shell("pytest -q"),))
    session = claude.session(claude.ask(desk, ASKED))
    desk.models.script = Script()
    claude.ask(desk, "/compact", after=session)
    claude.ask(desk, ASKED, after=session)
    texts = blocks(desk.models.requests[-1])
    assert '"ran":"pytest -q"' in texts[0]
    assert FACT in texts[-1]
    stages = [event.body.stage for event in desk.events(session, SessionTold)]
    ended = ["stopped", "ended"]
    compacted = ["resumed", "compacted", "compacted", "ended"]  # the new start and its summary
    assert stages == ["started", *ended, *compacted, "resumed", *ended]
    assert [event.body.prompt for event in desk.events(session, Prompted)] == [ASKED, ASKED]


def test_a_turn_leaves_an_episode_of_what_was_asked_done_and_said(
    desk: Desk, claude: Agent
) -> None:
    desk.program("pytest", "echo 3 passed")
    desk.mnemolog("start")
    file = desk.repository() / "tax.py"
    edit = ("Write", {"file_path": str(file), "content": "RATE = 19\n"})
    desk.models.script = Script((edit, claude.shell("pytest -q")))
    claude.ask(desk, "put the tax rate into tax.py and run the tests", "--allowedTools", "Write")
    assert file.read_text() == "RATE = 19\n"
    desk.mnemolog("stop")
    (recorded,) = json.loads(desk.mnemolog("list", "--kind", "episode", "--json"))["memories"]
    episode = json.loads(desk.mnemolog("show", recorded["id"], "--json"))
    assert episode["text"].startswith("put the tax rate")
    assert "edited tax.py" in episode["action"]
    assert "$ pytest -q -> 3 passed" in episode["action"]
    assert episode["result"] == "FINAL-ANSWER"


def test_in_a_terminal_what_is_known_reaches_the_model_too(desk: Desk) -> None:
    desk.record(FACT)
    CLAUDE_CODE.set_up(desk)
    meet_claude(desk)
    desk.mnemolog("connect", "claude-code", "--yes")
    desk.mnemolog("start")
    environ = desk.environ(**claude_environ(desk))
    with Terminal([str(PROGRAMS / "claude")], environ, desk.repository()) as terminal:
        terminal.until("❯")
        terminal.type(ASKED)
        terminal.press("\r", until=lambda: bool(desk.models.requests))
    assert [FACT in block for block in blocks(desk.models.requests[0])] == [True]
    desk.mnemolog("disconnect", "claude-code", "--yes")
    config = json.loads((desk.folder / ".claude.json").read_text())
    assert "mcpServers" not in config
    assert config["numStartups"] == 1


@pytest.mark.parametrize("market", ["mnemolog-local", "mnemolog"])
def test_the_plugin_alone_brings_the_memory(desk: Desk, market: str) -> None:
    desk.record(FACT)
    desk.mnemolog("start")
    folder = desk.folder / "plugin"
    desk.mnemolog("plugin", str(folder), *(() if market == "mnemolog-local" else ("--portable",)))
    for name in ("mnemolog", "mnemolog-hook"):  # the programs that the portable plugin names
        desk.program(name, f'exec {Path(sys.executable).with_name(name)} "$@"')
    environ = claude_environ(desk)
    for words in (
        ("plugin", "validate", str(folder), "--strict"),
        ("plugin", "validate", str(folder / "plugins" / "mnemolog"), "--strict"),
        ("plugin", "marketplace", "add", str(folder)),
        ("plugin", "install", f"mnemolog@{market}"),
    ):
        completed = desk.run("claude", *words, **environ)
        assert completed.code == 0
    tool = "mcp__plugin_mnemolog_mnemolog__recall"
    desk.models.script = Script(((tool, {"query": ASKED}),))
    words = ("claude", "-p", ASKED, "--output-format", "stream-json", "--verbose")
    completed = desk.run(*words, "--allowedTools", tool, **environ)
    first, second = desk.models.requests
    assert [FACT in block for block in blocks(first)] == [True]
    assert json.dumps(second["messages"]).count(FACT) == 2
