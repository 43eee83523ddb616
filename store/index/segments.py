"""
Segments: an index in parts, each over a run of documents; a build remakes only the changed parts.

The ends of segments follow from the number of documents alone: blocks of BASE are joined to
segments of MOST blocks, the last blocks by the binary digits of their number, the largest first,
and the remaining documents are the last segment. So a million documents make some seven segments;
more documents change the last, sometimes the last few. Changed documents are detected by their
fingerprints. A segment without one is the previous build's; in any other the old terms are removed
and the new ones inserted, by passes over its arrays; an unchanged document is not read.

A build from nothing works the same way: all documents are new. It keeps the lists of all documents
in memory, some 6 bytes a posting, and some 30 more for each posting of the current segment: at a
million memories of thirty words less than half a gigabyte.

Each segment also files its words by their trigrams, to find similar ones (`similar_terms`).
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec.structs import replace

from store.index import bm25
from store.index.bm25 import Formula, Lists, Numbers, drop_documents, insert_lists, join_lists
from store.index.similar_terms import TRIGRAMS, trigram_table
from store.snapshots.projection import Built, Keep, Made, Part, column_array, column_view

BASE = 16_384  # documents of a block, the smallest whole segment; another one is another version
LEAST_SPREAD = 4_096  # documents of a segment: in a smaller one, adding by postings is as fast
WIDELY = 6  # a word in one of so many documents is added faster to all than to those with it
MOST = 16  # blocks of a segment, a power of two: one changed document costs no more than these

# in a part for each segment
WORDS = pa.schema(
    [
        ("hash", pa.uint64()),
        ("word", pa.string()),
        ("offset", pa.int64()),
        ("trigrams", pa.uint8()),  # how many different ones; 0: similar to no other
    ]
)
POSTINGS = pa.schema([("document", pa.uint32()), ("impact", pa.float32()), ("count", pa.uint16())])
WIDE = pa.schema([("term", pa.int32())])
SPREAD = pa.schema([("impact", pa.float32())])
DOCUMENTS = pa.schema([("length", pa.int32()), ("fingerprint", pa.uint64())])
IN_PARTS = ("words", "postings", "wide", "spread", "documents", "trigrams")
# of all segments
TERMS = pa.schema([("hash", pa.uint64()), ("documents", pa.int32()), ("idf", pa.float64())])
SEGMENTS = pa.schema([(name, pa.int64()) for name in IN_PARTS])
STATISTICS = pa.schema(
    [
        ("documents", pa.int64()),
        ("average_length", pa.float64()),
        ("average_idf", pa.float64()),
        ("sample_coverage", pa.float64()),
    ]
)
SCHEMAS = {
    "terms": TERMS,  # sorted by hash, like the words of each segment
    "words": WORDS,
    "postings": POSTINGS,  # in order of the segment's words, then of documents
    "wide": WIDE,  # the places of the segment's words that are in every sixth document
    "spread": SPREAD,  # each wide word's gain for every document, one word after the other
    "documents": DOCUMENTS,  # the length is in terms; -1 for documents that are not indexed
    "trigrams": TRIGRAMS,
    "segments": SEGMENTS,  # how many rows of those tables are each one's
    "statistics": STATISTICS,
}

Fingerprints = npt.NDArray[np.uint64]
Lengths = npt.NDArray[np.int32]
Range = tuple[int, int]  # from the first document up to the one after the last
Counted = tuple[Lists, Lengths]


def ranges(documents: int) -> tuple[Range, ...]:
    """Return the range of documents of each segment, in their order."""
    blocks, rest = divmod(documents, BASE)
    whole, blocks = divmod(blocks, MOST)
    sizes = [MOST] * whole
    sizes += [1 << bit for bit in reversed(range(blocks.bit_length())) if blocks >> bit & 1]
    ends = np.cumsum([0, *(size * BASE for size in sizes), *([rest] if rest else [])]).tolist()
    return tuple(pairwise(ends))


def update_segments(
    fingerprints: Fingerprints,
    previous: Built | None,
    counted: Callable[[Sequence[Numbers]], Iterable[Counted]],
    keep: Keep,
    formula: Formula,
    repeated: npt.NDArray[np.bool_] | None = None,
) -> Made:
    """Return the tables of an index over documents, [documents]; a fingerprint of 0: not indexed.

    `counted` is called for the new and changed documents: for each of some runs of them, none
    larger than a block, it returns the lists and each document's length. Documents that are
    `repeated`, [documents], are found like all others but count in no statistic: they do not
    change the weights of words or the average length.
    """
    old = _Old.of(previous, len(fingerprints))
    changed = np.flatnonzero(old.fingerprints != fingerprints[: len(old.fingerprints)])
    lengths = np.full(len(fingerprints), -1, np.int32)
    lengths[: len(old.lengths)] = old.lengths
    lengths[changed] = -1
    fresh: deque[tuple[int, Lists]] = deque()
    runs = _runs(fingerprints, old, changed)
    for run, (lists, run_lengths) in zip(runs, counted(runs), strict=True):
        fresh.append((int(run[0]), lists))
        lengths[run] = run_lengths
    counting = lengths >= 0 if repeated is None else (lengths >= 0) & ~repeated
    indexed = lengths[counting]
    occurrences = int(indexed.sum(dtype=np.int64))
    average = bm25.round_impacts(occurrences / len(indexed)) if len(indexed) else 0.0
    norms = bm25.norms(lengths, average, formula)

    segments: list[_Segment] = []
    for span in ranges(len(fingerprints)):
        segment = old.segment(span, changed)
        if segment is None:
            lists = _lists(old, span, changed, fresh)
            table = pa.table([lengths[slice(*span)], fingerprints[slice(*span)]], schema=DOCUMENTS)
            segment = _make_segment(lists, span, norms, table, keep, formula)
        elif average != old.average:
            segment.parts.update(_weigh_segment(segment, span, norms, keep, formula))
        segments.append(segment)
    hashes, frequencies = _frequencies(segments, repeated)
    idf, average_idf = bm25.okapi_idf(frequencies, len(indexed), formula.epsilon)
    coverage = bm25.sample_coverage(int((frequencies == 1).sum()), occurrences)
    return {
        **{name: [segment.parts[name] for segment in segments] for name in IN_PARTS},
        "terms": _arrow(TERMS, hashes, frequencies, idf),
        "segments": _arrow(
            SEGMENTS, *([other.parts[name].rows for other in segments] for name in IN_PARTS)
        ),
        "statistics": _arrow(STATISTICS, [len(indexed)], [average], [average_idf], [coverage]),
    }


class _Segment(msgspec.Struct, frozen=True):
    """A segment as files, and its terms."""

    parts: dict[str, Part]
    hashes: npt.NDArray[np.uint64]
    frequencies: npt.NDArray[np.int64]


class _Old(msgspec.Struct, frozen=True):
    """The segments of an earlier build; there may be none."""

    tables: Built
    ranges: tuple[Range, ...]
    fingerprints: Fingerprints
    lengths: Lengths
    average: float

    @classmethod
    def of(cls, previous: Built | None, documents: int) -> "_Old":
        """Return the tables; none if they are of more documents than there are now."""
        if previous is None or previous.rows["documents"] > documents:
            nothing = Built(SCHEMAS, dict.fromkeys(SCHEMAS, ()))
            return cls(nothing, (), np.empty(0, np.uint64), np.empty(0, np.int32), 0.0)
        table = previous["documents"]
        return cls(
            previous,
            ranges(table.num_rows),
            column_view(table, "fingerprint"),
            column_view(table, "length"),
            float(column_view(previous["statistics"], "average_length")[0]),
        )

    def segment(self, span: Range, changed: Numbers) -> _Segment | None:
        """Return the segment of a range; None without one, or if a document changed."""
        if span not in self.ranges or len(_between(changed, span)):
            return None
        place = self.ranges.index(span)
        parts = {name: self.tables.parts[name][place] for name in IN_PARTS}
        words = parts["words"].table
        ends = np.append(column_view(words, "offset"), parts["postings"].rows)
        return _Segment(parts, column_view(words, "hash"), np.diff(ends))


def lists_of(tables: Built, place: int) -> Lists:
    """Return the lists of one segment, views into its files."""
    words, postings = (tables.parts[name][place].table for name in ("words", "postings"))
    return Lists(
        column_view(words, "hash"),
        column_array(words, "word"),
        np.diff(np.append(column_view(words, "offset"), postings.num_rows)),
        column_view(postings, "document"),
        column_view(postings, "count"),
    )


def _between(numbers: Numbers, span: Range) -> Numbers:
    """Return the numbers in a range, from ascending ones."""
    return numbers[slice(*np.searchsorted(numbers, span))]


def _runs(fingerprints: Fingerprints, old: _Old, changed: Numbers) -> list[Numbers]:
    """Return the documents to index, each run of them in one block and one old segment, if any."""
    numbers = np.concatenate([changed, np.arange(len(old.fingerprints), len(fingerprints))])
    numbers = numbers[fingerprints[numbers] != 0]
    cuts = np.union1d(
        np.arange(0, len(fingerprints), BASE), np.array([end for _, end in old.ranges], np.int64)
    )
    return [run for run in np.split(numbers, np.searchsorted(numbers, cuts)) if len(run)]


def _lists(old: _Old, span: Range, changed: Numbers, fresh: deque[tuple[int, Lists]]) -> Lists:
    """Return the lists of a range, made of the old ones in it and of fresh ones, which it takes."""

    def pop_before(end: int) -> list[Lists]:
        runs = []
        while fresh and fresh[0][0] < end:
            runs.append(fresh.popleft()[1])
        return runs

    ours: list[Lists] = []
    for place, (first, end) in enumerate(old.ranges):
        if span[0] <= first < span[1]:
            kept = drop_documents(lists_of(old.tables, place), _between(changed, (first, end)))
            more = pop_before(end)
            ours.append(insert_lists(kept, join_lists(more)) if more else kept)
    return join_lists([*ours, *pop_before(span[1])])


def _make_segment(
    lists: Lists,
    span: Range,
    norms: npt.NDArray[np.float64],
    documents: pa.Table,
    keep: Keep,
    formula: Formula,
) -> _Segment:
    filed, sizes = trigram_table(lists.words.to_pylist())
    columns = [pa.array(lists.hashes), lists.words, pa.array(lists.offsets), pa.array(sizes)]
    tables = {
        "words": pa.table(columns, schema=WORDS),
        "wide": _arrow(WIDE, _wide(lists.frequencies, span)),
        "documents": documents,
        "trigrams": filed,
    }
    parts = {name: keep(name, table) for name, table in tables.items()}
    segment = _Segment(parts, lists.hashes, lists.frequencies)
    impact_parts = _impacts(
        lists.documents, lists.counts, lists.frequencies, span, norms, keep, formula
    )
    return replace(segment, parts=parts | impact_parts)


def _weigh_segment(
    segment: _Segment, span: Range, norms: npt.NDArray[np.float64], keep: Keep, formula: Formula
) -> dict[str, Part]:
    """Return a segment's tables of impacts for other norms."""
    table = segment.parts["postings"].table
    documents, counts = column_view(table, "document"), column_view(table, "count")
    return _impacts(documents, counts, segment.frequencies, span, norms, keep, formula)


def _impacts(
    documents: npt.NDArray[np.uint32],
    counts: npt.NDArray[np.uint16],
    frequencies: npt.NDArray[np.int64],
    span: Range,
    norms: npt.NDArray[np.float64],
    keep: Keep,
    formula: Formula,
) -> dict[str, Part]:
    """Return a segment's postings, and those of its wide words once more, spread over all rows."""
    impacts = bm25.impacts(documents, counts, norms, formula)
    wide, ends = _wide(frequencies, span), np.cumsum(frequencies)
    rows = np.zeros((len(wide), span[1] - span[0]), np.float32)
    for row, term in zip(rows, wide, strict=True):
        some = slice(ends[term] - frequencies[term], ends[term])
        row[documents[some] - np.uint32(span[0])] = impacts[some]
    return {
        "postings": keep("postings", _arrow(POSTINGS, documents, impacts, counts)),
        "spread": keep("spread", _arrow(SPREAD, rows.ravel())),
    }


def _wide(frequencies: npt.NDArray[np.int64], span: Range) -> npt.NDArray[np.int64]:
    """Return the places of a segment's words that are in every sixth of its documents."""
    return np.flatnonzero(frequencies * WIDELY >= max(span[1] - span[0], LEAST_SPREAD))


def _frequencies(
    segments: Sequence[_Segment], repeated: npt.NDArray[np.bool_] | None
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """Return all terms by hash, and in how many documents that count each is."""
    hashes, place = np.unique(
        np.concatenate([np.empty(0, np.uint64), *(segment.hashes for segment in segments)]),
        return_inverse=True,
    )
    counts = np.concatenate(
        [np.empty(0, np.int64), *(_counts(segment, repeated) for segment in segments)]
    )
    frequencies = np.zeros(len(hashes), np.int64)
    np.add.at(frequencies, place, counts)
    return hashes, frequencies


def _counts(segment: _Segment, repeated: npt.NDArray[np.bool_] | None) -> npt.NDArray[np.int64]:
    """Return in how many documents that count each of a segment's terms is."""
    if repeated is None or not repeated.any():
        return segment.frequencies
    documents = column_view(segment.parts["postings"].table, "document")
    hits = np.flatnonzero(repeated[documents])
    terms = np.cumsum(segment.frequencies).searchsorted(hits, side="right")
    return segment.frequencies - np.bincount(terms, minlength=len(segment.frequencies))


def _arrow(schema: pa.Schema, *columns: object) -> pa.Table:
    arrays = [
        pa.array(np.asarray(column).astype(field.type.to_pandas_dtype(), copy=False))
        for column, field in zip(columns, schema, strict=True)
    ]
    return pa.table(arrays, schema=schema)


def segment_tables(made: Made) -> Built:
    """Return the result of `update_segments` as tables."""
    parts = {
        name: (Part.of(some),) if isinstance(some, pa.Table) else some
        for name, some in made.items()
    }
    return Built(SCHEMAS, parts)
