"""
A sentence model run by onnxruntime, from its ONNX file or from a BERT's safetensors.

One text a run, never padded: so the same text gives the same vector, bit for bit, in any company,
and a build that embeds one new text equals one that embeds them all. Measured, this is no slower on
one thread than batches of texts of one length, and nothing is spent on padding.
"""

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from store.embedders import model_folder, scripts
from store.embedders.bert_graph import GRAPH_VERSION, SAFETENSORS, build_bert_graph
from store.embedders.model_folder import read_settings
from store.home.errors import EmbedderError
from store.home.files import replace_file

FILES = ("model.onnx", "onnx/model.onnx", SAFETENSORS)  # of a folder, the first there is
_MANY = 32  # texts that are embedded on all processors
_MOST_TOKENS = 512  # unless the folder sets it
_PROMPTS = "config_sentence_transformers.json"
_SETTINGS = ("tokenizer.json", "config.json", "1_Pooling/config.json", "sentence_bert_config.json")

Matrix = npt.NDArray[np.float32]


class _Config(msgspec.Struct, frozen=True):
    hidden_size: int = 0
    max_position_embeddings: int = _MOST_TOKENS


class _Sentences(msgspec.Struct, frozen=True):
    max_seq_length: int | None = None


class _Pooling(msgspec.Struct, frozen=True):
    pooling_mode_cls_token: bool = False
    pooling_mode_max_tokens: bool = False
    pooling_mode_lasttoken: bool = False


class _Prompts(msgspec.Struct, frozen=True):
    """The prefixes the model was trained with; `document` is another name of `passage`."""

    query: str = ""
    passage: str = ""
    document: str = ""


class _SentenceModel(msgspec.Struct, frozen=True):
    prompts: _Prompts = _Prompts()


class OnnxEmbedder:
    """A model's folder; the model itself is loaded when the first text is embedded."""

    is_cheap = False  # some milliseconds a text
    is_local = True

    def __init__(self, named: str, cache: Path | None = None) -> None:
        """`cache` keeps the graphs made for folders that ship none. Raise EmbedderError."""
        self._folder = model_folder.find_folder(named, FILES)
        self._weights = _weights(self._folder)
        self._cache = cache
        config = read_settings(self._folder / "config.json", _Config)
        self._tokens = (
            read_settings(self._folder / "sentence_bert_config.json", _Sentences).max_seq_length
            or config.max_position_embeddings
        )
        pooling = read_settings(self._folder / "1_Pooling/config.json", _Pooling)
        self._by_first = _takes_first(pooling)
        self._prompts = read_settings(self._folder / _PROMPTS, _SentenceModel).prompts
        settings = [self._folder / name for name in _SETTINGS]
        if self._prompts != _Prompts():  # else its vectors are those of before there were prompts
            settings.append(self._folder / _PROMPTS)
        digest = model_folder.folder_digest(self._weights, settings)
        self.model = f"onnx-1/{model_folder.model_name(named)}-{digest}"
        self._digest = digest
        self._lock = threading.Lock()
        self._loaded: _Loaded | None = None
        self.dimension = config.hidden_size or self._load().dimension

    def embed(self, texts: Sequence[str]) -> Matrix:
        """Return unit vectors [n, dimension]; of a long text the first tokens count."""
        return embed_each(
            texts, self.dimension, self._vector, self._prompts.passage or self._prompts.document
        )

    def embed_queries(self, texts: Sequence[str]) -> Matrix:
        return embed_each(texts, self.dimension, self._vector, self._prompts.query)

    def knows(self, text: str) -> bool:
        return text.isascii() or scripts.is_known(text, self._load().scripts)

    def _vector(self, text: str) -> npt.NDArray[np.float32]:
        return self._load().vector(text, by_first=self._by_first)

    def _load(self) -> "_Loaded":
        with self._lock:
            if self._loaded is None:
                self._loaded = _load(self._folder, self._weights, self._graph, self._tokens)
            return self._loaded

    def _graph(self) -> bytes:
        """Return the graph over a folder's bare weights, made once and kept."""
        name = f"bert-{GRAPH_VERSION}-{self._digest}.onnx"
        return kept_graph(
            self._cache / name if self._cache else None, lambda: build_bert_graph(self._folder)
        )


def embed_each(
    texts: Sequence[str], dimension: int, vector: Callable[[str], Any], prefix: str = ""
) -> Matrix:
    """Return the vector of each text with `prefix` before it, [n, dimension]; empty ones zeros."""
    vectors = np.zeros((len(texts), dimension), np.float32)
    rows = [row for row, text in enumerate(texts) if text.strip()]

    def fill(row: int) -> None:
        vectors[row] = vector(prefix + texts[row].strip() if prefix else texts[row])

    if len(rows) < _MANY:
        for row in rows:
            fill(row)
    else:  # a build's: each processor takes texts, each text one thread, so its bits stay
        with ThreadPoolExecutor(os.cpu_count()) as threads:
            for _ in threads.map(fill, rows):
                pass
    return vectors


def kept_graph(path: Path | None, build: Callable[[], bytes]) -> bytes:
    """Return the graph kept in a file; build and keep it if there is none."""
    if path is not None and path.is_file():
        return path.read_bytes()
    graph = build()
    if path is not None:
        with suppress(OSError):  # where nothing can be written it is made again
            replace_file(path, graph)
    return graph


@dataclass(frozen=True)
class _Loaded:
    """A session with its tokenizer, inputs and output."""

    session: Any
    tokenizer: Any
    inputs: frozenset[str]
    output: str
    dimension: int

    @cached_property
    def scripts(self) -> frozenset[str]:
        return scripts.known_scripts(model_folder.vocabulary(self.tokenizer))

    def vector(self, text: str, *, by_first: bool) -> npt.NDArray[np.float32]:
        """Return the unit vector of one text: the mean of its tokens', or its first token's."""
        tokens = np.array([self.tokenizer.encode(text).ids], np.int64)
        possible = {
            "input_ids": tokens,
            "attention_mask": np.ones_like(tokens),
            "token_type_ids": np.zeros_like(tokens),
        }
        (output,) = run(self.session, [self.output], {name: possible[name] for name in self.inputs})
        states = np.asarray(output[0], np.float32)  # [tokens, dimension], or already [dimension]
        if states.ndim == 2:
            states = states[0] if by_first else states.mean(axis=0)
        length = float(np.linalg.norm(states))
        return states / length if length > 0 else states


def open_session(source: bytes | str, weights: Path) -> Any:
    """Return a session of one thread over a graph; `weights` is the file it was made of.

    Raise EmbedderError.
    """
    try:
        import onnxruntime
        from onnxruntime.capi import onnxruntime_pybind11_state as failures
    except ImportError as error:
        raise EmbedderError(
            f"{weights.parent.name} needs onnxruntime: pip install 'mnemolog-core[onnx]'"
        ) from error

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    # a thread that spins while it waits takes the processor from the caller
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if isinstance(source, bytes):
        place = "session.model_external_initializers_file_folder_path"
        options.add_session_config_entry(place, str(weights.parent))
    try:
        return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
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


def run(session: Any, outputs: list[str], inputs: Mapping[str, Any]) -> Any:
    """Return a session's outputs for its inputs; raise EmbedderError if it fails at them."""
    from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument

    try:
        return session.run(outputs, inputs)
    except (Fail, InvalidArgument) as error:
        raise EmbedderError(f"the model failed at a text: {error}") from error


def _load(folder: Path, weights: Path, graph: Callable[[], bytes], tokens: int) -> _Loaded:
    session = open_session(str(weights) if weights.suffix == ".onnx" else graph(), weights)
    inputs = frozenset(value.name for value in session.get_inputs())
    if unknown := inputs - {"input_ids", "attention_mask", "token_type_ids"}:
        raise EmbedderError(f"{weights} wants {', '.join(sorted(unknown))}: it is no text encoder")
    output = _output(session, weights)
    tokenizer = model_folder.load_tokenizer(folder / "tokenizer.json")
    tokenizer.enable_truncation(tokens)  # a file may bake in a shorter cut
    return _Loaded(session, tokenizer, inputs, output.name, output.shape[-1])


def _output(session: Any, weights: Path) -> Any:
    """Return the output to use: whole sentences if the model has them, else token states."""
    outputs = [output for output in session.get_outputs() if isinstance(output.shape[-1], int)]
    for rank in (2, 3):
        # beside the sentence BERT exports a pooler's output that no sentence model was trained for
        fitting = [
            output
            for output in outputs
            if len(output.shape) == rank and (rank == 3 or "sentence" in output.name)
        ]
        if fitting:
            return fitting[0]
    raise EmbedderError(f"{weights} gives neither token states nor a sentence embedding")


def _weights(folder: Path) -> Path:
    for name in FILES:
        if (folder / name).is_file():
            return folder / name
    raise EmbedderError(f"{folder} holds none of {', '.join(FILES)}")


def _takes_first(pooling: _Pooling) -> bool:
    """Return True if the first token's state represents the text, and not the mean of all."""
    if pooling.pooling_mode_max_tokens or pooling.pooling_mode_lasttoken:
        raise EmbedderError("the model pools by maximum or last token: mnemolog knows mean and cls")
    return pooling.pooling_mode_cls_token
