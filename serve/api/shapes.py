"""
Shapes: the parameters and answers that several operations share.

An answer is sent as the functions behind it made it; its shape here is what the API's document
says of it, and a test holds every answer to its shape.
"""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from store.events import GoalStatus, MemoryKind, Relation, Tier, Trust

TenantName = Annotated[str, Meta(description="Which memory; a tenant's token knows its own.")]
ProjectName = Annotated[str, Meta(description="A project's name: github.com/pallets/flask.")]
At = Annotated[str, Meta(description="A moment, UTC: 2026-11-20T13:08:56Z.")]


class InTenant(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The parameters of what concerns one tenant."""

    tenant: TenantName | None = None


class InProject(InTenant, frozen=True, kw_only=True):
    project: ProjectName | None = None


class Acknowledged(msgspec.Struct, frozen=True, kw_only=True):
    """A memory is on disk. `new` is false where the same was there already."""

    id: str
    seq: int
    new: bool


class ShownMemory(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A memory in short; what it does not have is left out."""

    id: str
    text: str
    kind: MemoryKind
    project: str | None
    at: At
    context: str | None = None
    action: str | None = None
    result: str | None = None
    tags: tuple[str, ...] = ()
    source: str | None = None
    created_by: str | None = None
    agent: str | None = None
    session: str | None = None
    trust: Trust = "user"
    pinned: bool = False
    state: str = "active"
    superseded_by: str | None = None
    ended_at: At | None = None


class Edge(msgspec.Struct, frozen=True, kw_only=True):
    source: str
    relation: Relation
    target: str


class WholeMemory(ShownMemory, frozen=True, kw_only=True, omit_defaults=True):
    """All there is of a memory: its edges both ways, its lineage, what happened to it."""

    tier: Tier | None = None
    importance: float | None = None
    score: float | None = None
    parent_id: str | None = None
    source_ids: tuple[str, ...] = ()
    duplicates: tuple[Any, ...] = ()
    insight_type: str | None = None
    key: str | None = None
    value: str | None = None
    chain: str | None = None
    status: GoalStatus | None = None
    progress: float | None = None
    updated_at: At | None = None
    expires_at: At | None = None
    metadata: dict[str, Any] = {}
    edges: tuple[Edge, ...] = ()
    history: tuple[dict[str, Any], ...] = ()
    made: dict[str, Any] | None = None
    sources: tuple[dict[str, Any], ...] = ()
    made_of_it: tuple[dict[str, Any], ...] = ()
    stale_because: Any = None
