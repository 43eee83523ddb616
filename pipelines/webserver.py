"""
Dagster's pages and its daemon in one process group, behind the guard: what `pipelines.ui` starts.

`dagster dev` would do the same, but opens its port to whoever comes, and its web server can be put
behind neither a Unix socket nor a header. So its application is taken and served here, guarded, in
this process: nothing else listens.
"""

import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import uvicorn
from dagster import DagsterInstance
from dagster import __version__ as dagster_version
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import (
    ModuleTarget,
    WorkspaceFileTarget,
    WorkspaceLoadTarget,
)
from dagster_webserver.app import create_app_from_workspace_process_context

from pipelines.channels import Channels
from pipelines.channels import server as channels_server
from pipelines.request_guard import Access, guarded
from pipelines.ui import interruptible
from store.access.owner_token import owner_token
from store.access.sessions import signer
from store.config import Settings
from store.errors import ConfigError
from store.registry import HOST, register_ui

_ROOT = Path(__file__).resolve().parent.parent
_WORKSPACE = _ROOT / "workspace.yaml"
_DEFINITIONS = "pipelines.definitions"
_FINISH_S = 3  # for what is being answered when we are told to end
_GRACE_S = 15.0  # for the daemon to end
_BACKLOG = 128
_POLL_MS = 2_000  # how often a page asks for what is new, Dagster's own default


def serve(settings: Settings, port: int, on_ready: Callable[[str], None]) -> int:
    """Serve the pages on loopback until told to end; return 0, or 1 where the daemon ended first.

    `on_ready` is told a link that lets a browser in once. Raise ConfigError where the port is taken
    or the home's pages are served already.
    """
    access = Access(owner_token(settings), signer(owner_token(settings), settings), _now)
    target, words = _definitions()
    with (
        interruptible(),
        _listening(port) as listening,
        _daemon(words) as daemon,
        DagsterInstance.get() as instance,
        WorkspaceProcessContext(
            instance, target, dagster_version, code_server_log_level="WARNING"
        ) as context,
    ):
        pages = create_app_from_workspace_process_context(context, live_data_poll_rate=_POLL_MS)
        channels = Channels()
        app = guarded(pages, access, channels.know)
        server = channels_server(app, channels, finish_s=_FINISH_S)
        _end_with(daemon, server)
        with register_ui(settings, port):
            listening.listen(_BACKLOG)
            path, _ = access.login_path()
            on_ready(f"http://{HOST}:{port}{path}")
            server.run(sockets=[listening])
            return 0 if daemon.poll() is None else 1


def _definitions() -> tuple[WorkspaceLoadTarget, Sequence[str]]:
    """Return where the definitions are, for this process and in words for the daemon's.

    No module is looked for in the folder the caller stands in.
    """
    if _WORKSPACE.is_file():
        return WorkspaceFileTarget([str(_WORKSPACE)]), ["-w", str(_WORKSPACE)]
    # an installed wheel has no workspace.yaml
    target = ModuleTarget(_DEFINITIONS, None, str(_ROOT), None)
    return target, ["-m", _DEFINITIONS, "-d", str(_ROOT)]


@contextmanager
def _listening(port: int) -> Iterator[socket.socket]:
    """Take the port at once, so that nobody else has it when Dagster is loaded."""
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            taken.bind((HOST, port))
        except OSError:
            raise ConfigError(f"port {port} is taken: choose another with --port") from None
        yield taken


@contextmanager
def _daemon(definitions: Sequence[str]) -> "Iterator[subprocess.Popen[bytes]]":
    """Run Dagster's scheduler and sensors; they end with the block."""
    quiet = ["--log-level", "warning", "--code-server-log-level", "warning"]
    command = [sys.executable, "-P", "-m", "dagster._daemon", "run", *definitions, *quiet]
    process = subprocess.Popen(command)
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGINT if sys.platform != "win32" else signal.SIGTERM)
        try:
            process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _end_with(daemon: "subprocess.Popen[bytes]", server: uvicorn.Server) -> None:
    """End the server when the daemon has: pages of jobs that nothing runs would mislead."""

    def wait() -> None:
        daemon.wait()
        server.should_exit = True

    threading.Thread(target=wait, daemon=True).start()


def _now() -> int:
    return time.time_ns() // 1_000
