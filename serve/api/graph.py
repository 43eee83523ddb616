"""
The graph of what the memories name: its entities by their names, and what lies around one.
"""

from http import HTTPStatus
from typing import Annotated

import msgspec
from msgspec import Meta

from serve.api.operation import Operation
from serve.api.service import Call, Nothing, Reply
from serve.api.shapes import InTenant, ShownMemory
from serve.reader.reader import View
from serve.summaries import graph
from store.text.mentions import EntityKind

Name = Annotated[
    str,
    Meta(description="A name or alias: store/log.py, EventLog.", min_length=1, max_length=2_000),
]


class AboutEntity(InTenant, frozen=True, kw_only=True):
    entity: Name
    hops: Annotated[int, Meta(description="How far from it.", ge=1, le=2)] = 1
    limit: Annotated[int, Meta(description="How many entities at most.", ge=1, le=200)] = 50


class ByPrefix(InTenant, frozen=True, kw_only=True):
    prefix: Annotated[
        str, Meta(description="How the name begins; every name, if left out.", max_length=2_000)
    ] = ""
    limit: Annotated[int, Meta(description="How many at most.", ge=1, le=200)] = 20


class Entity(msgspec.Struct, frozen=True, kw_only=True):
    """What the memories name. `memories` counts those that do; `aliases` are how they write it."""

    id: str
    kind: EntityKind
    name: str
    aliases: tuple[str, ...]
    memories: int


class EntityEdge(msgspec.Struct, frozen=True, kw_only=True):
    """Two entities that memories name together, by their ids. A memory that names m of them adds
    1 / (m - 1) to the weight.
    """

    source: str
    target: str
    weight: float


class Neighbourhood(msgspec.Struct, frozen=True, kw_only=True):
    """What lies around an entity; `centre` has the ids of all that the name stands for. `memories`
    are the newest that mention it, of `mentioned` at the last build.
    """

    centre: tuple[str, ...]
    nodes: tuple[Entity, ...]
    edges: tuple[EntityEdge, ...]
    memories: tuple[ShownMemory, ...]
    mentioned: int


class Entities(msgspec.Struct, frozen=True, kw_only=True):
    """The most mentioned first."""

    entities: tuple[Entity, ...]


def around(call: Call[AboutEntity, Nothing]) -> Reply:
    asked = call.query

    def of(view: View) -> dict[str, object]:
        return graph.shown(view, graph.neighbourhood(view, asked.entity, asked.hops, asked.limit))

    return Reply(call.tenant.reader.answered(of))


def named(call: Call[ByPrefix, Nothing]) -> Reply:
    asked = call.query
    found = call.tenant.reader.answered(
        lambda view: graph.beginning(view, asked.prefix, asked.limit)
    )
    return Reply({"entities": found})


OPERATIONS = (
    Operation(
        "GET",
        "/v1/graph",
        "getNeighbourhood",
        "Show what is mentioned with an entity, how strongly, and in which memories.",
        around,
        tag="graph",
        query=AboutEntity,
        answers={HTTPStatus.OK: Neighbourhood},
        problems=("not_found", "invalid_name"),
    ),
    Operation(
        "GET",
        "/v1/entities",
        "listEntities",
        "List what the memories name, by how a name or an alias of it begins.",
        named,
        tag="graph",
        query=ByPrefix,
        answers={HTTPStatus.OK: Entities},
        problems=("not_found", "invalid_name"),
    ),
)
