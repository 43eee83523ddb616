"""
Copilot CLI: hooks with VS Code's names for them, in Claude Code's form.
https://docs.github.com/en/copilot/reference/hooks-reference

It and VS Code each also run the other's hook files, so one function reads for both and the answer
is put in both their places. Copilot CLI 1.0.102 gave the model the answer of UserPromptSubmit,
once; reported a subagent's prompt, which a model wrote, as a prompt with `agent_id`; and gave a
subagent a session of its own, with its parent's as `parent_agent_id`.
"""

from pathlib import Path
from typing import Any

from serve.hosts import claude_code
from serve.hosts.event import HookEvent, Payload, Reply
from serve.hosts.host import (
    TIMEOUT_S,
    VERSION_1,
    Handler,
    HookEntries,
    Host,
    Install,
    JsonFile,
    Machine,
    ServerEntry,
    SettingsFile,
    rules_in,
)
from store.agents.json_fields import text

# An event with VS Code's name is sent with its name in it, an event with Copilot's name without.
_EVENTS = (
    *("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse"),
    *("PostToolUseFailure", "Stop", "SessionEnd"),
)


def read(payload: Payload) -> HookEvent | None:
    if parent := text(payload, "parent_agent_id"):
        payload = {**payload, "session_id": parent}
    return claude_code.read_event(payload, "copilot", is_told=False)


def write(event: HookEvent, reply: Reply) -> dict[str, Any]:
    if not reply.context:
        return {}
    output = claude_code.write_reply(event, Reply(reply.context))
    return {"additionalContext": reply.context, **output}


def files(machine: Machine, install: Install) -> tuple[SettingsFile, ...]:
    handler: Handler = {
        "type": "command",
        "command": install.line("copilot"),
        "timeoutSec": TIMEOUT_S,
    }
    hooks = HookEntries("copilot", dict.fromkeys(_EVENTS, handler), is_grouped=False)
    server = ServerEntry(("mcpServers",), {"type": "local", **install.server(), "tools": ["*"]})
    return (
        JsonFile(folder(machine) / "hooks/mnemolog.json", (hooks,), VERSION_1),
        JsonFile(folder(machine) / "mcp-config.json", (server,)),
    )


def folder(machine: Machine) -> Path:
    return machine.folder("COPILOT_HOME", ".copilot")


COPILOT = Host(
    "copilot",
    read,
    write,
    title="Copilot CLI",
    programs=("copilot",),
    folders=lambda machine: (folder(machine),),
    files=files,
    rules=rules_in(lambda machine: folder(machine) / "copilot-instructions.md"),
    keeps_notes=False,  # a resumed history has the newest answer to its start in place of the first
)
