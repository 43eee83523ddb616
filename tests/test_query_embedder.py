"""Recall never waits twice for a model that is down, and uses it again once it is back."""

import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait

import numpy as np
import pytest

from serve.recall.query_embedder import KEPT, PAUSE_S, QueryEmbedder
from store.embedders.lexical import LexicalEmbedder
from store.home.errors import EmbedderError


class Model:
    """A slow model that records its texts, and fails while `is_well` is False."""

    model, dimension, is_cheap, is_local = "slow-1", 256, False, True

    def __init__(self, *, is_well: bool = True) -> None:
        self.is_well = is_well
        self.asked: list[str] = []
        self.may_answer = threading.Event()
        self.may_answer.set()

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        self.asked += texts
        self.may_answer.wait(30)
        if not self.is_well:
            raise EmbedderError("slow-1: no answer within 2 s")
        return LexicalEmbedder().embed(texts)

    def embed_queries(self, texts):
        return self.embed(texts)

    def knows(self, text):
        return True


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_query_asked_again_costs_no_model():
    embedder = QueryEmbedder(model := Model(), Clock())
    first, again = embedder.embed(["deploy"]), embedder.embed(["deploy"])
    np.testing.assert_array_equal(first, again)
    assert model.asked == ["deploy"]


def test_a_query_and_a_passage_of_one_text_are_kept_apart():
    class Prefixed(Model):
        def embed_queries(self, texts):
            return -self.embed(texts)

    embedder = QueryEmbedder(model := Prefixed(), Clock())
    for _ in range(2):
        np.testing.assert_array_equal(embedder.embed(["key"]), -embedder.embed_queries(["key"]))
    assert model.asked == ["key", "key"]


def test_while_a_model_is_being_loaded_every_script_counts_as_known():
    class English(Model):
        def knows(self, text):
            return text.isascii()

    model = English()
    model.may_answer.clear()
    thread = (embedder := QueryEmbedder(model, Clock())).load()
    assert embedder.knows("ключ")
    model.may_answer.set()
    thread.join()
    assert embedder.knows("key") and not embedder.knows("ключ")


def test_only_the_last_queries_are_kept():
    embedder = QueryEmbedder(model := Model(), Clock())
    for number in range(KEPT):
        embedder.embed([f"query {number}"])
    embedder.embed(["query 0"])  # used again, so that query 1 is evicted next
    embedder.embed(["one more"])
    model.asked.clear()
    embedder.embed(["query 0", "query 1"])
    assert model.asked == ["query 1"]


def test_a_dead_model_costs_one_try_until_the_pause_is_over():
    embedder = QueryEmbedder(model := Model(is_well=False), clock := Clock())
    for number in range(5):
        with pytest.raises(EmbedderError, match="no answer within 2 s"):
            embedder.embed([f"query {number}"])
    assert model.asked == ["query 0"]
    clock.now += PAUSE_S
    with pytest.raises(EmbedderError):
        embedder.embed(["query 5"])
    assert model.asked == ["query 0", "query 5"]


def test_it_recovers_by_itself():
    embedder = QueryEmbedder(model := Model(is_well=False), clock := Clock())
    with pytest.raises(EmbedderError):
        embedder.embed(["deploy"])
    model.is_well = True
    clock.now += PAUSE_S
    assert embedder.embed(["deploy"]).any()
    assert embedder.embed(["cache"]).any()


def test_what_was_asked_before_is_answered_while_the_model_is_down():
    embedder = QueryEmbedder(model := Model(), Clock())
    before = embedder.embed(["deploy"])
    model.is_well = False
    with pytest.raises(EmbedderError):
        embedder.embed(["cache"])
    np.testing.assert_array_equal(embedder.embed(["deploy"]), before)


def test_while_one_tries_again_the_others_do_not_wait():
    embedder = QueryEmbedder(model := Model(is_well=False), clock := Clock())
    with pytest.raises(EmbedderError):
        embedder.embed(["first"])
    clock.now += PAUSE_S
    model.is_well = True
    model.may_answer.clear()
    trying = threading.Thread(target=lambda: embedder.embed(["second"]))
    trying.start()
    while "second" not in model.asked:
        pass
    with pytest.raises(EmbedderError):
        embedder.embed(["third"])
    model.may_answer.set()
    trying.join()
    assert embedder.embed(["third"]).any()


class Gated(Model):
    """A model that answers each text once its own gate is open."""

    def __init__(self, *closed: str) -> None:
        super().__init__()
        self.gates = {text: threading.Event() for text in closed}

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        self.asked += texts
        for text in texts:
            assert text not in self.gates or self.gates[text].wait(30)
        if not self.is_well:
            raise EmbedderError("slow-1: no answer within 2 s")
        return LexicalEmbedder().embed(texts)


def asked_by(threads: int, embedder: QueryEmbedder, text: str, model: Model) -> list[Future]:
    """Embed one text from several threads; return their futures once all of them wait."""
    pool = ThreadPoolExecutor(threads)
    asking = [pool.submit(embedder.embed, [text]) for _ in range(threads)]
    pool.shutdown(wait=False)
    while text not in model.asked:
        pass
    wait(asking, timeout=0.2)  # enough time for a second call of the model
    return asking


def test_a_text_that_several_ask_for_at_once_is_embedded_once():
    embedder = QueryEmbedder(model := Gated("deploy"), Clock())
    asking = asked_by(4, embedder, "deploy", model)
    model.gates["deploy"].set()
    answers = [answer.result(30) for answer in asking]
    assert model.asked == ["deploy"]
    for answer in answers:
        np.testing.assert_array_equal(answer, LexicalEmbedder().embed(["deploy"]))


def test_queries_do_not_wait_for_embeddings_of_other_texts():
    embedder = QueryEmbedder(model := Gated("deploy"), Clock())
    asking = asked_by(2, embedder, "deploy", model)
    assert embedder.embed(["cache"]).any()
    assert not any(answer.done() for answer in asking)
    model.gates["deploy"].set()
    wait(asking)


def test_waiting_queries_get_the_embedding_error():
    embedder = QueryEmbedder(model := Gated("deploy"), clock := Clock())
    asking = asked_by(3, embedder, "deploy", model)
    model.is_well = False
    model.gates["deploy"].set()
    for answer in asking:
        with pytest.raises(EmbedderError, match="no answer within 2 s"):
            answer.result(30)
    assert model.asked == ["deploy"]
    clock.now += PAUSE_S
    model.is_well = True
    assert embedder.embed(["deploy"]).any()


def test_recall_goes_on_while_the_model_is_being_loaded():
    embedder = QueryEmbedder(model := Model(), Clock())
    model.may_answer.clear()
    loading = embedder.load()
    with pytest.raises(EmbedderError, match="slow-1 is being loaded"):
        embedder.embed(["deploy"])
    model.may_answer.set()
    assert loading is not None
    loading.join()
    assert embedder.embed(["deploy"]).any()


def test_the_lexical_embedder_needs_no_loading():
    assert QueryEmbedder(LexicalEmbedder(), Clock()).load() is None


class Remote(Model):
    is_local = False


def test_a_model_elsewhere_that_never_answers_is_left_and_not_asked_again_at_once():
    model = Remote()
    model.may_answer.clear()
    embedder = QueryEmbedder(model, Clock(), patience_s=0.01)
    with pytest.raises(EmbedderError, match=r"slow-1: no answer within 0\.01 s"):
        embedder.embed(["deploy"])
    with pytest.raises(EmbedderError, match=r"no answer within 0\.01 s"):
        embedder.embed(["rollback"])
    assert model.asked == ["deploy"]
    model.may_answer.set()


def test_an_answer_that_comes_late_is_kept_for_who_asks_next():
    model = Remote()
    model.may_answer.clear()
    embedder = QueryEmbedder(model, Clock(), patience_s=0.01)
    with pytest.raises(EmbedderError):
        embedder.embed(["deploy"])
    late = embedder._asking.get("deploy")
    model.may_answer.set()
    if late is not None:
        late.result(30)
    np.testing.assert_array_equal(embedder.embed(["deploy"]), LexicalEmbedder().embed(["deploy"]))
    assert model.asked == ["deploy"]


@pytest.mark.parametrize("model", [Model(), Remote()])
def test_a_vector_wanted_by_a_time_is_done_without_and_kept_for_who_asks_next(model: Model):
    model.may_answer.clear()
    embedder = QueryEmbedder(model, Clock())
    with pytest.raises(EmbedderError, match=r"slow-1: no answer within 0\.01 s"):
        embedder.query_vector("deploy", by=0.01)
    model.may_answer.set()
    while embedder._asking:
        threading.Event().wait(0.01)
    wanted = LexicalEmbedder().embed_queries(["deploy"])[0]
    np.testing.assert_array_equal(embedder.query_vector("deploy", by=0.0), wanted)
    assert embedder.embed_queries(["rollback"]).any()  # no pause
    assert model.asked == ["deploy", "rollback"]
