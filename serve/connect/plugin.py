"""
A folder from which Claude Code installs mnemolog as a plugin, with its hooks, MCP server and skill.

https://code.claude.com/docs/en/plugins-reference and plugin-marketplaces. It is for this machine,
whose interpreter and home it names; or portable, for any machine with `mnemolog` on its PATH. It
contains no secret.
"""

import json
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from serve.connect.document import SERVER
from serve.hosts import claude_code
from serve.hosts.host import TIMEOUT_S, Install, packaged_text
from store.home.errors import ConfigError
from store.home.files import replace_file

NAME = "mnemolog"
MARKETPLACES = LOCAL, PORTABLE = "mnemolog-local", "mnemolog"
_SUMMARY = "Long-term memory on this machine: recalls what was decided, done and learned before."
_AUTHOR = {"name": "mnemolog"}
_LOCAL_STEPS = """\
    claude plugin marketplace add DIR
    claude plugin install mnemolog@mnemolog-local

The folder names this machine's Python and memory; build it again with `mnemolog plugin DIR` after
either moved."""
_PORTABLE_STEPS = """\
    uv tool install mnemolog
    claude plugin marketplace add DIR
    claude plugin install mnemolog@mnemolog

DIR is this folder, or the repository that holds it. The commands `mnemolog` and `mnemolog-hook`
must be on the PATH of Claude Code. The memory is in your data folder, or in MNEMOLOG_HOME."""
_LIST = Path(".claude-plugin", "marketplace.json")


def build(folder: Path, install: Install | None) -> list[Path]:
    """Write the folder, a portable one for no install; return its files.

    Raise ConfigError where the folder has other content.
    """
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


def _files(install: Install | None) -> Iterator[tuple[Path, str]]:
    plugin = Path("plugins", NAME)
    entry = {"name": NAME, "source": f"./{plugin.as_posix()}", "description": _SUMMARY}
    name = LOCAL if install else PORTABLE
    market = {"name": name, "description": _SUMMARY, "owner": _AUTHOR, "plugins": [entry]}
    steps = _LOCAL_STEPS if install else _PORTABLE_STEPS
    readme = packaged_text("plugin.md").replace("STEPS", steps)
    try:
        number = version("mnemolog-core")
    except PackageNotFoundError:  # run from a checkout that was not installed
        number = "0.0.0"
    manifest = {
        "name": NAME,
        "version": number,
        "description": _SUMMARY,
        "author": _AUTHOR,
        "license": "Apache-2.0",
        "keywords": ["memory", "recall", "local-first"],
    }
    anywhere = {"type": "command", "command": "mnemolog-hook claude-code", "timeout": TIMEOUT_S}
    group = {"hooks": [claude_code.command(install) if install else anywhere]}
    events = {event: [group] for event in claude_code.PLUGIN_EVENTS}
    server = install.server() if install else {"command": NAME, "args": ["mcp"]}
    yield _LIST, _json(market)
    yield Path("README.md"), readme
    yield plugin / ".claude-plugin" / "plugin.json", _json(manifest)
    yield plugin / "hooks" / "hooks.json", _json({"description": _SUMMARY, "hooks": events})
    yield plugin / ".mcp.json", _json({"mcpServers": {SERVER: {"type": "stdio", **server}}})
    yield plugin / "skills" / "recall" / "SKILL.md", packaged_text("skill.md")
    yield plugin / "README.md", readme


def _is_ours(listed: Path) -> bool:
    try:
        return bool(json.loads(listed.read_text(encoding="utf-8")).get("name") in MARKETPLACES)
    except (OSError, ValueError, AttributeError):
        return False


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
