"""
Synthetic memories for the benchmarks: Zipfian words, a quarter of them from a topic.

The commonest words act as stop words: most memories contain them, and no tokenizer knows them.
Without topics all vectors would be about equally far apart, and an index over vectors would look
worse than it is. The same seed gives the same texts, and a small corpus is the beginning of a large
one.
"""

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np
import numpy.typing as npt

_SYLLABLES = ("ka", "lo", "mi", "ne", "pu", "ra", "sto", "ver", "quin", "ba", "dor", "fel")
Words = npt.NDArray[np.object_]  # commonest first
WORDS: Words = np.array(["".join(parts) for parts in product(_SYLLABLES, repeat=4)], object)
LENGTH = 30  # words of a text

_COMMON = 200  # words without meaning, never a topic's or a keyword
_TOPICS = 500
_TOPIC_WORDS = 50
_TOPICAL = 0.25  # of a text's words; ten words then match 0.7 postings a memory
_BATCH = 1_000


def texts(count: int, seed: int = 7, words: Words = WORDS) -> Iterator[str]:
    """Yield `count` texts of LENGTH words."""
    chosen = np.random.default_rng(seed)
    weights = 1.0 / (np.arange(len(words)) + 2.7)  # the commonest is in six texts of ten
    reach = np.cumsum(weights / weights.sum())
    topics = chosen.integers(_COMMON, len(words), (_TOPICS, _TOPIC_WORDS))
    shape = (_BATCH, LENGTH)
    for start in range(0, count, _BATCH):
        common = np.minimum(np.searchsorted(reach, chosen.random(shape)), len(words) - 1)
        topic = chosen.integers(0, _TOPICS, (_BATCH, 1))
        own = topics[topic, chosen.integers(0, _TOPIC_WORDS, shape)]
        places = np.where(chosen.random(shape) < _TOPICAL, own, common)
        for some in words[places[: count - start]]:
            yield " ".join(some)


def questions(corpus: Sequence[str], count: int, seed: int = 11) -> list[str]:
    """Return `count` runs of ten words from a memory, common words included."""
    chosen = np.random.default_rng(seed)
    questions = []
    for place in chosen.integers(0, len(corpus), count):
        start = int(chosen.integers(0, LENGTH - 10))
        questions.append(" ".join(corpus[place].split()[start : start + 10]))
    return questions


def keywords(corpus: Sequence[str], count: int, seed: int = 13) -> list[str]:
    """Return `count` queries of four words from a memory, none of them common."""
    chosen = np.random.default_rng(seed)
    common = frozenset(WORDS[:_COMMON])
    questions = []
    for place in chosen.integers(0, len(corpus), count):
        rare = [word for word in dict.fromkeys(corpus[place].split()) if word not in common]
        questions.append(" ".join(chosen.permutation(rare)[:4]))
    return questions
