"""
Cline in VS Code and on the command line, which share their folders: a hook is a program named after
its event, https://github.com/cline/cline/blob/main/sdk/examples/hooks/README.md, in ~/Documents/
Cline/Hooks, where both look. Its servers: https://docs.cline.bot/mcp/mcp-overview; its rules,
https://docs.cline.bot/customization/cline-rules.

VS Code names an event like its file, the command line by a name of its own; only the command line
gives the tool's input unchanged. Cline 3.0.65 gave the model the answers of PreToolUse and
PostToolUse, both after the tool ran; VS Code delivers the answer of a prompt's hook since September
2026 (https://github.com/cline/cline/pull/14160), the command line does not wait for it. A hook that
cancels a tool ends the whole turn, so ours never does. On Windows Cline runs only PowerShell files,
and gets no hooks.
"""

import shlex
from pathlib import Path
from typing import Any

import msgspec

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
    Host,
    Install,
    JsonFile,
    Machine,
    OwnFile,
    ServerEntry,
    SettingsFile,
    packaged_text,
)
from store.agents.json_fields import mapping, text
from store.agents.tool_calls import ToolUse, has_passed, tool_use

_MOMENTS: dict[str, Moment] = {
    "UserPromptSubmit": "prompt",
    "prompt_submit": "prompt",
    "PreToolUse": "before_tool",
    "tool_call": "before_tool",
    "PostToolUse": "after_tool",
    "tool_result": "after_tool",
    "TaskComplete": "stop",
    "agent_end": "stop",
}
_HEARD = frozenset({"UserPromptSubmit", "PreToolUse", "tool_call", "PostToolUse", "tool_result"})
_EVENTS = ("UserPromptSubmit", "PreToolUse", "PostToolUse", "TaskComplete")
_MARK = "written by `mnemolog connect cline`"
_LONG = 1 << 20


def read(payload: Payload) -> HookEvent | None:
    name = required_text(payload, "hookName")
    session = required_text(payload, "taskId")
    moment = _MOMENTS.get(name)
    prompt = prompt_text(text(mapping(payload, "userPromptSubmit"), "prompt", most=_LONG))
    if moment is None or (moment == "prompt" and not prompt):
        return None
    roots = payload.get("workspaceRoots")
    task = mapping(mapping(payload, "taskComplete"), "taskMetadata")
    words = text(mapping(payload, "turn"), "outputText", most=_LONG) or text(
        task, "result", most=_LONG
    )
    return HookEvent(
        host="cline",
        moment=moment,
        session=session,
        name=name,
        cwd=working_directory(roots[0] if isinstance(roots, list) and roots else None),
        prompt=prompt,
        tool=_tool(payload, moment) if moment in ("before_tool", "after_tool") else None,
        said=reply_text(words),
        is_subagent=bool(text(payload, "parent_agent_id")),
        is_heard=name in _HEARD,
    )


def write(event: HookEvent, reply: Reply) -> dict[str, Any]:
    return {"contextModification": reply.context} if reply.context else {}


def _tool(payload: Payload, moment: Moment) -> ToolUse:
    described = mapping(payload, "preToolUse", "postToolUse")
    exact = mapping(payload, "tool_call", "tool_result")
    arguments = dict(mapping(exact, "input")) or {
        name: _value(value) for name, value in mapping(described, "parameters").items()
    }
    if isinstance(commands := arguments.pop("commands", None), list):
        arguments["command"] = "; ".join(filter(None, map(_line, commands)))
    result = exact.get("output") or _value(described.get("result"))
    return tool_use(
        text(described, "toolName"),
        arguments,
        id_=text(exact, "id"),
        passed=_tool_outcome(described, result) if moment == "after_tool" else None,
        output=[text(part, "result", most=_LONG) for part in _parts(result)] or result,
    )


def _line(command: object) -> str:
    """Return one of several commands: a line, or a program with its arguments."""
    if isinstance(command, dict) and isinstance(arguments := command.get("args"), list):
        words = [
            text(command, "command"),
            *(argument for argument in arguments if isinstance(argument, str)),
        ]
        return shlex.join(words)
    return command if isinstance(command, str) else ""


def _tool_outcome(payload: Payload, result: object) -> bool | None:
    """Return True if a tool did its work, None if that is unknown.

    A failed command is reported as a success with a failure in it; VS Code writes such a result as
    `[object Object]`, which has no information.
    """
    if payload.get("success") is False:
        return False
    if parts := _parts(result):
        return all(has_passed(part) is not False for part in parts)
    return None if isinstance(result, str) and result.startswith("[object ") else True


def _parts(result: object) -> list[Payload]:
    """Return the results of a tool's parts, such as its commands; most tools have one."""
    parts = result if isinstance(result, list) else [result]
    return [part for part in parts if isinstance(part, dict)]


def _value(value: object) -> object:
    """Return a parameter as the tool had it: VS Code gives JSON for all but texts."""
    try:
        return msgspec.json.decode(value) if isinstance(value, str) and value[:1] in "[{" else value
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return value


def files(machine: Machine, install: Install) -> tuple[SettingsFile, ...]:
    settings = machine.folder("CLINE_DATA_DIR", ".cline/data") / "settings/cline_mcp_settings.json"
    server = ServerEntry(("mcpServers",), install.server())
    servers = JsonFile(settings, (server,))
    if machine.platform == "win32":
        return (servers,)
    head = f"# {_MARK}; `mnemolog disconnect cline` deletes it"
    program = f"#!/bin/sh\n{head}\nexec {install.line('cline')}\n"
    folder = _folder(machine) / "Hooks"
    hooks = (OwnFile(folder / event, program, _MARK, is_program=True) for event in _EVENTS)
    return (*hooks, servers)


def _folder(machine: Machine) -> Path:
    return machine.home / "Documents" / "Cline"


def rules(machine: Machine) -> tuple[SettingsFile, ...]:
    file = _folder(machine) / "Rules" / "mnemolog.md"
    return (OwnFile(file, packaged_text("rules.md"), "MCP server `mnemolog`"),)


CLINE = Host(
    "cline",
    read,
    write,
    title="Cline",
    programs=("cline",),
    folders=lambda machine: (machine.home / ".cline", _folder(machine)),
    files=files,
    rules=rules,
    note="on the command line Cline waits for no hook of a prompt: notes come with the first tool, "
    "and by the MCP server",
)
