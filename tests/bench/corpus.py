"""Synthetic memories for the benchmarks: Zipfian words, 30 a text, the same for the same seed."""

import random
from collections.abc import Iterator
from itertools import product

_SYLLABLES = ("ka", "lo", "mi", "ne", "pu", "ra", "sto", "ver", "quin", "ba", "dor", "fel")
WORDS = ["".join(parts) for parts in product(_SYLLABLES, repeat=4)]
_WEIGHTS = [1 / (rank + 10) for rank in range(len(WORDS))]
LENGTH = 30


def texts(count: int, seed: int = 7) -> Iterator[str]:
    """Yield `count` texts of LENGTH words."""
    chosen = random.Random(seed)
    for _ in range(count):
        yield " ".join(chosen.choices(WORDS, _WEIGHTS, k=LENGTH))


def queries(corpus: list[str], count: int, seed: int = 11) -> list[str]:
    """Return questions of five words that some memory holds, as a person would half remember it."""
    chosen = random.Random(seed)
    return [" ".join(chosen.sample(chosen.choice(corpus).split(), 5)) for _ in range(count)]
