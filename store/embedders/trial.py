"""
A trial: does a model answer, how fast, and does it know a paraphrase from another topic?
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from store.embedding import Embedder

_TEXTS = (
    "The deploy failed because the signing key had expired.",
    "An expired signing key broke the release.",
    "We had noodles for lunch in the garden.",
)


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of it; the cosines are those of a text with its paraphrase and with another one."""

    model: str
    dimension: int
    load_ms: float
    ms_per_text: float
    paraphrase: float
    unrelated: float

    @property
    def ok(self) -> bool:
        return self.paraphrase > self.unrelated


def trial(embedder: Embedder) -> Trial:
    """Return how a model embeds three texts; raise EmbedderError where it does not answer."""
    began = time.perf_counter()
    embedder.embed(_TEXTS[:1])
    loaded = time.perf_counter()
    one, paraphrase, other = embedder.embed(_TEXTS)
    taken = time.perf_counter() - loaded
    return Trial(
        embedder.model,
        embedder.dimension,
        round((loaded - began) * 1000, 1),
        round(taken * 1000 / len(_TEXTS), 2),
        round(float(one @ paraphrase), 3),
        round(float(one @ other), 3),
    )


def seconds_for(embedder: Embedder, texts: Sequence[str], sample: int = 24) -> float:
    """Return about how long embedding the texts takes, by a sample spread over them.

    Raise EmbedderError where the model does not answer.
    """
    if not texts:
        return 0.0
    chosen = texts[:: -(-len(texts) // sample)]
    began = time.perf_counter()
    embedder.embed(chosen)
    return (time.perf_counter() - began) * len(texts) / len(chosen)
