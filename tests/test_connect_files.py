"""How connecting writes: other writers, interruptions and links cause no loss."""

import json
import os
from pathlib import Path

import pytest
from hosts_home import install, machine, settle, tree

from serve.connect import connecting
from serve.hosts import HOSTS
from store.home.errors import ConfigError

NOW = 1_790_000_000_000_000


@pytest.fixture
def user(tmp_path: Path) -> Path:
    home = tmp_path / "anna"
    settle(home)
    return home


def planned(name: str, user: Path) -> connecting.ConnectionPlan:
    return connecting.plan_connection(HOSTS[name], machine(user), install(user))


def test_what_the_host_wrote_after_the_difference_was_shown_is_kept(user: Path):
    plan = planned("cursor", user)
    path = user / ".cursor/mcp.json"
    path.write_text('{"mcpServers": {"new": {"command": "x"}}}')
    connecting.apply_plan(plan, NOW)
    assert list(json.loads(path.read_text())["mcpServers"]) == ["new", "mnemolog"]
    connecting.apply_plan(
        connecting.plan_disconnection(HOSTS["cursor"], machine(user), install(user)), NOW
    )
    assert path.read_text() == '{"mcpServers": {"new": {"command": "x"}}}'


def test_a_file_that_was_broken_meanwhile_is_left_alone(user: Path):
    plan = planned("cursor", user)
    path = user / ".cursor/mcp.json"
    path.write_text("{")
    with pytest.raises(ConfigError, match="line 1, column 2"):
        connecting.apply_plan(plan, NOW)
    assert path.read_text() == "{"


def test_a_stop_in_the_midst_can_be_undone(user: Path, monkeypatch: pytest.MonkeyPatch):
    before = tree(user)
    plan = planned("codex", user)
    (user / ".codex/AGENTS.md").unlink()
    (user / ".codex/AGENTS.md").mkdir()
    with pytest.raises(ConfigError, match="cannot be read"):
        connecting.apply_plan(plan, NOW)
    (user / ".codex/AGENTS.md").rmdir()
    (user / ".codex/AGENTS.md").write_bytes(before[".codex/AGENTS.md"][0] or b"")
    connecting.apply_plan(
        connecting.plan_disconnection(HOSTS["codex"], machine(user), install(user)), NOW
    )
    assert {path: data for path, (data, _) in tree(user).items()} == {
        path: data for path, (data, _) in before.items()
    }


@pytest.mark.skipif(os.name != "posix", reason="modes are those of POSIX")
def test_a_file_keeps_its_mode_and_one_of_ours_is_the_owners_alone(user: Path):
    path = user / ".claude/settings.json"
    path.chmod(0o644)
    (user / ".claude.json").unlink()
    connecting.apply_plan(planned("claude-code", user), NOW)
    assert path.stat().st_mode & 0o777 == 0o644
    assert (user / ".claude.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(os.name != "posix", reason="links need rights on Windows")
def test_a_symbolic_link_stays_one_and_the_file_behind_it_is_written(user: Path, tmp_path: Path):
    dotfiles = tmp_path / "dotfiles"
    dotfiles.mkdir()
    path = user / ".claude/settings.json"
    path.rename(dotfiles / "claude.json")
    path.symlink_to(dotfiles / "claude.json")
    before = (dotfiles / "claude.json").read_bytes()
    connecting.apply_plan(planned("claude-code", user), NOW)
    assert path.is_symlink()
    assert b"/v1/hooks/claude-code" in (dotfiles / "claude.json").read_bytes()
    connecting.apply_plan(
        connecting.plan_disconnection(HOSTS["claude-code"], machine(user), install(user)),
        NOW,
    )
    assert path.is_symlink() and (dotfiles / "claude.json").read_bytes() == before


@pytest.mark.parametrize("blank", ["", "\n", "\ufeff", " \r\n"])
def test_a_blank_file_is_blank_again(blank: str, user: Path):
    path = user / ".gemini/settings.json"
    path.write_bytes(blank.encode())
    connecting.apply_plan(planned("gemini", user), NOW)
    assert "mnemolog" in json.loads(path.read_text())["mcpServers"]
    connecting.apply_plan(
        connecting.plan_disconnection(HOSTS["gemini"], machine(user), install(user)), NOW
    )
    assert path.read_bytes() == blank.encode()


def test_what_was_there_is_kept_and_not_without_end(user: Path):
    home = install(user).home
    before = (user / ".cursor/hooks.json").read_bytes()
    for number in range(connecting.KEPT + 3):
        act = connecting.plan_disconnection if number % 2 else connecting.plan_connection
        backup = connecting.apply_plan(act(HOSTS["cursor"], machine(user), install(user)), NOW)
    assert backup is not None
    kept = sorted((home / "backups" / "hosts").iterdir())
    assert len(kept) == connecting.KEPT and kept[-1] == backup
    [copy] = backup.glob("*_hooks.json")
    assert copy.read_bytes() == before
    assert "cursor" in copy.name


def test_a_folder_that_somebody_else_uses_now_stays(user: Path, tmp_path: Path):
    bare = tmp_path / "bare"
    bare.mkdir()
    connecting.apply_plan(planned("cursor", bare), NOW)
    (bare / ".cursor/theirs").touch()
    connecting.apply_plan(
        connecting.plan_disconnection(HOSTS["cursor"], machine(bare), install(bare)), NOW
    )
    assert list(tree(bare)) == [".cursor", ".cursor/theirs"]
    assert not connecting.connections_file(install(bare).home).exists()


def test_a_damaged_note_of_ours_is_named(user: Path):
    connecting.connections_file(install(user).home).write_text("{")
    with pytest.raises(ConfigError, match=r"connections\.json cannot be read"):
        planned("cursor", user)
