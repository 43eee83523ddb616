"""
A tenant in a few figures, as it is administered: what it holds, what is served, how it answers.

Each is counted by `serve.statistics`, as the overview and `mnemolog stats` have it.
"""

from collections.abc import Mapping

import msgspec

from serve.reader.view import View
from serve.statistics.builds import tail
from serve.statistics.holdings import disk, memories
from serve.statistics.recalls import answered, rate
from store.home.instants import isoformat
from store.home.tenant import Tenant
from store.log.event_log import EventLog
from store.snapshots.manifest import Manifest


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
    held, taken, head = memories(view, now), disk(tenant), log.head()
    manifest = view.snapshots.manifest
    return TenantStats(
        tenant=tenant.name,
        memories=held.by_kind,
        active=held.active,
        events=log.event_count(),
        tail=tail(head, view),
        log_bytes=taken.log,
        snapshot_bytes=taken.snapshots,
        manifest=_served(manifest, now) if manifest else None,
        recalls_of_day=rate(log, now).last_day,
        silence_rate=answered(log).silence,
    )


def _served(manifest: Manifest, now: int) -> Served:
    return Served(
        number=manifest.number,
        at=isoformat(manifest.at),
        age_s=max(0, now - manifest.at) // 1_000_000,
        watermark=manifest.watermark,
    )
