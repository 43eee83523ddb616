"""Connecting and disconnecting hosts, on realistic settings."""

import json
import os
import shlex
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hosts_home import install, machine, settle, tree

from serve.connect import connecting
from serve.connect.connecting import ConnectionPlan
from serve.connect.json_edit import parse_jsonc
from serve.hosts import HOSTS
from serve.hosts.host import Install
from serve.server.callers import hook_key
from store.home.errors import ConfigError

NOW = 1_790_000_000_000_000


@pytest.fixture
def user(tmp_path: Path) -> Path:
    """The user's home folder, empty."""
    (tmp_path / "anna").mkdir()
    return tmp_path / "anna"


def connect(
    name: str, user: Path, made: Install | None = None, *, rules: bool = True
) -> ConnectionPlan:
    plan = connecting.plan_connection(
        HOSTS[name], machine(user), made or install(user), rules=rules
    )
    connecting.apply_plan(plan, NOW)
    return plan


def disconnect(name: str, user: Path) -> ConnectionPlan:
    plan = connecting.plan_disconnection(HOSTS[name], machine(user), install(user))
    connecting.apply_plan(plan, NOW)
    return plan


def values(path: Path) -> Any:
    return parse_jsonc(path.read_bytes().decode()).value


@pytest.mark.parametrize("name", HOSTS)
def test_disconnecting_leaves_settings_byte_for_byte_as_they_were(name: str, user: Path):
    settle(user)
    before = tree(user)
    assert connect(name, user).changes
    assert tree(user) != before
    disconnect(name, user)
    assert tree(user) == before


@pytest.mark.parametrize("name", HOSTS)
def test_what_was_made_for_a_host_is_gone_when_it_is_disconnected(name: str, user: Path):
    connect(name, user)
    assert tree(user)
    disconnect(name, user)
    assert tree(user) == {}
    assert not (install(user).home / "connections.json").exists()


def test_hosts_that_share_a_folder_come_and_go_in_any_order(user: Path):
    for name in HOSTS:
        connect(name, user)
    for name in HOSTS:
        disconnect(name, user)
    assert tree(user) == {}


@pytest.mark.parametrize("name", HOSTS)
def test_connecting_twice_changes_nothing_more(name: str, user: Path):
    settle(user)
    connect(name, user)
    before = tree(user)
    assert connect(name, user).changes == []
    assert tree(user) == before


@pytest.mark.parametrize("name", HOSTS)
def test_connecting_anew_brings_our_entries_up_to_date_where_they_stand(name: str, user: Path):
    settle(user)
    connect(name, user)
    lines = {path: data and data.count(b"\n") for path, (data, _) in tree(user).items()}
    moved = install(user, port=7999, token="new", folder="moved")
    assert connect(name, user, moved).changes
    assert {path: data and data.count(b"\n") for path, (data, _) in tree(user).items()} == lines
    assert not any(b"code of anna" in data for data, _ in tree(user).values() if data)
    disconnect(name, user)
    fresh = user.parent / "fresh"
    settle(fresh)
    assert tree(user) == tree(fresh)


@pytest.mark.parametrize("name", HOSTS)
def test_what_others_wrote_meanwhile_stays(name: str, user: Path):
    connect(name, user)
    for path in sorted(user.rglob("*.json")):
        text = path.read_text()
        path.write_text(text[: text.rindex("}")].rstrip() + ',\n  "theirs": {"a": [1]}\n}\n')
    for path in user.rglob("*.md"):
        if "instructions" not in path.name:
            path.write_text(path.read_text() + "\nTheirs.\n")
    for path in user.rglob(".goosehints"):
        path.write_text(path.read_text() + "\nTheirs.\n")
    for path in user.rglob("*.toml"):
        path.write_text(path.read_text() + '\n[projects."/theirs"]\ntrust_level = "trusted"\n')
    disconnect(name, user)
    for path in user.rglob("*.json"):
        assert values(path)["theirs"] == {"a": [1]}
        assert "mnemolog" not in path.read_text()
    for path in user.rglob("*.toml"):
        assert tomllib.loads(path.read_text()) == {
            "projects": {"/theirs": {"trust_level": "trusted"}}
        }
    for path in user.rglob("*.md"):
        assert path.read_text().strip() == "Theirs."


def test_a_foreign_hook_in_our_group_stays(user: Path):
    connect("codex", user)
    path = user / ".codex/hooks.json"
    settings = json.loads(path.read_text())
    theirs = {"type": "command", "command": "/opt/bell"}
    settings["hooks"]["Stop"][0]["hooks"].append(theirs)
    path.write_text(json.dumps(settings))
    disconnect("codex", user)
    assert json.loads(path.read_text()) == {"hooks": {"Stop": [{"hooks": [theirs]}]}}


def test_what_the_user_set_beside_our_server_stays(user: Path):
    connect("codex", user)
    path = user / ".codex/config.toml"
    path.write_text(path.read_text() + "enabled = false\n")
    connect("codex", user, install(user, folder="moved"))
    ours = tomllib.loads(path.read_text())["mcp_servers"]["mnemolog"]
    assert ours["enabled"] is False
    assert "moved of anna" in ours["args"][2]


def test_claude_code_posts_what_is_frequent_and_runs_what_must_be_heard(user: Path):
    connect("claude-code", user)
    hooks = values(user / ".claude/settings.json")["hooks"]
    kinds = {event: groups[0]["hooks"][0]["type"] for event, groups in hooks.items()}
    assert {event for event, kind in kinds.items() if kind == "command"} == {
        "SessionStart",
        "UserPromptSubmit",
        "SessionEnd",
    }
    post = hooks["PreToolUse"][0]["hooks"][0]
    assert post["url"] == "http://127.0.0.1:7437/v1/hooks/claude-code"
    assert post["headers"] == {"Authorization": f"Bearer {hook_key('owner', 'claude-code')}"}
    assert "owner" not in (user / ".claude/settings.json").read_text()


def test_codex_is_given_no_hook_that_makes_it_refuse_the_file(user: Path):
    connect("codex", user)
    hooks = json.loads((user / ".codex/hooks.json").read_text())["hooks"]
    assert {hook["type"] for groups in hooks.values() for hook in groups[0]["hooks"]} == {"command"}
    assert "notify" not in tomllib.loads((user / ".codex/config.toml").read_text())


def test_a_hook_is_a_line_that_a_shell_takes_apart_again(user: Path):
    installation = install(user)
    connect("cursor", user, installation)
    line = values(user / ".cursor/hooks.json")["hooks"]["stop"][0]["command"]
    assert shlex.split(line) == list(installation.client("cursor"))
    assert all(os.path.isabs(word) for word in shlex.split(line) if "/" in word)


def test_the_tenant_is_named_where_it_was_chosen(user: Path):
    installation = install(user)
    chosen = Install(
        installation.python, installation.code, installation.home, "work", 7437, "owner", "linux"
    )
    connect("claude-code", user, chosen)
    hooks = values(user / ".claude/settings.json")["hooks"]
    assert hooks["Stop"][0]["hooks"][0]["url"].endswith("/v1/hooks/claude-code?tenant=work")
    assert hooks["SessionEnd"][0]["hooks"][0]["command"].endswith("--tenant work")


def test_a_host_that_was_told_to_keep_its_files_elsewhere_is_found_there(
    user: Path, tmp_path: Path
):
    moved = machine(user, CODEX_HOME=str(tmp_path / "x"), CLAUDE_CONFIG_DIR=str(tmp_path / "y"))
    for name in ("codex", "claude-code"):
        connecting.apply_plan(connecting.plan_connection(HOSTS[name], moved, install(user)), NOW)
    assert (tmp_path / "x/hooks.json").is_file()
    assert (tmp_path / "y/.claude.json").is_file() and (tmp_path / "y/settings.json").is_file()
    assert tree(user) == {}


def test_vscode_is_served_in_every_flavour_that_is_there(user: Path):
    for flavour in ("Code - Insiders", "VSCodium"):
        (user / ".config" / flavour / "User").mkdir(parents=True)
    changed = [str(change.path.relative_to(user)) for change in connect("vscode", user).changes]
    assert ".config/Code - Insiders/User/mcp.json" in changed
    assert ".config/VSCodium/User/mcp.json" in changed
    assert ".config/Code/User/mcp.json" not in changed


@pytest.mark.skipif(os.name != "posix", reason="a program for a shell")
def test_cline_is_given_a_program_per_event_that_runs_our_client(user: Path):
    installation = install(user)
    (installation.code / "client.py").write_text(
        "import sys; print(sys.argv[1:], sys.stdin.read())"
    )
    connect("cline", user, installation)
    programs = sorted((user / "Documents/Cline/Hooks").iterdir())
    assert [program.name for program in programs] == [
        *("PostToolUse", "PreToolUse", "TaskComplete", "UserPromptSubmit")
    ]
    result = subprocess.run([programs[0]], input="an event", capture_output=True, text=True)
    assert result.stdout == f"{['cline', '--home', str(installation.home)]} an event\n"


def test_opencode_2_has_its_servers_one_level_deeper(user: Path):
    path = user / ".config/opencode/opencode.json"
    path.parent.mkdir(parents=True)
    path.write_text('{"mcp": {"servers": {}}}')
    connect("opencode", user)
    assert list(values(path)["mcp"]) == ["servers"]
    disconnect("opencode", user)
    assert path.read_text() == '{"mcp": {"servers": {}}}'


def test_without_rules_the_file_of_rules_is_left_alone(user: Path):
    settle(user)
    rules = user / ".claude/CLAUDE.md"
    before = rules.read_bytes()
    connect("claude-code", user, rules=False)
    assert rules.read_bytes() == before
    connect("claude-code", user)
    assert b"recall" in rules.read_bytes()
    connect("claude-code", user, rules=False)
    assert rules.read_bytes() == before


def test_disconnecting_what_is_not_connected_changes_nothing(user: Path):
    settle(user)
    assert [disconnect(name, user).changes for name in HOSTS] == [[]] * len(HOSTS)


def test_entries_are_found_without_what_connecting_noted(user: Path):
    settle(user)
    connect("gemini", user)
    (install(user).home / "connections.json").unlink()
    disconnect("gemini", user)
    assert "mnemolog" not in (user / ".gemini/settings.json").read_text()


@pytest.mark.parametrize(
    ("name", "path", "text", "problem"),
    [
        ("claude-code", ".claude/settings.json", '{"hooks": {\n  "Stop": [}', "line 2, column 12"),
        ("claude-code", ".claude/settings.json", '{"hooks": []}', "hooks is no object"),
        ("claude-code", ".claude/settings.json", '["a"]', "the document is no object"),
        ("claude-code", ".claude/CLAUDE.md", "a\n<!-- mnemolog:begin -->\nb", "line 2, column 1"),
        ("codex", ".codex/config.toml", 'model = "a"\nmodel = "b"\nx = \n', r".*(line \d|model)"),
        ("cursor", ".cursor/mcp.json", '{"é": 1}'.encode("utf-16"), "it is not UTF-8 at byte 0"),
        (
            *("cline", "Documents/Cline/Hooks/PreToolUse", "#!/bin/sh\nexec mine\n"),
            "this file is not mnemolog's.*move it away",
        ),
        (
            *("opencode", ".config/opencode/plugins/mnemolog.js", "export const Mine = 1\n"),
            ".*not mnemolog's",
        ),
    ],
)
def test_a_foreign_or_unreadable_file_is_named_and_nothing_is_changed(
    name: str, path: str, text: str | bytes, problem: str, user: Path
):
    settle(user)
    (user / path).parent.mkdir(parents=True, exist_ok=True)
    (user / path).write_bytes(text if isinstance(text, bytes) else text.encode())
    before = tree(user)
    with pytest.raises(ConfigError, match=f"{path}: {problem}.*nothing was changed"):
        connect(name, user)
    assert tree(user) == before
