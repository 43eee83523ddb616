"""
Host: an agent host as its module declares it, adapter and connection together.

The adapter turns a payload into a HookEvent and a Reply into the host's answer. The connection has
the paths of the host's settings and our entries in them; it is data, and serve/connect edits the
files. Hosts of a desktop have neither the user's PATH nor the environment of a shell, so every
written path is absolute and the home is always named.

The server imports this at its start, so these are structs: classes that are quick to create.
"""

import shlex
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from serve.hosts.event import HookEvent, Payload, Reply
from serve.server.callers import hook_key
from store.home.registry import HOST

TIMEOUT_S = 5  # the client answers within its own deadline; this ends one that hangs
VERSION_1 = '{\n  "version": 1\n}\n'  # a new file of hooks, for a host that wants its version

Handler = dict[str, Any]
Place = tuple[str | int, ...]  # of a value in a file: keys and positions from its root


class Machine(msgspec.Struct, frozen=True):
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


class Install(msgspec.Struct, frozen=True):
    """This mnemolog: its interpreter, the folder of its code, its home and the owner's token."""

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

    def line(self, host: str) -> str:
        """Return the client's command as a shell takes it, on Windows as programs split it."""
        words = self.client(host)
        return subprocess.list2cmdline(words) if self.platform == "win32" else shlex.join(words)

    def bridge(self) -> tuple[str, ...]:
        """Return the command of the MCP server; it contains no secret and starts the daemon."""
        return (*self._run("mcp_bridge.py"), *self._where())

    def server(self) -> Handler:
        """Return the MCP server's command as most hosts take it."""
        python, *args = self.bridge()
        return {"command": python, "args": args}

    def url(self, host: str) -> str:
        """Return the URL for a host's events."""
        tenant = f"?tenant={self.tenant}" if self.tenant else ""
        return f"http://{HOST}:{self.port}/v1/hooks/{host}{tenant}"

    def key(self, host: str) -> str:
        return hook_key(self.token, host, self.tenant)

    def _run(self, script: str) -> tuple[str, ...]:
        return (self.python, "-I", "-S", str(self.code / script))

    def _where(self) -> tuple[str, ...]:
        return ("--home", str(self.home), *(("--tenant", self.tenant) if self.tenant else ()))


# Our entries in a file


class HookEntries(msgspec.Struct, frozen=True):
    """Hooks of a JSON file by their event, in groups with matchers if a host has them.

    An event is requested only if the adapter uses it: each costs a process.
    """

    host: str
    wanted: Mapping[str, Handler]
    is_grouped: bool = True


class ServerEntry(msgspec.Struct, frozen=True):
    """Our MCP server, as a member of the object at `place`, or at `newer` if a file has that."""

    place: Place
    value: Handler
    newer: Place = ()


class JsonFile(msgspec.Struct, frozen=True):
    """A JSON file, comments allowed. `start` is the text of a new file."""

    path: Path
    parts: tuple[HookEntries | ServerEntry, ...]
    start: str = "{}\n"


class TomlFile(msgspec.Struct, frozen=True):
    """A TOML file with our MCP server in a table of `table`."""

    path: Path
    table: str
    values: Mapping[str, str | list[str]]


class RulesFile(msgspec.Struct, frozen=True):
    """A Markdown file of the user's, with our rules as a marked block in it."""

    path: Path
    rules: str


class OwnFile(msgspec.Struct, frozen=True):
    """A file that is ours as a whole, known by a mark in it; a program if the host runs it."""

    path: Path
    content: str
    mark: str
    is_program: bool = False


SettingsFile = JsonFile | TomlFile | RulesFile | OwnFile


class HookSwitch(msgspec.Struct, frozen=True):
    """The switch for hooks in a user's own settings: its file, its place and the value for off."""

    file: int
    place: Place
    off: bool


class Host(msgspec.Struct, frozen=True):
    """One agent host.

    `read` returns None for an event we do not use, and raises InvalidInput for a payload that is
    not the host's. `write` gets a context only at events where the host hears us, and returns only
    fields of the host's schema; an empty answer for a notice if the host shows its user none. A
    host that runs no hooks has neither: its MCP server and its rules serve it.

    A host is installed if one of its `programs` or `folders` exists. `files` returns the settings
    with our hooks and MCP server, `rules` the texts that tell the model of them. `note` is advice
    for the user once connected. `keeps_notes` is True if a resumed session still has our notes.
    """

    name: str
    read: Callable[[Payload], HookEvent | None] | None = None
    write: Callable[[HookEvent, Reply], dict[str, Any]] | None = None
    title: str = ""
    programs: tuple[str, ...] = ()
    folders: Callable[[Machine], tuple[Path, ...]] = lambda machine: ()
    files: Callable[[Machine, Install], tuple[SettingsFile, ...]] = lambda machine, install: ()
    rules: Callable[[Machine], tuple[SettingsFile, ...]] = lambda machine: ()
    switch: HookSwitch | None = None
    note: str = ""
    keeps_notes: bool = True

    def is_installed(self, machine: Machine) -> bool:
        """Return True if one of its programs or folders exists."""
        has_folder = any(folder.is_dir() for folder in self.folders(machine))
        return has_folder or any(machine.has(program) for program in self.programs)


def rules_in(file: Callable[[Machine], Path]) -> Callable[[Machine], tuple[SettingsFile, ...]]:
    """Return a function that lists a Markdown file of the user's with our rules."""
    return lambda machine: (RulesFile(file(machine), packaged_text("rules.md")),)


def plugin_file(path: Path, host: str, install: Install) -> OwnFile:
    """Return a plugin that a host runs in itself: how it asks our client, then its own part."""
    mark = f"// written by `mnemolog connect {host}`"
    command = msgspec.json.encode(install.client(host)).decode()
    ask = packaged_text("ask.js").replace("COMMAND_OF_THE_CLIENT", command)
    head = f"{mark}; `mnemolog disconnect {host}` deletes it"
    return OwnFile(path, "\n".join([head, ask, packaged_text(f"{host}.js")]), mark)


def packaged_text(name: str) -> str:
    """Return a text of this folder's `texts`, unchanged."""
    return (Path(__file__).parent / "texts" / name).read_text(encoding="utf-8")
