"""
Windsurf, which is now Devin Desktop: its agent Cascade reports its actions to hooks and takes only
an exit code back, https://docs.devin.ai/desktop/cascade/hooks. So its work is recorded, and recall
comes by the MCP server, https://docs.devin.ai/desktop/cascade/mcp, as its rules say,
https://docs.devin.ai/desktop/cascade/memories.

A prompt comes without the id of its conversation, only with that of its turn, so each turn counts
as a session; and without a folder. A command comes without output and exit code.
"""

import os
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
from store.agents.json_fields import LONGEST_ID, mapping, text
from store.agents.tool_calls import ToolUse, tool_use

_MOMENTS: dict[str, Moment] = {
    "pre_user_prompt": "prompt",
    "post_run_command": "after_tool",
    "post_write_code": "after_tool",
    "post_mcp_tool_use": "after_tool",
    "post_cascade_response": "stop",
}
_LONG = 1 << 20


def read(payload: Payload) -> HookEvent | None:
    name = required_text(payload, "agent_action_name")
    turn = required_text(payload, "execution_id")
    moment = _MOMENTS.get(name)
    info = mapping(payload, "tool_info")
    prompt = prompt_text(text(info, "user_prompt", most=_LONG))
    if moment is None or (moment == "prompt" and not prompt):
        return None
    return HookEvent(
        host="windsurf",
        moment=moment,
        session=turn,
        name=name,
        cwd=working_directory(text(info, "cwd") or os.path.dirname(text(info, "file_path"))),
        prompt=prompt,
        tool=_tool(name, info) if moment == "after_tool" else None,
        said=reply_text(text(info, "response", most=_LONG)),
        turn=turn[:LONGEST_ID],
        is_heard=False,
    )


def write(event: HookEvent, reply: Reply) -> dict[str, Any]:
    return {}


def _tool(name: str, info: Payload) -> ToolUse:
    if name == "post_mcp_tool_use":
        return tool_use(
            text(info, "mcp_tool_name"),
            mapping(info, "mcp_tool_arguments"),
            server=text(info, "mcp_server_name"),
            output=text(info, "mcp_result", most=_LONG),
        )
    if name == "post_write_code":
        return tool_use("write_code", info, passed=True)
    return tool_use("run_command", {"command": info.get("command_line")})


def files(machine: Machine, install: Install) -> tuple[SettingsFile, ...]:
    handler: Handler = {"command": install.line("windsurf"), "show_output": False}
    hooks = HookEntries("windsurf", dict.fromkeys(_MOMENTS, handler), is_grouped=False)
    server = ServerEntry(("mcpServers",), install.server())
    return (
        JsonFile(_folder(machine) / "hooks.json", (hooks,)),
        JsonFile(_folder(machine) / "mcp_config.json", (server,)),
    )


def _folder(machine: Machine) -> Path:
    return machine.home / ".codeium" / "windsurf"


WINDSURF = Host(
    "windsurf",
    read,
    write,
    title="Windsurf",
    programs=("windsurf",),
    folders=lambda machine: (_folder(machine),),
    files=files,
    rules=rules_in(lambda machine: _folder(machine) / "memories/global_rules.md"),
    note="Windsurf takes no notes from hooks: recall comes by the MCP server there",
)
