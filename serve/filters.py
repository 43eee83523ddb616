"""
Filter: which memories a recall may return at all, applied before any ranking is cut.

Stated twice, as a mask over a snapshot's columns and as a test of one memory from the tail; a test
holds the two to the same answer.
"""

from dataclasses import dataclass

import numpy as np

from store.projections.memories import ACTIVE, Memory
from store.projections.memory_rows import Mask, MemoryRows


@dataclass(frozen=True, slots=True)
class Filter:
    """What must hold of a memory; None and () ask nothing. Times are microseconds UTC.

    With a project, its memories and those that belong to no project may come back, never another
    project's. `until` is exclusive.
    """

    now: int
    project: str | None = None
    kinds: tuple[str, ...] = ()
    tiers: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    since: int | None = None
    until: int | None = None
    active_only: bool = True

    def mask(self, rows: MemoryRows) -> Mask:
        """Return which rows pass, [rows]; forgotten ones never do."""
        if self.active_only:
            mask = rows.living(self.now)
        else:
            mask = ~rows.equal("state", ("forgotten",))
        if self.project is not None:
            mask &= rows.equal("project", (self.project,)) | rows.missing("project")
        if self.kinds:
            mask &= rows.equal("kind", self.kinds)
        if self.tiers:
            mask &= rows.equal("tier", self.tiers)
        if self.tags:
            mask &= rows.tagged(self.tags)
        if self.since is not None:
            mask &= rows.created_at >= np.int64(self.since)
        if self.until is not None:
            mask &= rows.created_at < np.int64(self.until)
        return mask

    def accepts(self, memory: Memory) -> bool:
        """Return whether one memory passes."""
        if self.active_only:
            expired = memory.expires_at is not None and memory.expires_at <= self.now
            if memory.state != ACTIVE or expired:
                return False
        elif memory.state == "forgotten":
            return False
        return (
            (self.project is None or memory.project in (None, self.project))
            and (not self.kinds or memory.kind in self.kinds)
            and (not self.tiers or memory.tier in self.tiers)
            and set(self.tags) <= set(memory.tags)
            and (self.since is None or memory.created_at >= self.since)
            and (self.until is None or memory.created_at < self.until)
        )
