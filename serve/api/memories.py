"""
Memories: record them, read one and its history.
"""

from http import HTTPStatus
from typing import Annotated, Any

import msgspec
from mnemolog.wire import (
    Acknowledged,
    AllAcknowledged,
    DrawnEdge,
    HistoryOfKey,
    HistoryOfMemory,
    Lineage,
    WholeMemory,
)
from msgspec import structs
from msgspec.structs import replace

from serve.api import preconditions
from serve.api.operation import Call, Nothing, Operation, Reply
from serve.api.parameters import ForAgents, InProject, InTenant, KnownThen, SentDraft
from serve.api.preconditions import derive_id, first_use_check, idempotency_key, replay_header
from serve.reader.memory_json import for_agents
from serve.reader.request_fields import Reason, TenantName
from serve.reports import memory_detail
from serve.reports.lineage import full_lineage
from serve.reports.memory_detail import full_json_by_id
from serve.server.open_tenants import OpenTenant
from store.home.errors import ChangedSince, InvalidInput, NotFound
from store.home.projects import optional_project
from store.log import commands, log_queries, receipts
from store.log.commands import Change
from store.log.event_kinds import (
    Archived,
    Forgotten,
    Id,
    Linked,
    Pinned,
    Relation,
    Restored,
    Revised,
    Superseded,
)
from store.log.event_log import Appended
from store.log.events import Event
from store.memories.memory import FORGOTTEN


class NewMemory(SentDraft, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A draft of a memory, and in whose memory."""

    tenant: TenantName | None = None


class NewMemories(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Drafts of memories: all are recorded or none."""

    memories: Annotated[tuple[SentDraft, ...], msgspec.Meta(min_length=1, max_length=1_000)]
    tenant: TenantName | None = None


class OneMemory(KnownThen, frozen=True, kw_only=True):
    """Which memory is read, and for whom."""

    for_agents: ForAgents = False


def record(call: Call[Nothing, NewMemory]) -> Reply:
    draft, own = call.body, derive_id(call, "memory")
    if draft.id is None:
        draft = structs.replace(draft, id=own)
    log = call.tenant.log
    [appended] = log.append([_sent(commands.memory_event(draft, call.now))], first_use_check(own))
    event = appended.event
    seq = event.seq if appended.is_new else log_queries.newest_change(log, event.id)
    return Reply(
        _acknowledge(appended),
        HTTPStatus.CREATED if appended.is_new else HTTPStatus.OK,
        {"ETag": preconditions.make_etag(seq)} | replay_header(own, [appended]),
    )


def record_batch(call: Call[Nothing, NewMemories]) -> Reply:
    key, drafts = idempotency_key(call), list(call.body.memories)
    unnamed = [number for number, draft in enumerate(drafts) if draft.id is None] if key else []
    for number in unnamed:
        drafts[number] = structs.replace(drafts[number], id=key and key.id(f"memories/{number}"))
    own = drafts[unnamed[0]].id if unnamed else None
    events = list(map(_sent, commands.memory_events(drafts, call.now)))
    appended = call.tenant.log.append(events, first_use_check(own))
    answer = AllAcknowledged(memories=tuple(map(_acknowledge, appended)))
    return Reply(answer, HTTPStatus.CREATED, replay_header(own, appended))


def _sent(event: Event) -> Event:
    """Return an event with its author: always a program, regardless of the request."""
    return replace(event, author=commands.author_of("program", event.trust))


def show(call: Call[OneMemory, Nothing]) -> Reply:
    id_ = commands.resolve(call.tenant.log, call.path["id"])
    with for_agents(lambda: call.query.for_agents):
        reply = memory_reply(call.tenant, id_, log_queries.newest_change(call.tenant.log, id_))
    if preconditions.is_cached(call, reply.headers["ETag"]):
        return Reply(None, HTTPStatus.NOT_MODIFIED, reply.headers)
    return reply


def memory_reply(tenant: OpenTenant, id_: str, seq: int) -> Reply:
    """Return a memory in full with its tag; raise NotFound.

    `seq` is that of its newest change, read before, so the tag is never newer than the body.
    """
    payload = tenant.reader.answer(lambda view: full_json_by_id(view, tenant.log, id_))
    sent = msgspec.json.encode(payload)
    return Reply(msgspec.Raw(sent), headers={"ETag": preconditions.make_etag(seq, sent)})


def show_history(call: Call[InTenant, Nothing]) -> Reply:
    id_ = commands.resolve(call.tenant.log, call.path["id"])
    memories = call.tenant.reader.answer(lambda view: memory_detail.history_of_memory(view, id_))
    if not memories:
        raise NotFound(f"no memory {id_!r}")
    return Reply(
        {"id": id_, "memories": [memory_detail.history_fields(memory) for memory in memories]}
    )


def show_lineage(call: Call[InTenant, Nothing]) -> Reply:
    log = call.tenant.log
    call.tenant.notes.write_if_possible()  # including the receipts of the latest answers
    id_, _ = commands.resolve_event(log, call.path["id"])
    payload = call.tenant.reader.answer(
        lambda view: full_lineage(view, log, id_, receipts.LOOKED_AT)
    )
    return Reply(payload)


def show_key_history(call: Call[InProject, Nothing]) -> Reply:
    key, project = call.path["key"], optional_project(call.query.project)
    memories = call.tenant.reader.answer(
        lambda view: memory_detail.history_of_key(view, key, project)
    )
    if not memories:
        raise NotFound(f"no memory has the key {key!r}")
    return Reply(
        {"key": key, "memories": [memory_detail.history_fields(memory) for memory in memories]}
    )


def _acknowledge(appended: Appended) -> Acknowledged:
    return Acknowledged(id=appended.event.id, seq=appended.event.seq, new=appended.is_new)


OPERATIONS = (
    Operation(
        "POST",
        "/v1/memories",
        "createMemory",
        "Record one memory; repeating an id and text adds nothing.",
        record,
        "write",
        body=NewMemory,
        answers={HTTPStatus.CREATED: Acknowledged, HTTPStatus.OK: Acknowledged},
        problems=("junk_text", "invalid_name", "id_conflict", "not_found", "idempotency_mismatch"),
        headers=(preconditions.IDEMPOTENCY_KEY,),
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
        headers=(preconditions.IDEMPOTENCY_KEY,),
    ),
    Operation(
        "GET",
        "/v1/memories/{id}",
        "getMemory",
        "Show a memory in full, or the tombstone of a forgotten one. An unambiguous prefix of the "
        "id is enough.",
        show,
        query=OneMemory,
        answers={HTTPStatus.OK: WholeMemory, HTTPStatus.NOT_MODIFIED: None},
        problems=("not_found", "invalid_name", "not_ready"),
        headers=("If-None-Match",),
        tells=("ETag",),
    ),
    Operation(
        "GET",
        "/v1/memories/{id}/history",
        "getHistory",
        "Show what a memory replaced and what replaced it. A prefix of its id is enough.",
        show_history,
        query=InTenant,
        answers={HTTPStatus.OK: HistoryOfMemory},
        problems=("not_found", "invalid_name"),
    ),
    Operation(
        "GET",
        "/v1/memories/{id}/lineage",
        "getLineage",
        "Show what a memory was made of, what was made of it, by which model and at what cost, and "
        "the recalls that it took part in. An event of a session has a lineage too. A prefix of "
        "the id is enough.",
        show_lineage,
        query=InTenant,
        answers={HTTPStatus.OK: Lineage},
        problems=("not_found", "invalid_name"),
    ),
    Operation(
        "GET",
        "/v1/keys/{key}/history",
        "getKeyHistory",
        "Show the values of a key, newest first.",
        show_key_history,
        query=InProject,
        answers={HTTPStatus.OK: HistoryOfKey},
        problems=("not_found", "invalid_name"),
    ),
)


# Changes of a memory: revise, forget, restore, archive, supersede and link.
#
# Each is an event; the log keeps the older version. `If-Match` makes a change depend on the version
# that was read.


class ChangedMemory(Revised, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The fields to replace; what is left out, or null, stays as it is."""

    pinned: bool | None = None
    reason: Reason | None = None
    tenant: TenantName | None = None


class WithReason(InTenant, frozen=True, kw_only=True):
    """Why it is done."""

    reason: Reason | None = None


class OfForgetting(WithReason, frozen=True, kw_only=True):
    """Why it is done: a DELETE has no body."""


class NewerMemory(WithReason, frozen=True, kw_only=True):
    """The memory that takes the place of another."""

    by: Id


class NewLink(InTenant, frozen=True, kw_only=True):
    """A reasoning edge to be drawn to another memory."""

    target: Id
    relation: Relation


def revise(call: Call[Nothing, ChangedMemory]) -> Reply:
    """Replace fields of a memory; if it takes two events, both are written together."""
    memory, log = call.body, call.tenant.log
    fields = {
        name: value
        for name in Revised.__struct_fields__
        if (value := getattr(memory, name)) is not None
    }
    changes: list[Change] = [Revised(**fields)] if fields.keys() - {"reason"} else []
    if memory.pinned is not None:
        changes.append(Pinned(pinned=memory.pinned))
    if not changes:
        raise InvalidInput("give at least one change: one field of the memory, or `pinned`")
    id_ = call.path["id"]
    events = [
        commands.change_event(log, id_, change, call.now, author="program") for change in changes
    ]
    appended = log.append(events, preconditions.unchanged_check(call))
    return memory_reply(call.tenant, id_, appended[-1].event.seq)


def forget(call: Call[OfForgetting, Nothing]) -> Reply:
    tenant, id_ = call.tenant, call.path["id"]
    memory = tenant.reader.answer(lambda view: view.tail.find(id_))
    if memory is None:
        raise NotFound(f"no memory {id_!r}")
    if memory.state != FORGOTTEN:
        event = commands.change_event(
            tenant.log, id_, Forgotten(reason=call.query.reason), call.now
        )
        tenant.log.append([event], preconditions.unchanged_check(call))
    else:
        seqs = preconditions.expected_seqs(call)
        if seqs is not None and log_queries.newest_change(tenant.log, id_) not in seqs:
            raise ChangedSince(f"memory {id_} has changed: it is already forgotten")
    return Reply(None, HTTPStatus.NO_CONTENT)


def restore(call: Call[Nothing, WithReason]) -> Reply:
    return _apply_change(call, Restored(reason=call.body.reason), "restored")


def archive(call: Call[Nothing, WithReason]) -> Reply:
    return _apply_change(call, Archived(reason=call.body.reason), "archived")


def supersede(call: Call[Nothing, NewerMemory]) -> Reply:
    change = Superseded(by=call.body.by, reason=call.body.reason)
    return _apply_change(call, change, "superseded")


def link(call: Call[Nothing, NewLink]) -> Reply:
    new_link = call.body
    change = Linked(target=new_link.target, relation=new_link.relation)
    appended, headers = _append_change(call, change, "linked")
    edge = DrawnEdge(
        source=appended.event.subject,
        relation=new_link.relation,
        target=new_link.target,
        seq=appended.event.seq,
        new=appended.is_new,
    )
    return Reply(edge, HTTPStatus.CREATED if appended.is_new else HTTPStatus.OK, headers)


def _apply_change(call: Call[Any, Any], change: Change, place: str) -> Reply:
    """Append one change; return the memory after it."""
    appended, headers = _append_change(call, change, place)
    reply = memory_reply(call.tenant, call.path["id"], appended.event.seq)
    return Reply(reply.value, headers={**reply.headers, **headers})


def _append_change(
    call: Call[Any, Any], change: Change, place: str
) -> tuple[Appended, dict[str, str]]:
    """Append one change, once for each idempotency key; return it and the headers to send."""
    log, own = call.tenant.log, derive_id(call, place)
    event = commands.change_event(log, call.path["id"], change, call.now, own)
    checks = (*first_use_check(own), *preconditions.unchanged_check(call, own))
    [appended] = log.append([event], checks)
    return appended, replay_header(own, [appended])


_OF_ONE = ("not_found", "invalid_name", "changed_since")
_KEYED = (*_OF_ONE, "idempotency_mismatch")
_HEADERS = (*preconditions.IF_MATCH, preconditions.IDEMPOTENCY_KEY)

CHANGE_OPERATIONS = (
    Operation(
        "PATCH",
        "/v1/memories/{id}",
        "reviseMemory",
        "Change fields of a memory; the log keeps the old values.",
        revise,
        "write",
        body=ChangedMemory,
        tells_kept=True,
        answers={HTTPStatus.OK: WholeMemory},
        tells=("ETag",),
        problems=(*_OF_ONE, "junk_text"),
        headers=preconditions.IF_MATCH,
    ),
    Operation(
        "DELETE",
        "/v1/memories/{id}",
        "forgetMemory",
        "Forget a memory: it is no longer recalled, unless restored.",
        forget,
        "write",
        query=OfForgetting,
        answers={HTTPStatus.NO_CONTENT: None},
        problems=(*_OF_ONE, "log_full", "log_read_only"),
        headers=preconditions.IF_MATCH,
    ),
    Operation(
        "POST",
        "/v1/memories/{id}/restore",
        "restoreMemory",
        "Make a forgotten, archived, superseded or expired memory current again.",
        restore,
        "write",
        body=WithReason,
        tells_kept=True,
        answers={HTTPStatus.OK: WholeMemory},
        tells=("ETag",),
        problems=(*_KEYED, "conflict"),
        headers=_HEADERS,
    ),
    Operation(
        "POST",
        "/v1/memories/{id}/archive",
        "archiveMemory",
        "Archive a memory: only recalls that include the archive return it.",
        archive,
        "write",
        body=WithReason,
        tells_kept=True,
        answers={HTTPStatus.OK: WholeMemory},
        tells=("ETag",),
        problems=_KEYED,
        headers=_HEADERS,
    ),
    Operation(
        "POST",
        "/v1/memories/{id}/supersede",
        "supersedeMemory",
        "Replace this memory with another one; both stay readable.",
        supersede,
        "write",
        body=NewerMemory,
        tells_kept=True,
        answers={HTTPStatus.OK: WholeMemory},
        tells=("ETag",),
        problems=_KEYED,
        headers=_HEADERS,
    ),
    Operation(
        "POST",
        "/v1/memories/{id}/links",
        "linkMemory",
        "Link to another memory: cause, support, conflict or derived.",
        link,
        "write",
        body=NewLink,
        answers={HTTPStatus.CREATED: DrawnEdge, HTTPStatus.OK: DrawnEdge},
        problems=_KEYED,
        headers=_HEADERS,
    ),
)
