"""
The graph of a BERT encoder in ONNX, for a folder that ships the weights as safetensors only.

Some 30 KB: every weight stays in `model.safetensors`, and the graph says at which byte it lies. The
layers are those of Devlin et al. 2019, https://arxiv.org/abs/1810.04805. It takes token numbers
[texts, tokens] of texts of one length and gives their last hidden states: nothing is padded, so
there is no mask.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from store.embedders import tensor_file
from store.embedders.tensor_file import Tensor
from store.home.errors import EmbedderError

VERSION = 1  # raised whenever the same weights would give another graph
WEIGHTS = "model.safetensors"
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


def graph(folder: Path) -> bytes:
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

    made = _Graph(tensor_file.header(folder / WEIGHTS), TensorProto, helper)
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
            raise EmbedderError(f"{WEIGHTS} lacks {name}: it is no BERT encoder")
        stored, tensor = self._tensors[name]
        kinds = {
            "F32": self._types.FLOAT,
            "F16": self._types.FLOAT16,
            "BF16": self._types.BFLOAT16,
        }
        if tensor.dtype not in kinds:
            raise EmbedderError(f"{WEIGHTS} holds {tensor.dtype}: save it as F32 or F16")
        if stored not in self.initializers:
            one = self._types(name=stored, data_type=kinds[tensor.dtype], dims=tensor.shape)
            one.data_location = self._types.EXTERNAL
            place = {"location": WEIGHTS, "offset": tensor.start, "length": tensor.length}
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
