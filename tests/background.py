"""Servers in the background, started and ended by the tests: real processes of a home."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import waitress
from flask import Flask
from waitress import wasyncore

from serve.server import processes
from store.home.config import Settings
from store.home.registry import is_held, read_registry

ROOT = Path(__file__).parents[1]


def mnemolog(*words: str, event: bytes = b"", **environ: str) -> "subprocess.CompletedProcess[str]":
    """Run one of our commands to its end, in the home named by the test's environment."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "serve.cli", *words],
        input=event,
        env=os.environ | {"PYTHONPATH": str(ROOT)} | environ,
        capture_output=True,
        timeout=180,
    )
    out, err = done.stdout.decode(), done.stderr.decode()
    return subprocess.CompletedProcess(done.args, done.returncode, out, err)


def said(*words: str, **environ: str) -> Any:
    """Return a command's JSON output."""
    done = mnemolog(*words, "--json", **environ)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def end(home: Path) -> None:
    """End the server of a test's home, in any state."""
    settings = Settings(home)
    server = read_registry(settings)
    processes.stop_server(settings)
    if server is not None and is_held(settings):
        os.kill(server.pid, signal.SIGKILL if os.name == "posix" else signal.SIGTERM)


@contextmanager
def served(app: Flask, **adjustments: int) -> Iterator[int]:
    """Serve an app over loopback in a thread, with waitress configured as ours; yield the port."""
    server = waitress.create_server(app, host="127.0.0.1", port=0, **adjustments)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    sockets = dict[int, Any]()

    def leave_loop() -> None:
        sockets.update(server._map)
        server._map.clear()

    try:
        yield int(server.effective_port)
    finally:
        # in the server's own thread, which waits for these sockets; they are closed once it has
        # ended, because the trigger is one of them and may still be in a pull while another pull
        # runs `leave_loop`
        server.trigger.pull_trigger(leave_loop)
        thread.join(5)
        wasyncore.close_all(sockets)
        server.task_dispatcher.shutdown()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def until(is_so: Callable[[], object], timeout_s: float = 30) -> None:
    """Wait until a condition holds; fail if it never does."""
    deadline = time.monotonic() + timeout_s
    while not is_so():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)
