"""
A static token table: a text's vector is the mean of its tokens' vectors. No network, no session.

The format of model2vec (https://github.com/MinishLab/model2vec): `model.safetensors` holds
`embeddings` [rows, d] and, where the vocabulary was quantized, `mapping` (token to row) and
`weights` (by token); sentence-transformers calls the table `embedding.weight`. The table is mapped:
a text touches only its tokens' rows.
"""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from store.embedders import model_folder, scripts
from store.home.errors import EmbedderError

FILES = ("model.safetensors", "0_StaticEmbedding/model.safetensors")
_NAMES = ("embeddings", "embedding.weight")
_MOST_TOKENS = 512
_MAX_CHARACTERS = 20_000  # of a text; far more than its tokens that count

Matrix = npt.NDArray[np.float32]


class _Config(msgspec.Struct, frozen=True):
    max_length: int | None = _MOST_TOKENS


class TableEmbedder:
    """A table in a folder; its vectors always have length 1, even if its `normalize` is false."""

    is_cheap = True
    is_local = True

    def __init__(self, named: str) -> None:
        """Raise EmbedderError if the folder contains no table."""
        folder = model_folder.find_folder(named, FILES)
        weights = next((folder / name for name in FILES if (folder / name).is_file()), None)
        if weights is None:
            raise EmbedderError(f"{folder} holds no model.safetensors")
        tensors = model_folder.tensor_header(weights)
        table = next((tensors[name] for name in _NAMES if name in tensors), None)
        if table is None or len(table.shape) != 2:
            raise EmbedderError(f"{weights} is no token table: it has no `embeddings` [rows, d]")
        self._table = model_folder.map_tensor(weights, table)
        self._weights, self._mapping = (
            model_folder.map_tensor(weights, tensors[name]) if name in tensors else None
            for name in ("weights", "mapping")
        )
        self.dimension = table.shape[1]
        path = weights.with_name("tokenizer.json")
        most_tokens = model_folder.read_settings(folder / "config.json", _Config).max_length
        self._tokenizer, self._unknown = _tokenizer(path, most_tokens)
        digest = model_folder.folder_digest(weights, [path, folder / "config.json"])
        self.model = f"table-1/{model_folder.model_name(named)}-{digest}"

    def embed(self, texts: Sequence[str]) -> Matrix:
        vectors = np.zeros((len(texts), self.dimension), np.float32)
        cut = [text[:_MAX_CHARACTERS] for text in texts]
        for row, encoding in enumerate(self._tokenizer.encode_batch(cut, add_special_tokens=False)):
            tokens = np.array([id_ for id_ in encoding.ids if id_ != self._unknown], np.int64)
            if len(tokens):
                vectors[row] = self._mean(tokens)
        return vectors

    def embed_queries(self, texts: Sequence[str]) -> Matrix:
        return self.embed(texts)

    def knows(self, text: str) -> bool:
        return text.isascii() or scripts.is_known(text, self._scripts)

    @cached_property
    def _scripts(self) -> frozenset[str]:
        return scripts.known_scripts(model_folder.vocabulary(self._tokenizer))

    def _mean(self, tokens: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        rows = tokens if self._mapping is None else self._mapping[tokens].astype(np.int64)
        try:
            vectors = self._table[rows].astype(np.float32)
        except IndexError as error:
            raise EmbedderError(f"{self.model}: the tokenizer knows more than the table") from error
        if self._weights is not None:
            vectors *= self._weights[tokens].astype(np.float32)[:, None]
        mean: npt.NDArray[np.float32] = vectors.mean(axis=0)
        length = float(np.linalg.norm(mean))
        return mean / length if length > 0 else mean


def _tokenizer(path: Path, most: int | None) -> tuple[Any, int | None]:
    """Return the tokenizer, cut and unpadded, and the number of its unknown token."""
    tokenizer = model_folder.load_tokenizer(path)
    if most is not None:
        tokenizer.enable_truncation(most)
    model = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])["model"]
    name = model.get("unk_token")
    return tokenizer, model.get("unk_id") if name is None else tokenizer.token_to_id(name)
