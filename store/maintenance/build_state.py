"""
Build state: the files a build keeps: its candidate, the journal of a slow step, its start.
"""

import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

import msgspec
import pyarrow as pa

from store.home.files import replace_file, sweep
from store.home.instants import DAY
from store.home.tenant import Tenant
from store.snapshots.manifest import CheckResult
from store.snapshots.snapshot import SnapshotRef


class CandidateStart(msgspec.Struct, frozen=True):
    """The parameters that every step of a build needs; see `store.maintenance.build.Build`."""

    watermark: int
    full: bool = False
    thorough: bool = True
    accepts: bool = False


def begin_candidate(tenant: Tenant, start: CandidateStart) -> None:
    """Begin a candidate, and drop an earlier unpublished one."""
    sweep(tenant.candidate, older_than_s=0.0)
    for path in tenant.candidate.glob("*.json"):
        path.unlink()
    replace_file(tenant.candidate / "start.json", msgspec.json.encode(start))


def load_candidate(tenant: Tenant) -> CandidateStart | None:
    """Return the start of the candidate; None if there is none."""
    try:
        return msgspec.json.decode(
            (tenant.candidate / "start.json").read_bytes(), type=CandidateStart
        )
    except FileNotFoundError:
        return None


def save_ref(tenant: Tenant, ref: SnapshotRef) -> None:
    """Store a projection's reference; drop results for an earlier one and for the whole."""
    _checks(tenant, ref.projection).unlink(missing_ok=True)
    _whole(tenant).unlink(missing_ok=True)
    replace_file(tenant.candidate / f"{ref.projection}.json", msgspec.json.encode(ref))


def load_refs(tenant: Tenant, names: Iterable[str]) -> dict[str, SnapshotRef]:
    """Return the existing projections among those named, in that order."""
    paths = ((name, tenant.candidate / f"{name}.json") for name in names)
    return {
        name: msgspec.json.decode(path.read_bytes(), type=SnapshotRef)
        for name, path in paths
        if path.exists()
    }


def save_checks(tenant: Tenant, results: Sequence[CheckResult], name: str | None = None) -> None:
    """Store the results for a projection; without a name, for the candidate as a whole."""
    path = _whole(tenant) if name is None else _checks(tenant, name)
    replace_file(path, msgspec.json.encode(results))


def has_checks(tenant: Tenant, name: str) -> bool:
    return _checks(tenant, name).exists()


def load_checks(tenant: Tenant, names: Iterable[str]) -> list[CheckResult]:
    """Return the results for the projections named, in that order, and then for the whole."""
    paths = [*(_checks(tenant, name) for name in names), _whole(tenant)]
    return [
        result
        for path in paths
        if path.exists()
        for result in msgspec.json.decode(path.read_bytes(), type=list[CheckResult])
    ]


def _checks(tenant: Tenant, name: str) -> Path:
    return tenant.candidate / f"{name}.checks.json"


def _whole(tenant: Tenant) -> Path:
    return tenant.candidate / "checks.json"


# Journal: the results of a slow step, batch by batch, so that an interrupted build can resume, and
# another embedder's vectors can be made before the build that needs them.
#
# One file for each table, each written whole or not at all. It is dropped when the projection that
# it helped to build is published.


class StepJournal:
    """The tables of one name, for one tenant; `name` identifies their maker."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder / blake2b(name.encode(), digest_size=8).hexdigest()

    def read(self) -> Iterator[pa.Table]:
        """Yield the tables in the order in which they were added, mapped."""
        for path in self._paths():
            yield pa.ipc.open_file(pa.memory_map(str(path))).read_all()

    def add(self, table: pa.Table) -> None:
        """Store a table; it is on the disk when this returns."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        number = max((int(path.stem) for path in self._paths()), default=0) + 1
        replace_file(self._folder / f"{number:08d}.arrow", sink.getvalue())

    def drop(self) -> None:
        """Delete the tables; on Windows mapped ones are deleted the next time."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _paths(self) -> list[Path]:
        return sorted(self._folder.glob("[0-9]*.arrow"))


def sweep_journals(folder: Path, *, older_than_s: float = 0.0) -> None:
    """Remove the journals of a folder that were not added to for so long."""
    for path in folder.glob("*"):
        if time.time() - path.stat().st_mtime >= older_than_s:
            shutil.rmtree(path, ignore_errors=True)
    with suppress(OSError):  # some are kept, or there are none
        folder.rmdir()


# When a tenant is due a build: enough changes or bytes are waiting, or something has waited for a
# day.
#
# Its clock is on the disk, so that a server that ends when idle still does its daily work: an event
# has its own time, and a file beside the log records the last build that was begun. A build that
# was refused, or died, is not begun again for the same log.

A_FEW = 100  # events: recalls and actions are worth a build a day, not each by itself
MANY_BYTES = 1 << 20  # of text: half of what recall indexes before a build
MANY = 10_000  # events of any kind: a server reads them all when it starts


class Backlog(msgspec.Struct, frozen=True):
    """The events in the log after the published manifest. `since` is when the first was written."""

    watermark: int  # of the manifest; 0 if there is none
    head: int
    changes: int  # events that change a memory
    since: int  # microseconds UTC
    bytes: int = 0  # of the texts these changed


class BuildStart(msgspec.Struct, frozen=True):
    """The start of the last build: its time, and the backlog then."""

    at: int
    head: int
    changes: int
    bytes: int = 0


# made once, before there are threads: msgspec 0.22 crashes if two meet a type for the first time
_decoder = msgspec.json.Decoder(BuildStart)


def is_build_due(waiting: Backlog, begun: BuildStart | None, now: int, build_after: int) -> bool:
    """Return True if a build is due; `build_after` is the number of changes for one, 0: never."""
    changes, events, since = waiting.changes, waiting.head - waiting.watermark, waiting.since
    size = waiting.bytes
    if begun is not None and begun.head > waiting.watermark:  # and it was not published
        changes, events, since = changes - begun.changes, waiting.head - begun.head, begun.at
        size -= begun.bytes
    if not build_after or events <= 0:
        return False
    is_old = abs(now - since) >= DAY  # from the future: a clock was wrong, do not wait for it
    is_much = changes >= build_after or size >= MANY_BYTES or events >= MANY
    return is_much or (is_old and (changes > 0 or events >= A_FEW))


def record_build_start(tenant: Tenant, waiting: Backlog, now: int) -> None:
    """Record that a build has begun."""
    begun = BuildStart(now, waiting.head, waiting.changes, waiting.bytes)
    replace_file(_path(tenant), msgspec.json.encode(begun))


def last_build_start(tenant: Tenant) -> BuildStart | None:
    """Return the last build that was begun; None if there was none, or it cannot be read."""
    try:
        return _decoder.decode(_path(tenant).read_bytes())
    except (OSError, UnicodeDecodeError, msgspec.MsgspecError):
        return None


def _path(tenant: Tenant) -> Path:
    return tenant.root / "upkeep.json"
