"""A server under overload: slow clients, floods, nested bodies and late requests."""

import http.client
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest
from test_server import Server, Start, quiet, start

from serve.app import MAX_BODY, create_app
from serve.server import process, request_guard
from serve.server import process as server_process
from serve.server.open_tenants import OpenTenants
from serve.server.process import Dispatcher, is_late
from store.home import http_access
from store.home.config import Settings
from store.home.http_access import Connections

__all__ = ["quiet", "start"]  # the fixtures of test_server

SLOW = 200
HEAD = "POST /v1/recall HTTP/1.1\r\nHost: 127.0.0.1\r\n"


def resident_mib(server: Server) -> float:
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def begun(server: Server, stack: ExitStack, data: str) -> socket.socket:
    """Open a connection and send the beginning of a request."""
    raw = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=20))
    raw.sendall(data.encode())
    return raw


def status_of(raw: socket.socket) -> bytes:
    return raw.recv(4_096).split()[1]


@pytest.mark.parametrize("sent", [HEAD + "X-Slow: ", HEAD + "Content-Length: 90000\r\n\r\n{"])
def test_two_hundred_who_dribble_a_request_keep_nobody_waiting(start: Start, sent: str):
    server = start().ready()
    id_ = server.add("the deploy runs at noon")
    before = resident_mib(server) if sys.platform == "linux" else 0.0
    with ExitStack() as stack:
        slow = [begun(server, stack, sent) for _ in range(SLOW)]
        for _ in range(3):
            for connection in slow:
                connection.sendall(b"x")
            assert [hit["id"] for hit in server.recall("when is the deploy")["hits"]] == [id_]
        if before:
            assert resident_mib(server) - before < 50
    assert server.ask("/health")[0] == 200


class Connected(SimpleNamespace):
    """The fields of a connection that the server reads."""

    __hash__ = object.__hash__
    __eq__ = object.__eq__

    def handle_close(self) -> None:
        self.will_close = True


def closing(there: dict[int, Connected]) -> list[bool]:
    return [connection.will_close for connection in there.values()]


def channels(*coming: object) -> dict[int, Connected]:
    return {
        number: Connected(request=request, requests=[], will_close=False)
        for number, request in enumerate(coming)
    }


def test_incomplete_requests_are_disconnected():
    there, now = channels("half a request", None, None), [1_000.0]
    connections = Connections(there, lambda: now[0])
    connections.know(there[1])
    connections.look()
    now[0] += http_access.FIRST_S
    connections.look()
    assert closing(there) == [False, False, True]
    there[1].request = "a new one"  # a new request has a time limit of its own
    now[0] += http_access.REQUEST_S - http_access.FIRST_S
    connections.look()
    assert closing(there) == [True, False, True]


def test_unauthenticated_connections_are_dropped_oldest_first(monkeypatch):
    monkeypatch.setattr(http_access, "STRANGERS", 2)
    there = channels(None, None, None, None, None)
    connections = Connections(there, lambda: 0.0)
    connections.know(there[0])
    there[1].requests.append("is being answered")
    connections.make_room()
    assert closing(there) == [False, False, True, True, False]


def test_connections_without_a_token_stay_unauthenticated(home: Path):
    calls: list[int] = []
    app = create_app(OpenTenants(Settings(home)), "t")
    request_guard.notify_known_callers(app, lambda: calls.append(1))
    client = app.test_client()
    for path, token in (("/health", ""), ("/v1/memories", "wrong"), ("/v1/memories", "t")):
        client.get(path, headers={"Host": "127.0.0.1", "Authorization": f"Bearer {token}"})
    assert calls == [1]


def test_a_flood_of_header_fields_is_refused(quiet: Server):
    with ExitStack() as stack:
        raw = begun(quiet, stack, HEAD)
        raw.sendall(b"X-Flood: " + b"x" * server_process.MAX_HEAD + b"\r\n\r\n")
        assert status_of(raw) == b"431"
    assert quiet.ask("/health")[0] == 200


def test_a_body_over_the_limit_is_refused_for_each_of_many(quiet: Server):
    with ExitStack() as stack:
        sent = HEAD + f"Content-Length: {MAX_BODY + 1}\r\n\r\n" + "x" * 10_000
        for connection in [begun(quiet, stack, sent) for _ in range(20)]:
            assert status_of(connection) == b"413"
    assert quiet.ask("/health")[0] == 200


@pytest.mark.parametrize(
    "body",
    [
        '{"query": ' + "[" * 100_000,
        '{"query": ' + "[" * 100_000 + "]" * 100_000 + "}",
        '{"a":' * 100_000 + "1" + "}" * 100_000,
        '{"content": "x", "metadata": ' + '{"a":' * 100_000 + "1" + "}" * 100_000 + "}",
    ],
)
def test_json_nested_a_hundred_thousand_deep_is_refused(quiet: Server, body: str):
    for path in ("/v1/recall", "/v1/memories", "/mcp", "/v1/hooks/claude-code"):
        connection = http.client.HTTPConnection("127.0.0.1", quiet.port, timeout=30)
        ours = {"Authorization": f"Bearer {quiet.token}", "Content-Type": "application/json"}
        connection.request("POST", path, body, ours)
        answer = connection.getresponse()
        data = answer.read()
        connection.close()
        assert answer.status < 500, (path, data[:200])
    assert quiet.ask("/health")[0] == 200


def test_a_request_that_waited_too_long_is_told_when_to_come_back(home: Path):
    open_tenants = OpenTenants(Settings(home))
    app = create_app(open_tenants, "token")
    request_guard.reject_late_requests(app, lambda: True)
    owner = {"Authorization": "Bearer token"}
    answer = app.test_client().post("/v1/recall", json={"query": "x"}, headers=owner)
    assert (answer.status_code, answer.json["code"]) == (503, "overloaded")
    assert int(answer.headers["Retry-After"]) > 0
    assert answer.mimetype == "application/problem+json"
    # without a token, the answer is that of a quiet day
    assert app.test_client().post("/v1/recall", json={"query": "x"}).status_code == 401


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


@dataclass
class Channel:
    """A stand-in for waitress's channel that holds its thread until `may_end` is set."""

    path: str
    answered: list[tuple[str, bool]]
    may_end: threading.Event = field(default_factory=threading.Event)
    begun: threading.Event = field(default_factory=threading.Event)

    @property
    def requests(self) -> list[object]:
        return [SimpleNamespace(path=self.path)]

    def service(self) -> None:
        self.begun.set()
        assert self.may_end.wait(120)
        self.answered.append((self.path, is_late()))

    def cancel(self) -> None:
        self.may_end.set()


class Clock:
    """A clock that the test moves."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock_s() -> Clock:
    return Clock()


@pytest.fixture
def waiting(clock_s: Clock) -> Iterator[Callable[[str], Channel]]:
    """Yield a function that adds a request to the queue."""
    those, answered, added = Dispatcher(process.RANKING, clock_s), [], []

    def add(path: str) -> Channel:
        added.append(Channel(path, answered))
        those.add_task(added[-1])
        return added[-1]

    yield add
    for task in added:
        task.may_end.set()
    those.shutdown()


def test_slow_requests_do_not_delay_recalls(waiting: Callable[[str], Channel]):
    busy = [waiting("/v1/memories/batch") for _ in range(20)]
    recall = waiting("/v1/recall")
    assert recall.begun.wait(120)
    assert sum(task.begun.is_set() for task in busy) < 20


def test_slow_requests_do_not_delay_hooks(waiting: Callable[[str], Channel]):
    for _ in range(20):
        waiting("/v1/memories")
    hook = waiting("/v1/hooks/claude-code")
    assert hook.begun.wait(120)


def test_a_recall_that_waited_too_long_is_late_and_the_next_is_not(
    waiting: Callable[[str], Channel], clock_s: Clock
):
    first = [waiting("/v1/recall") for _ in range(process.RANKING)]
    for task in first:
        assert task.begun.wait(120)
    late = waiting("/v1/recall")
    clock_s.now += process._RECALL_S + 0.01
    soon = waiting("/v1/recall")
    for task in (*first, late, soon):
        task.may_end.set()
    while len(soon.answered) < len(first) + 2:
        assert soon.begun.wait(120)
    assert sorted(is_late for _, is_late in soon.answered) == [False] * (len(first) + 1) + [True]


def test_a_single_client_is_never_late(clock_s: Clock, monkeypatch: pytest.MonkeyPatch):
    answered: list[tuple[str, bool]] = []
    channel, is_released = Channel("/v1/recall", answered), threading.Event()
    those = Dispatcher(process.RANKING, clock_s)
    service = process._Waiting.service

    def slowly(task: process._Waiting) -> None:  # as on a busy machine
        assert is_released.wait(120)
        service(task)

    monkeypatch.setattr(process._Waiting, "service", slowly)
    until(lambda: those._recalls.active_count == 0)  # its threads have started
    those.add_task(channel)
    clock_s.now += 10 * process._RECALL_S
    channel.may_end.set()
    is_released.set()
    until(lambda: answered)
    those.shutdown()
    assert answered == [("/v1/recall", False)]


def test_a_write_waits_longer_than_a_recall():
    assert process._OTHERS_S > 10 * process._RECALL_S


def test_a_request_that_could_not_be_read_has_its_turn_too(waiting: Callable[[str], Channel]):
    assert waiting("").begun.wait(120)
