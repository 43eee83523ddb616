"""
Servers that accept a prompt and never answer: the first hook waits, the next ones do not.

A listener replaces the server and counts connections. The age of the breaker's file stands for
time, so nothing here depends on the machine's speed. The control deletes the breaker between
prompts: there every hook waits.
"""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from torture.outcome import Outcome, Scale

from serve import client
from store.home.config import Settings
from store.home.files import replace_file
from store.home.registry import Server

EVENTS = ("UserPromptSubmit", "SessionStart", "PreToolUse", "Stop")
LATEST_S = 60.0  # for a hook on a busy machine
Sick = Callable[[socket.socket], None]


def _silent(connection: socket.socket) -> None:
    """Accept the request and send nothing."""


def _halfway(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{")


def _dripping(connection: socket.socket) -> None:
    """Send a byte at a time, so that no single read takes long."""
    for byte in b"HTTP/1.1 200 OK\r\n" * 100:
        try:
            connection.sendall(bytes((byte,)))
        except OSError:  # the hook has left
            return
        time.sleep(0.1)


SICK: dict[str, Sick] = {"silent": _silent, "halfway": _halfway, "dripping": _dripping}


def attack(folder: Path, scale: Scale) -> Iterator[Outcome]:
    prompts = scale.of(2, 40)
    for name, serve in SICK.items():
        yield _asked(folder / name, serve, prompts, f"a server that is {name}")
    yield _asked(folder / "control", _silent, 2, "hooks without a breaker", is_control=True)


def _asked(
    home: Path, serve: Sick, prompts: int, tried: str, *, is_control: bool = False
) -> Outcome:
    """Run hooks one after another, each event in turn; count the connections to the server."""
    wrong = []
    with _listening(home, serve) as reached:
        first = _hook(home, EVENTS[0])
        if first or reached.count != 1:
            wrong.append(f"the first prompt: {reached.count} connected, {first!r} was said")
        for number in range(prompts):
            _age_breaker(home, 0.0, is_there=not is_control)
            before = reached.count
            data = _hook(home, EVENTS[number % len(EVENTS)])
            if data or reached.count != before:
                wrong.append(f"prompt {number + 2} waited again, {data!r} was said")
        _age_breaker(home, client.BREAKER_S + 1, is_there=not is_control)
        before = reached.count
        data = _hook(home, EVENTS[0])
        if data or reached.count != before + 1:
            wrong.append(f"after the pause {reached.count - before} tried, not one")
    floor = 0 if is_control else 42
    return Outcome(tried, prompts + 2, "prompts", wrong, is_control=is_control, floor=floor)


@dataclass
class Reached:
    """The number of connections, and the open connections."""

    count: int = 0
    held: list[socket.socket] = field(default_factory=list)


@contextmanager
def _listening(home: Path, serve: Sick) -> Iterator[Reached]:
    reached = Reached()

    def accept(server: socket.socket) -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:  # the listener was closed
                return
            reached.count += 1
            reached.held.append(connection)
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=accept, args=(server,), daemon=True).start()
        replace_file(home / "token", b"secret")
        server_ = Server(os.getpid(), server.getsockname()[1], 1, "a" * 32)
        replace_file(home / "server.json", msgspec.json.encode(server_))
        yield reached
        if sys.platform == "linux":  # elsewhere the thread ends with the process
            server.shutdown(socket.SHUT_RDWR)
        for connection in reached.held:
            connection.close()


def _age_breaker(home: Path, age_s: float, *, is_there: bool) -> None:
    """Set the breaker's age, or delete it."""
    breaker = Settings(home).server_breaker
    if not is_there:
        breaker.unlink(missing_ok=True)
    elif breaker.exists():
        then = time.time() - age_s
        os.utime(breaker, (then, then))


def _hook(home: Path, event: str) -> bytes:
    """Run the hook client as a host does; return its output."""
    payload = {"session_id": "s1", "cwd": "/", "hook_event_name": event, "prompt": "go on"}
    completed = subprocess.run(
        [sys.executable, "-I", "-S", client.__file__, "claude-code", "--home", str(home)],
        input=json.dumps(payload).encode(),
        stdout=subprocess.PIPE,
        timeout=LATEST_S,
        check=True,
    )
    return completed.stdout
