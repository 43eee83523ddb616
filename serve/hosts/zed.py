"""
Zed's own agent: it runs no hooks. Its servers, https://zed.dev/docs/ai/mcp, in settings.json; its
rules for all projects, https://zed.dev/docs/ai/instructions.

Other agents in Zed (Claude Code, Codex, Gemini CLI) read their own settings, so they are connected
as themselves.
"""

from pathlib import Path

from serve.hosts.host import Host, Install, JsonFile, Machine, ServerEntry, SettingsFile, rules_in


def files(machine: Machine, install: Install) -> tuple[SettingsFile, ...]:
    server = ServerEntry(("context_servers",), install.server())
    return (JsonFile(_folder(machine) / "settings.json", (server,)),)


def _folder(machine: Machine) -> Path:
    """Return Zed's folder: https://github.com/zed-industries/zed, crates/paths/src/paths.rs."""
    if machine.platform == "win32":
        return machine.folder("APPDATA", "AppData/Roaming") / "Zed"
    if machine.platform == "darwin":
        return machine.home / ".config" / "zed"
    return machine.folder("XDG_CONFIG_HOME", ".config") / "zed"


ZED = Host(
    "zed",
    title="Zed",
    programs=("zed", "zeditor"),
    folders=lambda machine: (_folder(machine),),
    files=files,
    rules=rules_in(lambda machine: _folder(machine) / "AGENTS.md"),
    note="external agents in Zed, such as Claude Code, are connected as themselves",
)
