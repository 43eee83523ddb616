"""
Ingest: many memories, or the turns of a conversation, are accepted now and recorded soon.
"""

from http import HTTPStatus
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from serve.api.idempotency import HEADER, MARK, key_of
from serve.api.jobs import JobInShort, in_short, queue_of
from serve.api.operation import Operation
from serve.api.service import Call, Nothing, Reply
from serve.api.shapes import SentDraft
from serve.fields import ProjectName, TenantName
from store.body import Name
from store.commands import Draft
from store.home.instants import new_id
from store.home.projects import named_project
from store.ingest.batch import MAX_ITEMS, Batch, Turn, of_drafts, said


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
    now, key = call.now, key_of(call)
    id_ = key.id("job") if key else new_id(now)
    batch = _batch(id_, now, call.body)
    job, is_new = queue_of(call).accept(id_, now, batch, id_[:MARK] if key else "")
    call.service.tenants.ingest.wake()
    headers = {"Location": f"/v1/jobs/{job.id}"}
    if not is_new:
        headers["Idempotency-Replayed"] = "true"
    return Reply(in_short(job), HTTPStatus.ACCEPTED, headers)


def _batch(id_: str, now: int, asked: NewJob) -> Batch:
    project = named_project(asked.project)
    whose = {"project": project, "session": asked.session, "agent": asked.agent}
    drafts = [_whose(draft, whose) for draft in asked.memories]
    return of_drafts(id_, now, drafts, said(asked.turns, **whose))


def _whose(draft: Draft, otherwise: dict[str, str | None]) -> Draft:
    unsaid = {name: one for name, one in otherwise.items() if one and not getattr(draft, name)}
    return replace(draft, **unsaid) if unsaid else draft


OPERATIONS = (
    Operation(
        "POST",
        "/v1/ingest",
        "ingest",
        "Accept up to 10,000 memories and turns; once accepted they are on disk, and are recorded "
        "exactly once.",
        ingest,
        "write",
        tag="jobs",
        body=NewJob,
        answers={HTTPStatus.ACCEPTED: JobInShort},
        problems=("invalid_name", "not_found", "queue_full", "idempotency_mismatch"),
        headers=(HEADER,),
        tells=("Location",),
    ),
)
