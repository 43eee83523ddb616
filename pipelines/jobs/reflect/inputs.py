"""
Inputs and findings of `reflect`: a project's memories with the entities they name.

Memories that jobs derived are left out, so no insight is made of insights; memories that
consolidate merged count as their sources. Commits and the turns of agents are left out too: common
files are in `git log`, and were not noted by anyone. Of very many memories the newest are used.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

import numpy as np

from pipelines.jobs import Context, Rows
from store.derived.entities import EntityIndex
from store.home.instants import DAY
from store.log.event_kinds import EPISODE
from store.memories.memory import COMMIT, Memory

MOST = 16_384  # memories of a project

# kinds that repeat other memories, state a wish or report an event; and sources that only do so
_NONE_OF = frozenset({"insight", "summary", "goal", EPISODE})
_NOT_FROM = frozenset({COMMIT})


@dataclass(frozen=True)
class Name:
    """An entity that memories mention; `kind` is file, error, command and so on."""

    kind: str
    name: str


@dataclass(frozen=True)
class Inputs:
    """A project's memories in the order of their events; `rows` are in the same order.

    `named` [memories] are places in `names`.
    """

    project: str | None
    memories: tuple[Memory, ...]
    rows: Rows
    names: tuple[Name, ...]
    named: tuple[frozenset[int], ...]

    def places_by_name(self) -> dict[int, list[int]]:
        """Return the places of the memories that mention each name."""
        places: dict[int, list[int]] = {}
        for place, names in enumerate(self.named):
            for name in sorted(names):
                places.setdefault(name, []).append(place)
        return places


def inputs_by_project(context: Context) -> Iterator[Inputs]:
    """Yield the inputs of each project, and of none."""
    live, rows = context.live_rows, context.rows
    codes = rows.codes("project")[live]
    index = EntityIndex.open(context.tables("entities"))
    for code in np.unique(codes).tolist():
        of_project = live[codes == code]
        newest = of_project[np.argsort(rows.created_at[of_project], kind="stable")][-MOST:]
        memories = context.memories(newest)
        sources = [place for place, memory in enumerate(memories) if is_source(memory)]
        if sources:
            chosen = tuple(memories[place] for place in sources)
            names, named = _names(index, newest[sources])
            yield Inputs(chosen[0].project, chosen, newest[sources], names, named)


def is_source(memory: Memory) -> bool:
    is_noted = memory.kind not in _NONE_OF and memory.source not in _NOT_FROM
    return is_noted and memory.job in (None, "consolidate")


def _names(index: EntityIndex, rows: Rows) -> tuple[tuple[Name, ...], tuple[frozenset[int], ...]]:
    """Return the entities that several of some memories mention, and those of each memory."""
    _, counts, documents = index.mention_runs
    order = np.argsort(rows)
    places = np.searchsorted(rows[order], documents)
    places = np.minimum(places, len(rows) - 1)
    entities = np.repeat(np.arange(len(counts)), counts)
    is_here = rows[order][places] == documents
    mentions = np.bincount(entities[is_here], minlength=len(counts))
    is_here &= mentions[entities] > 1
    numbers, named = np.unique(entities[is_here], return_inverse=True)
    by_memory: list[set[int]] = [set() for _ in rows]
    for place, name in zip(order[places[is_here]].tolist(), named.tolist(), strict=True):
        by_memory[place].add(name)
    names = tuple(Name(index.kind(number), index.name(number)) for number in numbers.tolist())
    return names, tuple(map(frozenset, by_memory))


# A finding, before its text is written.

InsightType = Literal["cluster", "temporal", "causal"]


@dataclass(frozen=True)
class Finding:
    """A pattern in several memories: `topic` is its subject, `says` the pattern.

    `strength` orders findings. `sources` are in the order in which they are quoted: the most
    informative first, or the oldest first where `is_in_order`.
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
        return frozenset(memory.id for memory in self.sources)


def day(memory: Memory) -> int:
    """Return the day on which it happened, counted from 1970, UTC."""
    return memory.created_at // DAY


def date(memory: Memory) -> str:
    return datetime.fromtimestamp(memory.created_at / 1e6, UTC).date().isoformat()


def span(memories: Sequence[Memory]) -> str:
    """Return the first and last date of memories: "2026-03-01 to 2026-04-02", or the one day."""
    first, last = date(min(memories, key=day)), date(max(memories, key=day))
    return first if first == last else f"{first} to {last}"
