"""
Finding: what several memories say together, before it is put into words.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from store.memories.memory import Memory

InsightType = Literal["cluster", "temporal", "causal"]

_DAY = 86_400 * 1_000_000  # microseconds


@dataclass(frozen=True)
class Finding:
    """`topic` names what it is about; `says` what is seen in it. `strength` orders findings.

    `sources` are in the order in which they are quoted: the most telling first, or what came first
    where `is_in_order`.
    """

    insight_type: InsightType
    project: str | None
    sources: tuple[Memory, ...]
    topic: tuple[str, ...]
    says: str
    why: str
    strength: float
    is_in_order: bool = False
    evidence: dict[str, Any] = field(default_factory=dict)

    @property
    def ids(self) -> frozenset[str]:
        return frozenset(one.id for one in self.sources)


def day(memory: Memory) -> int:
    """Return the day on which it happened, counted from 1970, UTC."""
    return memory.created_at // _DAY


def date(memory: Memory) -> str:
    return datetime.fromtimestamp(memory.created_at / 1e6, UTC).date().isoformat()


def span(memories: Sequence[Memory]) -> str:
    """Return from when to when memories are: "2026-03-01 to 2026-04-02", or the one day."""
    first, last = date(min(memories, key=day)), date(max(memories, key=day))
    return first if first == last else f"{first} to {last}"
