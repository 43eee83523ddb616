"""
Memories: record them, read one and its history.
"""

from http import HTTPStatus
from typing import Annotated, Any

import msgspec

from serve.answers import all_of
from serve.api.operation import Operation
from serve.api.service import Call, Nothing, Reply
from serve.api.shapes import Acknowledged, InProject, InTenant, WholeMemory
from serve.summaries import history
from store import commands
from store.commands import Draft
from store.errors import NotFound
from store.log import Appended
from store.tenant import checked_project


class NewMemory(Draft, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A draft of a memory, and in whose memory."""

    tenant: str | None = None


class NewMemories(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Drafts of memories: all are recorded or none."""

    memories: Annotated[tuple[Draft, ...], msgspec.Meta(min_length=1, max_length=1_000)]
    tenant: str | None = None


class AllAcknowledged(msgspec.Struct, frozen=True, kw_only=True):
    memories: tuple[Acknowledged, ...]


class HistoryOfMemory(msgspec.Struct, frozen=True, kw_only=True):
    """A memory, what it replaced and what replaced it."""

    id: str
    memories: tuple[dict[str, Any], ...]


class HistoryOfKey(msgspec.Struct, frozen=True, kw_only=True):
    """The memories that gave a key its values."""

    key: str
    memories: tuple[dict[str, Any], ...]


def record(call: Call[Nothing, NewMemory]) -> Reply:
    appended = commands.record(call.tenant.log, call.body, call.now)
    status = HTTPStatus.CREATED if appended.is_new else HTTPStatus.OK
    return Reply(acknowledged(appended), status)


def record_batch(call: Call[Nothing, NewMemories]) -> Reply:
    done = commands.record_batch(call.tenant.log, call.body.memories, call.now)
    return Reply({"memories": [acknowledged(one) for one in done]}, HTTPStatus.CREATED)


def show(call: Call[InTenant, Nothing]) -> Reply:
    tenant, id_ = call.tenant, call.path["id"]
    return Reply(tenant.reader.answered(lambda view: all_of(view, tenant.log, id_)))


def history_of(call: Call[InTenant, Nothing]) -> Reply:
    id_ = call.path["id"]
    found = call.tenant.reader.answered(lambda view: history.of_memory(view, id_))
    if not found:
        raise NotFound(f"no memory {id_!r}")
    return Reply({"id": id_, "memories": [history.shown(one) for one in found]})


def history_of_key(call: Call[InProject, Nothing]) -> Reply:
    key, asked = call.path["key"], call.query.project
    project = checked_project(asked) if asked else None
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
        problems=("junk_text", "invalid_name", "id_conflict", "not_found"),
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
        problems=("junk_text", "invalid_name", "id_conflict", "not_found"),
    ),
    Operation(
        "GET",
        "/v1/memories/{id}",
        "getMemory",
        "Show all there is of a memory; of a forgotten one its tombstone.",
        show,
        query=InTenant,
        answers={HTTPStatus.OK: WholeMemory},
        problems=("not_found", "invalid_name"),
    ),
    Operation(
        "GET",
        "/v1/memories/{id}/history",
        "getHistory",
        "Show what a memory replaced and what replaced it.",
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
