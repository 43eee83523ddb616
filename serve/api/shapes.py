"""
Shapes: the parameters and answers that several operations share.

An answer is sent as the functions behind it made it; its shape here is what the API's document
says of it, and a test holds every answer to its shape.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from serve.fields import ProjectName, TenantName
from serve.reader.memory_json import Role
from store.log.commands import Draft
from store.log.event_kinds import GoalStatus, Maker, MemoryKind, Relation, Tier, Trust

State = Literal["active", "archived", "superseded", "forgotten", "stale"]
At = Annotated[str, Meta(description="A moment, UTC: 2026-11-20T13:08:56Z.")]


class InTenant(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The parameters of what concerns one tenant."""

    tenant: TenantName | None = None


class InProject(InTenant, frozen=True, kw_only=True):
    project: ProjectName | None = None


class SentDraft(Draft, frozen=True, kw_only=True):
    """A memory as a caller asks for it: what is recorded, and whose it is."""

    made: None = None  # is for jobs to say


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
    state: State | Literal["expired"] = "active"
    superseded_by: str | None = None
    ended_at: At | None = None


class Line(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A memory as a line of a summary: its text cut, what it does not have left out."""

    id: str
    at: At
    kind: MemoryKind
    role: Role
    trust: Trust
    text: str
    project: str | None = None
    key: str | None = None
    value: str | None = None
    status: GoalStatus | None = None
    progress: float | None = None
    ended_at: At | None = None
    superseded_by: str | None = None


class Edge(msgspec.Struct, frozen=True, kw_only=True):
    """A reasoning edge, drawn from `source`."""

    source: str
    relation: Relation
    target: str


class Duplicate(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Another memory that says the same, or, an update, the same with another value."""

    id: str
    state: State
    kind: Literal["exact", "near", "update"]
    likeness: float
    was: str | None = None
    becomes: str | None = None
    is_newer: bool | None = None


class Relative(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a memory was made of, or what was made of it: a memory, or an event of a session."""

    id: str
    kind: MemoryKind | None = None
    trust: Trust | None = None
    state: State | Literal["unknown"] | None = None
    job: Maker | None = None
    text: str | None = None
    event: str | None = None
    at: At | None = None


class MadeBy(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a job came to a memory; what a model was paid for it."""

    job: Maker
    model: str | None = None
    prompt_sha256: str | None = None
    tokens: int | None = None
    cost_usd: float | None = None
    plan: str | None = None


class ShownValue(ShownMemory, frozen=True, kw_only=True, omit_defaults=True):
    """A memory and when it held; `until` is null for what still holds."""

    from_: At = msgspec.field(name="from")
    until: At | None
    key: str | None = None
    value: str | None = None


class WholeMemory(ShownMemory, frozen=True, kw_only=True, omit_defaults=True):
    """All there is of a memory: its edges both ways, its lineage, what happened to it.

    `history` are the events about it, oldest first: each with `seq`, `at`, `event` (its kind), and
    what that said. Of a forgotten memory only its tombstone is shown.
    """

    tier: Tier | None = None
    importance: float | None = None
    score: float | None = None
    parent_id: str | None = None
    source_ids: tuple[str, ...] = ()
    duplicates: tuple[Duplicate, ...] = ()
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
    made: MadeBy | None = None
    sources: tuple[Relative, ...] = ()
    made_of_it: tuple[Relative, ...] = ()
    stale_because: tuple[str, ...] = ()
