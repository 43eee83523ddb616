"""
Segment lookup: the posting lists of a query's terms, read from the mapped files of all segments.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from store.index import prefix_expansion
from store.index.segments import SEGMENTS
from store.snapshots.projection import Tables, column_view

Listed = tuple[npt.NDArray[np.uint32], npt.NDArray[np.float32]]  # documents ascending, impacts


@dataclass(frozen=True, slots=True)
class SegmentView:
    """One segment: its words, by hash, their postings, and its words' kin."""

    first: int  # the number of its first document
    hashes: npt.NDArray[np.uint64]
    offsets: npt.NDArray[np.int64]
    documents: npt.NDArray[np.uint32]
    impacts: npt.NDArray[np.float32]
    wide: dict[int, int]  # of each wide word its place and its row
    spread: npt.NDArray[np.float32]  # [wide words, documents]
    kin_hashes: npt.NDArray[np.uint64]
    kin_terms: npt.NDArray[np.int32]
    kin_letters: npt.NDArray[np.uint8]

    def find(self, hashes: npt.NDArray[np.uint64]) -> Iterator[tuple[int, slice, int | None]]:
        """Yield where the postings are of those of some terms that the segment has, in their order.

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

    def terms_with_prefix(self, beginning: str) -> npt.NDArray[np.uint64]:
        """Return the hashes of the terms filed under a beginning."""
        terms = prefix_expansion.terms_with_prefix(
            beginning, self.kin_hashes, self.kin_terms, self.kin_letters
        )
        return self.hashes[terms]


def views(tables: Tables) -> Iterator[SegmentView]:
    """Yield the segments of an index's tables; nothing is copied."""
    starts = dict.fromkeys(SEGMENTS.names, 0)
    names = ("words", "postings", "wide", "spread", "kin")
    for rows in tables["segments"].to_pylist():
        words, postings, wide, spread, related = (
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
            kin_hashes=column_view(related, "hash"),
            kin_terms=column_view(related, "term"),
            kin_letters=column_view(related, "letters"),
        )
        starts = {name: starts[name] + rows[name] for name in starts}


def concatenate_lists(lists: Sequence[Listed]) -> Listed:
    """Return several lists as one, one after the other."""
    if len(lists) == 1:
        return lists[0]
    documents = [np.empty(0, np.uint32), *(one for one, _ in lists)]
    return np.concatenate(documents), np.concatenate(
        [np.empty(0, np.float32), *(impacts for _, impacts in lists)]
    )


def among(
    values: npt.NDArray[Any], wanted: npt.NDArray[Any]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Return where each wanted one belongs in ascending values, and whether it is one of them."""
    places = values.searchsorted(wanted)
    if not len(values):
        return places, np.zeros(len(wanted), np.bool_)
    return places, values.take(places, mode="clip") == wanted


# Lookup: the lists of a query's terms, found in every segment together.
#
# Each list costs a recall some calls, however short it is. So a rare term's lists in neighbouring
# segments are put together, and a wide word has none where a row of the segment's spread says it
# all.

SHORT = 2_048  # postings up to which lists are put together, and added at once

Span = tuple[int, slice]  # a segment, and where the postings of a term are in it


class Narrow(NamedTuple):
    """A term's documents in some segments one after the other, and their impacts."""

    first: int  # segment
    last: int  # segment
    listed: Listed


class Wide(NamedTuple):
    """What each document of a segment gains by a term, 0 where it is not in it."""

    segment: int
    gains: npt.NDArray[np.float32]


class TermLists(NamedTuple):
    """All that a term is in: the segments where it is no wide word, and the others."""

    narrow: tuple[Narrow, ...]
    wide: tuple[Wide, ...]


def lookup(segments: Sequence[SegmentView], hashes: npt.NDArray[np.uint64]) -> list[TermLists]:
    """Return the lists of each of some terms, [terms]; empty for one that no segment has."""
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
    """Return the lists of terms as they lie in each segment, one segment after the other."""
    return [one.postings(span) for one in segments for _, span, _ in one.find(hashes)]


def _merge_spans(segments: Sequence[SegmentView], spans: Sequence[Span]) -> tuple[Narrow, ...]:
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
