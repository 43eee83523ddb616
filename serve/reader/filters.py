"""
Filters: which memories may come back at all, applied before any ranking is cut.

The filterable fields and their names are declared with the fields
(`store.memories.memory.FILTERS`), the types of the conditions here. A filter is applied twice, as a
mask over the columns of a snapshot or of the tail and as a test of one memory; a test checks that
the two agree. Masks are cached for the latest filters: a mask over the rows as long as its
snapshot, a mask over all documents until the next write. Of the moment of asking only the expired
memories matter, so one mask serves many moments.
"""

from functools import lru_cache, partial
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from serve.reader.request_fields import Kinds
from serve.reader.tail import Tail
from serve.reader.tail_storage import Columns
from store.home.projects import SHARED, holds_in, scope_chain
from store.log.event_kinds import Tier, Trust
from store.memories.memory import ACTIVE, ARCHIVED, FILTERS, UNSEEN, Memory
from store.memories.rows import Mask, MemoryRows
from store.memories.table import NEVER


class FieldFilters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request's conditions on the fields of a memory: all of the tags, any of the rest."""

    kinds: Kinds = ()
    tiers: tuple[Tier, ...] = ()
    trusts: tuple[Trust, ...] = ()
    sessions: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()


def field_filters(conditions: object) -> dict[str, Any]:
    """Return the field conditions of a request or a filter, by the filters' names."""
    return {name: getattr(conditions, name) for name in FILTERS}


_ANY_OF = {name: field for name, field in FILTERS.items() if name != "tags"}


class Filter(msgspec.Struct, frozen=True):
    """The conditions on a memory; None and () set none. Times are microseconds UTC.

    With a project, its memories, those of the enclosing projects and those without a project may
    come back, never another project's. `until` is exclusive. `as_of` selects the memories that held
    at that moment, by today's knowledge: a memory holds from its `created_at` until it ended or its
    ttl ran out. `cold` adds archived and expired memories, but not superseded ones. `for_agents`
    leaves out memories held back from agents: recall checks that on its results, because no column
    has it.
    """

    now: int
    project: str | None = None
    kinds: tuple[str, ...] = ()
    tiers: tuple[str, ...] = ()
    trusts: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    since: int | None = None
    until: int | None = None
    active_only: bool = True
    as_of: int | None = None
    cold: bool = False
    for_agents: bool = False
    # the projects of the notes that the caller's work tree shares (`store.shared.tree`): they may
    # come back too, and no other shared note does
    shared: tuple[str, ...] = ()

    def mask(self, rows: MemoryRows | Columns) -> Mask:
        """Return a mask of the passing rows, or tail slots, [rows]; forgotten ones never pass."""
        if not self.active_only:
            mask = ~rows.equal("state", UNSEEN)
        elif self.cold:
            mask = rows.equal("state", (ACTIVE, ARCHIVED))
        elif self.as_of is None:
            mask = rows.active_at(self.now)
        else:
            mask = rows.holds_at(self.as_of)
        if self.as_of is not None:
            mask &= rows.created_at <= np.int64(self.as_of)
        return self.narrow(mask, rows)

    def narrow(self, mask: Mask, rows: MemoryRows | Columns) -> Mask:
        """Return the given mask, changed in place by all conditions but the state, [rows]."""
        if self.project is not None:
            scopes = (*scope_chain(self.project), *self.shared)
            mask &= rows.equal("project", scopes) | rows.lacks("project")
        elif elsewhere := set(rows.values_with("project", SHARED)).difference(self.shared):
            mask &= ~rows.equal("project", tuple(elsewhere))
        for name, field in _ANY_OF.items():
            if wanted := getattr(self, name):
                mask &= rows.equal(field, wanted)
        if self.tags:
            mask &= rows.with_tags(self.tags)
        if self.since is not None:
            mask &= rows.created_at >= np.int64(self.since)
        if self.until is not None:
            mask &= rows.created_at < np.int64(self.until)
        return mask

    def accepts(self, memory: Memory) -> bool:
        """Return True if one memory passes."""
        return (
            self._is_in_state(memory)
            and (self.as_of is None or memory.created_at <= self.as_of)
            and self._holds_in(memory.project)
            and not any(
                getattr(memory, field) not in wanted
                for name, field in _ANY_OF.items()
                if (wanted := getattr(self, name))
            )
            and set(self.tags) <= set(memory.tags)
            and (self.since is None or memory.created_at >= self.since)
            and (self.until is None or memory.created_at < self.until)
        )

    def is_own(self, memory: Memory) -> bool:
        """Return True if a memory is of the filter's project, or of one that may come back too."""
        scopes = (*scope_chain(self.project or ""), *self.shared)
        return (memory.project or "") in scopes

    def _holds_in(self, project: str | None) -> bool:
        if project is not None and SHARED in project:
            return project in self.shared or project == self.project
        return holds_in(project, self.project)

    def _is_in_state(self, memory: Memory) -> bool:
        if not self.active_only:
            return memory.state not in UNSEEN
        if self.cold:
            return memory.state in (ACTIVE, ARCHIVED)
        if self.as_of is not None:
            return memory.holds_at(self.as_of)
        expired = memory.expires_at is not None and memory.expires_at <= self.now
        return memory.state == ACTIVE and not expired


_KEPT = 8  # filters; a byte a memory each

Times = npt.NDArray[np.int64]


class RowMasks:
    """The masks over the rows of one snapshot. Threads may share it."""

    def __init__(self, rows: MemoryRows) -> None:
        self.expiries = _expiries(rows.expires_at)
        self.of = lru_cache(maxsize=_KEPT)(lambda conditions: _read_only(conditions.mask(rows)))


class Masks:
    """The masks of one view. Threads may share it."""

    def __init__(self, rows: RowMasks, tail: Tail) -> None:
        fresh = _expiries(tail.columns["expires_at"])
        self._expiries = np.union1d(rows.expiries, fresh) if len(fresh) else rows.expiries
        # bound to its arguments, not to `self`: a reference cycle would keep the files of a
        # replaced snapshot, and memories erased since, until the next garbage collection
        self._of = lru_cache(maxsize=_KEPT)(partial(_make_mask, rows, tail))

    def of(self, conditions: Filter) -> Mask:
        """Return a mask of the documents that may come back, [rows + slots]; read-only."""
        passed = int(self._expiries.searchsorted(conditions.now, side="right"))
        at = int(self._expiries[passed - 1]) if passed else 0
        return self._of(replace(conditions, now=at, for_agents=False))


def _make_mask(rows: RowMasks, tail: Tail, conditions: Filter) -> Mask:
    mask: Mask = rows.of(conditions)
    if not len(tail):
        return mask
    mask = np.concatenate([mask, conditions.mask(tail.columns) & tail.live])
    mask[tail.hidden_rows] = False
    return _read_only(mask)


def _expiries(expires_at: Times) -> Times:
    """Return the distinct moments of expiry, ascending."""
    return np.unique(expires_at[expires_at < NEVER])


def _read_only(mask: Mask) -> Mask:
    mask.setflags(write=False)
    return mask
