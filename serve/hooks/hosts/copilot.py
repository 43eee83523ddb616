"""
Copilot CLI and VS Code: hooks named as VS Code names them, told in Claude Code's form.
https://docs.github.com/en/copilot/reference/hooks-reference,
https://code.visualstudio.com/docs/agents/reference/hooks-reference.

Each also runs the other's hook files, so one function reads for both and the answer is put in both
their places. Copilot CLI 1.0.102 was seen to give the model what UserPromptSubmit says, once.
"""

from typing import Any

from serve.hooks.hosts import claude_code
from serve.hooks.hosts.event import HookEvent, Host, Payload, Reply


def read(payload: Payload, host: str = "copilot") -> HookEvent | None:
    return claude_code.read_event(payload, host, is_told=False)


def read_vscode(payload: Payload) -> HookEvent | None:
    return read(payload, "vscode")


def write(event: HookEvent, reply: Reply) -> dict[str, Any]:
    if not reply.context:
        return {}
    heard = Reply(reply.context)
    return {"additionalContext": reply.context, **claude_code.write_reply(event, heard)}


COPILOT = Host("copilot", read, write)
VSCODE = Host("vscode", read_vscode, write)
