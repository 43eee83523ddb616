"""
The copy of the published vectors in a Qdrant server, brought in step after each build.

There is a point for each memory that has a vector: its number is the document's, its payload the
memory's id (`memory`) and the hash of its text (`text_hash`), never the text. The server's points
are compared with the published ones, so a server that was down, or lost its disk, gets the missing
ones. An erasing drops the collection whole: Qdrant keeps the vectors of deleted points in its files
for a while.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from store.home.config import Qdrant
from store.home.errors import VectorStoreError
from store.home.files import remove_files, replace_file
from store.home.tenant import Tenant
from store.index import qdrant
from store.index.qdrant import Copy
from store.index.vector_scan import vector_matrix
from store.snapshots import manifest as manifests
from store.snapshots import snapshot
from store.snapshots.projection import PartFile
from store.snapshots.snapshot import SnapshotRef

_TIMEOUT_S = 30.0  # of one call
_BATCH = 200  # points that one call writes: a server takes 32 MB
_PAGE = 10_000  # points that one call lists
_MEMORY, _TEXT = "memory", "text_hash"

_Points = dict[int, tuple[str, str]]  # by document: the memory's id, its text's hash


def is_in_step(tenant: Tenant, chosen: Qdrant) -> bool:
    """Return True if the copy is up to date; raise NoManifest or SnapshotDamaged."""
    ref = manifests.current(tenant).projections["vectors"]
    return qdrant.load_copy(tenant) == _copy_of(tenant, chosen, ref)


def sync(tenant: Tenant, chosen: Qdrant) -> int:
    """Bring the copy in step with the published vectors; return the number of changed points.

    Call it while holding the tenant's build lock. Raise VectorStoreError, NoManifest or
    SnapshotDamaged; the next call then resumes.
    """
    manifest = manifests.current(tenant)
    vectors, memories = manifest.projections["vectors"], manifest.projections["memories"]
    for ref in (vectors, memories):
        snapshot.glance(tenant.snapshots, ref)
    before = qdrant.load_copy(tenant)
    if before is not None and before.is_unwanted:
        drop(tenant, chosen)
    wanted = _copy_of(tenant, chosen, vectors)
    with _client(chosen) as client:
        _open_collection(client, tenant, wanted.collection, manifest.dimension or 1)
        points = _published(tenant, vectors, memories)
        on_server = _points_on_server(client, wanted.collection)
        surplus = [document for document in on_server if document not in points]
        stale = [document for document, point in points.items() if on_server.get(document) != point]
        if surplus or stale:
            remove_files([qdrant.copy_file(tenant)])  # a half-written copy is not searched
        for start in range(0, len(surplus), _PAGE):
            client.delete(wanted.collection, surplus[start : start + _PAGE], wait=True)
        for points_written in _batches(tenant, vectors, stale, points):
            client.upsert(wanted.collection, points_written, wait=True)
    replace_file(qdrant.copy_file(tenant), msgspec.json.encode(wanted))
    return len(surplus) + len(stale)


def drop(tenant: Tenant, chosen: Qdrant) -> None:
    """Delete all collections of a tenant, on the server that its copy was last written to.

    Call it while holding the tenant's build lock. Raise VectorStoreError; the next `sync` then
    deletes them first, and they are not searched.
    """
    before = qdrant.load_copy(tenant)
    url = before.url if before else chosen.url
    if not url:
        return  # nothing was ever written
    unwanted = Copy(url, "", (), is_unwanted=True)
    replace_file(qdrant.copy_file(tenant), msgspec.json.encode(unwanted))
    with _client(msgspec.structs.replace(chosen, url=url)) as client:
        for name in _collections(client, tenant):
            client.delete_collection(name)
    remove_files([qdrant.copy_file(tenant)])


@contextmanager
def _client(chosen: Qdrant) -> Iterator[Any]:
    """Yield a client; raise VectorStoreError for its failures."""
    client = qdrant.connect(chosen, _TIMEOUT_S)
    try:
        yield client
    except qdrant.failures() as error:
        text = str(error).partition("\n")[0] or type(error).__name__
        raise VectorStoreError(
            f"Qdrant at {chosen.url}: {text}; start it, then run `mnemolog build`"
        ) from error
    finally:
        client.close()


def _copy_of(tenant: Tenant, chosen: Qdrant, ref: SnapshotRef) -> Copy:
    model = sha256(ref.version.encode()).hexdigest()[:8]  # vectors of two models never meet
    parts = tuple(file.digest for file in ref.parts["rows"])
    return Copy(chosen.url, qdrant.collection_prefix(tenant) + model, parts)


def _collections(client: Any, tenant: Tenant) -> list[str]:
    names = (collection.name for collection in client.get_collections().collections)
    return [name for name in names if name.startswith(qdrant.collection_prefix(tenant))]


def _open_collection(client: Any, tenant: Tenant, name: str, width: int) -> None:
    """Make a tenant's collection if it does not exist, and delete those of other models."""
    from qdrant_client.models import Distance, VectorParams

    others = _collections(client, tenant)
    for other in others:
        if other != name:
            client.delete_collection(other)
    if name not in others:
        client.create_collection(name, VectorParams(size=width, distance=Distance.COSINE))


def _points_on_server(client: Any, collection: str) -> _Points:
    held: _Points = {}
    offset = None
    while True:
        points, offset = client.scroll(
            collection, limit=_PAGE, offset=offset, with_payload=True, with_vectors=False
        )
        for point in points:
            payload = point.payload or {}
            held[point.id] = payload.get(_MEMORY, ""), payload.get(_TEXT, "")
        if offset is None:
            return held


def _published(tenant: Tenant, vectors: SnapshotRef, memories: SnapshotRef) -> _Points:
    """Return the published points: of memories with a vector."""
    ids = _column(tenant, memories.parts["memories"], "id")
    hashes = _column(tenant, vectors.parts["rows"], _TEXT)
    no_text = bytes(16)
    return {
        document: (id_, text.hex())
        for document, (id_, text) in enumerate(zip(ids, hashes, strict=True))
        if text != no_text
    }


def _column(tenant: Tenant, files: Sequence[PartFile], name: str) -> Iterator[Any]:
    for file in files:
        yield from _map(tenant.snapshots / file.path).column(name).to_pylist()


def _map(path: Path) -> pa.Table:
    return pa.ipc.open_file(pa.memory_map(str(path))).read_all()


def _batches(
    tenant: Tenant, vectors: SnapshotRef, documents: Sequence[int], points: _Points
) -> Iterator[list[Any]]:
    """Yield the points of some documents, given ascending, one call's worth at a time."""
    start, wanted = 0, np.array(documents, np.int64)
    for file in vectors.parts["rows"]:
        within = wanted[(wanted >= start) & (wanted < start + file.rows)] - start
        if len(within):
            halves = vector_matrix(
                _map(tenant.snapshots / file.path).column("half").combine_chunks()
            )
            for at in range(0, len(within), _BATCH):
                yield _point_structs(halves, within[at : at + _BATCH], start, points)
        start += file.rows


def _point_structs(
    halves: npt.NDArray[Any], within: npt.NDArray[np.int64], start: int, points: _Points
) -> list[Any]:
    from qdrant_client.models import PointStruct

    floats = halves[within].astype(np.float32).tolist()
    numbers = (within + start).tolist()
    return [
        PointStruct(
            id=number,
            vector=vector,
            payload=dict(zip((_MEMORY, _TEXT), points[number], strict=True)),
        )
        for number, vector in zip(numbers, floats, strict=True)
    ]
