"""
The server process: one per user, on loopback, with its token.

The token is the owner's: made on first use, and refused where others may read it.
"""

import contextlib
import ctypes
import gc
import logging
import os
import secrets
import signal
import socket
import sys
from collections.abc import Callable

import waitress

from serve.app import MAX_BODY, create_app
from serve.tenants import OpenTenants, spawn_build
from store import tenant as tenants
from store.config import Settings
from store.errors import ConfigError
from store.files import replace_file
from store.log import EventLog
from store.registry import HOST, register, running

THREADS = 8
_M_ARENA_MAX = -8  # mallopt(3)


def _say(port: int) -> None:
    print(f"mnemolog listens on http://{HOST}:{port}", flush=True)


def run(
    settings: Settings, *, port: int | None = None, on_ready: Callable[[int], None] = _say
) -> None:
    """Serve until interrupted or told to end; what was gathered is written before.

    `on_ready` is given the port once it listens. Raise ConfigError where the port is taken or
    another server of this home runs.
    """
    os.umask(0o077)  # receipts and registry are their owner's alone
    _share_one_heap()
    port = settings.choices.port if port is None else port
    if (other := running(settings)) is not None:
        raise ConfigError(
            f"a server already runs on port {other.port} (process {other.pid}): stop it first"
        )
    token = owner_token(settings)
    _make_default(settings)
    listening = _listen(port)
    open_tenants = OpenTenants(settings, spawn_build(settings))
    open_tenants.get(settings.choices.tenant)  # opened before anybody is told we are ready
    app = create_app(open_tenants, token)
    server = waitress.create_server(
        app,
        sockets=[listening],
        threads=THREADS,
        max_request_body_size=MAX_BODY,
        ident=None,
        clear_untrusted_proxy_headers=True,
    )
    logging.getLogger("waitress.queue").setLevel(logging.ERROR)
    # what is there stays: looking it through for garbage again made the slowest answers slower
    gc.freeze()
    with register(settings, listening.getsockname()[1]):
        open_tenants.start()
        signal.signal(signal.SIGTERM, _interrupt)
        try:
            # whoever hears that we are ready may end us at once: it is caught from here on
            with contextlib.suppress(KeyboardInterrupt):
                on_ready(listening.getsockname()[1])
                server.run()
        finally:
            server.close()
            open_tenants.close()


def owner_token(settings: Settings) -> str:
    """Return the owner's token, made on first use, readable by the owner alone."""
    path = settings.token_file
    if not path.exists():
        replace_file(path, secrets.token_urlsafe(32).encode())
    elif os.name == "posix" and path.stat().st_mode & 0o077:
        raise ConfigError(f"{path} can be read by others: run `chmod 600 {path}`")
    token = path.read_text().strip()
    if not token:  # an empty one would let everybody in
        raise ConfigError(f"{path} is empty: delete it, and the next start makes a new one")
    return token


def _make_default(settings: Settings) -> None:
    tenant = tenants.tenant(settings.home, settings.choices.tenant)
    EventLog(tenant.log, create=True).close()


def _share_one_heap() -> None:
    """Let threads take memory from one heap: glibc gives each its own, which keeps its largest."""
    if sys.platform == "linux":
        with contextlib.suppress(AttributeError):  # a C library without this setting
            ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)


def _listen(port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    if os.name == "posix":  # elsewhere it would let a second server share the port
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port))
    except OSError as error:
        listening.close()
        raise ConfigError(
            f"port {port} is taken ({error.strerror}): choose another with --port, or set "
            "MNEMOLOG_PORT"
        ) from error
    listening.listen(128)
    return listening


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt
