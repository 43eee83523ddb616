"""
Gemini CLI: its hook events and their output, https://geminicli.com/docs/hooks/reference, timeouts
in milliseconds; its servers, https://geminicli.com/docs/tools/mcp-server.

Before a tool it takes a decision and no context. `ask` is not in its reference:
https://github.com/google-gemini/gemini-cli/pull/21146. An older one runs the tool then.

Its 0.61.0 marks a tool's output as untrusted, and adds how its process ended:
packages/core/src/tools/shell.ts there.
"""

import re
from pathlib import Path
from typing import Any, get_args

from serve.hosts import claude_code
from serve.hosts.event import (
    Decision,
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
    HookSwitch,
    Host,
    Install,
    JsonFile,
    Machine,
    ServerEntry,
    SettingsFile,
    rules_in,
)
from store.agents.json_fields import mapping, plain, text
from store.agents.tool_calls import ToolUse, has_passed, tool_use

_MOMENTS: dict[str, Moment] = {
    "SessionStart": "session_start",
    "BeforeAgent": "prompt",
    "BeforeTool": "before_tool",
    "AfterTool": "after_tool",
    "AfterAgent": "stop",
    "SessionEnd": "session_end",
}
_HEARD: frozenset[Moment] = frozenset({"session_start", "prompt", "after_tool"})
_EVENTS = ("SessionStart", "BeforeAgent", "BeforeTool", "AfterTool", "AfterAgent", "SessionEnd")
_EXIT = re.compile(r"^Exit Code: (\d{1,9})$", re.MULTILINE)
_MARKS = re.compile(r"^</?untrusted_context>$", re.MULTILINE)
_PROCESS = re.compile(
    r"\AOutput: (?:\(empty\)$)?|^(?:Process Group PGID|Background PIDs): .*$", re.MULTILINE
)
_UNDONE = ("Command was ", "Command moved to background")
_LONG = 1 << 20


def read(payload: Payload) -> HookEvent | None:
    name = required_text(payload, "hook_event_name")
    session = required_text(payload, "session_id")
    moment = _MOMENTS.get(name)
    prompt = prompt_text(text(payload, "prompt", most=_LONG)) if moment == "prompt" else ""
    if moment is None or (moment == "prompt" and not prompt):
        return None
    return HookEvent(
        host="gemini",
        moment=moment,
        session=session,
        name=name,
        cwd=working_directory(payload.get("cwd")),
        prompt=prompt,
        start=claude_code.session_start(payload),
        tool=_tool(payload, moment) if moment in ("before_tool", "after_tool") else None,
        said=reply_text(text(payload, "prompt_response", most=_LONG)),
        is_heard=moment in _HEARD,
        decides=frozenset(get_args(Decision)) if moment == "before_tool" else frozenset(),
    )


def write(event: HookEvent, reply: Reply) -> dict[str, Any]:
    if event.moment != "before_tool":
        return claude_code.write_reply(event, reply)
    if reply.decision not in event.decides:
        return {"systemMessage": reply.notice} if reply.notice else {}
    decision = {"decision": reply.decision, "reason": reply.reason}
    # for `ask`, the text in the user's dialog
    return decision | ({"systemMessage": reply.reason} if reply.decision == "ask" else {})


def _tool(payload: Payload, moment: Moment) -> ToolUse:
    result = mapping(payload, "tool_response")
    content = _MARKS.sub("", plain(result.get("llmContent"))).strip()
    output, error = _PROCESS.sub("", content).strip(), plain(result.get("error"))
    return tool_use(
        text(payload, "tool_name"),
        mapping(payload, "tool_input"),
        server=text(mapping(payload, "mcp_context"), "server_name"),
        passed=_tool_outcome(result, content) if moment == "after_tool" else None,
        # the output may contain the error already
        output=output if error in output else f"{output}\n{error}".strip(),
    )


def _tool_outcome(result: Payload, content: str) -> bool | None:
    if content.startswith(_UNDONE):
        return None
    codes = _EXIT.findall(content)  # reported only if not 0
    return has_passed(result) is not False and (not codes or codes[-1] == "0")


def files(machine: Machine, install: Install) -> tuple[SettingsFile, ...]:
    handler: Handler = {
        "type": "command",
        "name": "mnemolog",
        "command": install.line("gemini"),
        "timeout": TIMEOUT_S * 1000,
    }
    hooks = HookEntries("gemini", dict.fromkeys(_EVENTS, handler))
    server = ServerEntry(("mcpServers",), install.server())
    return (JsonFile(_folder(machine) / "settings.json", (hooks, server)),)


def _folder(machine: Machine) -> Path:
    return machine.folder("GEMINI_CLI_HOME", "") / ".gemini"


GEMINI = Host(
    "gemini",
    read,
    write,
    title="Gemini CLI",
    programs=("gemini",),
    folders=lambda machine: (_folder(machine),),
    files=files,
    rules=rules_in(lambda machine: _folder(machine) / "GEMINI.md"),
    switch=HookSwitch(0, ("hooksConfig", "enabled"), False),
    keeps_notes=False,  # a resumed history does not contain them
)
