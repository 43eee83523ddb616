"""
A sentence model run by onnxruntime, from its ONNX file or from a BERT's safetensors.

One text a run, never padded: so the same text gives the same vector, bit for bit, whatever it is
embedded with, and a build that embeds one new text equals one that embeds them all. Measured, that
is no slower on one thread than batches of texts of one length, and nothing is spent on padding.
"""

import os
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from store.embedders import model_folder
from store.embedders.model_folder import Tensor
from store.home.errors import EmbedderError
from store.home.files import replace_file

# The graph of a BERT encoder in ONNX, for a folder that ships the weights as safetensors only.
#
# Some 30 KB: every weight stays in `model.safetensors`, and the graph says at which byte it lies.
# The
# layers are those of Devlin et al. 2019, https://arxiv.org/abs/1810.04805. It takes token numbers
# [texts, tokens] of texts of one length and gives their last hidden states: nothing is padded, so
# there is no mask.

GRAPH_VERSION = 1  # raised whenever the same weights would give another graph
SAFETENSORS = "model.safetensors"
_OPSET = 20  # the first with Gelu
_IR = 9
_ACTIVATIONS = {"gelu": "none", "gelu_new": "tanh", "gelu_pytorch_tanh": "tanh"}


class BertConfig(msgspec.Struct, frozen=True):
    """What `config.json` says of the encoder's shape."""

    model_type: str
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    hidden_act: str = "gelu"
    layer_norm_eps: float = 1e-12
    position_embedding_type: str = "absolute"


def build_bert_graph(folder: Path) -> bytes:
    """Return the model as ONNX bytes; raise EmbedderError where it is no BERT we know."""
    try:
        config = msgspec.json.decode((folder / "config.json").read_bytes(), type=BertConfig)
    except (OSError, msgspec.MsgspecError) as error:
        raise EmbedderError(f"{folder / 'config.json'} names no encoder ({error})") from error
    known = config.model_type == "bert" and config.position_embedding_type == "absolute"
    if not known or config.hidden_act not in _ACTIVATIONS:
        raise EmbedderError(
            f"{folder} is a {config.model_type} model: export it to {folder / 'model.onnx'}"
        )
    try:
        from onnx import TensorProto, helper
    except ImportError as error:
        raise EmbedderError("the package onnx is missing: pip install 'mnemolog[onnx]'") from error

    made = _Graph(model_folder.tensor_header(folder / SAFETENSORS), TensorProto, helper)
    hidden = _encoder(made, config)
    whole = helper.make_graph(
        [*made.nodes, helper.make_node("Identity", [hidden], ["last_hidden_state"])],
        "bert",
        [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["texts", "tokens"])],
        [
            helper.make_tensor_value_info(
                "last_hidden_state", TensorProto.FLOAT, ["texts", "tokens", config.hidden_size]
            )
        ],
        initializer=list(made.initializers.values()),
    )
    opset = [helper.make_operatorsetid("", _OPSET)]
    model = helper.make_model(whole, opset_imports=opset, ir_version=_IR, producer_name="mnemolog")
    return bytes(model.SerializeToString())


class _Graph:
    """The nodes and weights gathered so far; each method adds some and returns a value's name."""

    def __init__(self, tensors: Mapping[str, Tensor], types: Any, helper: Any) -> None:
        prefix = "bert." if any(name.startswith("bert.") for name in tensors) else ""
        self._tensors = {name.removeprefix(prefix): (name, one) for name, one in tensors.items()}
        self._types, self._helper = types, helper
        self.nodes: list[Any] = []
        self.initializers: dict[str, Any] = {}

    def op(self, kind: str, *inputs: str, **attributes: object) -> str:
        name = f"{kind}_{len(self.nodes)}"
        self.nodes.append(self._helper.make_node(kind, inputs, [name], **attributes))
        return name

    def numbers(self, *values: int) -> str:
        """Return the name of a constant list of whole numbers."""
        name = "_".join(("numbers", *map(str, values)))
        self.initializers[name] = self._helper.make_tensor(
            name, self._types.INT64, [len(values)], values
        )
        return name

    def number(self, value: float) -> str:
        name = f"number_{value}"
        self.initializers[name] = self._helper.make_tensor(name, self._types.FLOAT, [], [value])
        return name

    def weight(self, name: str) -> str:
        """Return the name of a weight as 32-bit floats; it points into the safetensors file."""
        if name not in self._tensors:
            raise EmbedderError(f"{SAFETENSORS} lacks {name}: it is no BERT encoder")
        stored, tensor = self._tensors[name]
        kinds = {
            "F32": self._types.FLOAT,
            "F16": self._types.FLOAT16,
            "BF16": self._types.BFLOAT16,
        }
        if tensor.dtype not in kinds:
            raise EmbedderError(f"{SAFETENSORS} holds {tensor.dtype}: save it as F32 or F16")
        if stored not in self.initializers:
            one = self._types(name=stored, data_type=kinds[tensor.dtype], dims=tensor.shape)
            one.data_location = self._types.EXTERNAL
            place = {"location": SAFETENSORS, "offset": tensor.start, "length": tensor.length}
            for key, value in place.items():
                one.external_data.add(key=key, value=str(value))
            self.initializers[stored] = one
        if tensor.dtype == "F32":
            return stored
        return self.op("Cast", stored, to=self._types.FLOAT)

    def linear(self, value: str, name: str) -> str:
        """Return value [n, in] @ weight [out, in].T + bias."""
        weight, bias = self.weight(f"{name}.weight"), self.weight(f"{name}.bias")
        return self.op("Gemm", value, weight, bias, transB=1)

    def norm(self, value: str, name: str, epsilon: float) -> str:
        weight, bias = self.weight(f"{name}.weight"), self.weight(f"{name}.bias")
        return self.op("LayerNormalization", value, weight, bias, axis=-1, epsilon=epsilon)


def _encoder(of: _Graph, config: BertConfig) -> str:
    """Add the whole encoder; return the last hidden states [texts, tokens, hidden]."""
    shape = of.op("Shape", "input_ids")
    tokens = of.op("Gather", shape, of.numbers(1))
    words = of.op("Gather", of.weight("embeddings.word_embeddings.weight"), "input_ids")
    positions = of.op(
        "Slice", of.weight("embeddings.position_embeddings.weight"), of.numbers(0), tokens
    )
    first_type = of.op(
        "Slice", of.weight("embeddings.token_type_embeddings.weight"), of.numbers(0), of.numbers(1)
    )
    value = of.op("Add", of.op("Add", words, positions), first_type)
    # [texts * tokens, hidden] from here on: one large product for all tokens
    value = of.op("Reshape", value, of.numbers(-1, config.hidden_size))
    value = of.norm(value, "embeddings.LayerNorm", config.layer_norm_eps)
    heads = of.op(
        "Concat",
        shape,
        of.numbers(config.num_attention_heads, config.hidden_size // config.num_attention_heads),
        axis=0,
    )
    for number in range(config.num_hidden_layers):
        value = _layer(of, config, f"encoder.layer.{number}", value, heads)
    whole = of.op("Concat", shape, of.numbers(config.hidden_size), axis=0)
    return of.op("Reshape", value, whole)


def _layer(of: _Graph, config: BertConfig, name: str, value: str, heads: str) -> str:
    """Add one layer over [texts * tokens, hidden]; `heads` is [texts, tokens, heads, width]."""
    width = config.hidden_size // config.num_attention_heads

    def split(part: str, order: list[int]) -> str:
        made = of.linear(value, f"{name}.attention.self.{part}")
        return of.op("Transpose", of.op("Reshape", made, heads), perm=order)

    query, key = split("query", [0, 2, 1, 3]), split("key", [0, 2, 3, 1])
    alike = of.op("Mul", of.op("MatMul", query, key), of.number(width**-0.5))
    seen = of.op("MatMul", of.op("Softmax", alike, axis=-1), split("value", [0, 2, 1, 3]))
    seen = of.op("Transpose", seen, perm=[0, 2, 1, 3])
    seen = of.op("Reshape", seen, of.numbers(-1, config.hidden_size))
    seen = of.linear(seen, f"{name}.attention.output.dense")
    value = of.norm(
        of.op("Add", seen, value), f"{name}.attention.output.LayerNorm", config.layer_norm_eps
    )
    wide = of.linear(value, f"{name}.intermediate.dense")
    wide = of.op("Gelu", wide, approximate=_ACTIVATIONS[config.hidden_act])
    narrow = of.linear(wide, f"{name}.output.dense")
    return of.norm(of.op("Add", narrow, value), f"{name}.output.LayerNorm", config.layer_norm_eps)


FILES = ("model.onnx", "onnx/model.onnx", SAFETENSORS)  # of a folder, the first there is
_MANY = 32  # texts that are embedded on all processors
_MOST_TOKENS = 512  # where the folder does not say
_SETTINGS = ("tokenizer.json", "config.json", "1_Pooling/config.json", "sentence_bert_config.json")

Matrix = npt.NDArray[np.float32]


class _Config(msgspec.Struct, frozen=True):
    hidden_size: int = 0
    max_position_embeddings: int = _MOST_TOKENS


class _Sentences(msgspec.Struct, frozen=True):
    max_seq_length: int | None = None


class _Pooling(msgspec.Struct, frozen=True):
    pooling_mode_cls_token: bool = False
    pooling_mode_mean_tokens: bool = False
    pooling_mode_max_tokens: bool = False
    pooling_mode_mean_sqrt_len_tokens: bool = False
    pooling_mode_lasttoken: bool = False


class OnnxEmbedder:
    """A model's folder; the model itself is loaded when the first text is embedded."""

    is_cheap = False  # some milliseconds a text
    is_local = True

    def __init__(self, named: str, cache: Path | None = None) -> None:
        """`cache` keeps the graphs made for folders that ship none. Raise EmbedderError."""
        self._folder = model_folder.find_folder(named, FILES)
        self._weights = _weights(self._folder)
        self._cache = cache
        config = _read(self._folder / "config.json", _Config)
        self._tokens = (
            _read(self._folder / "sentence_bert_config.json", _Sentences).max_seq_length
            or config.max_position_embeddings
        )
        self._by_first = _takes_first(_read(self._folder / "1_Pooling/config.json", _Pooling))
        settings = [self._folder / name for name in _SETTINGS]
        digest = model_folder.folder_digest(self._weights, settings)
        self.model = f"onnx-1/{model_folder.model_name(named)}-{digest}"
        self._digest = digest
        self._lock = threading.Lock()
        self._loaded: _Loaded | None = None
        self.dimension = config.hidden_size or self._load().dimension

    def embed(self, texts: Sequence[str]) -> Matrix:
        """Return unit vectors [n, dimension]; of a long text the first tokens count."""
        loaded = self._load()
        vectors = np.zeros((len(texts), self.dimension), np.float32)
        rows = [row for row, text in enumerate(texts) if text.strip()]

        def fill(row: int) -> None:
            vectors[row] = loaded.vector(texts[row], by_first=self._by_first)

        if len(rows) < _MANY:
            for row in rows:
                fill(row)
        else:  # a build's: each processor takes texts, each text one thread, so its bits stay
            with ThreadPoolExecutor(os.cpu_count()) as threads:
                for _ in threads.map(fill, rows):
                    pass
        return vectors

    def _load(self) -> "_Loaded":
        with self._lock:
            if self._loaded is None:
                self._loaded = _load(self._folder, self._weights, self._graph, self._tokens)
            return self._loaded

    def _graph(self) -> bytes:
        """Return the graph over a folder's bare weights, made once and kept."""
        kept = (
            None
            if self._cache is None
            else self._cache / f"bert-{GRAPH_VERSION}-{self._digest}.onnx"
        )
        if kept is not None and kept.is_file():
            return kept.read_bytes()
        made = build_bert_graph(self._folder)
        if kept is not None:
            with suppress(OSError):  # where nothing can be written it is made again
                replace_file(kept, made)
        return made


@dataclass(frozen=True, slots=True)
class _Loaded:
    """A session with its tokenizer, and what the session takes and gives."""

    session: Any
    tokenizer: Any
    inputs: frozenset[str]
    output: str
    dimension: int

    def vector(self, text: str, *, by_first: bool) -> npt.NDArray[np.float32]:
        """Return the unit vector of one text: the mean of its tokens', or its first token's."""
        from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument

        tokens = np.array([self.tokenizer.encode(text).ids], np.int64)
        given = {
            "input_ids": tokens,
            "attention_mask": np.ones_like(tokens),
            "token_type_ids": np.zeros_like(tokens),
        }
        try:
            (made,) = self.session.run([self.output], {name: given[name] for name in self.inputs})
        except (Fail, InvalidArgument) as error:
            raise EmbedderError(f"the model failed at a text: {error}") from error
        states = np.asarray(made[0], np.float32)  # [tokens, dimension], or already [dimension]
        if states.ndim == 2:
            states = states[0] if by_first else states.mean(axis=0)
        length = float(np.linalg.norm(states))
        return states / length if length > 0 else states


def _load(folder: Path, weights: Path, graph: Any, tokens: int) -> _Loaded:
    try:
        import onnxruntime
        from onnxruntime.capi import onnxruntime_pybind11_state as failures
    except ImportError as error:
        raise EmbedderError(
            f"{folder.name} needs onnxruntime: pip install 'mnemolog[onnx]'"
        ) from error

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    # a thread that spins while it waits takes the processor from whoever asked
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    source: bytes | str = str(weights)
    if weights.suffix != ".onnx":
        source = graph()
        place = "session.model_external_initializers_file_folder_path"
        options.add_session_config_entry(place, str(folder))
    try:
        session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    except (
        failures.Fail,
        failures.InvalidArgument,
        failures.InvalidGraph,
        failures.InvalidProtobuf,
        failures.NoSuchFile,
        failures.NotImplemented,
        failures.RuntimeException,
    ) as error:
        raise EmbedderError(f"{weights} cannot be loaded: {error}") from error
    inputs = frozenset(one.name for one in session.get_inputs())
    if unknown := inputs - {"input_ids", "attention_mask", "token_type_ids"}:
        raise EmbedderError(f"{weights} wants {', '.join(sorted(unknown))}: it is no text encoder")
    output = _output(session, weights)
    tokenizer = model_folder.load_tokenizer(folder / "tokenizer.json")
    tokenizer.enable_truncation(tokens)  # a file may bake in a shorter cut
    return _Loaded(session, tokenizer, inputs, output.name, output.shape[-1])


def _output(session: Any, weights: Path) -> Any:
    """Return the output to use: whole sentences where the model gives them, else token states."""
    outputs = [one for one in session.get_outputs() if isinstance(one.shape[-1], int)]
    for rank in (2, 3):
        # beside the sentence BERT exports a pooler's output that no sentence model was trained for
        found = [
            one
            for one in outputs
            if len(one.shape) == rank and (rank == 3 or "sentence" in one.name)
        ]
        if found:
            return found[0]
    raise EmbedderError(f"{weights} gives neither token states nor a sentence embedding")


def _weights(folder: Path) -> Path:
    for name in FILES:
        if (folder / name).is_file():
            return folder / name
    raise EmbedderError(f"{folder} holds none of {', '.join(FILES)}")


def _takes_first(pooling: _Pooling) -> bool:
    """Return whether the first token's state stands for the text, and not the mean of all."""
    if pooling.pooling_mode_max_tokens or pooling.pooling_mode_lasttoken:
        raise EmbedderError("the model pools by maximum or last token: mnemolog knows mean and cls")
    return pooling.pooling_mode_cls_token


def _read(path: Path, kind: type[Any]) -> Any:
    """Return a settings file of the model; its defaults where there is none."""
    if not path.is_file():
        return kind()
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, UnicodeDecodeError, msgspec.MsgspecError) as error:
        raise EmbedderError(f"{path} cannot be read: {error}") from error
