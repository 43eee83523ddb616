"""
Lookup: the lists of a query's terms, found in every segment together.

Each list costs a recall some calls, however short it is. So a rare term's lists in neighbouring
segments are put together, and a wide word has none where a row of the segment's spread says it all.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from store.projections.lexical.views import Listed, SegmentView, concatenated

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


def looked_up(segments: Sequence[SegmentView], hashes: npt.NDArray[np.uint64]) -> list[TermLists]:
    """Return the lists of each of some terms, [terms]; empty for one that no segment has."""
    narrow: list[list[Span]] = [[] for _ in hashes]
    wide: list[list[Wide]] = [[] for _ in hashes]
    for place, segment in enumerate(segments):
        for number, span, row in segment.found(hashes):
            if row is None:
                narrow[number].append((place, span))
            else:
                wide[number].append(Wide(place, segment.spread[row]))
    return [
        TermLists(_put_together(segments, spans), tuple(rows))
        for spans, rows in zip(narrow, wide, strict=True)
    ]


def lists_of(segments: Sequence[SegmentView], hashes: npt.NDArray[np.uint64]) -> list[Listed]:
    """Return the lists of terms as they lie in each segment, one segment after the other."""
    return [one.listed(span) for one in segments for _, span, _ in one.found(hashes)]


def _put_together(segments: Sequence[SegmentView], spans: Sequence[Span]) -> tuple[Narrow, ...]:
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
            concatenated([segments[place].listed(span) for place, span in group]),
        )
        for group in groups
    )
