"""
Compared: what two settings bring for the same question, memory by memory.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Row:
    """A memory that either brings; a rank is None where it did not come back."""

    hit: Mapping[str, Any]
    a: int | None
    b: int | None
    sure_a: float | None
    sure_b: float | None

    @property
    def move(self) -> int:
        """How many places higher it stands under B; 0 where it is in one of them only."""
        return self.a - self.b if self.a is not None and self.b is not None else 0

    @property
    def is_only(self) -> str:
        """The one that brings it, "A" or "B"; empty where both do."""
        return "A" if self.b is None else "B" if self.a is None else ""


@dataclass(frozen=True, slots=True)
class Compared:
    """The memories of both, by the better of their ranks."""

    rows: tuple[Row, ...]

    def count(self, only: str) -> int:
        """Return how many only one of them brings, "A" or "B"; "" for those of both."""
        return sum(row.is_only == only for row in self.rows)

    @property
    def moved(self) -> int:
        return sum(row.move != 0 for row in self.rows)


def compared(a: Sequence[Mapping[str, Any]], b: Sequence[Mapping[str, Any]]) -> Compared:
    """Return what the hits of two answers have in common and what not."""
    ranks = [{hit["id"]: rank for rank, hit in enumerate(hits, 1)} for hits in (a, b)]
    known = {hit["id"]: hit for hits in (b, a) for hit in hits}
    sure = [{hit["id"]: hit["confidence"] for hit in hits} for hits in (a, b)]
    rows = [
        Row(hit, ranks[0].get(id_), ranks[1].get(id_), sure[0].get(id_), sure[1].get(id_))
        for id_, hit in known.items()
    ]
    none = len(a) + len(b) + 1
    rows.sort(key=lambda row: (min(row.a or none, row.b or none), row.a or none))
    return Compared(tuple(rows))
