"""
Another embedder: its vectors are made beside the published ones; the old ones can be served again.
The build that publishes the new vectors is the switch; until then nothing changes for recall.
"""

from collections.abc import Iterator
from contextlib import suppress

import msgspec
import pyarrow as pa
from msgspec.structs import replace

from store.derived import catalog
from store.embedders.embedder import Embedder
from store.home.errors import SnapshotDamaged
from store.home.files import without_syncs
from store.home.tenant import Tenant
from store.index.vectors import embed_missing, vectors_projection
from store.log import log_queries
from store.log.event_log import EventLog
from store.maintenance.build import current_manifest, journal_of, lock, log_inputs, newest_published
from store.memories.memories_projection import MEMORIES_PROJECTION
from store.snapshots import manifest as manifests
from store.snapshots import snapshot
from store.snapshots.manifest import Manifest
from store.snapshots.projection import Projection, build_checked


def lend_vectors(owner: Tenant, borrower: Tenant, embedder: Embedder) -> None:
    """Let the builds of a tenant use another tenant's vectors, like those of an earlier build."""
    vectors = vectors_projection(embedder)
    journal, waiting = (journal_of(tenant, embedder, vectors) for tenant in (borrower, owner))
    with without_syncs(), suppress(OSError):  # a build of the owner's took them: they are made anew
        for table in (*_published_vectors(owner, vectors), *waiting.read()):
            journal.add(table)


def embed_ahead(tenant: Tenant, log: EventLog, embedder: Embedder) -> Iterator[tuple[int, int]]:
    """Embed the texts of a memory with another embedder than the published one, for the build that
    will need the vectors; yield after each batch the number of texts done, and the total.

    Nothing else waits for it: finished vectors are kept for a week, and the next call reuses them.
    Raise EmbedderError if the model does not answer.
    """
    if not embedder.dimension:
        embedder.embed(["mnemolog"])  # learn a new embedder's vector width
    inputs, vectors = log_inputs(log, log.head()), vectors_projection(embedder)
    memories = build_checked(MEMORIES_PROJECTION, inputs, None)
    inputs = replace(inputs, journal=journal_of(tenant, embedder, vectors))
    yield from embed_missing(embedder, memories, _published_vectors(tenant, vectors), inputs)


def serve_again(tenant: Tenant, log: EventLog, embedder: Embedder, now: int) -> Manifest | None:
    """Publish the newest manifest made with an embedder again, at once; return it.

    Recall reads the events since then from the log, as always, until the next build. None if the
    embedder is the published one, if no such manifest is kept, or if something was erased since.
    Raise BuildBusy.
    """
    versions = {
        projection.name: projection.version for projection in catalog.all_projections(embedder)
    }
    with lock(tenant):
        served = current_manifest(tenant)
        if served is None or served.embedder == embedder.model:
            return None
        for manifest in manifests.list_manifests(tenant):
            if {name: ref.version for name, ref in manifest.projections.items()} != versions:
                continue
            if log_queries.erased_ids(log, log.head(), manifest.watermark):
                return None
            with suppress(SnapshotDamaged):
                for ref in manifest.projections.values():
                    snapshot.glance(tenant.snapshots, ref)
                return manifests.publish(tenant, msgspec.structs.replace(manifest, at=now))
        return None


def _published_vectors(tenant: Tenant, vectors: Projection) -> list[pa.Table]:
    """Return the kept vector rows of a model; none if there are none, or they are damaged."""
    newest = newest_published(tenant, vectors)
    if newest is None:
        return []
    with suppress(SnapshotDamaged, OSError):  # else they are made anew
        snapshot.verify(tenant.snapshots, newest.ref)
        tables = snapshot.read(tenant.snapshots, newest.ref, vectors, check=False, validate=False)
        return [tables["rows"]]
    return []
