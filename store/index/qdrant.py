"""
Qdrant: the nearest memories by a Qdrant server with a copy of the published vectors.

The copy only selects documents: our own half-precision rows give the cosines, which are the same as
without it. No recall waits for the server longer than the timeout in the settings. After a failure
the server is not asked for some seconds, and if the copy is of another build, or too few of its
documents pass a filter, our own scan answers.

The last written copy and its place are recorded in `qdrant.json` in the tenant's folder.
"""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from store.home import config
from store.home.config import Qdrant
from store.home.errors import VectorStoreError
from store.home.files import FileStamp, file_stamp
from store.home.tenant import Tenant
from store.index.top_k import Docs, Mask
from store.index.vector_scan import Floats, Scan

PAUSE_S = 5.0  # after a failure
MOST = 800  # documents that a search names: more than a recall weighs, as filters take some
_LEAST = 40  # that pass, for a few
_FEW = 4_096  # documents that pass a filter: our own scan looks at these alone
_BEHIND = "the vectors in Qdrant are of another build: `mnemolog build` brings them in step"


class Copy(msgspec.Struct, frozen=True):
    """The contents of a collection: the vectors of the parts with these digests, in their order.

    If `is_unwanted`, an erasure requires dropping the collection before the next write.
    """

    url: str
    collection: str
    parts: tuple[str, ...]
    is_unwanted: bool = False


def copy_file(tenant: Tenant) -> Path:
    return tenant.root / "qdrant.json"


def load_copy(tenant: Tenant) -> Copy | None:
    """Return the last written copy; None without one, or if the write was not completed."""
    try:
        return msgspec.json.decode(copy_file(tenant).read_bytes(), type=Copy)
    except (OSError, msgspec.MsgspecError):
        return None


def collection_prefix(tenant: Tenant) -> str:
    """Return the prefix of a tenant's collections: it differs between homes."""
    place = sha256(str(tenant.root.resolve()).encode()).hexdigest()[:12]
    return f"mnemolog-{tenant.name}-{place}-"


def connect(chosen: Qdrant, timeout_s: float) -> Any:
    """Return a client, which has not called the server yet.

    Raise VectorStoreError if its package is not installed.
    """
    try:
        from qdrant_client import QdrantClient  # a second of CPU and 45 MB
    except ImportError:
        raise VectorStoreError(
            "Qdrant needs the package qdrant-client: `pip install 'mnemolog-core[qdrant]'`"
        ) from None
    return QdrantClient(
        url=chosen.url,
        api_key=config.qdrant_key(),
        timeout=max(1, round(timeout_s)),  # whole seconds are all it takes
        check_compatibility=False,
    )


def failures() -> tuple[type[Exception], ...]:
    """Return the exceptions that a client raises if a request fails."""
    from qdrant_client.common.client_exceptions import QdrantException
    from qdrant_client.http.exceptions import ApiException

    return ApiException, QdrantException, ValueError, OSError


class QdrantSearch:
    """The search of one tenant's copy. Threads may share it."""

    def __init__(
        self,
        chosen: Qdrant,
        tenant: Tenant,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`clock` gives seconds that never go back."""
        self._chosen, self._tenant, self._clock = chosen, tenant, clock
        self._lock = threading.Lock()
        self._client: Any = None
        self._connecting: Future[Any] | None = None
        self._stamp: FileStamp | None = None
        self._copy: Copy | None = None
        self._failure, self._again_at = "", 0.0

    def best(
        self, scan: Scan, parts: Sequence[str], mask: Mask, k: int, *, above: float
    ) -> tuple[Docs, Floats] | None:
        """Return the result of `Scan.best` by the copy of these parts; None if our own scan is
        better: few documents pass the mask, or too few of the copy's.

        Raise VectorStoreError if the copy is of other parts, or the server does not answer.
        """
        copy = self._copy_of(parts)
        if int(np.count_nonzero(mask)) <= _FEW:
            return None
        wanted = min(MOST, 4 * max(_LEAST, k))
        docs = self._ask(copy.collection, scan.query, wanted)
        is_all = len(docs) < wanted
        docs = docs[docs < len(scan.rows)]
        docs = docs[mask[docs]]
        if not is_all and len(docs) < min(wanted, max(_LEAST, k)):
            return None
        return scan.weigh(docs, k, above=above)

    def connect(self) -> "Future[Any]":
        """Begin to load and connect the client; return its future."""
        with self._lock:
            if self._connecting is None:
                self._connecting = Future()
                work = (self._connecting, connect, self._chosen, self._chosen.timeout_s)
                threading.Thread(target=_settle, args=work, daemon=True).start()
            return self._connecting

    def _copy_of(self, parts: Sequence[str]) -> Copy:
        stamp = file_stamp(copy_file(self._tenant))
        if stamp is None or stamp != self._stamp:
            self._copy, self._stamp = load_copy(self._tenant), stamp
        copy = self._copy
        if copy is None or copy.is_unwanted:
            raise VectorStoreError(_BEHIND)
        if copy.url != self._chosen.url or copy.parts != tuple(parts):
            raise VectorStoreError(_BEHIND)
        return copy

    def _ask(self, collection: str, query: Floats, count: int) -> Docs:
        with self._lock:
            if self._clock() < self._again_at:
                raise VectorStoreError(self._failure)
        client, answer = self.connect(), Future[Docs]()
        if not client.done():
            raise VectorStoreError(f"Qdrant at {self._chosen.url} is being connected")
        # in a thread of its own: the client's timeout ignores a response that trickles in
        work = (answer, _nearest, client.result(), collection, query, count)
        threading.Thread(target=_settle, args=work, daemon=True).start()
        try:
            return answer.result(self._chosen.timeout_s)
        except TimeoutError:
            failure = f"no answer within {self._chosen.timeout_s:g} s"
        except failures() as error:
            failure = f"{error}".partition("\n")[0] or type(error).__name__
        with self._lock:
            self._failure = f"Qdrant at {self._chosen.url}: {failure}; our own scan answers"
            self._again_at = self._clock() + PAUSE_S
            raise VectorStoreError(self._failure)


def _nearest(client: Any, collection: str, query: Floats, count: int) -> Docs:
    points = client.query_points(
        collection, query=query.tolist(), limit=count, with_payload=False, with_vectors=False
    )
    return np.array([point.id for point in points.points], np.int64)


def _settle(answer: "Future[Any]", work: Callable[..., Any], *given: Any) -> None:
    """Set a future to the result or the exception of some work."""
    try:
        answer.set_result(work(*given))
    except BaseException as error:
        answer.set_exception(error)
