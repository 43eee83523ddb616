"""
Merges: of memories with the same statement, one stands for all.

The survivor has the most trusted word, then is pinned, then supports what jobs made, then is the
oldest. It takes over the tags, importance, metadata and edges of the others before they are
superseded. If it cannot, because their metadata contradict, they stay.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec

from pipelines.jobs import Context
from store.derived.duplicates import Duplicates, Link, as_written, statement_text
from store.log.commands import limit_tags
from store.log.event_kinds import TRUSTS, Relation, Revised, Step
from store.memories.memory import ACTIVE, Edge, Memory
from store.memories.table import NEVER
from store.plans import steps
from store.text.strict_duplicates import statement

# What a consolidation reads, and which memories it must leave alone.


@dataclass(frozen=True)
class LiveMemory:
    """The memory of a context, with its links and edges at hand."""

    context: Context

    @cached_property
    def links(self) -> list[Link]:
        return Duplicates.open(self.context.tables("duplicates")).links

    @cached_property
    def live_rows(self) -> frozenset[int]:
        """The rows that hold now, of the project that is looked at."""
        return frozenset(self.context.live_rows.tolist())

    def memory(self, row: int) -> Memory:
        return self._by_row[row]

    @cached_property
    def _by_row(self) -> dict[int, Memory]:
        """The living memories that some link names."""
        ends = {row for link in self.links for row in (link.document, link.of)} & self.live_rows
        rows = sorted(ends)
        return dict(zip(rows, self.context.rows.take(rows), strict=True))

    @cached_property
    def edges(self) -> dict[str, list[Edge]]:
        """The reasoning edges by the id of either end, oldest first."""
        edges: dict[str, list[Edge]] = {}
        for row in self.context.rows.edges.to_pylist():
            edge = Edge(**row)
            for end in dict.fromkeys((edge.source, edge.target)):
                edges.setdefault(end, []).append(edge)
        return edges

    def bears(self, memory: Memory) -> bool:
        """Return whether something a job made, and which holds, rests on a memory."""
        derived = (self.context.rows.find(id_) for id_ in self.context.rows.made_of(memory.id))
        return any(other is not None and other.state == ACTIVE for other in derived)


def is_left_alone(memory: Memory) -> bool:
    """Return whether a memory is never merged nor replaced here.

    Keyed facts replace one another by their key, goals and milestones have a course of their own,
    and what a job made is that job's to make anew.
    """
    has_course = memory.kind == "goal" or memory.chain is not None
    return memory.key is not None or memory.job is not None or has_course


def may_replace(newer: Memory, older: Memory) -> bool:
    """Return whether one memory's word is worth another's, so that it may stand for it.

    Trust never rises: what a tool or the web said takes no user's place. A pinned memory keeps its
    own, and what lasts is not replaced by what expires.
    """
    is_as_trusted = TRUSTS.index(newer.trust) <= TRUSTS.index(older.trust)
    lasts = (newer.expires_at or NEVER) >= (older.expires_at or NEVER)
    return is_as_trusted and lasts and not older.pinned and newer.project == older.project


def may_correct(newer: Memory, older: Memory) -> bool:
    """Return whether a later memory may take the place of one that says another value."""
    kinds = {newer.kind, older.kind}
    return (
        newer.id != older.id
        and len(kinds) == 1
        and kinds <= CORRECTABLE
        and not is_left_alone(newer)
        and not is_left_alone(older)
        and newer.created_at > older.created_at
        and newer.created_by == older.created_by
        and may_replace(newer, older)
    )


# what one of these says holds until it is corrected; what happened, or was learned, stays so
CORRECTABLE = frozenset({"fact", "decision", "preference", "context"})


SHOWN = 300  # characters of a text in a step


class Merge(msgspec.Struct, frozen=True):
    """Memories that say the same: the one that stands, and those that give way to it."""

    stands: Memory
    give_way: tuple[Memory, ...]


def find_merges(live: LiveMemory) -> list[Merge]:
    """Return the merges that strict evidence allows, in the order of the memories."""
    updates: dict[int, list[int]] = {}  # the rows of living corrections, by the row they correct
    for link in live.links:
        if link.kind == "update" and {link.document, link.of} <= live.live_rows:
            updates.setdefault(link.of, []).append(link.document)
    merges = []
    for group in _groups(live):
        if _is_contested([row for row, _ in group], updates, live):
            continue
        memories = [memory for _, memory in group]
        survivor, *others = sorted(memories, key=lambda memory: _rank(live, memory))
        give_way: list[Memory] = []
        for memory in others:
            if (
                may_replace(survivor, memory)
                and not live.bears(memory)
                and gain(survivor, [*give_way, memory]) is not None
            ):
                give_way.append(memory)
        if give_way:
            merges.append(Merge(survivor, tuple(give_way)))
    return merges


def merge_steps(live: LiveMemory, merge: Merge) -> Iterator[Step]:
    """Yield the steps of a merge: what is carried over first, then who gives way."""
    survivor = merge.stands
    changes = gain(survivor, merge.give_way)
    assert changes is not None  # else it would be no merge
    if changes != Revised():
        yield steps.revise(survivor, changes, "it gains what its duplicates had beside their words")
    yield from edge_steps(live, survivor, merge.give_way)
    for memory in merge.give_way:
        is_exact = as_written(memory) == as_written(survivor)
        why = "the same words" if is_exact else "the same words but for how they are written"
        kind = "exact" if is_exact else "near"
        yield steps.supersede(memory, survivor.id, why, kind=kind, by_says=survivor.content[:SHOWN])


def gain(survivor: Memory, others: Sequence[Memory]) -> Revised | None:
    """Return the revision that takes over others' fields; None where their metadata contradict.

    Of those less trusted it gains nothing: a web page does not say how much a user's word matters.
    """
    peers = [survivor, *(memory for memory in others if memory.trust == survivor.trust)]
    tags = limit_tags(tag for memory in peers for tag in memory.tags)
    importance = max(memory.importance for memory in peers)
    metadata = join_metadata(peers)
    if metadata is None:
        return None
    own: dict[str, Any] = msgspec.json.decode(survivor.metadata)
    return Revised(
        tags=tags if tags != survivor.tags else None,
        importance=importance if importance > survivor.importance else None,
        metadata=metadata if metadata != own else None,
    )


def join_metadata(memories: Iterable[Memory]) -> dict[str, Any] | None:
    """Return all metadata of some memories; None where two say different of one name."""
    joined: dict[str, Any] = {}
    for memory in memories:
        for name, value in msgspec.json.decode(memory.metadata).items():
            if joined.setdefault(name, value) != value:
                return None
    return joined


def edge_steps(live: LiveMemory, survivor: Memory, others: Sequence[Memory]) -> Iterator[Step]:
    """Yield a link for each edge of those that give way that the one that stands does not have."""
    merged = {memory.id for memory in others} | {survivor.id}
    own = {(edge.source, edge.target, edge.relation) for edge in live.edges.get(survivor.id, ())}
    for memory in others:
        for edge in live.edges.get(memory.id, ()):
            source_id, target_id = (
                survivor.id if end == memory.id else end for end in (edge.source, edge.target)
            )
            moved = source_id, target_id, edge.relation
            if {edge.source, edge.target} <= merged or moved in own:
                continue
            own.add(moved)
            source = survivor if source_id == survivor.id else live.context.rows.find(source_id)
            if source is not None:
                relation = msgspec.convert(edge.relation, Relation)
                yield steps.link(source, target_id, relation, "an edge of its duplicate")


def _groups(live: LiveMemory) -> Iterator[list[tuple[int, Memory]]]:
    """Yield the living memories that say the same, with their rows, two or more of one kind."""
    root: dict[int, int] = {}
    for link in live.links:  # by document: what a link is to has its root already
        if link.kind != "update":
            root[link.document] = root.get(link.of, link.of)
    members: dict[int, list[int]] = {}
    for row, first in root.items():
        members.setdefault(first, [first]).append(row)
    for rows in members.values():
        alike: dict[object, list[tuple[int, Memory]]] = {}
        for row in sorted(live.live_rows.intersection(rows)):
            memory = live.memory(row)
            if not is_left_alone(memory):
                # by the words themselves: that two hashes are equal is no evidence
                key = (memory.kind, statement(statement_text(memory)).says)
                alike.setdefault(key, []).append((row, memory))
        yield from (group for group in alike.values() if len(group) > 1)


def _is_contested(rows: Sequence[int], updates: dict[int, list[int]], live: LiveMemory) -> bool:
    """Return whether another value was said in between: the first word and the last are then two.

    "The port is 80", "81", "80": whoever made one of both 80s would have 81 hold.
    """
    last = max(live.memory(row).created_at for row in rows)
    between = (newer for row in rows for newer in updates.get(row, ()) if newer not in rows)
    return any(live.memory(newer).created_at <= last for newer in between)


def _rank(live: LiveMemory, memory: Memory) -> tuple[object, ...]:
    return (
        TRUSTS.index(memory.trust),
        -(memory.expires_at or NEVER),
        not memory.pinned,
        not live.bears(memory),
        memory.created_at,
        memory.seq,
    )
