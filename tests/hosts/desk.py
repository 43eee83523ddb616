"""
A user's machine for the tests: a home folder of its own, repositories in it, a memory, the agents.

Nothing of the developer's own machine is visible: the environment starts empty, the model's API is
ours on loopback, and all other requests go to a proxy that does not exist.
"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import DEVNULL

import background
from hosts.mock_models import JSON, Models, parts

from serve.client import home_of
from store.home import tenant
from store.home.config import Settings
from store.home.registry import live_server
from store.log.event_log import EventLog
from store.log.events import Event
from store.text.frame import CLOSING, OPENING

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / ".hosts" / "node_modules" / ".bin"
LONGEST_S = 60  # of one run of a program
FACT = "The invoices of the shop are archived in the bucket acme-ledger-7 after ninety days"
ASKED = "in which bucket are the invoices archived?"
_NOWHERE = "http://127.0.0.1:9"
_BLOCK = re.compile(re.escape(OPENING) + ".*?" + re.escape(CLOSING), re.DOTALL)


@dataclass(frozen=True)
class Done:
    """The result of a program's run."""

    code: int
    out: str
    err: str

    @property
    def said(self) -> list[JSON]:
        """The JSON lines of the output."""
        return [json.loads(line) for line in self.out.splitlines() if line.startswith("{")]


@dataclass
class Desk:
    """A home folder, and the model that the agents there talk to."""

    folder: Path
    models: Models
    variables: dict[str, str] = field(default_factory=dict)  # more, set by the user

    @classmethod
    def at(cls, folder: Path, models: Models) -> "Desk":
        desk = cls(folder, models)
        desk.memory.mkdir(parents=True, mode=0o700)
        desk.choose(port=_free_port())  # the usual one may be in use here
        return desk

    @property
    def memory(self) -> Path:
        """The default home of our memory."""
        return Path(home_of(self.environ()).replace("~", str(self.folder), 1))

    def choose(self, **settings: int | str) -> None:
        """Append to our settings, as a user would."""
        with open(self.memory / "config.toml", "a", opener=_private) as file:
            file.writelines(f"{name} = {json.dumps(value)}\n" for name, value in settings.items())

    def repository(self, name: str = "shop") -> Path:
        """Return a repository, made if it is not there."""
        folder = self.folder / name
        if not folder.exists():
            run(["git", "init", "-q", str(folder)], self.environ(), self.folder)
        return folder

    def program(self, name: str, does: str) -> None:
        """Put a program of ours first on the PATH."""
        file = self.folder / "bin" / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"#!/bin/sh\n{does}\n")
        file.chmod(0o755)

    def environ(self, **more: str) -> dict[str, str]:
        return {
            "HOME": str(self.folder),
            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
            "LANG": "C.UTF-8",
            "HTTP_PROXY": _NOWHERE,
            "HTTPS_PROXY": _NOWHERE,
            "NO_PROXY": "127.0.0.1,localhost",
            **self.variables,
            **more,
        }

    def mnemolog(self, *words: str, cwd: Path | None = None, stdin: int = DEVNULL) -> str:
        """Run a command of ours, which must succeed; return its output."""
        command = [sys.executable, "-P", "-m", "serve.cli", *words]
        environ = self.environ(PYTHONPATH=str(ROOT))
        completed = run(command, environ, cwd or self.repository(), stdin)
        assert completed.code == 0, completed.err
        return completed.out

    def record(self, text: str, *words: str, cwd: Path | None = None) -> str:
        """Record a memory of a repository, as a person at a terminal; return its id."""
        ours, theirs = os.openpty()
        with open(ours, "rb"), open(theirs, "rb") as terminal:
            command = ("record", text, *words, "--json")
            return json.loads(self.mnemolog(*command, cwd=cwd, stdin=terminal.fileno()))["id"]

    def fill(self, count: int = 60) -> None:
        """Record memories about other things, so that a test's own words stay rare."""
        notes = [{"text": f"Meter m{n:03} of the depot reads {n * 7919}"} for n in range(count)]
        file = self.folder / "others.jsonl"
        file.write_text("".join(json.dumps(note) + "\n" for note in notes))
        self.mnemolog("import", "jsonl", str(file))

    def run(self, *words: str, cwd: Path | None = None, **environ: str) -> Done:
        """Run an agent to its end."""
        program = str(PROGRAMS / words[0])
        return run([program, *words[1:]], self.environ(**environ), cwd or self.repository())

    def events(self, session: str, kind: type) -> list[Event]:
        """Return a session's events of one kind from the log; the server ends for it."""
        self.mnemolog("stop")  # it writes its buffered events then
        with EventLog(tenant.tenant(self.memory).log) as log:
            return [event for event in log.session_events(session) if isinstance(event.body, kind)]

    @property
    def server(self) -> object:
        """The server that runs here, or None."""
        return live_server(Settings(self.memory))

    def end(self) -> None:
        """End the server that the agents started, and another that a last hook may start."""
        background.end(self.memory)
        time.sleep(0.7)
        background.end(self.memory)


def run(command: list[str], environ: Mapping[str, str], cwd: Path, stdin: int = DEVNULL) -> Done:
    """Run a program; kill it and its children if it takes too long."""
    process = subprocess.Popen(
        command,
        env=environ,
        cwd=cwd,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=LONGEST_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        raise AssertionError(f"{command} did not end: {out[-999:]} {err[-999:]}") from None
    return Done(process.returncode, out, err)


def blocks(request: JSON) -> list[str]:
    """Return our blocks in a model's request, in order."""
    return [block for _, text in parts(request) for block in _BLOCK.findall(text)]


def _free_port() -> int:
    with socket.socket() as socket_:
        socket_.bind(("127.0.0.1", 0))
        port: int = socket_.getsockname()[1]
        return port


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
