"""
Views: the segments of an index as numpy arrays into mapped files.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from store.columns import view
from store.projection import Tables
from store.projections import kin
from store.projections.lexical.segments import SEGMENTS

Listed = tuple[npt.NDArray[np.uint32], npt.NDArray[np.float32]]  # documents ascending, impacts


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

    def place(self, hash_: np.uint64) -> int | None:
        """Return where a term stands; None where the segment does not have it."""
        place = int(np.searchsorted(self.hashes, hash_))
        return place if place < len(self.hashes) and self.hashes[place] == hash_ else None

    def listed(self, place: int) -> Listed:
        last = place + 1 == len(self.hashes)
        end = len(self.documents) if last else int(self.offsets[place + 1])
        span = slice(int(self.offsets[place]), end)
        return self.documents[span], self.impacts[span]

    def gains(self, place: int) -> npt.NDArray[np.float32] | None:
        """Return a wide word's impact on each document, 0 where it is not; None for any other."""
        row = int(np.searchsorted(self.wide, place))
        return self.spread[row] if row < len(self.wide) and self.wide[row] == place else None

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
