"""
The form that Claude Code gave its events, and that Codex and VS Code took over.
"""

from typing import Any, cast, get_args

from serve.hooks.event import HookEvent, Moment, Reply, Start, ToolUse
from serve.hooks.hosts.host import Payload
from serve.hooks.hosts.payload import LONGEST_ID, folder, mapping, prompt, required, said, text
from serve.hooks.hosts.tools import has_passed, tool_use

MOMENTS: dict[str, Moment] = {
    "SessionStart": "session_start",
    "UserPromptSubmit": "prompt",
    "PreToolUse": "before_tool",
    "PostToolUse": "after_tool",
    "PostToolUseFailure": "after_tool",
    "Stop": "stop",
    "PostCompact": "compacted",
    "SessionEnd": "session_end",
}
# Prompts that nobody typed: a background task ended, a timer went off.
_MACHINES = frozenset({"system", "loop_wakeup", "schedule_wakeup", "poll_event"})
_LONG = 1 << 20


def read(payload: Payload, host: str) -> HookEvent | None:
    name = required(payload, "hook_event_name")
    session = required(payload, "session_id")
    moment = MOMENTS.get(name)
    asked = prompt(text(payload, "prompt", most=_LONG))
    if moment is None or (moment == "prompt" and (not asked or _is_machine(payload))):
        return None
    source = payload.get("source")
    return HookEvent(
        host=host,
        moment=moment,
        session=session,
        name=name,
        cwd=folder(payload.get("cwd")),
        prompt=asked,
        start=cast(Start, source) if source in get_args(Start) else "startup",
        tool=_tool(payload, name) if moment in ("before_tool", "after_tool") else None,
        said=said(text(payload, "last_assistant_message", "compact_summary", most=_LONG)),
        turn=text(payload, "prompt_id", "turn_id", most=LONGEST_ID) or None,
        is_continued=payload.get("stop_hook_active") is True,
        is_subagent=bool(text(payload, "agent_id")),
    )


def context(event: HookEvent, reply: Reply) -> dict[str, Any]:
    """Return the output that puts a reply before the model."""
    return {"hookSpecificOutput": {"hookEventName": event.name, "additionalContext": reply.context}}


def _is_machine(payload: Payload) -> bool:
    source = payload.get("source")
    return isinstance(source, str) and source in _MACHINES


def _tool(payload: Payload, name: str) -> ToolUse:
    came = payload.get("error" if name == "PostToolUseFailure" else "tool_response")
    return tool_use(
        text(payload, "tool_name"),
        mapping(payload, "tool_input"),
        id_=text(payload, "tool_use_id"),
        server=text(mapping(payload, "mcp_server"), "name"),
        passed=_passed(payload, name),
        output=came,
    )


def _passed(payload: Payload, name: str) -> bool | None:
    """Return whether a tool did its work; None before it ran, and for one that was stopped."""
    came = payload.get("tool_response")
    if name == "PostToolUseFailure":
        return None if payload.get("is_interrupt") is True else False
    if name != "PostToolUse":
        return None
    if isinstance(came, dict) and (came.get("interrupted") is True or "backgroundTaskId" in came):
        return None
    told = has_passed(came)
    return True if told is None else told
