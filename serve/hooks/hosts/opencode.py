"""
OpenCode: what the plugin that `connect` installs tells of OpenCode's own events, and takes back.

The plugin (serve/connect/texts) tells them in Claude Code's form and adds what we say to the
next request to the model, so everything before the end of a turn is heard.
https://opencode.ai/docs/plugins
"""

from typing import Any

from serve.hooks.hosts import claude_code
from serve.hooks.hosts.event import HookEvent, Host, Payload, Reply


def read(payload: Payload) -> HookEvent | None:
    return claude_code.read_event(payload, "opencode", is_told=False)


def write(event: HookEvent, reply: Reply) -> dict[str, Any]:
    return claude_code.write_reply(event, Reply(reply.context))


OPENCODE = Host("opencode", read, write)
