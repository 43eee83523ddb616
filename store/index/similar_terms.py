"""
Similar terms: a query's word also matches, at a lower weight, indexed words with a similar
spelling.

A stemmer knows the endings of one language. Words that share most of their letters mean much the
same in all: "Rechnungsnummer" finds "Rechnungsnummern", "timeout" finds "time out", a misspelt name
the name. Two words are similar if the Dice coefficient of their sets of trigrams is .6 or more
(Dice 1945, https://doi.org/10.2307/1932409; for words Adamson and Boreham 1974,
https://doi.org/10.1016/0020-0271(74)90020-5), the beginning marked twice so that it counts more;
its square is the share at which one matches the other. Only plain words are similar to others:
identifiers and numbers match only as written.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from store.text import tokenizer

MIN_LETTERS = 4
LEAST = 0.36  # the least share at which a similar word matches
MOST = 6  # similar words of a word
MOST_WORDS = 64  # of a question, that are joined
# times a word's postings that a vocabulary may have, to be counted as a whole; of real ones with
# thousands of words it has some twenty times as many
_COUNTED = 3
_SMALL = 4_096  # a word's postings in a vocabulary too small to know the common trigrams
_BEGIN, _END = "\x02\x02", "\x03"
_BITS = 21  # of a code point

# sorted by trigram: the terms of a vocabulary with it, ascending
TRIGRAMS = pa.schema([("trigram", pa.uint64()), ("term", pa.int32())])

Codes = npt.NDArray[np.uint64]
Places = npt.NDArray[np.int32]
Shares = npt.NDArray[np.float64]


def has_similar(term: str) -> bool:
    """Return True if a term is a word that may have similar ones."""
    return len(term) >= MIN_LETTERS and tokenizer.is_word(term)


@lru_cache(maxsize=1_024)  # of one question: snapshot and tail ask for the same
def trigrams(term: str) -> Codes:
    """Return a word's different trigrams, ascending, 63 bits each; empty for other terms.

    The array is shared: do not change it.
    """
    if not has_similar(term):
        return np.empty(0, np.uint64)
    letters = [*map(ord, f"{_BEGIN}{term}{_END}")]
    packed = {
        (first << 2 * _BITS) | (second << _BITS) | third
        for first, second, third in zip(letters, letters[1:], letters[2:], strict=False)
    }
    return np.array(sorted(packed), np.uint64)


def trigram_table(vocabulary: Sequence[str]) -> tuple[pa.Table, npt.NDArray[np.uint8]]:
    """Return the trigrams of a vocabulary, and how many different ones each term has, [terms]."""
    by_length: dict[int, list[int]] = {}
    for place, term in enumerate(vocabulary):
        if has_similar(term):
            by_length.setdefault(len(term), []).append(place)
    sizes = np.zeros(len(vocabulary), np.uint8)
    codes, terms = [np.empty(0, np.uint64)], [np.empty(0, np.int32)]
    for length, places in by_length.items():
        of_words = np.sort(_trigrams([vocabulary[place] for place in places], length))
        is_new = np.ones(of_words.shape, np.bool_)
        is_new[:, 1:] = of_words[:, 1:] != of_words[:, :-1]
        sizes[places] = is_new.sum(axis=1)
        codes.append(of_words[is_new])
        terms.append(np.repeat(np.asarray(places, np.int32), is_new.sum(axis=1)))
    filed, owners = np.concatenate(codes), np.concatenate(terms)
    order = np.lexsort((owners, filed))
    return pa.table([filed[order], owners[order]], schema=TRIGRAMS), sizes


def similarity(shared: npt.NDArray[Any], of_one: int, of_others: npt.NDArray[Any]) -> Shares:
    """Return the share at which each other word matches a word, 0 to 1.

    `of_one` and `of_others` are their numbers of different trigrams, `shared` those in common.
    """
    shares: Shares = (2.0 * shared / (float(of_one) + of_others)) ** 2  # bytes would overflow
    return shares


def similar_places(
    asked: Codes,
    filed: Codes,
    terms: Places,
    sizes: npt.NDArray[np.uint8],
    *,
    is_held: bool = False,
) -> tuple[Places, Shares]:
    """Return the terms of a vocabulary that are similar to a word, ascending, and their shares.

    `asked` are the word's trigrams; the others are the columns of `trigram_table`. The word itself
    is included with 1. If a third of the vocabulary could be similar, as with words of a few
    syllables, similarity means little: then a word that `is_held` has no similar ones.
    """
    if not len(asked):
        return terms[:0], np.empty(0)
    ends = filed.searchsorted(np.concatenate([asked, asked + np.uint64(1)]))
    lists = [
        terms[start:end]
        for start, end in zip(ends[: len(asked)].tolist(), ends[len(asked) :].tolist(), strict=True)
    ]
    least = -(-3 * len(lists) // 7)  # of its trigrams, that a similar word shares
    postings = sum(map(len, lists))
    is_crowded = len(sizes) <= _COUNTED * postings
    if is_held and is_crowded and postings > _SMALL:
        return terms[:0], np.empty(0)
    if is_crowded:
        times = np.bincount(np.concatenate(lists), minlength=len(sizes))
        similar = np.flatnonzero(times >= least).astype(np.int32)
        counts = times[similar]
    else:
        similar, counts = _count_shortest(sorted(lists, key=len), len(lists) - least + 2)
    shares = similarity(np.asarray(counts), len(asked), sizes[similar])
    is_near = shares >= LEAST
    return similar[is_near], shares[is_near]


def _count_shortest(lists: Sequence[Places], few: int) -> tuple[Places, npt.NDArray[np.int64]]:
    """Return the terms that are in two of the `few` shortest lists, ascending, and in how many
    lists each is; the lists come the shortest first.
    """
    every = np.sort(np.concatenate(lists[:few]))
    again = every[1:][every[1:] == every[:-1]]
    terms = np.concatenate([again[:1], again[1:][again[1:] != again[:-1]]])
    counts = every.searchsorted(terms, "right") - every.searchsorted(terms)
    for common in lists[few:]:
        if len(common):
            counts += common.take(common.searchsorted(terms), mode="clip") == terms
    return terms, counts


def _trigrams(words: Sequence[str], length: int) -> Codes:
    """Return the trigrams of words of one length, [words, length + 1], with repeats."""
    padded = "".join(f"{_BEGIN}{word}{_END}" for word in words)
    codes = np.frombuffer(padded.encode("utf-32-le", "surrogatepass"), np.uint32)
    letters = codes.reshape(len(words), length + len(_BEGIN) + len(_END)).astype(np.uint64)
    first, second, third = letters[:, :-2], letters[:, 1:-1], letters[:, 2:]
    packed: Codes = (first << np.uint64(2 * _BITS)) | (second << np.uint64(_BITS)) | third
    return packed


def joined_words(text: str) -> list[str]:
    """Return the terms of each two neighbouring words of a text written as one: "time out"."""
    pairs = pairwise(text.split()[:MOST_WORDS])
    joined = ("".join(pair) for pair in pairs if all(map(str.isalpha, pair)))
    return [term for word in joined if word.islower() for term in tokenizer.terms(word)]
