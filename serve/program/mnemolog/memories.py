"""
Memories: record, read and change them.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Unpack

from msgspec import structs
from msgspec.json import Decoder

from mnemolog.connection import Answer, TenantConnection, decode_answer, part
from mnemolog.inputs import Changes, Draft, Fields, Filters, Relation
from mnemolog.shapes import (
    Acknowledged,
    AllAcknowledged,
    DrawnEdge,
    History,
    KeyHistory,
    ListedMemory,
    MemoryPage,
    WholeMemory,
)

_ACKNOWLEDGED, _ALL_ACKNOWLEDGED = Decoder(Acknowledged), Decoder(AllAcknowledged)
_WHOLE_MEMORY, _DRAWN_EDGE = Decoder(WholeMemory), Decoder(DrawnEdge)
_HISTORY, _KEY_HISTORY = Decoder(History), Decoder(KeyHistory)
_PAGE = Decoder(MemoryPage)


@dataclass(frozen=True, slots=True)
class Memories:
    """`client.memories`. What `etag` names must be as it was read, else Changed is raised."""

    _asking: TenantConnection

    def record(
        self, content: str, *, idempotency_key: str | None = None, **fields: Unpack[Fields]
    ) -> Acknowledged:
        """Record one memory; it is on disk when this returns.

        It is safe to call again with the same `idempotency_key`, or `id`: it is one memory.
        """
        draft = {"content": content, **fields}
        return self._asking.post(
            _ACKNOWLEDGED, "/v1/memories", draft, key=idempotency_key, is_keyed=True
        )

    def record_batch(
        self, drafts: Iterable[Draft], *, idempotency_key: str | None = None
    ) -> tuple[Acknowledged, ...]:
        """Record up to 1,000 memories, all or none."""
        body = {"memories": [*drafts]}
        path = "/v1/memories/batch"
        done = self._asking.post(_ALL_ACKNOWLEDGED, path, body, key=idempotency_key, is_keyed=True)
        return done.memories

    def get(self, id_: str) -> WholeMemory:
        """Return all there is of a memory."""
        return _whole(self._asking.send("GET", _path(id_), query={}))

    def list(self, **filters: Unpack[Filters]) -> Iterator[ListedMemory]:
        """Yield all memories that pass the filters, the newest first where `sort` says nothing.

        Pages are asked for as they are come to; what is written meanwhile is in none twice.
        """
        for page in self._asking.pages(_PAGE, "/v1/memories", filters):
            yield from page.memories

    def patch(
        self, id_: str, *, etag: str | None = None, **changes: Unpack[Changes]
    ) -> WholeMemory:
        """Replace some fields; what they were stays in the history."""
        return _whole(self._asking.send("PATCH", _path(id_), body=changes, etag=etag))

    def forget(self, id_: str, *, reason: str | None = None, etag: str | None = None) -> None:
        """Forget a memory: it is never recalled again, unless restored."""
        self._asking.send("DELETE", _path(id_), query={"reason": reason}, etag=etag, is_safe=True)

    def restore(
        self, id_: str, *, reason: str | None = None, idempotency_key: str | None = None
    ) -> WholeMemory:
        """Make a forgotten, archived or superseded memory current again."""
        return self._changed(id_, "restore", {"reason": reason}, idempotency_key)

    def archive(
        self, id_: str, *, reason: str | None = None, idempotency_key: str | None = None
    ) -> WholeMemory:
        """Put a memory away: it is recalled only where the archive is asked for."""
        return self._changed(id_, "archive", {"reason": reason}, idempotency_key)

    def supersede(
        self,
        id_: str,
        by: str,
        *,
        reason: str | None = None,
        idempotency_key: str | None = None,
    ) -> WholeMemory:
        """Put another memory in the place of one."""
        return self._changed(id_, "supersede", {"by": by, "reason": reason}, idempotency_key)

    def link(
        self, id_: str, target: str, relation: Relation, *, idempotency_key: str | None = None
    ) -> DrawnEdge:
        """Draw a reasoning edge to another memory."""
        path, body = f"{_path(id_)}/links", {"target": target, "relation": relation}
        return self._asking.post(_DRAWN_EDGE, path, body, key=idempotency_key, is_keyed=True)

    def history(self, id_: str) -> History:
        """Return what a memory replaced and what replaced it, the newest first."""
        return self._asking.get(_HISTORY, f"{_path(id_)}/history")

    def history_of_key(self, key: str, *, project: str | None = None) -> KeyHistory:
        """Return the values a key had, the newest first."""
        return self._asking.get(_KEY_HISTORY, f"/v1/keys/{part(key)}/history", project=project)

    def _changed(self, id_: str, verb: str, body: dict[str, Any], key: str | None) -> WholeMemory:
        path = f"{_path(id_)}/{verb}"
        return self._asking.post(_WHOLE_MEMORY, path, body, key=key, is_keyed=True)


def _path(id_: str) -> str:
    return f"/v1/memories/{part(id_)}"


def _whole(answer: Answer) -> WholeMemory:
    found = decode_answer(_WHOLE_MEMORY, answer.body)
    return structs.replace(found, etag=answer.headers.get("etag", ""))
