"""
What a program may say of a memory: the fields of drafts, of changes and of questions.

A test holds each to the API's own declarations.
"""

from datetime import datetime
from typing import Any, Literal, Required, TypedDict

Kind = Literal[
    "fact",
    "decision",
    "lesson",
    "goal",
    "pattern",
    "bugfix",
    "context",
    "antipattern",
    "insight",
    "preference",
    "milestone",
    "activity",
    "raw_turn",
    "observation",
    "summary",
    "statement",
]
Tier = Literal["auto", "working", "episodic", "semantic"]
Trust = Literal["user", "agent", "tool", "web"]
Relation = Literal["cause", "support", "conflict", "derived"]
GoalStatus = Literal["open", "done", "dropped", "blocked"]


class Fields(TypedDict, total=False):
    """What a memory may have beside its text."""

    id: str
    kind: Kind
    project: str
    session: str
    agent: str
    trust: Trust
    context: str
    action: str
    result: str
    tags: list[str]
    source: str
    created_by: str
    importance: float
    score: float
    pinned: bool
    tier: Tier
    parent_id: str
    source_ids: list[str]
    insight_type: str
    key: str
    value: str
    chain: str
    status: GoalStatus
    progress: float
    ttl_s: int
    created_at: datetime
    metadata: dict[str, Any]


class Draft(Fields, total=False):
    """A memory that is to be recorded."""

    content: Required[str]


class Changes(TypedDict, total=False):
    """The fields of a memory that are to be replaced, and why."""

    content: str
    context: str
    action: str
    result: str
    tags: list[str]
    importance: float
    tier: Tier
    status: GoalStatus
    progress: float
    ttl_s: int
    metadata: dict[str, Any]
    pinned: bool
    reason: str


class Filters(TypedDict, total=False):
    """Which memories are listed. `kind` and `tier` are any of those, `tag` all of them; `text` are
    words they hold. The project "" asks for memories that belong to none.
    """

    project: str
    kind: list[Kind]
    tier: list[Tier]
    tag: list[str]
    state: Literal["active", "expired", "archived", "superseded", "forgotten", "stale", "any"]
    pinned: bool
    key: str
    text: str
    since: datetime
    until: datetime
    sort: Literal["-created_at", "created_at", "-updated_at", "updated_at", "-importance"]


class Turn(TypedDict, total=False):
    """What somebody said in a conversation; `speaker` by name, where that is known."""

    role: Required[Literal["user", "assistant", "tool", "system"]]
    content: Required[str]
    at: datetime
    speaker: str


class Question(TypedDict, total=False):
    """How a recall may be asked; what is left out comes from the server's settings.

    `as_of` is a moment, or the position of an event in the log. The project "" asks for memories
    that belong to none; `cold` asks for what was archived or has expired too. With `touch` false
    no receipt is kept.
    """

    project: str
    top_k: int
    mode: Literal["auto", "lexical", "vector", "entity"]
    profile: Literal["balanced", "wal", "match"]
    kinds: list[Kind]
    tiers: list[Tier]
    tags: list[str]
    since: datetime
    until: datetime
    active_only: bool
    cold: bool
    as_of: datetime | int
    min_confidence: float
    min_score: float
    explain: bool
    touch: bool
