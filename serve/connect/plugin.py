"""
A folder from which Claude Code installs mnemolog as a plugin, with its hooks, MCP server and skill.

https://code.claude.com/docs/en/plugins-reference and plugin-marketplaces. It names this machine's
interpreter and home, so it is for this machine; no secret is in it.
"""

import json
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from serve.connect.document import SERVER
from serve.hosts import claude_code
from serve.hosts.host import Install, packaged_text
from store.home.errors import ConfigError
from store.home.files import replace_file

NAME = "mnemolog"
MARKETPLACE = "mnemolog-local"
_SUMMARY = "Long-term memory on this machine: recalls what was decided, done and learned before."
_AUTHOR = {"name": "mnemolog"}
_LIST = Path(".claude-plugin", "marketplace.json")


def build(folder: Path, install: Install) -> list[Path]:
    """Write the folder; return its files. Raise ConfigError where something else is there."""
    listed = folder / _LIST
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{folder} is not a folder: give an empty or a new one")
    if folder.exists() and any(folder.iterdir()) and not _is_ours(listed):
        raise ConfigError(f"{folder} contains other files: give an empty or a new folder")
    written = []
    for name, content in _files(install):
        try:
            replace_file(folder / name, content.encode())
        except OSError as error:
            raise ConfigError(f"{folder / name} cannot be written ({error.strerror})") from error
        written.append(folder / name)
    return written


def _files(install: Install) -> Iterator[tuple[Path, str]]:
    plugin = Path("plugins", NAME)
    entry = {"name": NAME, "source": f"./{plugin.as_posix()}", "description": _SUMMARY}
    market = {"name": MARKETPLACE, "description": _SUMMARY, "owner": _AUTHOR, "plugins": [entry]}
    yield _LIST, _json(market)
    yield Path("README.md"), packaged_text("plugin.md")
    yield plugin / ".claude-plugin" / "plugin.json", _json(_manifest())
    yield plugin / "hooks" / "hooks.json", _json(_hooks(install))
    servers = {"mcpServers": {SERVER: {"type": "stdio", **install.server()}}}
    yield plugin / ".mcp.json", _json(servers)
    yield plugin / "skills" / "recall" / "SKILL.md", packaged_text("skill.md")
    yield plugin / "README.md", packaged_text("plugin.md")


def _manifest() -> dict[str, Any]:
    try:
        known = version("mnemolog")
    except PackageNotFoundError:  # run from a checkout that was not installed
        known = "0.0.0"
    return {
        "name": NAME,
        "version": known,
        "description": _SUMMARY,
        "author": _AUTHOR,
        "license": "Apache-2.0",
        "keywords": ["memory", "recall", "local-first"],
    }


def _hooks(install: Install) -> dict[str, Any]:
    group = {"hooks": [claude_code.command(install)]}
    return {
        "description": _SUMMARY,
        "hooks": {event: [group] for event in claude_code.PLUGIN_EVENTS},
    }


def _is_ours(listed: Path) -> bool:
    try:
        return bool(json.loads(listed.read_text(encoding="utf-8")).get("name") == MARKETPLACE)
    except (OSError, ValueError, AttributeError):
        return False


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
