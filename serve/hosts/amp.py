"""
Amp: the events and answers of the plugin that `connect` installs.

The plugin (texts/amp.js) reports Amp's own events in Claude Code's form and puts our answer after
the prompt, or after the result of the tool: https://ampcode.com/manual/plugin-api. Its servers and
its rules for all projects: https://ampcode.com/manual.
"""

from pathlib import Path
from typing import Any

from serve.hosts import claude_code
from serve.hosts.event import HookEvent, Payload, Reply
from serve.hosts.host import (
    Host,
    Install,
    JsonFile,
    Machine,
    ServerEntry,
    SettingsFile,
    plugin_file,
    rules_in,
)


def read(payload: Payload) -> HookEvent | None:
    return claude_code.read_event(payload, "amp", is_told=False)


def write(event: HookEvent, reply: Reply) -> dict[str, Any]:
    return claude_code.write_reply(event, Reply(reply.context))


def files(machine: Machine, install: Install) -> tuple[SettingsFile, ...]:
    server = ServerEntry(("amp.mcpServers",), install.server())  # one key, with a dot in it
    return (
        plugin_file(_folder(machine) / "plugins/mnemolog.ts", "amp", install),
        JsonFile(_folder(machine) / "settings.json", (server,)),
    )


def _folder(machine: Machine) -> Path:
    return machine.home / ".config" / "amp"


AMP = Host(
    "amp",
    read,
    write,
    title="Amp",
    programs=("amp",),
    folders=lambda machine: (_folder(machine),),
    files=files,
    rules=rules_in(lambda machine: _folder(machine) / "AGENTS.md"),
    note="an Amp that runs takes the plugin up at `plugins: reload` (Ctrl+O)",
)
