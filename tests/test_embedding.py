"""The lexical embedder: unit vectors, the same everywhere, close for words that share letters."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from store.embedders import lexical
from store.embedders.embedder import make_embedder
from store.embedders.lexical import MAX_CHARACTERS, WHILE_ASKED, LexicalEmbedder
from store.home.errors import ConfigError


def vector(text: str) -> np.ndarray:
    return LexicalEmbedder().embed([text])[0]


@settings(deadline=None)
@given(st.lists(st.text(max_size=40), max_size=5))
def test_every_text_gives_a_unit_vector_or_zeros(texts: list[str]):
    vectors = LexicalEmbedder().embed(texts)
    assert vectors.shape == (len(texts), 256) and vectors.dtype == np.float32
    for length in np.linalg.norm(vectors, axis=1):
        assert length == 0 or length == pytest.approx(1, abs=1e-5)


@settings(deadline=None)
@given(st.lists(st.text(max_size=40), min_size=1, max_size=4))
def test_a_vector_does_not_depend_on_its_neighbours(texts: list[str]):
    together = LexicalEmbedder().embed(texts)
    np.testing.assert_array_equal(together, np.stack([vector(text) for text in texts]))


def test_texts_without_a_term_are_zeros():
    assert not vector("what is the").any() and not vector("").any()


def test_words_that_share_letters_lie_closer_than_words_that_do_not():
    query = vector("authentication")
    assert query @ vector("authenticated") > query @ vector("authority") > query @ vector("banana")


def test_a_vector_is_the_same_in_another_process(child):
    embedder = "from store.embedders.lexical import LexicalEmbedder as E"
    code = f"{embedder}\nprint(E().embed(['deploy it'])[0].sum())"
    assert child(code).communicate()[0].strip() == str(vector("deploy it").sum())


def test_only_the_beginning_of_a_long_text_is_read():
    start = "deploy the server " * (MAX_CHARACTERS // 18 + 1)
    np.testing.assert_array_equal(vector(start), vector(start + " and banana bread"))


def test_a_server_keeps_few_vectors_of_terms_at_hand_and_they_are_the_same(monkeypatch):
    monkeypatch.setattr(lexical, "_vocabulary", lexical._Vocabulary())
    texts = [" ".join(f"word{n:x}" for n in range(at, at + 64)) for at in range(0, 16_384, 64)]
    most = {}
    found = {}
    for who, model in (
        ("server", make_embedder("lexical", while_asked=True)),
        ("job", make_embedder("lexical")),
    ):
        for text in texts:
            found[who, text] = model.embed([text])
            most[who] = max(most.get(who, 0), len(lexical._vocabulary.vectors))
    assert WHILE_ASKED <= most["server"] <= 8_192
    assert 2 * WHILE_ASKED < most["job"]  # so a higher peak would have shown
    for text in texts:
        np.testing.assert_array_equal(found["server", text], found["job", text])


def test_a_question_is_embedded_while_another_tenants_long_text_is(monkeypatch):
    monkeypatch.setattr(lexical, "_vocabulary", lexical._Vocabulary())
    is_begun, may_end = threading.Event(), threading.Event()
    term_vectors = lexical._term_vectors

    def slowly(terms: list[str]) -> np.ndarray:
        if "flood" in terms:
            is_begun.set()
            may_end.wait(60)
        return term_vectors(terms)

    monkeypatch.setattr(lexical, "_term_vectors", slowly)
    flood = threading.Thread(target=vector, args=("flood",))
    flood.start()
    assert is_begun.wait(60) and vector("harbour lamps").any()
    assert flood.is_alive()  # the question did not wait for it
    may_end.set()
    flood.join()


def test_threads_that_meet_the_same_terms_give_them_one_vector(monkeypatch):
    monkeypatch.setattr(lexical, "_vocabulary", lexical._Vocabulary())
    texts = [" ".join(f"word{(at + n) % 3_000}" for n in range(300)) for at in range(0, 3_000, 100)]
    with ThreadPoolExecutor(8) as threads:
        together = list(threads.map(lambda text: vector(text), texts * 4))
    monkeypatch.setattr(lexical, "_vocabulary", lexical._Vocabulary())
    for text, found in zip(texts * 4, together, strict=True):
        np.testing.assert_array_equal(found, vector(text))


def test_an_unknown_embedder_lists_the_known_ones():
    assert make_embedder("lexical").model == LexicalEmbedder.model
    with pytest.raises(ConfigError, match="use one of lexical"):
        make_embedder("psychic")
