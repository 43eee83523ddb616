"""The client for programs, against a real server and a faulty one."""

import asyncio
import http.server
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import mnemolog
import pytest
from mnemolog import Client
from mnemolog.connection import Connection
from test_server import Server, Start, start

__all__ = ["start"]  # the fixture of test_server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that tests share; no test owns its default tenant."""
    folder = tmp_path_factory.mktemp("served")
    with pytest.MonkeyPatch.context() as patch:
        for name in [variable for variable in os.environ if variable.startswith("MNEMOLOG_")]:
            patch.delenv(name)
        patch.setenv("HOME", str(folder))
        server = Server(folder / "home", build_after="0").ready()
    yield server
    server.process.kill()
    server.process.wait()


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    """A client that finds the server by itself, in a tenant of its own."""
    name = f"t{uuid4().hex}"
    with Client(home=server.home) as owner:
        owner.tenants.create(name)
    with Client(home=server.home, tenant=name) as client:
        yield client


def test_what_is_recorded_is_recalled_and_rated(client: Client):
    memory = client.record("Deploys go out from eu-west-1 only", kind="decision", tags=["deploy"])
    assert memory.new
    answer = client.recall("where do deploys go out from")
    assert [hit.id for hit in answer.hits] == [memory.id]
    assert (answer.hits[0].kind, answer.hits[0].tags) == ("decision", ("deploy",))
    assert answer.hits[0].at.tzinfo is not None
    assert client.rate(answer.recall, 1.0, reason="it did").id == answer.recall


def test_hits_and_lists_carry_metadata(client: Client):
    metadata = {"ticket": "OPS-7", "owners": ["ana"], "nested": {"deep": 1}}
    client.record("Deploys go out from eu-west-1 only", metadata=metadata)
    client.record("Nobody deploys on Fridays")
    hits = client.recall("deploys", min_confidence=0.0).hits
    assert sorted((hit.metadata for hit in hits), key=len) == [{}, metadata]
    assert [memory.metadata for memory in client.memories.list(sort="created_at")] == [metadata, {}]


def test_a_request_with_the_same_key_is_carried_out_once(client: Client):
    first = client.record("The deploy runs at noon", idempotency_key="k1")
    again = client.record("The deploy runs at noon", idempotency_key="k1")
    assert (first.new, again.new, first.id) == (True, False, again.id)
    with pytest.raises(mnemolog.Conflict) as refused:
        client.record("Something else", idempotency_key="k1")
    assert refused.value.code == "idempotency_mismatch"


def test_a_batch_is_recorded_wholly_or_not_at_all(client: Client):
    drafts = [{"content": f"Note {number} is about tides"} for number in range(3)]
    assert len(client.record_batch(drafts)) == 3
    with pytest.raises(mnemolog.Invalid) as refused:
        client.record_batch([{"content": "A fourth note"}, {"content": ""}])
    assert (refused.value.code, refused.value.status) == ("junk_text", 400)
    assert "memories[1]" in str(refused.value)
    assert len(client.recall("note about tides", min_confidence=0.0).hits) == 3


def test_a_memory_is_changed_by_who_read_it_last(client: Client):
    id_ = client.record("The deploy runs at noon").id
    read = client.memories.get(id_)
    changed = client.memories.patch(id_, etag=read.etag, content="The deploy runs at one")
    assert (changed.text, changed.etag != read.etag) == ("The deploy runs at one", True)
    with pytest.raises(mnemolog.Changed):
        client.memories.patch(id_, etag=read.etag, content="The deploy runs at two")
    assert client.memories.get(id_).text == "The deploy runs at one"


def test_a_memory_is_forgotten_and_restored(client: Client):
    id_ = client.record("The deploy runs at noon").id
    client.memories.forget(id_, reason="no longer true")
    assert client.memories.get(id_).state == "forgotten"
    assert client.recall("when does the deploy run").hits == ()
    assert client.memories.restore(id_).text == "The deploy runs at noon"


def test_a_key_has_a_history(client: Client):
    client.record("We deploy to us-east-1", key="deploy.region", value="us")
    client.record("We deploy to eu-west-1", key="deploy.region", value="eu")
    newest, oldest = client.memories.history_of_key("deploy.region").memories
    assert (newest.value, newest.until, oldest.value) == ("eu", None, "us")
    assert oldest.until is not None and oldest.from_ <= oldest.until


def test_a_key_takes_a_new_value_and_the_same_one_only_once(client: Client):
    put = client.memories.upsert
    first = put("deploy.region", "We deploy to us-east-1", value="us", tags=["ops"])
    assert put("deploy.region", "We deploy to us-east-1", value="us", tags=["ops"]) == first
    elsewhere = put("deploy.region", "We deploy to us-east-1", value="us", project="acme/web")
    second = put("deploy.region", "We deploy to us-east-1", value="eu")
    assert len({first, second, elsewhere}) == 3
    memories = client.memories.list(key="deploy.region")
    assert {memory.id for memory in memories} == {second, elsewhere}
    history = client.memories.history_of_key("deploy.region").memories
    assert {first, second} <= {value.id for value in history}


def test_requests_are_awaited_at_once(server: Server):
    async def talk() -> None:
        async with mnemolog.AsyncClient(home=server.home) as memory:
            memories = [memory.record(f"Note {number} is about tides") for number in range(60)]
            ids = {memory.id for memory in await asyncio.gather(*memories)}
            assert {listed_memory.id async for listed_memory in memory.memories.list()} == ids
            assert {memory_["id"] async for memory_ in memory.export()} == ids
            assert len((await memory.recall("tides", min_confidence=0.0)).hits) > 1
            with pytest.raises(mnemolog.NotFound):
                await memory.memories.get("nothing")

    asyncio.run(talk())


def test_a_list_goes_on_from_page_to_page(client: Client):
    client.record_batch([{"content": f"Note {number} is about tides"} for number in range(120)])
    client.record("We deploy to eu-west-1", kind="decision")
    assert (
        len({memory.id for memory in client.memories.list(kind=["fact"], sort="created_at")}) == 120
    )
    [decision] = client.memories.list(text="deploy")
    assert (decision.kind, decision.text) == ("decision", "We deploy to eu-west-1")


def test_ingested_memories_are_recorded_soon(client: Client):
    accepted = client.ingest(
        [{"content": "The deploy runs at noon"}, {"content": "..."}], project="acme/web"
    )
    job = client.jobs.wait(accepted.id)
    assert (job.items, job.refused, len(job.because)) == (2, 1, 1)
    recorded, refused = job.ids
    assert refused is None
    assert client.memories.get(recorded).project == "acme/web"
    assert [short.id for short in client.jobs.list(state="done")] == [job.id]


def test_a_recall_leaves_a_receipt(client: Client):
    id_ = client.record("The deploy runs at noon").id
    answer = client.recall("when does the deploy run")
    [receipt] = client.receipts.list(memory=id_)
    assert (receipt.id, receipt.as_hit.rank) == (answer.recall, 1)
    assert client.receipts.get(receipt.id).hits[0].memory.text == "The deploy runs at noon"


def test_export_returns_all_memories(client: Client):
    client.record_batch([{"content": f"Note {number} is about tides"} for number in range(300)])
    forgotten = client.record("The deploy runs at noon").id
    client.memories.forget(forgotten)
    assert len({memory["id"] for memory in client.export()}) == 300
    assert {memory["id"] for memory in client.export(all_states=True)} >= {forgotten}
    lines = client.export()
    next(lines)
    lines.close()  # the unread rest disturbs no other request
    assert client.health().status == "ok"


def test_a_tenant_has_tokens_that_open_it_alone(start: Start):
    server = start(build_after="0").ready()
    with Client(home=server.home) as client:
        client.record("Of the default tenant")
        assert client.tenants.create("acme").tenant == "acme"
        created = client.tenants.create_token("acme", ("read", "write"), label="ci")
        with Client(f"http://127.0.0.1:{server.port}", created.token, tenant="default") as theirs:
            theirs.record("The deploy of acme runs at noon")
            [hit] = theirs.recall("deploy of the default tenant", min_confidence=0.0).hits
            assert hit.text == "The deploy of acme runs at noon"
            with pytest.raises(mnemolog.NotFound):
                theirs.tenants.get("default")
            with pytest.raises(mnemolog.Forbidden):
                theirs.tenants.create("other")
            assert client.tenants.stats("acme").active == 1
            assert [token.name for token in client.tenants.tokens("acme")] == ["ci"]
            assert client.tenants.revoke_token("acme", created.id).state == "revoked"
            with pytest.raises(mnemolog.Unauthorized):
                theirs.recall("anything")
        assert client.tenants.delete("acme").tokens == 0
        assert [tenant.tenant for tenant in client.tenants.list()] == ["default"]


def test_operations_without_a_method_are_reached_by_path(client: Client):
    client.record("Answer within 40 ms", kind="goal")
    [goal] = client.ask("GET", "/v1/goals", query={})["goals"]
    assert goal["text"] == "Answer within 40 ms"


def test_unknown_ids_raise_not_found(client: Client):
    with pytest.raises(mnemolog.NotFound) as refused:
        client.memories.get("a/b c")
    assert refused.value.code == "not_found"
    assert refused.value.instance


def test_an_unknown_tenant_is_not_found(server: Server, client: Client):
    with Client(home=server.home, tenant="other") as other, pytest.raises(mnemolog.NotFound):
        other.recall("anything")


def test_a_wrong_token_raises_unauthorized(server: Server):
    with (
        Client(f"http://127.0.0.1:{server.port}", "wrong") as client,
        pytest.raises(mnemolog.Unauthorized),
    ):
        client.recall("anything")


def test_the_address_and_the_token_come_together():
    with pytest.raises(mnemolog.Error, match="asks for a token"):
        Client("http://127.0.0.1:7437")
    with pytest.raises(mnemolog.Error, match="needs the server's address"):
        Client(token="x")
    with pytest.raises(mnemolog.Error, match="no address"):
        Client("ftp://127.0.0.1", "x")


def test_without_a_server_it_says_how_to_start_one(home: Path):
    with pytest.raises(mnemolog.NoServer, match="mnemolog start"):
        Client(home=home)


@pytest.mark.skipif(os.name != "posix", reason="elsewhere to ask would end it")
def test_a_port_another_program_took_over_gets_no_token(home: Path):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    home.mkdir()
    (home / "token").write_text("secret")
    (home / "server.json").write_text(json.dumps({"pid": ended.pid, "port": 1}))
    with pytest.raises(mnemolog.NoServer, match="has ended"):
        Client(home=home)


def test_threads_share_a_client(client: Client):
    def talk(number: int) -> str:
        client.record(f"Client {number} saw a tide", id=f"c{number}")
        return client.memories.get(f"c{number}").text

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(talk, range(40)))
    assert answers == [f"Client {number} saw a tide" for number in range(40)]


def test_a_server_that_was_started_again_is_asked_again(start: Start):
    first = start().ready()
    url = f"http://127.0.0.1:{first.port}"
    with Client(url, first.token) as client:
        assert client.health().status == "ok"
        first.end()
        start(first.port).ready()
        assert client.record("The deploy runs at noon").new


class Odd:
    """A server that returns prepared answers, one for each request."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, dict[str, str], bytes]] = []
        self.asked: list[tuple[str, str, dict[str, str]]] = []
        odd = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _answer(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                odd.asked.append((self.command, self.path, dict(self.headers)))
                status, headers, body = odd.answers.pop(0)
                if not status:
                    self.connection.shutdown(socket.SHUT_RDWR)
                    self.close_connection = True
                    return
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = do_DELETE = do_PATCH = _answer

            def log_message(self, *words: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,))
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


BUSY = (503, {"Retry-After": "2"}, b'{"code": "overloaded", "detail": "too much"}')
ACK = (201, {}, b'{"id": "a", "seq": 1, "new": true, "of a later server": 1}')
GONE = (0, {}, b"")


@pytest.fixture
def odd() -> Iterator[Odd]:
    odd = Odd()
    yield odd
    odd.close()


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waits between the client's retries, in seconds; the client does not really sleep."""
    waits: list[float] = []
    plain_init = Connection.__init__
    monkeypatch.setattr(
        Connection,
        "__init__",
        lambda self, *of, **named: plain_init(self, *of, **named, sleep=waits.append),
    )
    return waits


@pytest.fixture
def asking(odd: Odd, slept: list[float]) -> Iterator[Client]:
    with Client(f"http://127.0.0.1:{odd.server.server_port}/behind/", "token") as client:
        yield client


def test_a_busy_server_is_asked_again_when_it_says(asking: Client, odd: Odd, slept: list[float]):
    odd.answers = [BUSY, (429, {"Retry-After": "7"}, b"{}"), ACK]
    assert asking.record("x").id == "a"
    assert slept == [2.0, 7.0]
    keys = {headers["Idempotency-Key"] for _, _, headers in odd.asked}
    assert len(keys) == 1  # every retry is the same request
    assert {path for _, path, _ in odd.asked} == {"/behind/v1/memories"}


def test_a_dropped_connection_is_retried_if_safe(asking: Client, odd: Odd, slept: list[float]):
    odd.answers = [GONE, GONE, ACK]
    assert asking.record("x").id == "a"
    assert 0.05 <= slept[0] <= 0.1 <= slept[1] <= 0.2
    odd.answers = [GONE, ACK]
    with pytest.raises(mnemolog.Unreachable):
        asking.proposals.reject("p")
    assert len(odd.answers) == 1


def test_retries_are_limited(asking: Client, odd: Odd, slept: list[float]):
    odd.answers = [BUSY] * 9
    with pytest.raises(mnemolog.Unavailable) as refused:
        asking.recall("x")
    assert (len(odd.asked), refused.value.retry_after_s) == (4, 2.0)
    assert str(refused.value) == "too much"


def test_a_change_that_is_refused_is_not_sent_again(asking: Client, odd: Odd, slept: list[float]):
    odd.answers = [BUSY]
    with pytest.raises(mnemolog.Unavailable):
        asking.memories.patch("a", content="x")
    assert slept == []


@pytest.mark.parametrize("body", [b"<html>Bad gateway</html>", b"", b"[1]", b"\xff"])
def test_an_error_of_another_server_is_an_error_too(asking: Client, odd: Odd, body: bytes):
    odd.answers = [(502, {"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}, body)]
    with pytest.raises(mnemolog.Failed) as refused:
        asking.recall("x")
    assert (refused.value.status, refused.value.code) == (502, "")


def test_an_answer_that_is_none_of_ours_is_an_error(asking: Client, odd: Odd):
    odd.answers = [(200, {}, b"<html>")]
    with pytest.raises(mnemolog.Unreadable):
        asking.recall("x")


def test_a_silent_server_times_out(odd: Odd):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with (
            Client(url, "token", timeout_s=0.05, retries=0) as client,
            pytest.raises(mnemolog.Unreachable),
        ):
            client.recall("x")


def test_it_is_light_to_import():
    code = (
        "import sys, mnemolog; "
        "print([one for one in ('numpy', 'pyarrow', 'flask', 'apsw', 'store', 'serve') "
        "if one in sys.modules])"
    )
    folder = Path(mnemolog.__file__).parents[1]
    run: Callable[..., str] = subprocess.check_output
    text = run(
        [sys.executable, "-P", "-c", code], env=os.environ | {"PYTHONPATH": str(folder)}, text=True
    )
    assert text == "[]\n"
