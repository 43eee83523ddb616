"""
Claude Code: its hook events and their output, https://code.claude.com/docs/en/hooks.
"""

from typing import get_args

from serve.hooks.event import Decision, HookEvent
from serve.hooks.hosts import claude_form
from serve.hooks.hosts.host import Host, Payload


def read(payload: Payload) -> HookEvent | None:
    decides = frozenset(get_args(Decision))
    return claude_form.read(payload, "claude-code", is_told=True, decides=decides)


CLAUDE_CODE = Host("claude-code", read, claude_form.write)
