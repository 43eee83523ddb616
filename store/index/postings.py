"""
postings: the BM25 index, with the scores of rank_bm25's BM25Okapi (`bm25`).

It is stored in segments (`segments`), each with a term's documents and their impacts side by side.
A score is the sum over the query's terms of idf times impact. A rare or unknown term also matches
similar ones, at a share of their impact (`similar_terms`). Insights of jobs are indexed but not
counted: they do not change the weight of a word (`insight_mask`).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import chain
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from store.index import segments, similar_terms
from store.index.bm25 import (
    EPSILON,
    K1,
    B,
    Formula,
    Numbers,
    count_terms,
    join_lists,
    tokenize_batch,
)
from store.index.segments import SEGMENTS, Counted
from store.memories.memory import TEXT_FIELDS
from store.memories.table import insight_mask, searched_texts, text_fingerprints
from store.snapshots.parallel import pack_table, unpack_table
from store.snapshots.projection import (
    Built,
    Inputs,
    Made,
    Part,
    Previous,
    Projection,
    Tables,
    column_view,
    take_rows,
)
from store.text import tokenizer

Listed = tuple[npt.NDArray[np.uint32], npt.NDArray[np.float32]]  # documents ascending, impacts


class SegmentView(msgspec.Struct, frozen=True):
    """One segment: its words, by hash, their postings, and its words' trigrams."""

    first: int  # the number of its first document
    hashes: npt.NDArray[np.uint64]
    offsets: npt.NDArray[np.int64]
    documents: npt.NDArray[np.uint32]
    impacts: npt.NDArray[np.float32]
    wide: dict[int, int]  # of each wide word its place and its row
    spread: npt.NDArray[np.float32]  # [wide words, documents]
    sizes: npt.NDArray[np.uint8]  # of each word, how many different trigrams it has
    trigrams: npt.NDArray[np.uint64]  # ascending, with the place of a word that has it
    trigram_terms: npt.NDArray[np.int32]

    def find(self, hashes: npt.NDArray[np.uint64]) -> Iterator[tuple[int, slice, int | None]]:
        """Yield the places of the postings of some terms, if in the segment, in the terms' order.

        With it go the number of the term among those asked for, and the row of a wide word.
        """
        if not len(self.hashes):
            return
        places, held = among(self.hashes, hashes)
        starts = self.offsets.take(places, mode="clip").tolist()
        ends = self.offsets.take(places + 1, mode="clip").tolist()
        last = len(self.hashes) - 1
        for number, (place, has) in enumerate(zip(places.tolist(), held.tolist(), strict=True)):
            if has:
                end = len(self.documents) if place == last else ends[number]
                yield number, slice(starts[number], end), self.wide.get(place)

    def postings(self, span: slice) -> Listed:
        return self.documents[span], self.impacts[span]

    def postings_at(self, place: int) -> Listed:
        """Return the postings of the word at a place."""
        end = self.offsets[place + 1] if place + 1 < len(self.offsets) else len(self.documents)
        return self.postings(slice(int(self.offsets[place]), int(end)))

    def similar_terms(
        self, trigrams: npt.NDArray[np.uint64], *, is_held: bool
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float64]]:
        """Return the places of the words that are similar to one with these trigrams, and how."""
        return similar_terms.similar_places(
            trigrams, self.trigrams, self.trigram_terms, self.sizes, is_held=is_held
        )


def views(tables: Tables) -> Iterator[SegmentView]:
    """Yield the segments of an index's tables; nothing is copied."""
    starts = dict.fromkeys(SEGMENTS.names, 0)
    names = ("words", "postings", "wide", "spread", "trigrams")
    for rows in tables["segments"].to_pylist():
        words, postings, wide, spread, filed = (
            tables[name].slice(starts[name], rows[name]) for name in names
        )
        yield SegmentView(
            first=starts["documents"],
            hashes=column_view(words, "hash"),
            offsets=column_view(words, "offset"),
            documents=column_view(postings, "document"),
            impacts=column_view(postings, "impact"),
            wide={place: row for row, place in enumerate(column_view(wide, "term").tolist())},
            spread=column_view(spread, "impact").reshape(rows["wide"], rows["documents"]),
            sizes=column_view(words, "trigrams"),
            trigrams=column_view(filed, "trigram"),
            trigram_terms=column_view(filed, "term"),
        )
        starts = {name: starts[name] + rows[name] for name in starts}


def concatenate_lists(lists: Sequence[Listed]) -> Listed:
    """Return several lists as one, one after the other."""
    if len(lists) == 1:
        return lists[0]
    documents = [np.empty(0, np.uint32), *(numbers for numbers, _ in lists)]
    return np.concatenate(documents), np.concatenate(
        [np.empty(0, np.float32), *(impacts for _, impacts in lists)]
    )


def among(
    values: npt.NDArray[Any], wanted: npt.NDArray[Any]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Return the places of wanted values in ascending ones, and a mask of those among them."""
    places = values.searchsorted(wanted)
    if not len(values):
        return places, np.zeros(len(wanted), np.bool_)
    return places, values.take(places, mode="clip") == wanted


SHORT = 2_048  # postings up to which lists are put together, and added at once

Span = tuple[int, slice]  # a segment, and where the postings of a term are in it


class Narrow(NamedTuple):
    """A term's documents in some segments one after the other, and their impacts."""

    first: int  # segment
    last: int  # segment
    listed: Listed


class Wide(NamedTuple):
    """Each document's gain from a term in a segment, 0 for documents without it."""

    segment: int
    gains: npt.NDArray[np.float32]


class TermLists(NamedTuple):
    """The places of a term: the segments where it is no wide word, and the others."""

    narrow: tuple[Narrow, ...]
    wide: tuple[Wide, ...]


def lookup(segments: Sequence[SegmentView], hashes: npt.NDArray[np.uint64]) -> list[TermLists]:
    """Return the lists of each of some terms, [terms]; empty for one that no segment has.

    Each list costs a recall some calls, however short it is. So a rare term's lists in neighbouring
    segments are joined, and a wide word has none if the segment's spread has a row for it.
    """
    narrow: list[list[Span]] = [[] for _ in hashes]
    wide: list[list[Wide]] = [[] for _ in hashes]
    for place, segment in enumerate(segments):
        for number, span, row in segment.find(hashes):
            if row is None:
                narrow[number].append((place, span))
            else:
                wide[number].append(Wide(place, segment.spread[row]))
    return [
        TermLists(_merge_spans(segments, spans), tuple(rows))
        for spans, rows in zip(narrow, wide, strict=True)
    ]


def lists_of(segments: Sequence[SegmentView], hashes: npt.NDArray[np.uint64]) -> list[Listed]:
    """Return the lists of terms as stored in each segment, one segment after the other."""
    return [view.postings(span) for view in segments for _, span, _ in view.find(hashes)]


def _merge_spans(segments: Sequence[SegmentView], spans: Sequence[Span]) -> tuple[Narrow, ...]:
    if len(spans) == 1:
        place, span = spans[0]
        return (Narrow(place, place, segments[place].postings(span)),)
    groups: list[list[Span]] = []
    size = SHORT
    for place, span in spans:
        more = span.stop - span.start
        if size + more > SHORT:
            groups.append([])
            size = 0
        size += more
        groups[-1].append((place, span))
    return tuple(
        Narrow(
            group[0][0],
            group[-1][0],
            concatenate_lists([segments[place].postings(span) for place, span in group]),
        )
        for group in groups
    )


# Shares of the memories: terms in many of them are found without similar words, and a term in every
# tenth memory is weak evidence for a similar one.
_RARE, _COMMON = 0.003, 0.1
_LEAST_RARE = 8  # memories
_TERMS_KEPT = 1_024  # terms with cached lists: one recall reads each some ten times
_EXPANDED_KEPT = 4_096  # words with cached documents of similar ones
_SIMILAR_KEPT = 1 << 18  # documents of these, 12 bytes each
_CHUNK = 32_768  # postings whose numbers and gains stay in the processor's cache

_BYTES = 32 << 20  # of text processed together

_hash = lru_cache(maxsize=1 << 14)(tokenizer.filing_hash)  # words are Zipfian

# the indexed fields of a memory
TEXTS = (*TEXT_FIELDS, "created_by", "created_at")

Scores = npt.NDArray[np.float32]


def build_postings(inputs: Inputs, previous: Previous | None) -> Made:
    """Index every memory that is not forgotten; only new and changed ones are tokenized."""
    tables = inputs.tables["memories"]
    texts, marks = tables["memories"].select(TEXTS), text_fingerprints(tables["columns"])

    def count_runs(runs: Sequence[Numbers]) -> Iterator[Counted]:
        pieces = ((run, pack_table(take_rows(texts, run))) for run in runs)
        some = sum(map(len, runs)) <= segments.BASE
        return map(_count_terms, pieces) if some else inputs.map(_count_terms, pieces)

    old = None if previous is None else previous.tables
    repeated = insight_mask(tables["memories"])
    return segments.update_segments(marks, old, count_runs, inputs.keep, Formula(), repeated)


def _count_terms(piece: tuple[Numbers, pa.Buffer]) -> Counted:
    numbers, data = piece
    table = unpack_table(data)
    step = max(1, len(table) * _BYTES // max(table.nbytes, 1))
    runs = []
    for start in range(0, len(table), step):
        some = table.slice(start, step)
        chunks, sizes = tokenize_batch(pa.array(searched_texts(some), pa.string()))
        runs.append(count_terms(chunks, sizes, numbers[start : start + step], tokenizer.terms))
    lists, lengths = zip(*runs, strict=True)
    return join_lists(lists), np.concatenate(lengths)


def index(
    documents: Iterable[Sequence[str] | None],
    *,
    k1: float = K1,
    b: float = B,
    epsilon: float = EPSILON,
) -> Built:
    """Return the tables of an index over documents given as terms; None is a row left out."""
    rows = list(documents)
    marks = np.array([terms is not None for terms in rows], np.uint64)

    def count_runs(runs: Sequence[Numbers]) -> Iterator[Counted]:
        for run in runs:
            some = [rows[row] or () for row in run]
            terms = pa.array([*chain.from_iterable(some)], pa.string())
            yield count_terms(terms, np.array([*map(len, some)]), run, lambda term: (term,))

    made = segments.update_segments(
        marks, None, count_runs, lambda name, table: Part.of(table), Formula(k1, b, epsilon)
    )
    return segments.segment_tables(made)


class Similar(NamedTuple):
    """Documents without a term itself but with a similar one, all [documents]."""

    documents: npt.NDArray[np.uint32]  # ascending
    impacts: npt.NDArray[np.float32]  # of the query's term
    shares: npt.NDArray[np.float32]  # of the term, matched by the most similar one
    memories: int  # with a similar term, without insights; with two, may count twice


class _SimilarTerm(NamedTuple):
    """A word that is similar to a term, how similar, and its places: of a segment, and in it."""

    hash: int
    share: float
    places: list[tuple[int, int]]


class KnownTerm(NamedTuple):
    """A term in memories, or with similar terms in memories."""

    idf: float  # its own, else that of the similar terms taken as one word
    documents: int  # in how many memories it occurs, else similar ones
    lists: TermLists = TermLists((), ())
    similar: Similar | None = None
    is_held: bool = True  # by a memory itself

    @property
    def share(self) -> float:
        """1 for a term in a memory, else the similarity of the most similar one."""
        if self.is_held:
            return 1.0
        return 0.0 if self.similar is None else float(self.similar.shares.max())


@dataclass(slots=True)
class _Expanded:
    """Words with the documents of similar ones, up to a number of both."""

    terms: dict[str, KnownTerm | None] = field(default_factory=dict)
    documents: int = 0

    def keep(self, term: str, known_term: KnownTerm | None) -> None:
        more = (
            0
            if known_term is None or known_term.similar is None
            else len(known_term.similar.documents)
        )
        if len(self.terms) >= _EXPANDED_KEPT or self.documents + more > _SIMILAR_KEPT:
            self.terms.clear()
            self.documents = 0
        self.terms[term] = known_term
        self.documents += more


@dataclass(frozen=True)
class PostingsIndex:
    """The index as numpy views into mapped files."""

    rows: int
    hashes: npt.NDArray[np.uint64]
    frequencies: npt.NDArray[np.int32]
    idfs: npt.NDArray[np.float64]
    segments: tuple[SegmentView, ...]
    size: int  # the documents that are indexed and count
    average_length: float  # as the impacts have it
    average_idf: float
    sample_coverage: float
    _tables: Tables = field(repr=False, compare=False)
    # caches, derived from the arrays
    _terms: dict[str, KnownTerm | None] = field(default_factory=dict, repr=False, compare=False)
    _expanded: _Expanded = field(default_factory=_Expanded, repr=False, compare=False)

    @classmethod
    def open(cls, tables: Tables) -> "PostingsIndex":
        """Return the index over tables that a build made; nothing is copied."""
        terms, statistics = tables["terms"], tables["statistics"].to_pylist()[0]
        return cls(
            rows=tables["documents"].num_rows,
            hashes=column_view(terms, "hash"),
            frequencies=column_view(terms, "documents"),
            idfs=column_view(terms, "idf"),
            segments=tuple(views(tables)),
            size=statistics["documents"],
            average_length=statistics["average_length"],
            average_idf=statistics["average_idf"],
            sample_coverage=statistics["sample_coverage"],
            _tables=tables,
        )

    @cached_property
    def lengths(self) -> npt.NDArray[np.int32]:
        """The number of terms of each row, [rows]; -1 if it is not indexed."""
        lengths: npt.NDArray[np.int32] = column_view(self._tables["documents"], "length")
        return lengths

    def find(self, term: str) -> int | None:
        """Return a term's place in the vocabulary; None for a word in no memory."""
        hash_ = _hash(term)
        place = int(np.searchsorted(self.hashes, np.uint64(hash_)))
        known = place < len(self.hashes) and int(self.hashes[place]) == hash_
        return place if known else None

    def has(self, term: str) -> bool:
        """Return True if a memory has the term itself."""
        return self._exact(term) is not None

    def known(self, term: str) -> KnownTerm | None:
        """Return the entry of a term or of similar ones; None without either."""
        try:
            return self._expanded.terms[term]
        except KeyError:
            known = self._exact(term)
        if self._is_common(known) or not similar_terms.has_similar(term):
            return known  # not kept twice: the lists of a common one are long
        known = self._expand(term)
        self._expanded.keep(term, known)
        return known

    def idf(self, term: str) -> float | None:
        """Return a term's idf, else that of the similar ones as one word; None without either."""
        known = self.known(term)
        return None if known is None else known.idf

    def own_idf(self, term: str) -> float | None:
        """Return the idf of a term itself; None if it is in no memory."""
        known = self._exact(term)
        return None if known is None else known.idf

    def frequency(self, term: str) -> int:
        """Return in how many memories a term occurs, else similar ones."""
        known = self.known(term)
        return 0 if known is None else known.documents

    def rare_documents(
        self, terms: Sequence[str], most: int
    ) -> dict[str, tuple[int, npt.NDArray[np.uint32]]]:
        """Return the number and the documents of each term that 2 to `most` memories have."""
        if not len(self.hashes):
            return {}
        hashes = np.array([*map(_hash, terms)], np.uint64)
        places, has = among(self.hashes, hashes)
        counts = self.frequencies.take(places, mode="clip") * has
        rare = np.flatnonzero((counts > 1) & (counts <= most))
        held: dict[int, list[npt.NDArray[np.uint32]]] = {number: [] for number in rare.tolist()}
        for segment in self.segments if len(rare) else ():
            for number, span, row in segment.find(hashes[rare]):
                if row is None:  # a wide term of a segment names nothing
                    held[int(rare[number])].append(segment.documents[span])
        return {
            terms[number]: (
                int(counts[number]),
                np.concatenate([np.empty(0, np.uint32), *lists]),
            )
            for number, lists in held.items()
        }

    def expands(self, term: str) -> bool:
        """Return True if a term is rare enough to match similar ones."""
        return not self._is_common(self._exact(term))

    def _is_common(self, known: KnownTerm | None) -> bool:
        return known is not None and known.documents > max(_LEAST_RARE, _RARE * self.size)

    def posting_list(self, term: str) -> Listed:
        """Return a term's documents, ascending, and their impacts, else similar ones'; or empty."""
        if self._exact(term) is not None:
            return concatenate_lists(lists_of(self.segments, np.array([_hash(term)], np.uint64)))
        known = self.known(term)
        return concatenate_lists(() if known is None or not known.similar else [known.similar[:2]])

    def contains(
        self, terms: Iterable[str], docs: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.float32]:
        """Return the terms' shares in rows, ascending, [terms, docs]: 1, or the most similar's."""
        asked = [*terms]
        self.look_up(asked)
        held = np.zeros((len(asked), len(docs)), np.float32)
        wanted = docs.astype(np.uint32)  # as the lists are: they must not be cast
        ends = self._segment_ends(wanted)
        for row, term in zip(held, asked, strict=True):
            known = self.known(term)
            if known is None:
                continue
            if known.similar is not None:
                places, is_held = among(known.similar.documents, wanted)
                row[is_held] = known.similar.shares[places[is_held]]
            row[self._are_in(known.lists, wanted, ends)] = 1.0
        return held

    def scores(
        self,
        query: Sequence[str],
        *,
        least_idf: float | None = None,
        exact: bool = False,
        out: Scores | None = None,
    ) -> Scores:
        """Return the score of every row, [rows]: BM25Okapi's for the query's terms, repeats count.

        Rows with a similar term gain a share of it, unless the score is to be `exact`.
        In a corpus of a few memories an idf may be zero or less, and then a match counts for
        nothing or against; `least_idf` raises those, at the price of BM25Okapi's exact scores.
        They are added to `out` where that is given; it has a place for each row, or more.
        """
        scores = np.zeros(self.rows, np.float32) if out is None else out
        if not len(self.hashes):
            return scores
        numbers, gains = np.empty(_CHUNK, np.int64), np.empty(_CHUNK, np.float32)
        wide: dict[int, list[tuple[np.float32, Scores]]] = {}
        repeated = Counter(query)
        self.look_up(repeated)
        for term, repeats in repeated.items():
            known = self._exact(term) if exact else self.known(term)
            if known is None:
                continue
            idf = known.idf if least_idf is None else max(known.idf, least_idf)
            weight = np.float32(repeats * idf)
            if known.similar is not None:
                np.add.at(scores, known.similar.documents, weight * known.similar.impacts)
            for _, _, (documents, impacts) in known.lists.narrow:
                if len(documents) <= SHORT:
                    np.add.at(scores, documents, weight * impacts)
                    continue
                for start in range(0, len(documents), _CHUNK):
                    some = documents[start : start + _CHUNK]
                    where, gain = numbers[: len(some)], gains[: len(some)]
                    where[:] = some  # add.at wants them so: a whole list would be cast at once
                    np.multiply(impacts[start : start + _CHUNK], weight, out=gain)
                    np.add.at(scores, where, gain)
            for segment, row in known.lists.wide:
                wide.setdefault(segment, []).append((weight, row))
        for segment, rows in wide.items():
            first = self.segments[segment].first
            _add(scores[first : first + len(rows[0][1])], rows, gains)
        return scores

    def _segment_ends(self, docs: npt.NDArray[np.uint32]) -> list[int]:
        """Return the starts of the segments among ascending rows, and the end of all."""
        if len(self.segments) == 1:
            return [0, len(docs)]
        starts = np.array([*(view.first for view in self.segments), self.rows], np.uint32)
        ends: list[int] = docs.searchsorted(starts).tolist()
        return ends

    def _are_in(
        self, lists: TermLists, docs: npt.NDArray[np.uint32], ends: Sequence[int]
    ) -> npt.NDArray[np.bool_]:
        """Return a mask of the rows, ascending, in a term's lists, [docs]; `ends` as above."""
        found = np.zeros(len(docs), np.bool_)
        for first, last, (documents, _) in lists.narrow:
            start, end = ends[first], ends[last + 1]
            if start < end:
                found[start:end] |= among(documents, docs[start:end])[1]
        for segment, gains in lists.wide:
            start, end = ends[segment], ends[segment + 1]
            if start < end:
                found[start:end] |= gains[docs[start:end] - self.segments[segment].first] > 0
        return found

    def look_up(self, terms: Iterable[str]) -> None:
        """Cache the entries of terms: looking them up together costs less than one by one."""
        unseen = [term for term in dict.fromkeys(terms) if term not in self._terms]
        if unseen:
            self._keep(self._lookup_all(unseen))

    def _exact(self, term: str) -> KnownTerm | None:
        try:
            return self._terms[term]
        except KeyError:
            terms = self._lookup_all([term])
        self._keep(terms)
        return terms[term]

    def _keep(self, terms: dict[str, KnownTerm | None]) -> None:
        if len(self._terms) + len(terms) > _TERMS_KEPT:
            self._terms.clear()
        self._terms.update(terms)

    def _lookup_all(self, terms: Sequence[str]) -> dict[str, KnownTerm | None]:
        """Look up different terms; None for those in no memory."""
        hashes = np.array([*map(_hash, terms)], np.uint64)
        places, has = among(self.hashes, hashes)
        lists = lookup(self.segments, hashes)
        known_terms: dict[str, KnownTerm | None] = dict.fromkeys(terms)
        for number in has.nonzero()[0].tolist():
            idf, frequency = self.idfs[places[number]], self.frequencies[places[number]]
            known_terms[terms[number]] = KnownTerm(float(idf), int(frequency), lists[number])
        return known_terms

    def _expand(self, term: str) -> KnownTerm | None:
        """Return the entry of a term with those similar to it."""
        exact, trigrams = self._exact(term), similar_terms.trigrams(term)
        if not len(trigrams) or not self.segments:
            return exact
        likest = self._likest(term, trigrams, is_held=exact is not None)
        similar = self._merge(likest, exact) if likest else None
        if similar is None:
            return exact
        if exact is not None:
            return exact._replace(similar=similar)
        memories = similar.memories
        idf = float(np.log((self.size - memories + 0.5) / (memories + 0.5)))
        return KnownTerm(idf, memories, similar=similar, is_held=False)

    def _likest(
        self, term: str, trigrams: npt.NDArray[np.uint64], *, is_held: bool
    ) -> list[_SimilarTerm]:
        """Return the words that are most similar to a term, the most similar first."""
        found = [view.similar_terms(trigrams, is_held=is_held) for view in self.segments]
        if not any(len(places) for places, _ in found):
            return []
        segments = np.repeat(np.arange(len(found)), [len(places) for places, _ in found])
        hashes = np.concatenate(
            [view.hashes[places] for view, (places, _) in zip(self.segments, found, strict=True)]
        )
        places, shares = map(np.concatenate, zip(*found, strict=True))
        order = np.lexsort((hashes, -shares))[: (similar_terms.MOST + 1) * len(found)]
        own, likest = _hash(term), list[_SimilarTerm]()
        for segment, place, hash_, share in zip(
            *(column[order].tolist() for column in (segments, places, hashes, shares)), strict=True
        ):
            if likest and likest[-1].hash == hash_:  # a word of several segments is one
                likest[-1].places.append((segment, place))
            elif hash_ != own:
                likest.append(_SimilarTerm(hash_, share, [(segment, place)]))
        return likest[: similar_terms.MOST]

    def _merge(self, likest: Sequence[_SimilarTerm], exact: KnownTerm | None) -> Similar | None:
        """Return the documents of similar terms, each with the best share of an impact.

        A similar term weighs no more than the query's own, however rare it is.
        """
        at = self.hashes.searchsorted(
            np.array([similar_term.hash for similar_term in likest], np.uint64)
        )
        most = max(_LEAST_RARE, _COMMON * self.size)
        lists: list[Listed] = []
        factors, shares, memories = list[float](), list[float](), 0
        for term, held, idf in zip(
            likest, self.frequencies[at].tolist(), self.idfs[at].tolist(), strict=True
        ):
            if not 0 < held <= most:  # 0: only insights have it
                continue
            rarity = 1.0 if exact is None or exact.idf <= 0 else max(0.0, idf) / exact.idf
            memories += held
            for segment, place in term.places:
                lists.append(self.segments[segment].postings_at(place))
                factors.append(term.share * min(1.0, rarity))
                shares.append(term.share)
        if not lists:
            return None
        sizes = [len(documents) for documents, _ in lists]
        documents, impacts = concatenate_lists(lists)
        impacts = impacts * np.repeat(np.array(factors, np.float32), sizes)
        of_each = np.repeat(np.array(shares, np.float32), sizes)
        if len(lists) > 1:  # a document may have several: the best counts
            order = documents.argsort(kind="stable")
            documents = documents[order]
            is_first = np.ones(len(documents), np.bool_)
            np.not_equal(documents[1:], documents[:-1], out=is_first[1:])
            firsts = is_first.nonzero()[0]
            documents = documents[firsts]
            impacts = np.maximum.reduceat(impacts[order], firsts)
            of_each = np.maximum.reduceat(of_each[order], firsts)
        if exact is not None:
            is_new = ~self._are_in(exact.lists, documents, self._segment_ends(documents))
            documents, impacts, of_each = documents[is_new], impacts[is_new], of_each[is_new]
        if not len(documents):
            return None
        return Similar(documents, impacts, of_each, min(memories, max(1, self.size - 1)))


def _add(
    scores: Scores, rows: Sequence[tuple[np.float32, Scores]], gains: npt.NDArray[np.float32]
) -> None:
    """Add rows, each times its weight, to scores; `gains` is room for some of them."""
    for start in range(0, len(scores), len(gains)):
        some = scores[start : start + len(gains)]
        gain = gains[: len(some)]
        for weight, row in rows:
            np.multiply(row[start : start + len(gains)], weight, out=gain)
            some += gain


POSTINGS_PROJECTION = Projection(
    name="postings",
    version=f"8.{tokenizer.TOKENIZER_VERSION}",
    inputs=("memories",),
    schemas=segments.SCHEMAS,
    build=build_postings,
)
