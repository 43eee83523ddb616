"""
Cursor: its hook events and their output, https://cursor.com/docs/agent/hooks; its servers,
https://cursor.com/docs/context/mcp. Its rules for all projects are in the app, not in a file.
"""

from typing import Any

import msgspec

from serve.hosts.event import (
    HookEvent,
    Moment,
    Payload,
    Reply,
    prompt_text,
    required_text,
    working_directory,
)
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
)
from store.agents.json_fields import LONGEST_ID, mapping, text
from store.agents.tool_calls import ToolUse, has_passed, tool_use

_MOMENTS: dict[str, Moment] = {
    "sessionStart": "session_start",
    "beforeSubmitPrompt": "prompt",
    "preToolUse": "before_tool",
    "postToolUse": "after_tool",
    "postToolUseFailure": "after_tool",
    "stop": "stop",
    "sessionEnd": "session_end",
}
# The output for a prompt or before a tool is only a permission to go on.
_HEARD: frozenset[Moment] = frozenset({"session_start", "after_tool"})
_EVENTS = (
    *("sessionStart", "beforeSubmitPrompt", "postToolUse"),
    *("postToolUseFailure", "stop", "sessionEnd"),
)
_LONG = 1 << 20


def read(payload: Payload) -> HookEvent | None:
    name = required_text(payload, "hook_event_name")
    session = required_text(payload, "conversation_id", "session_id")
    moment = _MOMENTS.get(name)
    prompt = prompt_text(text(payload, "prompt", most=_LONG))
    if moment is None or (moment == "prompt" and not prompt):
        return None
    roots = payload.get("workspace_roots")
    root = roots[0] if isinstance(roots, list) and roots else None
    return HookEvent(
        host="cursor",
        moment=moment,
        session=session,
        name=name,
        cwd=working_directory(root) or working_directory(payload.get("cwd")),
        prompt=prompt,
        tool=_tool(payload, name) if moment in ("before_tool", "after_tool") else None,
        turn=text(payload, "generation_id", most=LONGEST_ID) or None,
        is_heard=moment in _HEARD and name != "postToolUseFailure",
    )


def write(event: HookEvent, reply: Reply) -> dict[str, Any]:
    return {"additional_context": reply.context} if reply.context else {}


def files(machine: Machine, install: Install) -> tuple[SettingsFile, ...]:
    handler: Handler = {"command": install.line("cursor"), "timeout": TIMEOUT_S}
    hooks = HookEntries("cursor", dict.fromkeys(_EVENTS, handler), is_grouped=False)
    server = ServerEntry(("mcpServers",), {"type": "stdio", **install.server()})
    folder = machine.home / ".cursor"
    return (
        JsonFile(folder / "hooks.json", (hooks,), VERSION_1),
        JsonFile(folder / "mcp.json", (server,)),
    )


def _tool(payload: Payload, name: str) -> ToolUse:
    output = _decode_output(text(payload, "tool_output", most=_LONG))
    if name == "postToolUseFailure":
        output = text(payload, "error_message", most=_LONG)
    return tool_use(
        text(payload, "tool_name"),
        mapping(payload, "tool_input"),
        id_=text(payload, "tool_use_id"),
        passed=_tool_outcome(payload, name, output),
        output=output,
    )


def _tool_outcome(payload: Payload, name: str, output: object) -> bool | None:
    """Return True if a tool did its work; None before it ran, or if it was stopped."""
    if name == "postToolUse":  # a failed command is reported as a failure
        return has_passed(output) is not False
    is_stopped = payload.get("is_interrupt") is True
    is_failed = text(payload, "failure_type") in ("", "error") and not is_stopped
    return False if name == "postToolUseFailure" and is_failed else None


def _decode_output(raw: str) -> object:
    """Return a tool's output from its JSON text, {"output", "exitCode"} for a command."""
    try:
        return _decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return raw


_decoder = msgspec.json.Decoder()

CURSOR = Host(
    "cursor",
    read,
    write,
    title="Cursor",
    programs=("cursor", "cursor-agent"),
    folders=lambda machine: (machine.home / ".cursor",),
    files=files,
    note="Cursor drops what a hook says about a prompt: recall comes by the MCP server there",
)
