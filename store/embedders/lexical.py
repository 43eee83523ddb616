"""
The embedder that needs no download: hashed terms and character trigrams.

Feature hashing (Weinberger et al. 2009, https://arxiv.org/abs/0902.2206) puts words that share most
of their letters close together. It knows no meaning; a model does.
"""

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from store import text

Matrix = npt.NDArray[np.float32]

_BATCH = 500  # texts at a time: bounds the gathered term vectors to some 15 MB of short texts
_SLOTS = 4  # places a feature is spread over: fewer clashes than one at the same dimension
_TRIGRAMS_WEIGH = 0.5
MAX_CHARACTERS = 4_000  # of a text; what follows changes a vector little


class LexicalEmbedder:
    """Hashed terms and trigrams; the same on every machine."""

    is_cheap = True
    is_local = True
    model = f"lexical-1.{text.TOKENIZER_VERSION}"
    dimension = 256

    def embed(self, texts: Sequence[str]) -> Matrix:
        vectors = np.zeros((len(texts), self.dimension), np.float32)
        for start in range(0, len(texts), _BATCH):
            _embed(texts[start : start + _BATCH], vectors[start : start + _BATCH])
        return vectors


def _embed(texts: Sequence[str], vectors: Matrix) -> None:
    """Set each row to its text's unit vector: the sum of its terms', by the root of their count."""
    places: dict[str, int] = {}
    found = [Counter(text.terms(one[:MAX_CHARACTERS])) for one in texts]
    rows = [row for row, counts in enumerate(found) if counts]
    if not rows:
        return
    terms = [places.setdefault(term, len(places)) for counts in found for term in counts]
    counts = np.fromiter((count for one in found for count in one.values()), np.float32, len(terms))
    by_term = np.stack([_term_vector(term) for term in places])
    weighted = by_term[terms] * np.sqrt(counts)[:, None]
    starts = np.cumsum([0, *(len(found[row]) for row in rows[:-1])])
    sums = np.add.reduceat(weighted, starts, axis=0)
    lengths = np.linalg.norm(sums, axis=1, keepdims=True)
    vectors[rows] = np.divide(sums, lengths, out=np.zeros_like(sums), where=lengths > 0)


@lru_cache(maxsize=32_768)
def _term_vector(term: str) -> npt.NDArray[np.float32]:
    edged = f"^{term}$"
    trigrams = sorted({edged[i : i + 3] for i in range(len(edged) - 2)})
    digests = [blake2b(one.encode(), digest_size=4 * _SLOTS) for one in ("=" + term, *trigrams)]
    slots = np.frombuffer(b"".join(one.digest() for one in digests), "<u4")
    weights = np.full(len(digests), _TRIGRAMS_WEIGH / len(trigrams) ** 0.5, np.float32)
    weights[0] = 1.0
    signed = np.where(slots >> 31, 1, -1) * np.repeat(weights, _SLOTS)
    dimension = LexicalEmbedder.dimension
    return np.bincount(slots % dimension, signed, minlength=dimension).astype(np.float32)
