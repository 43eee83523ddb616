"""The agents as a user runs them: the real programs, configured with the test's model API."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from hosts.desk import Desk, Done
from hosts.mock_models import JSON


class Ask(Protocol):
    """Give a prompt to an agent: a whole run without a person.

    `after` is the session to resume; without `servers` no MCP server is started.
    """

    def __call__(
        self,
        desk: Desk,
        prompt: str,
        *options: str,
        cwd: Path | None = None,
        after: str = "",
        servers: bool = True,
    ) -> Done: ...


@dataclass(frozen=True)
class Agent:
    """An agent. `set_up` writes its user's earlier settings; `shell` makes a call of its shell
    tool, and `tool` is its name pattern for our tools.

    `files` are the settings that connect edits, relative to the home folder. `tells`: its hooks
    distinguish failed from passed commands. `enforces`: the decisions about a tool that it obeys.
    """

    host: str
    set_up: Callable[[Desk], None]
    ask: Ask
    session: Callable[[Done], str]
    shell: Callable[[str], tuple[str, JSON]]
    tool: str
    files: tuple[str, ...]
    tells: bool = True
    enforces: tuple[str, ...] = ()

    def recall(self, query: str) -> tuple[str, JSON]:
        return self.tool.format("recall"), {"query": query}


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
    """Answer Claude Code's questions at its first start in a terminal."""
    environ = {
        "hasCompletedOnboarding": True,
        "customApiKeyResponses": {"approved": [claude_environ(desk)["ANTHROPIC_API_KEY"]]},
        "projects": {str(desk.repository()): {"hasTrustDialogAccepted": True}},
    }
    (desk.folder / ".claude.json").write_text(json.dumps(environ, indent=2))


def _ask_claude(
    desk: Desk,
    prompt: str,
    *options: str,
    cwd: Path | None = None,
    after: str = "",
    servers: bool = True,
) -> Done:
    again = ("--resume", after) if after else ()
    none = () if servers else ("--strict-mcp-config", "--mcp-config", '{"mcpServers": {}}')
    words = ("claude", "-p", prompt, "--output-format", "stream-json", "--verbose")
    return desk.run(*words, *again, *none, *options, cwd=cwd, **claude_environ(desk))


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


# confirmations of a person, given here as `codex exec` runs without one
TRUSTING = "--dangerously-bypass-hook-trust"
UNGUARDED = "--dangerously-bypass-approvals-and-sandbox"


def _ask_codex(
    desk: Desk,
    prompt: str,
    *options: str,
    cwd: Path | None = None,
    after: str = "",
    servers: bool = True,
) -> Done:
    words = ("codex", "exec", *(("resume", after) if after else ()), "--json")
    none = () if servers else ("-c", "mcp_servers.mnemolog.enabled=false")
    return desk.run(*words, TRUSTING, UNGUARDED, *none, *options, prompt, cwd=cwd)


def _settle_gemini(desk: Desk) -> None:
    own = {"type": "command", "command": "echo '{}'", "name": "mine"}
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "hooks": {"BeforeAgent": [{"hooks": [own]}]},
    }
    (desk.folder / ".gemini").mkdir()
    (desk.folder / ".gemini" / "settings.json").write_text(json.dumps(settings, indent=4))


def _ask_gemini(
    desk: Desk,
    prompt: str,
    *options: str,
    cwd: Path | None = None,
    after: str = "",
    servers: bool = True,
) -> Done:
    again = ("--resume", after) if after else ()
    none = () if servers else ("--allowed-mcp-server-names", "none")
    # naming the model avoids a request that chooses one
    words = ("gemini", "-p", prompt, "--output-format", "stream-json", "-m", "gemini-2.5-flash")
    return desk.run(*words, "--yolo", *again, *none, *options, cwd=cwd, **gemini_environ(desk))


def gemini_environ(desk: Desk) -> dict[str, str]:
    return {
        "GOOGLE_GEMINI_BASE_URL": f"http://127.0.0.1:{desk.models.port}",
        "GEMINI_API_KEY": "none",
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
    }


def _settle_opencode(desk: Desk) -> None:
    server = {"baseURL": f"http://127.0.0.1:{desk.models.port}/v1", "apiKey": "none"}
    folder = desk.folder / ".config" / "opencode"
    folder.mkdir(parents=True)
    (folder / "opencode.jsonc").write_text(
        f"""{{
  "$schema": "https://opencode.ai/config.json",
  // mine
  "model": "anthropic/claude-sonnet-4-5",
  "provider": {{"anthropic": {{"options": {json.dumps(server)}}}}},
}}
"""
    )
    # it waits for a package of its plugins, and looks for it here first
    (folder / "node_modules").mkdir()
    lock = {"packages": {"": {"dependencies": {"@opencode-ai/plugin": "1.18.33"}}}}
    (folder / "package-lock.json").write_text(json.dumps(lock))
    # the first start makes its database, which concurrent starts cannot
    desk.run("opencode", "session", "list", **_OFFLINE)


_OFFLINE = {"OPENCODE_DISABLE_MODELS_FETCH": "true"}


def _ask_opencode(
    desk: Desk,
    prompt: str,
    *options: str,
    cwd: Path | None = None,
    after: str = "",
    servers: bool = True,
) -> Done:
    again = ("--session", after) if after else ()
    none = (
        {} if servers else {"OPENCODE_CONFIG_CONTENT": '{"mcp": {"mnemolog": {"enabled": false}}}'}
    )
    words = ("opencode", "run", "--format", "json", *again, *options, prompt)
    return desk.run(*words, cwd=cwd, **_OFFLINE, **none)


def _settle_copilot(desk: Desk) -> None:
    (desk.folder / ".copilot").mkdir()
    (desk.folder / ".copilot" / "mcp-config.json").write_text('{\n  "mcpServers": {}\n}\n')


def _ask_copilot(
    desk: Desk,
    prompt: str,
    *options: str,
    cwd: Path | None = None,
    after: str = "",
    servers: bool = True,
) -> Done:
    """Give a prompt to Copilot; it asks the named provider, and no service of GitHub's."""
    provider = {
        "COPILOT_PROVIDER_TYPE": "anthropic",
        "COPILOT_PROVIDER_BASE_URL": f"http://127.0.0.1:{desk.models.port}",
        "COPILOT_PROVIDER_API_KEY": "none",
        "COPILOT_MODEL": "claude-sonnet-4.5",
        "COPILOT_OFFLINE": "true",
    }
    again = (f"--resume={after}",) if after else ()
    none = () if servers else ("--disable-mcp-server", "mnemolog")
    words = ("copilot", "-p", prompt, "--allow-all-tools", "--output-format", "json")
    return desk.run(*words, *again, *none, *options, cwd=cwd, **provider)


CLAUDE_CODE = Agent(
    "claude-code",
    _settle_claude,
    _ask_claude,
    lambda run: run.said[0]["session_id"],
    lambda command: ("Bash", {"command": command, "description": "as asked"}),
    "mcp__mnemolog__{}",
    (".claude/settings.json", ".claude.json", ".claude/CLAUDE.md"),
    enforces=("ask", "deny"),
)
CODEX = Agent(
    "codex",
    _settle_codex,
    _ask_codex,
    lambda run: run.said[0]["thread_id"],
    lambda command: ("exec_command", {"cmd": command, "login": False}),
    "mcp__mnemolog__{}",
    (".codex/hooks.json", ".codex/config.toml", ".codex/AGENTS.md"),
    tells=False,
    enforces=("deny",),
)
GEMINI = Agent(
    "gemini",
    _settle_gemini,
    _ask_gemini,
    lambda run: run.said[0]["session_id"],
    lambda command: ("run_shell_command", {"command": command, "description": "as asked"}),
    "mcp_mnemolog_{}",
    (".gemini/settings.json", ".gemini/GEMINI.md"),
    enforces=("ask", "deny"),
)
OPENCODE = Agent(
    "opencode",
    _settle_opencode,
    _ask_opencode,
    lambda run: run.said[0]["sessionID"],
    lambda command: ("bash", {"command": command, "description": "as asked"}),
    "mnemolog_{}",
    (
        ".config/opencode/opencode.jsonc",
        ".config/opencode/plugins/mnemolog.js",
        ".config/opencode/AGENTS.md",
    ),
)
COPILOT = Agent(
    "copilot",
    _settle_copilot,
    _ask_copilot,
    lambda run: run.said[-1]["sessionId"],
    lambda command: ("bash", {"command": command, "description": "as asked"}),
    "mnemolog-{}",
    (
        ".copilot/hooks/mnemolog.json",
        ".copilot/mcp-config.json",
        ".copilot/copilot-instructions.md",
    ),
)
AGENTS = (CLAUDE_CODE, CODEX, GEMINI, OPENCODE, COPILOT)
