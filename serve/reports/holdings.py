"""Holdings: memories by kind and state, bytes on disk, builds, and the share of episodes."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa

from serve.reader.view import View
from store.home import failures
from store.home.failures import Failure
from store.home.tenant import Tenant, log_bytes
from store.log import log_queries
from store.log.event_kinds import EPISODE, MEMORY_KINDS
from store.log.event_log import EventLog
from store.memories.memory import ACTIVE, FORGOTTEN, STATES
from store.memories.rows import MemoryRows
from store.snapshots import manifest as manifests
from store.snapshots.manifest import CheckResult, Manifest, Refusal

EXPIRED = "expired"  # active, but its time is over
SHOWN_STATES = (ACTIVE, EXPIRED, *(state for state in STATES if state != ACTIVE))

Counts = Mapping[str, Mapping[str, int]]


class MemoryCounts(msgspec.Struct, frozen=True):
    """Counts by kind and state, without zeros."""

    by_kind: Counts

    @property
    def active(self) -> int:
        return self.of_state(ACTIVE)

    @property
    def total(self) -> int:
        """The number of memories, without forgotten ones."""
        return sum(self.of_state(state) for state in SHOWN_STATES if state != FORGOTTEN)

    def of_state(self, state: str) -> int:
        return sum(states.get(state, 0) for states in self.by_kind.values())


def memory_counts(view: View, now: int) -> MemoryCounts:
    """Return the counts at a moment, the commonest kind first."""
    rows, tail = view.snapshots.rows, view.tail
    is_current = np.ones(len(rows), np.bool_)
    is_current[tail.hidden_rows] = False
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for source, current in ((rows, is_current), (tail.columns, tail.live)):
        masks = {state: current & source.equal("state", (state,)) for state in STATES}
        living = masks[ACTIVE] & source.active_at(now)
        masks |= {ACTIVE: living, EXPIRED: masks[ACTIVE] & ~living}
        for kind in MEMORY_KINDS:
            of_kind = source.equal("kind", (kind,))
            for state in SHOWN_STATES:
                if count := int(np.count_nonzero(of_kind & masks[state])):
                    counts[kind][state] += count
    order = sorted(counts, key=lambda kind: (-counts[kind].total(), kind))
    return MemoryCounts({kind: dict(counts[kind]) for kind in order})


class DiskUsage(msgspec.Struct, frozen=True):
    """Bytes of the log, of the snapshots derived from it, and of the archive."""

    log: int
    snapshots: int
    cold: int

    @property
    def total(self) -> int:
        return self.log + self.snapshots + self.cold


def disk_usage(tenant: Tenant) -> DiskUsage:
    """Return the bytes of a tenant's files, without reading them."""
    return DiskUsage(
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


# Builds: the published ones, the last refusal, the pending events


class Published(msgspec.Struct, frozen=True):
    """One kept manifest. `took_s` is the time of its projections, reused ones included."""

    number: int
    at: int  # microseconds UTC
    watermark: int
    memories: int
    bytes: int
    took_s: float
    checks: tuple[CheckResult, ...]

    @property
    def failed(self) -> tuple[CheckResult, ...]:
        return tuple(result for result in self.checks if not result.passed)


class BuildHistory(msgspec.Struct, frozen=True):
    """The manifests in `kept`, the newest first. `tail` are the events after the served manifest,
    `changes` those of them that change a memory. `notices` name its unusable parts.
    """

    kept: tuple[Published, ...]
    refusal: Refusal | None
    tail: int
    changes: int
    notices: tuple[str, ...]
    failures: tuple[Failure, ...]

    @property
    def served(self) -> Published | None:
        return self.kept[0] if self.kept else None


def build_history(home: Path, tenant: Tenant, log: EventLog, view: View) -> BuildHistory:
    """Return the builds and their failures, and those below the home and the tenant."""
    return BuildHistory(
        kept=tuple(map(_build_figures, manifests.list_manifests(tenant))),
        refusal=manifests.last_refusal(tenant),
        tail=tail_length(log.head(), view),
        changes=view.tail.changes,
        notices=view.notices,
        failures=(*failures.every(tenant.root), *failures.every(home)),
    )


def tail_length(head: int, view: View) -> int:
    """Return the number of events up to a log's head that wait for the next build."""
    return max(0, head - view.snapshots.watermark)


def _build_figures(manifest: Manifest) -> Published:
    memories = manifest.projections.get("memories")
    return Published(
        manifest.number,
        manifest.at,
        manifest.watermark,
        memories.rows["memories"] if memories else 0,
        manifest.bytes,
        sum(ref.seconds for ref in manifest.projections.values()),
        manifest.checks,
    )


class EpisodeStorage(msgspec.Struct, frozen=True):
    """The number and size of built episodes, without erased ones.

    `log` and `snapshots` are bytes, `*_share` parts of the whole, from 0 to 1. `over` is the number
    that wait to be erased.
    """

    count: int
    log: int
    log_share: float
    snapshots: int
    snapshots_share: float
    over: int = 0


def episode_storage(
    tenant: Tenant,
    log: EventLog,
    rows: MemoryRows,
    manifest: Manifest | None,
    days: int = 0,
    now: int = 0,
) -> EpisodeStorage:
    """Return the storage of episodes; `days` is their retention, 0: for ever."""
    from store.maintenance import retention  # its locks cost a server's start

    by_kind = log_queries.bytes_by_kind(log)
    log_share = _share(sum(by_kind.get(kind, 0) for kind in _EPISODE_KINDS), sum(by_kind.values()))
    is_episode = rows.equal("kind", (EPISODE,))
    lengths = _lengths(rows)
    by_text = _share(int(lengths[is_episode].sum()), int(lengths.sum()))
    by_rows = _share(int(is_episode.sum()), len(rows))
    refs = manifest.projections.values() if manifest else ()
    snapshots = sum(
        round(ref.bytes * (by_rows if ref.projection in _BY_ROWS else by_text)) for ref in refs
    )
    return EpisodeStorage(
        count=int((is_episode & (lengths > 0)).sum()),
        log=round(log_bytes(tenant) * log_share),
        log_share=log_share,
        snapshots=snapshots,
        snapshots_share=_share(snapshots, manifest.bytes if manifest else 0),
        over=retention.count_waiting(tenant, log, days, now),
    )


# Episodes: the number of turns of sessions, and about their share of the disk.
#
# Of the log it is the share of their events. Of the snapshots it is their share of the vectors by
# rows, and of all else by the length of their texts.

_EPISODE_KINDS = ("prompted", "action", "session")  # the events that make an episode
_EPISODE_TEXTS = ("content", "context", "action", "result")
_BY_ROWS = ("vectors",)


def _lengths(rows: MemoryRows) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    """Return the bytes of each row's texts, [rows]."""
    from pyarrow import compute  # costs 30 ms, and is rarely needed

    lengths = [np.empty(0, np.int64)]
    for part in rows.memories.parts:
        table = part.table
        size = np.zeros(table.num_rows, np.int64)
        for name in _EPISODE_TEXTS:
            column = table.column(name)
            if pa.types.is_dictionary(column.type):
                column = column.cast(pa.string())
            size += compute.fill_null(compute.binary_length(column), 0).to_numpy()
        lengths.append(size)
    return np.concatenate(lengths)


def _share(some: int, of: int) -> float:
    return some / of if of else 0.0
