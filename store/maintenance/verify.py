"""
Verify: compares the published snapshots with a fresh build from the log, row by row.

The log's own integrity first, then every snapshot's files against their hashes, then each
projection built again, up to the manifest's watermark, and compared with the published one. The
rebuilt tables are in a temporary folder of the system, which needs as much room as the snapshots.
"""

from collections.abc import Callable
from contextlib import suppress

import msgspec
import pyarrow as pa

from store.derived import catalog
from store.derived.constraints import Constraints
from store.embedders.embedder import Embedder, SilentEmbedder
from store.home.errors import NoManifest, SnapshotDamaged
from store.home.files import temporary_folder
from store.home.tenant import Tenant
from store.log import integrity
from store.log.event_log import EventLog
from store.maintenance import build
from store.snapshots import manifest as manifests
from store.snapshots import snapshot
from store.snapshots.manifest import Manifest
from store.snapshots.projection import Built, Part, Previous, Projection, Tables, digest
from store.snapshots.snapshot import SnapshotRef

_SLICE = 10_000  # rows compared at a time
_LONGEST = 200  # characters of a value shown


class Difference(msgspec.Struct, frozen=True):
    """The first place where the live table differs from the rebuilt one; rows count from 0."""

    table: str
    row: int
    column: str
    live: str
    rebuilt: str


class Verdict(msgspec.Struct, frozen=True):
    """The result for one projection; `difference` if a row could be named."""

    projection: str
    ok: bool
    detail: str
    difference: Difference | None = None


class Report(msgspec.Struct, frozen=True):
    """The result for a tenant. `problems` are those of the log and of the manifest."""

    tenant: str
    manifest: int | None
    watermark: int
    problems: tuple[str, ...]
    projections: tuple[Verdict, ...]

    @property
    def ok(self) -> bool:
        return not self.problems and all(verdict.ok for verdict in self.projections)


def verify(
    tenant: Tenant,
    log: EventLog,
    embedder: Embedder,
    *,
    on_progress: Callable[[str], None] = lambda what: None,
) -> Report:
    """Return the differences between the log and the published snapshot; nothing is changed.

    Nothing is rebuilt from a damaged log: the report then has only its problems.
    """
    on_progress("log")
    problems = integrity.problems(log)
    manifest: Manifest | None = None
    try:
        manifest = manifests.current(tenant)
    except NoManifest:
        pass
    except SnapshotDamaged as error:
        problems.append(str(error))
    if manifest is not None and manifest.watermark > (head := log.head()):
        problems.append(
            f"the log ends at event {head}, the manifest was built from {manifest.watermark}: "
            "restore a backup of the log"
        )
    verdicts: tuple[Verdict, ...] = ()
    if manifest is not None and not problems:
        verdicts = _verdicts(tenant, log, embedder, manifest, on_progress)
    number, watermark = (manifest.number, manifest.watermark) if manifest else (None, 0)
    return Report(tenant.name, number, watermark, tuple(problems), verdicts)


def _verdicts(
    tenant: Tenant,
    log: EventLog,
    embedder: Embedder,
    manifest: Manifest,
    on_progress: Callable[[str], None],
) -> tuple[Verdict, ...]:
    on_progress("rebuild")
    prover, previous = _proof(tenant, embedder, manifest)
    with temporary_folder("verify") as folder:
        rebuilt = build.digests(log, prover, manifest.watermark, taken_over=previous, folder=folder)
        verdicts = []
        for projection in catalog.all_projections(embedder):
            on_progress(projection.name)
            verdicts.append(_verdict(tenant, projection, manifest, rebuilt[projection.name]))
        return tuple(verdicts)


def _proof(
    tenant: Tenant, embedder: Embedder, manifest: Manifest
) -> tuple[Embedder, dict[str, Previous]]:
    """Return the embedder that makes the vectors again, and the projections reused unchanged.

    A remote model costs money and returns other last bits each time, and a model that did not
    answer a build may answer now: then the live vectors are compared with the log, and no model is
    called.
    """
    if embedder.is_local and not manifest.missing_vectors:
        return embedder, {}
    silent = SilentEmbedder(
        embedder.model, embedder.dimension, "verify asks no model", is_local=embedder.is_local
    )
    taken_over = {}
    for projection in catalog.all_projections(embedder):
        ref = manifest.projections.get(projection.name)
        if projection.name != "vectors" or ref is None or ref.version != projection.version:
            continue
        with suppress(SnapshotDamaged):
            snapshot.verify(tenant.snapshots, ref)
            tables = snapshot.read(tenant.snapshots, ref, projection, check=False)
            taken_over[projection.name] = Previous(ref.watermark, tables)
    return silent, taken_over


def _verdict(tenant: Tenant, projection: Projection, manifest: Manifest, rebuilt: Built) -> Verdict:
    name = projection.name
    ref = manifest.projections.get(name)
    if ref is None or ref.version != projection.version:
        state = "not built" if ref is None else f"built as version {ref.version}"
        detail = f"{state}, this is {projection.version}: run `mnemolog build`"
        return Verdict(name, False, detail)
    try:
        snapshot.verify(tenant.snapshots, ref)
        Constraints(manifest).check_tables(projection)
        live = snapshot.read(tenant.snapshots, ref, projection, check=False)
        return _compare(ref, live, rebuilt)
    except SnapshotDamaged as error:
        return Verdict(name, False, str(error))


def _compare(ref: SnapshotRef, live: Built, rebuilt: Built) -> Verdict:
    """Compare tables with the rebuilt ones.

    Raise SnapshotDamaged if one does not have its projection's form.
    """
    name = ref.projection
    if digest(rebuilt) == digest(live) == ref.digest and _are_as_named(live):
        rows = ", ".join(f"{count} {of}" for of, count in rebuilt.rows.items())
        return Verdict(name, True, f"{rows}, as the log gives them")
    difference = first_difference(live, rebuilt)
    if difference is None:
        return Verdict(name, False, "the rows are equal, the manifest names another digest")
    return Verdict(
        name, False, f"{difference.table} differs first at row {difference.row}", difference
    )


def _are_as_named(tables: Built) -> bool:
    """Return True if the rows of every part have the digest recorded in the manifest."""
    parts = (part for some in tables.parts.values() for part in some)
    return all(Part.of(part.table).digest == part.digest for part in parts)


def first_difference(live: Tables, rebuilt: Tables) -> Difference | None:
    """Return the first difference of two builds, by table, then by row; None if there is none."""
    for name, table in rebuilt.items():
        difference = _in_table(name, live[name], table)
        if difference is not None:
            return difference
    return None


def _in_table(name: str, live: pa.Table, rebuilt: pa.Table) -> Difference | None:
    if live.schema != rebuilt.schema:
        return Difference(name, 0, "", _shorten(live.column_names), _shorten(rebuilt.column_names))
    rows = min(live.num_rows, rebuilt.num_rows)
    places = []
    for number, column in enumerate(rebuilt.column_names):
        row = _first_row(live.column(column)[:rows], rebuilt.column(column)[:rows])
        if row is not None:
            places.append((row, number, column))
    if places:
        row, _, column = min(places)
        pair = (_shorten(table.column(column)[row].as_py()) for table in (live, rebuilt))
        return Difference(name, row, column, *pair)
    if live.num_rows == rebuilt.num_rows:
        return None
    ends = (_shorten(table.slice(rows, 1).to_pylist() or "no row") for table in (live, rebuilt))
    return Difference(name, rows, "", *ends)


def _first_row(live: pa.ChunkedArray, rebuilt: pa.ChunkedArray) -> int | None:
    for start in range(0, len(live), _SLICE):
        left, right = (column.slice(start, _SLICE) for column in (live, rebuilt))
        # codes of equal rows may differ where the dictionaries do, so the values decide
        if left.equals(right):
            continue
        for row, pair in enumerate(zip(left.to_pylist(), right.to_pylist(), strict=True), start):
            if repr(pair[0]) != repr(pair[1]):  # so that NaN equals NaN, and -0.0 is not 0.0
                return row
    return None


def _shorten(value: object) -> str:
    words = value.hex() if isinstance(value, bytes) else str(value)
    return words if len(words) <= _LONGEST else words[: _LONGEST - 1] + "…"
