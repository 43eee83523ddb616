"""
Claude Code: its hook events and their output, https://code.claude.com/docs/en/hooks.
"""

from typing import Any

from serve.hooks.event import HookEvent, Moment, Reply
from serve.hooks.hosts import claude_form
from serve.hooks.hosts.host import Host, Payload

# What Stop is told keeps the agent going, and at the others nothing reaches the model.
_CARRIES: frozenset[Moment] = frozenset({"session_start", "prompt", "before_tool", "after_tool"})


def read(payload: Payload) -> HookEvent | None:
    return claude_form.read(payload, "claude-code")


def write(event: HookEvent, reply: Reply) -> dict[str, Any] | None:
    return claude_form.context(event, reply) if event.moment in _CARRIES else None


CLAUDE_CODE = Host("claude-code", read, write)
