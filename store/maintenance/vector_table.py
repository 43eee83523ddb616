"""
The Lance table of vectors, for jobs: search by distance, filters, versions, object stores.

The server never reads it and no snapshot names it: it follows from the published parts of `vectors`
and is brought in step when a job opens it, and by builds once it exists. Only changed parts are
removed and added. Lance keeps deleted rows until no version has them, so old versions go at once: a
forgotten text's vector is gone from the disk, not only from the answers.
"""

import shutil
import warnings
from collections.abc import Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from store.home.files import make_folder, remove_files, replace_file, sync_tree
from store.home.tenant import Tenant
from store.index import vector_cache as text_hashes
from store.snapshots import manifest as manifests
from store.snapshots import snapshot
from store.snapshots.projection import PartFile

NAME = "vectors"


class _Mark(msgspec.Struct, frozen=True):
    """The sources of the table, stored beside it, so that an unchanged table need not be opened."""

    version: str  # of the projection, which names the model
    parts: frozenset[str]


def exists(tenant: Tenant) -> bool:
    return _folder(tenant).exists()


def open_table(tenant: Tenant) -> Any:
    """Return the table, in step with the published vectors.

    A row for each memory that has a vector: `document`, `text_hash`, `model`, `part`, `vector`.
    Call it while holding the tenant's build lock. Raise NoManifest or SnapshotDamaged.
    """
    sync(tenant)
    return _connect(tenant).open_table(NAME)


def sync(tenant: Tenant) -> int:
    """Bring the table in step, making it if it does not exist; return the number of changed parts.

    LanceDB, which takes two CPU seconds to import, is loaded only if one changed.
    """
    manifest = manifests.current(tenant)
    ref = manifest.projections["vectors"]
    files = _parts_by_name(ref.parts["rows"])
    before, wanted = _mark(tenant), _Mark(ref.version, frozenset(files))
    if before == wanted:
        return 0
    snapshot.glance(tenant.snapshots, ref)
    remove_files([_mark_path(tenant)])  # an interrupted sync begins anew, after a power cut too
    make_folder(_folder(tenant))
    database = _connect(tenant)
    if before is None or before.version != wanted.version:
        before = _Mark(ref.version, frozenset())
        # Lance may be able neither to read nor to overwrite an interrupted table
        shutil.rmtree(_folder(tenant) / f"{NAME}.lance", ignore_errors=True)
        database.create_table(NAME, schema=_schema(manifest.dimension or 1), mode="overwrite")
    table = database.open_table(NAME)
    for tag in table.tags.list():
        table.tags.delete(tag)  # a version with a tag would stay
    removed, new = before.parts - wanted.parts, wanted.parts - before.parts
    if removed:
        table.delete(f"part IN ({', '.join(map(repr, sorted(removed)))})")

    def add(parts: Iterable[str]) -> None:
        for part in sorted(parts):
            file, start = files[part]
            table.add(_rows(tenant.snapshots / file.path, start, part, manifest.embedder))

    add(new)
    _prune(table)
    if int(table.list_versions()[-1]["metadata"]["total_deletion_file_rows"]):
        table.delete("true")  # few rows of a large file are only marked: write all of it anew
        add(files)
        _prune(table)
    table.tags.create(f"at-{manifest.watermark}", table.version)
    sync_tree(_folder(tenant))  # Lance fsyncs nothing
    replace_file(_mark_path(tenant), msgspec.json.encode(wanted))
    return len(new) + len(removed)


def _parts_by_name(parts: Iterable[PartFile]) -> Mapping[str, tuple[PartFile, int]]:
    """Return the parts of `rows`, each by a name, with its first document."""
    by_name, start = {}, 0
    for file in parts:
        by_name[f"{start}-{file.digest[:16]}"] = file, start
        start += file.rows
    return by_name


def _rows(path: Path, start: int, part: str, model: str) -> pa.Table:
    """Return a part's rows in the table's schema, without memories that have no vector."""
    table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
    chosen = np.flatnonzero(
        text_hashes.has_text(text_hashes.column_hashes(table.column("text_hash")))
    )
    chosen_rows = table.take(pa.array(chosen)).combine_chunks()
    names = (pa.repeat(pa.scalar(name), len(chosen)) for name in (model, part))
    columns = [
        pa.array((chosen + start).astype(np.int32)),
        chosen_rows.column("text_hash"),
        *names,
        chosen_rows.column("half"),
    ]
    return pa.table(columns, schema=_schema(table.column("half").type.list_size))


def _schema(width: int) -> pa.Schema:
    return pa.schema(
        [
            ("document", pa.int32()),
            ("text_hash", pa.binary(16)),
            ("model", pa.string()),
            ("part", pa.string()),
            ("vector", pa.list_(pa.float16(), width)),
        ]
    )


def _prune(table: Any) -> None:
    """Join the table's files and remove those that only an older version names."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that readers of old versions fail: ours wait
        table.optimize(cleanup_older_than=timedelta(0), delete_unverified=True)


def _connect(tenant: Tenant) -> Any:
    import lancedb

    return lancedb.connect(_folder(tenant))


def _folder(tenant: Tenant) -> Path:
    return tenant.root / "lance"


def _mark_path(tenant: Tenant) -> Path:
    return _folder(tenant) / f"{NAME}.json"


def _mark(tenant: Tenant) -> _Mark | None:
    try:
        return msgspec.json.decode(_mark_path(tenant).read_bytes(), type=_Mark)
    except (OSError, msgspec.MsgspecError):
        return None
