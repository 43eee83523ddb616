"""Server: the server of a home as a process that a test may kill, and requests to it over HTTP."""

import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PLACES = (ROOT, ROOT / "tests", ROOT / "serve" / "program")
START = (
    "from serve.app import create_app; from serve.server.process import run; "
    "from store.home.config import load; run(load(), create_app, port=0)"
)
JSON = "application/json"

# the errors of a request whose server dies: nothing of it was acknowledged
CutOff = (OSError, http.client.HTTPException)


def environment(home: Path, **more: str) -> dict[str, str]:
    """Return the environment of a process of ours that works on a home, without outer settings."""
    environ = {
        name: value for name, value in os.environ.items() if not name.startswith("MNEMOLOG_")
    }
    path = os.pathsep.join((str(ROOT), str(ROOT / "serve" / "program")))
    return environ | {"MNEMOLOG_HOME": str(home), "PYTHONPATH": path} | more


class Server:
    """A server process of a home, and its address."""

    def __init__(
        self, home: Path, code: str = START, before: Sequence[str] = (), **more: str
    ) -> None:
        """Start it, with `before` as the command's prefix, and wait until it listens; `more` are
        environment variables.
        """
        self.home = home
        self.process = subprocess.Popen(
            [*before, sys.executable, "-P", "-c", code],
            env=environment(home, **more),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stdout is not None
        text = self.process.stdout.readline()
        assert text, f"the server of {home} did not start"
        self.port = int(text.rpartition(":")[2])
        self.token = (home / "token").read_text()

    def ask(
        self, method: str, path: str, body: object = None, timeout_s: float = 10
    ) -> tuple[int, Any]:
        """Return the status and the JSON of an answer; raise `CutOff`."""
        return asked(self.port, self.token, method, path, body, timeout_s)

    def record(self, body: Mapping[str, str]) -> int:
        """Return the status of one write; raise `CutOff`."""
        return self.ask("POST", "/v1/memories", body)[0]

    def kill(self, number: int = signal.SIGKILL) -> None:
        self.process.send_signal(number)
        self.process.wait(timeout=30)
        assert self.process.stdout is not None
        self.process.stdout.close()


def asked(
    port: int,
    token: str,
    method: str,
    path: str,
    body: object = None,
    timeout_s: float = 10,
    more: Mapping[str, str] = MappingProxyType({}),
) -> tuple[int, Any]:
    """Return the status of an answer and its JSON, or text if it is not JSON; raise `CutOff`."""
    status, kind, data = answered(port, token, method, path, body, timeout_s, more)
    is_json = data and kind in (JSON, "application/problem+json")
    return status, json.loads(data) if is_json else data.decode()


def answered(
    port: int,
    token: str,
    method: str,
    path: str,
    body: object = None,
    timeout_s: float = 10,
    more: Mapping[str, str] = MappingProxyType({}),
) -> tuple[int, str, bytes]:
    """Return the status of an answer, its type and its bytes; raise `CutOff`."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_s)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": JSON, **more}
    try:
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        return answer.status, answer.headers.get_content_type(), answer.read()
    finally:
        connection.close()
