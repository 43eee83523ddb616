"""
Memories: found by a question or listed by filters, and changed, many at once.
"""

from datetime import datetime
from functools import partial
from typing import Any

import msgspec
from flask import Blueprint, Response, render_template, request

from serve.api.parameters import decode_cursor, encode_cursor, filter_digest
from serve.dashboard import changes, memory_page
from serve.dashboard.changes import DOES, DONE
from serve.dashboard.forms import FILTER_LABELS, ListForm, read_list_form
from serve.dashboard.page_context import Site, Undo, back, is_part, tenant_url
from serve.reader.view import View
from serve.recall.request import answer
from serve.reports import listing
from serve.reports.facets import (
    Facet,
    facets_of_documents,
    facets_of_hits,
    project_names,
)
from serve.server.open_tenants import OpenTenant
from store.home.errors import ChangedSince, InvalidInput
from store.home.instants import micros
from store.log.event_kinds import MEMORY_KINDS, TIERS, TRUSTS
from store.text.excerpt import plural

SHOWN = 50
MOST_PROJECTS = 500  # that a list offers
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


class Wider(msgspec.Struct, frozen=True):
    """The count of memories without one filter."""

    label: str
    count: int
    url: str


def memories_blueprint(site: Site) -> Blueprint:
    pages = Blueprint("memories", __name__)

    @pages.get("/t/<tenant>/memories")
    def index(tenant: str) -> tuple[str, int]:
        """Show the page, or only its list to a script that searches as one types."""
        opened = site.tenant(tenant)
        form, payload, error = ListForm(), _nothing(), ""
        try:
            form = read_list_form(request.args)
            payload = (_search_memories if form.recalls else _list_memories)(site, opened, form)
            if not payload["memories"] and not form.after:
                payload["wider"] = _wider(site, opened, form)
        except InvalidInput as wrong:
            error = str(wrong)
        of = {"asked": form, "error": error, "columns": _columns(form), "address": _address}
        of |= {"labels": FILTER_LABELS, **payload}
        if is_part():
            return render_template("memories_found.html", **of), 400 if error else 200
        page = render_template(
            "memories.html",
            kinds=(("", "any"), *((kind, kind.replace("_", " ")) for kind in MEMORY_KINDS)),
            tiers=(("", "any"), *TIERS),
            trusts=(("", "anyone"), *TRUSTS),
            states=STATES,
            sorts=SORTS,
            projects=opened.reader.answer(lambda view: project_names(view, MOST_PROJECTS)),
            **of,
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
        from serve.evaluation import bulk  # with the replay of recalls, needed by no other page

        undo: Undo | None = None
        text = f"{DONE[does]}: {plural(done.changed, 'memory')}"
        if done.same:
            text += f"; {plural(done.same, 'memory')} left as they were"
        if done.was:
            fields = (*(("was", state) for state in done.was), ("back", page))
            undo = Undo(tenant_url("memories.undo"), fields)
        opened.notes.write_if_possible()  # the receipts of the answers just given, too
        read, choices, now = opened.reader.read_past, site.settings.choices, site.clock()
        plan = bulk.keep(opened.tenant, opened.log, read, choices, DONE[does], done.events, now)
        if plan is not None:  # undoing a plan also reverts changes that no form can
            address = tenant_url("proposals.show", id_=plan.id)
            undo = Undo(address, (("answer", "undo"), ("back", page)))
            if plan.body.replay and (lost := bulk.regret(plan.body.replay)):
                return site.redirect(address, f"{text}; of past answers {lost}", "warn", undo)
        return site.redirect(page, text, undo=undo)

    @pages.post("/t/<tenant>/memories/undo")
    def undo(tenant: str) -> Response:
        """Undo a form's changes, if the memories are unchanged since."""
        opened = site.tenant(tenant)
        page = back(tenant_url("memories.index"))
        try:
            count = changes.take_back(opened, request.form.getlist("was"), site.clock())
        except ChangedSince as wrong:
            return site.redirect(page, f"not taken back: {wrong}", "warn")
        return site.redirect(page, f"taken back: {plural(count, 'memory')}")

    memory_page.add_memory_pages(pages, site)
    return pages


def _list_memories(site: Site, opened: OpenTenant, form: ListForm) -> dict[str, Any]:
    """Return a page of the list, newest first by default; raise InvalidInput."""
    now = site.clock()
    of = filter_digest("memories", form.query())
    after = decode_cursor(form.after, of) if form.after else None
    wanted = form.listing(now)

    def read(view: View) -> tuple[listing.Page, list[Facet]]:
        page = listing.page(view, wanted, SHOWN, after)
        return page, facets_of_documents(view, page.documents, now)

    page, facets = opened.reader.answer(read)
    rows = [
        {"state": "active", "tags": ()}
        | listing.memory_fields(memory, now)
        | {"made": memory.created_at}
        for memory in page.memories
    ]
    following = "" if page.next is None else encode_cursor(page.next, of)
    return _nothing() | {
        "memories": rows,
        "count_text": f"{page.total:,} in all",
        "facets": facets,
        "next": _address(form, after=following) if following else "",
        "first": _address(form) if form.after else "",
    }


def _search_memories(site: Site, opened: OpenTenant, form: ListForm) -> dict[str, Any]:
    """Return the hits of a search, best first, and a `hint` where there are none."""
    payload, hits = _hits(site, opened, form)
    rows = [
        {"state": "active", "tags": ()} | hit | {"made": micros(datetime.fromisoformat(hit["at"]))}
        for hit in hits[:SHOWN]
    ]
    now = site.clock()
    sure = sum("unsure" not in hit for hit in hits)
    near = len(hits) - sure
    counts = [f"{sure} found" if sure else "", f"{near} near but unsure" if near else ""]
    cut = f"; the best {len(rows)} are shown" if len(rows) < len(hits) else ""
    return _nothing() | {
        "memories": rows,
        "count_text": ", ".join(filter(None, counts)) + cut,
        "facets": opened.reader.answer(lambda view: facets_of_hits(view, hits, now)),
        "notices": payload.get("notices", ()),
        "hint": payload.get("hint", ""),
    }


def _hits(
    site: Site, opened: OpenTenant, form: ListForm
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the answer to a search and its hits."""
    choices, now = site.settings.choices, site.clock()
    payload, _ = answer(opened.reader, form.request(now), choices, now)
    return payload, [hit for hit in payload["hits"] if not form.pinned or hit.get("pinned")]


def _wider(site: Site, opened: OpenTenant, form: ListForm) -> list[Wider]:
    """Return the filters whose removal gives results, the one that hides most first."""
    listings = []
    for name, value in form.filters.items():
        other = form.without(name)
        if other.recalls:
            count = len(_hits(site, opened, other)[1])
        else:
            count = opened.reader.answer(partial(listing.count, wanted=other.listing(site.clock())))
        if count:
            label = f"{FILTER_LABELS[name]} {value}" if name != "pinned" else "pinned"
            listings.append(Wider(label, count, _address(other)))
    return sorted(listings, key=lambda wider: -wider.count)


def _nothing() -> dict[str, Any]:
    return {
        "memories": [],
        "count_text": "",
        "facets": [],
        "next": "",
        "first": "",
        "notices": (),
        "hint": "",
        "wider": [],
    }


def _columns(form: ListForm) -> list[dict[str, str]]:
    """Return the column heads of the table, with the addresses that sort by them."""
    if form.recalls:
        return [
            {"title": "Memory", "class": "wide"},
            {"title": "Confidence", "class": "num"},
            {"title": "Kind"},
            {"title": "Project"},
            {"title": "Made"},
        ]
    sort = form.sort or "-created_at"
    return [
        {"title": "Memory", "class": "wide"},
        _sortable_column("Importance", "importance", sort, form) | {"class": "num"},
        {"title": "Kind"},
        {"title": "Project"},
        _sortable_column("Made", "created_at", sort, form),
    ]


def _sortable_column(title: str, column: str, sort: str, form: ListForm) -> dict[str, str]:
    """Return the head of a column that sorts; sorting again reverses, where that is possible."""
    is_by, turned = sort.removeprefix("-") == column, sort.startswith("-")
    other = column if sort == f"-{column}" and column != "importance" else f"-{column}"
    head = {"title": title, "href": _address(form, sort=other)}
    return head | ({"sorted": "descending" if turned else "ascending"} if is_by else {})


def _address(form: ListForm, **changed: str) -> str:
    return tenant_url("memories.index", **form.query(**changed))
