"""
Embedder: turns texts into unit vectors; `make_embedder` makes the one named by a setting.

`lexical` needs no download and is the default. The others, one per file of store/embedders, are
imported if chosen. A missing model does not stop the program: it is replaced by one that does not
answer, so that recall continues by words and a build keeps the existing vectors.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import msgspec
import numpy as np
import numpy.typing as npt

from store.embedders.lexical import IN_A_JOB, WHILE_ASKED, LexicalEmbedder
from store.embedders.model_facts import KnownModels
from store.home.errors import ConfigError, EmbedderError

Matrix = npt.NDArray[np.float32]

CHOICES = ("lexical", "onnx:FOLDER", "onnx:PACKAGE", "table:FOLDER", "litellm:PROVIDER/MODEL")


class Embedder(Protocol):
    """A model that turns texts into vectors. `model` names it and its version."""

    @property
    def model(self) -> str: ...

    @property
    def dimension(self) -> int:
        """The dimension of the vectors; 0 if unknown, because the model never answered."""

    @property
    def is_cheap(self) -> bool:
        """Whether embedding is cheap enough to embed new memories during a recall."""

    @property
    def is_local(self) -> bool:
        """Whether a text gives the same bits every time and is never sent anywhere."""

    def embed(self, texts: Sequence[str]) -> Matrix:
        """Return unit vectors [n, dimension]; a text with nothing in it gives zeros.

        Raise EmbedderError if the model does not answer.
        """

    def embed_queries(self, texts: Sequence[str]) -> Matrix:
        """Return the vectors of queries: some models use another prefix for them."""

    def knows(self, text: str) -> bool:
        """Return True if the model knows the script of most of the text; else its vector is noise.

        True for a model about which nothing is known. Takes microseconds once the model is loaded.
        """


class SilentEmbedder(msgspec.Struct, frozen=True):
    """An unavailable model: its known properties and the reason for its failure."""

    model: str
    dimension: int
    reason: str
    is_cheap: bool = False
    is_local: bool = True

    def embed(self, texts: Sequence[str]) -> Matrix:
        raise EmbedderError(self.reason)

    def embed_queries(self, texts: Sequence[str]) -> Matrix:
        raise EmbedderError(self.reason)

    def knows(self, text: str) -> bool:
        return True


def make_embedder(name: str, home: Path | None = None, *, while_asked: bool = False) -> Embedder:
    """Return the embedder a setting names; raise ConfigError for a name of no known form.

    `home` is the folder for its prepared files and measured facts; without one they are made at
    every start. `while_asked` is for a server whose caller waits for the answer: a remote model
    gets little time and one try, and caches are small.
    """
    kind, _, rest = name.partition(":")
    if name == "lexical":
        return LexicalEmbedder(WHILE_ASKED if while_asked else IN_A_JOB)
    if not rest or kind not in ("onnx", "table", "litellm"):
        raise ConfigError(f"no embedder {name!r}: use one of {', '.join(CHOICES)}")
    models = KnownModels(home)
    if kind == "litellm":
        from store.embedders import remote

        patience = remote.WHILE_ASKED if while_asked else remote.IN_A_JOB
        return remote.RemoteEmbedder(rest, models, patience)
    try:
        embedder = _from_folder(kind, rest, home / "cache" if home else None)
    except EmbedderError as error:
        learned = models.of(name)
        model, dimension = (learned.model, learned.dimension) if learned else (name, 0)
        return SilentEmbedder(model, dimension, str(error))
    models.keep(name, embedder.model, embedder.dimension)
    return embedder


def _from_folder(kind: str, named: str, cache: Path | None) -> Embedder:
    if kind == "onnx":
        from store.embedders import model_folder, onnx_model, packed_model

        folder = model_folder.find_folder(named, (*onnx_model.FILES, packed_model.FILE))
        if (folder / packed_model.FILE).is_file():
            return packed_model.PackedEmbedder(folder, cache)
        return onnx_model.OnnxEmbedder(named, cache)
    from store.embedders.token_table import TableEmbedder

    return TableEmbedder(named)
