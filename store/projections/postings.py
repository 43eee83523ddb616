"""
postings: the BM25 index, with the scores of rank_bm25's BM25Okapi (`lexical.bm25`).

It lies in segments (`lexical.segments`); a term's documents and what each adds lie together in each
of them. A score is the sum over the query's terms of idf times impact. A word that no memory holds
is stood for by those that begin like it (`kin`), at a share of their impact.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from store import text
from store.columns import taken, view
from store.parallel import packed, unpacked
from store.projection import Built, Inputs, Made, Part, Previous, Projection, Tables
from store.projections import kin, memories
from store.projections.lexical import segments
from store.projections.lexical.bm25 import EPSILON, K1, B, Formula
from store.projections.lexical.lists import Numbers, counted, joined, split, term_hash
from store.projections.lexical.segments import Counted

KIN_SHARE = 0.5  # of the impact of a word that only begins like the one asked for
_TERMS_KEPT = 1_024  # terms whose lists are kept at hand: one recall asks for each some ten times
_KIN_KEPT = 64  # unknown words whose kin's documents are
_SOME = 1_024  # postings from which on they are added by the chunk
_CHUNK = 16_384  # postings whose numbers and gains stay in the processor's cache

_BYTES = 32 << 20  # of text looked at together
# what a memory is indexed by
TEXTS = ("content", "context", "action", "result", "tags", "created_by", "created_at")

Scores = npt.NDArray[np.float32]
Listed = tuple[npt.NDArray[np.uint32], npt.NDArray[np.float32]]


def build(inputs: Inputs, previous: Previous | None) -> Made:
    """Index every memory that is not forgotten; only new and changed ones are tokenized."""
    tables = inputs.tables["memories"]
    texts, marks = tables["memories"].select(TEXTS), memories.fingerprints(tables["columns"])

    def indexed(runs: Sequence[Numbers]) -> Iterator[Counted]:
        pieces = ((run, packed(taken(texts, run))) for run in runs)
        some = sum(map(len, runs)) <= segments.BASE
        return map(_counted, pieces) if some else inputs.map(_counted, pieces)

    old = None if previous is None else previous.tables
    return segments.updated(marks, old, indexed, inputs.keep, Formula())


def _counted(piece: tuple[Numbers, pa.Buffer]) -> Counted:
    numbers, data = piece
    table = unpacked(data)
    step = max(1, len(table) * _BYTES // max(table.nbytes, 1))
    made = []
    for start in range(0, len(table), step):
        some = table.slice(start, step)
        chunks, sizes = split(pa.array(memories.searched_texts(some), pa.string()))
        made.append(counted(chunks, sizes, numbers[start : start + step], text.terms))
    lists, lengths = zip(*made, strict=True)
    return joined(lists), np.concatenate(lengths)


def index(
    documents: Iterable[Sequence[str] | None],
    *,
    k1: float = K1,
    b: float = B,
    epsilon: float = EPSILON,
) -> Built:
    """Return the tables of an index over documents given as terms; None is a row left out."""
    given = list(documents)
    marks = np.array([one is not None for one in given], np.uint64)

    def indexed(runs: Sequence[Numbers]) -> Iterator[Counted]:
        for run in runs:
            some = [given[row] or () for row in run]
            terms = pa.array([*chain.from_iterable(some)], pa.string())
            yield counted(terms, np.array([*map(len, some)]), run, lambda term: (term,))

    made = segments.updated(
        marks, None, indexed, lambda name, table: Part.of(table), Formula(k1, b, epsilon)
    )
    return segments.built(made)


class _Known(NamedTuple):
    """A term that memories hold, or what stands for it."""

    idf: float
    documents: int
    lists: tuple[Listed, ...]  # of each segment that has any; documents ascend


@dataclass(frozen=True, slots=True)
class _Segment:
    hashes: npt.NDArray[np.uint64]
    offsets: npt.NDArray[np.int64]
    documents: npt.NDArray[np.uint32]
    impacts: npt.NDArray[np.float32]
    kin_hashes: npt.NDArray[np.uint64]
    kin_terms: npt.NDArray[np.int32]
    kin_letters: npt.NDArray[np.uint8]

    def listed(self, hash_: np.uint64) -> Listed | None:
        place = int(np.searchsorted(self.hashes, hash_))
        if place == len(self.hashes) or self.hashes[place] != hash_:
            return None
        last = place + 1 == len(self.hashes)
        span = slice(
            int(self.offsets[place]), len(self.documents) if last else int(self.offsets[place + 1])
        )
        return self.documents[span], self.impacts[span]

    def filed(self, beginning: str) -> npt.NDArray[np.uint64]:
        """Return the hashes of the terms filed under a beginning."""
        terms = kin.lookup(beginning, self.kin_hashes, self.kin_terms, self.kin_letters)
        return self.hashes[terms]


@dataclass(frozen=True)
class PostingsIndex:
    """The index as numpy views into mapped files."""

    rows: int
    hashes: npt.NDArray[np.uint64]
    frequencies: npt.NDArray[np.int32]
    idfs: npt.NDArray[np.float64]
    segments: tuple[_Segment, ...]
    size: int  # the documents that are indexed
    average_length: float  # as the impacts have it
    average_idf: float
    sample_coverage: float
    _tables: Tables = field(repr=False, compare=False)
    # kept at hand; what they hold follows from the arrays
    _terms: dict[str, _Known | None] = field(default_factory=dict, repr=False, compare=False)
    _standing: dict[str, _Known | None] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def open(cls, tables: Tables) -> "PostingsIndex":
        """Return the index over tables that a build made; nothing is copied."""
        terms, statistics = tables["terms"], tables["statistics"].to_pylist()[0]
        return cls(
            rows=tables["documents"].num_rows,
            hashes=view(terms, "hash"),
            frequencies=view(terms, "documents"),
            idfs=view(terms, "idf"),
            segments=tuple(_segments(tables)),
            size=statistics["documents"],
            average_length=statistics["average_length"],
            average_idf=statistics["average_idf"],
            sample_coverage=statistics["sample_coverage"],
            _tables=tables,
        )

    @cached_property
    def lengths(self) -> npt.NDArray[np.int32]:
        """How many terms each row has, [rows]; -1 where it is not indexed."""
        found: npt.NDArray[np.int32] = view(self._tables["documents"], "length")
        return found

    def find(self, term: str) -> int | None:
        """Return a term's place in the vocabulary; None for a word no memory holds."""
        hash_ = term_hash(term)
        place = int(np.searchsorted(self.hashes, np.uint64(hash_)))
        known = place < len(self.hashes) and int(self.hashes[place]) == hash_
        return place if known else None

    def has(self, term: str) -> bool:
        """Return whether a memory holds a term itself."""
        return self._held(term) is not None

    def idf(self, term: str) -> float | None:
        """Return a term's idf, or its kin's as of one word; None where there is neither."""
        known = self._known(term)
        return None if known is None else known.idf

    def frequency(self, term: str) -> int:
        """Return in how many memories a term, else its kin, occurs."""
        known = self._known(term)
        return 0 if known is None else known.documents

    def posting_list(self, term: str) -> Listed:
        """Return a term's documents, ascending, and their impacts; else its kin's; may be empty."""
        known = self._known(term)
        return _concatenated(() if known is None else known.lists)

    def holds(self, term: str, docs: npt.NDArray[np.integer]) -> npt.NDArray[np.bool_]:
        """Return which rows, ascending, hold a term, else its kin, [docs]."""
        held = np.zeros(len(docs), np.bool_)
        known = self._known(term)
        wanted = docs.astype(np.uint32)  # as the lists are: they must not be cast
        start = 0
        for documents, _ in () if known is None else known.lists:
            # a segment's documents come before the next one's
            end = start + int(wanted[start:].searchsorted(documents[-1], side="right"))
            some = wanted[start:end]
            held[start:end] = documents[documents.searchsorted(some)] == some
            start = end
        return held

    def scores(
        self,
        query: Sequence[str],
        *,
        least_idf: float | None = None,
        out: Scores | None = None,
    ) -> Scores:
        """Return the score of every row, [rows]: BM25Okapi's for the query's terms, repeats count.

        In a corpus of a few memories an idf may be zero or less, and then a match counts for
        nothing or against; `least_idf` raises those, at the price of BM25Okapi's exact scores.
        They are added to `out` where that is given; it has a place for each row, or more.
        """
        scores = np.zeros(self.rows, np.float32) if out is None else out
        numbers, gains = np.empty(_CHUNK, np.int64), np.empty(_CHUNK, np.float32)
        for term, repeats in Counter(query).items():
            known = self._known(term)
            if known is None:
                continue
            idf = known.idf if least_idf is None else max(known.idf, least_idf)
            weight = np.float32(repeats * idf)
            for documents, impacts in known.lists:
                if len(documents) <= _SOME:
                    np.add.at(scores, documents, weight * impacts)
                    continue
                for start in range(0, len(documents), _CHUNK):
                    some = documents[start : start + _CHUNK]
                    where, gain = numbers[: len(some)], gains[: len(some)]
                    where[:] = some  # add.at wants them so: a whole list would be cast at once
                    np.multiply(impacts[start : start + _CHUNK], weight, out=gain)
                    np.add.at(scores, where, gain)
        return scores

    def _known(self, term: str) -> _Known | None:
        return self._held(term) or self._kin(term)

    def _held(self, term: str) -> _Known | None:
        try:
            return self._terms[term]
        except KeyError:
            place = self.find(term)
        found = None
        if place is not None:
            lists = self._lists(self.hashes[place])
            found = _Known(float(self.idfs[place]), int(self.frequencies[place]), lists)
        if len(self._terms) >= _TERMS_KEPT:
            self._terms.clear()
        self._terms[term] = found
        return found

    def _kin(self, term: str) -> _Known | None:
        try:
            return self._standing[term]
        except KeyError:
            found = self._merged(self._related(term))
        if len(self._standing) >= _KIN_KEPT:
            self._standing.clear()
        self._standing[term] = found
        return found

    def _lists(self, hash_: np.uint64) -> tuple[Listed, ...]:
        listed = (segment.listed(hash_) for segment in self.segments)
        return tuple(one for one in listed if one is not None)

    def _related(self, word: str) -> npt.NDArray[np.uint64]:
        """Return the hashes of the terms that share the longest beginning with a word."""
        for beginning in kin.beginnings(word):
            filed = [segment.filed(beginning) for segment in self.segments]
            if any(map(len, filed)):
                return np.unique(np.concatenate(filed))[: kin.MOST]
        return np.empty(0, np.uint64)

    def _merged(self, hashes: npt.NDArray[np.uint64]) -> _Known | None:
        """Return several terms' documents as one's: each once, with a share of its best impact."""
        if not len(hashes):
            return None
        listed, gains = _concatenated([one for hash_ in hashes for one in self._lists(hash_)])
        documents, where = np.unique(listed, return_inverse=True)
        impacts = np.zeros(len(documents), np.float32)
        np.maximum.at(impacts, where, gains)
        held = len(documents)
        idf = float(np.log((self.size - held + 0.5) / (held + 0.5)))
        return _Known(idf, held, ((documents, impacts * np.float32(KIN_SHARE)),))


def _segments(tables: Tables) -> Iterator[_Segment]:
    starts = dict.fromkeys(segments.SEGMENTS.names, 0)
    for rows in tables["segments"].to_pylist():
        words, postings, related = (
            tables[name].slice(starts[name], rows[name]) for name in ("words", "postings", "kin")
        )
        yield _Segment(
            hashes=view(words, "hash"),
            offsets=view(words, "offset"),
            documents=view(postings, "document"),
            impacts=view(postings, "impact"),
            kin_hashes=view(related, "hash"),
            kin_terms=view(related, "term"),
            kin_letters=view(related, "letters"),
        )
        starts = {name: starts[name] + rows[name] for name in starts}


def _concatenated(lists: Sequence[Listed]) -> Listed:
    if len(lists) == 1:
        return lists[0]
    documents = [np.empty(0, np.uint32), *(one for one, _ in lists)]
    return np.concatenate(documents), np.concatenate(
        [np.empty(0, np.float32), *(impacts for _, impacts in lists)]
    )


POSTINGS_PROJECTION = Projection(
    name="postings",
    version=f"5.{text.TOKENIZER_VERSION}",
    inputs=("memories",),
    schemas=segments.SCHEMAS,
    build=build,
)
