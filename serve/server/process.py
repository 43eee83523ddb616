"""
The server process: one per home, on loopback, behind the owner's token.

It ends on request, after a long time without requests, and when its registry file is gone; running
requests are finished first, and pending notes are written.
"""

import gc
import logging
import math
import os
import secrets
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import msgspec
import waitress
from flask import Blueprint, Flask, Response
from waitress.task import ThreadedTaskDispatcher

from serve.server import request_guard
from serve.server.ingest_worker import fact_reader
from serve.server.open_tenants import OpenTenants, build_starter
from serve.server.periodic import Periodic
from serve.server.replication import Replication
from serve.server.request_guard import MAX_BODY, owner_only
from serve.server.syncing import Syncing
from store.home import tenant as tenants
from store.home.config import Choices, Settings
from store.home.errors import ConfigError, LogError
from store.home.files import is_gone
from store.home.http_access import CONNECTIONS, Connections, owner_token
from store.home.registry import HOST, Server, keep_current, register, sole
from store.log.event_log import EventLog

log = logging.getLogger("mnemolog")

LOOK_S = 1.0  # between checks whether to end
FINISH_S = 5.0  # for running requests after the stop request
# how long a computing thread keeps a waiting thread off the interpreter, at each step that releases
# it: a recall has a dozen such steps, so beside long texts being indexed the usual 5 ms cost it 60
SWITCH_S = 0.001
MAX_HEAD = 64 << 10


def _print_address(port: int) -> None:
    print(f"mnemolog listens on http://{HOST}:{port}", flush=True)


def run(
    settings: Settings,
    create_app: Callable[[OpenTenants, str], Flask],
    *,
    port: int | None = None,
    on_ready: Callable[[int], None] = _print_address,
    idle_exit_s: int = 0,
    elsewhere: bool = False,
) -> None:
    """Serve until told to end, or idle for `idle_exit_s`; pending notes are written first.

    `on_ready` is given the port once it listens. If the port is taken, `elsewhere` takes any free
    port; otherwise, and if another server of this home runs, raise ConfigError.
    """
    os.umask(0o077)  # receipts and registry are their owner's alone
    with sole(settings):
        token = owner_token(settings)
        _make_default(settings)
        listening = _listen(settings.choices.port if port is None else port, elsewhere)
        open_tenants = OpenTenants(
            settings, build_starter(settings), read_facts=fact_reader(settings)
        )
        open_tenants.get(settings.choices.tenant)  # opened before anyone is told that we are ready
        ours = _describe_server(listening, idle_exit_s, settings.choices)
        ending = threading.Event()
        app = create_app(open_tenants, token)
        app.register_blueprint(control_blueprint(ours, ending.set))
        request_guard.reject_late_requests(app, is_late)
        server = waitress.create_server(
            app,
            sockets=[listening],
            _dispatcher=Dispatcher(RANKING if open_tenants.embedder.is_local else WAITING),
            connection_limit=CONNECTIONS,
            asyncore_use_poll=hasattr(select, "poll"),  # select() knows no handle above 1,023
            max_request_header_size=MAX_HEAD,
            max_request_body_size=MAX_BODY,
            # a body is kept in memory, never put into a file: nothing has redacted it yet
            inbuf_overflow=2 * MAX_BODY,
            ident=None,
            clear_untrusted_proxy_headers=True,
        )
        connections = Connections(server.active_channels, time.monotonic)
        request_guard.notify_known_callers(app, lambda: connections.know(current_channel()))
        logging.getLogger("waitress.queue").setLevel(logging.ERROR)
        # existing objects stay: collecting them again made the slowest answers slower
        gc.freeze()
        gc.enable()
        sys.setswitchinterval(SWITCH_S)

        def is_left() -> bool:
            keep_current(settings, ours, open_tenants.settings.choices.answers_by)
            # a server without its file cannot be found, for example when the home was deleted
            return is_gone(settings.server_file) or 0 < idle_exit_s <= open_tenants.idle_s()

        syncing = Syncing(lambda: open_tenants.settings)
        open_tenants.bring_in = syncing.bring_in
        beside = (
            Periodic("replica", Replication(lambda: open_tenants.settings).send),
            Periodic("sync", syncing.look),
        )
        with register(settings, ours):
            open_tenants.start()
            for thread in beside:
                thread.start()
            # a client may end us as soon as we are ready: signals are caught from here on
            _end_on_signal(server, ending)
            try:
                on_ready(ours.port)
                _serve_until_done(server, connections, ending, is_left)
            finally:
                server.close()
                open_tenants.close()
                for thread in reversed(beside):
                    thread.close()


def _describe_server(listening: socket.socket, idle_exit_s: int, choices: Choices) -> Server:
    port = listening.getsockname()[1]
    now = time.time_ns() // 1000
    instance = secrets.token_hex(16)
    return Server(os.getpid(), port, now, instance, idle_exit_s, choices.answers_by)


def _serve_until_done(
    server: Any, connections: Connections, ending: threading.Event, is_left: Callable[[], bool]
) -> None:
    """Serve until the end, then finish the running requests; waitress has no such loop."""

    def turn(timeout_s: float) -> None:
        server.asyncore.loop(timeout_s, server.adj.asyncore_use_poll, server._map, count=1)

    looked_at = -math.inf
    while not ending.is_set():
        now = time.monotonic()
        if now - looked_at >= LOOK_S:  # a check at every turn took a tenth of the time
            if is_left():
                break
            connections.look()
            looked_at = now
        turn(LOOK_S)
        connections.make_room()
    deadline = time.monotonic() + FINISH_S
    while time.monotonic() < deadline and any(
        channel.requests or channel.total_outbufs_len for channel in server.active_channels.values()
    ):
        turn(0.05)
    server.task_dispatcher.shutdown()


def _end_on_signal(server: Any, ending: threading.Event) -> None:
    def end(number: int, frame: object) -> None:
        ending.set()
        server.pull_trigger()

    signal.signal(signal.SIGTERM, end)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # a shell's background job
        signal.signal(signal.SIGINT, end)


def _make_default(settings: Settings) -> None:
    tenant = tenants.tenant(settings.home, settings.choices.tenant)
    try:
        EventLog(tenant.log, create=True).close()
    except LogError:
        if not tenant.exists:  # else opening it reports the error, or it answers without its log
            raise


def _listen(port: int, elsewhere: bool) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    if os.name == "posix":  # on Windows it would let a second server share the port
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port))
    except OSError as error:
        if not elsewhere:
            listening.close()
            raise ConfigError(
                f"port {port} is taken ({error.strerror}): choose another with --port, or set "
                "MNEMOLOG_PORT"
            ) from error
        listening.bind((HOST, 0))
        log.warning("port %d is taken: set another with MNEMOLOG_PORT", port)
    listening.listen(128)
    return listening


# The owner's routes that identify a server among other programs, and stop it.


def control_blueprint(server: Server, end: Callable[[], None]) -> Blueprint:
    """Return the control routes of a server; `end` is called on a stop request, and returns."""
    routes = Blueprint("control", __name__)
    data = msgspec.json.encode(server)
    routes.before_request(owner_only)

    @routes.get("/v1/server")
    def who() -> Response:
        return Response(data, mimetype="application/json")

    @routes.post("/v1/server/stop")
    def stop() -> Response:
        end()
        return Response(data, HTTPStatus.ACCEPTED, mimetype="application/json")

    return routes


# Admission: the next request of each thread; requests that waited too long are refused.
#
# Recalls have two threads of their own. Ranking needs the interpreter's lock, so more at once would
# finish no sooner, only all of them later; with a remote embedding model there are more, as most of
# them wait for it. Hooks have their own as well, because a host waits for them: writes that wait
# for another process's lock on the log do not delay them. All other requests, such as long batches,
# take no thread from either.
#
# A recall that found no thread free and waited `_RECALL_S` is answered 503 with Retry-After: its
# answer would be late, and so would those behind it. Waiting costs no thread, and refusing costs a
# thirtieth of a recall (B. Maurer, Fail at Scale, ACM Queue 13(8), 2015,
# https://queue.acm.org/detail.cfm?id=2839461).

_HOOKS = "/v1/hooks/"
_RECALLS = frozenset({"/v1/recall", "/v1/memories/search"})
RANKING, WAITING = 2, 8  # recalls at once: with a model on this machine, and with one elsewhere
_RECALL_S = 0.04
_HOOK_THREADS, _HOOK_S = 4, 1.0  # each is answered within 0.2 s, and a host gives up after a second
_OTHER_THREADS, _OTHERS_S = 6, 5.0

_turn = threading.local()


def is_late() -> bool:
    """Return True if this thread's request waited too long for its turn."""
    return getattr(_turn, "is_late", False)


def current_channel() -> Any:
    """Return the connection of this thread's request; None outside of waitress."""
    return getattr(_turn, "channel", None)


class Dispatcher:
    """The dispatcher that waitress hands its channels to, once each has a request."""

    def __init__(self, recalls: int, clock: Callable[[], float] = time.monotonic) -> None:
        """`recalls` is the number of recalls answered at once; `clock` gives monotonic seconds."""
        self._recalls = _Lane(recalls, _RECALL_S, clock)
        self._hooks = _Lane(_HOOK_THREADS, _HOOK_S, clock)
        self._others = _Lane(_OTHER_THREADS, _OTHERS_S, clock)

    def add_task(self, channel: Any) -> None:
        path = getattr(channel.requests[0], "path", "")  # an unreadable request has none
        if path in _RECALLS:
            self._recalls.add_task(channel)
        elif path.startswith(_HOOKS):
            self._hooks.add_task(channel)
        else:
            self._others.add_task(channel)

    def shutdown(self) -> None:
        for lane in (self._recalls, self._hooks, self._others):
            lane.shutdown()


class _Lane(ThreadedTaskDispatcher):  # type: ignore[misc]  # waitress has no types
    """Threads that take the queued requests in order."""

    def __init__(self, threads: int, patience_s: float, clock: Callable[[], float]) -> None:
        super().__init__()
        self._patience_s, self._clock = patience_s, clock
        self.set_thread_count(threads)

    def add_task(self, channel: Any) -> None:
        # with a free thread the request waits only for the machine, and a refusal helps nobody
        is_alone = len(self.queue) < len(self.threads) - self.stop_count - self.active_count
        patience_s = math.inf if is_alone else self._patience_s
        super().add_task(_Waiting(channel, self._clock() + patience_s, self._clock))


class _Waiting:
    """A channel that waits for its turn, and its deadline."""

    def __init__(self, channel: Any, until: float, clock: Callable[[], float]) -> None:
        self._channel, self._until, self._clock = channel, until, clock

    def service(self) -> None:
        _turn.is_late, _turn.channel = self._clock() > self._until, self._channel
        self._channel.service()

    def cancel(self) -> None:
        self._channel.cancel()
