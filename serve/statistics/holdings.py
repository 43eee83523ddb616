"""
Holdings: how many memories there are, by kind and state, and what they take on the disk.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from serve.reader.tail_storage import Columns
from serve.reader.view import View
from store.home.tenant import Tenant, log_bytes
from store.log.event_kinds import MEMORY_KINDS
from store.memories.memory import ACTIVE, FORGOTTEN, STATES
from store.memories.rows import Mask, MemoryRows

EXPIRED = "expired"  # active, but its time is over
SHOWN_STATES = (ACTIVE, EXPIRED, *(one for one in STATES if one != ACTIVE))

Counts = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class Memories:
    """Counts by kind and state; what is not there is left out."""

    by_kind: Counts

    @property
    def active(self) -> int:
        return self.of_state(ACTIVE)

    @property
    def total(self) -> int:
        """All but the forgotten ones."""
        return sum(self.of_state(state) for state in SHOWN_STATES if state != FORGOTTEN)

    def of_state(self, state: str) -> int:
        return sum(states.get(state, 0) for states in self.by_kind.values())


def memories(view: View, now: int) -> Memories:
    """Return what there is at a moment, the commonest kind first."""
    rows, tail = view.snapshots.rows, view.tail
    standing = np.ones(len(rows), np.bool_)
    standing[tail.hidden_rows] = False
    found: dict[str, dict[str, int]] = {}
    for source, mask in ((rows, standing), (tail.columns, tail.live)):
        _count(source, mask, now, found)
    order = sorted(found, key=lambda kind: (-sum(found[kind].values()), kind))
    return Memories({kind: found[kind] for kind in order})


def _count(
    source: MemoryRows | Columns, standing: Mask, now: int, found: dict[str, dict[str, int]]
) -> None:
    masks = {state: standing & source.equal("state", (state,)) for state in STATES}
    living = masks[ACTIVE] & source.living(now)
    masks |= {ACTIVE: living, EXPIRED: masks[ACTIVE] & ~living}
    for kind in MEMORY_KINDS:
        of_kind = source.equal("kind", (kind,))
        for state in SHOWN_STATES:
            if count := int(np.count_nonzero(of_kind & masks[state])):
                states = found.setdefault(kind, {})
                states[state] = states.get(state, 0) + count


@dataclass(frozen=True, slots=True)
class Disk:
    """Bytes of the log, of what is derived from it, and of what was put away."""

    log: int
    snapshots: int
    cold: int

    @property
    def total(self) -> int:
        return self.log + self.snapshots + self.cold


def disk(tenant: Tenant) -> Disk:
    """Return what a tenant's files take; files are looked at and none is read."""
    return Disk(
        log=log_bytes(tenant),
        snapshots=_size(tenant.snapshots.rglob("*")),
        cold=_size(tenant.cold.rglob("*")),
    )


def _size(paths: Iterable[Path]) -> int:
    total = 0
    for path in paths:
        try:
            total += path.stat().st_size if path.is_file() else 0
        except OSError:  # a build dropped it meanwhile
            continue
    return total
