"""
The server in the background: how it is started and told to end; this file run as a module is it.

It ends by itself when nobody asked for `idle_exit_s`; the next hook starts it again. Where its port
is taken it listens on a free one: whoever asks finds the port in the registry.
"""

import gc
import http.client
import logging
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from serve.process import jobs
from store import config
from store.config import Settings
from store.errors import ConfigError, MnemologError
from store.files import make_folder
from store.redaction.redact import redact
from store.registry import HOST, Server, is_held, registered, running

READY_S = 20.0  # to wait until it listens: a large memory is opened before
END_S = 15.0  # to wait until it has written what it gathered and is gone
LOG_BYTES = 1 << 20
_ANSWER_S = 2.0


def start(settings: Settings) -> tuple[Server, bool]:
    """Return the home's server, started where none runs; and whether it was.

    Raise ConfigError with what it said where it does not come up.
    """
    if (found := running(settings)) is not None:
        return found, False
    make_folder(settings.home)
    with open(settings.server_log, "ab", opener=_private) as output:
        said_before = output.tell()
        process = jobs.start_server(settings, output)
    _until(lambda: running(settings) or (process.poll() is not None and not is_held(settings)))
    if (found := running(settings)) is None:
        raise ConfigError(f"the server did not start: {_said(settings.server_log, said_before)}")
    if found.pid != process.pid:
        # one that another call started meanwhile is as good; ours must not come up after its end
        process.terminate()
        process.wait()
    return found, found.pid == process.pid


def stop(settings: Settings) -> Server | None:
    """Ask the home's server to end and wait until it is gone; return it, None where none runs.

    Only the very server that the registry names is told: it must know the instance, or, where it
    does not answer any more, hold the home's lock. Raise ConfigError where it does not end.
    """
    server = registered(settings)
    if server is None or not is_held(settings):
        return None
    if not _is_asked_to_end(settings, server) and os.name == "posix":
        with suppress(ProcessLookupError):
            os.kill(server.pid, signal.SIGTERM)
    if not _until(lambda: not is_held(settings), END_S):
        raise ConfigError(f"the server (process {server.pid}) does not end: end the process")
    return server


def _is_asked_to_end(settings: Settings, server: Server) -> bool:
    """Tell the server to end, if what listens there is that instance; return whether it was."""
    try:
        token = settings.token_file.read_text().strip()
        found = _answer(server, token, "GET", "/v1/server")
        return server.instance.encode() in found and bool(
            _answer(server, token, "POST", "/v1/server/stop")
        )
    except (OSError, http.client.HTTPException):
        return False


def _answer(server: Server, token: str, method: str, path: str) -> bytes:
    """Return the body of a 2xx, else nothing."""
    connection = http.client.HTTPConnection(HOST, server.port, timeout=_ANSWER_S)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        body = answer.read()
        return body if answer.status // 100 == 2 else b""
    finally:
        connection.close()


def _until(is_so: Callable[[], object], patience_s: float = READY_S) -> bool:
    deadline = time.monotonic() + patience_s
    while not is_so():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _said(log: Path, start: int) -> str:
    """Return the last line that was written to the log since a position."""
    with open(log, "rb") as file:
        file.seek(start)
        lines = file.read()[-LOG_BYTES:].decode("utf-8", "replace").split("\n")
    return next((line for line in reversed(lines) if line.strip()), f"see {log}")


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


class BoundedLog(logging.StreamHandler):  # type: ignore[type-arg]
    """Logs to a file that is our standard error; at its limit what is there becomes `.1`.

    The file is emptied and not renamed: what the interpreter itself writes goes there too. What an
    error quotes of a request is redacted.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(sys.stderr)
        self._path = path

    def format(self, record: logging.LogRecord) -> str:
        return redact(super().format(record))

    def emit(self, record: logging.LogRecord) -> None:
        if os.fstat(self.stream.fileno()).st_size > LOG_BYTES:
            shutil.copy(self._path, self._path.with_name(f"{self._path.name}.1"))
            os.ftruncate(self.stream.fileno(), 0)
        super().emit(record)


def main() -> None:
    """Serve the home that the environment names; what is said goes to its `server.log`."""
    gc.disable()  # what is imported stays; the server turns it on when it is ready
    from serve.process import heap

    heap.share_one()
    from serve.process import server

    log = logging.getLogger("mnemolog")
    settings = config.load()
    logging.basicConfig(
        level=logging.INFO,
        format="%(asctime)s %(levelname)s %(message)s",
        handlers=[BoundedLog(settings.server_log)],
    )
    idle_exit_s = settings.choices.idle_exit_s
    try:
        server.run(
            settings,
            on_ready=lambda port: log.info("listens on http://%s:%d", HOST, port),
            idle_exit_s=idle_exit_s,
            elsewhere=True,
        )
    except MnemologError as error:
        log.error("%s", error)
        sys.exit(1)


if __name__ == "__main__":
    main()
