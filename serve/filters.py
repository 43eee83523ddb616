"""
Filter: which memories a recall may return at all, applied before any ranking is cut.

Stated twice, as a mask over the columns of a snapshot or of the tail and as a test of one memory; a
test holds the two to the same answer.
"""

from dataclasses import dataclass, replace

import numpy as np

from serve.fresh.slots import Columns
from store.projections.memory.memory import ACTIVE, ARCHIVED, UNSEEN, Memory
from store.projections.memory.rows import Mask, MemoryRows


@dataclass(frozen=True, slots=True)
class Filter:
    """What must hold of a memory; None and () ask nothing. Times are microseconds UTC.

    With a project, its memories and those that belong to no project may come back, never another
    project's. `until` is exclusive. `as_of` asks for what held at that moment, by what is known
    now: a memory holds from its `created_at` until it ended or its ttl ran out. `cold` asks for
    what was archived or has expired too, but not for what something else took the place of.
    """

    now: int
    project: str | None = None
    kinds: tuple[str, ...] = ()
    tiers: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    since: int | None = None
    until: int | None = None
    active_only: bool = True
    as_of: int | None = None
    cold: bool = False

    def at(self, now: int) -> "Filter":
        """Return the same filter, asked at another moment."""
        return replace(self, now=now)

    def mask(self, rows: MemoryRows | Columns) -> Mask:
        """Return which rows, or slots of the tail, pass, [rows]; forgotten ones never do."""
        mask = self._in_state(rows)
        if self.as_of is not None:
            mask &= rows.created_at <= np.int64(self.as_of)
        return self.narrow(mask, rows)

    def narrow(self, mask: Mask, rows: MemoryRows | Columns) -> Mask:
        """Return a mask, changed, without what is not asked for whatever its state, [rows]."""
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

    def _in_state(self, rows: MemoryRows | Columns) -> Mask:
        if not self.active_only:
            return ~rows.equal("state", UNSEEN)
        if self.cold:
            return rows.equal("state", (ACTIVE, ARCHIVED))
        return rows.living(self.now) if self.as_of is None else rows.held(self.as_of)

    def accepts(self, memory: Memory) -> bool:
        """Return whether one memory passes."""
        return (
            self._is_in_state(memory)
            and (self.as_of is None or memory.created_at <= self.as_of)
            and (self.project is None or memory.project in (None, self.project))
            and (not self.kinds or memory.kind in self.kinds)
            and (not self.tiers or memory.tier in self.tiers)
            and set(self.tags) <= set(memory.tags)
            and (self.since is None or memory.created_at >= self.since)
            and (self.until is None or memory.created_at < self.until)
        )

    def _is_in_state(self, memory: Memory) -> bool:
        if not self.active_only:
            return memory.state not in UNSEEN
        if self.cold:
            return memory.state in (ACTIVE, ARCHIVED)
        if self.as_of is not None:
            return memory.held(self.as_of)
        expired = memory.expires_at is not None and memory.expires_at <= self.now
        return memory.state == ACTIVE and not expired
