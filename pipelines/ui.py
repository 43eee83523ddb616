"""
Dagster's UI, its scheduler and its sensors, started together and ended together.

`dagster dev` starts four more processes. They are put into a session of their own, so that Ctrl-C
reaches only us, who then end all of them, by the group where asking did not help.
"""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from pipelines import home
from store.config import Settings
from store.errors import ConfigError
from store.registry import register_ui

_ROOT = Path(__file__).resolve().parent.parent
_ASK_EVERY_S = 0.5
_GRACE_S = 20.0


def serve(settings: Settings, port: int, on_ready: Callable[[str], None]) -> int:
    """Serve the UI on loopback until it ends or is interrupted; return its exit code.

    `on_ready` is told the address once it answers. Raise ConfigError where the port is taken.
    """
    _check_free(port)
    url = f"http://127.0.0.1:{port}"
    with _interruptible(), _dagster(settings, port) as process:
        while process.poll() is None and not _answers(url):
            time.sleep(_ASK_EVERY_S)
        if process.returncode is not None:
            return process.returncode
        with register_ui(settings, port):
            on_ready(url)
            return process.wait()


def command(port: int) -> Sequence[str]:
    """Return the command line; no module is looked for in the folder the caller stands in."""
    workspace = _ROOT / "workspace.yaml"
    # an installed wheel has no workspace.yaml
    target = (
        ["-w", str(workspace)]
        if workspace.is_file()
        else ["-m", "pipelines.definitions", "-d", str(_ROOT)]
    )
    quiet = ["--log-level", "warning", "--code-server-log-level", "warning"]
    where = ["-h", "127.0.0.1", "-p", str(port)]
    return [sys.executable, "-P", "-m", "dagster", "dev", *target, *where, *quiet]


@contextmanager
def _dagster(settings: Settings, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """Run `dagster dev`; end it and everything it started on the way out."""
    process = subprocess.Popen(
        command(port),
        cwd=home.prepare(settings),
        # "use dg instead": only this one reads a workspace file
        env=home.environment(settings) | {"PYTHONWARNINGS": "ignore::FutureWarning"},
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGINT if sys.platform != "win32" else signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_S)
        _kill_all(process)


def _kill_all(process: subprocess.Popen[bytes]) -> None:
    """Kill what is left of the group; nothing, where it ended as asked."""
    if sys.platform == "win32":
        process.kill()
    else:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let SIGTERM end the block as Ctrl-C does, also where the shell had us ignore Ctrl-C."""

    def interrupt(_: int, __: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {one: signal.signal(one, interrupt) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def _check_free(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            raise ConfigError(f"port {port} is taken: choose another with --port") from None


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/server_info", timeout=1) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False
