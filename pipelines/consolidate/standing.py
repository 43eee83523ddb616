"""
Standing: what a consolidation may look at, and which memories it must leave as they are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from pipelines.jobs.context import Context
from store.derived.duplicates import Duplicates, Link
from store.log.event_kinds import TRUSTS
from store.memories.memory import ACTIVE, Edge, Memory
from store.memories.table import NEVER


@dataclass(frozen=True)
class Standing:
    """The memory of a context, with its links and edges at hand."""

    context: Context

    @cached_property
    def links(self) -> list[Link]:
        return Duplicates.open(self.context.tables("duplicates")).links

    @cached_property
    def living(self) -> frozenset[int]:
        """The rows that hold now, of the project that is looked at."""
        return frozenset(self.context.living.tolist())

    def memory(self, row: int) -> Memory:
        return self._taken[row]

    @cached_property
    def _taken(self) -> dict[int, Memory]:
        """The living memories that some link names."""
        ends = {row for link in self.links for row in (link.document, link.of)} & self.living
        rows = sorted(ends)
        return dict(zip(rows, self.context.rows.take(rows), strict=True))

    @cached_property
    def edges(self) -> dict[str, list[Edge]]:
        """The reasoning edges by the id of either end, oldest first."""
        found: dict[str, list[Edge]] = {}
        for row in self.context.rows.edges.to_pylist():
            edge = Edge(**row)
            for end in dict.fromkeys((edge.source, edge.target)):
                found.setdefault(end, []).append(edge)
        return found

    def bears(self, memory: Memory) -> bool:
        """Return whether something a job made, and which holds, rests on a memory."""
        made = (self.context.rows.find(id_) for id_ in self.context.rows.made_of(memory.id))
        return any(one is not None and one.state == ACTIVE for one in made)


def is_left_alone(memory: Memory) -> bool:
    """Return whether a memory is never merged nor replaced here.

    Keyed facts replace one another by their key, goals and milestones have a course of their own,
    and what a job made is that job's to make anew.
    """
    has_course = memory.kind == "goal" or memory.chain is not None
    return memory.key is not None or memory.job is not None or has_course


def may_take_the_place(newer: Memory, older: Memory) -> bool:
    """Return whether one memory's word is worth another's, so that it may stand for it.

    Trust never rises: what a tool or the web said takes no user's place. A pinned memory keeps its
    own, and what lasts is not replaced by what expires.
    """
    is_as_trusted = TRUSTS.index(newer.trust) <= TRUSTS.index(older.trust)
    lasts = (newer.expires_at or NEVER) >= (older.expires_at or NEVER)
    return is_as_trusted and lasts and not older.pinned and newer.project == older.project


def ids(memories: Sequence[Memory]) -> tuple[str, ...]:
    return tuple(one.id for one in memories)
