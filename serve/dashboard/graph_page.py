"""
Graph: the entities that memories name, and which are named together, as a picture and as lists.

The page holds the picture's data and the lists of its communities, so nothing but the drawing needs
a script. Authors are left out by default: they are named with everything.
"""

from typing import Any, get_args

import msgspec
from flask import Blueprint, Response, render_template, request

from serve import formatting
from serve.dashboard.page_context import Site
from serve.reader.filters import Filter
from serve.reader.memory_json import visible_json
from serve.reader.view import View
from serve.reports import graph_views
from serve.reports.facets import TIMES, project_names
from serve.reports.graph_views import AUTHOR, Entity, Picture
from store.derived.entities import EntityIndex
from store.home.errors import InvalidInput, NotFound
from store.home.instants import micros
from store.home.projects import optional_project
from store.text.mentions import EntityKind

KINDS: tuple[EntityKind, ...] = get_args(EntityKind)
DRAWN: tuple[EntityKind, ...] = tuple(kind for kind in KINDS if kind != AUTHOR)
SHOWN = 25  # entities of the table
MOST_PROJECTS = 200  # that the form lists
_FOUND = 10 * SHOWN  # entities of a search, of any kind


def graph_blueprint(site: Site) -> Blueprint:
    pages = Blueprint("graph", __name__)

    @pages.get("/t/<tenant>/graph")
    def index(tenant: str) -> str:
        opened = site.tenant(tenant)
        name, now = request.args.get("name", "").strip(), site.clock()
        kind = _kind()
        payload: dict[str, Any] = opened.reader.answer(lambda view: _index(view, name, kind, now))
        return render_template(
            "graph.html",
            asked=name,
            kind=kind,
            project=request.args.get("project", ""),
            since=request.args.get("since", ""),
            is_narrowed=any(map(request.args.get, ("kind", "project", "since"))),
            kinds=[("", "all but authors"), *((other, other) for other in KINDS)],
            times=[("", "all time"), *TIMES.items()],
            **payload,
        )

    @pages.get("/t/<tenant>/graph/around")
    def around(tenant: str) -> Response:
        """Return the picture around an entity, for the script that draws it."""
        opened, now = site.tenant(tenant), site.clock()
        of, name = request.args.get("of", ""), request.args.get("name", "")
        kind = _kind()

        def draw(view: View) -> Picture:
            index, entity = _find(view, of, name)
            return graph_views.draw(view, index, _filter(now), _kinds(kind), entity)

        payload = graph_views.picture_payload(opened.reader.answer(draw))
        return Response(msgspec.json.encode(payload), mimetype="application/json")

    @pages.get("/t/<tenant>/graph/entity")
    def entity(tenant: str) -> str:
        opened, now = site.tenant(tenant), site.clock()
        kind, name = request.args.get("kind", ""), request.args.get("name", "")

        def read(view: View) -> Entity:
            return graph_views.entity_of(view, *_find(view, kind, name), now)

        details = opened.reader.answer(read)
        is_part = request.args.get("part") == "1"  # for the picture's side, without the frame
        return render_template(
            "entity_part.html" if is_part else "entity.html",
            one=details,
            memories=[visible_json(memory) for memory in details.memories],
        )

    return pages


def _index(view: View, prefix: str, kind: EntityKind | None, now: int) -> dict[str, Any]:
    """Return the picture, and the entities of the table: those with a prefix, else the top ones."""
    index = view.snapshots.entities
    payload = {"is_built": index is not None, "projects": project_names(view, MOST_PROJECTS)}
    if index is None:
        return payload | {"picture": None, "drawing": "", "entities": [], "more": False}
    if prefix:
        numbers = index.with_prefix(prefix, _FOUND)
        matches = [graph_views.describe_entity(index, number) for number in numbers]
        entities = [entity for entity in matches if kind in (None, entity.kind)]
    else:
        entities = graph_views.most_mentioned(index, _kinds(kind), SHOWN)
    picture = graph_views.draw(view, index, _filter(now), _kinds(kind))
    drawing = msgspec.json.encode(graph_views.picture_payload(picture)).decode()
    return payload | {
        "picture": picture,
        "drawing": drawing,
        "entities": entities[:SHOWN],
        "more": len(entities) > SHOWN,
    }


def _kind() -> EntityKind | None:
    """Return the requested kind, None for any; raise InvalidInput for an unknown kind."""
    text = request.args.get("kind", "")
    if not text:
        return None
    for kind in KINDS:
        if text == kind:
            return kind
    raise InvalidInput(f"unknown kind {text!r}: choose from {', '.join(KINDS)}")


def _kinds(kind: EntityKind | None) -> tuple[EntityKind, ...]:
    return DRAWN if kind is None else (kind,)


def _filter(now: int) -> Filter:
    """Return the filter of the address; raise InvalidInput."""
    since = formatting.parse_optional_time(request.args.get("since"), now)
    return Filter(
        now=now,
        project=optional_project(request.args.get("project")),
        since=micros(since) if since else None,
    )


def _find(view: View, kind: str, name: str) -> tuple[EntityIndex, int]:
    index: EntityIndex | None = view.snapshots.entities
    number = index.find(kind, name) if index is not None else None
    if index is None or number is None:
        raise NotFound(f"the last build knows no {kind or 'entity'} {name!r}")
    return index, number
