"""`mnemolog connect`, `disconnect` and `doctor` as people and programs use them."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import answer, run, succeed
from hosts_home import settle, tree

from serve.hosts import HOSTS

ROOT = Path(__file__).parents[1]


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's home folder, which commands take as theirs; the memory lies elsewhere."""
    folder = tmp_path / "anna"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("USERPROFILE", str(folder))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "COPILOT_HOME", "GEMINI_CLI_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(folder)
    return folder


def test_hosts_are_listed_with_what_is_there_and_connected(user: Path):
    (user / ".gemini").mkdir()
    assert answer("connect", "codex", "--yes")["hosts"][0]["changed"]
    states = {row["host"]: row["state"] for row in answer("connect")["hosts"]}
    assert list(states) == list(HOSTS)
    assert states["codex"] == "connected"
    assert states["gemini"] == "found"
    assert states["cursor"] == "not found"
    assert "next: `mnemolog connect gemini`" in run("connect").stdout


def test_connect_reports_a_port_taken_by_another_program(
    user: Path, monkeypatch: pytest.MonkeyPatch
):
    with socket.create_server(("127.0.0.1", 0)) as another:
        monkeypatch.setenv("MNEMOLOG_PORT", str(another.getsockname()[1]))
        connected = run("connect", "claude-code", "--yes")
    assert connected.exit_code == 0
    assert "another program listens on port" in connected.stderr
    assert "set another `port`" in connected.stderr


def test_the_difference_is_shown_without_any_key(user: Path, home: Path):
    output = run("connect", "claude-code", "--yes").stdout
    path = user / ".claude/settings.json"
    sent = json.loads(path.read_text())["hooks"]["Stop"][0]["hooks"][0]["headers"]["Authorization"]
    assert f"+++ {path}\n" in output
    assert "/v1/hooks/claude-code" in output
    assert sent.removeprefix("Bearer ") not in output
    assert (home / "token").read_text() not in output


def test_a_dry_run_changes_nothing_at_all(user: Path, home: Path):
    settle(user)
    before = tree(user)
    output = run("connect", *HOSTS, "--dry-run").stdout
    assert output.count("\n+++ ") > 10 and output.endswith("nothing was changed\n")
    assert tree(user) == before
    assert not home.exists()


def test_without_a_terminal_connect_fails_and_names_the_option(user: Path):
    result = run("connect", "codex")
    assert result.exit_code == 2
    assert "--yes" in result.stderr and "--dry-run" in result.stderr
    assert tree(user) == {}


def test_an_up_to_date_host_needs_no_confirmation(user: Path):
    run("connect", "codex", "--yes")
    result = run("connect", "codex")
    assert result.exit_code == 0 and "nothing to change" in result.stdout


@pytest.mark.skipif(os.name != "posix", reason="a terminal of our own")
@pytest.mark.parametrize(("typed", "code"), [(b"y\n", 0), (b"\n", 130)])
def test_a_person_is_asked_and_no_is_the_default(typed: bytes, code: int, user: Path):
    import pty

    ours, theirs = pty.openpty()
    command = [sys.executable, "-P", "-m", "serve.cli", "connect", "cursor"]
    environ = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, stdin=theirs, stdout=subprocess.PIPE, env=environ) as child:
        os.write(ours, typed)
        shown, _ = child.communicate(timeout=60)
    os.close(ours)
    os.close(theirs)
    assert b"Make these changes? [y/N]" in shown
    assert child.returncode == code
    assert (user / ".cursor/hooks.json").exists() == (code == 0)


def test_an_unknown_host_lists_the_known_ones(user: Path):
    result = run("connect", "emacs", "--yes")
    assert result.exit_code == 2 and "claude-code" in result.stderr
    assert run("disconnect").exit_code == 2


def test_a_tenant_that_was_asked_for_is_written_down(user: Path):
    succeed("--tenant", "work", "connect", "cursor", "--yes")
    assert "--tenant work" in (user / ".cursor/hooks.json").read_text()


def test_disconnecting_says_what_it_did(user: Path, home: Path):
    settle(user)
    before = tree(user)
    answer("connect", "claude-code", "opencode", "--yes")
    done = answer("disconnect", "claude-code", "opencode", "--yes")["hosts"]
    assert [host["changed"] for host in done] == [True, True]
    assert all(Path(host["backup"]).is_dir() for host in done)
    assert tree(user) == before


def test_a_broken_file_ends_as_what_was_typed_wrong_does(user: Path):
    (user / ".claude").mkdir()
    (user / ".claude/settings.json").write_text("{,")
    result = run("connect", "claude-code", "--yes")
    assert result.exit_code == 2
    assert "settings.json: line 1, column 2: expected a string" in result.stderr


def test_escape_sequences_of_others_do_not_reach_the_terminal(user: Path):
    (user / ".claude").mkdir()
    (user / ".claude/CLAUDE.md").write_text("\x1b]0;title\x07 rule\n")
    output = run("connect", "claude-code", "--dry-run").stdout
    assert "rule" in output and "\x1b" not in output


def test_doctor_checks_hosts_too(user: Path):
    run("init")
    run("connect", "claude-code", "--yes")
    (user / ".claude/settings.json").write_text(
        (user / ".claude/settings.json").read_text().replace(":7437/", ":7001/")
    )
    findings = answer_of_doctor()
    assert [
        "error",
        "Claude Code posts its events to port 7001, but the server's is 7437",
    ] in findings


def answer_of_doctor() -> list[list[str]]:
    result = run("doctor", "--json")
    return [
        [finding["severity"], finding["what"]] for finding in json.loads(result.stdout)["findings"]
    ]
