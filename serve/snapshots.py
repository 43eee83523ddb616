"""
Snapshots: those of the manifest that is served, opened.

Readers start from a manifest whose files are, at a glance, what was written (`opened_files`). A
damaged index is set aside and said so: without `memories` or `postings` an older manifest serves,
or the log alone; without the others recall goes on with what is left.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from serve.lessons.row_rules import RowRules
from serve.masks import RowMasks
from serve.opened_files import OpenedFiles
from store import manifest as manifests
from store import projections
from store.embedders.calibration import Calibration
from store.embedding import Embedder
from store.errors import NoManifest, SnapshotDamaged
from store.manifest import Manifest
from store.projection import Projection, Tables
from store.projections import postings
from store.projections.duplicates import Duplicates
from store.projections.entities import EntityIndex
from store.projections.facts import Facts
from store.projections.fields import FieldRows
from store.projections.insights import Insights
from store.projections.lessons import Lessons
from store.projections.memory.rows import MemoryRows
from store.projections.postings import PostingsIndex
from store.projections.routes import Routes
from store.projections.sessions import Sessions
from store.projections.usage import Usage
from store.routing import Policy, whole
from store.tenant import Tenant
from store.vectors.rows import VectorRows

T = TypeVar("T")


@dataclass(frozen=True)
class Snapshots:
    """The snapshots of one manifest, opened; None where one could not be used."""

    manifest: Manifest | None
    rows: MemoryRows
    postings: PostingsIndex
    vectors: VectorRows | None
    fields: FieldRows | None
    entities: EntityIndex | None
    duplicates: Duplicates | None
    facts: Facts | None
    sessions: Sessions | None
    usage: Usage | None
    lessons: Lessons | None
    insights: Insights | None
    routes: Routes | None
    notices: tuple[str, ...]

    @property
    def watermark(self) -> int:
        return self.manifest.watermark if self.manifest else 0

    @property
    def calibration(self) -> Calibration:
        return self.vectors.calibration if self.vectors else Calibration()

    def policy(self, at: int | None = None) -> Policy:
        """Return what the router serves, or served at a moment in microseconds."""
        if at is not None:
            return self.routes.policy(at) if self.routes else whole({})
        return self._policy

    @cached_property
    def _policy(self) -> Policy:
        return self.routes.policy() if self.routes else whole({})

    @cached_property
    def masks(self) -> RowMasks:
        return RowMasks(self.rows)

    @cached_property
    def rules(self) -> RowRules:
        return RowRules(self.rows)


def open_snapshots(
    tenant: Tenant,
    embedder: Embedder,
    files: OpenedFiles,
    check: Callable[[Snapshots], None] | None = None,
) -> Snapshots:
    """Return the newest manifest that can be served, with a notice for all that was set aside.

    One is not served where a `check` raises SnapshotDamaged of it.
    """
    notices: list[str] = []
    for manifest in _candidates(tenant, notices):
        try:
            found = open_manifest(tenant, manifest, embedder, notices, files)
            if check is not None:
                check(found)
        except SnapshotDamaged as error:
            notices.append(str(error))
        else:
            return found
    return Snapshots(
        manifest=None,
        rows=MemoryRows.empty(),
        postings=PostingsIndex.open(postings.index([])),
        vectors=None,
        fields=None,
        entities=None,
        duplicates=None,
        facts=None,
        sessions=None,
        usage=None,
        lessons=None,
        insights=None,
        routes=None,
        notices=tuple(notices),
    )


def _candidates(tenant: Tenant, notices: list[str]) -> Iterator[Manifest]:
    """Yield the current manifest, then the older ones, newest first."""
    try:
        newest = manifests.current(tenant)
    except NoManifest:
        return
    except SnapshotDamaged as error:
        notices.append(str(error))
        yield from manifests.kept(tenant)
        return
    yield newest
    yield from (one for one in manifests.kept(tenant) if one.number != newest.number)


def open_manifest(
    tenant: Tenant,
    manifest: Manifest,
    embedder: Embedder,
    notices: list[str],
    files: OpenedFiles,
) -> Snapshots:
    """Return the snapshots of one manifest, with more `notices` for what was set aside.

    Raise SnapshotDamaged where recall could not do without what is broken.
    """
    known = {one.name: one for one in projections.all_of(embedder)}
    damaged: list[str] = []

    def tables(name: str) -> Tables:
        return _tables(tenant, manifest, known[name], files)

    def optional(name: str, open_: Callable[[Tables], T]) -> T | None:
        try:
            return open_(tables(name))
        except SnapshotDamaged as error:
            damaged.append(str(error))
            return None

    vectors = optional("vectors", VectorRows.open)
    if vectors is not None and manifest.missing_vectors:
        damaged.append(
            f"{manifest.missing_vectors} texts are found by their words only: {embedder.model} "
            "did not answer when they were built; `mnemolog build` asks it again"
        )
    return Snapshots(
        manifest=manifest,
        rows=MemoryRows.open(tables("memories")),
        postings=PostingsIndex.open(tables("postings")),
        vectors=vectors,
        # of another model where the vectors are: that is said already
        fields=optional("fields", FieldRows.open) if vectors is not None else None,
        entities=optional("entities", EntityIndex.open),
        duplicates=optional("duplicates", Duplicates.open),
        facts=optional("facts", Facts.open),
        sessions=optional("sessions", Sessions.open),
        usage=optional("usage", Usage.open),
        lessons=optional("lessons", Lessons),
        insights=optional("insights", Insights.open),
        routes=optional("routes", Routes),
        notices=(*notices, *damaged),
    )


def _tables(
    tenant: Tenant, manifest: Manifest, projection: Projection, files: OpenedFiles
) -> Tables:
    """Return the tables of one projection, glanced at; each is mapped when asked for."""
    ref = manifest.projections.get(projection.name)
    if projection.name == "vectors" and ref is not None and ref.version != projection.version:
        raise SnapshotDamaged(
            f"the vectors were made by {manifest.embedder}, not by the embedder of the settings: "
            "recall goes by words until `mnemolog build`"
        )
    if ref is None or ref.version != projection.version:
        made = "nothing" if ref is None else ref.version
        raise SnapshotDamaged(
            f"{projection.name} was built as {made}, this is {projection.version}: "
            "`mnemolog build` mends it"
        )
    return files.tables(manifest, projection)
