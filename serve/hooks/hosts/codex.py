"""
Codex CLI: its hook events and their output, which knows no field beyond its schema,
https://github.com/openai/codex/tree/main/codex-rs/hooks/schema/generated.
"""

from typing import Any

from serve.hooks.event import HookEvent, Moment, Reply
from serve.hooks.hosts import claude_form
from serve.hooks.hosts.host import Host, Payload

_CARRIES: frozenset[Moment] = frozenset({"session_start", "prompt", "before_tool", "after_tool"})


def read(payload: Payload) -> HookEvent | None:
    return claude_form.read(payload, "codex")


def write(event: HookEvent, reply: Reply) -> dict[str, Any] | None:
    return claude_form.context(event, reply) if event.moment in _CARRIES else None


CODEX = Host("codex", read, write)
