"""The stdio bridge as a host runs it: a real process, a real server that it starts itself."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest
from background import ROOT, end, mnemolog, said
from mcp_client import ENVELOPE, META, MODERN, message

from store.home.config import Settings
from store.home.files import replace_file
from store.home.registry import Server, live_server

BRIDGE = ROOT / "serve" / "mcp_bridge.py"
LATEST_S = 60.0
INITIALIZE = message(
    "initialize",
    {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "Some Host", "version": "1"},
    },
)


@pytest.fixture(autouse=True)
def _ended(home: Path) -> Iterator[None]:
    yield
    end(home)


class Pipe:
    """A host's end of the bridge's pipe."""

    def __init__(self, home: Path, *words: str, cwd: Path | None = None) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(BRIDGE), "--home", str(home), *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            cwd=cwd,
        )

    def send(self, *messages: object) -> None:
        for line in messages:
            self.process.stdin.write((line if isinstance(line, str) else json.dumps(line)) + "\n")
        self.process.stdin.flush()

    def read(self) -> dict[str, Any]:
        return json.loads(self.process.stdout.readline())

    def ask(self, method: str, params: object = None, id_: object = 1) -> dict[str, Any]:
        self.send(message(method, params, id_))
        answer = self.read()
        assert answer["id"] == id_
        return answer

    def call(self, tool: str, **arguments: object) -> dict[str, Any]:
        answer = self.ask("tools/call", {"name": tool, "arguments": arguments})
        return answer["result"]["structuredContent"]

    def end(self) -> list[dict[str, Any]]:
        """Close the pipe, check that the bridge exits cleanly and return its remaining messages."""
        out, err = self.process.communicate(timeout=LATEST_S)
        assert (self.process.returncode, err) == (0, "")
        return [json.loads(line) for line in out.splitlines()]


class Recorder(BaseHTTPRequestHandler):
    """A server that records the headers of each request and returns a fixed answer."""

    answer = b'{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18"}}'
    kind = "application/json"

    def do_POST(self) -> None:
        self.server.seen.append(
            (self.headers, self.rfile.read(int(self.headers["Content-Length"])))
        )
        self.send_response(200)
        self.send_header("Content-Type", self.kind)
        self.send_header("Content-Length", str(len(self.answer)))
        self.end_headers()
        self.wfile.write(self.answer)

    def log_message(self, *words: object) -> None:
        pass


@pytest.fixture
def recorder(home: Path) -> Iterator[ThreadingHTTPServer]:
    """Run a `Recorder` as the home's server."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Recorder)
    server.seen = []
    registry = Server(os.getpid(), server.server_port, 0, "")
    replace_file(home / "server.json", msgspec.json.encode(registry))
    replace_file(home / "token", b"secret")
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield server
    (home / "server.json").unlink()
    server.shutdown()
    server.server_close()
    thread.join()


def test_it_starts_the_server_and_finds_the_one_that_takes_its_place(home: Path):
    pipe = Pipe(home)
    assert pipe.ask("initialize", INITIALIZE["params"])["result"]["serverInfo"]
    pipe.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
    first = live_server(Settings(home))
    assert first is not None
    id_ = pipe.call("remember", content="We deploy to eu-west-1")["id"]
    said("stop")
    assert pipe.call("recall", query="where do we deploy?")["memories"][0]["id"] == id_
    second = live_server(Settings(home))
    assert second is not None and second.pid != first.pid
    assert pipe.end() == []


def test_the_command_is_the_bridge_and_knows_where_it_runs(home: Path, tmp_path: Path):
    repository = tmp_path / "shop ünd more"
    subprocess.run(["git", "init", "-q", str(repository)], check=True)
    said("start")
    sent = "".join(
        json.dumps(request) + "\n"
        for request in (INITIALIZE, message("tools/call", {"name": "recent"}, 2))
    )
    completed = subprocess.run(
        [sys.executable, "-P", "-m", "serve.cli", "mcp"],
        input=sent.encode(),
        capture_output=True,
        cwd=repository,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        timeout=LATEST_S,
    )
    answers = {answer["id"]: answer for answer in map(json.loads, completed.stdout.splitlines())}
    assert (completed.returncode, completed.stderr, answers.keys()) == (0, b"", {1, 2})
    assert answers[1]["result"]["protocolVersion"] == "2025-06-18"

    pipe = Pipe(home, cwd=repository)
    id_ = pipe.call("remember", content="The cash desk closes at noon")["id"]
    pipe.end()
    assert mnemolog("show", id_).stdout.count("shop-nd-more@")


def test_the_bridge_sends_the_headers_of_the_newest_revision(recorder, home: Path, tmp_path: Path):
    pipe = Pipe(home, "--tenant", "work", cwd=tmp_path)
    for method, params in (
        ("tools/call", {"name": "recall", "_meta": ENVELOPE}),
        ("resources/read", {"uri": "memory://ünknown", "_meta": ENVELOPE}),
    ):
        pipe.ask(method, params)
    pipe.end()
    (first, _), (second, _) = recorder.seen
    assert first["MCP-Protocol-Version"] == ENVELOPE[META + "protocolVersion"] == MODERN
    assert (first["Mcp-Method"], first["Mcp-Name"]) == ("tools/call", "recall")
    assert (first["Authorization"], first["X-Mnemolog-Tenant"]) == ("Bearer secret", "work")
    assert first["X-Mnemolog-Cwd"] == str(tmp_path)
    assert second["Mcp-Name"] == "=?base64?bWVtb3J5Oi8vw7xua25vd24=?="


def test_the_bridge_sends_the_negotiated_version(recorder, home: Path):
    pipe = Pipe(home)
    pipe.send(INITIALIZE)
    pipe.read()
    pipe.ask("tools/list")
    pipe.end()
    headers, _ = recorder.seen[1]
    assert (headers["MCP-Protocol-Version"], headers["User-Agent"]) == ("2025-06-18", "Some-Host")


def test_progress_is_passed_on_line_by_line(recorder, home: Path, monkeypatch):
    progress = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": 1}}
    last = {"jsonrpc": "2.0", "id": 1, "result": {}}
    events = (f"event: message\ndata: {json.dumps(event)}\n\n" for event in (progress, last))
    monkeypatch.setattr(Recorder, "answer", "".join(events).encode())
    monkeypatch.setattr(Recorder, "kind", "text/event-stream")
    pipe = Pipe(home)
    pipe.send(message("tools/call", {"name": "x"}))
    assert pipe.end() == [progress, last]


def test_a_refusal_that_is_no_mcp_is_an_error_under_the_requests_id(recorder, home, monkeypatch):
    monkeypatch.setattr(Recorder, "answer", b'{"error":{"code":"no_token","message":"stale"}}')
    pipe = Pipe(home)
    pipe.send(message("ping", id_="a"), {"jsonrpc": "2.0", "method": "notifications/x"})
    (answer,) = pipe.end()
    assert (answer["id"], answer["error"]["code"]) == ("a", -32603)
    assert "stale" in answer["error"]["message"]


def test_all_that_was_asked_is_answered_before_it_ends(home: Path):
    said("start")
    pipe = Pipe(home)
    pipe.send(*(message("tools/list", id_=number) for number in range(40)))
    assert {answer["id"] for answer in pipe.end()} == set(range(40))


def test_invalid_json_is_an_error_and_the_next_line_is_answered(recorder, home: Path):
    pipe = Pipe(home)
    pipe.send("{", "", "[" * 100_000)
    assert [pipe.read()["error"]["code"] for _ in range(2)] == [-32700, -32700]
    pipe.send(message("ping"))
    assert [answer["id"] for answer in pipe.end()] == [1]


def test_without_a_server_that_could_be_started_the_answer_says_what_to_do(tmp_path: Path):
    home = tmp_path / "no folder"
    home.write_text("a file stands where the home should be")
    pipe = Pipe(home)
    pipe.send(message("ping"), {"jsonrpc": "2.0", "method": "notifications/initialized"})
    (answer,) = pipe.end()
    assert (answer["id"], answer["error"]["code"]) == (1, -32000)
    assert "mnemolog start" in answer["error"]["message"]


def test_the_bridge_ends_when_its_host_does(recorder, home: Path):
    pipe = Pipe(home)
    pipe.process.stdout.close()
    pipe.send(message("ping"))
    assert pipe.process.wait(LATEST_S) == 0
    pipe.process.stdin.close()
    pipe.process.stderr.close()


def test_what_is_no_request_is_answered_too_and_one_too_long_is_not_kept(home: Path):
    said("start")
    pipe = Pipe(home)
    pipe.send([message("ping")], 7, {"jsonrpc": "2.0", "id": {"a": 1}, "method": "ping"})
    assert {pipe.read()["error"]["code"] for _ in range(3)} == {-32600}
    pipe.send('{"a": "' + "x" * (12 << 20) + '"}', message("ping", id_="after"))
    answers = {answer["id"]: answer for answer in pipe.end()}
    assert answers[None]["error"]["code"] == -32700 and "result" in answers["after"]
