"""
Machine: where the user's files lie. Install: how a host reaches this mnemolog.

Hosts of a desktop have neither the user's PATH nor the environment of a shell, so every path that
is written is absolute and the home is always named.
"""

import shlex
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from serve.server.callers import hook_key
from store.home.registry import HOST


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
