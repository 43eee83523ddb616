"""
The job `consolidate`: duplicates merge, corrections take effect, outdated memories become stale.

Strict evidence comes first (`merges`); then, if a model is set, its judgments of near pairs
(`model_judgments`). Nothing is deleted, and every step can be undone.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from pipelines.jobs import Context, Proposal
from pipelines.jobs.consolidate import model_judgments
from pipelines.jobs.consolidate.merges import (
    SHOWN,
    LiveMemory,
    Merge,
    find_merges,
    may_correct,
    merge_steps,
)
from store.home.instants import isoformat
from store.log.event_kinds import Step
from store.memories.memory import FORGOTTEN, Memory
from store.plans import steps
from store.text.excerpt import one_line, plural

if TYPE_CHECKING:
    import pyarrow as pa


def propose(context: Context) -> Proposal:
    """Return steps that merge duplicates, apply corrections, and mark what is outdated."""
    standing = LiveMemory(context)
    merged = find_merges(standing)
    found: list[Step] = [step for merge in merged for step in merge_steps(standing, merge)]
    found += correction_steps(standing, merged)
    found += _first_of_each(found, stale_steps(standing))
    if context.model is not None:
        found += model_judgments.model_steps(
            standing, context.model, {step.subject for step in found}
        )
    return Proposal(tuple(found), len(context.live_rows), orphans(standing), _silence(standing))


_QUOTED = 80  # characters of a memory


def _silence(standing: LiveMemory) -> str:
    """Return what was compared where nothing came of it."""
    pairs = [link for link in standing.links if {link.document, link.of} <= standing.live_rows]
    compared = f"{plural(len(standing.live_rows), 'memory')} compared"
    if not pairs:
        return f"{compared}: no two say the same, or the same but for a value"
    nearest = max(pairs, key=lambda link: link.likeness)
    return (
        f"{compared}: {plural(len(pairs), 'pair')} alike, of which none may give way to the other; "
        f"the nearest is "
        f"\u201c{one_line(standing.memory(nearest.document).content, _QUOTED)}\u201d"
    )


def _first_of_each(before: list[Step], more: Iterable[Step]) -> list[Step]:
    """Return more steps but those about a memory that gives way already, each memory once."""
    gone = {step.subject for step in before if step.event == "superseded"}
    found: dict[str, Step] = {}
    for step in more:
        if step.subject not in gone:
            found.setdefault(step.subject, step)
    return list(found.values())


# What is outdated: a corrected value, an expired memory, one whose own words or sources say so.

_OVER = frozenset({"obsolete", "outdated", "superseded", "deprecated", "no-longer-true"})
_SAYS_SO = re.compile(
    r"\s*[\[(]?(obsolete|outdated|no longer (true|valid|applies))\b[\])]?\s*[:\])]", re.I
)
_STRUCK = re.compile(r"\s*~~[^~]+~~[\s.]*")


def correction_steps(standing: LiveMemory, merged: Sequence[Merge]) -> Iterator[Step]:
    """Yield a step for each memory whose value a later one of the same author corrects.

    `merged` is what becomes one before: who stands takes the part of those that gave way.
    """
    stands = {memory.id: merge.stands for merge in merged for memory in merge.give_way}
    done: set[str] = set()
    for link in standing.links:
        if link.kind != "update" or not {link.document, link.of} <= standing.live_rows:
            continue
        older, newer = (standing.memory(row) for row in (link.of, link.document))
        older, newer = stands.get(older.id, older), stands.get(newer.id, newer)
        if older.id in done or not may_correct(newer, older):
            continue
        done.add(older.id)
        yield steps.supersede(
            older,
            newer.id,
            f"{link.was} is now {link.becomes}: the later word holds",
            kind="update",
            by_says=newer.content[:SHOWN],
            was=link.was,
            becomes=link.becomes,
        )


def stale_steps(standing: LiveMemory) -> Iterator[Step]:
    """Yield a step for each memory that is over by its ttl, by its own words or by its sources."""
    context, rows = standing.context, standing.context.rows
    for memory in context.memories(context.expired_rows()):
        yield steps.stale(memory, f"its time ran out at {isoformat(memory.expires_at or 0)}")
    for row in _rows_with_hints(standing):
        (memory,) = rows.take([row])
        if not memory.pinned and (hint := _hint(memory)):
            yield steps.stale(memory, hint)
    for memory in rows.take(_rows_with(standing, "source_ids")):
        if (
            memory.job is None
            and not memory.pinned
            and all(_is_gone(standing, id_) for id_ in memory.source_ids)
        ):
            yield steps.stale(memory, "all that it was made of is forgotten")


def orphans(standing: LiveMemory) -> tuple[str, ...]:
    """Return notes on memories whose parent or other end was forgotten."""
    rows = standing.context.rows
    parents = sum(
        memory.parent_id is not None and _is_gone(standing, memory.parent_id)
        for memory in rows.take(_rows_with(standing, "parent_id"))
    )
    ends = {edge.target for some in standing.edges.values() for edge in some}
    ends |= {edge.source for some in standing.edges.values() for edge in some}
    gone = {id_ for id_ in ends if _is_gone(standing, id_)}
    edges = {
        (edge.source, edge.target, edge.relation)
        for some in standing.edges.values()
        for edge in some
        if not gone.isdisjoint((edge.source, edge.target))
    }
    notes = []
    if parents:
        notes.append(f"kept though their parent was forgotten: {plural(parents, 'memory')}")
    if edges:
        notes.append(f"{len(edges):,} edges lead to a memory that was forgotten: they show nothing")
    return tuple(notes)


def _hint(memory: Memory) -> str | None:
    """Return why a memory is over by its own words."""
    if tags := sorted(_OVER & {tag.casefold() for tag in memory.tags}):
        return f"its tag says so: {tags[0]}"
    if _SAYS_SO.match(memory.content):
        return "its own words say so"
    return "its text is struck out" if _STRUCK.fullmatch(memory.content) else None


def _rows_with_hints(standing: LiveMemory) -> Iterator[int]:
    """Yield the living rows whose tags or first words may say that they are over."""
    import pyarrow.compute as pc

    table = standing.context.tables("memories")["memories"]
    pattern = r"(?i)^\s*([\[(]?(obsolete|outdated|no longer)|~~)"
    hints = _mask(pc.match_substring_regex(table.column("content"), pattern))
    for tag in sorted(_OVER):
        hints |= standing.context.rows.with_tags([tag])
    yield from (int(row) for row in np.flatnonzero(hints) if int(row) in standing.live_rows)


def _rows_with(standing: LiveMemory, name: str) -> list[int]:
    """Return the living rows that have something in a column of ids."""
    import pyarrow.compute as pc

    column = standing.context.tables("memories")["memories"].column(name)
    if name == "source_ids":
        column = pc.greater(pc.list_value_length(column), 0)
    else:
        column = pc.is_valid(column)
    return [int(row) for row in np.flatnonzero(_mask(column)) if int(row) in standing.live_rows]


def _mask(column: "pa.ChunkedArray") -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
    found = np.asarray(column.to_numpy(zero_copy_only=False), np.bool_)
    return found


def _is_gone(standing: LiveMemory, id_: str) -> bool:
    """Return whether a memory was here and is forgotten; one that never was may lie elsewhere."""
    memory = standing.context.rows.find(id_)
    return memory is not None and memory.state == FORGOTTEN
