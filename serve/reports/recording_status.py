"""
Recording: what of a session is written to the log as seen from a place, and what is paused.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from serve.project_context import pause_text
from store.home import pauses
from store.home.config import RECORD_KINDS, Settings, is_off
from store.home.errors import ConfigError
from store.home.pauses import Pause, Pauses
from store.home.projects import project_of
from store.home.tenant import Tenant, log_bytes
from store.log.event_kinds import EPISODE
from store.log.event_log import EventLog
from store.memories.rows import MemoryRows
from store.snapshots.manifest import Manifest


def current_pauses(home: Path, now: int) -> tuple[list[Pause], str]:
    """Return what is paused at a moment, and why that cannot be told, "" where it can."""
    try:
        return [one for one in pauses.read(home) if one.holds(now)], ""
    except ConfigError as error:
        return [], str(error)


def recording_status(settings: Settings, fault: str, cwd: Path, now: int) -> dict[str, Any]:
    """Return what is recorded in a directory, why nothing is, and all that is paused.

    `fault` is what is wrong with a settings file there.
    """
    kinds = settings.choices.record
    found, unread = current_pauses(settings.home, now)
    project = settings.choices.project or project_of(cwd) or ""
    off = fault or unread
    if not off and not kinds:
        off = f"`record` is false in {settings.origin.get('record', 'the settings')}"
    if not off and (one := Pauses(settings.home).of("", project, str(cwd), now)):
        off = pause_text(one)
    if not off and is_off():
        off = "MNEMOLOG_OFF is set here"
    return {
        "kinds": [] if off else list(kinds),
        "left_out": [one for one in RECORD_KINDS if off or one not in kinds],
        "off": off or None,
        "paused": [pauses.shown(one) for one in found],
    }


# Episodes: how many turns of sessions there are, and about what share of the disk they take.
#
# Of the log it is what their events take beside all others'. Of the snapshots it is their share of
# the vectors by rows, and of all else by the length of their texts.

_KINDS = ("prompted", "action", "session")  # what makes an episode
_TEXTS = ("content", "context", "action", "result")
_BY_ROWS = ("vectors",)


@dataclass(frozen=True, slots=True)
class EpisodeStorage:
    """`count` is of those that were built, the erased ones left out. `log` and `snapshots` are
    bytes, `*_share` parts of the whole, from 0 to 1. `over` wait to be erased.
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
    return EpisodeStorage(
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
