"""The recorded kinds of session data: a kind that is off is nowhere on the disk."""

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from agent import Agent
from click.testing import CliRunner

from serve.cli import main
from serve.server.open_tenants import OpenTenants
from store.home import tenant
from store.home.config import load
from store.log.event_log import EventLog

SAID = {"prompts": "xylophone", "commands": "quetzal", "outputs": "narwhal", "words": "zanzibar"}
SESSIONS = Path(__file__).parent / "data" / "sessions"


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "work"
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def start(home: Path, work: Path) -> Iterator[Callable[[], Agent]]:
    """Yield a function that opens the memory with the current settings."""
    EventLog(tenant.tenant(home).log, create=True).close()
    opened: list[OpenTenants] = []

    def started() -> Agent:
        opened.append(OpenTenants(load(None, {"MNEMOLOG_HOME": str(home)})))
        return Agent.start(opened[-1], work, lambda: time.time_ns() // 1000)

    yield started
    for tenants in opened:
        tenants.close()


def works(agent: Agent) -> None:
    agent.tell("SessionStart", source="startup")
    agent.asked(f"we always call the {SAID['prompts']} service from eu-west-1 only")
    agent.runs(f"pytest {SAID['commands']}", told=f"1 passed, error: {SAID['outputs']}")
    agent.runs(f"make {SAID['commands']}", fails=f"error: {SAID['outputs']} is missing")
    new = {"old_string": "x = 1", "new_string": f"x = {SAID['outputs']}"}
    agent.uses("Edit", {"file_path": str(agent.cwd / f"{SAID['commands']}.py")} | new)
    agent.tell("PostCompact", compact_summary=f"all about {SAID['words']}")
    agent.stops(f"The {SAID['words']} is done.")
    agent.events()


def on_disk(home: Path) -> set[str]:
    """Return the kinds whose word is in any file of the home."""
    data = b"".join(path.read_bytes() for path in home.rglob("*") if path.is_file())
    return {kind for kind, word in SAID.items() if word.encode() in data}


def build() -> None:
    result = CliRunner().invoke(main, ["build", "--quick", "--json"])
    assert result.exit_code == 0, result.output


def recalled(query: str) -> list[dict[str, Any]]:
    words = ["recall", query, "--min-confidence", "0", "--no-touch", "--json"]
    hits: list[dict[str, Any]] = json.loads(CliRunner().invoke(main, words).stdout)["hits"]
    return hits


def test_by_default_all_kinds_are_recorded(start: Callable[[], Agent], home: Path):
    works(start())
    assert on_disk(home) == set(SAID)


@pytest.mark.parametrize("where", ["home", "project"])
@pytest.mark.parametrize("off", SAID)
def test_a_kind_that_is_off_leaves_no_bytes_on_disk(
    start: Callable[[], Agent], home: Path, work: Path, off: str, where: str
):
    kinds = [kind for kind in SAID if kind != off]
    file = home / "config.toml" if where == "home" else work / ".mnemolog.toml"
    file.write_text(f"record = {kinds}\n")
    works(start())
    missing = {off, "outputs"} if off == "commands" else {off}  # outputs belong to commands
    assert on_disk(home) == set(SAID) - missing


def test_with_prompts_off_receipts_hold_no_prompt(start: Callable[[], Agent], home: Path):
    (home / "config.toml").write_text('record = ["commands", "words"]\n')
    agent = start()
    works(agent)
    assert [event.body.query for event in agent.events("recalled")] == [""]
    assert agent.events("recorded") == []  # no quote of the prompt either


@pytest.mark.usefixtures("jobs_here")
def test_a_turn_without_its_prompt_is_found_by_what_was_done(
    start: Callable[[], Agent], home: Path
):
    (home / "config.toml").write_text('record = ["commands", "words"]\n')
    works(start())
    for is_built in (False, True):
        if is_built:
            build()
        hit, *_ = recalled(f"what came of the {SAID['commands']} run")
        assert hit["kind"] == "episode"
        assert SAID["commands"] in hit["action"]
        assert SAID["words"] in hit["result"]
    assert CliRunner().invoke(main, ["verify"]).exit_code == 0


@pytest.mark.usefixtures("jobs_here")
def test_a_session_of_which_nothing_is_kept_makes_no_episode(
    start: Callable[[], Agent], home: Path
):
    (home / "config.toml").write_text('record = ["outputs"]\n')
    works(start())
    build()
    assert recalled("what was done") == []


def test_imports_skip_kinds_that_are_off(home: Path, work: Path, start: Callable[[], Agent]):
    def imported() -> dict[str, Any]:
        words = ["import", "claude-code", str(SESSIONS), "--json"]
        result = CliRunner().invoke(main, words)
        assert result.exit_code == 0, result.output
        payload: dict[str, Any] = json.loads(result.stdout)
        return payload

    (home / "config.toml").write_text("record = false\n")
    first = imported()
    assert (first["added"], first["off"]) == (0, first["turns"])
    (home / "config.toml").write_text('record = ["words"]\n')
    assert imported()["added"]
    with EventLog(tenant.tenant(home).log) as log:
        events = list(log.read())
    # and the plan that undoes all of it
    assert {event.kind for event in events} == {"prompted", "session", "planned", "applied"}
    assert {event.body.prompt for event in events if event.kind == "prompted"} == {""}


def test_what_was_paused_when_it_happened_is_not_imported_later(
    home: Path, work: Path, start: Callable[[], Agent]
):
    from store.home import pauses

    session = "98c53a68-5996-53c7-af63-d3b2cf2bc51c"
    pauses.pause(home, "session", session, 1)
    pauses.resume(home, time.time_ns() // 1000)
    words = ["import", "claude-code", str(SESSIONS), "--json"]
    payload = json.loads(CliRunner().invoke(main, words).stdout)
    assert payload["off"] and payload["added"]
    with EventLog(tenant.tenant(home).log) as log:
        assert session not in {event.session for event in log.read()}


def test_status_says_which_kinds_are_left_out(home: Path, work: Path, start: Callable[[], Agent]):
    (work / ".mnemolog.toml").write_text('record = ["prompts"]\n')
    output = CliRunner().invoke(main, ["status"]).stdout
    assert "record    prompts here, not commands, outputs, words" in output
