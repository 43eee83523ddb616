"""
The embedder that needs no download: hashed terms and character trigrams.

Feature hashing (Weinberger et al. 2009, https://arxiv.org/abs/0902.2206) puts words that share most
of their letters close together. It knows no meaning; a model does.

The numbers added up are multiples of 2^-15 and their sums stay far below 2^9, so that all are exact
in 32 bits: a text's vector is the same in any order and with any library.
"""

import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import chain

import numpy as np
import numpy.typing as npt

from store.text import tokenizer

Matrix = npt.NDArray[np.float32]
Numbers = npt.NDArray[np.int64]

_BATCH = 256  # texts at a time: bounds the gathered term vectors to some 10 MB of short texts
_SLOTS = 4  # places a feature is spread over: fewer clashes than one at the same dimension
_TRIGRAMS_WEIGH = 0.5
_GRAIN, _COUNT_GRAIN = 2.0**10, 2.0**5
# cached terms, a kB each; a server keeps them for good, and below 8,192, where they double
IN_A_JOB, WHILE_ASKED = 32_768, 8_000
_LONGEST_REMEMBERED = 64  # characters of a chunk; longer ones seldom come again
_NEW_AT_ONCE = 1_024  # terms whose vectors are made together, 2 MB
_ROUND = 8  # texts of about as many terms are added up at once
MAX_CHARACTERS = 4_000  # of a text; the rest changes a vector little


class LexicalEmbedder:
    """Hashed terms and trigrams; the same on every machine."""

    is_cheap = True
    is_local = True
    model = f"lexical-2.{tokenizer.TOKENIZER_VERSION}"
    dimension = 256

    def __init__(self, most_terms: int = IN_A_JOB) -> None:
        """The vectors of about `most_terms` terms are cached, for all embedders together."""
        self._most_terms = most_terms

    def embed(self, texts: Sequence[str]) -> Matrix:
        vectors = np.zeros((len(texts), self.dimension), np.float32)
        for start in range(0, len(texts), _BATCH):
            vocabulary = _with_room(self._most_terms)
            batch = [text[:MAX_CHARACTERS] for text in texts[start : start + _BATCH]]
            sums = _sums(batch, vocabulary)
            lengths = np.linalg.norm(sums, axis=1, keepdims=True)
            np.divide(sums, lengths, out=vectors[start : start + _BATCH], where=lengths > 0)
        return vectors

    def embed_queries(self, texts: Sequence[str]) -> Matrix:
        return self.embed(texts)

    def knows(self, text: str) -> bool:
        return True


class _Vocabulary(dict[str, tuple[int, ...]]):
    """The numbers of the terms of each white-space chunk, made on first use, and their vectors.

    Words are Zipfian: most of a text is looked up. Threads share it, and only adding a term takes
    the lock: no question waits while another thread's long texts are embedded.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.numbers: dict[str, int] = {}
        self.vectors = np.zeros((1_024, LexicalEmbedder.dimension), np.float32)

    def __missing__(self, chunk: str) -> tuple[int, ...]:
        terms = tokenizer.terms(chunk)
        self._add(terms)
        numbers = tuple(map(self.numbers.__getitem__, terms))
        if len(chunk) <= _LONGEST_REMEMBERED:
            self[chunk] = numbers
        return numbers

    def take_in(self, chunks: Iterable[str]) -> None:
        """Learn the terms of chunks all at once, which takes a quarter of the time."""
        new = {chunk for chunk in chunks if chunk not in self and len(chunk) <= _LONGEST_REMEMBERED}
        terms_of = {chunk: tokenizer.terms(chunk) for chunk in new}
        self._add(chain.from_iterable(terms_of.values()))
        for chunk, terms in terms_of.items():
            self[chunk] = tuple(map(self.numbers.__getitem__, terms))

    def _add(self, terms: Iterable[str]) -> None:
        """Give each new term a number and a vector."""
        new = [*dict.fromkeys(term for term in terms if term not in self.numbers)]
        for start in range(0, len(new), _NEW_AT_ONCE):
            some = new[start : start + _NEW_AT_ONCE]
            vectors = _term_vectors(some)
            with self._lock:
                for term, vector in zip(some, vectors, strict=True):
                    number = self.numbers.get(term, len(self.numbers))
                    if number == len(self.vectors):
                        grown = np.zeros((2 * number, LexicalEmbedder.dimension), np.float32)
                        grown[:number] = self.vectors  # the rest takes no memory until written
                        self.vectors = grown
                    self.vectors[number] = vector
                    self.numbers[term] = number  # last: a number that is found has its vector


_vocabulary = _Vocabulary()


def _with_room(most_terms: int) -> _Vocabulary:
    """Return the vocabulary; if it has more terms than are cached, a new one."""
    global _vocabulary
    if max(len(_vocabulary.numbers), len(_vocabulary) // 4) > most_terms:
        _vocabulary = _Vocabulary()
    return _vocabulary


def _sums(texts: Sequence[str], vocabulary: _Vocabulary) -> Matrix:
    """Return the sum of each text's term vectors by the root of their count, [n, dimension]."""
    numbers_of = vocabulary.__getitem__
    chunks = [text.split() for text in texts]
    vocabulary.take_in(chain.from_iterable(chunks))
    numbered = [[*chain.from_iterable(map(numbers_of, chunk))] for chunk in chunks]
    if len(numbered) == 1:  # a query
        counted = Counter(numbered[0])
        terms = np.array([*counted], np.int64)
        sum_: Matrix = _weights([*counted.values()])[None, :] @ vocabulary.vectors[terms]
        return sum_
    sizes = np.fromiter(map(len, numbered), np.int64, len(numbered))
    terms = np.fromiter(chain.from_iterable(numbered), np.int64, int(sizes.sum()))
    row, term, count = _count_pairs(
        np.repeat(np.arange(len(texts)), sizes), terms, len(vocabulary.numbers)
    )
    weight = _weights(count)
    lengths = np.bincount(row, minlength=len(texts))
    start = np.cumsum(lengths) - lengths
    sums = np.zeros((len(texts), LexicalEmbedder.dimension), np.float32)
    rounds = -(-lengths // _ROUND)
    for most in np.unique(rounds[rounds > 0]).tolist():
        rows = np.flatnonzero(rounds == most)
        at = start[rows, None] + np.arange(most * _ROUND)
        is_own = at < (start + lengths)[rows, None]
        at[~is_own] = 0
        weights = np.where(is_own, weight[at], np.float32(0.0))
        sums[rows] = np.matmul(weights[:, None, :], vocabulary.vectors[term[at]])[:, 0]
    return sums


def _weights(counts: Numbers | Sequence[int]) -> npt.NDArray[np.float32]:
    """Return the root of how often each term comes, in grains."""
    roots = np.rint(np.sqrt(np.asarray(counts, np.float64)) * _COUNT_GRAIN)
    weights: npt.NDArray[np.float32] = (roots / _COUNT_GRAIN).astype(np.float32)
    return weights


def _count_pairs(rows: Numbers, terms: Numbers, most: int) -> tuple[Numbers, Numbers, Numbers]:
    """Return each row with each of its terms once, and how often it has it; rows ascend.

    There are `most` terms.
    """
    size = max(1, most)
    pairs = np.sort(rows * size + terms)
    begins = np.flatnonzero(np.diff(pairs, prepend=-1))
    row, term = np.divmod(pairs[begins], size)
    return row, term, np.diff(begins, append=len(pairs))


def _term_vectors(terms: Sequence[str]) -> Matrix:
    """Return the vectors of terms, [n, dimension], in grains.

    The sums are exact in 64 bits, so that the order of a term's trigrams does not matter.
    """
    digests: list[bytes] = []
    trigrams_of = np.empty(len(terms), np.int64)
    for row, term in enumerate(terms):
        edged = f"^{term}$"
        trigrams = {edged[i : i + 3] for i in range(len(edged) - 2)}
        trigrams_of[row] = len(trigrams)
        digests.append(_digest("=" + term))
        digests.extend(map(_trigram_digest, trigrams))
    features = trigrams_of + 1
    slots = np.frombuffer(b"".join(digests), "<u4")
    weights = np.repeat((_TRIGRAMS_WEIGH / np.sqrt(trigrams_of)).astype(np.float32), features)
    weights[np.cumsum(features) - features] = 1.0  # the term itself, before its trigrams
    signed = np.where(slots >> 31, 1, -1) * np.repeat(weights, _SLOTS)
    dimension = LexicalEmbedder.dimension
    place = np.repeat(np.arange(len(terms)), features * _SLOTS) * dimension + slots % dimension
    sums = np.bincount(place, signed, minlength=len(terms) * dimension)
    grains: Matrix = (np.rint(sums * _GRAIN) / _GRAIN).astype(np.float32)
    return grains.reshape(len(terms), dimension)


def _digest(feature: str) -> bytes:
    return blake2b(feature.encode(), digest_size=4 * _SLOTS).digest()


_trigram_digest = lru_cache(maxsize=16_384)(_digest)  # languages have few that come often
