"""
Processes: jobs (`python -P -m pipelines`) and the server in the background (`python -P -m serve`)
are started and stopped as processes of their own, never by an import.

They run in the home, so that the user's current folder cannot supply a module or a setting.
"""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO

from store.home.config import Settings
from store.home.errors import ConfigError
from store.home.files import make_folder
from store.home.registry import HOST, Server, is_held, live_server, read_registry

Output = int | IO[bytes] | None

READY_S = 20.0  # to wait until it listens: a large memory is opened first
END_S = 15.0  # to wait until it has written its pending notes and is gone
LOG_BYTES = 1 << 20
_ANSWER_S = 2.0
_M_ARENA_MAX = -8  # mallopt(3)
# Windows has no sessions: a process without our console, that our Ctrl-C does not reach
_DETACHED: int = getattr(subprocess, "DETACHED_PROCESS", 0) | getattr(
    subprocess, "CREATE_NEW_PROCESS_GROUP", 0
)


def start_job(
    settings: Settings,
    *words: str,
    stdin: Output = None,
    stdout: Output = None,
    stderr: Output = None,
) -> "subprocess.Popen[bytes]":
    """Start a job with these words on its command line; a stream of None is our own terminal."""
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "pipelines", *words],
        cwd=settings.home.absolute(),
        env=_child_environment(settings),
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
    )


def start_server(settings: Settings) -> tuple[Server, bool]:
    """Return the home's server, started if none runs; and True if it was started.

    Raise ConfigError with the last line of its output if it does not come up.
    """
    if (server := live_server(settings)) is not None:
        return server, False
    make_folder(settings.home)
    with open(settings.server_log, "ab", opener=_private) as output:
        said_before = output.tell()
        process = _spawn_server(settings, output)
    _wait_until(
        lambda: live_server(settings) or (process.poll() is not None and not is_held(settings))
    )
    if (server := live_server(settings)) is None:
        raise ConfigError(
            f"the server did not start: {_last_line(settings.server_log, said_before)}"
        )
    if server.pid != process.pid:
        # a server from another call is as good; ours must not start after that one ends
        process.terminate()
        process.wait()
    return server, server.pid == process.pid


def stop_server(settings: Settings) -> Server | None:
    """Ask the home's server to end and wait until it is gone; return it, None if none runs.

    Only the server in the registry is stopped: it must know the instance, or, if it no longer
    answers, hold the home's lock. Raise ConfigError if it does not end.
    """
    server = read_registry(settings)
    if server is None or not is_held(settings):
        return None
    if not _request_stop(settings, server) and os.name == "posix":
        with suppress(ProcessLookupError):
            os.kill(server.pid, signal.SIGTERM)
    if not _wait_until(lambda: not is_held(settings), END_S):
        raise ConfigError(f"the server (process {server.pid}) does not stop: end the process")
    return server


def _spawn_server(settings: Settings, output: IO[bytes]) -> "subprocess.Popen[bytes]":
    """Start a server of this home that outlives us and our terminal."""
    chosen = {"MNEMOLOG_TENANT": settings.choices.tenant}
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "serve"],
        cwd=settings.home.absolute(),
        env=_child_environment(settings) | chosen,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        start_new_session=True,
        creationflags=_DETACHED,
    )


def _child_environment(settings: Settings) -> dict[str, str]:
    places = [place for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if place]
    return os.environ | {
        "MNEMOLOG_HOME": str(settings.home.absolute()),
        "PYTHONPATH": os.pathsep.join(str(Path(place).absolute()) for place in places),
    }


def _request_stop(settings: Settings, server: Server) -> bool:
    """Ask the server to end, if the listener is that instance; return True if it was."""
    from http.client import HTTPException

    try:
        token = settings.token_file.read_text().strip()
        data = _fetch(server, token, "GET", "/v1/server")
        return server.instance.encode() in data and bool(
            _fetch(server, token, "POST", "/v1/server/stop")
        )
    except (OSError, HTTPException):
        return False


def _fetch(server: Server, token: str, method: str, path: str) -> bytes:
    """Return the body of a 2xx response, else b""."""
    from http.client import HTTPConnection  # commands that start a job have no use for it

    connection = HTTPConnection(HOST, server.port, timeout=_ANSWER_S)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        body = answer.read()
        return body if answer.status // 100 == 2 else b""
    finally:
        connection.close()


def _wait_until(is_so: Callable[[], object], patience_s: float = READY_S) -> bool:
    deadline = time.monotonic() + patience_s
    while not is_so():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _last_line(log: Path, start: int) -> str:
    """Return the last line written to the log since a position."""
    with open(log, "rb") as file:
        file.seek(start)
        lines = file.read()[-LOG_BYTES:].decode("utf-8", "replace").split("\n")
    return next((line for line in reversed(lines) if line.strip()), f"see {log}")


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def share_one_heap() -> None:
    """Let threads take memory from one heap.

    Call it before numpy and pyarrow are imported: they start threads, and existing heaps stay.
    """
    if sys.platform == "linux":
        with suppress(AttributeError):  # a C library without this setting
            ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)
