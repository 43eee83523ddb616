"""
The stdio bridge: MCP over a pipe on one side, `POST /mcp` of this home's server on the other.

Run as `PYTHON -I -S /abs/serve/mcp_bridge.py --home HOME [--tenant NAME]`, by a host for each of
its sessions, so it is made to cost little: the standard library only, nothing of ours, and no
module at the start that few sessions need. It keeps no state of the memory; a missing server is
started, a restarted one is found.
"""

import http.client
import json
import os
import queue
import sys
import threading
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from typing import BinaryIO

HOST = "127.0.0.1"
WORKERS = 4
WAITING = 64  # lines read and not yet taken by a worker
START_S = 30.0  # to wait for a missing server: a large memory is opened before it listens
PAUSE_S = 0.05
ANSWER_S = 300.0
MAX_LINE = 5 << 20  # bytes; the server takes 4 MiB and says so, a longer line is cut
END_S = 30.0  # for the pending messages when the host closes the pipe
TAKEN = 202
FAILED, PARSE_ERROR, INTERNAL_ERROR = -32000, -32700, -32603
VERSION = "io.modelcontextprotocol/protocolVersion"
NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}

Connection = http.client.HTTPConnection


class NoServer(Exception):
    """No server runs and none could be started; the message says what to do."""


class Bridge:
    """One host's pipe. Its workers share the version and client of `initialize`, and the output."""

    def __init__(self, home: str, tenant: str) -> None:
        self._home, self._tenant, self._cwd = home, tenant, _cwd()
        self._version = self._client = ""
        self._writing, self._starting = threading.Lock(), threading.Lock()

    def answer(self, line: bytes) -> None:
        """Write the server's answer to one message; a notification has no answer."""
        try:
            message = json.loads(line)
        except (ValueError, RecursionError) as error:
            self._write(_failure(None, PARSE_ERROR, f"invalid JSON: {error}"))
            return
        try:
            self._post(line, message)
        except (NoServer, OSError, http.client.HTTPException) as error:
            self._fail(message, FAILED, f"mnemolog does not answer: {error}")

    def _post(self, line: bytes, message: Any) -> None:
        connection = self._connect()
        try:
            connection.request("POST", "/mcp", line, self._headers(message))
            answer = connection.getresponse()
            if answer.headers.get_content_type() == "text/event-stream":
                for event in answer:
                    if event.startswith(b"data:"):
                        self._write(event[len(b"data:") :])
            else:
                self._pass_on(message, answer.status, answer.read())
        finally:
            connection.close()

    def _pass_on(self, message: Any, status: int, body: bytes) -> None:
        if not body:
            if status != TAKEN:  # as a notification is; a request waits for an answer
                self._fail(message, INTERNAL_ERROR, f"the server said nothing: HTTP {status}")
            return
        payload = _object(body)
        if "jsonrpc" not in payload:  # refused before it came to MCP
            text = _inner(payload, "error").get("message") or payload.get("detail")
            self._fail(message, INTERNAL_ERROR, str(text or f"HTTP {status}"))
            return
        if isinstance(message, dict) and message.get("method") == "initialize":
            self._settle(message, payload)
        self._write(body)

    def _settle(self, request: "dict[str, Any]", answer: "dict[str, Any]") -> None:
        """Keep the version and client of `initialize`, for the headers of later requests."""
        client = _inner(_inner(request, "params"), "clientInfo")
        self._version = _plain(_inner(answer, "result").get("protocolVersion"))
        self._client = "-".join(_plain(client.get("name")).replace("/", " ").split())

    def _headers(self, message: Any) -> "dict[str, str]":
        """Return a request's headers: those of the newest revision, and our directory."""
        params = _inner(message, "params")
        method = _plain(message.get("method")) if isinstance(message, dict) else ""
        name = params.get(NAMED_BY.get(method, ""))
        headers = {
            "MCP-Protocol-Version": _plain(_inner(params, "_meta").get(VERSION)) or self._version,
            "Mcp-Method": method,
            "Mcp-Name": _encode_header(name) if isinstance(name, str) else "",
            "User-Agent": self._client,
            "X-Mnemolog-Cwd": self._cwd,
            "X-Mnemolog-Tenant": self._tenant,
            "X-Mnemolog-Off": "1" if is_off(os.environ) else "",
        }
        with open(os.path.join(self._home, "token"), encoding="utf-8") as file:
            token = file.read().strip()
        return {name: value for name, value in headers.items() if value} | {
            "Authorization": f"Bearer {token}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
        }

    def _connect(self) -> Connection:
        """Return a new connection for each message: no message is ever sent twice."""
        connection = _connection(self._home)
        if connection is not None:
            return connection
        with self._starting:  # one of us starts it, the others use it
            return _connection(self._home) or self._start_server()

    def _start_server(self) -> Connection:
        starting = _start(self._home, self._tenant)
        deadline = time.monotonic() + START_S
        while (connection := _connection(self._home)) is None:
            if time.monotonic() > deadline or starting.poll() not in (None, 0):
                raise NoServer(
                    f"no server runs for {self._home}, and none could be started: run "
                    "`mnemolog start` to see why"
                )
            time.sleep(PAUSE_S)
        return connection

    def _fail(self, message: Any, code: int, text: str) -> None:
        """Answer with an error, unless the message is a notification or a response."""
        is_notice = isinstance(message, dict) and ("id" not in message or "method" not in message)
        if not is_notice:
            id_ = message.get("id") if isinstance(message, dict) else None
            self._write(_failure(id_, code, text))

    def _write(self, message: bytes) -> None:
        with self._writing:
            try:
                sys.stdout.buffer.write(message.strip() + b"\n")
                sys.stdout.buffer.flush()
            except OSError:  # the host has gone: there is no reader for the answer
                os._exit(0)


def _connection(home: str) -> "Connection | None":
    """Return a connection to the server in the home's registry, None if none listens."""
    try:
        with open(os.path.join(home, "server.json"), "rb") as file:
            registry = json.load(file)
        pid, port = int(registry["pid"]), int(registry["port"])
        if os.name == "posix":  # another program may have the port by now: no token for that
            os.kill(pid, 0)
        connection = Connection(HOST, port, timeout=ANSWER_S)
        connection.connect()
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return None
    return connection


def _start(home: str, tenant: str) -> "subprocess.Popen[bytes]":
    """Start a server; it imports and reads nothing from the user's folder."""
    import subprocess

    beside = os.path.dirname(os.path.abspath(__file__))
    run = (
        f"import sys; sys.path.insert(0, {os.path.dirname(beside)!r}); "
        "from serve.cli import main; main()"
    )
    words = ["--home", home, *(["--tenant", tenant] if tenant else []), "start"]
    nothing = subprocess.DEVNULL
    return subprocess.Popen(
        [sys.executable, "-I", "-c", run, *words],
        cwd=beside,
        stdin=nothing,
        stdout=nothing,
        stderr=nothing,
    )


def is_off(environ: "os._Environ[str] | dict[str, str]") -> bool:
    """Return True if this run of the agent is not recorded, as `store.home.config` does."""
    text = environ.get("MNEMOLOG_OFF", "").strip().lower()
    return text not in ("", "0", "false", "no", "off")


def _cwd() -> str:
    """Return our directory in a header's letters, empty if it is gone."""
    try:
        return quote(os.fsencode(os.getcwd()))
    except OSError:
        return ""


def _object(body: bytes) -> "dict[str, Any]":
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _inner(value: Any, name: str) -> "dict[str, Any]":
    inner = value.get(name) if isinstance(value, dict) else None
    return inner if isinstance(inner, dict) else {}


def _plain(value: Any) -> str:
    """Return the value if it fits a header as it is; else "", and the server names the fault."""
    is_fit = isinstance(value, str) and value.isascii() and value.isprintable()
    return value if is_fit and len(value) <= 200 else ""


def _encode_header(value: str) -> str:
    """Return a name for a header, in base64 if it would not arrive intact."""
    if value.isascii() and value.isprintable() and value == value.strip() and value[:2] != "=?":
        return value
    import base64

    encoded = base64.b64encode(value.encode("utf-8", "replace")).decode()
    return f"=?base64?{encoded}?="


def _failure(id_: Any, code: int, message: str) -> bytes:
    own = id_ if isinstance(id_, str | int) else None  # another value may be nested without end
    error = {"code": code, "message": message}
    return json.dumps({"jsonrpc": "2.0", "id": own, "error": error}).encode()


def _work(bridge: Bridge, lines: "queue.Queue[bytes | None]") -> None:
    while (line := lines.get()) is not None:
        try:
            bridge.answer(line)
        except Exception:  # the outermost edge: the next message is answered all the same
            import traceback

            traceback.print_exc()


def main(home: str, tenant: str) -> None:
    """Answer messages until the host closes the pipe, and then the pending ones."""
    bridge = Bridge(home, tenant)
    lines: queue.Queue[bytes | None] = queue.Queue(WAITING)  # full, the host waits
    workers = [
        threading.Thread(target=_work, args=(bridge, lines), daemon=True) for _ in range(WORKERS)
    ]
    for worker in workers:
        worker.start()
    for line in _lines(sys.stdin.buffer):
        if line.strip():
            lines.put(line)
    for _ in workers:
        lines.put(None)
    deadline = time.monotonic() + END_S
    for worker in workers:
        worker.join(max(0.0, deadline - time.monotonic()))


def _lines(pipe: "BinaryIO") -> "Iterator[bytes]":
    """Yield the lines of a pipe, only the beginning of one too long, which is no valid JSON."""
    while line := pipe.readline(MAX_LINE):
        yield line
        while len(line) == MAX_LINE and not line.endswith(b"\n"):  # the rest of it
            line = pipe.readline(MAX_LINE)


def _option(name: str) -> str:
    words = sys.argv[1:]
    return words[words.index(name) + 1] if name in words[:-1] else ""


if __name__ == "__main__":
    main(_option("--home"), _option("--tenant"))
