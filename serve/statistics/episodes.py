"""
Episodes: how many turns of sessions there are, and about what share of the disk they take.

Of the log it is what their events take beside all others'. Of the snapshots it is their share of
the vectors by rows, and of all else by the length of their texts.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from store.home.tenant import Tenant, log_bytes
from store.log.event_kinds import EPISODE
from store.log.event_log import EventLog
from store.memories.rows import MemoryRows
from store.snapshots.manifest import Manifest

_KINDS = ("prompted", "action", "session")  # what makes an episode
_TEXTS = ("content", "context", "action", "result")
_BY_ROWS = ("vectors",)


@dataclass(frozen=True, slots=True)
class Episodes:
    """`count` is of those that were built, the erased ones left out. `log` and `snapshots` are
    bytes, `*_share` parts of the whole, from 0 to 1. `over` wait to be erased.
    """

    count: int
    log: int
    log_share: float
    snapshots: int
    snapshots_share: float
    over: int = 0


def episodes(
    tenant: Tenant,
    log: EventLog,
    rows: MemoryRows,
    manifest: Manifest | None,
    days: int = 0,
    now: int = 0,
) -> Episodes:
    """Return what episodes take; `days` is how long they are kept, 0: for ever."""
    from store.maintenance import retention  # its locks cost a server's start

    by_kind = log.bytes_by_kind()
    log_share = _share(sum(by_kind.get(kind, 0) for kind in _KINDS), sum(by_kind.values()))
    is_episode = rows.equal("kind", (EPISODE,))
    lengths = _lengths(rows)
    by_text = _share(int(lengths[is_episode].sum()), int(lengths.sum()))
    by_rows = _share(int(is_episode.sum()), len(rows))
    refs = manifest.projections.values() if manifest else ()
    taken = sum(
        round(ref.bytes * (by_rows if ref.projection in _BY_ROWS else by_text)) for ref in refs
    )
    return Episodes(
        count=int((is_episode & (lengths > 0)).sum()),
        log=round(log_bytes(tenant) * log_share),
        log_share=log_share,
        snapshots=taken,
        snapshots_share=_share(taken, manifest.bytes if manifest else 0),
        over=retention.count_waiting(tenant, log, days, now),
    )


def _lengths(rows: MemoryRows) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    """Return how many bytes each row's texts are, [rows]."""
    from pyarrow import compute  # costs 30 ms, and few ask

    found = [np.empty(0, np.int64)]
    for part in rows.memories.parts:
        table = part.table
        size = np.zeros(table.num_rows, np.int64)
        for name in _TEXTS:
            column = table.column(name)
            if pa.types.is_dictionary(column.type):
                column = column.cast(pa.string())
            size += compute.fill_null(compute.binary_length(column), 0).to_numpy()
        found.append(size)
    return np.concatenate(found)


def _share(some: int, of: int) -> float:
    return some / of if of else 0.0
