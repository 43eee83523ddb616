"""
Claude Code: its hook events and their output, https://code.claude.com/docs/en/hooks; its servers,
~/.claude.json, https://code.claude.com/docs/en/mcp.

Codex, VS Code, Copilot and our OpenCode plugin took over the form of its events: `read_event` and
`write_reply` serve them too.
"""

from pathlib import Path
from typing import Any, cast, get_args

from serve.hosts.event import (
    Decision,
    HookEvent,
    Moment,
    Payload,
    Reply,
    Start,
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
from store.agents.json_fields import LONGEST_ID, mapping, text
from store.agents.tool_calls import ToolUse, has_passed, tool_use

_MOMENTS: dict[str, Moment] = {
    "SessionStart": "session_start",
    "UserPromptSubmit": "prompt",
    "PreToolUse": "before_tool",
    "PostToolUse": "after_tool",
    "PostToolUseFailure": "after_tool",
    "Stop": "stop",
    "PostCompact": "compacted",
    "SessionEnd": "session_end",
}
# An answer to Stop would keep the agent going, and answers to the others never reach the model.
_HEARD: frozenset[Moment] = frozenset({"session_start", "prompt", "before_tool", "after_tool"})
# Sources of prompts without a person: a background task ended, a timer went off.
_MACHINES = frozenset({"system", "loop_wakeup", "schedule_wakeup", "poll_event"})
_LONG = 1 << 20


def read_event(
    payload: Payload, host: str, *, is_told: bool, decides: frozenset[Decision] = frozenset()
) -> HookEvent | None:
    """Return an event, None if we do not use it.

    `is_told` says that the host distinguishes failed uses of tools; `decides` are the decisions
    that it accepts from a hook before a tool.
    """
    name = required_text(payload, "hook_event_name", "hookEventName")
    session = required_text(payload, "session_id", "sessionId")
    moment = _MOMENTS.get(name)
    prompt = prompt_text(text(payload, "prompt", most=_LONG))
    if moment is None or (moment == "prompt" and (not prompt or _is_machine(payload))):
        return None
    return HookEvent(
        host=host,
        moment=moment,
        session=session,
        name=name,
        cwd=working_directory(payload.get("cwd")),
        prompt=prompt,
        start=session_start(payload),
        tool=_tool(payload, name, is_told) if moment in ("before_tool", "after_tool") else None,
        said=reply_text(text(payload, "last_assistant_message", "compact_summary", most=_LONG)),
        turn=text(payload, "prompt_id", "turn_id", most=LONGEST_ID) or None,
        is_subagent=bool(text(payload, "agent_id")),
        is_unattended=moment == "prompt" and text(payload, "source") == "sdk",
        is_heard=_is_heard(payload, moment),
        decides=decides if moment == "before_tool" and not _is_foreign(payload) else frozenset(),
    )


def write_reply(event: HookEvent, reply: Reply) -> dict[str, Any]:
    payload: dict[str, Any] = {"systemMessage": reply.notice} if reply.notice else {}
    output = {"additionalContext": reply.context} if reply.context else {}
    if reply.decision in event.decides:
        output |= {"permissionDecision": reply.decision, "permissionDecisionReason": reply.reason}
    if output:
        payload["hookSpecificOutput"] = {"hookEventName": event.name, **output}
    return payload


def session_start(payload: Payload) -> Start:
    """Return how a session began; an unknown way counts as a startup."""
    source = text(payload, "source")
    return cast(Start, source) if source in get_args(Start) else "startup"


def _is_heard(payload: Payload, moment: Moment) -> bool:
    """Return True if the program that reports an event puts the answer before its model.

    Cursor and VS Code run the hooks in Claude Code's settings too, and drop their answers to a
    prompt: https://cursor.com/docs/reference/third-party-hooks. Only VS Code's own agent reports a
    prompt with both its time and a transcript.
    """
    if "cursor_version" in payload:
        return moment in ("session_start", "after_tool")
    return moment in _HEARD and not (_is_foreign(payload) and moment == "prompt")


def _is_foreign(payload: Payload) -> bool:
    """Return True if Cursor or VS Code reports an event to the hooks of another program."""
    return "cursor_version" in payload or {"timestamp", "transcript_path"} <= payload.keys()


def _is_machine(payload: Payload) -> bool:
    """Return True if no person typed a prompt: a program sent it, or a model to its subagent."""
    return text(payload, "source") in _MACHINES or bool(text(payload, "agent_id"))


def _tool(payload: Payload, name: str, is_told: bool) -> ToolUse:
    result = payload.get("tool_response", payload.get("tool_result"))
    return tool_use(
        text(payload, "tool_name"),
        mapping(payload, "tool_input"),
        id_=text(payload, "tool_use_id"),
        server=text(mapping(payload, "mcp_server"), "name"),
        passed=_tool_outcome(payload, name, result, is_told),
        output=payload.get("error") if name == "PostToolUseFailure" else result,
    )


def _tool_outcome(payload: Payload, name: str, result: object, is_told: bool) -> bool | None:
    """Return True if a tool did its work; None before it ran, or if it was stopped or unclear."""
    if name == "PostToolUseFailure":
        return None if payload.get("is_interrupt") is True else False
    if name != "PostToolUse":
        return None
    if isinstance(result, dict) and (
        result.get("interrupted") is True or "backgroundTaskId" in result
    ):
        return None
    passed = has_passed(result)
    return True if passed is None and is_told else passed


def read(payload: Payload) -> HookEvent | None:
    decides = frozenset(get_args(Decision))
    return read_event(payload, "claude-code", is_told=True, decides=decides)


# Its settings. SessionStart takes no http hook; a prompt and a session's end must be recorded with
# the server down.
_COMMANDS = ("SessionStart", "UserPromptSubmit", "SessionEnd")
_POSTS = ("PreToolUse", "PostToolUse", "PostToolUseFailure", "Stop", "PostCompact")
PLUGIN_EVENTS = (*_COMMANDS, *_POSTS)  # a plugin sends all by the command client
# the server is silent after 0.2 s; each use of a tool would wait for a hung server
_POST_TIMEOUT_S = 1


def files(machine: Machine, install: Install) -> tuple[SettingsFile, ...]:
    post: Handler = {
        "type": "http",
        "url": install.url("claude-code"),
        "headers": {"Authorization": f"Bearer {install.key('claude-code')}"},
        "timeout": _POST_TIMEOUT_S,
    }
    wanted = dict.fromkeys(_COMMANDS, command(install)) | dict.fromkeys(_POSTS, post)
    folder = _folder(machine)
    is_moved = machine.environ.get("CLAUDE_CONFIG_DIR")
    servers = (folder if is_moved else machine.home) / ".claude.json"
    server = ServerEntry(("mcpServers",), {"type": "stdio", **install.server()})
    return (
        JsonFile(folder / "settings.json", (HookEntries("claude-code", wanted),)),
        JsonFile(servers, (server,)),
    )


def command(install: Install) -> Handler:
    """Return the hook that runs our client.

    It is a shell's line, because VS Code and Cursor read this file too and know no `args`; on
    Windows a list of words, because there the shell differs.
    """
    python, *args = install.client("claude-code")
    if install.platform == "win32":
        return {"type": "command", "command": python, "args": args, "timeout": TIMEOUT_S}
    return {"type": "command", "command": install.line("claude-code"), "timeout": TIMEOUT_S}


def _folder(machine: Machine) -> Path:
    return machine.folder("CLAUDE_CONFIG_DIR", ".claude")


CLAUDE_CODE = Host(
    "claude-code",
    read,
    write_reply,
    title="Claude Code",
    programs=("claude",),
    folders=lambda machine: (_folder(machine),),
    files=files,
    rules=rules_in(lambda machine: _folder(machine) / "CLAUDE.md"),
    switch=HookSwitch(0, ("disableAllHooks",), True),
    note="sessions that run already take the hooks up when they start anew",
)
