"""
Resources: the calls of `client.memories`, `.receipts`, `.proposals`, `.tenants` and `.jobs`.

Decoders are made at import: msgspec 0.22 crashes where two threads meet a type for the first time.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

from msgspec import structs
from msgspec.json import Decoder

from mnemolog import wire
from mnemolog.connection import Answer, TenantConnection, decode_answer, part
from mnemolog.errors import JobFailed, StillRunning

FIRST_LOOK_S, LONGEST_LOOK_S = 0.05, 2.0


class WholeMemory(wire.WholeMemory, frozen=True, kw_only=True):
    """All there is of a memory. `etag` names this state of it: pass it on where a change must not
    undo somebody else's.
    """

    etag: str = ""


_ACKNOWLEDGED, _ALL_ACKNOWLEDGED = Decoder(wire.Acknowledged), Decoder(wire.AllAcknowledged)
_WHOLE_MEMORY, _DRAWN_EDGE = Decoder(WholeMemory), Decoder(wire.DrawnEdge)
_HISTORY, _KEY_HISTORY = Decoder(wire.HistoryOfMemory), Decoder(wire.HistoryOfKey)
_LINEAGE, _MEMORIES = Decoder(wire.Lineage), Decoder(wire.Memories)
_RECEIPTS, _RECEIPT = Decoder(wire.Receipts), Decoder(wire.Receipt)
_PROPOSALS, _PROPOSAL = Decoder(wire.Proposals), Decoder(wire.Proposal)
_TENANTS, _TENANT = Decoder(wire.Tenants), Decoder(wire.ShownTenant)
_STATS, _DELETED = Decoder(wire.TenantStats), Decoder(wire.Deleted)
_TOKENS, _TOKEN, _NEW_TOKEN = (
    Decoder(wire.Tokens),
    Decoder(wire.ShownToken),
    Decoder(wire.NewToken),
)
_JOBS, _JOB, IN_SHORT = Decoder(wire.Jobs), Decoder(wire.WholeJob), Decoder(wire.JobInShort)


@dataclass(frozen=True, slots=True)
class Memories:
    """`client.memories`. What `etag` names must be as it was read, else Changed is raised."""

    _asking: TenantConnection

    def record(
        self, content: str, *, idempotency_key: str | None = None, **fields: Unpack[wire.Fields]
    ) -> wire.Acknowledged:
        """Record one memory; it is on disk when this returns.

        It is safe to call again with the same `idempotency_key`, or `id`: it is one memory.
        """
        draft = {"content": content, **fields}
        return self._asking.post(
            _ACKNOWLEDGED, "/v1/memories", draft, key=idempotency_key, is_keyed=True
        )

    def record_batch(
        self, drafts: Iterable[wire.Draft], *, idempotency_key: str | None = None
    ) -> tuple[wire.Acknowledged, ...]:
        """Record up to 1,000 memories, all or none."""
        body = {"memories": [*drafts]}
        path = "/v1/memories/batch"
        batch = self._asking.post(_ALL_ACKNOWLEDGED, path, body, key=idempotency_key, is_keyed=True)
        return batch.memories

    def upsert(self, key: str, content: str, /, **fields: Unpack[wire.Fields]) -> str:
        """Give a key its value, and return the id of the memory that holds it.

        A value before it is superseded and stays in `history_of_key`; nothing is written where the
        key has the same text and fields already. A key such as `deploy.region` belongs to its
        `project`.
        """
        project = fields.get("project")
        for memory in self.list(key=key, project=project or ""):
            if memory.project == project and memory.text == content and _has(memory, fields):
                return memory.id
        return self.record(content, **(fields | {"key": key})).id

    def get(
        self, id_: str, *, known_at: wire.Place | None = None, for_agents: bool = False
    ) -> WholeMemory:
        """Return all there is of a memory, or was at a place in the log."""
        query = {"known_at": known_at, "for_agents": for_agents or None}
        return _with_etag(self._asking.send("GET", _memory(id_), query=query))

    def list(self, **filters: Unpack[wire.Filters]) -> Iterator[wire.ListedMemory]:
        """Yield all memories that pass the filters, the newest first where `sort` says nothing.

        Pages are asked for as they are come to; what is written meanwhile is in none twice.
        """
        for page in self._asking.pages(_MEMORIES, "/v1/memories", filters):
            yield from page.memories

    def patch(
        self, id_: str, *, etag: str | None = None, **changes: Unpack[wire.Changes]
    ) -> WholeMemory:
        """Replace some fields; what they were stays in the history."""
        return _with_etag(self._asking.send("PATCH", _memory(id_), body=changes, etag=etag))

    def forget(self, id_: str, *, reason: str | None = None, etag: str | None = None) -> None:
        """Forget a memory: it is never recalled again, unless restored."""
        self._asking.send("DELETE", _memory(id_), query={"reason": reason}, etag=etag, is_safe=True)

    def restore(
        self, id_: str, *, reason: str | None = None, idempotency_key: str | None = None
    ) -> WholeMemory:
        """Make a forgotten, archived or superseded memory current again."""
        return self._apply(id_, "restore", {"reason": reason}, idempotency_key)

    def archive(
        self, id_: str, *, reason: str | None = None, idempotency_key: str | None = None
    ) -> WholeMemory:
        """Put a memory away: it is recalled only where the archive is asked for."""
        return self._apply(id_, "archive", {"reason": reason}, idempotency_key)

    def supersede(
        self,
        id_: str,
        by: str,
        *,
        reason: str | None = None,
        idempotency_key: str | None = None,
    ) -> WholeMemory:
        """Put another memory in the place of one."""
        return self._apply(id_, "supersede", {"by": by, "reason": reason}, idempotency_key)

    def link(
        self, id_: str, target: str, relation: wire.Relation, *, idempotency_key: str | None = None
    ) -> wire.DrawnEdge:
        """Draw a reasoning edge to another memory."""
        path, body = f"{_memory(id_)}/links", {"target": target, "relation": relation}
        return self._asking.post(_DRAWN_EDGE, path, body, key=idempotency_key, is_keyed=True)

    def history(self, id_: str) -> wire.HistoryOfMemory:
        """Return what a memory replaced and what replaced it, the newest first."""
        return self._asking.get(_HISTORY, f"{_memory(id_)}/history")

    def lineage(self, id_: str) -> wire.Lineage:
        """Return what a memory was made of, what was made of it, and the recalls of both."""
        return self._asking.get(_LINEAGE, f"{_memory(id_)}/lineage")

    def history_of_key(self, key: str, *, project: str | None = None) -> wire.HistoryOfKey:
        """Return the values a key had, the newest first."""
        return self._asking.get(_KEY_HISTORY, f"/v1/keys/{part(key)}/history", project=project)

    def _apply(self, id_: str, verb: str, body: dict[str, Any], key: str | None) -> WholeMemory:
        path = f"{_memory(id_)}/{verb}"
        return self._asking.post(_WHOLE_MEMORY, path, body, key=key, is_keyed=True)


def _has(memory: wire.ListedMemory, fields: Mapping[str, Any]) -> bool:
    """Return True if a memory has these fields; a field not in lists counts as different."""
    missing = object()
    values = {name: getattr(memory, name, missing) for name in fields}
    return all(
        value == (tuple(fields[name]) if isinstance(value, tuple) else fields[name])
        for name, value in values.items()
    )


def _with_etag(answer: Answer) -> WholeMemory:
    memory = decode_answer(_WHOLE_MEMORY, answer.body)
    return structs.replace(memory, etag=answer.headers.get("etag", ""))


def _memory(id_: str) -> str:
    return f"/v1/memories/{part(id_)}"


@dataclass(frozen=True, slots=True)
class Receipts:
    """`client.receipts`."""

    _asking: TenantConnection

    def list(self, **filters: Unpack[wire.ReceiptFilters]) -> Iterator[wire.ReceiptInShort]:
        """Yield recalls, the newest first; pages are asked for as they are come to."""
        for page in self._asking.pages(_RECEIPTS, "/v1/receipts", filters):
            yield from page.receipts

    def get(self, id_: str) -> wire.Receipt:
        """Return what a recall brought, what was said of it and how it ended."""
        return self._asking.get(_RECEIPT, f"/v1/receipts/{part(id_)}")


@dataclass(frozen=True, slots=True)
class Proposals:
    """`client.proposals`; to answer one needs the scope `admin`."""

    _asking: TenantConnection

    def list(
        self,
        *,
        state: wire.ProposalState | None = None,
        category: wire.Category | None = None,
        project: str | None = None,
        limit: int | None = None,
        sort: wire.Category | None = None,
    ) -> tuple[wire.ProposalInShort, ...]:
        """Return what jobs proposed, the newest first; up to 100 unless `limit` is given.

        `sort` is the old name of `category`.
        """
        proposals = self._asking.get(
            _PROPOSALS,
            "/v1/proposals",
            state=state,
            category=category,
            project=project,
            limit=limit,
            sort=sort,
        )
        return proposals.proposals

    def get(self, id_: str) -> wire.Proposal:
        """Return what a proposal would change, before and after."""
        return self._asking.get(_PROPOSAL, _proposal(id_))

    def accept(self, id_: str, *, steps: Sequence[int] | None = None) -> wire.Proposal:
        """Say yes: all of it is done, or nothing; said twice it is done once.

        `steps` are those of a plan that are meant, by their place from 0; None: all that wait.
        """
        sent = {"steps": steps}
        return self._asking.post(_PROPOSAL, f"{_proposal(id_)}/accept", sent, is_safe=True)

    def reject(
        self, id_: str, *, reason: str | None = None, steps: Sequence[int] | None = None
    ) -> wire.Proposal:
        """Say no: the same is not proposed again. `steps` are those that `accept` takes."""
        sent = {"reason": reason, "steps": steps}
        return self._asking.post(_PROPOSAL, f"{_proposal(id_)}/reject", sent)

    def undo(self, id_: str) -> wire.Proposal:
        """Take back what was accepted."""
        return self._asking.post(_PROPOSAL, f"{_proposal(id_)}/undo", {})


def _proposal(id_: str) -> str:
    return f"/v1/proposals/{part(id_)}"


@dataclass(frozen=True, slots=True)
class Tenants:
    """`client.tenants`; another one's name and one that does not exist are the same to a token."""

    _asking: TenantConnection

    def list(self) -> tuple[wire.ShownTenant, ...]:
        """Return all tenants; for a tenant's token its own."""
        return self._asking.get(_TENANTS, "/v1/tenants").tenants

    def create(self, name: str) -> wire.ShownTenant:
        """Make a tenant, or return the one that is there; the owner's alone."""
        return self._asking.post(_TENANT, "/v1/tenants", {"tenant": name}, is_safe=True)

    def get(self, name: str) -> wire.ShownTenant:
        return self._asking.get(_TENANT, _tenant(name))

    def stats(self, name: str) -> wire.TenantStats:
        """Return a tenant in figures."""
        return self._asking.get(_STATS, f"{_tenant(name)}/stats")

    def delete(self, name: str) -> wire.Deleted:
        """Put a tenant's folder away, and end its tokens; nothing is destroyed. The owner's alone.

        It is not sent twice: the second time there is no such tenant.
        """
        return self._asking.delete(_DELETED, _tenant(name), is_safe=False)

    def tokens(self, name: str) -> tuple[wire.ShownToken, ...]:
        """Return a tenant's tokens, the newest first; needs the scope `admin`."""
        return self._asking.get(_TOKENS, f"{_tenant(name)}/tokens").tokens

    def create_token(
        self,
        name: str,
        scopes: tuple[wire.Scope, ...],
        *,
        label: str = "",
        ttl_s: int | None = None,
        per_minute: int | None = None,
    ) -> wire.NewToken:
        """Make a token of a tenant; what opens it is told here and nowhere else."""
        body = {"scopes": scopes, "name": label, "ttl_s": ttl_s, "per_minute": per_minute}
        return self._asking.post(_NEW_TOKEN, f"{_tenant(name)}/tokens", body)

    def revoke_token(self, name: str, id_: str) -> wire.ShownToken:
        """End a token at once and for good; again changes nothing."""
        return self._asking.delete(_TOKEN, f"{_tenant(name)}/tokens/{part(id_)}")


def _tenant(name: str) -> str:
    return f"/v1/tenants/{part(name)}"


@dataclass(frozen=True, slots=True)
class Jobs:
    """`client.jobs`."""

    _asking: TenantConnection

    def list(self, *, state: wire.JobState | None = None) -> Iterator[wire.JobInShort]:
        """Yield accepted batches, the newest first; pages are asked for as they are come to."""
        for page in self._asking.pages(_JOBS, "/v1/jobs", {"state": state}):
            yield from page.jobs

    def get(self, id_: str) -> wire.WholeJob:
        """Return what became of a batch, item by item."""
        return self._asking.get(_JOB, _job(id_))

    def wait(self, id_: str, *, timeout_s: float = 60.0) -> wire.WholeJob:
        """Return a job once it is done; raise JobFailed for a dead one, StillRunning in time."""
        until, pause_s = time.monotonic() + timeout_s, FIRST_LOOK_S
        while (job := self.get(id_)).state != "done":
            if job.state == "dead":
                raise JobFailed(f"job {id_} was tried {job.attempts} times: {job.error}")
            if time.monotonic() + pause_s > until:
                raise StillRunning(f"job {id_} is {job.state} after {timeout_s:g} s")
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_LOOK_S)
        return job

    def requeue(self, id_: str) -> wire.JobInShort:
        """Try a dead job again, from its first attempt; needs the scope `admin`."""
        return self._asking.post(IN_SHORT, f"{_job(id_)}/requeue", {})


def _job(id_: str) -> str:
    return f"/v1/jobs/{part(id_)}"
