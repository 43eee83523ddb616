"""
undelivered: prompts to a server that is not yet running, cold, killed or hung, beside two busy
loops.

Each prompt must be in the log once, whether its server took it, its client spooled it, or both. The
hook client starts the servers itself, as it does for a user. The control is the same client without
its spool: it must lose prompts.
"""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from torture.outcome import Outcome, Scale
from torture.server import environment

from serve import client
from serve.server import processes
from store.home import spool
from store.home.config import Choices, Settings
from store.home.registry import is_held, live_server, read_registry
from store.home.tenant import tenant
from store.log.event_kinds import Prompted
from store.log.event_log import EventLog

_PATIENCE_S = 120.0
_FORGETFUL = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); from serve import client; "
    "client._spool = lambda *sent: None; client.main(sys.argv[1:])"
)


def attack(folder: Path, scale: Scale) -> Iterator[Outcome]:
    homes, prompts = scale.of(1, 10), scale.of(3, 5)
    with _busy_loops():
        wrong: list[str] = []
        sent = 0
        for number in range(homes):
            home = _Home(folder / f"home-{number}", prompts, number)
            home.run()
            sent += len(home.sent)
            wrong += home.differences()
        yield Outcome(
            "prompts to a server that is new, cold, killed or hung, two busy loops",
            sent,
            "prompts",
            wrong,
            floor=200,
        )
        control = _Home(folder / "control", prompts, 0, is_control=True)
        # no server gets the first prompt, as none runs: at a push only that loss is required
        control.run(4 if scale is Scale.FULL else 1)
        lost = control.differences()
    yield Outcome("the same, by a client without a spool", len(control.sent), "prompts", lost,
                  is_control=True)  # fmt: skip


class _Home:
    """A home, the prompts sent to it and the states its server is put into."""

    def __init__(self, home: Path, prompts: int, seed: int, *, is_control: bool = False) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.settings = Settings(home, Choices(port=self.port))
        self.home, self.prompts, self.is_control = home, prompts, is_control
        self.sent: list[str] = []
        self.chance = random.Random(seed)

    def run(self, states: int = 4) -> None:
        """Put the server into the first so many states and send prompts in each."""
        try:
            for state in (self._first_run, self._cold, self._killed, self._hung)[:states]:
                state()
                self._settle()
        finally:
            self._end()

    def differences(self) -> list[str]:
        """Return each prompt that is not in the log exactly once."""
        with EventLog(tenant(self.home).log) as log:
            bodies = [event.body for event in log.read()]
        counts = Counter(body.prompt for body in bodies if isinstance(body, Prompted))
        return [f"{prompt}: {counts[prompt]} times" for prompt in self.sent if counts[prompt] != 1]

    def _first_run(self) -> None:
        self._send("first run")

    def _cold(self) -> None:
        processes.stop_server(self.settings)
        self._send("cold")

    def _killed(self) -> None:
        self._send("killed", between=self._kill)

    def _hung(self) -> None:
        pid = self._pid()
        os.kill(pid, signal.SIGSTOP)
        try:
            self._send("hung")
        finally:
            os.kill(pid, signal.SIGCONT)

    def _send(self, state: str, between: Callable[[], None] = lambda: None) -> None:
        for number in range(self.prompts):
            prompt = f"{self.home.name}: how did the {state} harbour survey {number} go?"
            payload = {"session_id": state, "cwd": "/", "hook_event_name": "UserPromptSubmit"}
            program = [client.__file__]
            if self.is_control:
                program = ["-c", _FORGETFUL, str(Path(client.__file__).parents[1])]
            subprocess.run(
                [sys.executable, "-I", "-S", *program, "claude-code", "--home", str(self.home)],
                input=json.dumps(payload | {"prompt": prompt}).encode(),
                env=environment(self.home, MNEMOLOG_PORT=str(self.port)),
                stdout=subprocess.PIPE,
                timeout=_PATIENCE_S,
                check=True,
            )
            self.sent.append(prompt)
            if number == self.prompts // 2:
                between()

    def _kill(self) -> None:
        """Kill the server so soon after an answer that its unwritten events are lost."""
        time.sleep(self.chance.uniform(0.0, 0.02))
        os.kill(self._pid(), signal.SIGKILL)
        _until(lambda: not is_held(self.settings))

    def _settle(self) -> None:
        """Wait until a server runs and has recorded the spooled prompts."""
        time.sleep(1.0)  # for clients that are still writing
        if not is_held(self.settings):
            (self.settings.server_try).unlink(missing_ok=True)
            subprocess.run(
                [sys.executable, "-P", "-m", "serve.cli", "start"],
                env=environment(self.home, MNEMOLOG_PORT=str(self.port)),
                stdout=subprocess.PIPE,
                timeout=_PATIENCE_S,
            )
        _until(lambda: live_server(self.settings))
        _until(lambda: not spool.entries(self.home))
        time.sleep(1.5)  # for the prompts that an older server kept in memory alone

    def _pid(self) -> int:
        _until(lambda: live_server(self.settings))
        server = read_registry(self.settings)
        assert server is not None
        return server.pid

    def _end(self) -> None:
        server = read_registry(self.settings)
        processes.stop_server(self.settings)
        if server is not None and is_held(self.settings):
            os.kill(server.pid, signal.SIGKILL)


@contextmanager
def _busy_loops() -> Iterator[None]:
    code = "while True: pass"
    loops = [subprocess.Popen([sys.executable, "-I", "-S", "-c", code]) for _ in range(2)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def _until(is_so: Callable[[], object]) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not is_so():
        if time.monotonic() > deadline:
            raise TimeoutError("waited in vain")
        time.sleep(0.02)
