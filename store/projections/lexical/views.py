"""
Views: the segments of an index as numpy arrays into mapped files.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from store.columns import view
from store.projection import Tables
from store.projections import kin
from store.projections.lexical.segments import SEGMENTS

Listed = tuple[npt.NDArray[np.uint32], npt.NDArray[np.float32]]  # documents ascending, impacts


class Found(NamedTuple):
    """What a segment has of a term."""

    number: int  # of the term among those asked for
    listed: Listed
    gains: npt.NDArray[np.float32] | None  # a wide word's impact on each document, 0: not in it


@dataclass(frozen=True, slots=True)
class SegmentView:
    """One segment: its words, by hash, their postings, and its words' kin."""

    first: int  # the number of its first document
    hashes: npt.NDArray[np.uint64]
    offsets: npt.NDArray[np.int64]
    documents: npt.NDArray[np.uint32]
    impacts: npt.NDArray[np.float32]
    wide: npt.NDArray[np.int32]
    spread: npt.NDArray[np.float32]  # [wide words, documents]
    kin_hashes: npt.NDArray[np.uint64]
    kin_terms: npt.NDArray[np.int32]
    kin_letters: npt.NDArray[np.uint8]

    def found(self, hashes: npt.NDArray[np.uint64]) -> Iterator[Found]:
        """Yield what the segment has of some terms, in their order; nothing of any other."""
        places, has = among(self.hashes, hashes)
        numbers = has.nonzero()[0]
        places = places[numbers]
        nexts = places + 1
        ends = self.offsets.take(nexts, mode="clip") if len(nexts) else nexts
        ends[nexts == len(self.hashes)] = len(self.documents)
        rows, is_wide = among(self.wide, places)
        starts = self.offsets[places].tolist()
        for number, start, end, row, widely in zip(
            numbers.tolist(), starts, ends.tolist(), rows.tolist(), is_wide.tolist(), strict=True
        ):
            listed = self.documents[start:end], self.impacts[start:end]
            yield Found(number, listed, self.spread[row] if widely else None)

    def filed(self, beginning: str) -> npt.NDArray[np.uint64]:
        """Return the hashes of the terms filed under a beginning."""
        terms = kin.lookup(beginning, self.kin_hashes, self.kin_terms, self.kin_letters)
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
            hashes=view(words, "hash"),
            offsets=view(words, "offset"),
            documents=view(postings, "document"),
            impacts=view(postings, "impact"),
            wide=view(wide, "term"),
            spread=view(spread, "impact").reshape(rows["wide"], rows["documents"]),
            kin_hashes=view(related, "hash"),
            kin_terms=view(related, "term"),
            kin_letters=view(related, "letters"),
        )
        starts = {name: starts[name] + rows[name] for name in starts}


def concatenated(lists: Sequence[Listed]) -> Listed:
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
