"""
What a tenant holds and how it does, in figures: its memories, its log, what is served, its recalls.
"""

import bisect
from collections.abc import Mapping

import msgspec
import numpy as np

from serve.reader import View
from store import manifest as manifests
from store.errors import NoManifest, SnapshotDamaged
from store.events import MEMORY_KINDS, Recalled, isoformat
from store.log import EventLog
from store.manifest import Manifest
from store.projections.memories import STATES
from store.tenant import Tenant, log_bytes

DAY_US = 86_400 * 1_000_000

Counts = Mapping[str, Mapping[str, int]]


class Served(msgspec.Struct, frozen=True, kw_only=True):
    """The manifest that is served; `watermark` is the last event it was built from."""

    number: int
    at: str
    age_s: int
    watermark: int
    bytes: int


class TenantStats(msgspec.Struct, frozen=True, kw_only=True):
    """A tenant in figures. `memories` counts them by state and kind, none of zero; `tail` counts
    the events that wait for the next build; `silent` are the recalls of a day that brought nothing.
    """

    tenant: str
    memories: Counts
    total: int
    events: int
    tail: int
    log_bytes: int
    snapshot_bytes: int
    manifest: Served | None
    recalls_of_day: int
    silent_of_day: int
    silence_rate: float | None


def tenant_stats(tenant: Tenant, log: EventLog, view: View, now: int) -> TenantStats:
    """Return the figures of a tenant; `now` is microseconds UTC."""
    memories, head, manifest = _counted(view), log.head(), _manifest(tenant)
    recalls = _recalls(log, now - DAY_US, head)
    silent = sum(not one.hits for one in recalls)
    return TenantStats(
        tenant=tenant.name,
        memories=memories,
        total=sum(sum(kinds.values()) for kinds in memories.values()),
        events=head,
        tail=max(0, head - (manifest.watermark if manifest else 0)),
        log_bytes=log_bytes(tenant),
        snapshot_bytes=manifest.bytes if manifest else 0,
        manifest=_served(manifest, now) if manifest else None,
        recalls_of_day=len(recalls),
        silent_of_day=silent,
        silence_rate=silent / len(recalls) if recalls else None,
    )


def _counted(view: View) -> Counts:
    """Return how many memories there are, by state and kind; of the tail as they are now."""
    rows = view.snapshots.rows
    stands = np.ones(len(rows), np.bool_)
    stands[view.tail.hidden] = False
    of_kind = {kind: rows.equal("kind", (kind,)) for kind in MEMORY_KINDS}
    counts: dict[str, dict[str, int]] = {}
    for state in STATES:
        there = rows.equal("state", (state,)) & stands
        for kind, mask in of_kind.items():
            if count := int(np.count_nonzero(there & mask)):
                counts.setdefault(state, {})[kind] = count
    for one in view.tail.current():
        kinds = counts.setdefault(one.state, {})
        kinds[one.kind] = kinds.get(one.kind, 0) + 1
    return counts


def _recalls(log: EventLog, since: int, head: int) -> list[Recalled]:
    """Return the receipts since a moment, without reading what came before it.

    The log is in the order of writing, so a receipt lies near its moment: where the clock went
    back, a few may be missed.
    """
    first = bisect.bisect_left(range(1, head + 1), since, key=lambda seq: log.at(seq) or 0)
    told = log.of_callers(("recalled",), after=first)
    return [one.body for one in told if isinstance(one.body, Recalled) and one.at >= since]


def _manifest(tenant: Tenant) -> Manifest | None:
    try:
        return manifests.current(tenant)
    except (NoManifest, SnapshotDamaged):
        return None


def _served(manifest: Manifest, now: int) -> Served:
    return Served(
        number=manifest.number,
        at=isoformat(manifest.at),
        age_s=max(0, now - manifest.at) // 1_000_000,
        watermark=manifest.watermark,
        bytes=manifest.bytes,
    )
