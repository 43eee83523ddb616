"""
Jobs: what became of accepted batches; a dead one is tried again.
"""

from http import HTTPStatus
from typing import Annotated, Any

from msgspec import Meta, Struct

from serve.api.cursor import asked_for, cursor, position
from serve.api.operation import Operation
from serve.api.service import Call, Nothing, Reply
from serve.api.shapes import At, InTenant
from serve.fields import TenantName
from serve.summaries.ingested import shown
from serve.summaries.listing import Position
from store.body import Id
from store.ingest.batch import Refused
from store.ingest.job import Job, Outcome, State
from store.ingest.job_queue import Queue


class OfJobs(InTenant, frozen=True, kw_only=True):
    state: Annotated[State, Meta(description="Only those in this state.")] | None = None
    limit: Annotated[int, Meta(description="How many at most.", ge=1, le=500)] = 50
    cursor: Annotated[str, Meta(description="`next` of the page before.")] | None = None


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
    """The newest first; `next` is the cursor of the page after this one, null at the end."""

    jobs: tuple[JobInShort, ...]
    next: str | None


def listed(call: Call[OfJobs, Nothing]) -> Reply:
    query, limit = call.query, call.query.limit
    of = asked_for(call)
    before = None if query.cursor is None else position(query.cursor, of).seq
    found = queue_of(call).listed(query.state, before=before, limit=limit + 1)
    following = None
    if len(found) > limit:
        following = cursor(Position(0, found[limit - 1].number), of)
    return Reply({"jobs": [in_short(one) for one in found[:limit]], "next": following})


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
    return JobInShort(**shown(job))


def whole(job: Job, outcome: Outcome) -> WholeJob:
    return WholeJob(ids=outcome.ids, because=outcome.refused, **shown(job))


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
        problems=("not_found", "invalid_name", "invalid_cursor"),
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
