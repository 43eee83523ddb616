"""
postings: the BM25 index, with the scores of rank_bm25's BM25Okapi.

What a posting adds to a score does not depend on the query but for how often it asks, so it is
computed once: `impact` is tf (k1 + 1) / (tf + k1 (1 - b + b length / average)), kept in term order
beside the document number; a score is the sum over the query's terms of idf times impact. The idf
is kept by term, with BM25Okapi's floor: a negative one becomes epsilon times the average.

A word that no memory holds is stood for by those that begin like it, at a share of their impact.

Robertson and Zaragoza 2009, https://doi.org/10.1561/1500000019; the floor is rank_bm25's own.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from store import text
from store.projection import Inputs, Previous, Projection, Tables
from store.projections import kin, memories

# Best of a grid on long conversations and issues; rank_bm25's own defaults are 1.5, .75, .25.
K1, B, EPSILON = 0.9, 0.3, 0.25

TERMS = pa.schema(
    [
        ("hash", pa.uint64()),
        ("offset", pa.int64()),
        ("documents", pa.int32()),
        ("idf", pa.float64()),
    ]
)
POSTINGS = pa.schema([("document", pa.uint32()), ("impact", pa.float32())])
DOCUMENTS = pa.schema([("length", pa.int32())])  # in terms; -1 for a row that is not indexed
STATISTICS = pa.schema(
    [
        ("documents", pa.int64()),
        ("average_length", pa.float64()),
        ("average_idf", pa.float64()),
        ("sample_coverage", pa.float64()),
    ]
)

KIN_SHARE = 0.5  # of the impact of a word that only begins like the one asked for
_PLACES_KEPT = 4_096  # terms whose place is kept at hand: one recall asks for each some ten times
_KIN_KEPT = 64  # unknown words whose kin's documents are

Scores = npt.NDArray[np.float32]
Listed = tuple[npt.NDArray[np.uint32], npt.NDArray[np.float32]]


def term_hash(term: str) -> int:
    """Return the 64 bits a term is filed under."""
    return int.from_bytes(blake2b(term.encode(), digest_size=8).digest(), "little")


def build(inputs: Inputs, previous: Previous | None) -> Tables:
    """Index every memory that is not forgotten; `previous` is not needed."""
    table = inputs.tables["memories"]["memories"]
    return index(
        text.terms(one) if state != memories.FORGOTTEN else None
        for one, state in zip(memories.searched_texts(table), memories.states(table), strict=True)
    )


def index(
    documents: Iterable[Sequence[str] | None],
    *,
    k1: float = K1,
    b: float = B,
    epsilon: float = EPSILON,
) -> Tables:
    """Return the tables of an index over documents given as terms; None is a row left out."""
    vocabulary, hashes, lengths, keys = _occurrences(documents)
    pairs, counts = np.unique(keys, return_counts=True)
    del keys
    document = (pairs & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    term = (pairs >> np.uint64(32)).astype(np.int64)
    indexed = lengths[lengths >= 0]
    average = float(indexed.mean()) if len(indexed) else 0.0
    frequencies = np.bincount(term, minlength=len(hashes))
    seen = sample_coverage(int((frequencies == 1).sum()), int(indexed.sum()))
    idf, average_idf = okapi_idf(frequencies, len(indexed), epsilon)
    length_norm = k1 * (1 - b + b * lengths[document] / (average or 1.0))
    impact = (counts * (k1 + 1) / (counts + length_norm)).astype(np.float32)
    offsets = np.concatenate([[0], np.cumsum(frequencies)[:-1]]) if len(hashes) else np.empty(0)
    return {
        "terms": _arrow(TERMS, hashes, offsets, frequencies, idf),
        "postings": _arrow(POSTINGS, document, impact),
        "documents": _arrow(DOCUMENTS, lengths),
        "kin": kin.table(vocabulary),
        "statistics": _arrow(STATISTICS, [len(indexed)], [average], [average_idf], [seen]),
    }


def sample_coverage(once: int, occurrences: int) -> float:
    """Return the share of a language's running words that a sample has met, by Good and Turing.

    `once` counts the terms in one document only. An empty sample has met nothing.
    """
    return 1.0 - once / occurrences if occurrences else 0.0


def okapi_idf(
    frequencies: npt.NDArray[np.int64], documents: int, epsilon: float = EPSILON
) -> tuple[npt.NDArray[np.float64], float]:
    """Return BM25Okapi's idf for document frequencies, and the average its floor is made of."""
    if not len(frequencies):
        return np.empty(0), 0.0
    idf = np.log(documents - frequencies + 0.5) - np.log(frequencies + 0.5)
    average = float(idf.sum()) / len(idf)
    return np.where(idf < 0, epsilon * average, idf), average


def _occurrences(
    documents: Iterable[Sequence[str] | None],
) -> tuple[list[str], npt.NDArray[np.uint64], npt.NDArray[np.int32], npt.NDArray[np.uint64]]:
    """Return the terms and their hashes, sorted by these, the documents' lengths, and term << 32 |
    document of each occurrence, where `term` is the place in the first two."""
    places: dict[str, int] = {}
    lengths: list[int] = []
    chunks: list[npt.NDArray[np.uint64]] = []
    for number, found in enumerate(documents):
        lengths.append(-1 if found is None else len(found))
        if found:
            ids = [places.setdefault(term, len(places)) for term in found]
            chunks.append(np.asarray(ids, np.uint64) << np.uint64(32) | np.uint64(number))
    hashes = np.fromiter((term_hash(term) for term in places), np.uint64, len(places))
    order = np.argsort(hashes)
    rank = np.empty(len(order), np.uint64)
    rank[order] = np.arange(len(order), dtype=np.uint64)
    keys = np.concatenate(chunks) if chunks else np.empty(0, np.uint64)
    keys = rank[keys >> np.uint64(32)] << np.uint64(32) | keys & np.uint64(0xFFFFFFFF)
    terms = list(places)
    vocabulary = [terms[place] for place in order]
    return vocabulary, hashes[order], np.asarray(lengths, np.int32), keys


def _arrow(schema: pa.Schema, *columns: object) -> pa.Table:
    arrays = [
        pa.array(np.asarray(column).astype(field.type.to_pandas_dtype(), copy=False))
        for column, field in zip(columns, schema, strict=True)
    ]
    return pa.table(arrays, schema=schema)


@dataclass(frozen=True, slots=True)
class PostingsIndex:
    """The index as numpy views into mapped files; `lengths` is -1 where a row is not indexed."""

    hashes: npt.NDArray[np.uint64]
    offsets: npt.NDArray[np.int64]
    frequencies: npt.NDArray[np.int32]
    idfs: npt.NDArray[np.float64]
    documents: npt.NDArray[np.uint32]
    impacts: npt.NDArray[np.float32]
    lengths: npt.NDArray[np.int32]
    size: int
    average_length: float
    average_idf: float
    sample_coverage: float
    kin_hashes: npt.NDArray[np.uint64]
    kin_terms: npt.NDArray[np.int32]
    kin_letters: npt.NDArray[np.uint8]
    # kept at hand; what they hold follows from the arrays
    _places: dict[str, int | None] = field(default_factory=dict, repr=False, compare=False)
    _standing: dict[str, Listed] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def open(cls, tables: Tables) -> "PostingsIndex":
        """Return the index over tables that a build made; nothing is copied."""
        terms, postings = tables["terms"], tables["postings"]
        statistics = tables["statistics"].to_pylist()[0]
        return cls(
            hashes=view(terms, "hash"),
            offsets=view(terms, "offset"),
            frequencies=view(terms, "documents"),
            idfs=view(terms, "idf"),
            documents=view(postings, "document"),
            impacts=view(postings, "impact"),
            lengths=view(tables["documents"], "length"),
            size=statistics["documents"],
            average_length=statistics["average_length"],
            average_idf=statistics["average_idf"],
            sample_coverage=statistics["sample_coverage"],
            kin_hashes=view(tables["kin"], "hash"),
            kin_terms=view(tables["kin"], "term"),
            kin_letters=view(tables["kin"], "letters"),
        )

    @property
    def rows(self) -> int:
        return len(self.lengths)

    def find(self, term: str) -> int | None:
        """Return a term's place in the vocabulary; None for a word no memory holds."""
        try:
            return self._places[term]
        except KeyError:
            hash_ = term_hash(term)
        place = int(np.searchsorted(self.hashes, np.uint64(hash_)))
        known = place < len(self.hashes) and int(self.hashes[place]) == hash_
        if len(self._places) >= _PLACES_KEPT:
            self._places.clear()
        found = self._places[term] = place if known else None
        return found

    def idf(self, term: str) -> float | None:
        """Return a term's idf, or its kin's as of one word; None where there is neither."""
        place = self.find(term)
        if place is not None:
            return float(self.idfs[place])
        held = len(self._kin(term)[0])
        return None if not held else float(np.log((self.size - held + 0.5) / (held + 0.5)))

    def frequency(self, term: str) -> int:
        """Return in how many memories a term, else its kin, occurs."""
        return len(self.posting_list(term)[0])

    def posting_list(self, term: str) -> Listed:
        """Return a term's documents, ascending, and their impacts; else its kin's; may be empty."""
        place = self.find(term)
        if place is None:
            return self._kin(term)
        span = self._span(place)
        return self.documents[span], self.impacts[span]

    def _kin(self, term: str) -> Listed:
        found = self._standing.get(term)
        if found is None:
            if len(self._standing) >= _KIN_KEPT:
                self._standing.clear()
            found = self._standing[term] = self._merged(
                kin.lookup(term, self.kin_hashes, self.kin_terms, self.kin_letters)
            )
        return found

    def _merged(self, places: npt.NDArray[np.int32]) -> Listed:
        """Return several terms' documents as one's: each once, with a share of its best impact."""
        spans = [self._span(int(place)) for place in places]
        if not spans:
            return self.documents[:0], self.impacts[:0]
        documents, where = np.unique(
            np.concatenate([self.documents[span] for span in spans]), return_inverse=True
        )
        impacts = np.zeros(len(documents), np.float32)
        np.maximum.at(impacts, where, np.concatenate([self.impacts[span] for span in spans]))
        return documents, impacts * np.float32(KIN_SHARE)

    def _span(self, place: int) -> slice:
        start = int(self.offsets[place])
        return slice(start, start + int(self.frequencies[place]))

    def holds(self, term: str, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return which of some rows, ascending, hold a term, else its kin, [rows]."""
        listed, _ = self.posting_list(term)
        if not len(listed):
            return np.zeros(len(rows), np.bool_)
        places = np.minimum(listed.searchsorted(rows.astype(np.uint32)), len(listed) - 1)
        held: npt.NDArray[np.bool_] = listed[places] == rows
        return held

    def scores(
        self, query: Sequence[str], *, least_idf: float | None = None, out: Scores | None = None
    ) -> Scores:
        """Return the score of every row, [rows]: BM25Okapi's for the query's terms, repeats count.

        They are written into `out` where it is given.

        In a corpus of a few memories an idf may be zero or less, and then a match counts for
        nothing or against; `least_idf` raises those, at the price of BM25Okapi's exact scores.
        """
        scores = np.empty(self.rows, np.float32) if out is None else out
        scores.fill(0.0)
        for term, repeats in Counter(query).items():
            idf = self.idf(term)
            if idf is None:
                continue
            weight = np.float32(repeats * (idf if least_idf is None else max(idf, least_idf)))
            documents, impacts = self.posting_list(term)
            np.add.at(scores, documents, weight * impacts)  # twice as fast as an indexed add
        return scores


def view(table: pa.Table, name: str) -> npt.NDArray[Any]:
    """Return a column without nulls as numpy, into the mapped file where it is one."""
    column = table.column(name)
    if column.num_chunks == 0:
        return np.empty(0, column.type.to_pandas_dtype())
    array: npt.NDArray[Any] = column.chunk(0).to_numpy(zero_copy_only=True)
    return array


POSTINGS_PROJECTION = Projection(
    name="postings",
    version=f"4.{text.TOKENIZER_VERSION}",
    inputs=("memories",),
    schemas={
        "terms": TERMS,
        "postings": POSTINGS,
        "documents": DOCUMENTS,
        "kin": kin.KIN,
        "statistics": STATISTICS,
    },
    build=build,
)
