"""
Merges: of memories with the same statement, one replaces the others.

The survivor is the most trusted memory, then a pinned one, then a source of derived memories, then
the oldest. It takes over the tags, importance, metadata and edges of the others before they are
superseded. If their metadata contradict each other, all of them stay.
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

# The inputs of a consolidation, and the memories it must leave alone.


@dataclass(frozen=True)
class LiveMemory:
    """The memory of a context, with its links and edges at hand."""

    context: Context

    @cached_property
    def links(self) -> list[Link]:
        return Duplicates.open(self.context.tables("duplicates")).links

    @cached_property
    def live_rows(self) -> frozenset[int]:
        """The active rows of the context's project."""
        return frozenset(self.context.live_rows.tolist())

    def memory(self, row: int) -> Memory:
        return self._by_row[row]

    @cached_property
    def _by_row(self) -> dict[int, Memory]:
        """The live memories in any link, by row."""
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
        """Return True if an active derived memory has this memory as a source."""
        derived = (self.context.rows.find(id_) for id_ in self.context.rows.made_of(memory.id))
        return any(other is not None and other.state == ACTIVE for other in derived)


def is_left_alone(memory: Memory) -> bool:
    """Return True if a memory is never merged or replaced here.

    Keyed facts replace one another by key, goals and milestones have their own life cycle, and
    derived memories are renewed by their own job.
    """
    has_course = memory.kind == "goal" or memory.chain is not None
    return memory.key is not None or memory.job is not None or has_course


def may_replace(newer: Memory, older: Memory) -> bool:
    """Return True if one memory may replace another.

    Trust never rises: text of a tool or the web never replaces a user's. A pinned memory is never
    replaced, nor a memory by one of another project or one that expires earlier.
    """
    is_as_trusted = TRUSTS.index(newer.trust) <= TRUSTS.index(older.trust)
    lasts = (newer.expires_at or NEVER) >= (older.expires_at or NEVER)
    return is_as_trusted and lasts and not older.pinned and newer.project == older.project


def may_correct(newer: Memory, older: Memory) -> bool:
    """Return True if a later memory may replace one that states another value."""
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


# kinds that hold until corrected; events and lessons are never corrected
CORRECTABLE = frozenset({"fact", "decision", "preference", "context"})


SHOWN = 300  # characters of a text in a step


class Merge(msgspec.Struct, frozen=True):
    """Memories with the same statement: the survivor and those it supersedes."""

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
    """Yield the steps of a merge: first the transfers to the survivor, then the supersessions."""
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

    Less trusted memories add nothing: a web page cannot raise the importance of a user's memory.
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
    """Return the joined metadata of some memories; None where two differ in a name's value."""
    joined: dict[str, Any] = {}
    for memory in memories:
        for name, value in msgspec.json.decode(memory.metadata).items():
            if joined.setdefault(name, value) != value:
                return None
    return joined


def edge_steps(live: LiveMemory, survivor: Memory, others: Sequence[Memory]) -> Iterator[Step]:
    """Yield a link for each edge of `others` that the survivor does not have."""
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
    """Yield groups of live memories with the same statement and kind, with their rows."""
    root: dict[int, int] = {}
    for link in live.links:  # by document: a link's target has its root already
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
                # by the words themselves: equal hashes are no evidence
                key = (memory.kind, statement(statement_text(memory)).says)
                alike.setdefault(key, []).append((row, memory))
        yield from (group for group in alike.values() if len(group) > 1)


def _is_contested(rows: Sequence[int], updates: dict[int, list[int]], live: LiveMemory) -> bool:
    """Return True if another value was stated in between: the first and last are then distinct.

    "The port is 80", "81", "80": merging both 80s would leave 81 as the current value.
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
