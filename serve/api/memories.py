"""
Memories: record them, read one and its history.
"""

from http import HTTPStatus
from typing import Annotated

import msgspec
from msgspec import structs

from serve.api import etag, idempotency
from serve.api.idempotency import derived, first_use, key_of, replayed
from serve.api.operation import Operation
from serve.api.service import Call, Nothing, Reply
from serve.api.shapes import Acknowledged, InProject, InTenant, SentDraft, ShownValue, WholeMemory
from serve.fields import TenantName
from serve.recall.request import all_of
from serve.server.open_tenants import OpenTenant
from serve.summaries import history
from store import commands
from store.home.errors import NotFound
from store.home.projects import named_project
from store.log import Appended


class NewMemory(SentDraft, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A draft of a memory, and in whose memory."""

    tenant: TenantName | None = None


class NewMemories(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Drafts of memories: all are recorded or none."""

    memories: Annotated[tuple[SentDraft, ...], msgspec.Meta(min_length=1, max_length=1_000)]
    tenant: TenantName | None = None


class AllAcknowledged(msgspec.Struct, frozen=True, kw_only=True):
    memories: tuple[Acknowledged, ...]


class HistoryOfMemory(msgspec.Struct, frozen=True, kw_only=True):
    """A memory, what it replaced and what replaced it, the newest first."""

    id: str
    memories: tuple[ShownValue, ...]


class HistoryOfKey(msgspec.Struct, frozen=True, kw_only=True):
    """The memories that gave a key its values, the newest first."""

    key: str
    memories: tuple[ShownValue, ...]


def record(call: Call[Nothing, NewMemory]) -> Reply:
    draft, own = call.body, derived(call, "memory")
    if draft.id is None:
        draft = structs.replace(draft, id=own)
    log = call.tenant.log
    [appended] = log.append([commands.recorded(draft, call.now)], first_use(own))
    seq = appended.event.seq if appended.is_new else log.newest_change(appended.event.id)
    return Reply(
        acknowledged(appended),
        HTTPStatus.CREATED if appended.is_new else HTTPStatus.OK,
        {"ETag": etag.tag(seq)} | replayed(own, [appended]),
    )


def record_batch(call: Call[Nothing, NewMemories]) -> Reply:
    key, drafts = key_of(call), list(call.body.memories)
    unnamed = [number for number, draft in enumerate(drafts) if draft.id is None] if key else []
    for number in unnamed:
        drafts[number] = structs.replace(drafts[number], id=key and key.id(f"memories/{number}"))
    own = drafts[unnamed[0]].id if unnamed else None
    done = call.tenant.log.append(commands.recorded_all(drafts, call.now), first_use(own))
    said = AllAcknowledged(memories=tuple(map(acknowledged, done)))
    return Reply(said, HTTPStatus.CREATED, replayed(own, done))


def show(call: Call[InTenant, Nothing]) -> Reply:
    id_ = commands.resolve(call.tenant.log, call.path["id"])
    found = whole(call.tenant, id_, call.tenant.log.newest_change(id_))
    if etag.is_known(call, found.headers["ETag"]):
        return Reply(None, HTTPStatus.NOT_MODIFIED, found.headers)
    return found


def whole(tenant: OpenTenant, id_: str, seq: int) -> Reply:
    """Return all there is of a memory and its tag; raise NotFound.

    `seq` is that of its newest change as known before, so the tag is never newer than what is sent.
    """
    found = tenant.reader.answered(lambda view: all_of(view, tenant.log, id_))
    sent = msgspec.json.encode(found)
    return Reply(msgspec.Raw(sent), headers={"ETag": etag.tag(seq, sent)})


def history_of(call: Call[InTenant, Nothing]) -> Reply:
    id_ = commands.resolve(call.tenant.log, call.path["id"])
    found = call.tenant.reader.answered(lambda view: history.of_memory(view, id_))
    if not found:
        raise NotFound(f"no memory {id_!r}")
    return Reply({"id": id_, "memories": [history.shown(one) for one in found]})


def history_of_key(call: Call[InProject, Nothing]) -> Reply:
    key, project = call.path["key"], named_project(call.query.project)
    found = call.tenant.reader.answered(lambda view: history.of_key(view, key, project))
    if not found:
        raise NotFound(f"no memory has the key {key!r}")
    return Reply({"key": key, "memories": [history.shown(one) for one in found]})


def acknowledged(appended: Appended) -> Acknowledged:
    return Acknowledged(id=appended.event.id, seq=appended.event.seq, new=appended.is_new)


OPERATIONS = (
    Operation(
        "POST",
        "/v1/memories",
        "createMemory",
        "Record one memory; the same id and text again is the same memory.",
        record,
        "write",
        body=NewMemory,
        answers={HTTPStatus.CREATED: Acknowledged, HTTPStatus.OK: Acknowledged},
        problems=("junk_text", "invalid_name", "id_conflict", "not_found", "idempotency_mismatch"),
        headers=(idempotency.HEADER,),
    ),
    Operation(
        "POST",
        "/v1/memories/batch",
        "createMemories",
        "Record up to 1,000 memories in one transaction.",
        record_batch,
        "write",
        body=NewMemories,
        answers={HTTPStatus.CREATED: AllAcknowledged},
        problems=("junk_text", "invalid_name", "id_conflict", "not_found", "idempotency_mismatch"),
        headers=(idempotency.HEADER,),
    ),
    Operation(
        "GET",
        "/v1/memories/{id}",
        "getMemory",
        "Show all there is of a memory; of a forgotten one its tombstone. The beginning of an "
        "id will do, where it is one memory's.",
        show,
        query=InTenant,
        answers={HTTPStatus.OK: WholeMemory, HTTPStatus.NOT_MODIFIED: None},
        problems=("not_found", "invalid_name"),
        headers=("If-None-Match",),
        tells=("ETag",),
    ),
    Operation(
        "GET",
        "/v1/memories/{id}/history",
        "getHistory",
        "Show what a memory replaced and what replaced it. The beginning of its id will do.",
        history_of,
        query=InTenant,
        answers={HTTPStatus.OK: HistoryOfMemory},
        problems=("not_found", "invalid_name"),
    ),
    Operation(
        "GET",
        "/v1/keys/{key}/history",
        "getKeyHistory",
        "Show the values a key had, the newest first.",
        history_of_key,
        query=InProject,
        answers={HTTPStatus.OK: HistoryOfKey},
        problems=("not_found", "invalid_name"),
    ),
)
