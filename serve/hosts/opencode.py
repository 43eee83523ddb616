"""
OpenCode: the events and answers of the plugin that `connect` installs.

The plugin (texts/opencode.js) reports OpenCode's own events in Claude Code's form and adds our
answers to the requests to the model, beside the prompt or the tool's result, so every answer before
the end of a turn is heard. A subagent's prompt, which a model wrote, is not reported; its tools
belong to the session it works for. OpenCode runs plugins inside itself, so ours never throws, never
waits longer than the client may take, and is silent if anything is wrong.
https://opencode.ai/docs/plugins, https://opencode.ai/docs/mcp-servers
"""

from pathlib import Path
from typing import Any

from msgspec.structs import replace

from serve.hosts import claude_code
from serve.hosts.event import HookEvent, Payload, Reply
from serve.hosts.host import (
    Handler,
    Host,
    Install,
    JsonFile,
    Machine,
    ServerEntry,
    SettingsFile,
    plugin_file,
    rules_in,
)
from store.agents.typed_text import unquote_prompt

_START = '{\n  "$schema": "https://opencode.ai/config.json"\n}\n'


def read(payload: Payload) -> HookEvent | None:
    event = claude_code.read_event(payload, "opencode", is_told=False)
    return replace(event, prompt=unquote_prompt(event.prompt)) if event else None


def write(event: HookEvent, reply: Reply) -> dict[str, Any]:
    return claude_code.write_reply(event, Reply(reply.context))


def files(machine: Machine, install: Install) -> tuple[SettingsFile, ...]:
    settings = _folder(machine) / "opencode.jsonc"
    if not settings.is_file():
        settings = settings.with_suffix(".json")
    value: Handler = {"type": "local", "command": list(install.bridge()), "enabled": True}
    server = ServerEntry(("mcp",), value, newer=("mcp", "servers"))  # as of its second version
    return (
        plugin_file(_folder(machine) / "plugins/mnemolog.js", "opencode", install),
        JsonFile(settings, (server,), _START),
    )


def _folder(machine: Machine) -> Path:
    return machine.folder("XDG_CONFIG_HOME", ".config") / "opencode"


OPENCODE = Host(
    "opencode",
    read,
    write,
    title="OpenCode",
    programs=("opencode",),
    folders=lambda machine: (_folder(machine),),
    files=files,
    rules=rules_in(lambda machine: _folder(machine) / "AGENTS.md"),
    keeps_notes=False,  # the plugin adds them to requests while it runs
)
