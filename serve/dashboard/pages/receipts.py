"""
Receipts: what was recalled, what it brought, and how it turned out.
"""

from typing import Any

from flask import Blueprint, Response, render_template, request

from serve.api.cursor import cursor, digest, position
from serve.dashboard.sites import Site, tenant_url
from serve.server.open_tenants import OpenTenant
from serve.summaries import receipts as told
from serve.summaries.listing import Position
from store import commands, receipts
from store.events import Event, Recalled
from store.home.errors import InvalidInput
from store.home.projects import named_project
from store.receipts import Place, Wanted

SHOWN = 50
LOOKED_AT = 4_000  # receipts of a page: it must be there within 100 ms
_ASKED = ("memory", "project", "session", "silent", "after")
_SILENT = {"": None, "silent": True, "told": False}
VERDICTS = {"helped": 1.0, "harmed": -1.0}


def add(pages: Blueprint, site: Site) -> None:
    """Add the pages of recalls to those of memories."""

    @pages.get("/t/<tenant>/recalls")
    def recalls(tenant: str) -> tuple[str, int]:
        opened = site.tenant(tenant)
        asked = {name: request.args.get(name, "").strip() for name in _ASKED}
        rows, following, error = [], "", ""
        try:
            found = receipts.page(opened.log, _wanted(asked), SHOWN, _after(asked), LOOKED_AT)
            rows = lines(opened, found.receipts, asked["memory"] or None)
            following = _cursor(found.last, asked) if found.last else ""
        except InvalidInput as wrong:
            error = str(wrong)
        page = render_template(
            "recalls.html", asked=asked, rows=rows, next=following, error=error, looked=LOOKED_AT
        )
        return page, 400 if error else 200

    @pages.get("/t/<tenant>/recall/<id_>")
    def recall(tenant: str, id_: str) -> str:
        opened = site.tenant(tenant)
        receipt = receipts.find(opened.log, id_)
        found = opened.reader.answered(lambda view: told.shown(view, opened.log, receipt))
        return render_template("recall.html", one=found, at=receipt.at)

    @pages.post("/t/<tenant>/recall/<id_>/rate")
    def rate(tenant: str, id_: str) -> Response:
        """Say whether what a recall brought helped."""
        opened, said = site.tenant(tenant), request.form.get("verdict", "")
        if said not in VERDICTS:
            raise InvalidInput(f"a recall {' or '.join(VERDICTS)}, not {said!r}")
        receipts.find(opened.log, id_)
        commands.rate(opened.log, id_, VERDICTS[said], site.clock())
        return site.done(tenant_url("memories.recall", id_=id_), f"noted that it {said}")


def of_memory(opened: OpenTenant, id_: str, limit: int) -> tuple[list[dict[str, Any]], bool]:
    """Return the newest recalls that brought a memory, and whether there may be older ones."""
    found = receipts.page(opened.log, Wanted(memory=id_), limit, most=LOOKED_AT)
    return lines(opened, found.receipts, id_), found.last is not None


def lines(opened: OpenTenant, found: tuple[Event, ...], memory: str | None) -> list[dict[str, Any]]:
    """Return receipts as lines of a list; `moment` is microseconds UTC."""
    return [
        told.in_short(opened.log, one, memory) | {"moment": one.at}
        for one in found
        if isinstance(one.body, Recalled)
    ]


def _wanted(asked: dict[str, str]) -> Wanted:
    if asked["silent"] not in _SILENT:
        raise InvalidInput("`silent` is silent or told")
    return Wanted(
        memory=asked["memory"] or None,
        project=named_project(asked["project"]),
        session=asked["session"] or None,
        silent=_SILENT[asked["silent"]],
    )


def _after(asked: dict[str, str]) -> Place | None:
    if not asked["after"]:
        return None
    value, seq = position(asked["after"], _of(asked))
    return value, seq


def _cursor(last: Place, asked: dict[str, str]) -> str:
    filters = {name: value for name, value in asked.items() if value and name != "after"}
    after = cursor(Position(*last), _of(asked))
    return tenant_url("memories.recalls", **filters, after=after)


def _of(asked: dict[str, str]) -> str:
    """Return what tells the cursors of these filters from those of others."""
    return digest("recalls", {name: asked[name] for name in _ASKED if name != "after"})
