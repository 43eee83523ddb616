"""
Copilot CLI and VS Code: hooks named as VS Code names them, told in Claude Code's form.
https://docs.github.com/en/copilot/reference/hooks-reference,
https://code.visualstudio.com/docs/agents/reference/hooks-reference.

Each also runs the other's hook files, so one function reads for both and the answer is put in both
their places. Copilot CLI 1.0.102 was seen to give the model what UserPromptSubmit says, once.
"""

from typing import Any

from serve.hooks.event import HookEvent, Reply
from serve.hooks.hosts import claude_form
from serve.hooks.hosts.host import Host, Payload


def read(payload: Payload, host: str = "copilot") -> HookEvent | None:
    return claude_form.read(payload, host, is_told=False)


def read_vscode(payload: Payload) -> HookEvent | None:
    return read(payload, "vscode")


def write(event: HookEvent, reply: Reply) -> dict[str, Any]:
    if not reply.context:
        return {}
    heard = Reply(reply.context)
    return {"additionalContext": reply.context, **claude_form.write(event, heard)}


COPILOT = Host("copilot", read, write)
VSCODE = Host("vscode", read_vscode, write)
