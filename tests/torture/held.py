"""held: the resources of a server and its home at a moment, as Linux reports them."""

import re
from dataclasses import dataclass, fields
from pathlib import Path

from store.home.errors import NoManifest
from store.home.tenant import Tenant
from store.snapshots import manifest as manifests

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Held:
    """A server process (memory in MiB) and the files of one tenant (bytes), at a second of a run.

    `deleted` are the bytes of deleted files that the process still holds: those of replaced
    snapshots. `served` are the bytes of the current manifest.
    """

    second: float
    resident: float
    anonymous: float
    handles: int
    threads: int
    deleted: int
    wal: int
    manifests: int
    snapshots: int
    served: int
    log: int
    dagster: int
    other: int


NAMES = tuple(field.name for field in fields(Held))


def held(pid: int, home: Path, tenant: Tenant, second: float) -> Held:
    process = Path(f"/proc/{pid}")
    status = dict(re.findall(r"^(\w+):\s+(\d+)", (process / "status").read_text(), re.MULTILINE))
    whole = _bytes(home)
    log, wal = _size(tenant.log), _size(tenant.log.with_name(tenant.log.name + "-wal"))
    snapshots, dagster = _bytes(tenant.snapshots), _bytes(home / "dagster")
    return Held(
        second,
        int(status["VmRSS"]) / 1024,
        int(status["RssAnon"]) / 1024,
        len(list((process / "fd").iterdir())),
        int(status["Threads"]),
        _deleted(process),
        wal,
        len(list(tenant.manifests.glob("*.json"))),
        snapshots,
        _served(tenant),
        log,
        dagster,
        whole - log - wal - snapshots - dagster,
    )


def _deleted(process: Path) -> int:
    """Return the bytes of deleted files that are still mapped, each file once."""
    mapped: dict[str, int] = {}
    for line in (process / "maps").read_text(errors="replace").splitlines():
        places, _, _, _, inode, *name = line.split(maxsplit=5)
        if name and name[0].endswith("(deleted)"):
            first, _, last = places.partition("-")
            mapped[inode] = mapped.get(inode, 0) + int(last, 16) - int(first, 16)
    return sum(mapped.values())


def _served(tenant: Tenant) -> int:
    try:
        return manifests.current(tenant).bytes
    except NoManifest:
        return 0


def _bytes(folder: Path) -> int:
    return sum(_size(path) for path in folder.rglob("*"))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size if path.is_file() else 0
    except FileNotFoundError:  # deleted meanwhile
        return 0
