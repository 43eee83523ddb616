"""
Reader: one tenant's manifest held open, the log's tail laid over it, swapped when HEAD moves.

Readers start from a manifest whose files are, at a glance, what was written, and hash them behind
the answers (`verification`). A damaged index is set aside and said so: without `memories` or
`postings` an older manifest serves, or the log alone; without the others recall goes on with what
is left.
"""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import msgspec
import numpy as np
import pyarrow as pa

from serve.fresh.live_tail import LiveTail
from serve.fresh.tail import Tail
from serve.verification import Verification
from store import manifest as manifests
from store import projections, snapshot
from store.embedders.calibration import Calibration
from store.embedding import Embedder
from store.errors import InvalidInput, NoManifest, SnapshotDamaged
from store.log import EventLog
from store.manifest import Manifest
from store.projection import Projection, Tables
from store.projections import postings
from store.projections.entities import EntityIndex
from store.projections.fields import FieldRows
from store.projections.memories import Memory
from store.projections.memory_rows import Mask, MemoryRows
from store.projections.postings import PostingsIndex
from store.projections.sessions import Sessions
from store.projections.usage import Usage
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
    sessions: Sessions | None
    usage: Usage | None
    notices: tuple[str, ...]

    @property
    def watermark(self) -> int:
        return self.manifest.watermark if self.manifest else 0

    @property
    def calibration(self) -> Calibration:
        return self.vectors.calibration if self.vectors else Calibration()


@dataclass(frozen=True)
class View:
    """One state of the memory to answer from: snapshots, and the tail over them. Never changes."""

    snapshots: Snapshots
    tail: Tail

    def those(self, mask: Mask, accepts: Callable[[Memory], bool]) -> list[Memory]:
        """Return the snapshot's rows under a mask, [rows], and what is accepted of the tail."""
        rows = np.setdiff1d(np.flatnonzero(mask), self.tail.hidden)
        return [*self.snapshots.rows.take(rows.tolist()), *filter(accepts, self.tail.current())]


# what reading a damaged file that nobody hashed yet may raise
_BROKEN = (SnapshotDamaged, LookupError, ValueError, OverflowError, pa.ArrowException)
_A_POLL = 128 << 20  # bytes hashed: less than a tenth of a second


class Reader:
    """The newest servable state of one tenant. Threads may share it."""

    def __init__(self, tenant: Tenant, log: EventLog, embedder: Embedder) -> None:
        self._tenant, self._log, self._embedder = tenant, log, embedder
        self._growing = threading.Lock()
        self._swapping = threading.Lock()
        self._verification = Verification(tenant)
        self._head: object = self._stamp()  # None: what is open must give way
        self._version: tuple[int, int] | None = None
        self._snapshots, self._live = self._open()
        self._view = View(self._snapshots, self._live.now())

    @contextmanager
    def view(self) -> Iterator[View]:
        """Give the current state with every event in the log laid over it."""
        yield self._now()

    def answered(self, ask: Callable[[View], T]) -> T:
        """Return what is answered from the current state.

        Where the answer fails for a file that is damaged and was not hashed yet, that is set aside
        and the answer given from what is left.
        """
        while True:
            snapshots = self._snapshots
            try:
                return ask(self._now())
            except _BROKEN:
                if not self._is_mended(snapshots):
                    raise

    def moment_of(self, seq: int) -> int:
        """Return when the event of a seq happened, in microseconds UTC; raise InvalidInput."""
        found = next(self._log.read(seq - 1, seq), None)
        if found is None:
            raise InvalidInput(f"the log has no event {seq}: its newest is {self._log.head()}")
        return found.at

    def poll(self) -> bool:
        """Open a newly published manifest, or the old one without what was found to be damaged.

        Return whether it did. Answers go on from what was open meanwhile.
        """
        with self._swapping:
            if self._verification.step(_A_POLL):
                self._head = None
            if is_new := self._head != self._stamp():
                self._swap()
        self._live.embed_ahead()
        return is_new

    def _now(self) -> View:
        if self._log.version() != self._version:
            self._catch_up()
        return self._view

    def _is_mended(self, broken: Snapshots) -> bool:
        """Hash all that was not yet; return whether there is now another state to answer from."""
        with self._swapping:
            if self._snapshots is broken and self._verification.step():
                self._head = None
                self._swap()
            return self._snapshots is not broken

    def _swap(self) -> None:
        head = self._stamp()
        opened = self._open()
        with self._growing:
            self._snapshots, self._live = opened
            self._extend()
        self._head = head  # only now: what failed to open is tried again

    def _stamp(self) -> tuple[object, int]:
        """Return what changes with HEAD, or when a model's dimension becomes known."""
        return _stamp(self._tenant), self._embedder.dimension

    def _open(self) -> tuple[Snapshots, LiveTail]:
        while True:
            self._verification.forget_waiting()
            try:
                snapshots = open_snapshots(self._tenant, self._embedder, self._verification)
                live = _live_tail(snapshots, self._embedder)
                live.extend(self._log.read(snapshots.watermark))
            except _BROKEN:
                if not self._verification.step():
                    raise
            else:
                return snapshots, live

    def _catch_up(self) -> None:
        """Lay the events that were appended since over the snapshots."""
        with self._growing:
            version = self._log.version()
            if version != self._version:  # else another thread did it meanwhile
                self._extend()
                self._version = version

    def _extend(self) -> None:
        # read to the end first: what fails halfway is read again, not left out
        self._live.extend(list(self._log.read(self._live.watermark)))
        self._view = View(self._snapshots, self._live.now())


def standing(tenant: Tenant, manifest: Manifest, embedder: Embedder) -> View:
    """Return one manifest, published or not, to answer from without any tail.

    Raise SnapshotDamaged where recall could not do without what is broken.
    """
    snapshots = _open_manifest(tenant, manifest, embedder, [], Verification(tenant))
    return View(snapshots, _live_tail(snapshots, embedder).now())


def _live_tail(snapshots: Snapshots, embedder: Embedder) -> LiveTail:
    rows, postings, vectors = snapshots.rows, snapshots.postings, snapshots.vectors
    return LiveTail(rows, postings, embedder, vectors, snapshots.watermark)


def open_snapshots(tenant: Tenant, embedder: Embedder, verification: Verification) -> Snapshots:
    """Return the newest manifest that can be served, with a notice for all that was set aside."""
    notices: list[str] = []
    for manifest in _candidates(tenant, notices):
        try:
            return _open_manifest(tenant, manifest, embedder, notices, verification)
        except SnapshotDamaged as error:
            notices.append(str(error))
    return Snapshots(
        manifest=None,
        rows=MemoryRows.empty(),
        postings=PostingsIndex.open(postings.index([])),
        vectors=None,
        fields=None,
        entities=None,
        sessions=None,
        usage=None,
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


def _open_manifest(
    tenant: Tenant,
    manifest: Manifest,
    embedder: Embedder,
    notices: list[str],
    verification: Verification,
) -> Snapshots:
    known = {one.name: one for one in projections.all_of(embedder)}
    damaged: list[str] = []

    def tables(name: str) -> Tables:
        return _tables(tenant, manifest, known[name], verification)

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
        sessions=optional("sessions", Sessions.open),
        usage=optional("usage", Usage.open),
        notices=(*notices, *damaged),
    )


def _tables(
    tenant: Tenant, manifest: Manifest, projection: Projection, verification: Verification
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
    read = {name: parts for name, parts in ref.parts.items() if name not in projection.for_builds}
    verification.glance(msgspec.structs.replace(ref, parts=read))
    return snapshot.read(tenant.snapshots, ref, projection, check=False)


def _stamp(tenant: Tenant) -> tuple[int, int] | None:
    """Return what changes when HEAD is replaced; costs microseconds."""
    try:
        found = os.stat(tenant.head)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino
