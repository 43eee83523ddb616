"""
Changes of a memory: revise it, forget it and bring it back, put it away, replace it, link it.

Each is an event; the log keeps what was before. `If-Match` makes one depend on what was read.
"""

from http import HTTPStatus
from typing import Any

from serve.api import etag, idempotency
from serve.api.idempotency import derived, first_use, replayed
from serve.api.memories import whole
from serve.api.operation import Operation
from serve.api.service import Call, Nothing, Reply
from serve.api.shapes import Edge, InTenant, WholeMemory
from serve.fields import Reason, TenantName
from store import commands
from store.body import Id
from store.commands import Change
from store.events import (
    Archived,
    Forgotten,
    Linked,
    Pinned,
    Relation,
    Restored,
    Revised,
    Superseded,
)
from store.home.errors import ChangedSince, InvalidInput, NotFound
from store.log import Appended
from store.memories.memory import FORGOTTEN


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


class DrawnEdge(Edge, frozen=True, kw_only=True):
    """An edge is on disk. `new` is false where a request was sent again."""

    seq: int
    new: bool


def revise(call: Call[Nothing, ChangedMemory]) -> Reply:
    """Replace fields of a memory; both events it may take are written together."""
    asked, log = call.body, call.tenant.log
    fields = {
        name: value
        for name in Revised.__struct_fields__
        if (value := getattr(asked, name)) is not None
    }
    changes: list[Change] = [Revised(**fields)] if fields.keys() - {"reason"} else []
    if asked.pinned is not None:
        changes.append(Pinned(pinned=asked.pinned))
    if not changes:
        raise InvalidInput("say what changes: one field of the memory, or `pinned`")
    events = [commands.told(log, call.path["id"], one, call.now) for one in changes]
    done = log.append(events, etag.unchanged(call))
    return whole(call.tenant, call.path["id"], done[-1].event.seq)


def forget(call: Call[OfForgetting, Nothing]) -> Reply:
    tenant, id_ = call.tenant, call.path["id"]
    memory = tenant.reader.answered(lambda view: view.tail.find(id_))
    if memory is None:
        raise NotFound(f"no memory {id_!r}")
    if memory.state != FORGOTTEN:
        event = commands.told(tenant.log, id_, Forgotten(reason=call.query.reason), call.now)
        tenant.log.append([event], etag.unchanged(call))
    elif (seqs := etag.seen(call)) is not None and tenant.log.newest_change(id_) not in seqs:
        raise ChangedSince(f"memory {id_} was changed since: it is forgotten already")
    return Reply(None, HTTPStatus.NO_CONTENT)


def restore(call: Call[Nothing, WithReason]) -> Reply:
    return _changed(call, Restored(reason=call.body.reason), "restored")


def archive(call: Call[Nothing, WithReason]) -> Reply:
    return _changed(call, Archived(reason=call.body.reason), "archived")


def supersede(call: Call[Nothing, NewerMemory]) -> Reply:
    change = Superseded(by=call.body.by, reason=call.body.reason)
    return _changed(call, change, "superseded")


def link(call: Call[Nothing, NewLink]) -> Reply:
    asked = call.body
    change = Linked(target=asked.target, relation=asked.relation)
    done, headers = _appended(call, change, "linked")
    drawn = DrawnEdge(
        source=done.event.subject,
        relation=asked.relation,
        target=asked.target,
        seq=done.event.seq,
        new=done.is_new,
    )
    return Reply(drawn, HTTPStatus.CREATED if done.is_new else HTTPStatus.OK, headers)


def _changed(call: Call[Any, Any], change: Change, place: str) -> Reply:
    """Append one change; return the memory as it is then."""
    done, headers = _appended(call, change, place)
    found = whole(call.tenant, call.path["id"], done.event.seq)
    return Reply(found.value, headers={**found.headers, **headers})


def _appended(call: Call[Any, Any], change: Change, place: str) -> tuple[Appended, dict[str, str]]:
    """Append one change, once for each idempotency key; return it and the headers to send."""
    log, own = call.tenant.log, derived(call, place)
    event = commands.told(log, call.path["id"], change, call.now, own)
    [done] = log.append([event], (*first_use(own), *etag.unchanged(call, own)))
    return done, replayed(own, [done])


_OF_ONE = ("not_found", "invalid_name", "changed_since")
_KEYED = (*_OF_ONE, "idempotency_mismatch")
_HEADERS = (*etag.HEADERS, idempotency.HEADER)

OPERATIONS = (
    Operation(
        "PATCH",
        "/v1/memories/{id}",
        "reviseMemory",
        "Replace some fields of a memory; the log keeps what they were.",
        revise,
        "write",
        body=ChangedMemory,
        tells_kept=True,
        answers={HTTPStatus.OK: WholeMemory},
        tells=("ETag",),
        problems=(*_OF_ONE, "junk_text"),
        headers=etag.HEADERS,
    ),
    Operation(
        "DELETE",
        "/v1/memories/{id}",
        "forgetMemory",
        "Forget a memory: it is never recalled again, unless restored.",
        forget,
        "write",
        query=OfForgetting,
        answers={HTTPStatus.NO_CONTENT: None},
        problems=(*_OF_ONE, "log_full", "log_read_only"),
        headers=etag.HEADERS,
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
        "Put a memory away: it is recalled only where the archive is asked for.",
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
        "Let another memory take the place of this one; both stay readable.",
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
        "Draw a reasoning edge to another memory: cause, support, conflict or derived.",
        link,
        "write",
        body=NewLink,
        answers={HTTPStatus.CREATED: DrawnEdge, HTTPStatus.OK: DrawnEdge},
        problems=_KEYED,
        headers=_HEADERS,
    ),
)
