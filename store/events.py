"""
The kinds of event: one frozen value for each, to and from JSON.

An event says that something happened; nothing in it is ever changed. What can be computed from
events (use counts, duplicates, what is current) is never an event but a projection's business.
A kind this version does not know is read as `Unknown` and left out of every projection, so a log
written by a later version can still be read.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, get_args

import msgspec

from store.agent_events import (
    Accepted,
    Acted,
    Followed,
    Outcome,
    Prompted,
    Proposed,
    Rejected,
    SessionTold,
    Surfaced,
)
from store.body import Body, Id, Instant, Key, Name, Seconds, Tag, Unit
from store.job_events import (
    Actions,
    Adopted,
    Applied,
    Called,
    Judged,
    Made,
    Planned,
    Staled,
    Undone,
)

MemoryKind = Literal[
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
State = Literal["active", "archived", "superseded", "forgotten", "stale", "open"]  # of a memory

STATEMENT = "statement"  # the user's own words, quoted, until somebody makes a rule of them
EPISODE = "episode"  # one turn of an agent: folded from what its hooks told, never recorded
RECORDED_KINDS: tuple[str, ...] = get_args(MemoryKind)
MEMORY_KINDS: tuple[str, ...] = (*RECORDED_KINDS, EPISODE)
TIERS: tuple[str, ...] = get_args(Tier)
TRUSTS: tuple[str, ...] = get_args(Trust)
RELATIONS: tuple[str, ...] = get_args(Relation)
GOAL_STATUSES: tuple[str, ...] = get_args(GoalStatus)


class Recorded(Body, frozen=True, kw_only=True):
    """A memory was made; the event's id is the memory's id.

    `key` ("deploy.region") makes it a keyed fact: the newest of a key in a project holds, the
    older ones are kept as its history. `chain` names the milestones that follow one another.
    `created_at` is when it happened, where that is not when it was written down. `made` is set
    where a job made it of its `source_ids`: it holds only as long as each of them does.
    """

    content: str
    kind: MemoryKind = "fact"
    context: str | None = None
    action: str | None = None
    result: str | None = None
    tags: tuple[Tag, ...] = ()
    source: Name | None = None
    created_by: Name | None = None
    importance: Unit | None = None
    score: Unit | None = None
    pinned: bool = False
    tier: Tier = "auto"
    parent_id: Id | None = None
    source_ids: tuple[Id, ...] = ()
    insight_type: Name | None = None
    key: Key | None = None
    value: str | None = None
    chain: Name | None = None
    status: GoalStatus | None = None
    progress: Unit | None = None
    ttl_s: Seconds | None = None
    created_at: Instant | None = None
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)
    made: Made | None = None


class Revised(Body, frozen=True, kw_only=True):
    """Some fields of a memory were replaced; None leaves a field as it is."""

    content: str | None = None
    context: str | None = None
    action: str | None = None
    result: str | None = None
    tags: tuple[Tag, ...] | None = None
    importance: Unit | None = None
    tier: Tier | None = None
    status: GoalStatus | None = None
    progress: Unit | None = None
    ttl_s: Seconds | None = None
    metadata: dict[str, Any] | None = None
    reason: str | None = None


class Superseded(Body, frozen=True, kw_only=True):
    """A newer memory took this one's place; both stay readable."""

    by: Id
    reason: str | None = None


class Archived(Body, frozen=True, kw_only=True):
    """Put away: recalled only when the archive is asked for."""

    reason: str | None = None


class Forgotten(Body, frozen=True, kw_only=True):
    """A tombstone: never recalled again, unless restored."""

    reason: str | None = None


class Restored(Body, frozen=True, kw_only=True):
    """Forgotten, archived, superseded or expired before, and current again.

    From quarantine it comes back in the `state` that it had.
    """

    reason: str | None = None
    state: State = "active"


class Quarantined(Body, frozen=True, kw_only=True):
    """A build's audit failed on this memory alone: hidden until a person released or forgot it."""

    check: str
    reason: str
    was: State = "active"


class Erased(Body, frozen=True, kw_only=True):
    """What the memory said was blanked, here in the log too: nothing brings it back.

    `events` counts those that were rewritten for it. An episode that is `aged` was erased because
    its time was over: what was made of it stays.
    """

    events: int = 0
    aged: bool = False


class Lost(Body, frozen=True, kw_only=True):
    """Events that had these numbers, first and last of each gap, are gone and come never back.

    It takes the number after the newest that was ever given. `ids` are those that could be read.
    """

    gaps: tuple[tuple[int, int], ...]
    ids: tuple[str, ...] = ()


class Pinned(Body, frozen=True, kw_only=True):
    pinned: bool = True


class Linked(Body, frozen=True, kw_only=True):
    """A reasoning edge from the subject to another memory."""

    target: Id
    relation: Relation


class Hit(msgspec.Struct, frozen=True):
    id: str
    score: float
    confidence: float


class Route(msgspec.Struct, frozen=True):
    """What the router chose for a recall, in which state, and how likely it was to choose so.

    `tried` is the level whose action was drawn instead of served; None where all were served.
    """

    state: str
    actions: Actions
    propensity: float
    tried: str | None = None


class Recalled(Body, frozen=True, kw_only=True):
    """The receipt of one recall: what was asked, from which state, what came back.

    `characters` is the length of the block that a prompt's hook put before the model.
    """

    query: str
    mode: str
    manifest: int | None
    watermark: int
    hits: tuple[Hit, ...]
    dropped: dict[str, int]
    took_us: int
    route: Route | None = None
    characters: int | None = None


class Rated(Body, frozen=True, kw_only=True):
    """A person or an agent said whether a memory, or all that a recall brought, helped.

    The subject is the memory, or the recall's receipt; -1 is harmful, 1 decisive.
    """

    verdict: Annotated[float, msgspec.Meta(ge=-1.0, le=1.0)]
    reason: str | None = None


class Unknown(Body, frozen=True, kw_only=True):
    """An event of a kind that a later version of mnemolog added."""

    kind: str


KINDS: Mapping[str, type[Body]] = {
    "recorded": Recorded,
    "revised": Revised,
    "superseded": Superseded,
    "archived": Archived,
    "forgotten": Forgotten,
    "restored": Restored,
    "quarantined": Quarantined,
    "erased": Erased,
    "lost": Lost,
    "pinned": Pinned,
    "linked": Linked,
    "recalled": Recalled,
    "rated": Rated,
    "prompted": Prompted,
    "action": Acted,
    "session": SessionTold,
    "surfaced": Surfaced,
    "followed": Followed,
    "outcome": Outcome,
    "proposed": Proposed,
    "accepted": Accepted,
    "rejected": Rejected,
    "planned": Planned,
    "applied": Applied,
    "undone": Undone,
    "staled": Staled,
    "judged": Judged,
    "adopted": Adopted,
    "called": Called,
}
# Events that change no memory but an episode, which they are parts of: they never make a memory
# fresh and are worth no rebuild alone.
RECEIPTS = frozenset(
    """recalled prompted action session surfaced followed outcome proposed accepted
    rejected planned applied undone judged adopted called lost""".split()
)

_kind_of = {body: kind for kind, body in KINDS.items()}
_decoders = {kind: msgspec.json.Decoder(body) for kind, body in KINDS.items()}


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened. `at` is microseconds UTC; `seq` is 0 until the log gave it one."""

    id: str
    at: int
    body: Body
    subject: str
    project: str | None = None
    session: str | None = None
    agent: str | None = None
    trust: Trust = "user"
    seq: int = 0

    @property
    def kind(self) -> str:
        return self.body.kind if isinstance(self.body, Unknown) else _kind_of[type(self.body)]

    def numbered(self, seq: int) -> "Event":
        return replace(self, seq=seq)


def encode(body: Body) -> str:
    """Return the body as JSON, keys in declared order, fields at their default left out."""
    return msgspec.json.encode(body).decode()


def decode(kind: str, body: str) -> Body:
    """Return the body that `encode` wrote; a kind of a later version gives `Unknown`.

    Raise msgspec.ValidationError or DecodeError where the JSON is not of that kind.
    """
    decoder = _decoders.get(kind)
    return Unknown(kind=kind) if decoder is None else decoder.decode(body)


def is_erased(body: Body) -> bool:
    """Return whether a body is what erasing left of one: no memory is recorded, and no prompt kept,
    without a text.
    """
    if isinstance(body, Prompted):
        return not body.prompt
    return isinstance(body, Recorded) and not body.content
