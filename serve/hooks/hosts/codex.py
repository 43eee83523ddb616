"""
Codex CLI: its hook events and their output, which knows no field beyond its schema,
https://github.com/openai/codex/tree/main/codex-rs/hooks/schema/generated.
"""

from serve.hooks.event import HookEvent
from serve.hooks.hosts import claude_form
from serve.hooks.hosts.host import Host, Payload


def read(payload: Payload) -> HookEvent | None:
    # what a command wrote comes without its exit code; `ask` is in the schema and refused
    return claude_form.read(payload, "codex", is_told=False, decides=frozenset({"deny"}))


CODEX = Host("codex", read, claude_form.write)
