"""
Memory page: all data of a memory, and the forms that make it, change it and link it to others.
"""

from collections.abc import Iterator, Sequence
from http import HTTPStatus
from typing import Any

import msgspec
from flask import Blueprint, Response, render_template, request
from msgspec import structs

from serve.dashboard import forms, recall_pages
from serve.dashboard.changes import encode_state, find_memory
from serve.dashboard.page_context import Site, Undo, tenant_url
from serve.dashboard.rendering import pretty
from serve.reader.memory_json import line_json, visible_json
from serve.reader.view import View
from serve.reports import memory_detail
from serve.reports.lineage import derivatives_of, recalls_of
from serve.reports.memory_detail import full_json
from serve.server.open_tenants import OpenTenant
from store.home.errors import ChangedSince, IdConflict, InvalidInput, NotFound
from store.home.instants import new_id
from store.log import commands, log_queries
from store.log.checks import require_unchanged
from store.log.event_kinds import (
    GOAL_STATUSES,
    RECORDED_KINDS,
    RELATIONS,
    TIERS,
    Expected,
    Linked,
    Pinned,
    Rated,
    Recorded,
    Revised,
    Superseded,
)
from store.log.events import Event, is_erased
from store.memories.memory import FIELDS, FORGOTTEN, Memory

MOST_STEPS = 40  # of a history: the newest
MOST_RECALLS = 8  # that returned it: the newest
_CHOICES = {
    "kinds": RECORDED_KINDS,
    "tiers": TIERS,
    "statuses": ("", *GOAL_STATUSES),
    "relations": RELATIONS,
}


def add_memory_pages(pages: Blueprint, site: Site) -> None:
    """Add the pages of one memory to those of all."""

    @pages.get("/t/<tenant>/memory/<id_>")
    def show(tenant: str, id_: str) -> str:
        opened = site.tenant(tenant)
        payload = opened.reader.answer(lambda view: _memory_view(view, opened, id_))
        return render_template("memory.html", **payload, **_CHOICES)

    @pages.get("/t/<tenant>/memories/new")
    def new(tenant: str) -> str:
        site.tenant(tenant)
        sent = {"kind": "fact", "tier": "auto"} | request.args.to_dict()
        return _new(site, sent)

    @pages.post("/t/<tenant>/memories/new")
    def create(tenant: str) -> Response | tuple[str, int]:
        opened, sent = site.tenant(tenant), request.form.to_dict()
        try:
            typed = structs.replace(forms.draft(sent), author="typed")
            event = commands.record(opened.log, typed, site.clock()).event
        except IdConflict:
            error = "this form was already saved: send it again to create another memory"
            return _new(site, sent, error), HTTPStatus.CONFLICT
        except InvalidInput as wrong:
            return _new(site, sent, str(wrong)), HTTPStatus.BAD_REQUEST
        text, body = "remembered", event.body
        content = commands.check_text(sent["content"].replace("\r\n", "\n"))
        if isinstance(body, Recorded) and body.content != content:
            text += "; a secret was redacted first"
        fields = (("do", "forget"), ("id", event.id))
        undo = Undo(tenant_url("memories.change"), fields, "Forget it")
        return site.redirect(_address(event.id), text, undo=undo)

    @pages.get("/t/<tenant>/memory/<id_>/edit")
    def edit(tenant: str, id_: str) -> str:
        opened = site.tenant(tenant)
        memory, newest = _to_edit(opened, id_)
        return _form(memory, newest, {})

    @pages.post("/t/<tenant>/memory/<id_>/edit")
    def revise(tenant: str, id_: str) -> Response | tuple[str, int]:
        opened, sent = site.tenant(tenant), request.form.to_dict()
        memory, newest = _to_edit(opened, id_)
        try:
            return _append_revision(site, opened, memory, forms.revision(sent, memory))
        except ChangedSince:
            error = "it changed while you were editing: compare, then send again"
            return _form(memory, newest, sent, error), HTTPStatus.PRECONDITION_FAILED
        except InvalidInput as wrong:
            return _form(memory, _form_seq(), sent, str(wrong)), HTTPStatus.BAD_REQUEST

    @pages.post("/t/<tenant>/memory/<id_>/put-back")
    def put_back(tenant: str, id_: str) -> Response:
        """Undo one revision of a memory: its fields get back their former values."""
        opened = site.tenant(tenant)
        memory, _ = _to_edit(opened, id_)
        step = request.form.get("step", type=int, default=0)
        undone = opened.log.undone_ids(opened.log.head())
        change = revision_before(opened.log.events_for(id_), step, undone)
        if change is None:
            return site.redirect(_address(id_), "there is nothing to put back", "warn")
        try:
            return _append_revision(site, opened, memory, change, "put back")
        except ChangedSince as wrong:
            return site.redirect(_address(id_), f"not put back: {wrong}", "warn")

    @pages.post("/t/<tenant>/memory/<id_>/link")
    def link(tenant: str, id_: str) -> Response:
        opened, relation = site.tenant(tenant), request.form.get("relation", "")
        if relation not in RELATIONS:
            raise InvalidInput(f"relation is one of {', '.join(RELATIONS)}")
        try:
            target = commands.resolve(opened.log, request.form.get("target", "").strip())
            change = Linked(target=target, relation=relation)  # type: ignore[arg-type]
            opened.log.append([commands.change_event(opened.log, id_, change, site.clock())])
        except (InvalidInput, NotFound) as wrong:
            return site.redirect(_address(id_), str(wrong), "warn")
        return site.redirect(_address(id_), "linked")

    @pages.post("/t/<tenant>/memory/<id_>/supersede")
    def supersede(tenant: str, id_: str) -> Response:
        opened = site.tenant(tenant)
        try:
            by = commands.resolve(opened.log, request.form.get("by", "").strip())
            memory, _ = _to_edit(opened, id_)
            event = commands.change_event(opened.log, id_, Superseded(by=by), site.clock())
            [appended] = opened.log.append([event])
        except (InvalidInput, NotFound) as wrong:
            return site.redirect(_address(id_), str(wrong), "warn")
        fields = (("was", encode_state(memory, appended.event.seq)), ("back", _address(id_)))
        undo = Undo(tenant_url("memories.undo"), fields)
        return site.redirect(_address(id_), "replaced", undo=undo)


def _memory_view(view: View, opened: OpenTenant, id_: str) -> dict[str, Any]:
    """Return the values of a memory's page; raise NotFound."""
    memory = find_memory(view, id_)
    events = opened.log.events_for(id_)
    if memory.state == FORGOTTEN:
        erased = bool(events) and is_erased(events[0].body)
        return {"memory": None, "tombstone": visible_json(memory), "is_erased": erased}
    payload = full_json(view, opened.log, memory)
    recalls, has_more = recall_pages.recalls_of_memory(opened, id_, MOST_RECALLS)
    steps = history_steps(events, opened.log.undone_ids(opened.log.head()))
    derivatives = derivatives_of(view, id_)
    return {
        "memory": memory,
        "labelled": [(field.label, getattr(memory, field.name)) for field in FIELDS if field.label],
        "told": payload,
        "edges": [
            {
                "relation": edge["relation"],
                "is_from": edge["source"] == id_,
                "memory": memory_line(view, edge["target" if edge["source"] == id_ else "source"]),
            }
            for edge in payload["edges"]
        ],
        "duplicates": [
            duplicate | {"memory": memory_line(view, duplicate["id"])}
            for duplicate in payload["duplicates"]
        ],
        "chain": [
            line_json(other)
            for other in memory_detail.history_of_memory(view, id_)
            if other.id != id_
        ],
        "steps": steps[:MOST_STEPS],
        "others": {
            step.other: memory_line(view, step.other) for step in steps[:MOST_STEPS] if step.other
        },
        "steps_left": max(0, len(steps) - MOST_STEPS),
        "recalls": recalls,
        "part": recalls_of(opened.log, id_, derivatives, recall_pages.LOOKED_AT)
        if derivatives
        else None,
        "has_more_recalls": has_more,
        "newest": log_queries.newest_change(opened.log, id_),
    }


def memory_line(view: View, id_: str) -> dict[str, Any]:
    """Return a memory as a line of a page; the id alone for a missing memory."""
    memory = view.tail.find(id_)
    return {"id": id_, "text": ""} if memory is None else line_json(memory)


def _to_edit(opened: OpenTenant, id_: str) -> tuple[Memory, int]:
    """Return a memory and its newest change's seq; raise NotFound, InvalidInput for a tombstone."""
    # first: a change in between is reported, not overwritten
    newest = log_queries.newest_change(opened.log, id_)
    memory = opened.reader.answer(lambda view: find_memory(view, id_))
    if memory.state == FORGOTTEN:
        raise InvalidInput(f"memory {id_!r} is forgotten: restore it first")
    return memory, newest


def _append_revision(
    site: Site, opened: OpenTenant, memory: Memory, change: Revised, text: str = "changed"
) -> Response:
    """Append a revision; raise ChangedSince if the memory was changed after its form was made."""
    event = commands.change_event(opened.log, memory.id, change, site.clock(), author="typed")
    [appended] = opened.log.append([event], [require_unchanged(memory.id, {_form_seq()})])
    seq = str(appended.event.seq)
    fields = (("step", seq), ("seen", seq))
    undo = Undo(tenant_url("memories.put_back", id_=memory.id), fields)
    return site.redirect(_address(memory.id), text, undo=undo)


def _form_seq() -> int:
    """Return the seq of the newest change that the form is based on."""
    return request.form.get("seen", type=int, default=0)


def _new(site: Site, sent: dict[str, str], error: str = "") -> str:
    """Return the form of a new memory, with its id: sent twice it is recorded once."""
    values = sent | {"id": new_id(site.clock())}
    return render_template("memory_new.html", sent=values, error=error, **_CHOICES)


def _form(memory: Memory, newest: int, sent: dict[str, str], error: str = "") -> str:
    values = forms.form_values(memory) | sent
    return render_template(
        "memory_edit.html", memory=memory, newest=newest, sent=values, error=error, **_CHOICES
    )


def _address(id_: str) -> str:
    return tenant_url("memories.show", id_=id_)


# History: the events about a memory, each revision with the values before and after.

_REVISABLE = tuple(name for name in Revised.__struct_fields__ if name not in ("reason", "ttl_s"))
_WORDS = {  # where the event's kind is not clear enough
    "revised": "changed",
    "superseded": "replaced",
    "staled": "stale",
    "surfaced": "shown to an agent",
}


class FieldChange(msgspec.Struct, frozen=True):
    """A field, with its values before and after."""

    field: str
    before: str
    after: str


class Step(msgspec.Struct, frozen=True):
    """One event. `counts` is false where the plan it belongs to was undone."""

    seq: int
    at: int
    what: str
    by: str
    reason: str
    changes: tuple[FieldChange, ...]
    other: str | None
    counts: bool


def history_steps(events: Sequence[Event], undone: frozenset[str]) -> list[Step]:
    """Return the steps of a memory, the newest first; `events` are those about it, in order."""
    return [_step(event, before, undone) for event, before in _with_before(events, undone)][::-1]


def revision_before(events: Sequence[Event], seq: int, undone: frozenset[str]) -> Revised | None:
    """Return the revision that undoes the one with a seq; None where nothing can be undone.

    A text field without a former value is emptied; any other such field is left alone.
    """
    for event, before in _with_before(events, undone):
        if event.seq == seq and isinstance(event.body, Revised):
            values: dict[str, Any] = {}
            for name in _REVISABLE:
                value = "" if before[name] is None and name in forms.TEXTS else before[name]
                if getattr(event.body, name) is not None and value is not None:
                    values[name] = value
            return Revised(**values, reason="put back") if values else None
    return None


def _with_before(
    events: Sequence[Event], undone: frozenset[str]
) -> Iterator[tuple[Event, dict[str, Any]]]:
    """Yield each event with the fields as they were before it."""
    fields: dict[str, Any] = dict.fromkeys(_REVISABLE)
    for event in events:
        yield event, dict(fields)
        if isinstance(event.body, Recorded | Revised) and event.id not in undone:
            values = {name: getattr(event.body, name) for name in _REVISABLE}
            fields |= {name: value for name, value in values.items() if value is not None}


def _step(event: Event, before: dict[str, Any], undone: frozenset[str]) -> Step:
    body = event.body
    what, other = _WORDS.get(event.kind, event.kind), None
    changes: tuple[FieldChange, ...] = ()
    match body:
        case Revised():
            changes = tuple(
                FieldChange(name, _value_text(before[name]), _value_text(value))
                for name in _REVISABLE
                if (value := getattr(body, name)) is not None and value != before[name]
            )
        case Superseded(by=by):
            other = by
        case Linked(target=target, relation=relation):
            what, other = f"linked: {relation}", target
        case Pinned(pinned=pinned):
            what = "pinned" if pinned else "unpinned"
        case Rated(verdict=verdict):
            what = f"rated {verdict:+g}"
        case Expected(expected=expected):
            what = "pinned to a question" if expected else "no longer pinned to a question"
    reason = getattr(body, "reason", None) or getattr(body, "question", None) or ""
    by_whom = event.agent or ("" if event.trust == "user" else event.trust)
    return Step(event.seq, event.at, what, by_whom, reason, changes, other, event.id not in undone)


def _value_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, tuple):
        return ", ".join(value)
    if isinstance(value, dict):
        return pretty(value)
    return f"{value:g}"
