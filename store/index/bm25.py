"""
BM25 as rank_bm25's BM25Okapi computes it: term lists, the impact of a posting, the weight of a
term.

`Lists` have for each term of some documents the documents with it and its frequencies, as arrays.
They are made from words once; all later changes (documents leave, return with another text, runs of
documents become one) are passes over the arrays, and give the same lists as the words would.

A posting's share of a score depends on the query only through the query's term frequency, so it is
computed once: `impact` is tf (k1 + 1) / (tf + k1 (1 - b + b length / average)). The average length
is rounded to one of 64 steps to an octave, that is by half a per cent at most, so that one memory
more does not change every impact; the scores are those of a BM25Okapi whose `avgdl` is that. An idf
has BM25Okapi's floor: a negative one becomes epsilon times the average.

Robertson and Zaragoza 2009, https://doi.org/10.1561/1500000019; the floor is rank_bm25's own.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from store.text.tokenizer import filing_hash

# Best of a grid on long conversations and issues; rank_bm25's own defaults are 1.5, .75, .25.
K1, B, EPSILON = 0.9, 0.3, 0.25

STEPS = 64  # of the average length, to an octave
_AT_ONCE = 1 << 18  # postings; bounds the memory of intermediate results


class Formula(msgspec.Struct, frozen=True):
    """BM25's parameters."""

    k1: float = K1
    b: float = B
    epsilon: float = EPSILON


def round_impacts(average: float) -> float:
    """Return the nearest step to an average length; 0 for one of 0."""
    return 2.0 ** (round(math.log2(average) * STEPS) / STEPS) if average > 0 else 0.0


def norms(
    lengths: npt.NDArray[np.int32], average: float, formula: Formula
) -> npt.NDArray[np.float64]:
    """Return the length norm that damps the counts of each document, [documents]."""
    k1, b = formula.k1, formula.b
    return k1 * (1 - b + b * lengths.astype(np.float64) / (average or 1.0))


def impacts(
    documents: npt.NDArray[np.uint32],
    counts: npt.NDArray[np.uint16],
    norms: npt.NDArray[np.float64],
    formula: Formula,
) -> npt.NDArray[np.float32]:
    """Return the impact of each posting, [postings]; `norms` are of all documents."""
    impacts = np.empty(len(counts), np.float32)
    for start in range(0, len(counts), _AT_ONCE):
        some = slice(start, start + _AT_ONCE)
        impacts[some] = counts[some] * (formula.k1 + 1) / (counts[some] + norms[documents[some]])
    return impacts


def okapi_idf(
    frequencies: npt.NDArray[np.int64], documents: int, epsilon: float = EPSILON
) -> tuple[npt.NDArray[np.float64], float]:
    """Return BM25Okapi's idf for document frequencies, and the average its floor is made of.

    A term of no document that counts weighs nothing, and is not part of the average.
    """
    is_used = frequencies > 0
    idf = np.zeros(len(frequencies))
    if not is_used.any():
        return idf, 0.0
    counts = frequencies[is_used]
    raw = np.log(documents - counts + 0.5) - np.log(counts + 0.5)
    average = float(raw.sum()) / len(raw)
    idf[is_used] = np.where(raw < 0, epsilon * average, raw)
    return idf, average


def sample_coverage(once: int, occurrences: int) -> float:
    """Return the share of a language's running words that a sample has met, by Good and Turing.

    `once` counts the terms in one document only. An empty sample has met nothing.
    """
    return 1.0 - once / occurrences if occurrences else 0.0


MAX_BATCH_POSTINGS = 65_535  # occurrences of a term in a document; more count as this

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Lists:
    """Terms in order of their hashes; postings in order of their terms, then their documents."""

    hashes: npt.NDArray[np.uint64]  # [terms]
    words: pa.StringArray  # [terms]
    frequencies: npt.NDArray[np.int64]  # [terms], in how many documents; never 0
    documents: npt.NDArray[np.uint32]  # [postings], document numbers
    counts: npt.NDArray[np.uint16]  # [postings]

    @cached_property
    def offsets(self) -> npt.NDArray[np.int64]:
        """The start of each term's postings, [terms]."""
        return np.cumsum(self.frequencies) - self.frequencies


def empty_lists() -> Lists:
    return Lists(
        np.empty(0, np.uint64),
        pa.array([], pa.string()),
        np.empty(0, np.int64),
        np.empty(0, np.uint32),
        np.empty(0, np.uint16),
    )


def tokenize_batch(texts: pa.StringArray) -> tuple[pa.StringArray, Numbers]:
    """Return the chunks of texts at white space, one after the other, and how many each has."""
    import pyarrow.compute as pc  # jobs only

    chunks = pc.utf8_split_whitespace(texts)
    return chunks.flatten(), chunks.value_lengths().to_numpy().astype(np.int64)


def count_terms(
    chunks: pa.StringArray,
    sizes: Numbers,
    numbers: Numbers,
    terms_of: Callable[[str], Sequence[str]],
) -> tuple[Lists, npt.NDArray[np.int32]]:
    """Return the lists of documents, and how many terms each has, [documents].

    `sizes` are the numbers of chunks of the documents, `numbers`, ascending, the documents, and
    `terms_of` returns a chunk's terms; it is called once for each different chunk.
    """
    coded = chunks.dictionary_encode()
    places: dict[str, int] = {}
    term_places: list[int] = []
    ends = [0]
    for chunk in coded.dictionary.to_pylist():
        term_places += [places.setdefault(term, len(places)) for term in terms_of(chunk)]
        ends.append(len(term_places))
    hashes = np.fromiter(map(filing_hash, places), np.uint64, len(places))
    order = np.argsort(hashes)
    rank = np.empty(len(order), np.uint64)
    rank[order] = np.arange(len(order), dtype=np.uint64) << np.uint64(32)

    codes = coded.indices.to_numpy()
    terms = np.diff(ends)[codes]  # of each chunk
    within = np.arange(terms.sum()) - np.repeat(np.cumsum(terms) - terms, terms)
    where = np.repeat(np.asarray(ends)[codes], terms) + within
    keys = rank[np.asarray(term_places, np.int64)][where]
    of = np.repeat(np.repeat(np.arange(len(sizes)), sizes), terms)  # which document each is of
    lengths = np.bincount(of, minlength=len(sizes)).astype(np.int32)
    keys |= numbers.astype(np.uint64)[of]
    pairs, counts = np.unique(keys, return_counts=True)
    place = (pairs >> np.uint64(32)).astype(np.int64)
    return Lists(
        hashes[order],
        pa.array(list(places), pa.string()).take(pa.array(order)),
        np.bincount(place, minlength=len(order)),
        (pairs & np.uint64(0xFFFFFFFF)).astype(np.uint32),
        np.minimum(counts, MAX_BATCH_POSTINGS).astype(np.uint16),
    ), lengths


def join_lists(runs: Sequence[Lists]) -> Lists:
    """Return the joined lists of runs of documents, each after the ones before."""
    if len(runs) <= 1:
        return runs[0] if runs else empty_lists()
    hashes, words, places = _vocabulary(runs)
    frequencies = np.zeros(len(hashes), np.int64)
    for run, place in zip(runs, places, strict=True):
        frequencies[place] += run.frequencies
    filled = np.cumsum(frequencies) - frequencies
    documents = np.empty(int(frequencies.sum()), np.uint32)
    counts = np.empty(len(documents), np.uint16)
    for run, place in zip(runs, places, strict=True):
        where = np.repeat(filled[place] - run.offsets, run.frequencies)
        where += np.arange(len(where))
        documents[where] = run.documents
        counts[where] = run.counts
        filled[place] += run.frequencies
    return Lists(hashes, words, frequencies, documents, counts)


def insert_lists(lists: Lists, more: Lists) -> Lists:
    """Return the merged lists of two sets of different documents, in any order."""
    hashes, words, places = _vocabulary((lists, more))
    keys, new = (_keys(run, place) for run, place in zip((lists, more), places, strict=True))
    where = np.searchsorted(keys, new)
    del keys
    frequencies = np.zeros(len(hashes), np.int64)
    for run, place in zip((lists, more), places, strict=True):
        frequencies[place] += run.frequencies
    return Lists(
        hashes,
        words,
        frequencies,
        np.insert(lists.documents, where, more.documents),
        np.insert(lists.counts, where, more.counts),
    )


def drop_documents(lists: Lists, gone: Numbers) -> Lists:
    """Return the lists without some documents, given ascending."""
    if not len(gone) or not len(lists.documents):
        return lists
    leaves = np.zeros(max(int(gone[-1]), int(lists.documents.max())) + 1, np.bool_)
    leaves[gone] = True
    stays = ~leaves[lists.documents]
    frequencies = np.add.reduceat(stays, lists.offsets, dtype=np.int64)
    is_used = frequencies > 0
    return Lists(
        lists.hashes[is_used],
        lists.words.filter(pa.array(is_used)),
        frequencies[is_used],
        lists.documents[stays],
        lists.counts[stays],
    )


def gather_lists(lists: Iterable[Lists], into: npt.NDArray[np.int32]) -> Lists:
    """Return the lists of documents that combine several each, with their frequencies added up.

    `into` is the new document of each old one, [old documents], -1 for none; the old lists may come
    in any order.
    """
    runs: list[Lists] = []
    for run in lists:
        to = into[run.documents]
        kept = np.flatnonzero(to >= 0)
        frequencies = np.add.reduceat(to >= 0, run.offsets, dtype=np.int64) if len(to) else kept
        some = np.flatnonzero(frequencies)
        words = run.words.take(pa.array(some))
        documents = to[kept].astype(np.uint32)
        runs.append(Lists(run.hashes[some], words, frequencies[some], documents, run.counts[kept]))
    if not runs:
        return empty_lists()
    hashes, words, places = _vocabulary(runs)
    keys = np.concatenate([_keys(run, place) for run, place in zip(runs, places, strict=True)])
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    firsts = np.flatnonzero(np.diff(keys, prepend=~keys[:1]))
    counts = np.concatenate([run.counts for run in runs])[order].astype(np.int64)
    counts = np.add.reduceat(counts, firsts) if len(firsts) else counts
    pairs = keys[firsts]
    return Lists(
        hashes,
        words,
        np.bincount((pairs >> np.uint64(32)).astype(np.int64), minlength=len(hashes)),
        (pairs & np.uint64(0xFFFFFFFF)).astype(np.uint32),
        np.minimum(counts, MAX_BATCH_POSTINGS).astype(np.uint16),
    )


def _vocabulary(
    runs: Sequence[Lists],
) -> tuple[npt.NDArray[np.uint64], pa.StringArray, list[npt.NDArray[np.int64]]]:
    """Return the terms of all runs, by hash, and the place of each run's terms among them."""
    hashes, first, where = np.unique(
        np.concatenate([run.hashes for run in runs]), return_index=True, return_inverse=True
    )
    words = pa.concat_arrays([run.words for run in runs]).take(pa.array(first))
    ends = np.cumsum([len(run.hashes) for run in runs])
    return hashes, words, np.split(where, ends[:-1])


def _keys(lists: Lists, places: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """Return term << 32 | document of each posting, ascending."""
    keys = np.repeat(places.astype(np.uint64) << np.uint64(32), lists.frequencies)
    keys |= lists.documents
    return keys
