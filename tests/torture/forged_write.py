"""Writing a forgery into a home: its file, and a manifest that matches it."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from store.home import tenant as tenants
from store.snapshots import manifest as manifests
from store.snapshots.manifest import Manifest
from store.snapshots.projection import Part, PartFile
from store.snapshots.snapshot import SnapshotRef


@dataclass(frozen=True, slots=True)
class Place:
    """One part of a table of the published snapshot, which recall or a build reads."""

    projection: str
    table: str
    part: int
    file: PartFile

    def __str__(self) -> str:
        return f"{self.projection}.{self.table}[{self.part}]"


def places(home: Path) -> Iterator[Place]:
    """Yield every part that the default tenant's manifest names."""
    for name, ref in manifests.current(tenants.tenant(home)).projections.items():
        for table, parts in ref.parts.items():
            for number, file in enumerate(parts):
                yield Place(name, table, number, file)


def read(home: Path, place: Place) -> pa.Table:
    path = tenants.tenant(home).snapshots / place.file.path
    with pa.OSFile(str(path)) as file:  # read, not mapped: it will be replaced
        return pa.ipc.open_file(file).read_all()


def put(home: Path, place: Place, table: pa.Table) -> None:
    """Write a table in a part's place, and update the manifest to match it."""
    tenant = tenants.tenant(home)
    path = tenant.snapshots / place.file.path
    path.unlink()
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    path.chmod(0o600)
    data, status = path.read_bytes(), path.stat()
    part = PartFile(
        path=place.file.path,
        rows=len(table),
        digest=_digest(table, place.file),
        bytes=len(data),
        sha256=sha256(data).hexdigest(),
        modified=status.st_mtime_ns,
    )
    manifest = manifests.current(tenant)
    ref = manifest.projections[place.projection]
    parts = list(ref.parts[place.table])
    parts[place.part] = part
    ref = msgspec.structs.replace(ref, parts={**ref.parts, place.table: tuple(parts)})
    ref = msgspec.structs.replace(ref, digest=_of_parts(ref))
    projections = {**manifest.projections, place.projection: ref}
    publish(home, msgspec.structs.replace(manifest, projections=projections))


def publish(home: Path, manifest: Manifest) -> None:
    publish_bytes(home, manifest.number, msgspec.json.encode(manifest))


def publish_bytes(home: Path, number: Any, data: bytes) -> None:
    """Write a manifest and have HEAD name it with its true hash."""
    tenant = tenants.tenant(home)
    (tenant.manifests / f"{number:08d}.json").write_bytes(data)
    head = {"number": number, "sha256": sha256(data).hexdigest()}
    tenant.head.write_bytes(msgspec.json.encode(head))
    os.utime(tenant.head)


def changed(home: Path, change: Callable[[Any], Any]) -> None:
    """Change the current manifest, as plain JSON."""
    manifest = manifests.current(tenants.tenant(home))
    plain = msgspec.json.decode(msgspec.json.encode(manifest))
    data = change(plain)
    if not isinstance(data, bytes):
        data = msgspec.json.encode(plain if data is None else data)
    publish_bytes(home, manifest.number, data)


def _digest(table: pa.Table, file: PartFile) -> str:
    """Return the digest of the rows; if they cannot be read, the old file's digest."""
    try:
        table.validate(full=True)
        return Part.of(table).digest
    except (pa.ArrowException, ValueError, TypeError):
        return file.digest


def _of_parts(ref: SnapshotRef) -> str:
    """Return the digest of tables in parts, as `store.snapshots.projection.digest` does."""
    total = sha256()
    for name in sorted(ref.parts):
        total.update("/".join([name, *(file.digest for file in ref.parts[name])]).encode())
        total.update(b"\n")
    return total.hexdigest()
