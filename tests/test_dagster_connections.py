"""Opening connections to Dagster's pages and sending nothing keeps nobody else out."""

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from background import until
from starlette.responses import PlainTextResponse

from pipelines.orchestration import webserver
from pipelines.orchestration.webserver import Channels, make_server
from pipelines.orchestration.webserver_guard import Access, guard
from store.home import http_access
from store.home.config import Settings
from store.home.http_access import signer

TOKEN = "t" * 43
GET = f"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode()


@dataclass
class Pages:
    """Pages behind the guard, on a clock that the test moves."""

    port: int
    now: float = 1_000.0
    looks: int = 0
    opened: ExitStack = field(default_factory=ExitStack)

    def connect(self, sent: bytes = b"") -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=30)
        self.opened.enter_context(connection)
        connection.sendall(sent)
        return connection

    def pass_s(self, seconds: float) -> None:
        """Advance the clock between two looks at all open connections."""
        for wait_s in (0.0, seconds):
            self.now += wait_s
            looks = self.looks
            until(lambda seen=looks: self.looks > seen + 1)


@pytest.fixture
def pages(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pages]:
    monkeypatch.setattr(webserver, "_LOOK_EVERY", 1)  # a look every tick, not every second
    with socket.create_server(("127.0.0.1", 0)) as listening:
        guarded = Pages(listening.getsockname()[1])
        channels = Channels(lambda: guarded.now)
        look = channels.look

        def counted() -> None:
            look()
            guarded.looks += 1

        channels.look = counted
        access = Access(TOKEN, signer(TOKEN, Settings(home)), lambda: 0)
        app = guard(PlainTextResponse("here"), access, channels.know)
        served = make_server(app, channels, finish_s=1)
        thread = threading.Thread(target=served.run, kwargs={"sockets": [listening]})
        thread.start()
        until(lambda: served.started)
        with guarded.opened:
            yield guarded
        served.should_exit = True
        thread.join()


def is_hung_up(connection: socket.socket) -> bool:
    """Return True if a server hung up, waiting for that or for an answer."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def is_answered(connection: socket.socket) -> bool:
    return connection.recv(65_536).startswith(b"HTTP/1.1 200")


def test_who_sends_no_whole_request_is_hung_up_on(pages: Pages):
    silent, half = pages.connect(), pages.connect(GET[:40])
    pages.pass_s(http_access.FIRST_S)
    assert is_hung_up(silent)
    half.sendall(GET[40:])  # in time
    assert is_answered(half)
    half.sendall(GET[:40])
    pages.pass_s(http_access.REQUEST_S)
    assert is_hung_up(half)
    assert is_answered(pages.connect(GET))


def test_strangers_without_number_keep_nobody_out(pages: Pages, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(http_access, "STRANGERS", 4)
    owner = pages.connect(GET)
    assert is_answered(owner)
    strangers = [pages.connect() for _ in range(40)]
    assert all(map(is_hung_up, strangers[:36]))
    owner.sendall(GET)
    assert is_answered(owner) and is_answered(pages.connect(GET))
