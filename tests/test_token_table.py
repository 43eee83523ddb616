"""A static token table: the mean of a text's token vectors, as model2vec writes them."""

import json
from pathlib import Path

import numpy as np
import pytest
from tiny_model import WORDS, write_tensors, write_tokenizer

from store.embedders.embedder import make_embedder
from store.embedders.token_table import TableEmbedder
from store.home.errors import EmbedderError

TABLE = np.random.default_rng(7).normal(size=(len(WORDS), 12)).astype(np.float32)


def write(folder: Path, tensors: dict[str, np.ndarray] | None = None, **config: object) -> str:
    write_tokenizer(folder)
    write_tensors(folder / "model.safetensors", tensors or {"embeddings": TABLE})
    (folder / "config.json").write_text(json.dumps(config))
    return str(folder)


def rows(text: str) -> list[int]:
    return [WORDS.index(word) for word in text.split()]


def unit(vector: np.ndarray) -> np.ndarray:
    return vector / np.linalg.norm(vector)


def test_a_text_is_the_mean_of_its_tokens_at_length_one(tmp_path: Path):
    vectors = make_embedder(f"table:{write(tmp_path / 'tiny')}").embed(["deploy the cache", "key"])
    wanted = [unit(TABLE[rows(text)].mean(0)) for text in ("deploy the cache", "key")]
    np.testing.assert_allclose(vectors, wanted, atol=1e-6)


def test_unknown_words_and_empty_texts_say_nothing(tmp_path: Path):
    model = TableEmbedder(write(tmp_path / "tiny"))
    plain, mixed, unknown, empty = model.embed(["key", "key xyz", "xyz", ""])
    np.testing.assert_array_equal(plain, mixed)
    assert not unknown.any() and not empty.any()


def test_a_quantized_vocabulary_is_mapped_and_weighed(tmp_path: Path):
    mapping = np.arange(len(WORDS), dtype=np.int64) % 3
    weights = np.linspace(0.5, 2.0, len(WORDS)).astype(np.float32)
    tensors = {"embeddings": TABLE[:3], "mapping": mapping, "weights": weights}
    vector = TableEmbedder(write(tmp_path / "tiny", tensors)).embed(["deploy key"])[0]
    tokens = rows("deploy key")
    wanted = (TABLE[mapping[tokens]] * weights[tokens][:, None]).mean(0)
    np.testing.assert_allclose(vector, unit(wanted), atol=1e-6)


def test_only_as_many_tokens_count_as_the_config_says(tmp_path: Path):
    model = TableEmbedder(write(tmp_path / "tiny", max_length=2))
    whole, cut = model.embed(["deploy key", "deploy key cache"])
    np.testing.assert_array_equal(whole, cut)


def test_it_is_cheap_enough_for_what_was_just_written(tmp_path: Path):
    assert TableEmbedder(write(tmp_path / "tiny")).is_cheap


def test_half_floats_are_read_and_another_table_is_another_model(tmp_path: Path):
    half = TableEmbedder(write(tmp_path / "tiny", {"embeddings": TABLE.astype(np.float16)}))
    full = TableEmbedder(write(tmp_path / "full/tiny"))
    np.testing.assert_allclose(half.embed(["key"]), full.embed(["key"]), atol=1e-3)
    assert half.model != full.model


@pytest.mark.parametrize(
    ("tensors", "said"),
    [({"other": TABLE}, "is no token table"), ({"embeddings": TABLE[:2]}, "knows more than")],
)
def test_what_is_no_table_is_named(tmp_path: Path, tensors: dict[str, np.ndarray], said: str):
    with pytest.raises(EmbedderError, match=said):
        TableEmbedder(write(tmp_path / "tiny", tensors)).embed(["deploy"])
