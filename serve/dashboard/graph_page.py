"""
Graph: what the memories name and what is named together, as a picture and as tables.
"""

from typing import get_args

from flask import Blueprint, Response, render_template, request

from serve.dashboard.page_context import Site
from serve.reader.memory_json import visible_json
from serve.reader.view import View
from serve.reports import graph_views
from serve.reports.graph_views import Entity
from store.derived.entities import EntityIndex
from store.home.errors import NotFound, SnapshotDamaged
from store.text.mentions import EntityKind

KINDS: tuple[EntityKind, ...] = get_args(EntityKind)
SHOWN = 100  # entities of the table
_FOUND = 10 * SHOWN  # by a search, of any kind


def graph_blueprint(site: Site) -> Blueprint:
    pages = Blueprint("graph", __name__)

    @pages.get("/t/<tenant>/graph")
    def index(tenant: str) -> str:
        opened = site.tenant(tenant)
        asked, kind = request.args.get("name", "").strip(), request.args.get("kind") or None
        with opened.reader.view() as view:
            found, manifest = view.snapshots.entities, view.snapshots.manifest
        entities = []
        if found is not None and asked:
            listed = (
                graph_views.find_entities(found, one) for one in found.with_prefix(asked, _FOUND)
            )
            entities = [one for one in listed if kind in (None, one.kind)]
        elif found is not None:
            entities = graph_views.most_mentioned(found, kind, SHOWN)
        return render_template(
            "graph.html",
            asked=asked,
            kind=kind,
            kinds=KINDS,
            entities=entities[:SHOWN],
            more=len(entities) > SHOWN,
            drawn=graph_views.draw_graph(manifest) if manifest is not None else None,
            is_built=manifest is not None,
        )

    @pages.get("/t/<tenant>/graph/picture")
    def picture(tenant: str) -> Response:
        opened = site.tenant(tenant)
        with opened.reader.view() as view:
            manifest, found = view.snapshots.manifest, view.snapshots.entities
        mark = graph_views.mark(manifest) if manifest is not None else None
        if manifest is None or found is None or mark is None:
            raise NotFound("no graph has been built yet: run `mnemolog build`")
        answer = Response(mimetype="application/octet-stream")
        answer.set_etag(mark)
        answer.headers["Cache-Control"] = "private, no-cache"  # kept, and asked about every time
        if not request.if_none_match.contains(mark):
            try:
                answer.set_data(graph_views.picture(opened.tenant, manifest, found))
            except SnapshotDamaged as error:
                raise NotFound(f"there is no picture: {error}") from error
        answer.make_conditional(request)
        return answer

    @pages.get("/t/<tenant>/graph/entity")
    def entity(tenant: str) -> str:
        opened = site.tenant(tenant)
        kind, name = request.args.get("kind", ""), request.args.get("name", "")
        now = site.clock()
        one = opened.reader.answer(lambda view: _entity(view, kind, name, now))
        is_part = request.args.get("part") == "1"  # for the picture's side, without the frame
        return render_template(
            "entity_part.html" if is_part else "entity.html",
            one=one,
            memories=[visible_json(memory) for memory in one.memories],
        )

    return pages


def _entity(view: View, kind: str, name: str, now: int) -> Entity:
    index: EntityIndex | None = view.snapshots.entities
    number = index.find(kind, name) if index is not None else None
    if index is None or number is None:
        raise NotFound(f"the last build knows no {kind or 'entity'} {name!r}")
    return graph_views.entity_of(view, index, number, now)
