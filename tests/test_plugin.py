"""The plugin folder for Claude Code: its contents, and the absence of secrets."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from hosts_home import install

from serve.connect import plugin
from serve.hosts.claude_code import PLUGIN_EVENTS
from store.home.errors import ConfigError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "anna").mkdir()
    plugin.build(tmp_path / "plugin", install(tmp_path / "anna"))
    return tmp_path / "plugin"


def load(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))


def test_the_marketplace_leads_to_the_plugin(folder: Path):
    market = load(folder / ".claude-plugin/marketplace.json")
    [entry] = market["plugins"]
    plugin = load(folder / entry["source"] / ".claude-plugin/plugin.json")
    assert market["name"] == "mnemolog-local"
    assert plugin["name"] == entry["name"] == "mnemolog"
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", plugin["version"])


def test_every_event_runs_the_client_and_no_secret_is_inside(folder: Path):
    hooks = load(folder / "plugins/mnemolog/hooks/hooks.json")["hooks"]
    assert tuple(hooks) == PLUGIN_EVENTS
    kinds = {
        hook["type"] for groups in hooks.values() for group in groups for hook in group["hooks"]
    }
    assert kinds == {"command"}
    everything = "".join(path.read_text() for path in folder.rglob("*") if path.is_file())
    assert "Bearer" not in everything and "owner" not in everything.replace('"owner": {', "")


def test_the_server_is_the_bridge(folder: Path):
    servers = load(folder / "plugins/mnemolog/.mcp.json")["mcpServers"]
    assert list(servers) == ["mnemolog"]
    assert servers["mnemolog"]["args"][2].endswith("mcp_bridge.py")


def test_the_skill_describes_when_to_use_it(folder: Path):
    text = (folder / "plugins/mnemolog/skills/recall/SKILL.md").read_text()
    assert text.startswith("---\nname: recall\ndescription: ")
    for tool in ("`recall`", "`remember`", "`feedback`"):
        assert tool in text


def test_a_portable_plugin_names_no_path_of_this_machine(tmp_path: Path):
    plugin.build(tmp_path / "plugin", None)
    files = [path for path in (tmp_path / "plugin").rglob("*") if path.is_file()]
    everything = "".join(path.read_text(encoding="utf-8") for path in files)
    for path in (sys.prefix, str(tmp_path), str(Path.home()), str(Path(__file__).parents[1])):
        assert path not in everything
    root = tmp_path / "plugin/plugins/mnemolog"
    hooks = load(root / "hooks/hooks.json")["hooks"]
    assert tuple(hooks) == PLUGIN_EVENTS
    words = {hook["command"] for [group] in hooks.values() for hook in group["hooks"]}
    assert words == {"mnemolog-hook claude-code"}
    server = load(root / ".mcp.json")["mcpServers"]["mnemolog"]
    assert (server["command"], server["args"]) == ("mnemolog", ["mcp"])
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    assert {"mnemolog", "mnemolog-hook"} <= project["scripts"].keys()
    assert load(tmp_path / "plugin/.claude-plugin/marketplace.json")["name"] == "mnemolog"


def test_the_installed_hook_command_answers_as_the_client_does(tmp_path: Path):
    command = [sys.executable, "-c", "from serve.client import run; run()", "claude-code"]
    completed = subprocess.run(
        [*command, "--home", str(tmp_path)],
        input=b"no event",
        capture_output=True,
        cwd=Path(__file__).parents[1],
        timeout=30,
    )
    assert (completed.returncode, completed.stdout, completed.stderr) == (0, b"", b"")


def test_building_again_renews_it_and_nothing_else_is_overwritten(folder: Path, tmp_path: Path):
    installed = install(tmp_path / "anna", folder="moved")
    plugin.build(folder, installed)
    assert "moved of anna" in (folder / "plugins/mnemolog/.mcp.json").read_text()
    other = tmp_path / "other"
    other.mkdir()
    (other / "theirs").touch()
    with pytest.raises(ConfigError, match="contains other files"):
        plugin.build(other, installed)


def test_a_file_is_no_folder_for_a_plugin(tmp_path: Path):
    (tmp_path / "file").write_text("somebody else's")
    with pytest.raises(ConfigError, match="is not a folder"):
        plugin.build(tmp_path / "file", install(tmp_path / "anna"))
