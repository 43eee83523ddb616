"""
The agent hosts, a module each: a host's events and answers, and how it is connected.

A host is named by the command or the address it was given, never by the contents of a payload.
"""

from collections.abc import Mapping

from serve.hosts.amp import AMP
from serve.hosts.claude_code import CLAUDE_CODE
from serve.hosts.cline import CLINE
from serve.hosts.codex import CODEX
from serve.hosts.copilot import COPILOT
from serve.hosts.cursor import CURSOR
from serve.hosts.gemini import GEMINI
from serve.hosts.goose import GOOSE
from serve.hosts.host import Host
from serve.hosts.opencode import OPENCODE
from serve.hosts.vscode import VSCODE
from serve.hosts.windsurf import WINDSURF
from serve.hosts.zed import ZED

# in the order in which they are listed to people
HOSTS: Mapping[str, Host] = {
    host.name: host
    for host in (
        *(CLAUDE_CODE, CODEX, GEMINI, VSCODE, CURSOR, COPILOT, OPENCODE),
        *(AMP, CLINE, WINDSURF, GOOSE, ZED),
    )
}
