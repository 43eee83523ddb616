"""
The cold file: every archived, superseded or expired memory, as Parquet below `cold/memories`, for
tools that read columns (polars, DuckDB, pandas).

It is derived, and written anew from a manifest: deleting it loses nothing. Recall does not read it,
for archived memories stay indexed: one more filter includes them, ranked and weighed like all
others, and there is no second copy that could differ.
"""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from store.home.files import make_folder, remove_files, sweep, sync_folder, temporary_name
from store.home.instants import isoformat
from store.home.tenant import Tenant
from store.log import log_queries
from store.log.compaction import alone
from store.log.event_log import EventLog
from store.log.segments import hash_of
from store.memories.memory import ACTIVE, ARCHIVED, FIELDS, SUPERSEDED, Field, Memory
from store.memories.rows import MemoryRows
from store.memories.table import MEMORIES

EXPIRED = "expired"


class ColdFile(msgspec.Struct, frozen=True):
    """A cold file: its path, and the number of memories of each state."""

    path: str
    memories: dict[str, int]
    bytes: int


def folder_of(tenant: Tenant) -> Path:
    return tenant.cold / "memories"


def write(tenant: Tenant, log: EventLog, rows: MemoryRows, watermark: int, now: int) -> ColdFile:
    """Write the memories that are cold at a moment, in the order of recording; drop earlier files.

    The file's name has the last event it covers, and the beginning of its hash. Raise LogBusy if
    another process is writing it, or rewriting the log.
    """
    from pyarrow import parquet

    folder = folder_of(tenant)
    with alone(tenant.log):
        make_folder(folder)
        erased = log_queries.erased_ids(log, log.head(), watermark)  # `rows` may still have them
        cold = [_row_of(log, memory, now) for memory in _cold(rows, now) if memory.id not in erased]
        temporary = temporary_name(folder / "new")
        try:
            descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                table = pa.Table.from_pylist(cold, schema=_schema())
                parquet.write_table(table, file, compression="zstd")
                file.flush()
                os.fsync(file.fileno())
            path = folder / f"{watermark:012}-{hash_of(temporary)[:16]}.parquet"
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
        sync_folder(folder)
        _drop(tenant, but=path)
        counts = Counter(row["state"] for row in cold)
        return ColdFile(str(path), dict(sorted(counts.items())), path.stat().st_size)


def drop(tenant: Tenant) -> None:
    """Delete the cold files; raise LogBusy if another process is writing one."""
    with alone(tenant.log):
        _drop(tenant)


def _drop(tenant: Tenant, *, but: Path | None = None) -> None:
    sweep(folder_of(tenant), older_than_s=0.0)  # interrupted writes have texts too
    remove_files([path for path in folder_of(tenant).glob("*.parquet") if path != but])


def problem(tenant: Tenant) -> str | None:
    """Return the problem of a damaged cold file, and its fix; None if there is none."""
    for path in sorted(folder_of(tenant).glob("*.parquet")):
        if not hash_of(path).startswith(path.stem.partition("-")[2]):
            return f"{path} does not match its hash: `mnemolog archive` writes it anew"
    return None


def _cold(rows: MemoryRows, now: int) -> Iterator[Memory]:
    over = rows.equal("state", (ACTIVE,)) & (rows.expires_at <= now)
    for row in np.flatnonzero(rows.equal("state", (ARCHIVED, SUPERSEDED)) | over).tolist():
        yield rows.take([row])[0]


def _row_of(log: EventLog, memory: Memory, now: int) -> dict[str, Any]:
    """Return a memory as a row: its fields, the time it ended and the reason."""
    values = msgspec.structs.asdict(memory)
    if memory.state == ACTIVE:
        assert memory.expires_at is not None
        values["state"], values["ended_at"] = EXPIRED, memory.expires_at
        values["why"] = f"its time ran out on {isoformat(memory.expires_at)[:10]}"
    else:
        values["why"] = _reason(log, memory)
    return {name: values[name] for name in _schema().names}


def _reason(log: EventLog, memory: Memory) -> str | None:
    """Return the reason it was archived or superseded; a newer value of its key needs none."""
    reasons = [
        getattr(event.body, "reason", None)
        for event in log.events_for(memory.id)
        if event.kind in ("archived", "superseded")
    ]
    if reasons:
        return reasons[-1]
    return f"{memory.superseded_by} took its place" if memory.superseded_by else None


def _schema() -> pa.Schema:
    types = {"why": pa.string()} | {
        field.name: _column_type(field) for field in FIELDS if field.archived
    }
    names = dict.fromkeys((*_ORDER, *types))
    return pa.schema([(name, types[name]) for name in names])


# of the columns; those declared later come after them
_ORDER = (
    "id state ended_at why superseded_by kind content context action result tags project "
    "session agent trust source created_by source_ids importance pinned key value created_at "
    "updated_at metadata"
).split()


def _column_type(field: Field) -> pa.DataType:
    if field.is_moment:
        return pa.timestamp("us", tz="UTC")
    of = MEMORIES.field(field.name).type
    return of.value_type if pa.types.is_dictionary(of) else of
