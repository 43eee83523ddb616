"""
The plugin that OpenCode loads: it hands OpenCode's events to our client and adds what comes back.

OpenCode runs plugins inside itself (https://opencode.ai/docs/plugins), so this one never throws,
never waits longer than the client may take, and is silent where anything is wrong. The events have
the names and fields of Claude Code's.
"""

import json

from serve.connect.machine import Install
from serve.connect.texts import text

MARK = "// written by `mnemolog connect opencode`"


def plugin(install: Install) -> str:
    """Return the plugin's text, with the client's command in it."""
    command = json.dumps(list(install.client("opencode")))
    return text("opencode.js").replace("COMMAND_OF_THE_CLIENT", command)
