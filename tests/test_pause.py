"""Recording switched off: for a project, a folder, a session or one run of an agent."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from agent import Agent
from background import end, said, until
from click.testing import CliRunner
from dashboard_page import application, browser
from mcp_client import TOKEN, message, send
from new_tenants import new_tenants
from test_recording import work

from serve import client as hook_client
from serve.app import create_app
from serve.cli import main
from serve.server.open_tenants import OpenTenants
from store.home import pauses, tenant
from store.home.errors import ConfigError
from store.log import commands
from store.log.commands import Draft
from store.log.event_log import EventLog

__all__ = ["work"]  # a fixture

PROMPT = "we always deploy from eu-west-1, remember where the zanzibar job runs"


@pytest.fixture
def tenants(home: Path) -> Iterator[OpenTenants]:
    with new_tenants(home) as opened:
        yield opened


@pytest.fixture
def agent(tenants: OpenTenants, work: Path, clock: Callable[[], int]) -> Agent:
    return Agent.start(tenants, work, lambda: time.time_ns() // 1000)


def run(*words: str) -> dict[str, Any]:
    result = CliRunner().invoke(main, [*words, "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def works(agent: Agent) -> str:
    """Play a session with every kind of event; return all text injected into its context."""
    blocks = [
        agent.tell("SessionStart", source="startup"),
        agent.asked(PROMPT),
        agent.runs("pytest -q tests/zanzibar", told="zanzibar: 3 passed"),
        agent.runs("make zanzibar", fails="zanzibar: no such target"),
        agent.tell("PostCompact", compact_summary="we looked at zanzibar"),
    ]
    agent.stops("The zanzibar job runs at noon.")
    agent.tell("SessionEnd", reason="other")
    return "".join(blocks)


def test_a_paused_project_records_and_receives_nothing(agent: Agent, home: Path):
    commands.record(agent.tenants.get("default").log, Draft(content=PROMPT, kind="lesson"), 1)
    agent.events()
    run("pause")
    before = len(agent.events())
    assert works(agent) == ""
    assert len(agent.events()) == before
    run("resume")
    works(agent.again("s2"))
    assert agent.again("s2").events("prompted")


@pytest.mark.parametrize("words", [("--session", "s1"), ("--directory", ".")])
def test_a_session_or_a_folder_is_paused_alone(
    agent: Agent, tmp_path: Path, words: tuple[str, str]
):
    run("pause", *words)
    works(agent)
    assert agent.events() == []
    other = Agent(agent.client, agent.tenants, tmp_path, "s2")
    works(other)
    assert {event.session for event in other.events("prompted")} == {"s2"}


def test_a_pause_ends_by_itself_when_its_time_is_over(home: Path):
    pause_ = pauses.pause(home, "session", "s1", 10, until=20)
    pauses_ = pauses.Pauses(home)
    assert pauses_.of("s1", "", None, 19) == pause_
    assert pauses_.of("s1", "", None, 20) is None


def test_pausing_twice_is_one_pause_and_keeps_its_beginning(home: Path):
    pauses.pause(home, "project", "a/b", 10)
    assert pauses.pause(home, "project", "a/b", 30, until=90).since == 10
    assert len(pauses.read(home)) == 1
    assert [pause.until for pause in pauses.resume(home, 50)] == [90]
    assert pauses.read(home)[0].until == 50


def test_a_file_of_pauses_that_cannot_be_read_pauses_everything(agent: Agent, home: Path):
    pauses.file_of(home).write_text("{")
    works(agent)
    assert agent.events() == []
    with pytest.raises(ConfigError, match="resume --all"):
        pauses.read(home)
    assert "resume --all" in run("status")["recording"]["off"]
    run("resume", "--all")
    works(agent.again("s2"))
    assert agent.again("s2").events("prompted")


def test_status_and_doctor_say_what_is_paused_and_how_to_go_on(agent: Agent, work: Path):
    name = run("pause", "--for", "2h")["name"]
    recording = run("status")["recording"]
    assert recording["kinds"] == []
    assert [(pause["scope"], pause["name"]) for pause in recording["paused"]] == [("project", name)]
    assert recording["paused"][0]["until"]
    assert recording["off"].endswith(f"`{recording['paused'][0]['resume']}`")
    output = CliRunner().invoke(main, ["status"]).stdout
    assert f"mnemolog resume --project {name}" in output
    findings = json.loads(CliRunner().invoke(main, ["doctor", "--json"]).stdout)["findings"]
    assert any("has been paused since" in finding["what"] for finding in findings)
    run("resume")
    assert run("status")["recording"]["off"] is None


def test_recall_answers_in_a_paused_project_and_leaves_no_receipt(agent: Agent):
    log = agent.tenants.get("default").log
    commands.record(log, Draft(content="Deploys go out from eu-west-1"), 1)
    run("pause")
    assert run("recall", "where do deploys go out from", "--all-projects")["hits"]
    assert agent.events("recalled") == []
    run("resume")
    run("recall", "where do deploys go out from", "--all-projects")
    assert len(agent.events("recalled")) == 1


@pytest.mark.parametrize("how", ["project", "run"])
def test_with_recording_off_tools_read_but_do_not_write(agent: Agent, work: Path, how: str):
    headers = {"X_Mnemolog_Cwd": str(work)}
    if how == "project":
        run("pause")
    else:
        headers["X_Mnemolog_Off"] = "1"
    client = create_app(
        agent.tenants, TOKEN, lambda: time.time_ns() // 1000, hook_deadline_s=30.0
    ).test_client()

    def call(tool: str, **arguments: Any) -> Any:
        body = message("tools/call", {"name": tool, "arguments": arguments})
        return send(client, body, **headers).json["result"]

    assert not call("recall", query="where do we deploy").get("isError")
    for tool, arguments in {
        "remember": {"content": "we deploy at noon, always"},
        "goals": {"action": "add", "content": "deploy twice a day"},
    }.items():
        refused = call(tool, **arguments)
        assert refused["isError"]
        assert "recording is off here" in refused["content"][0]["text"]
    assert agent.events() == []


@pytest.mark.parametrize(
    ("words", "cure"),
    [
        (("pause", "--for", "soon"), "write 90s"),
        (("pause", "--session", " "), "the id that the host shows"),
        (("pause", "--project", "../x"), "no project's name"),
        (("pause", "--project", "a", "--session", "b"), "give only one of"),
        (("resume", "--all", "--project", "a"), "--all takes no other"),
    ],
)
def test_what_cannot_be_paused_is_named_with_its_cure(
    work: Path, words: tuple[str, ...], cure: str
):
    result = CliRunner().invoke(main, [*words])
    assert result.exit_code == 2
    assert cure in result.stderr


def test_outside_a_repository_a_folder_must_be_named(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["pause"])
    assert result.exit_code == 2
    assert "--directory ." in result.stderr


def test_the_front_page_says_what_is_paused_and_how_to_go_on(agent: Agent):
    owner = browser(application(agent.tenants))
    assert "Recording is limited" not in owner.get("/t/default/overview").text
    run("pause", "--session", "s1")
    page = owner.get("/t/default/overview").text
    assert "Recording is limited" in page
    assert "mnemolog resume --session s1" in page


# The repository's own file


def test_a_repository_that_says_record_is_false_is_not_recorded(agent: Agent, work: Path):
    works(agent)
    before = len(agent.events())
    (work / ".mnemolog.toml").write_text("record = false\n")  # takes effect at once
    assert works(agent.again("s2")) == ""
    assert len(agent.events()) == before
    off = run("status")["recording"]["off"]
    assert "record" in off and str(work / ".mnemolog.toml") in off


def test_a_broken_settings_file_is_silence_and_nothing_is_recorded(agent: Agent, work: Path):
    path = work / ".mnemolog.toml"
    path.write_text("record = ['prompts', 'thoughts']\n")
    assert works(agent) == ""
    assert agent.events() == []
    payload = run("status")
    assert str(path) in payload["recording"]["off"] and "thoughts" in payload["recording"]["off"]
    assert any(str(path) in failure for failure in payload["failed"])  # from any directory
    doctor = CliRunner().invoke(main, ["doctor"])
    assert doctor.exit_code == 1
    assert "nothing is recorded or injected here" in doctor.stdout
    path.write_text("record = true\n")
    works(agent.again("s2"))
    assert agent.again("s2").events("prompted")
    assert run("status")["failed"] == []


def test_the_users_own_switch_holds_without_a_restart(agent: Agent, home: Path):
    works(agent)
    before = len(agent.events())
    (home / "config.toml").write_text("record = false\n")
    works(agent.again("s2"))
    assert len(agent.events()) == before


# One run of an agent


def test_a_session_with_recording_off_stays_off_for_later_hooks(
    tenants: OpenTenants, work: Path, home: Path
):
    from serve.hooks.answer import Hooks
    from serve.hosts import HOSTS

    host, hooks = HOSTS["claude-code"], Hooks(tenants, lambda: time.time_ns() // 1000, 30.0)
    base = {"session_id": "s1", "cwd": str(work)}
    start = base | {"hook_event_name": "SessionStart", "source": "startup"}
    stop = base | {"hook_event_name": "Stop", "last_assistant_message": "done"}
    hooks.answer(host, start, is_off=True)
    hooks.answer(host, stop)  # over plain HTTP, without the variable
    opened = tenants.get("default")
    opened.notes.write()
    assert list(opened.log.read()) == []
    hooks.answer(host, start | {"source": "resume"})  # another run, without the variable
    hooks.answer(host, stop)
    opened.notes.write()
    assert [event.kind for event in opened.log.read()] == ["session", "session"]
    hooks.close()


def test_a_run_that_is_off_is_no_longer_shown_as_paused_once_it_ended(
    tenants: OpenTenants, home: Path
):
    from serve.hooks.answer import Hooks
    from serve.hosts import HOSTS

    hooks = Hooks(tenants, lambda: time.time_ns() // 1000, 30.0)
    for name in ("SessionStart", "UserPromptSubmit", "SessionEnd"):
        payload = {"hook_event_name": name, "session_id": "s1", "cwd": "/", "prompt": PROMPT}
        hooks.answer(HOSTS["claude-code"], payload, is_off=True)
    hooks.close()
    [pause] = pauses.read(home)
    assert pause.until is not None
    assert list(tenants.get("default").log.read()) == []


def fire(name: str, **environ: str) -> bytes:
    event = {"hook_event_name": name, "session_id": "s1", "cwd": "/", "prompt": PROMPT}
    completed = subprocess.run(
        [sys.executable, "-I", "-S", str(Path(hook_client.__file__)), "claude-code"],
        input=json.dumps(event).encode(),
        capture_output=True,
        timeout=30,
        env=os.environ | environ,
        check=True,
    )
    assert completed.stderr == b""
    return completed.stdout


def test_the_hook_client_forwards_the_recording_variable(home: Path):
    said("init")
    said("start")
    try:
        fire("SessionStart", MNEMOLOG_OFF="1")
        fire("UserPromptSubmit", MNEMOLOG_OFF="1")
        [pause_] = said("status")["recording"]["paused"]
        assert (pause_["scope"], pause_["name"], pause_["by"]) == ("session", "s1", "MNEMOLOG_OFF")
        fire("SessionStart")
        fire("UserPromptSubmit", MNEMOLOG_OFF="0")
        log = EventLog(tenant.tenant(home).log)
        until(lambda: [event for event in log.read() if event.kind == "prompted"])
        assert said("status")["recording"]["paused"] == []
        log.close()
    finally:
        end(home)


def test_a_pause_outlives_the_server(home: Path, work: Path):
    run("pause", "--session", "s1")
    for session, count in (("s1", 0), ("s2", 1)):
        with new_tenants(home) as restarted:
            agent = Agent.start(restarted, work, lambda: time.time_ns() // 1000).again(session)
            agent.asked(PROMPT)
            assert len(agent.events("prompted")) == count


def test_without_a_server_a_run_that_is_off_starts_none_and_is_known_later(home: Path):
    said("init")
    fire("SessionStart", MNEMOLOG_OFF="1")
    fire("UserPromptSubmit", MNEMOLOG_OFF="1")
    assert not (home / "server.try").exists()
    until(lambda: [pause.name for pause in pauses.read(home)] == ["s1"])
    with EventLog(tenant.tenant(home).log) as log:
        assert list(log.read()) == []


SECRET = "ghp_" + "a1B2c3D4e5F6" * 3  # assembled, so that no scanner takes it for a leak


@pytest.mark.parametrize("scope", ["session", "project", "directory"])
def test_pause_keeps_no_secret_of_a_name_and_still_holds(tmp_path: Path, scope: pauses.Scope):
    name = str(tmp_path / SECRET) if scope == "directory" else SECRET
    pause_ = pauses.pause(tmp_path, scope, name, 1)
    assert SECRET not in pauses.file_of(tmp_path).read_text()
    assert SECRET not in pause_.resume
    place = {"session": ("other", "other", None), "project": ("other", "other", None)}.get(
        scope, ("other", "other", str(tmp_path))
    )
    assert not pauses.covers(pause_, *place)
    inside = (
        name if scope == "session" else "other",
        name if scope == "project" else "other",
        f"{name}/below" if scope == "directory" else None,
    )
    assert pauses.covers(pause_, *inside)
    assert pauses.resume(tmp_path, 2, scope, name) != []


def test_pause_of_an_earlier_version_that_names_a_secret_still_holds(tmp_path: Path):
    stored = [{"scope": "session", "name": SECRET, "since": 1}]
    pauses.file_of(tmp_path).write_text(json.dumps(stored))
    (pause_,) = pauses.read(tmp_path)
    assert pauses.covers(pause_, SECRET, "", None)
    assert pauses.resume(tmp_path, 2, "session", SECRET) != []
