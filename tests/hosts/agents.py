"""The agents as a user runs them: the real programs, told where the model's API of the test is."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from hosts.desk import Desk, Done
from hosts.mock_models import JSON


class Ask(Protocol):
    """Give a prompt to an agent: all of a run without a person."""

    def __call__(
        self, desk: Desk, prompt: str, *options: str, cwd: Path | None = None, after: str = ""
    ) -> Done: ...


@dataclass(frozen=True)
class Agent:
    """One agent. `set_up` writes the settings its user had before; `shell` is its tool for it.

    `files` are the settings that connect edits, from the home folder; with `no_servers` no MCP
    server is started, ours neither.
    """

    host: str
    set_up: Callable[[Desk], None]
    ask: Ask
    session: Callable[[Done], str]
    shell: Callable[[str], tuple[str, JSON]]
    files: tuple[str, ...]
    no_servers: tuple[str, ...]


def _settle_claude(desk: Desk) -> None:
    own = {"type": "command", "command": "true"}
    settings = {
        "permissions": {"allow": ["Bash", "mcp__mnemolog"]},
        "hooks": {"UserPromptSubmit": [{"hooks": [own]}]},
        "includeCoAuthoredBy": False,
    }
    (desk.folder / ".claude").mkdir()
    (desk.folder / ".claude" / "settings.json").write_text(json.dumps(settings, indent=4))


def meet_claude(desk: Desk) -> None:
    """Answer what Claude Code asks in a terminal when it is started for the first time."""
    known = {
        "hasCompletedOnboarding": True,
        "customApiKeyResponses": {"approved": [claude_environ(desk)["ANTHROPIC_API_KEY"]]},
        "projects": {str(desk.repository()): {"hasTrustDialogAccepted": True}},
    }
    (desk.folder / ".claude.json").write_text(json.dumps(known, indent=2))


def _ask_claude(
    desk: Desk, prompt: str, *options: str, cwd: Path | None = None, after: str = ""
) -> Done:
    again = ("--resume", after) if after else ()
    words = ("claude", "-p", prompt, "--output-format", "stream-json", "--verbose")
    return desk.run(*words, *again, *options, cwd=cwd, **claude_environ(desk))


def claude_environ(desk: Desk) -> dict[str, str]:
    return {
        "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{desk.models.port}",
        "ANTHROPIC_API_KEY": "none",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }


def _settle_codex(desk: Desk) -> None:
    (desk.folder / ".codex").mkdir()
    (desk.folder / ".codex" / "config.toml").write_text(
        f"""# mine
model = "mock-model"
model_provider = "mock"

[model_providers.mock]
name = "mock"  # it runs here
base_url = "http://127.0.0.1:{desk.models.port}/v1"
wire_api = "responses"

[projects."{desk.repository()}"]
trust_level = "trusted"
"""
    )


# what a person says yes to once is said here, as nobody sits before `codex exec`
TRUSTING = "--dangerously-bypass-hook-trust"
UNGUARDED = "--dangerously-bypass-approvals-and-sandbox"


def _ask_codex(
    desk: Desk, prompt: str, *options: str, cwd: Path | None = None, after: str = ""
) -> Done:
    words = ("codex", "exec", *(("resume", after) if after else ()), "--json")
    return desk.run(*words, TRUSTING, UNGUARDED, *options, prompt, cwd=cwd)


CLAUDE_CODE = Agent(
    "claude-code",
    _settle_claude,
    _ask_claude,
    lambda done: done.said[0]["session_id"],
    lambda command: ("Bash", {"command": command, "description": "as asked"}),
    (".claude/settings.json", ".claude.json", ".claude/CLAUDE.md"),
    ("--strict-mcp-config", "--mcp-config", '{"mcpServers": {}}'),
)
CODEX = Agent(
    "codex",
    _settle_codex,
    _ask_codex,
    lambda done: done.said[0]["thread_id"],
    lambda command: ("exec_command", {"cmd": command, "login": False}),
    (".codex/hooks.json", ".codex/config.toml", ".codex/AGENTS.md"),
    ("-c", "mcp_servers.mnemolog.enabled=false"),
)
