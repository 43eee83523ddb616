"""
What a server says of memories and recalls. All values are frozen; a field that a later server adds
is passed over.

A test holds each to the API's own declarations, so none says less or more than is sent.
"""

from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct


class Health(Struct, frozen=True, kw_only=True):
    status: str
    version: str


class Acknowledged(Struct, frozen=True, kw_only=True):
    """A memory is on disk. `new` is false where the same was there already."""

    id: str
    seq: int
    new: bool


class AllAcknowledged(Struct, frozen=True, kw_only=True):
    memories: tuple[Acknowledged, ...]


class Memory(Struct, frozen=True, kw_only=True):
    """A memory in short. `state` is active, superseded, archived, forgotten or expired."""

    id: str
    text: str
    kind: str
    project: str | None
    at: datetime
    context: str | None = None
    action: str | None = None
    result: str | None = None
    tags: tuple[str, ...] = ()
    source: str | None = None
    created_by: str | None = None
    agent: str | None = None
    session: str | None = None
    trust: str = "user"
    pinned: bool = False
    state: str = "active"
    superseded_by: str | None = None
    ended_at: datetime | None = None


class Hit(Memory, frozen=True, kw_only=True):
    """A memory that came back. `confidence` is the calibrated chance that it bears on the query;
    `why` is told where it was asked to be explained.
    """

    role: str
    score: float
    confidence: float
    copies: tuple[str, ...] = ()
    conflicts_with: str | None = None
    insights: tuple[str, ...] = ()
    history: tuple[dict[str, Any], ...] = ()
    why: dict[str, Any] | None = None


class Recalled(Struct, frozen=True, kw_only=True):
    """The answer to a recall. `recall` is its receipt's id, by which it can be rated; `below_bar`
    counts what was not sure enough to come back.
    """

    hits: tuple[Hit, ...]
    below_bar: int
    min_confidence: float
    degraded: bool
    manifest: int | None
    watermark: int
    took_ms: float
    notices: tuple[str, ...] = ()
    recall: str | None = None
    why: dict[str, Any] | None = None


class Rated(Struct, frozen=True, kw_only=True):
    id: str
    seq: int


class Edge(Struct, frozen=True, kw_only=True):
    """A reasoning edge, drawn from `source`."""

    source: str
    relation: str
    target: str


class DrawnEdge(Edge, frozen=True, kw_only=True):
    """An edge is on disk. `new` is false where it was there already."""

    seq: int
    new: bool


class Duplicate(Struct, frozen=True, kw_only=True):
    """Another memory that says the same, or, an update, the same with another value."""

    id: str
    state: str
    kind: str
    likeness: float
    was: str | None = None
    becomes: str | None = None
    is_newer: bool | None = None


class Relative(Struct, frozen=True, kw_only=True):
    """What a memory was made of, or what was made of it: a memory, or an event of a session."""

    id: str
    kind: str | None = None
    trust: str | None = None
    state: str | None = None
    job: str | None = None
    text: str | None = None
    event: str | None = None
    at: datetime | None = None


class MadeBy(Struct, frozen=True, kw_only=True):
    """How a job came to a memory; what a model was paid for it."""

    job: str
    model: str | None = None
    prompt_sha256: str | None = None
    tokens: int | None = None
    cost_usd: float | None = None
    plan: str | None = None


class WholeMemory(Memory, frozen=True, kw_only=True):
    """All there is of a memory; of a forgotten one its tombstone.

    `history` are the events about it, oldest first. `etag` names this state of it: pass it on where
    a change must not undo somebody else's.
    """

    tier: str | None = None
    importance: float | None = None
    score: float | None = None
    parent_id: str | None = None
    source_ids: tuple[str, ...] = ()
    duplicates: tuple[Duplicate, ...] = ()
    insight_type: str | None = None
    key: str | None = None
    value: str | None = None
    chain: str | None = None
    status: str | None = None
    progress: float | None = None
    updated_at: datetime | None = None
    expires_at: datetime | None = None
    metadata: dict[str, Any] = {}
    edges: tuple[Edge, ...] = ()
    history: tuple[dict[str, Any], ...] = ()
    made: MadeBy | None = None
    sources: tuple[Relative, ...] = ()
    made_of_it: tuple[Relative, ...] = ()
    stale_because: tuple[str, ...] = ()
    etag: str = ""


class Value(Memory, frozen=True, kw_only=True):
    """A memory and when it held; `until` is None for what still holds."""

    from_: datetime = msgspec.field(name="from")
    until: datetime | None
    key: str | None = None
    value: str | None = None


class History(Struct, frozen=True, kw_only=True):
    """A memory, what it replaced and what replaced it, the newest first."""

    id: str
    memories: tuple[Value, ...]


class KeyHistory(Struct, frozen=True, kw_only=True):
    """The memories that gave a key its values, the newest first."""

    key: str
    memories: tuple[Value, ...]


class ListedMemory(Memory, frozen=True, kw_only=True):
    """A memory in a list; of a forgotten one its tombstone."""

    tier: str | None = None
    importance: float | None = None
    key: str | None = None
    value: str | None = None
    status: str | None = None
    progress: float | None = None
    updated_at: datetime | None = None
    expires_at: datetime | None = None


class MemoryPage(Struct, frozen=True, kw_only=True):
    """A page of a list; `total` counts all that pass the filters."""

    memories: tuple[ListedMemory, ...]
    next: str | None
    total: int
