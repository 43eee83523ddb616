"""
OpenCode: what the plugin that `connect` installs tells of OpenCode's own events, and takes back.

The plugin (serve/connect/opencode.py) tells them in Claude Code's form and adds what we say to the
next request to the model, so everything before the end of a turn is heard.
https://opencode.ai/docs/plugins
"""

from typing import Any

from serve.hooks.event import HookEvent, Reply
from serve.hooks.hosts import claude_form
from serve.hooks.hosts.host import Host, Payload


def read(payload: Payload) -> HookEvent | None:
    return claude_form.read(payload, "opencode", is_told=False)


def write(event: HookEvent, reply: Reply) -> dict[str, Any]:
    return claude_form.write(event, Reply(reply.context))


OPENCODE = Host("opencode", read, write)
