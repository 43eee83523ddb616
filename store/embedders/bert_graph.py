"""
The graph of a BERT encoder in ONNX, for models that ship bare weights.

The layers are those of Devlin et al. 2019, https://arxiv.org/abs/1810.04805. `Weights` supplies the
weights. From a folder's `model.safetensors` the graph takes token numbers [texts, tokens] of texts
of one length and returns their last hidden states: nothing is padded, so there is no mask. It has
some 30 KB: every weight stays in the safetensors file, and the graph has its byte offset.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import msgspec
import numpy as np
import numpy.typing as npt

from store.embedders import model_folder
from store.embedders.model_folder import Tensor
from store.home.errors import EmbedderError

GRAPH_VERSION = 1  # raised whenever the same weights would give another graph
SAFETENSORS = "model.safetensors"
_OPSET = 20  # the first with Gelu
_IR = 9
_ACTIVATIONS = {"gelu": "none", "gelu_new": "tanh", "gelu_pytorch_tanh": "tanh"}


class BertConfig(msgspec.Struct, frozen=True):
    """The encoder's shape, from `config.json`."""

    model_type: str
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    hidden_act: str = "gelu"
    layer_norm_eps: float = 1e-12
    position_embedding_type: str = "absolute"


def build_bert_graph(folder: Path) -> bytes:
    """Return the model as ONNX bytes; raise EmbedderError if it is no BERT we know."""
    try:
        config = msgspec.json.decode((folder / "config.json").read_bytes(), type=BertConfig)
    except (OSError, msgspec.MsgspecError) as error:
        raise EmbedderError(f"{folder / 'config.json'} names no encoder ({error})") from error
    is_known = config.model_type == "bert" and config.position_embedding_type == "absolute"
    if not is_known or config.hidden_act not in _ACTIVATIONS:
        raise EmbedderError(
            f"{folder} is a {config.model_type} model: export it to {folder / 'model.onnx'}"
        )
    graph = Graph(_Safetensors(model_folder.tensor_header(folder / SAFETENSORS)))
    hidden = _encode_tokens(graph, config)
    return graph.model(
        ("input_ids", graph.types.INT64, ["texts", "tokens"]),
        ("last_hidden_state", ["texts", "tokens", config.hidden_size]),
        hidden,
    )


class Weights(Protocol):
    """The source of a graph's weights; names are those of BERT in transformers."""

    def tensor(self, graph: "Graph", name: str) -> str:
        """Add a weight of 32-bit floats; return its value's name. Raise EmbedderError."""

    def linear(self, graph: "Graph", value: str, name: str) -> str:
        """Add value [n, in] @ weight [out, in].T + bias; return its value's name."""


class Graph:
    """The nodes and weights gathered so far; each method adds some and returns a value's name."""

    def __init__(self, weights: Weights) -> None:
        try:
            from onnx import TensorProto, helper
        except ImportError as error:
            raise EmbedderError(
                "the package onnx is missing: pip install 'mnemolog-core[onnx]'"
            ) from error
        self.types: Any = TensorProto
        self.weights, self._helper = weights, helper
        self._nodes: list[Any] = []
        self.initializers: dict[str, Any] = {}

    def op(self, kind: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        name = f"{kind}_{len(self._nodes)}"
        node = self._helper.make_node(kind, inputs, [name], domain=domain, **attributes)
        self._nodes.append(node)
        return name

    def numbers(self, *values: int) -> str:
        """Return the name of a constant list of whole numbers."""
        name = "_".join(("numbers", *map(str, values)))
        self.initializers[name] = self._helper.make_tensor(
            name, self.types.INT64, [len(values)], values
        )
        return name

    def number(self, value: float) -> str:
        name = f"number_{value}"
        self.initializers[name] = self._helper.make_tensor(name, self.types.FLOAT, [], [value])
        return name

    def array(self, name: str, values: npt.NDArray[Any]) -> str:
        """Return the name of a constant of any shape whose bytes are in the graph."""
        kind = self._helper.np_dtype_to_tensor_dtype(values.dtype)
        self.initializers[name] = self._helper.make_tensor(
            name, kind, values.shape, np.ascontiguousarray(values).tobytes(), raw=True
        )
        return name

    def norm(self, value: str, name: str, epsilon: float) -> str:
        weight, bias = (self.weights.tensor(self, f"{name}.{part}") for part in ("weight", "bias"))
        return self.op("LayerNormalization", value, weight, bias, axis=-1, epsilon=epsilon)

    def model(
        self, input_: tuple[str, int, list[Any]], output: tuple[str, list[Any]], value: str
    ) -> bytes:
        """Return the whole as ONNX bytes: an input (name, type, shape), and `value` as output."""
        name, shape = output
        whole = self._helper.make_graph(
            [*self._nodes, self._helper.make_node("Identity", [value], [name])],
            "bert",
            [self._helper.make_tensor_value_info(*input_)],
            [self._helper.make_tensor_value_info(name, self.types.FLOAT, shape)],
            initializer=list(self.initializers.values()),
        )
        opsets = [
            self._helper.make_operatorsetid("", _OPSET),
            self._helper.make_operatorsetid("com.microsoft", 1),
        ]
        model = self._helper.make_model(
            whole, opset_imports=opsets, ir_version=_IR, producer_name="mnemolog"
        )
        return bytes(model.SerializeToString())


class _Safetensors:
    """Weights that stay in their safetensors file."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        prefix = "bert." if any(name.startswith("bert.") for name in tensors) else ""
        self._tensors = {
            name.removeprefix(prefix): (name, tensor) for name, tensor in tensors.items()
        }

    def tensor(self, graph: Graph, name: str) -> str:
        if name not in self._tensors:
            raise EmbedderError(f"{SAFETENSORS} lacks {name}: it is no BERT encoder")
        stored, tensor = self._tensors[name]
        kinds = {
            "F32": graph.types.FLOAT,
            "F16": graph.types.FLOAT16,
            "BF16": graph.types.BFLOAT16,
        }
        if tensor.dtype not in kinds:
            raise EmbedderError(f"{SAFETENSORS} holds {tensor.dtype}: save it as F32 or F16")
        if stored not in graph.initializers:
            outside = graph.types(name=stored, data_type=kinds[tensor.dtype], dims=tensor.shape)
            outside.data_location = graph.types.EXTERNAL
            place = {"location": SAFETENSORS, "offset": tensor.start, "length": tensor.length}
            for key, value in place.items():
                outside.external_data.add(key=key, value=str(value))
            graph.initializers[stored] = outside
        if tensor.dtype == "F32":
            return stored
        return graph.op("Cast", stored, to=graph.types.FLOAT)

    def linear(self, graph: Graph, value: str, name: str) -> str:
        weight, bias = (self.tensor(graph, f"{name}.{part}") for part in ("weight", "bias"))
        return graph.op("Gemm", value, weight, bias, transB=1)


def _encode_tokens(of: Graph, config: BertConfig) -> str:
    """Add the whole encoder; return the last hidden states [texts, tokens, hidden]."""
    words, places, types = (
        of.weights.tensor(of, f"embeddings.{name}_embeddings.weight")
        for name in ("word", "position", "token_type")
    )
    shape = of.op("Shape", "input_ids")
    tokens = of.op("Gather", shape, of.numbers(1))
    value = of.op("Add", of.op("Gather", words, "input_ids"), _rows(of, places, tokens))
    value = of.op("Add", value, _rows(of, types, of.numbers(1)))
    # [texts * tokens, hidden] from here on: one large product for all tokens
    value = of.op("Reshape", value, of.numbers(-1, config.hidden_size))
    width = config.hidden_size // config.num_attention_heads
    heads = of.op("Concat", shape, of.numbers(config.num_attention_heads, width), axis=0)
    value = encode(of, config, value, heads)
    whole = of.op("Concat", shape, of.numbers(config.hidden_size), axis=0)
    return of.op("Reshape", value, whole)


def _rows(of: Graph, table: str, count: str) -> str:
    """Return the first rows of a table."""
    return of.op("Slice", table, of.numbers(0), count)


def encode(of: Graph, config: BertConfig, value: str, heads: str) -> str:
    """Add norm and layers over summed embeddings [texts * tokens, hidden]; return such states.

    `heads` names the shape (texts, tokens, heads, width).
    """
    value = of.norm(value, "embeddings.LayerNorm", config.layer_norm_eps)
    for number in range(config.num_hidden_layers):
        value = _layer(of, config, f"encoder.layer.{number}", value, heads)
    return value


def _layer(of: Graph, config: BertConfig, name: str, value: str, heads: str) -> str:
    """Add one layer over [texts * tokens, hidden]; `heads` is [texts, tokens, heads, width]."""
    width = config.hidden_size // config.num_attention_heads
    linear = of.weights.linear

    def split(part: str, order: list[int]) -> str:
        projected = linear(of, value, f"{name}.attention.self.{part}")
        return of.op("Transpose", of.op("Reshape", projected, heads), perm=order)

    query, key = split("query", [0, 2, 1, 3]), split("key", [0, 2, 3, 1])
    alike = of.op("Mul", of.op("MatMul", query, key), of.number(width**-0.5))
    attended = of.op("MatMul", of.op("Softmax", alike, axis=-1), split("value", [0, 2, 1, 3]))
    attended = of.op("Transpose", attended, perm=[0, 2, 1, 3])
    attended = of.op("Reshape", attended, of.numbers(-1, config.hidden_size))
    attended = linear(of, attended, f"{name}.attention.output.dense")
    value = of.norm(
        of.op("Add", attended, value), f"{name}.attention.output.LayerNorm", config.layer_norm_eps
    )
    wide = linear(of, value, f"{name}.intermediate.dense")
    wide = of.op("Gelu", wide, approximate=_ACTIVATIONS[config.hidden_act])
    narrow = linear(of, wide, f"{name}.output.dense")
    return of.norm(of.op("Add", narrow, value), f"{name}.output.LayerNorm", config.layer_norm_eps)
