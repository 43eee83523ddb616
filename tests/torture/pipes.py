"""
pipes: the MCP bridge and the hook client, as a host runs them: with any input, and any answer from
the other end.
"""

import json
import os
import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from background import served
from flask import Flask
from torture.outcome import Outcome, Scale
from torture.sent import event, frame

from serve.app import MAX_BODY, create_app
from serve.client import GIVE_UP_S
from serve.mcp_server import protocol
from serve.server.open_tenants import OpenTenants
from store.home import tenant
from store.home.config import Settings
from store.home.files import replace_file
from store.home.registry import Server
from store.log.event_log import EventLog

ROOT = Path(__file__).resolve().parents[2]
BRIDGE, CLIENT = ROOT / "serve" / "mcp_bridge.py", ROOT / "serve" / "client.py"
TOKEN = "a-token"
NOW = 1_800_000_000_000_000
LATEST_S = 120.0
BACKGROUND_S = GIVE_UP_S + 4.0  # a client gives up by itself; the rest is this machine's
MOST_MIB = 100  # resident in the bridge, for any line
LONG = 100 << 20  # bytes of a line
# answers of other programs at the server's port
STRANGERS = (
    b"", b"\x00\xff", b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}",
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 7\r\n\r\n[[[[[[[",
    b"HTTP/1.1 500 X\r\nContent-Length: 2\r\n\r\n{}", b"HTTP/9.9 banana\r\n\r\n", b"\r\n" * 500,
    b'HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n{"error": "no"}',
    b"HTTP/1.1 200 OK\r\nX: " + b"a" * 70_000 + b"\r\n\r\n{}",
)  # fmt: skip


def attacked(folder: Path, scale: Scale) -> Iterator[Outcome]:
    """Yield the outcomes of lines through the bridge, and of events through the client."""
    home = folder / "home"
    with EventLog(tenant.tenant(home).log, create=True):
        pass
    replace_file(home / "token", TOKEN.encode())
    opened = OpenTenants(Settings(home))
    chance = random.Random(7)
    try:
        with _listening(home, create_app(opened, TOKEN, lambda: NOW, hook_deadline_s=30.0)):
            yield _lines(home, scale.of(100, 2_000), chance)
            yield _long_line(home)
            yield _clients(home, scale.of(8, 200), chance)
    finally:
        opened.close()
    yield _strangers(home, chance)


@contextmanager
def _listening(home: Path, app: Flask) -> Iterator[None]:
    """Serve an application as the home's own server."""
    with served(app, threads=8, max_request_body_size=MAX_BODY) as port:
        _register(home, port)
        yield


def _register(home: Path, port: int) -> None:
    replace_file(home / "server.json", msgspec.json.encode(Server(os.getpid(), port, 0, "")))


def _bridge(home: Path, sent: bytes) -> tuple[list[bytes], str]:
    """Return a bridge's lines in answer to a host's input, and the fault of its exit."""
    words = [sys.executable, "-I", "-S", str(BRIDGE), "--home", str(home)]
    completed = subprocess.run(words, input=sent, capture_output=True, timeout=LATEST_S)
    fault = f"ended with {completed.returncode}" if completed.returncode else ""
    return completed.stdout.splitlines(), fault or completed.stderr.decode(errors="replace")[-400:]


def _owed(line: bytes) -> Any:
    """Return the id that an answer must have; None if no answer is due or the id is unreadable."""
    try:
        json.loads(line)  # the bridge's own reader is as strict as this one, and protocol's less so
        message = protocol.read(protocol.decode_message(line))
    except (protocol.RpcError, ValueError, RecursionError):
        return None
    return message.id if message.method is not None else None


def _lines(home: Path, count: int, chance: random.Random) -> Outcome:
    """Check that every request gets its answer, and the last line needs no newline."""
    bodies = [frame(chance).body.replace(b"\n", b" ") for _ in range(count)]
    owed = [id_ for body in bodies if (id_ := _owed(body)) is not None]
    answers, fault = _bridge(home, b"\n".join(bodies))
    wrong = [fault] if fault else []
    answered: list[Any] = []
    for line in answers:
        try:
            answered.append(json.loads(line).get("id"))
        except (ValueError, AttributeError):
            wrong.append(f"no message came out: {line!r:.200}")
    for id_ in owed:
        try:
            answered.remove(id_)
        except ValueError:
            wrong.append(f"no answer to {id_!r:.60}")
    return Outcome("lines through the bridge", count, "lines", wrong, f"{len(owed):,} owed answers")


def _long_line(home: Path) -> Outcome:
    """Check that a line of 100 MB is refused, costs little memory, and the next is answered."""
    ping = b'{"jsonrpc":"2.0","id":"after","method":"ping"}\n'
    words = [sys.executable, "-I", "-S", str(BRIDGE), "--home", str(home)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(b'{"a":"')
        for _ in range(LONG >> 20):
            process.stdin.write(b"x" * (1 << 20))
        process.stdin.write(b'"}\n' + ping)
        process.stdin.flush()
        answers = [json.loads(process.stdout.readline()) for _ in range(2)]
        mib = _resident_mib(process.pid)
        process.stdin.close()
    wrong = [] if mib <= MOST_MIB else [f"{mib} MiB resident"]
    if {answer["id"] for answer in answers} != {None, "after"} or sum(
        "error" in answer for answer in answers
    ) != 1:
        wrong.append(f"answered: {answers!r:.300}")
    return Outcome("a line of 100 MB through the bridge", 1, "lines", wrong, f"{mib} MiB resident")


def _resident_mib(pid: int) -> int:
    """Return a process's peak resident MiB, as Linux counts it; 0 elsewhere."""
    status = Path(f"/proc/{pid}/status")
    lines = status.read_text().splitlines() if status.exists() else []
    kib = [int(line.split()[1]) for line in lines if line.startswith("VmHWM:")]
    return kib[0] >> 10 if kib else 0


def _client(home: Path, host: str, body: bytes) -> tuple[bytes, str]:
    """Return the output of a hook client for an event, and the fault of its exit."""
    began = time.monotonic()
    words = [sys.executable, "-I", "-S", str(CLIENT), host, "--home", str(home)]
    completed = subprocess.run(words, input=body, capture_output=True, timeout=LATEST_S)
    took = time.monotonic() - began
    if completed.returncode or completed.stderr:
        return completed.stdout, f"ended with {completed.returncode}: {completed.stderr[-300:]!r}"
    return completed.stdout, f"took {took:.1f} s" if took > BACKGROUND_S else ""


def _printed(out: bytes) -> str:
    """Return the fault of the output that a host reads."""
    try:
        return "" if not out or isinstance(json.loads(out), dict) else f"printed {out!r:.200}"
    except ValueError:
        return f"printed {out!r:.200}"


def _clients(home: Path, count: int, chance: random.Random) -> Outcome:
    """Check that a client exits with 0, in time, and prints one object or nothing."""
    wrong = []
    for number in range(count):
        host, body = event(chance)
        out, fault = _client(home, host, body)
        if fault := fault or _printed(out):
            wrong.append(f"event {number} to {host}: {fault}: {body!r:.200}")
    return Outcome("events through the hook client", count, "events", wrong)


def _strangers(home: Path, chance: random.Random) -> Outcome:
    """Put strangers at the server's port: the client is silent, the bridge answers an error."""
    wrong = []
    line = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
    for answer in STRANGERS:
        with _stranger(answer) as port:
            _register(home, port)
            host, _ = event(chance)
            out, fault = _client(home, host, b'{"hook_event_name":"UserPromptSubmit"}')
            if fault := fault or _printed(out):
                wrong.append(f"client before {answer!r:.60}: {out!r:.100} {fault}")
            answers, fault = _bridge(home, line)
            ids = [json.loads(data).get("id") for data in answers]
            if fault or ids != [1]:
                wrong.append(f"bridge before {answer!r:.60}: {answers!r:.200} {fault}")
    (home / "server.json").unlink()
    return Outcome("strangers at the server's port", 2 * len(STRANGERS), "answers", wrong)


@contextmanager
def _stranger(answer: bytes) -> Iterator[int]:
    """Listen, and answer every connection with some bytes; then hang up."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(0.1)
        ending = threading.Event()

        def serve() -> None:
            while not ending.is_set():
                try:
                    there, _ = listening.accept()
                except TimeoutError:
                    continue
                with there:
                    there.settimeout(5)
                    _hang_up(there, answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield int(listening.getsockname()[1])
        ending.set()
        thread.join(10)


def _hang_up(there: socket.socket, answer: bytes) -> None:
    try:
        there.recv(1 << 16)
        there.sendall(answer)
    except OSError:  # it hung up first
        return
