"""
Snapshots: the opened snapshots of the served manifest.

Readers start from a manifest whose files pass a glance: their length and time show no later write.
Damage by the disk shows in a file's hash, which is taken a bounded amount at a time behind the
answers, together with the constraints of its tables. A file found damaged is not opened again, and
no build takes it over unchecked. Files that two manifests share stay mapped from one to the next.

A damaged index is set aside with a notice: without `memories` or `postings` an older manifest
serves, or the log alone; without the others recall goes on with the rest.
"""

from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, TypeVar

import msgspec
import pyarrow as pa

from serve.reader.filters import RowMasks
from store.derived import catalog
from store.derived.constraints import Constraints
from store.derived.duplicates import Duplicates
from store.derived.entities import EntityIndex
from store.derived.facts import Facts
from store.derived.feedback import Lessons, Usage
from store.derived.listings import Insights
from store.derived.routing import Policy, Routes
from store.derived.sessions import Sessions
from store.derived.statement_weights import StatementWeights
from store.embedders.embedder import Embedder
from store.embedders.model_facts import Calibration
from store.home.errors import NoManifest, SnapshotDamaged
from store.home.tenant import Tenant
from store.index import postings
from store.index.postings import PostingsIndex
from store.index.vector_scan import VectorRows
from store.log.events import Event
from store.memories.rows import MemoryRows
from store.snapshots import manifest as manifests
from store.snapshots import snapshot
from store.snapshots.manifest import Manifest
from store.snapshots.projection import Built, Part, PartFile, Projection, Tables
from store.snapshots.snapshot import hashing
from store.text.excerpt import plural


class OpenedFiles:
    """The files of the open manifest, and their checks. One thread at a time."""

    def __init__(self, tenant: Tenant, *, are_trusted: bool = False) -> None:
        """Files that `are_trusted` were just written or checked, and are not validated."""
        self._root, self._are_trusted = tenant.snapshots, are_trusted
        self._parts: dict[str, Part] = {}  # by path, as all of these
        self._earlier: dict[str, Part] = {}
        self._checks: dict[str, Callable[[pa.Table], None]] = {}
        self._whole: set[str] = set()
        self._damaged: dict[str, str] = {}  # the error messages
        self._waiting: dict[str, Part] = {}  # to be hashed
        self._under_way: Iterator[int] | None = None

    def begin(self) -> None:
        """Begin to open another manifest, or the same one again."""
        self._earlier |= self._parts
        self._parts, self._waiting, self._under_way = {}, {}, None
        self._checks = {}

    def settle(self) -> None:
        """Release the files that the new manifest does not share."""
        self._earlier = {}
        self._whole &= self._parts.keys()

    def tables(self, manifest: Manifest, projection: Projection) -> Built:
        """Return the tables of a manifest's snapshot; each part is mapped on first use.

        Raise SnapshotDamaged if a file that recall reads is known, or seen, to be damaged, or if
        its tables do not fit together.
        """
        constraints, ref = Constraints(manifest), manifest.projections[projection.name]
        constraints.check_rows(projection)
        read = {
            name: files for name, files in ref.parts.items() if name not in projection.for_builds
        }
        ref = msgspec.structs.replace(ref, parts=read)
        for file in ref.files:
            if file.path in self._damaged:
                raise SnapshotDamaged(self._damaged[file.path])
        snapshot.glance(self._root, ref)
        tables = snapshot.read(
            self._root, ref, projection, check=False, validate=not self._are_trusted
        )
        for name, some in tables.parts.items():
            for number, part in enumerate(some):
                self._checks[_file(part).path] = partial(
                    constraints.check_part, projection.name, name, number
                )
        parts = {name: [self._reuse(part) for part in some] for name, some in tables.parts.items()}
        return Built(projection.schemas, parts)

    def map_all(self) -> None:
        """Map every part, so that no answer has to wait for it; raise SnapshotDamaged."""
        for part in self._parts.values():
            _ = part.table

    def step(self, most: int | None = None) -> bool:
        """Hash up to about `most` bytes (None: all that wait); return True if damage was found."""
        hashed = 0
        while self._waiting and (most is None or hashed < most):
            path, part = next(iter(self._waiting.items()))
            try:
                hashed += self._hash_piece(path, part)
            except SnapshotDamaged as error:
                self._damaged[path] = str(error)
                snapshot.doubt(self._root, _file(part))
                del self._waiting[path]
                self._under_way = None
                return True
        return False

    def _hash_piece(self, path: str, part: Part) -> int:
        """Hash the next piece of a file; return its bytes, 0 once the whole file is valid."""
        if self._under_way is None:
            self._under_way = hashing(self._root, _file(part))
        for piece in self._under_way:
            return piece
        self._checks[path](part.table)  # it was read just now: this costs no disk
        self._whole.add(path)
        del self._waiting[path]
        self._under_way = None
        return 0

    def _reuse(self, part: Part) -> Part:
        """Return an earlier manifest's part in the same file, else this part."""
        path = _file(part).path
        mapped = self._parts[path] = self._earlier.get(path, part)
        if path not in self._whole:
            self._waiting[path] = mapped
        return mapped


def _file(part: Part) -> PartFile:
    if part.file is None:
        raise TypeError("a part of a snapshot lies in a file")
    return part.file


T = TypeVar("T")


@dataclass(frozen=True)
class Snapshots:
    """The opened snapshots of one manifest; None for an unusable one."""

    manifest: Manifest | None
    embedder: Embedder  # of the vectors, and so of the tail's vectors and of questions
    rows: MemoryRows
    postings: PostingsIndex
    vectors: VectorRows | None
    entities: EntityIndex | None
    duplicates: Duplicates | None
    facts: Facts | None
    state: Tables | None
    sessions: Sessions | None
    usage: Usage | None
    lessons: Lessons | None
    statement_weights: StatementWeights | None
    insights: Insights | None
    routes: Routes | None
    notices: tuple[str, ...]
    _made: dict[Callable[["Snapshots"], Any], Any] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @property
    def watermark(self) -> int:
        return self.manifest.watermark if self.manifest else 0

    @property
    def calibration(self) -> Calibration:
        return self.vectors.calibration if self.vectors else Calibration()

    def policy(
        self, at: int | None, adopted: Sequence[Event] = (), undone: Set[str] = frozenset()
    ) -> Policy:
        """Return `Routes.policy`, computed once if nothing changed it since the build."""
        if at is None and not adopted and not undone:
            return self._policy
        return (self.routes or Routes.empty()).policy(at, adopted, undone)

    @cached_property
    def _policy(self) -> Policy:
        return (self.routes or Routes.empty()).policy()

    @cached_property
    def masks(self) -> RowMasks:
        return RowMasks(self.rows)

    def once(self, make: Callable[["Snapshots"], T]) -> T:
        """Return `make` of these snapshots, called once for as long as they are served."""
        if make not in self._made:
            self._made[make] = make(self)
        value: T = self._made[make]
        return value


FindEmbedder = Callable[[str], Embedder | None]  # by its model; None if it is not available here


def no_embedder(model: str) -> None:
    """Return None: no other embedder is available."""


def open_snapshots(
    tenant: Tenant,
    embedder: Embedder,
    files: OpenedFiles,
    check: Callable[[Snapshots], None] | None = None,
    find_embedder: FindEmbedder = no_embedder,
) -> Snapshots:
    """Return the snapshots of the newest usable manifest, with a notice for each part set aside.

    A manifest is skipped if `check` raises SnapshotDamaged. The embedder is the one that made its
    vectors, if it is found; else the `embedder` of the settings.
    """
    notices: list[str] = []
    for manifest in _candidates(tenant, notices):
        try:
            its = embedder
            if manifest.embedder != embedder.model:
                its = find_embedder(manifest.embedder) or embedder
            snapshots = open_manifest(tenant, manifest, its, notices, files)
            if check is not None:
                check(snapshots)
        except SnapshotDamaged as error:
            if str(error) not in notices:  # older ones mostly lack the same
                notices.append(str(error))
        else:
            return snapshots
    return Snapshots(
        manifest=None,
        embedder=embedder,
        rows=MemoryRows.empty(),
        postings=PostingsIndex.open(postings.index([])),
        vectors=None,
        entities=None,
        duplicates=None,
        facts=None,
        state=None,
        sessions=None,
        usage=None,
        lessons=None,
        statement_weights=None,
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
        yield from manifests.list_manifests(tenant)
        return
    yield newest
    yield from (
        manifest
        for manifest in manifests.list_manifests(tenant)
        if manifest.number != newest.number
    )


def open_manifest(
    tenant: Tenant,
    manifest: Manifest,
    embedder: Embedder,
    notices: list[str],
    files: OpenedFiles,
) -> Snapshots:
    """Return the snapshots of one manifest, with `notices` and one for each part set aside.

    Raise SnapshotDamaged if a part that recall needs is broken.
    """
    projections = {projection.name: projection for projection in catalog.all_projections(embedder)}
    damaged: list[str] = []

    def tables(name: str) -> Tables:
        return _tables(manifest, projections[name], files)

    def optional(name: str, open_: Callable[[Tables], T]) -> T | None:
        try:
            return open_(tables(name))
        except SnapshotDamaged as error:
            damaged.append(str(error))
            return None

    vectors = optional("vectors", VectorRows.open)
    if vectors is not None and manifest.missing_vectors:
        damaged.append(
            f"{plural(manifest.missing_vectors, 'text')} found by words only: {embedder.model} "
            "did not answer when they were built; `mnemolog build` asks it again"
        )
    return Snapshots(
        manifest=manifest,
        embedder=embedder,
        rows=MemoryRows.open(tables("memories")),
        postings=PostingsIndex.open(tables("postings")),
        vectors=vectors,
        entities=optional("entities", EntityIndex.open),
        duplicates=optional("duplicates", Duplicates.open),
        facts=optional("facts", Facts.open),
        state=optional("state", lambda tables: tables),
        sessions=optional("sessions", Sessions.open),
        usage=optional("usage", Usage.open),
        lessons=optional("lessons", Lessons),
        statement_weights=optional("statement_weights", StatementWeights.open),
        insights=optional("insights", Insights.open),
        routes=optional("routes", Routes),
        notices=(*notices, *damaged),
    )


def _tables(manifest: Manifest, projection: Projection, files: OpenedFiles) -> Tables:
    """Return the tables of one projection, glanced at; each is mapped on first use."""
    ref = manifest.projections.get(projection.name)
    if projection.name == "vectors" and ref is not None and ref.version != projection.version:
        raise SnapshotDamaged(
            f"the vectors were made by {manifest.embedder}, which is not the embedder of the "
            "settings, nor found here: recall uses words alone until `mnemolog build`"
        )
    if ref is None or ref.version != projection.version:
        built_as = "nothing" if ref is None else ref.version
        raise SnapshotDamaged(
            f"{projection.name} was built as {built_as}, this is {projection.version}: "
            "run `mnemolog build`"
        )
    return files.tables(manifest, projection)
