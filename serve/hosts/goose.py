"""
goose: a plugin folder of ours holds its hooks, https://goose-docs.ai/docs/guides/managing-tools/hooks,
and its MCP server, which goose reads since 1.39 (https://github.com/aaif-goose/goose/pull/9471). So
its config.yaml, which goose writes itself, is left alone. Its rules for all projects:
https://goose-docs.ai/docs/guides/context-engineering/using-goosehints.

goose takes only one answer from a hook: before a tool, that it may not be used
(https://github.com/aaif-goose/goose, crates/goose/src/hooks/mod.rs).
"""

import json
from pathlib import Path
from typing import Any

from serve.hosts.event import (
    HookEvent,
    Moment,
    Payload,
    Reply,
    prompt_text,
    reply_text,
    required_text,
    working_directory,
)
from serve.hosts.host import (
    TIMEOUT_S,
    Handler,
    HookEntries,
    Host,
    Install,
    JsonFile,
    Machine,
    OwnFile,
    ServerEntry,
    SettingsFile,
    rules_in,
)
from store.agents.json_fields import mapping, text
from store.agents.tool_calls import SERVER, ToolUse, tool_use

_MOMENTS: dict[str, Moment] = {
    "SessionStart": "session_start",
    "UserPromptSubmit": "prompt",
    "PreToolUse": "before_tool",
    "PostToolUse": "after_tool",
    "PostToolUseFailure": "after_tool",
    "Stop": "stop",
    "SessionEnd": "session_end",
}
_LOOKS = frozenset({"view", "read"})  # an editor's commands that change nothing
_LONG = 1 << 20
_NAME = f'"name": "{SERVER}"'


def read(payload: Payload) -> HookEvent | None:
    name = required_text(payload, "event")
    session = required_text(payload, "session_id")
    moment = _MOMENTS.get(name)
    prompt = prompt_text(text(payload, "message", most=_LONG)) if moment == "prompt" else ""
    if moment is None or (moment == "prompt" and not prompt):
        return None
    return HookEvent(
        host="goose",
        moment=moment,
        session=session,
        name=name,
        cwd=working_directory(payload.get("working_dir")),
        prompt=prompt,
        tool=_tool(payload, name) if moment in ("before_tool", "after_tool") else None,
        said=reply_text(text(payload, "last_assistant_message", most=_LONG)),
        is_heard=False,
        decides=frozenset({"deny"}) if moment == "before_tool" else frozenset(),
    )


def write(event: HookEvent, reply: Reply) -> dict[str, Any]:
    if reply.decision not in event.decides:
        return {}
    return {"decision": "block", "reason": reply.reason}


def _tool(payload: Payload, name: str) -> ToolUse:
    """Return a tool's use; `developer__shell` is the tool `shell` of the extension `developer`."""
    extension, _, tool = text(payload, "tool_name").rpartition("__")
    arguments = mapping(payload, "tool_input")
    if tool == "text_editor":
        tool = "view" if text(arguments, "command") in _LOOKS else "edit"
    return tool_use(
        tool,
        arguments,
        id_=text(payload, "tool_call_id"),
        server=SERVER if SERVER in extension else extension,
        passed={"PostToolUse": True, "PostToolUseFailure": False}.get(name),
        output=payload.get("tool_output"),
    )


def files(machine: Machine, install: Install) -> tuple[SettingsFile, ...]:
    handler: Handler = {"type": "command", "command": install.line("goose"), "timeout": TIMEOUT_S}
    hooks = HookEntries("goose", dict.fromkeys(_MOMENTS, handler))
    server = ServerEntry(("mcpServers",), install.server())
    plugin = {"name": SERVER, "description": "Long-term memory on this machine"}
    folder = machine.home / ".agents" / "plugins" / SERVER
    return (
        JsonFile(folder / "hooks" / "hooks.json", (hooks,)),
        JsonFile(folder / ".mcp.json", (server,)),
        OwnFile(folder / "plugin.json", json.dumps(plugin, indent=2) + "\n", _NAME),
    )


def _folder(machine: Machine) -> Path:
    if machine.platform == "win32":
        return machine.folder("APPDATA", "AppData/Roaming") / "Block" / "goose" / "config"
    return machine.folder("XDG_CONFIG_HOME", ".config") / "goose"


GOOSE = Host(
    "goose",
    read,
    write,
    title="goose",
    programs=("goose",),
    folders=lambda machine: (_folder(machine),),
    files=files,
    rules=rules_in(lambda machine: _folder(machine) / ".goosehints"),
    note="goose takes no notes from hooks: recall comes by the MCP server, from goose 1.39 on",
)
