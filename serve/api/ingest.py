"""
Ingest: many memories, or the turns of a conversation, are accepted now and recorded soon.
"""

from http import HTTPStatus
from typing import Annotated, Any

from mnemolog.wire import JobInShort, Jobs, Refused, WholeJob
from msgspec import Meta, Struct

from serve.api.operation import Call, Nothing, Operation, Reply
from serve.api.parameters import InTenant, SentDraft, decode_cursor, encode_cursor, list_digest
from serve.api.preconditions import IDEMPOTENCY_KEY, MARK, idempotency_key
from serve.reader.request_fields import ProjectName, TenantName
from serve.reports.listing import Position
from store.home.instants import new_id
from store.home.projects import optional_project
from store.ingest.batch import MAX_ITEMS, Turn, make_batch, turn_drafts
from store.ingest.job_queue import Queue
from store.ingest.queue_file import Job, State, job_fields
from store.log.commands import Draft, author_of
from store.log.event_kinds import Name

# Jobs: the outcomes of accepted batches; a dead job can be tried again.


class OfJobs(InTenant, frozen=True, kw_only=True):
    state: Annotated[State, Meta(description="Only in this state.")] | None = None
    limit: Annotated[int, Meta(description="The maximum number.", ge=1, le=500)] = 50
    cursor: Annotated[str, Meta(description="`next` of the previous page.")] | None = None


class Requeue(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Try a dead job again."""

    tenant: TenantName | None = None


def list_jobs(call: Call[OfJobs, Nothing]) -> Reply:
    query, limit = call.query, call.query.limit
    of = list_digest(call)
    before = None if query.cursor is None else decode_cursor(query.cursor, of).seq
    jobs = queue_of(call).list_jobs(query.state, before=before, limit=limit + 1)
    following = None
    if len(jobs) > limit:
        following = encode_cursor(Position(0, jobs[limit - 1].number), of)
    return Reply({"jobs": [summarize_job(job) for job in jobs[:limit]], "next": following})


def show_job(call: Call[InTenant, Nothing]) -> Reply:
    queue, id_ = queue_of(call), call.path["id"]
    job, outcome = queue.get(id_), queue.outcome(id_)
    because = tuple(Refused(refused.item, refused.reason) for refused in outcome.refused)
    return Reply(WholeJob(ids=outcome.ids, because=because, **job_fields(job)))


def requeue_job(call: Call[Nothing, Requeue]) -> Reply:
    queue = queue_of(call)
    job = queue.requeue(call.path["id"], call.now)
    call.service.tenants.ingest.wake()
    return Reply(summarize_job(job))


def queue_of(call: Call[Any, Any]) -> Queue:
    return call.service.tenants.ingest.queue(call.tenant.tenant)


def summarize_job(job: Job) -> JobInShort:
    """Return a job in its public form."""
    return JobInShort(**job_fields(job))


JOB_OPERATIONS = (
    Operation(
        "GET",
        "/v1/jobs",
        "listJobs",
        "List accepted batches, newest first; dead ones with `state=dead`.",
        list_jobs,
        tag="jobs",
        query=OfJobs,
        answers={HTTPStatus.OK: Jobs},
        problems=("not_found", "invalid_name", "invalid_cursor"),
    ),
    Operation(
        "GET",
        "/v1/jobs/{id}",
        "getJob",
        "Show the results of an accepted batch, item by item.",
        show_job,
        tag="jobs",
        query=InTenant,
        answers={HTTPStatus.OK: WholeJob},
        problems=("not_found", "invalid_name"),
    ),
    Operation(
        "POST",
        "/v1/jobs/{id}/requeue",
        "requeueJob",
        "Retry a dead job from its first attempt.",
        requeue_job,
        "admin",
        tag="jobs",
        body=Requeue,
        answers={HTTPStatus.OK: JobInShort},
        problems=("not_found", "invalid_name", "conflict"),
    ),
)


class NewJob(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Drafts of memories, the turns of one conversation, or both; as items of the job they are
    numbered in that order. The project, session and agent are those of every turn, and of the
    drafts that name none.
    """

    memories: Annotated[tuple[SentDraft, ...], Meta(max_length=MAX_ITEMS)] = ()
    turns: Annotated[tuple[Turn, ...], Meta(max_length=MAX_ITEMS)] = ()
    project: ProjectName | None = None
    session: Name | None = None
    agent: Name | None = None
    tenant: TenantName | None = None


def ingest(call: Call[Nothing, NewJob]) -> Reply:
    now, key = call.now, idempotency_key(call)
    id_ = key.id("job") if key else new_id(now)
    new_job = call.body
    whose = {
        "project": optional_project(new_job.project),
        "session": new_job.session,
        "agent": new_job.agent,
    }
    drafts = [_sent(draft, whose) for draft in new_job.memories]
    batch = make_batch(id_, now, drafts, turn_drafts(new_job.turns, **whose))
    job, is_new = queue_of(call).accept(id_, now, batch, id_[:MARK] if key else "")
    call.service.tenants.ingest.wake()
    headers = {"Location": f"/v1/jobs/{job.id}"}
    if not is_new:
        headers["Idempotency-Replayed"] = "true"
    return Reply(summarize_job(job), HTTPStatus.ACCEPTED, headers)


def _sent(draft: SentDraft, otherwise: dict[str, str | None]) -> Draft:
    """Return a program's draft, its missing fields filled in from `otherwise`."""
    fields = {name: getattr(draft, name) for name in Draft.__struct_fields__}
    unsaid = {name: value for name, value in otherwise.items() if value and not fields[name]}
    return Draft(**fields | unsaid | {"author": author_of("program", draft.trust)})


OPERATIONS = (
    Operation(
        "POST",
        "/v1/ingest",
        "ingest",
        "Accept up to 10,000 memories or turns; once accepted, they are on disk and recorded "
        "exactly once.",
        ingest,
        "write",
        tag="jobs",
        body=NewJob,
        answers={HTTPStatus.ACCEPTED: JobInShort},
        problems=("invalid_name", "not_found", "queue_full", "idempotency_mismatch"),
        headers=(IDEMPOTENCY_KEY,),
        tells=("Location",),
    ),
)
