"""The agent hosts we speak with, by the name in their route."""

from collections.abc import Mapping

from serve.hooks.hosts.claude_code import CLAUDE_CODE
from serve.hooks.hosts.codex import CODEX
from serve.hooks.hosts.copilot import COPILOT, VSCODE
from serve.hooks.hosts.cursor import CURSOR
from serve.hooks.hosts.event import Host
from serve.hooks.hosts.gemini import GEMINI
from serve.hooks.hosts.opencode import OPENCODE

HOSTS: Mapping[str, Host] = {
    host.name: host for host in (CLAUDE_CODE, CODEX, COPILOT, CURSOR, GEMINI, OPENCODE, VSCODE)
}
