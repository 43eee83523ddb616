"""
Client: a memory over HTTP, for programs.
"""

import ssl
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Self, Unpack

from msgspec.json import Decoder

from mnemolog import wire
from mnemolog.connection import Connection, TenantConnection, decode_answer, find_server
from mnemolog.errors import Error
from mnemolog.resources import IN_SHORT, Jobs, Memories, Proposals, Receipts, Tenants

_RECALLED, _RATED, _HEALTH = Decoder(wire.Recalled), Decoder(wire.Rated), Decoder(wire.Health)
_ANY, _JSON = Decoder(dict[str, Any]), Decoder(Any)

TIMEOUT_S = 30.0
RETRIES = 3


class Client:
    """A server's memory: `Client()` finds the one that runs on this machine, and may all its owner
    may; `Client(url, token)` asks any, for what its token allows.

    Threads may share it. What is safe to send twice (reads, recalls, deletions, and whatever an
    idempotency key goes with) is sent again where the server is busy or hung up, `retries` times.
    Raises `mnemolog.Error`: see `mnemolog.errors`.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        tenant: str | None = None,
        home: Path | None = None,
        timeout_s: float = TIMEOUT_S,
        retries: int = RETRIES,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`timeout_s` is for each wait for the server; `home` for a `url` that is not given; `tls`
        for an https address: the authorities to trust, and a certificate of the client's own.
        """
        if url is None:
            if token is not None:
                raise Error("a token needs the server's address: Client(url, token)")
            url, token = find_server(home)
        elif token is None:
            raise Error(f"{url} asks for a token: Client(url, token)")
        connection = Connection(url, token, timeout_s=timeout_s, retries=retries, tls=tls)
        self._asking = TenantConnection(connection, tenant)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the kept connections; the next request opens one again."""
        self._asking.connection.close()

    @cached_property
    def memories(self) -> Memories:
        return Memories(self._asking)

    @cached_property
    def jobs(self) -> Jobs:
        return Jobs(self._asking)

    @cached_property
    def receipts(self) -> Receipts:
        return Receipts(self._asking)

    @cached_property
    def tenants(self) -> Tenants:
        # these requests name their tenant in the path
        return Tenants(TenantConnection(self._asking.connection))

    @cached_property
    def proposals(self) -> Proposals:
        return Proposals(self._asking)

    def recall(self, query: str, **question: Unpack[wire.Question]) -> wire.Recalled:
        """Return the memories that bear on a query, the best first; no model is asked."""
        body = {"query": query, **question}
        return self._asking.post(_RECALLED, "/v1/recall", body, is_safe=True)

    def rate(
        self,
        id_: str,
        verdict: float,
        *,
        reason: str | None = None,
        idempotency_key: str | None = None,
    ) -> wire.Rated:
        """Say whether a memory, or all that a recall brought, helped: from -1 to 1."""
        body = {"id": id_, "verdict": verdict, "reason": reason}
        return self._asking.post(_RATED, "/v1/rate", body, key=idempotency_key, is_keyed=True)

    def record(
        self, content: str, *, idempotency_key: str | None = None, **fields: Unpack[wire.Fields]
    ) -> wire.Acknowledged:
        """Record one memory, as `memories.record` does."""
        return self.memories.record(content, idempotency_key=idempotency_key, **fields)

    def record_batch(
        self, drafts: Iterable[wire.Draft], *, idempotency_key: str | None = None
    ) -> tuple[wire.Acknowledged, ...]:
        """Record up to 1,000 memories, all or none."""
        return self.memories.record_batch(drafts, idempotency_key=idempotency_key)

    def ingest(
        self,
        memories: Iterable[wire.Draft] = (),
        *,
        turns: Iterable[wire.Turn] = (),
        project: str | None = None,
        session: str | None = None,
        agent: str | None = None,
        idempotency_key: str | None = None,
    ) -> wire.JobInShort:
        """Hand over up to 10,000 memories, or the turns of one conversation, to be recorded soon.

        They are on disk when this returns; `jobs.wait` waits until they are recorded.
        """
        body = {
            "memories": list(memories),
            "turns": list(turns),
            "project": project,
            "session": session,
            "agent": agent,
        }
        key = idempotency_key
        return self._asking.post(IN_SHORT, "/v1/ingest", body, key=key, is_keyed=True)

    def ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
        is_safe: bool = False,
    ) -> Any:
        """Return the JSON that any request is answered with; for what has no call of its own.

        `is_safe` says that it may be sent twice; a GET always may.
        """
        answer = self._asking.send(method, path, query=query, body=body, is_safe=is_safe)
        return decode_answer(_JSON, answer.body) if answer.body else None

    def export(
        self, *, project: str | None = None, all_states: bool = False
    ) -> Iterator[dict[str, Any]]:
        """Yield all memories as they come, as `mnemolog export` writes them."""
        query = {"project": project, "all_states": all_states or None}
        for line in self._asking.lines("/v1/export", query):
            yield decode_answer(_ANY, line)

    def overview(
        self,
        topic: str = "",
        *,
        project: str | None = None,
        known_at: wire.Place | None = None,
    ) -> dict[str, Any]:
        """Return what is known of a topic, or was: rules, what holds now, goals, background."""
        path = "/v1/overview"
        return self._asking.get(_ANY, path, topic=topic or None, project=project, known_at=known_at)

    def health(self) -> wire.Health:
        """Return that the server lives, and which it is."""
        return decode_answer(_HEALTH, self._asking.connection.ask("GET", "/health").body)
