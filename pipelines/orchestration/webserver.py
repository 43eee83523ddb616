"""
Dagster's pages and its daemon in one process group, behind the request guard.

`dagster dev` would do the same, but accepts every caller on its port, and its web server can be put
behind neither a Unix socket nor a header. So its application is served here, guarded, in this
process: nothing else listens.
"""

import asyncio
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import h11
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
from uvicorn.protocols.http.h11_impl import H11Protocol

from pipelines.orchestration.dagster_home import JOB, interruptible
from pipelines.orchestration.webserver_guard import Access, guard
from store.home.config import Settings
from store.home.errors import ConfigError
from store.home.http_access import CONNECTIONS, Connections, owner_token, signer
from store.home.registry import HOST, register_ui
from store.log.event_clock import wall_clock
from store.plans.job_catalog import jobs_on

_ROOT = Path(__file__).resolve().parents[2]
_WORKSPACE = _ROOT / "workspace.yaml"
_DEFINITIONS = "pipelines.definitions"
_FINISH_S = 3  # for open requests at shutdown
_GRACE_S = 15.0  # for the daemon to end
_BACKLOG = 128
_SWITCHES_S = 5.0  # between two looks at the switches of jobs
_POLL_MS = 2_000  # between two polls of a page for news, Dagster's own default


def serve(settings: Settings, port: int, on_ready: Callable[[str], None]) -> int:
    """Serve the pages on loopback until stopped; return 0, or 1 if the daemon ended first.

    `on_ready` gets a link that lets a browser in once. Raise ConfigError where the port is taken
    or the home's pages are served already.
    """
    access = Access(owner_token(settings), signer(owner_token(settings), settings), wall_clock)
    target, words = _definitions()
    with (
        interruptible(),
        _bind_port(port) as listening,
        DagsterInstance.get() as instance,
        WorkspaceProcessContext(
            instance, target, dagster_version, code_server_log_level="WARNING"
        ) as context,
        _daemon(words) as daemon,  # last: it takes as long to load, and pages do not wait for it
        _follow_switches(context, settings),
    ):
        pages = create_app_from_workspace_process_context(context, live_data_poll_rate=_POLL_MS)
        channels = Channels()
        app = guard(pages, access, channels.know)
        server = make_server(app, channels, finish_s=_FINISH_S)
        _end_with(daemon, server)
        with register_ui(settings, port):
            listening.listen(_BACKLOG)
            path, _ = access.login_path()
            on_ready(f"http://{HOST}:{port}{path}")
            server.run(sockets=[listening])
            return 0 if daemon.poll() is None else 1


def _definitions() -> tuple[WorkspaceLoadTarget, Sequence[str]]:
    """Return the place of the definitions, for this process and as the daemon's arguments.

    No module is looked up in the caller's current folder.
    """
    if _WORKSPACE.is_file():
        return WorkspaceFileTarget([str(_WORKSPACE)]), ["-w", str(_WORKSPACE)]
    # an installed wheel has no workspace.yaml
    target = ModuleTarget(_DEFINITIONS, None, str(_ROOT), None)
    return target, ["-m", _DEFINITIONS, "-d", str(_ROOT)]


@contextmanager
def _bind_port(port: int) -> Iterator[socket.socket]:
    """Take the port at once, before Dagster is loaded, so that no other process gets it."""
    with socket.socket() as bound:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind((HOST, port))
        except OSError:
            raise ConfigError(f"port {port} is taken: choose another with --port") from None
        yield bound


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


@contextmanager
def _follow_switches(context: WorkspaceProcessContext, settings: Settings) -> Iterator[None]:
    """While the block runs, start and stop the jobs' schedules as `mnemolog jobs` switches them."""
    is_over = threading.Event()

    def follow() -> None:
        before: frozenset[str] | None = None
        while True:
            if (on := jobs_on(settings.home)) != before:
                switch_schedules(context, on)
                before = on
            if is_over.wait(_SWITCHES_S):
                return

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def switch_schedules(context: WorkspaceProcessContext, on: Set[str]) -> None:
    """Start the schedules of these jobs, and stop all others."""
    instance = context.instance
    for location in context.create_request_context().code_locations:
        for repository in location.get_repositories().values():
            for schedule in repository.get_schedules():
                if (job := schedule.tags.get(JOB)) is None:
                    continue
                state = instance.get_instigator_state(
                    schedule.get_remote_origin_id(), schedule.selector_id
                )
                if schedule.get_current_instigator_state(state).is_running == (job in on):
                    continue
                if job in on:
                    instance.start_schedule(schedule)
                else:
                    instance.stop_schedule(
                        schedule.get_remote_origin_id(), schedule.selector_id, schedule
                    )


def _end_with(daemon: "subprocess.Popen[bytes]", server: uvicorn.Server) -> None:
    """Stop the server when the daemon ends: pages of jobs that no longer run would mislead."""

    def wait() -> None:
        daemon.wait()
        server.should_exit = True

    threading.Thread(target=wait, daemon=True).start()


# Connections, bounded as the recall server's are.
#
# uvicorn waits for a request without limit and counts unknown clients among all: a client with
# enough connections locks the owner out. So each HTTP connection is watched as one of
# `store.home.http_access`; one that became a WebSocket passed the guard and is not.

_LOOK_EVERY = 10  # of uvicorn's ticks: a second


class Channels:
    """The open connections by their peer's address, in the order of their opening."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` gives seconds that never go back."""
        self._open: dict[Any, Channel] = {}
        self._connections = Connections(self._open, clock)
        self.look = self._connections.look

    def add(self, channel: "Channel") -> None:
        self._open[channel.client] = channel
        self._connections.make_room()

    def drop(self, channel: "Channel") -> None:
        if self._open.get(channel.client) is channel:
            del self._open[channel.client]

    def know(self, client: object) -> None:
        """Record that a request from a peer's address passed the guard."""
        if (channel := self._open.get(client)) is not None:
            self._connections.know(channel)


class Channel(H11Protocol):
    """A connection that reports its requests and answers to `Connections`."""

    channels: Channels  # a server's, set by `server`
    _coming: object | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.channels.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.channels.drop(self)
        super().connection_lost(exc)

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        self.channels.drop(self)
        super().handle_websocket_upgrade(event)

    def on_response_complete(self) -> None:
        self._coming = None
        super().on_response_complete()

    @property
    def request(self) -> object | None:
        """The incomplete request, the same object until it is complete."""
        state = self.conn.their_state
        is_begun = state is h11.IDLE and bool(self.conn.trailing_data[0])
        if not is_begun and state is not h11.SEND_BODY:
            self._coming = None
        elif self._coming is None:
            self._coming = object()
        return self._coming

    @property
    def requests(self) -> bool:
        """True while a request is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

    @property
    def will_close(self) -> bool:
        return self.transport.is_closing()

    @will_close.setter
    def will_close(self, wanted: bool) -> None:
        if wanted:
            self.handle_close()

    def handle_close(self) -> None:
        """Abort the connection; unsent data is lost."""
        self.transport.abort()


class Server(uvicorn.Server):
    """A server that looks at its connections every second."""

    def __init__(self, config: uvicorn.Config, channels: Channels) -> None:
        super().__init__(config)
        self._channels = channels

    async def on_tick(self, counter: int) -> bool:
        if counter % _LOOK_EVERY == 0:
            self._channels.look()
        return await super().on_tick(counter)


def make_server(app: Any, channels: Channels, *, finish_s: int) -> Server:
    """Return a server of `app`; at shutdown it waits `finish_s` for open requests."""
    config = uvicorn.Config(
        app,
        http=type("Channel", (Channel,), {"channels": channels}),
        log_level="warning",
        server_header=False,
        proxy_headers=False,
        limit_concurrency=CONNECTIONS,
        timeout_graceful_shutdown=finish_s,
    )
    return Server(config, channels)
