"""
Codex CLI: its hook events and their output, which knows no field beyond its schema,
https://github.com/openai/codex/tree/main/codex-rs/hooks/schema/generated.
"""

from serve.hooks.hosts import claude_code
from serve.hooks.hosts.event import HookEvent, Host, Payload


def read(payload: Payload) -> HookEvent | None:
    # what a command wrote comes without its exit code; `ask` is in the schema and refused
    return claude_code.read_event(payload, "codex", is_told=False, decides=frozenset({"deny"}))


CODEX = Host("codex", read, claude_code.write_reply)
