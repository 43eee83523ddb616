"""A user's home folder with settings of every host, shared by the tests of connecting."""

import shutil
import sys
from pathlib import Path

from serve.hosts.host import Install, Machine

SETTINGS = Path(__file__).parent / "data" / "hosts_settings"
PLACES = {
    ".claude/settings.json": "claude_settings.json",
    ".claude.json": "claude_servers.json",
    ".claude/CLAUDE.md": "rules.md",
    ".codex/hooks.json": "codex_hooks.json",
    ".codex/config.toml": "codex_config.toml",
    ".codex/AGENTS.md": "rules_crlf.md",
    ".gemini/settings.json": "gemini_settings.json",
    ".gemini/GEMINI.md": "rules.md",
    ".config/Code/User/mcp.json": "vscode_mcp.json",
    ".cursor/hooks.json": "cursor_hooks.json",
    ".cursor/mcp.json": "cursor_mcp.json",
    ".copilot/mcp-config.json": "copilot_servers.json",
    ".config/opencode/opencode.jsonc": "opencode.jsonc",
    ".codeium/windsurf/hooks.json": "windsurf_hooks.json",
    ".codeium/windsurf/mcp_config.json": "windsurf_servers.json",
    ".codeium/windsurf/memories/global_rules.md": "rules_crlf.md",
    ".config/amp/settings.json": "amp_settings.json",
    ".config/amp/AGENTS.md": "rules.md",
    ".config/zed/settings.json": "zed_settings.json",
    ".config/zed/AGENTS.md": "rules.md",
}


def settle(home: Path) -> None:
    """Write every host's settings into a home folder."""
    for place, name in PLACES.items():
        (home / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(SETTINGS / name, home / place)


def machine(home: Path, **environ: str) -> Machine:
    return Machine(home, environ, "linux")


def install(home: Path, *, port: int = 7437, token: str = "owner", folder: str = "code") -> Install:
    """Return an install whose files exist, in a folder that a shell must quote."""
    code = home.parent / f"{folder} of anna's" / "serve"
    code.mkdir(parents=True, exist_ok=True)
    for name in ("client.py", "mcp_bridge.py"):
        (code / name).touch()
    memory = home.parent / "memory"
    memory.mkdir(exist_ok=True)
    return Install(sys.executable, code, memory, None, port, token, "linux")


def tree(folder: Path) -> dict[str, tuple[bytes | None, int]]:
    """Return every file's bytes and every folder, each with its mode."""
    return {
        str(path.relative_to(folder)): (
            path.read_bytes() if path.is_file() else None,
            path.lstat().st_mode,
        )
        for path in sorted(folder.rglob("*"))
    }
