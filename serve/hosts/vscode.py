"""
VS Code: its hook events, in Claude Code's form, and an answer as Copilot CLI takes it too.
https://code.visualstudio.com/docs/agents/reference/hooks-reference

Its settings: https://code.visualstudio.com/docs/agent-customization/hooks, without applied matchers
and with handlers outside groups; servers in the user profile's mcp.json,
https://code.visualstudio.com/docs/agents/reference/mcp-configuration.
"""

from pathlib import Path

from serve.hosts import claude_code, copilot
from serve.hosts.event import HookEvent, Payload
from serve.hosts.host import (
    TIMEOUT_S,
    VERSION_1,
    Handler,
    HookEntries,
    Host,
    Install,
    JsonFile,
    Machine,
    OwnFile,
    ServerEntry,
    SettingsFile,
    packaged_text,
)

_EVENTS = ("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop")
_FLAVOURS = ("Code", "Code - Insiders", "VSCodium")


def read(payload: Payload) -> HookEvent | None:
    return claude_code.read_event(payload, "vscode", is_told=False)


def files(machine: Machine, install: Install) -> tuple[SettingsFile, ...]:
    handler: Handler = {"type": "command", "command": install.line("vscode"), "timeout": TIMEOUT_S}
    hooks = HookEntries("vscode", dict.fromkeys(_EVENTS, handler), is_grouped=False)
    server = ServerEntry(("servers",), {"type": "stdio", **install.server()})
    return (
        JsonFile(copilot.folder(machine) / "hooks/mnemolog-vscode.json", (hooks,), VERSION_1),
        *(JsonFile(profile / "mcp.json", (server,)) for profile in profiles(machine)),
    )


def rules(machine: Machine) -> tuple[SettingsFile, ...]:
    # only a header makes them count for all files:
    # https://code.visualstudio.com/docs/agent-customization/custom-instructions
    file = copilot.folder(machine) / "instructions" / "mnemolog.instructions.md"
    header = '---\nname: mnemolog\napplyTo: "**"\n---\n\n'
    return (OwnFile(file, header + packaged_text("rules.md"), "name: mnemolog\n"),)


def profiles(machine: Machine) -> tuple[Path, ...]:
    """Return the user folders of the installed flavours; that of VS Code if there are none."""
    if machine.platform == "win32":
        base = machine.folder("APPDATA", "AppData/Roaming")
    elif machine.platform == "darwin":
        base = machine.home / "Library" / "Application Support"
    else:
        base = machine.folder("XDG_CONFIG_HOME", ".config")
    there = [flavour for flavour in _FLAVOURS if (base / flavour / "User").is_dir()]
    return tuple(base / flavour / "User" for flavour in there or _FLAVOURS[:1])


VSCODE = Host(
    "vscode",
    read,
    copilot.write,
    title="VS Code",
    programs=("code", "code-insiders", "codium"),
    folders=profiles,
    files=files,
    rules=rules,
    note="VS Code asks whether to trust the MCP server when it starts it first",
)
