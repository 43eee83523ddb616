"""
A tenant in a few figures, as it is administered: what it holds, what is served, how it answers.
"""

from collections.abc import Mapping

import msgspec

from serve.reader import View
from serve.statistics.holdings import disk, memories
from serve.statistics.recalls import DAY, NEWEST, answered
from store import manifest as manifests
from store.errors import NoManifest, SnapshotDamaged
from store.events import isoformat
from store.log import EventLog
from store.manifest import Manifest
from store.tenant import Tenant


class Served(msgspec.Struct, frozen=True, kw_only=True):
    """The manifest that is served; `watermark` is the last event it was built from."""

    number: int
    at: str
    age_s: int
    watermark: int


class TenantStats(msgspec.Struct, frozen=True, kw_only=True):
    """A tenant in figures. `memories` counts them by kind and state, none of zero; `tail` counts
    the events that wait for the next build; `silence_rate` is the share of the newest recalls, a
    thousand at most, that brought nothing.
    """

    tenant: str
    memories: Mapping[str, Mapping[str, int]]
    active: int
    events: int
    tail: int
    log_bytes: int
    snapshot_bytes: int
    manifest: Served | None
    recalls_of_day: int
    silence_rate: float | None


def tenant_stats(tenant: Tenant, log: EventLog, view: View, now: int) -> TenantStats:
    """Return the figures of a tenant; `now` is microseconds UTC."""
    held, taken, head, manifest = memories(view, now), disk(tenant), log.head(), _manifest(tenant)
    return TenantStats(
        tenant=tenant.name,
        memories=held.by_kind,
        active=held.active,
        events=head,
        tail=max(0, head - (manifest.watermark if manifest else 0)),
        log_bytes=taken.log,
        snapshot_bytes=taken.snapshots,
        manifest=_served(manifest, now) if manifest else None,
        recalls_of_day=log.tally(("recalled",), now - DAY, DAY + 1, 1)["recalled"][0],
        silence_rate=answered(log, NEWEST).silence,
    )


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
    )
