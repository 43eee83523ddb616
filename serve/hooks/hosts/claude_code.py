"""
Claude Code: its hook events and their output, https://code.claude.com/docs/en/hooks.
"""

from typing import Any

from serve.hooks.event import MAX_PROMPT, MAX_SAID, HookEvent, Moment, Reply
from serve.hooks.hosts.host import Host, Payload
from serve.hooks.hosts.payload import required, text

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


def read(payload: Payload) -> HookEvent | None:
    moment = _MOMENTS.get(required(payload, "hook_event_name"))
    if moment is None:
        return None
    return HookEvent(
        host="claude-code",
        moment=moment,
        session=required(payload, "session_id"),
        cwd=text(payload, "cwd") or None,
        prompt=text(payload, "prompt", most=MAX_PROMPT),
        said=text(payload, "last_assistant_message", "compact_summary", most=MAX_SAID),
        turn=text(payload, "prompt_id", most=200) or None,
    )


def write(event: HookEvent, reply: Reply) -> dict[str, Any] | None:
    names = {"session_start": "SessionStart", "prompt": "UserPromptSubmit"}
    name = names.get(event.moment)
    if name is None:
        return None
    return {"hookSpecificOutput": {"hookEventName": name, "additionalContext": reply.context}}


CLAUDE_CODE = Host("claude-code", read, write)
