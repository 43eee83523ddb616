"""
The agent hosts: where each keeps its settings, and what of ours stands in them.

Every place and shape is from the host's own documents, linked beside it. An event is asked for only
where its host's adapter (serve/hooks/hosts) makes something of it: each costs the host a process.
"""

import json
import shlex
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from serve.connect.document import (
    Document,
    Handler,
    Hooks,
    Server,
    json_file,
    own_file,
    rules_file,
    toml_file,
)
from serve.server.callers import hook_key
from store.home.registry import HOST

# Machine: where the user's files lie. Install: how a host reaches this mnemolog.
#
# Hosts of a desktop have neither the user's PATH nor the environment of a shell, so every path
# that
# is written is absolute and the home is always named.


@dataclass(frozen=True, slots=True)
class Machine:
    """The user's home folder, the environment, and the platform as `sys.platform` names it."""

    home: Path
    environ: Mapping[str, str]
    platform: str

    def folder(self, variable: str, default: str) -> Path:
        """Return the folder a variable names, else the default in the home folder."""
        named = self.environ.get(variable)
        return Path(named).expanduser() if named else self.home / default

    def has(self, program: str) -> bool:
        return shutil.which(program, path=self.environ.get("PATH", "")) is not None


@dataclass(frozen=True, slots=True)
class Install:
    """This mnemolog: its interpreter, the folder of its code, its home and what opens it."""

    python: str
    code: Path
    home: Path
    tenant: str | None
    port: int
    token: str
    platform: str

    def client(self, host: str) -> tuple[str, ...]:
        """Return the command that a host runs for each event; it needs no package of ours."""
        return (*self._run("client.py"), host, *self._where())

    def bridge(self) -> tuple[str, ...]:
        """Return the command of the MCP server; it holds no secret and starts the daemon."""
        return (*self._run("mcp_bridge.py"), *self._where())

    def url(self, host: str) -> str:
        """Return where a host posts its events."""
        tenant = f"?tenant={self.tenant}" if self.tenant else ""
        return f"http://{HOST}:{self.port}/v1/hooks/{host}{tenant}"

    def key(self, host: str) -> str:
        return hook_key(self.token, host, self.tenant)

    def line(self, host: str) -> str:
        """Return the client's command as the line a shell takes."""
        return shell_line(self.client(host), self.platform)

    def _run(self, script: str) -> tuple[str, ...]:
        return (self.python, "-I", "-S", str(self.code / script))

    def _where(self) -> tuple[str, ...]:
        return ("--home", str(self.home), *(("--tenant", self.tenant) if self.tenant else ()))


def shell_line(words: tuple[str, ...], platform: str) -> str:
    """Return a command line; on Windows as programs there split it."""
    return subprocess.list2cmdline(words) if platform == "win32" else shlex.join(words)


TIMEOUT_S = 5  # the client answers within its own deadline; this ends one that hangs
HTTP_TIMEOUT_S = (
    1  # the server is silent after 0.2 s; a hung one is waited for at each use of a tool
)
CODEX_END_TIMEOUT_S = 3  # more is cut to this, with a warning at every start
_SKELETON = '{\n  "version": 1\n}\n'


@dataclass(frozen=True, slots=True)
class HostSettings:
    """One agent host. `documents` are the files that connect edits, `rules` those for its rules."""

    name: str
    title: str
    programs: tuple[str, ...]
    folders: Callable[[Machine], tuple[Path, ...]]
    documents: Callable[[Machine, Install], tuple[Document, ...]]
    rules: Callable[[Machine], tuple[Document, ...]]
    note: str = ""

    def is_installed(self, machine: Machine) -> bool:
        """Whether its program or its folder is there."""
        has_folder = any(folder.is_dir() for folder in self.folders(machine))
        return has_folder or any(machine.has(program) for program in self.programs)


# Claude Code. Hooks: https://code.claude.com/docs/en/hooks, servers: ~/.claude.json,
# https://code.claude.com/docs/en/mcp. SessionStart takes no http hook; a prompt and a session's end
# must be heard with the server down.
_CLAUDE_COMMANDS = ("SessionStart", "UserPromptSubmit", "SessionEnd")
_CLAUDE_POSTS = (
    *("PreToolUse", "PostToolUse", "PostToolUseFailure"),
    *("Stop", "PostCompact"),
)


def _claude_folder(machine: Machine) -> Path:
    return machine.folder("CLAUDE_CONFIG_DIR", ".claude")


def _claude_code(machine: Machine, install: Install) -> tuple[Document, ...]:
    name = "claude-code"
    command = claude_command(install)
    post: Handler = {
        "type": "http",
        "url": install.url(name),
        "headers": {"Authorization": f"Bearer {install.key(name)}"},
        "timeout": HTTP_TIMEOUT_S,
    }
    wanted = dict.fromkeys(_CLAUDE_COMMANDS, command) | dict.fromkeys(_CLAUDE_POSTS, post)
    folder = _claude_folder(machine)
    is_moved = machine.environ.get("CLAUDE_CONFIG_DIR")
    servers = (folder if is_moved else machine.home) / ".claude.json"
    return (
        json_file(folder / "settings.json", Hooks(name, wanted)),
        json_file(servers, Server(("mcpServers",), {"type": "stdio", **command_of(install)})),
    )


def claude_command(install: Install) -> Handler:
    """Return the hook that runs our client.

    As a shell's line, because VS Code and Cursor read this file too and know no `args`; on Windows
    apart, because there the shell differs.
    """
    python, *args = install.client("claude-code")
    if install.platform == "win32":
        return {"type": "command", "command": python, "args": args, "timeout": TIMEOUT_S}
    return {"type": "command", "command": install.line("claude-code"), "timeout": TIMEOUT_S}


def claude_plugin_events() -> tuple[str, ...]:
    """Return the events that a plugin hears, all by the command client."""
    return (*_CLAUDE_COMMANDS, *_CLAUDE_POSTS)


# Codex. Hooks: https://developers.openai.com/codex/hooks; only commands, as one http hook makes it
# refuse the whole file. Servers: https://developers.openai.com/codex/mcp.
_CODEX_EVENTS = (
    *("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse"),
    *("Stop", "PostCompact"),
)


def codex_folder(machine: Machine) -> Path:
    return machine.folder("CODEX_HOME", ".codex")


def _codex(machine: Machine, install: Install) -> tuple[Document, ...]:
    handler: Handler = {"type": "command", "command": install.line("codex"), "timeout": TIMEOUT_S}
    ended = handler | {"timeout": CODEX_END_TIMEOUT_S}
    wanted = dict.fromkeys(_CODEX_EVENTS, handler) | {"SessionEnd": ended}
    folder = codex_folder(machine)
    python, *args = install.bridge()
    return (
        json_file(folder / "hooks.json", Hooks("codex", wanted)),
        toml_file(folder / "config.toml", "mcp_servers", {"command": python, "args": args}),
    )


# Gemini CLI: https://geminicli.com/docs/hooks/reference, timeouts in milliseconds;
# https://geminicli.com/docs/tools/mcp-server.
_GEMINI_EVENTS = ("SessionStart", "BeforeAgent", "AfterTool", "AfterAgent", "SessionEnd")


def _gemini_folder(machine: Machine) -> Path:
    return machine.folder("GEMINI_CLI_HOME", "") / ".gemini"


def _gemini(machine: Machine, install: Install) -> tuple[Document, ...]:
    handler: Handler = {
        "type": "command",
        "name": "mnemolog",
        "command": install.line("gemini"),
        "timeout": TIMEOUT_S * 1000,
    }
    return (
        json_file(
            _gemini_folder(machine) / "settings.json",
            Hooks("gemini", dict.fromkeys(_GEMINI_EVENTS, handler)),
            Server(("mcpServers",), command_of(install)),
        ),
    )


# VS Code. Hooks: https://code.visualstudio.com/docs/agent-customization/hooks, where matchers are
# not applied and handlers stand without groups; servers: the user profile's mcp.json,
# https://code.visualstudio.com/docs/agents/reference/mcp-configuration.
_VSCODE_EVENTS = ("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop")
_VSCODE_FLAVOURS = ("Code", "Code - Insiders", "VSCodium")


def _vscode_profiles(machine: Machine) -> tuple[Path, ...]:
    """Return the user folders of the flavours that are there; of none, that of VS Code."""
    if machine.platform == "win32":
        base = machine.folder("APPDATA", "AppData/Roaming")
    elif machine.platform == "darwin":
        base = machine.home / "Library" / "Application Support"
    else:
        base = machine.folder("XDG_CONFIG_HOME", ".config")
    there = [flavour for flavour in _VSCODE_FLAVOURS if (base / flavour / "User").is_dir()]
    return tuple(base / flavour / "User" for flavour in there or _VSCODE_FLAVOURS[:1])


def _vscode(machine: Machine, install: Install) -> tuple[Document, ...]:
    handler: Handler = {"type": "command", "command": install.line("vscode"), "timeout": TIMEOUT_S}
    hooks = Hooks("vscode", dict.fromkeys(_VSCODE_EVENTS, handler), is_grouped=False)
    server = Server(("servers",), {"type": "stdio", **command_of(install)})
    return (
        json_file(_copilot_folder(machine) / "hooks/mnemolog-vscode.json", hooks, start=_SKELETON),
        *(json_file(folder / "mcp.json", server) for folder in _vscode_profiles(machine)),
    )


# Copilot CLI: https://docs.github.com/en/copilot/reference/hooks-reference. An event named as
# VS Code names it is sent with its name in it, one named as Copilot names it without.
_COPILOT_EVENTS = (
    *("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse"),
    *("PostToolUseFailure", "Stop", "SessionEnd"),
)


def _copilot_folder(machine: Machine) -> Path:
    return machine.folder("COPILOT_HOME", ".copilot")


def _copilot(machine: Machine, install: Install) -> tuple[Document, ...]:
    handler: Handler = {
        "type": "command",
        "command": install.line("copilot"),
        "timeoutSec": TIMEOUT_S,
    }
    hooks = Hooks("copilot", dict.fromkeys(_COPILOT_EVENTS, handler), is_grouped=False)
    server = Server(("mcpServers",), {"type": "local", **command_of(install), "tools": ["*"]})
    folder = _copilot_folder(machine)
    return (
        json_file(folder / "hooks/mnemolog.json", hooks, start=_SKELETON),
        json_file(folder / "mcp-config.json", server),
    )


# Cursor: https://cursor.com/docs/agent/hooks, https://cursor.com/docs/context/mcp. Its rules for
# all projects lie in the app, not in a file.
_CURSOR_EVENTS = (
    *("sessionStart", "beforeSubmitPrompt", "postToolUse"),
    *("postToolUseFailure", "stop", "sessionEnd"),
)


def _cursor(machine: Machine, install: Install) -> tuple[Document, ...]:
    handler: Handler = {"command": install.line("cursor"), "timeout": TIMEOUT_S}
    hooks = Hooks("cursor", dict.fromkeys(_CURSOR_EVENTS, handler), is_grouped=False)
    server = Server(("mcpServers",), {"type": "stdio", **command_of(install)})
    folder = machine.home / ".cursor"
    return (
        json_file(folder / "hooks.json", hooks, start=_SKELETON),
        json_file(folder / "mcp.json", server),
    )


# OpenCode: https://opencode.ai/docs/plugins, https://opencode.ai/docs/mcp-servers; its second
# version has servers in `mcp.servers`.
def _opencode_folder(machine: Machine) -> Path:
    return machine.folder("XDG_CONFIG_HOME", ".config") / "opencode"


def _opencode(machine: Machine, install: Install) -> tuple[Document, ...]:
    folder = _opencode_folder(machine)
    settings = folder / "opencode.jsonc"
    if not settings.is_file():
        settings = folder / "opencode.json"
    value: Handler = {"type": "local", "command": list(install.bridge()), "enabled": True}
    start = '{\n  "$schema": "https://opencode.ai/config.json"\n}\n'
    return (
        own_file(folder / "plugins/mnemolog.js", opencode_plugin(install), OPENCODE_MARK),
        json_file(settings, Server(("mcp",), value, newer=("mcp", "servers")), start=start),
    )


def command_of(install: Install) -> Handler:
    """Return the MCP server's command as most hosts take it."""
    python, *args = install.bridge()
    return {"command": python, "args": args}


def _rules_in(file: Callable[[Machine], Path]) -> Callable[[Machine], tuple[Document, ...]]:
    return lambda machine: (rules_file(file(machine), packaged_text("rules.md")),)


def _vscode_rules(machine: Machine) -> tuple[Document, ...]:
    # only a header makes them count for all files:
    # https://code.visualstudio.com/docs/agent-customization/custom-instructions
    file = _copilot_folder(machine) / "instructions" / "mnemolog.instructions.md"
    header = '---\nname: mnemolog\napplyTo: "**"\n---\n\n'
    return (own_file(file, header + packaged_text("rules.md"), "name: mnemolog\n"),)


HOST_SETTINGS: Mapping[str, HostSettings] = {
    host.name: host
    for host in (
        HostSettings(
            "claude-code",
            "Claude Code",
            ("claude",),
            lambda machine: (_claude_folder(machine),),
            _claude_code,
            _rules_in(lambda machine: _claude_folder(machine) / "CLAUDE.md"),
            "sessions that run already take the hooks up when they start anew",
        ),
        HostSettings(
            "codex",
            "Codex",
            ("codex",),
            lambda machine: (codex_folder(machine),),
            _codex,
            _rules_in(lambda machine: codex_folder(machine) / "AGENTS.md"),
            "Codex skips hooks without a word until you trust them: start `codex`, where it asks "
            "(or type /hooks)",
        ),
        HostSettings(
            "gemini",
            "Gemini CLI",
            ("gemini",),
            lambda machine: (_gemini_folder(machine),),
            _gemini,
            _rules_in(lambda machine: _gemini_folder(machine) / "GEMINI.md"),
        ),
        HostSettings(
            "vscode",
            "VS Code",
            ("code", "code-insiders", "codium"),
            _vscode_profiles,
            _vscode,
            _vscode_rules,
            "VS Code asks whether to trust the MCP server when it starts it first",
        ),
        HostSettings(
            "cursor",
            "Cursor",
            ("cursor", "cursor-agent"),
            lambda machine: (machine.home / ".cursor",),
            _cursor,
            lambda machine: (),
            "Cursor drops what a hook says about a prompt: recall comes by the MCP server there",
        ),
        HostSettings(
            "copilot",
            "Copilot CLI",
            ("copilot",),
            lambda machine: (_copilot_folder(machine),),
            _copilot,
            _rules_in(lambda machine: _copilot_folder(machine) / "copilot-instructions.md"),
        ),
        HostSettings(
            "opencode",
            "OpenCode",
            ("opencode",),
            lambda machine: (_opencode_folder(machine),),
            _opencode,
            _rules_in(lambda machine: _opencode_folder(machine) / "AGENTS.md"),
        ),
    )
}


# OpenCode runs plugins inside itself (https://opencode.ai/docs/plugins), so ours never throws,
# never waits longer than the client may take, and is silent where anything is wrong.

OPENCODE_MARK = "// written by `mnemolog connect opencode`"


def opencode_plugin(install: Install) -> str:
    """Return the plugin's text, with the client's command in it."""
    command = json.dumps(list(install.client("opencode")))
    return packaged_text("opencode.js").replace("COMMAND_OF_THE_CLIENT", command)


# Texts that are written as they stand


def packaged_text(name: str) -> str:
    """Return a text of this folder."""
    return (Path(__file__).parent / "texts" / name).read_text(encoding="utf-8")
