"""
Embedder: text to unit vectors; and `lexical`, the one that needs no download.

The lexical embedder hashes terms and their character trigrams into a dense vector (feature hashing,
Weinberger et al. 2009, https://arxiv.org/abs/0902.2206), so that words that share most of their
letters lie close. It knows no meaning; a model does, and takes its place by the same interface.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Protocol

import numpy as np
import numpy.typing as npt

from store import text
from store.errors import ConfigError

Matrix = npt.NDArray[np.float32]

_SLOTS = 4  # places a feature is spread over: fewer clashes than one at the same dimension
_TRIGRAMS_WEIGH = 0.5
MAX_CHARACTERS = 4_000  # of a text; what follows changes a vector little


class Embedder(Protocol):
    """A model that turns texts into vectors. `model` names it and its version."""

    @property
    def model(self) -> str: ...

    @property
    def dimension(self) -> int: ...

    def embed(self, texts: Sequence[str]) -> Matrix:
        """Return unit vectors [n, dimension]; a text with nothing in it gives zeros.

        Raise EmbedderError where the model does not answer.
        """


class LexicalEmbedder:
    """Hashed terms and trigrams; the same on every machine."""

    model = f"lexical-1.{text.TOKENIZER_VERSION}"
    dimension = 256

    def embed(self, texts: Sequence[str]) -> Matrix:
        vectors = np.zeros((len(texts), self.dimension), np.float32)
        for row, one in enumerate(texts):
            if counts := Counter(text.terms(one[:MAX_CHARACTERS])):
                weights = np.sqrt(np.fromiter(counts.values(), np.float32, len(counts)))
                vectors[row] = weights @ np.stack([_term_vector(term) for term in counts])
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        np.divide(vectors, lengths, out=vectors, where=lengths > 0)
        return vectors


@lru_cache(maxsize=32_768)
def _term_vector(term: str) -> npt.NDArray[np.float32]:
    vector = np.zeros(LexicalEmbedder.dimension, np.float32)
    _spread(vector, "=" + term, 1.0)
    edged = f"^{term}$"
    trigrams = {edged[i : i + 3] for i in range(len(edged) - 2)}
    for trigram in sorted(trigrams):
        _spread(vector, trigram, _TRIGRAMS_WEIGH / len(trigrams) ** 0.5)
    return vector


def _spread(vector: npt.NDArray[np.float32], feature: str, weight: float) -> None:
    digest = blake2b(feature.encode(), digest_size=4 * _SLOTS).digest()
    for slot in np.frombuffer(digest, "<u4"):
        vector[int(slot) % len(vector)] += weight if slot >> np.uint32(31) else -weight


EMBEDDERS: dict[str, Callable[[], Embedder]] = {"lexical": LexicalEmbedder}


def embedder(name: str) -> Embedder:
    """Return the embedder a setting names; raise ConfigError for one there is not."""
    if name not in EMBEDDERS:
        raise ConfigError(f"no embedder {name!r}: use one of {', '.join(EMBEDDERS)}")
    return EMBEDDERS[name]()
