"""Recall over real HTTP while the embedding server behind it is killed and comes back."""

import http.client
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from embedding_server import EmbeddingServer
from werkzeug.serving import make_server

from serve.app import create_app
from serve.recall.query_embedder import PAUSE_S
from serve.server.open_tenants import OpenTenants
from store.embedders.embedder import make_embedder
from store.home.config import Choices, Settings
from store.log import commands
from store.log.commands import Draft
from store.log.event_log import EventLog
from store.maintenance import build

NOW = 1_790_000_000_000_000
TOKEN = "secret"
NAME = "litellm:openai/tiny"
# litellm and its dependencies leave sockets and loops to the collector
pytestmark = pytest.mark.filterwarnings("default")


class Memory:
    """A server of one home over HTTP, whose pauses end on the test's clock."""

    def __init__(self, home: Path, log: EventLog) -> None:
        self.log, self.now = log, 0.0
        self.tenants = OpenTenants(Settings(home, Choices(embedder=NAME)), clock=lambda: self.now)
        self._server = make_server("127.0.0.1", 0, create_app(self.tenants, TOKEN), threaded=True)
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def recall(self, query: str = "ship the release") -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self._server.port, timeout=30)
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        body = json.dumps({"query": query, "min_confidence": 0, "explain": True})
        try:
            connection.request("POST", "/v1/recall", body, headers)
            answer = connection.getresponse()
            assert answer.status == 200
            return json.loads(answer.read())
        finally:
            connection.close()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self.tenants.close()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddingServer]:
    server = EmbeddingServer()
    monkeypatch.setenv("OPENAI_API_KEY", "sk-0123456789abcdef0123")
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    yield server
    server.stop()


@pytest.fixture
def memory(server: EmbeddingServer, home: Path, tenant, log) -> Iterator[Memory]:
    texts = ("the release ships at noon", "the cache is cold", "anna likes small commits")
    commands.record_batch(log, [Draft(content=text) for text in texts], NOW)
    build.rebuild(tenant, log, make_embedder(NAME, home), NOW)
    memory_ = Memory(home, log)
    yield memory_
    memory_.close()


def test_recall_answers_by_words_while_the_embedder_is_down_and_recovers_by_itself(
    memory: Memory, server: EmbeddingServer
):
    assert not memory.recall()["degraded"]
    server.stop()
    down = memory.recall("when does the release ship")
    assert down["degraded"] and down["notices"][0].startswith("no vectors: openai/tiny: ")
    assert down["hits"][0]["text"] == "the release ships at noon"
    assert not memory.recall()["degraded"]  # its vector is still cached
    server.start()
    assert memory.recall("when does the release ship")["degraded"]  # the pause is not over
    memory.now += PAUSE_S
    assert not memory.recall("when does the release ship")["degraded"]


def test_an_embedder_that_is_down_is_asked_once_and_not_at_every_recall(
    memory: Memory, server: EmbeddingServer
):
    server.answer = "error"
    count = len(server.asked)
    assert all(memory.recall(f"release {number}")["degraded"] for number in range(5))
    assert len(server.asked) == count + 1


def test_memories_written_while_the_embedder_is_down_are_found_by_words(
    memory: Memory, server: EmbeddingServer
):
    memory.recall()
    server.stop()
    commands.record(memory.log, Draft(content="the release needs two approvals"), NOW)
    texts = [hit["text"] for hit in memory.recall("release approvals")["hits"]]
    assert "the release needs two approvals" in texts


def test_a_server_answers_while_its_model_is_being_loaded(memory: Memory, server: EmbeddingServer):
    server.answer = "slowly"
    loading = memory.tenants.embedder.load()
    answer = memory.recall()
    assert answer["hits"] and answer["degraded"]
    assert answer["notices"] == ["no vectors: litellm-1/openai/tiny is being loaded"]
    server.answer = "well"
    server.released.set()
    assert loading is not None
    loading.join()
    memory.now += PAUSE_S
    assert not memory.recall()["degraded"]
