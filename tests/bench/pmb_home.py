"""A home of PMB: filled, served by its daemon, asked and written to over HTTP."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from client import Client
from process import Server, cpu_s

_WARM_S = 120.0  # its daemon loads its model during the first answers
_WARM_QUESTIONS = 10
_AT_REST_S = 0.05  # CPU in a second


class Home:
    """The folder of a PMB from a virtual environment, with its memories."""

    def __init__(self, folder: Path, environment: Path, model: Path | None) -> None:
        """Use `model` as its embedder; None: no embedder, words alone count."""
        self._folder, self._model = folder, model
        self._bin = environment / "bin"
        self._home = folder / "pmb"
        self._home.mkdir(parents=True)
        if model is not None:
            (self._home / "config.yaml").write_text(f"embedding:\n  model: {model}\n")
        self._env = {
            **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
            "HOME": str(folder),
            "PMB_HOME": str(self._home),
            "PMB_WORKSPACE": "bench",
            "PMB_TOOL_PROFILE": "default",  # has a tool that writes one fact
            "HF_HUB_OFFLINE": "1",
        }

    def fill(self, texts: Iterable[str]) -> None:
        seed = Path(__file__).with_name("pmb_seed.py")
        command = [
            str(self._bin / "python"),
            "-P",
            str(seed),
            *(["--embed"] if self._model else []),
        ]
        subprocess.run(command, input="\n".join(texts), env=self._env, text=True, check=True)

    def hook_cpu_s(self, prompt: str) -> float:
        """Return the CPU seconds of the process that a host starts for a prompt."""
        command = [str(self._bin / "pmb-hook"), "prepare-context"]
        return cpu_s(command, self._env, json.dumps({"prompt": prompt}))

    def serve(self) -> "Daemon":
        command = [str(self._bin / "pmb"), "daemon", "run", "--port", str(_free())]
        return Daemon(
            command, self._folder, self._env, self._home / "daemon.token", self._model is not None
        )


class Daemon(Server):
    """PMB's daemon, warm if it has a model."""

    def __init__(
        self, command: list[str], home: Path, env: dict[str, str], token: Path, has_model: bool
    ) -> None:
        super().__init__(command, home, env, token)
        self._tools: Client | None = None
        until = time.monotonic() + _WARM_S
        while not self.post("/internal/recall", {"query": "warm up"})["warm"] and has_model:
            if time.monotonic() > until:
                sys.exit("PMB's model does not load")
            time.sleep(0.2)
        self._rest(until)

    def _rest(self, until: float) -> None:
        """Wait until the daemon is idle between answers: at first it embeds phrases of its own."""
        for number in range(_WARM_QUESTIONS):
            self.recall(f"warm up {number}")
        before = self.cpu_s() or 0.0
        while time.monotonic() < until:
            time.sleep(1.0)
            now = self.cpu_s() or 0.0
            if now - before < _AT_REST_S:
                return
            before = now

    def recall(self, query: str) -> list[str]:
        """Return the texts of the best five."""
        results = self.post("/internal/recall", {"query": query, "top_k": 5})["results"]
        return [str(result["content"]) for result in results]

    def write(self, text: str) -> None:
        """Write one fact with its tool, over HTTP, and wait for it to be stored."""
        if self._tools is None:
            self._tools = self._session()
        answer = _called(
            self._tools, "tools/call", {"name": "record_fact", "arguments": {"fact": text}}
        )
        if answer.get("isError"):
            sys.exit(f"PMB did not write: {answer}")

    def _session(self) -> Client:
        tools = Client(self.client.port, self.client.token)
        tools.headers["Accept"] = "application/json, text/event-stream"
        who = {"name": "bench", "version": "1"}
        _called(
            tools,
            "initialize",
            {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": who},
        )
        tools.headers["Mcp-Session-Id"] = tools.answered["Mcp-Session-Id"]
        tools.asked("POST", "/mcp", {"jsonrpc": "2.0", "method": "notifications/initialized"})
        return tools

    def __exit__(self, *ended: Any) -> None:
        if self._tools is not None:
            self._tools.close()
        super().__exit__(*ended)


def _called(client: Client, method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a JSON-RPC call, sent back as JSON or as one event of a stream."""
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    status, reply = client.asked("POST", "/mcp", body)
    lines = [
        line.removeprefix(b"data: ") for line in reply.splitlines() if line.startswith(b"data")
    ]
    if status >= 400 or not (lines or reply.startswith(b"{")):
        sys.exit(f"PMB gave {status} to {method}: {reply[:400]!r}")
    answer = json.loads(lines[-1] if lines else reply)
    if "result" not in answer:
        sys.exit(f"PMB refused {method}: {answer}")
    result: dict[str, Any] = answer["result"]
    return result


def _free() -> int:
    with socket.socket() as socket_:
        socket_.bind(("127.0.0.1", 0))
        return int(socket_.getsockname()[1])
