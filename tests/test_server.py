"""A real server process, called over loopback."""

import contextlib
import http.client
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from background import until

from serve.app import MAX_BODY
from store.home.config import Settings
from store.home.http_access import owner_token
from store.home.registry import live_server
from store.home.tenant import tenant
from store.log import commands
from store.log.commands import Draft
from store.log.event_log import EventLog
from store.log.events import Event
from store.plans import job_catalog

ROOT = Path(__file__).parents[1]
START = (
    "import sys; from serve.app import create_app; from serve.server.process import run; "
    "from store.home.config import load; run(load(), create_app, port=int(sys.argv[1]))"
)

# learns, and builds, after one quiet second
LEARNS_SOON = f"from serve.server import open_tenants; open_tenants.LEARN_IDLE_S = 1.0; {START}"
BUILDS_SOON = f"from serve.server import open_tenants; open_tenants.IDLE_S = 1.0; {START}"

posix = pytest.mark.skipif(os.name != "posix", reason="modes and signals of POSIX")


class Server:
    """A server process of one home; its output goes to a file beside the home."""

    def __init__(self, home: Path, port: int = 0, code: str = START, **environ: str) -> None:
        self.home = home
        self.output = home.with_name(f"output-{uuid4().hex}.txt")
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-c", code, str(port)],
                env=os.environ
                | {"MNEMOLOG_HOME": str(home), "PYTHONPATH": str(ROOT)}
                | {f"MNEMOLOG_{name.upper()}": value for name, value in environ.items()},
                stdout=output,
                stderr=output,
            )

    def ready(self) -> "Server":
        """Wait until the server prints its address."""
        until(lambda: "http://" in self.said() or self.process.poll() is not None)
        assert self.process.poll() is None, self.said()
        self.port = int(self.said().split("http://127.0.0.1:")[1].split()[0])
        self.token = (self.home / "token").read_text()
        return self

    def said(self) -> str:
        return self.output.read_text()

    def ask(self, path: str, body: object = None, **headers: str) -> tuple[int, Any]:
        """Return the status and the JSON of one request: a POST if it has a body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        ours = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        try:
            data = None if body is None else json.dumps(body)
            connection.request("GET" if data is None else "POST", path, data, ours | headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def add(self, content: str, **fields: object) -> str:
        status, answer = self.ask("/v1/memories", {"content": content, **fields})
        assert status == 201
        return answer["id"]

    def recall(self, query: str, **choices: object) -> Any:
        status, answer = self.ask("/v1/recall", {"query": query, **choices})
        assert status == 200, answer
        return answer

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(timeout=20)

    def log(self) -> list[Event]:
        with EventLog(tenant(self.home).log) as log:
            return list(log.read())

    def receipts(self) -> list[Event]:
        return [event for event in self.log() if event.kind == "recalled"]


Start = Callable[..., Server]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start servers of one home; kill the remaining ones at the end."""
    started: list[Server] = []

    def begin(port: int = 0, code: str = START, **environ: str) -> Server:
        started.append(Server(tmp_path / "home", port, code, **environ))
        return started[-1]

    yield begin
    for server in started:
        server.process.kill()
        server.process.wait()


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that nobody writes to, for tests of refused requests."""
    folder = tmp_path_factory.mktemp("quiet")
    with pytest.MonkeyPatch.context() as patch:
        for name in [variable for variable in os.environ if variable.startswith("MNEMOLOG_")]:
            patch.delenv(name)
        patch.setenv("HOME", str(folder))
        server = Server(folder / "home").ready()
    yield server
    server.process.kill()
    server.process.wait()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@posix
def test_server_files_are_private(start: Start):
    server = start().ready()
    server.add("the deploy runs at noon")
    assert mode(server.home) == 0o700
    for name in ("token", "server.json", "tenants/default/log.sqlite"):
        assert mode(server.home / name) == 0o600
    assert mode(server.home / "tenants/default") == 0o700
    assert len(server.token) >= 32


@posix
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_registry_tells_where_it_is_and_goes_with_it(start: Start, number: int):
    server = start().ready()
    registered = json.loads((server.home / "server.json").read_bytes())
    assert (registered["pid"], registered["port"]) == (server.process.pid, server.port)
    assert live_server(Settings(server.home)).port == server.port
    assert server.end(number) == 0
    assert not (server.home / "server.json").exists()
    assert live_server(Settings(server.home)) is None
    assert (server.home / "token").read_text() == server.token


def test_a_second_server_of_a_home_is_refused_and_harms_nothing(start: Start):
    server, second = start().ready(), start()
    assert second.process.wait(timeout=20) != 0
    assert f"already runs on port {server.port}" in second.said()
    assert live_server(Settings(server.home)).pid == server.process.pid
    assert server.ask("/health")[0] == 200


def test_a_taken_port_is_named_with_the_cure(start: Start):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        server = start(port)
        assert server.process.wait(timeout=20) != 0
    assert f"ConfigError: port {port} is taken" in server.said()
    assert "MNEMOLOG_PORT" in server.said()
    assert not (server.home / "server.json").exists()


def test_the_registry_of_a_killed_server_stops_no_other_of_the_same_token(start: Start):
    killed = start().ready()
    killed.end(signal.SIGKILL if os.name == "posix" else signal.SIGTERM)
    again = start().ready()
    assert again.token == killed.token
    assert again.ask("/health")[0] == 200


@posix
def test_a_port_another_program_took_over_is_not_mistaken_for_a_server(start: Start):
    killed = start().ready()
    killed.end(signal.SIGKILL)
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", killed.port))
        other.listen()
        assert live_server(Settings(killed.home)) is None


@pytest.mark.parametrize(
    ("spoil", "cure"),
    [
        pytest.param(lambda token: token.chmod(0o644), "chmod 600", marks=posix),
        (lambda token: token.write_text("\n"), "is empty"),
    ],
)
def test_a_token_that_others_can_read_or_that_is_empty_lets_no_server_start(
    start: Start, home: Path, spoil: Callable[[Path], object], cure: str
):
    owner_token(Settings(home))
    spoil(home / "token")
    server = start()
    assert server.process.wait(timeout=20) != 0
    assert cure in server.said()


@pytest.mark.skipif(sys.platform != "linux", reason="only there is all of 127/8 this machine")
def test_it_listens_on_one_address_alone(quiet: Server):
    port = quiet.port
    for address in ("127.0.0.2", socket.gethostbyname(socket.gethostname())):
        if address != "127.0.0.1":
            with socket.socket() as probe:
                assert probe.connect_ex((address, port)) != 0


def test_the_gate_stands_before_the_real_socket_too(quiet: Server):
    body = {"query": "x"}
    assert quiet.ask("/v1/recall", body, Host="evil.example")[0] == 421
    assert quiet.ask("/v1/recall", body, Origin="http://evil.example")[0] == 403
    assert quiet.ask("/v1/recall", body, Authorization="")[0] == 401
    assert quiet.ask("/v1/recall", body, **{"Content-Type": "text/plain"})[0] == 415
    forwarded = {"Host": "evil.example", "X-Forwarded-Host": "127.0.0.1"}
    assert quiet.ask("/v1/recall", body, **forwarded)[0] == 421
    assert quiet.log() == []


@pytest.mark.parametrize(
    "request_line",
    [b"POST /v1/recall HTTP/1.0\r\n", b"GET http://evil.example/v1/memories/x HTTP/1.1\r\n"],
)
def test_a_request_that_names_no_host_of_ours_is_refused(quiet: Server, request_line: bytes):
    with socket.create_connection(("127.0.0.1", quiet.port), timeout=10) as raw:
        raw.sendall(request_line + f"Authorization: Bearer {quiet.token}\r\n\r\n".encode())
        status = raw.recv(4_096).split()[1]
    assert status in (b"400", b"421")


def test_a_body_over_the_limit_is_not_even_read(quiet: Server):
    with socket.create_connection(("127.0.0.1", quiet.port), timeout=10) as raw:
        head = f"POST /v1/memories HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {MAX_BODY * 2}"
        raw.sendall(head.encode() + b"\r\n\r\n{")
        assert raw.recv(4_096).split()[1] == b"413"
    assert quiet.ask("/health")[0] == 200


def _open_files(pid: int) -> list[str]:
    """Return the names of the files that a process holds open.

    A descriptor that is closed during the listing is skipped.
    """
    names = []
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            names.append(os.readlink(descriptor))
    return names


@pytest.mark.skipif(sys.platform != "linux", reason="it looks at /proc")
def test_a_body_that_is_not_redacted_yet_lies_in_no_file(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    spool = tmp_path / "spool"
    spool.mkdir()
    monkeypatch.setenv("TMPDIR", str(spool))
    server = start().ready()
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as raw:
        head = f"POST /v1/memories HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {MAX_BODY - 1}"
        raw.sendall(head.encode() + b"\r\n\r\n" + b"x" * (MAX_BODY - 2))
        assert server.ask("/health")[0] == 200  # the earlier bytes were read before this
        files = _open_files(server.process.pid)
        assert [name for name in files if name.startswith(str(spool))] == []


def test_a_receipt_is_in_the_log_soon_after_an_answer_that_is_to_leave_one(start: Start):
    server = start().ready()
    id_ = server.add("the deploy runs at noon", project="shop")
    server.recall("quiet", touch=False)
    answer = server.recall("when is the deploy", project="shop")
    until(server.receipts)
    (receipt,) = server.receipts()
    assert receipt.body.query == "when is the deploy"
    assert [hit.id for hit in receipt.body.hits] == [id_]
    assert receipt.body.watermark == answer["watermark"] == 1
    assert receipt.project == "shop"


@posix
def test_no_receipt_is_lost_at_shutdown(start: Start):
    server = start().ready()
    for number in range(20):
        server.recall(f"question {number}")
    assert server.end() == 0
    assert [receipt.body.query for receipt in server.receipts()] == [
        f"question {n}" for n in range(20)
    ]


def test_sixteen_clients_are_all_answered(start: Start):
    server = start(build_after="0").ready()

    def talk(client: int) -> Counter[int]:
        statuses: Counter[int] = Counter()
        for number in range(12):
            body = {"id": f"c{client}-{number}", "content": f"client {client} saw tide {number}"}
            statuses[server.ask("/v1/memories", body)[0]] += 1
            query = {"query": f"client {client} tide {number}", "top_k": 50}
            while (response := server.ask("/v1/recall", query))[0] == 503:
                time.sleep(0.1)  # a machine too slow for all of them answers 503
            status, answer = response
            statuses[status] += 1
            assert body["id"] in [hit["id"] for hit in answer["hits"]]
        return statuses

    with ThreadPoolExecutor(16) as pool:
        statuses = sum(pool.map(talk, range(16)), Counter())
    assert statuses == {201: 16 * 12, 200: 16 * 12}
    until(lambda: len(server.receipts()) == 16 * 12)


@pytest.mark.skipif(find_spec("pipelines.__main__") is None, reason="there are no jobs to start")
def test_a_long_tail_is_built_while_nobody_asks(start: Start):
    server = start(code=BUILDS_SOON, build_after="3").ready()
    ids = [server.add(f"note {number} is about tides") for number in range(4)]
    head = tenant(server.home).head
    until(head.exists, timeout_s=90)
    until(lambda: server.recall("tides", touch=False)["manifest"] is not None)
    answer = server.recall("note about tides")
    assert {hit["id"] for hit in answer["hits"]} == set(ids)
    assert (answer["manifest"], answer["degraded"]) == (1, False)


@pytest.mark.skipif(find_spec("pipelines.__main__") is None, reason="there are no jobs to start")
def test_a_job_that_is_on_is_run_while_nobody_asks(start: Start):
    server = start(code=LEARNS_SOON).ready()
    server.add("the tide comes at noon")
    job_catalog.set_switches(tenant(server.home), ["distill"], on=True)
    learnt = tenant(server.home).root / "learn.log"
    until(lambda: learnt.exists() and b'{"jobs":' in learnt.read_bytes(), timeout_s=90)
    (run,) = json.loads(learnt.read_bytes().splitlines()[-1])["jobs"]
    assert (run["job"], run["outcome"], run["plan"]) == ("distill", "done", None)


def test_a_short_tail_is_left_alone(start: Start):
    server = start(code=BUILDS_SOON, build_after="3").ready()
    for number in range(2):
        server.add(f"note {number} is about tides")
    time.sleep(2.5)  # longer than the wait before a build
    assert not tenant(server.home).head.exists()
    assert not (tenant(server.home).root / "build.log").exists()


@pytest.mark.skipif(find_spec("pipelines.__main__") is None, reason="there are no jobs to start")
def test_what_waited_for_a_day_is_built_by_a_server_that_has_just_started(start: Start, home: Path):
    yesterday = time.time_ns() // 1000 - 25 * 3_600_000_000
    with EventLog(tenant(home).log, create=True) as log:
        commands.record(log, Draft(content="the tide comes at noon"), yesterday)
    start(code=BUILDS_SOON).ready()
    until(tenant(home).head.exists, timeout_s=90)
    assert (tenant(home).root / "upkeep.json").exists()
