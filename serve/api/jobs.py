"""
Jobs: what became of accepted batches; a dead one is tried again.
"""

from http import HTTPStatus
from typing import Annotated, Any

from msgspec import Meta, Struct

from serve.api.operation import Operation
from serve.api.service import Call, Nothing, Reply
from serve.api.shapes import At, InTenant, TenantName
from store.body import Id
from store.events import isoformat
from store.ingest.batch import Refused
from store.ingest.job import Job, Outcome, State
from store.ingest.job_queue import Queue


class OfJobs(InTenant, frozen=True, kw_only=True):
    state: Annotated[State, Meta(description="Only those in this state.")] | None = None
    limit: Annotated[int, Meta(description="How many at most.", ge=1, le=500)] = 50


class Requeue(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Try a dead job again."""

    tenant: TenantName | None = None


class JobInShort(Struct, frozen=True, kw_only=True):
    """An accepted batch. `done` counts the items looked at, `refused` those of them that make no
    memory. One that is queued is tried `next_at`; a dead one was tried too often, and why is its
    `error`.
    """

    id: Id
    at: At
    state: State
    attempts: int
    next_at: At | None
    ended_at: At | None
    items: int
    turns: int
    done: int
    refused: int
    error: str | None


class WholeJob(JobInShort, frozen=True, kw_only=True):
    """A job with the memory of each of its items, null where it was refused, and why those were."""

    ids: tuple[str | None, ...]
    because: tuple[Refused, ...]


class Jobs(Struct, frozen=True, kw_only=True):
    """The newest first."""

    jobs: tuple[JobInShort, ...]


def listed(call: Call[OfJobs, Nothing]) -> Reply:
    query = call.query
    found = queue_of(call).listed(query.state, limit=query.limit)
    return Reply({"jobs": [in_short(one) for one in found]})


def show(call: Call[InTenant, Nothing]) -> Reply:
    queue, id_ = queue_of(call), call.path["id"]
    return Reply(whole(queue.get(id_), queue.outcome(id_)))


def requeue(call: Call[Nothing, Requeue]) -> Reply:
    queue = queue_of(call)
    job = queue.requeue(call.path["id"], call.now)
    call.service.tenants.ingest.wake()
    return Reply(in_short(job))


def queue_of(call: Call[Any, Any]) -> Queue:
    return call.service.tenants.ingest.queue(call.tenant.tenant)


def in_short(job: Job) -> JobInShort:
    """Return a job as it is sent."""
    return JobInShort(**_fields(job))


def whole(job: Job, outcome: Outcome) -> WholeJob:
    return WholeJob(ids=outcome.ids, because=outcome.refused, **_fields(job))


def _fields(job: Job) -> dict[str, Any]:
    return {
        "id": job.id,
        "at": isoformat(job.at),
        "state": job.state,
        "attempts": job.attempts,
        "next_at": isoformat(job.next_at) if job.state == "queued" else None,
        "ended_at": isoformat(job.ended_at) if job.ended_at is not None else None,
        "items": job.items,
        "turns": job.turns,
        "done": job.done,
        "refused": job.refused,
        "error": job.error,
    }


OPERATIONS = (
    Operation(
        "GET",
        "/v1/jobs",
        "listJobs",
        "List accepted batches, the newest first; the dead ones with `state=dead`.",
        listed,
        tag="jobs",
        query=OfJobs,
        answers={HTTPStatus.OK: Jobs},
        problems=("not_found", "invalid_name"),
    ),
    Operation(
        "GET",
        "/v1/jobs/{id}",
        "getJob",
        "Show what became of an accepted batch, item by item.",
        show,
        tag="jobs",
        query=InTenant,
        answers={HTTPStatus.OK: WholeJob},
        problems=("not_found", "invalid_name"),
    ),
    Operation(
        "POST",
        "/v1/jobs/{id}/requeue",
        "requeueJob",
        "Try a dead job again, from its first attempt.",
        requeue,
        "admin",
        tag="jobs",
        body=Requeue,
        answers={HTTPStatus.OK: JobInShort},
        problems=("not_found", "invalid_name", "conflict"),
    ),
)
