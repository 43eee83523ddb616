"""
Codex CLI: its hook events and their output, which knows no field beyond its schema,
https://github.com/openai/codex/tree/main/codex-rs/hooks/schema/generated.

Its settings: https://developers.openai.com/codex/hooks, only commands, as one http hook makes it
refuse the whole file; https://developers.openai.com/codex/mcp.
"""

from pathlib import Path

from serve.hosts import claude_code
from serve.hosts.event import HookEvent, Payload
from serve.hosts.host import (
    TIMEOUT_S,
    Handler,
    HookEntries,
    HookSwitch,
    Host,
    Install,
    JsonFile,
    Machine,
    SettingsFile,
    TomlFile,
    rules_in,
)

_EVENTS = ("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop", "PostCompact")
_END_TIMEOUT_S = 3  # a longer one is cut to this, with a warning at every start


def read(payload: Payload) -> HookEvent | None:
    # a command's output comes without its exit code; `ask` is in the schema and refused
    return claude_code.read_event(payload, "codex", is_told=False, decides=frozenset({"deny"}))


def files(machine: Machine, install: Install) -> tuple[SettingsFile, ...]:
    handler: Handler = {"type": "command", "command": install.line("codex"), "timeout": TIMEOUT_S}
    ended = handler | {"timeout": _END_TIMEOUT_S}
    wanted = dict.fromkeys(_EVENTS, handler) | {"SessionEnd": ended}
    folder = _folder(machine)
    return (
        JsonFile(folder / "hooks.json", (HookEntries("codex", wanted),)),
        TomlFile(folder / "config.toml", "mcp_servers", install.server()),
    )


def _folder(machine: Machine) -> Path:
    return machine.folder("CODEX_HOME", ".codex")


CODEX = Host(
    "codex",
    read,
    claude_code.write_reply,
    title="Codex",
    programs=("codex",),
    folders=lambda machine: (_folder(machine),),
    files=files,
    rules=rules_in(lambda machine: _folder(machine) / "AGENTS.md"),
    switch=HookSwitch(1, ("features", "hooks"), False),
    note="Codex skips hooks without a word until you trust them: start `codex`, where it asks "
    "(or type /hooks)",
)
