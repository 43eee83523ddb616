"""
Memories: found by a question or listed by filters, and changed, many at once.
"""

from datetime import datetime
from typing import Any

from flask import Blueprint, Response, render_template, request

from serve.api.parameters import decode_cursor, encode_cursor, filter_digest
from serve.dashboard import changes, memory_page, recall_pages
from serve.dashboard.changes import DOES, DONE, Does, Done
from serve.dashboard.forms import ListForm, read_list_form
from serve.dashboard.page_context import Site, Undo, back, tenant_url
from serve.recall.request import answer
from serve.reports import listing
from serve.server.open_tenants import OpenTenant
from store.home.errors import ChangedSince, InvalidInput
from store.home.instants import micros
from store.log.event_kinds import MEMORY_KINDS, TIERS

SHOWN = 50
STATES = (
    ("active", "active"),
    ("archived", "archived"),
    ("stale", "stale"),
    ("superseded", "superseded"),
    ("expired", "expired"),
    ("forgotten", "forgotten"),
    ("any", "in any state"),
)
SORTS = (
    ("", "best, else newest"),
    ("-created_at", "newest"),
    ("created_at", "oldest"),
    ("-updated_at", "last changed"),
    ("-importance", "most important"),
)


def memories_blueprint(site: Site) -> Blueprint:
    pages = Blueprint("memories", __name__)

    @pages.get("/t/<tenant>/memories")
    def index(tenant: str) -> tuple[str, int]:
        opened = site.tenant(tenant)
        asked, found, error = ListForm(), _nothing(), ""
        try:
            asked = read_list_form(request.args)
            found = (
                _search_memories(site, opened, asked)
                if asked.recalls
                else _list_memories(site, opened, asked)
            )
        except InvalidInput as wrong:
            error = str(wrong)
        page = render_template(
            "memories.html",
            asked=asked,
            error=error,
            kinds=(("", "any"), *((one, one.replace("_", " ")) for one in MEMORY_KINDS)),
            tiers=(("", "any"), *((one, one) for one in TIERS)),
            states=STATES,
            sorts=SORTS,
            columns=_columns(asked),
            **found,
        )
        return page, 400 if error else 200

    @pages.post("/t/<tenant>/memories/change")
    def change(tenant: str) -> Response:
        """Do one thing to all chosen memories."""
        opened = site.tenant(tenant)
        page = back(tenant_url("memories.index"))
        does, tag = request.form.get("do", ""), request.form.get("tag", "")[:100]
        if does not in DOES:
            raise InvalidInput(f"{does!r} is not an action for memories")
        try:
            done = changes.carry_out(opened, request.form.getlist("id"), does, site.clock(), tag)
        except InvalidInput as wrong:
            return site.redirect(page, str(wrong), "warn")
        return site.redirect(page, _summary(done, does), undo=_undo(done))

    @pages.post("/t/<tenant>/memories/undo")
    def undo(tenant: str) -> Response:
        """Take back what a form changed, if nobody changed it since."""
        opened = site.tenant(tenant)
        page = back(tenant_url("memories.index"))
        try:
            count = changes.take_back(opened, request.form.getlist("was"), site.clock())
        except ChangedSince as wrong:
            return site.redirect(page, f"not taken back: {wrong}", "warn")
        return site.redirect(page, f"taken back: {_memories(count)}")

    memory_page.add_memory_pages(pages, site)
    recall_pages.add_recall_pages(pages, site)
    return pages


def _list_memories(site: Site, opened: OpenTenant, asked: ListForm) -> dict[str, Any]:
    """Return a page of the list, newest first where no order is asked for."""
    now = site.clock()
    of = filter_digest("memories", asked.query())
    after = decode_cursor(asked.after, of) if asked.after else None
    what = asked.listing(now)
    found = opened.reader.answer(lambda view: listing.page(view, what, SHOWN, after))
    rows = [
        {"state": "active", "tags": ()} | listing.memory_fields(one, now) | {"made": one.created_at}
        for one in found.memories
    ]
    following = "" if found.next is None else encode_cursor(found.next, of)
    return {
        "memories": rows,
        "total": found.total,
        "next": _address(asked, after=following) if following else "",
        "first": _address(asked) if asked.after else "",
        "notices": (),
        "hint": "",
    }


def _search_memories(site: Site, opened: OpenTenant, asked: ListForm) -> dict[str, Any]:
    """Return what a search finds, the best first; `hint` says why it finds nothing."""
    choices, embedder = site.settings.choices, site.tenants.embedder
    said, _ = answer(opened.reader, embedder, asked.request(site.clock()), choices, site.clock())
    rows = [
        {"state": "active", "tags": ()} | one | {"made": micros(datetime.fromisoformat(one["at"]))}
        for one in said["hits"]
        if not asked.pinned or one.get("pinned")
    ]
    return _nothing() | {
        "memories": rows,
        "total": len(rows),
        "notices": said.get("notices", ()),
        "hint": said.get("hint", ""),
    }


def _nothing() -> dict[str, Any]:
    return {"memories": [], "total": 0, "next": "", "first": "", "notices": (), "hint": ""}


def _columns(asked: ListForm) -> list[dict[str, str]]:
    """Return the heads of the table, with the addresses that sort by them."""
    if asked.recalls:
        return [
            {"title": "Memory", "class": "wide"},
            {"title": "Confidence", "class": "num"},
            {"title": "Kind"},
            {"title": "Project"},
            {"title": "Made"},
        ]
    sort = asked.sort or "-created_at"
    return [
        {"title": "Memory", "class": "wide"},
        _sortable_column("Importance", "importance", sort, asked) | {"class": "num"},
        {"title": "Kind"},
        {"title": "Project"},
        _sortable_column("Made", "created_at", sort, asked),
    ]


def _sortable_column(title: str, column: str, sort: str, asked: ListForm) -> dict[str, str]:
    """Return a head that sorts; once more turns the order round, where there is another."""
    is_by, turned = sort.removeprefix("-") == column, sort.startswith("-")
    other = column if sort == f"-{column}" and column != "importance" else f"-{column}"
    found = {"title": title, "href": _address(asked, sort=other)}
    return found | ({"sorted": "descending" if turned else "ascending"} if is_by else {})


def _address(asked: ListForm, **changed: str) -> str:
    return tenant_url("memories.index", **asked.query(**changed))


def _summary(done: Done, does: Does) -> str:
    same = f"; {_memories(done.same)} left as they were" if done.same else ""
    return f"{DONE[does]}: {_memories(done.changed)}{same}"


def _memories(count: int) -> str:
    return "1 memory" if count == 1 else f"{count:,} memories"


def _undo(done: Done) -> Undo | None:
    fields = tuple(("was", one) for one in done.was)
    return Undo(tenant_url("memories.undo"), (*fields, ("back", _back()))) if fields else None


def _back() -> str:
    return back(tenant_url("memories.index"))
