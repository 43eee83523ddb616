"""
The job `consolidate`: duplicates merge, corrections take effect, outdated memories become stale.

Strict evidence comes first (`merges`); then, if a model is set, its judgments of near pairs
(`model_judgments`). Nothing is deleted, and every step can be undone.
"""

import re
from collections.abc import Iterator, Sequence
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
    """Return steps that merge duplicates, apply corrections and mark outdated memories."""
    live = LiveMemory(context)
    merged = find_merges(live)
    proposed: list[Step] = [step for merge in merged for step in merge_steps(live, merge)]
    proposed += correction_steps(live, merged)
    superseded = {step.subject for step in proposed if step.event == "superseded"}
    stale: dict[str, Step] = {}  # each memory once
    for step in stale_steps(live):
        if step.subject not in superseded:
            stale.setdefault(step.subject, step)
    proposed += stale.values()
    if context.model is not None:
        touched = {step.subject for step in proposed}
        proposed += model_judgments.model_steps(live, context.model, touched)
    return Proposal(tuple(proposed), len(context.live_rows), orphans(live), _silence(live))


_QUOTED = 80  # characters of a memory


def _silence(live: LiveMemory) -> str:
    """Return a note on the memories that were compared, for a run without steps."""
    pairs = [link for link in live.links if {link.document, link.of} <= live.live_rows]
    compared = f"{plural(len(live.live_rows), 'memory')} compared"
    if not pairs:
        return f"{compared}: no two say the same, or the same but for a value"
    nearest = max(pairs, key=lambda link: link.likeness)
    return (
        f"{compared}: {plural(len(pairs), 'pair')} alike, of which none may give way to the other; "
        f"the nearest is "
        f"\u201c{one_line(live.memory(nearest.document).content, _QUOTED)}\u201d"
    )


# Outdated: corrected values, expired memories, and those whose own text or sources say so.

_OVER = frozenset({"obsolete", "outdated", "superseded", "deprecated", "no-longer-true"})
_SAYS_SO = re.compile(
    r"\s*[\[(]?(obsolete|outdated|no longer (true|valid|applies))\b[\])]?\s*[:\])]", re.I
)
_STRUCK = re.compile(r"\s*~~[^~]+~~[\s.]*")


def correction_steps(live: LiveMemory, merged: Sequence[Merge]) -> Iterator[Step]:
    """Yield a step for each memory whose value a later one of the same author corrects.

    `merged` applies first: a survivor stands in for the memories merged into it.
    """
    survivors = {memory.id: merge.stands for merge in merged for memory in merge.give_way}
    corrected: set[str] = set()
    for link in live.links:
        if link.kind != "update" or not {link.document, link.of} <= live.live_rows:
            continue
        older, newer = (live.memory(row) for row in (link.of, link.document))
        older, newer = survivors.get(older.id, older), survivors.get(newer.id, newer)
        if older.id in corrected or not may_correct(newer, older):
            continue
        corrected.add(older.id)
        yield steps.supersede(
            older,
            newer.id,
            f"{link.was} is now {link.becomes}: the later word holds",
            kind="update",
            by_says=newer.content[:SHOWN],
            was=link.was,
            becomes=link.becomes,
        )


def stale_steps(live: LiveMemory) -> Iterator[Step]:
    """Yield a step for each memory that is outdated by its ttl, its own words or its sources."""
    context, rows = live.context, live.context.rows
    for memory in context.memories(context.expired_rows()):
        yield steps.stale(memory, f"its time ran out at {isoformat(memory.expires_at or 0)}")
    for row in _rows_with_hints(live):
        (memory,) = rows.take([row])
        if not memory.pinned and (hint := _hint(memory)):
            yield steps.stale(memory, hint)
    for memory in rows.take(_rows_with(live, "source_ids")):
        if (
            memory.job is None
            and not memory.pinned
            and all(_is_forgotten(live, id_) for id_ in memory.source_ids)
        ):
            yield steps.stale(memory, "all that it was made of is forgotten")


def orphans(live: LiveMemory) -> tuple[str, ...]:
    """Return notes on memories whose parent, or the other end of an edge, was forgotten."""
    rows = live.context.rows
    parents = sum(
        memory.parent_id is not None and _is_forgotten(live, memory.parent_id)
        for memory in rows.take(_rows_with(live, "parent_id"))
    )
    forgotten = {id_ for id_ in live.edges if _is_forgotten(live, id_)}
    edges = {
        (edge.source, edge.target, edge.relation) for id_ in forgotten for edge in live.edges[id_]
    }
    notes = []
    if parents:
        notes.append(f"kept though their parent was forgotten: {plural(parents, 'memory')}")
    if edges:
        notes.append(f"{len(edges):,} edges lead to a memory that was forgotten: they show nothing")
    return tuple(notes)


def _hint(memory: Memory) -> str | None:
    """Return the sign in a memory's own words that it is outdated; None without any."""
    if tags := sorted(_OVER & {tag.casefold() for tag in memory.tags}):
        return f"its tag says so: {tags[0]}"
    if _SAYS_SO.match(memory.content):
        return "its own words say so"
    return "its text is struck out" if _STRUCK.fullmatch(memory.content) else None


def _rows_with_hints(live: LiveMemory) -> Iterator[int]:
    """Yield the live rows whose tags or first words may mark them as obsolete."""
    import pyarrow.compute as pc

    table = live.context.tables("memories")["memories"]
    pattern = r"(?i)^\s*([\[(]?(obsolete|outdated|no longer)|~~)"
    hints = _mask(pc.match_substring_regex(table.column("content"), pattern))
    for tag in sorted(_OVER):
        hints |= live.context.rows.with_tags([tag])
    yield from (int(row) for row in np.flatnonzero(hints) if int(row) in live.live_rows)


def _rows_with(live: LiveMemory, name: str) -> list[int]:
    """Return the live rows with a value in a column of ids."""
    import pyarrow.compute as pc

    column = live.context.tables("memories")["memories"].column(name)
    if name == "source_ids":
        column = pc.greater(pc.list_value_length(column), 0)
    else:
        column = pc.is_valid(column)
    return [int(row) for row in np.flatnonzero(_mask(column)) if int(row) in live.live_rows]


def _mask(column: "pa.ChunkedArray") -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
    mask = np.asarray(column.to_numpy(zero_copy_only=False), np.bool_)
    return mask


def _is_forgotten(live: LiveMemory, id_: str) -> bool:
    """Return True if a memory was forgotten; an unknown memory may be elsewhere."""
    memory = live.context.rows.find(id_)
    return memory is not None and memory.state == FORGOTTEN
