"""
Embedder: text to unit vectors; and which one a setting names.

`lexical` needs no download and is the default. The others, one a file of store/embedders, are
imported where they are chosen.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from store.embedders.lexical import LexicalEmbedder
from store.errors import ConfigError

__all__ = ["CHOICES", "Embedder", "LexicalEmbedder", "Matrix", "embedder"]

Matrix = npt.NDArray[np.float32]

CHOICES = (
    "lexical",
    "onnx:FOLDER or onnx:PACKAGE",
)


class Embedder(Protocol):
    """A model that turns texts into vectors. `model` names it and its version."""

    @property
    def model(self) -> str: ...

    @property
    def dimension(self) -> int:
        """0 while it is not known, because the model never answered."""

    @property
    def is_cheap(self) -> bool:
        """Whether a text costs so little that what was just written is embedded while one waits."""

    def embed(self, texts: Sequence[str]) -> Matrix:
        """Return unit vectors [n, dimension]; a text with nothing in it gives zeros.

        Raise EmbedderError where the model does not answer.
        """


def embedder(name: str, home: Path | None = None) -> Embedder:
    """Return the embedder a setting names; raise ConfigError for a name of no known form.

    `home` is where it keeps what it makes and learns; without one it does so at every start.
    """
    kind, _, rest = name.partition(":")
    if name == "lexical":
        return LexicalEmbedder()
    if kind == "onnx" and rest:
        from store.embedders.onnx_model import OnnxEmbedder

        return OnnxEmbedder(rest, home / "cache" if home else None)
    raise ConfigError(f"no embedder {name!r}: use one of {', '.join(CHOICES)}")
