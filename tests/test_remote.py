"""A model behind litellm: called over real HTTP, and every failure is an EmbedderError."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from embedding_server import DIMENSION, EmbeddingServer, vectors

from store.embedders.model_facts import KnownModels
from store.embedders.remote import Patience, RemoteEmbedder, dollars
from store.home.errors import EmbedderError

KEY = "sk-verysecret0123456789"
# litellm and its dependencies leave sockets and loops to the collector
pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddingServer]:
    server_ = EmbeddingServer()
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_BASE_URL", server_.url)
    yield server_
    server_.stop()


def model(home: Path | None = None, *, timeout_s: float = 20.0, pauses: int = 0, slept=None):
    patience = Patience(timeout_s, tuple(range(1, pauses + 1)))
    sleep = (slept if slept is not None else []).append
    return RemoteEmbedder("openai/tiny", KnownModels(home), patience, sleep)


def test_vectors_come_back_in_order_and_at_length_one(server: EmbeddingServer):
    texts = ["deploy at noon", "", "the cache is cold"]
    embedded = model().embed(texts)
    wanted = vectors(texts) / np.linalg.norm(vectors(texts), axis=1, keepdims=True).clip(1e-9)
    np.testing.assert_allclose(embedded, wanted, atol=1e-6)
    assert server.asked == [["deploy at noon", "the cache is cold"]]


def test_many_texts_go_in_several_requests(server: EmbeddingServer):
    vectors = model().embed([f"note {number}" for number in range(150)])
    assert vectors.shape == (150, DIMENSION)
    assert [len(texts) for texts in server.asked] == [64, 64, 22]


def test_the_dimension_is_learned_once_and_held_to(server: EmbeddingServer, tmp_path: Path):
    first = model(tmp_path)
    assert first.dimension == 0
    first.embed(["deploy"])
    assert model(tmp_path).dimension == DIMENSION
    server.width = 16
    with pytest.raises(EmbedderError, match="returned 16 dimensions, before 32"):
        model(tmp_path).embed(["deploy"])


def test_a_slow_model_is_given_up(server: EmbeddingServer):
    server.answer = "slowly"
    with pytest.raises(EmbedderError, match=r"openai/tiny: no answer within 0\.2 s"):
        model(timeout_s=0.2).embed(["deploy"])


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("error", "openai/tiny: InternalServerError"),
        ("refusal", "the key is missing or was refused"),
        ("nonsense", "openai/tiny"),
    ],
)
def test_embedding_errors_do_not_contain_the_key(server: EmbeddingServer, answer: str, said: str):
    server.answer = answer
    with pytest.raises(EmbedderError, match=said) as caught:
        model().embed(["deploy"])
    assert KEY not in str(caught.value) and "Bearer" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_model_that_is_not_there_is_an_error(server: EmbeddingServer):
    server.stop()
    with pytest.raises(EmbedderError, match="openai/tiny"):
        model().embed(["deploy"])


def test_a_job_tries_again_and_waits_longer_each_time(server: EmbeddingServer):
    server.answer = "error"
    slept: list[float] = []
    with pytest.raises(EmbedderError):
        model(pauses=2, slept=slept).embed(["deploy"])
    assert slept == [1, 2]
    assert len(server.asked) == 3


def test_one_overlong_text_is_cut_and_the_others_are_not(server: EmbeddingServer):
    server.most_characters = 1_000
    texts = ["deploy", "word " * 700, "cache"]
    vectors = model().embed(texts)
    wanted = model().embed(["deploy", texts[1][:875], "cache"])
    np.testing.assert_allclose(vectors, wanted, atol=1e-6)


def test_the_cost_is_told_where_litellm_lists_it():
    assert dollars("text-embedding-3-small", 4_000_000) == pytest.approx(0.02)
    assert dollars("openai/text-embedding-3-small", 4_000_000) == pytest.approx(0.02)
    assert dollars("ollama/nobody-knows-it", 1_000) is None
