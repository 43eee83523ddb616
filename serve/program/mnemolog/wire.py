"""
Wire types: what programs send to a memory's server and what it answers, declared once.

The server documents and checks its answers by these types, the client decodes by them. All values
are frozen. A client takes what a later server adds: unknown fields are passed over, and a word it
does not know (a new kind of memory) is a word all the same; the document names those of today.
"""

from datetime import datetime
from typing import Annotated, Any, Literal, Required, TypedDict, get_args

from msgspec import Meta, Struct, field

RecordedKind = Literal[
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
Kind = Literal[RecordedKind, "episode"]  # an episode is folded from hooks, never recorded
Tier = Literal["auto", "working", "episodic", "semantic"]
Trust = Literal["user", "agent", "tool", "web"]
Author = Literal["typed", "quoted", "program", "agent", "tool", "web", "repository"]
Hazard = Literal["fetch and run", "source", "check", "secret", "unasked"]  # of held advice
Relation = Literal["cause", "support", "conflict", "derived"]
GoalStatus = Literal["open", "done", "dropped", "blocked"]
Scope = Literal["read", "write", "admin"]
Category = Literal["plan", "recommendation", "lesson"]  # of proposals
ProposalState = Literal["waiting", "stale", "accepted", "applied", "rejected", "undone"]
JobState = Literal["queued", "running", "done", "dead"]
_Maker = Literal[
    "consolidate",
    "reflect",
    "distill",
    "facts",
    "importance",
    "archive",
    "judge",
    "route",
    "recommend",
    "settings",
    "bulk",
]
_State = Literal["active", "archived", "superseded", "forgotten", "stale"]  # of a memory


def _words(of: Any) -> Meta:
    """Name the words of a vocabulary in the document; a decoder takes others as well."""
    return Meta(extra_json_schema={"enum": sorted(get_args(of))})


def _either(of: Any, other: Any) -> Meta:
    """Name the words of two vocabularies."""
    both = [{"enum": sorted(get_args(one))} for one in (of, other)]
    return Meta(extra_json_schema={"anyOf": both})


# Requests

Place = datetime | int | str  # in the log: a time, an event's number, a commit that was imported


class Fields(TypedDict, total=False):
    """What a memory may have beside its text."""

    id: str
    kind: RecordedKind
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
    """Which memories are listed. `kind`, `tier`, `trust` and `session` are any of those, `tag` all
    of them; `text` are words they hold. The project "" asks for memories that belong to none.
    `for_agents` leaves out the words of what is held back from agents until it is accepted.
    """

    project: str
    kind: list[Kind]
    tier: list[Tier]
    trust: list[Trust]
    session: list[str]
    tag: list[str]
    state: Literal["active", "expired", "archived", "superseded", "forgotten", "stale", "any"]
    pinned: bool
    key: str
    text: str
    since: datetime
    until: datetime
    for_agents: bool
    sort: Literal["-created_at", "created_at", "-updated_at", "updated_at", "-importance"]
    known_at: Place


class Turn(TypedDict, total=False):
    """What somebody said in a conversation; `speaker` by name, where that is known."""

    role: Required[Literal["user", "assistant", "tool", "system"]]
    content: Required[str]
    at: datetime
    speaker: str


class Question(TypedDict, total=False):
    """How a recall may be asked; what is left out comes from the server's settings.

    `as_of` is a moment, or the position of an event in the log. `known_at` is one, or a commit that
    was imported, and asks for what was known there. The project "" asks for memories that belong to
    none; `cold` asks for what was archived or has expired too. With `touch` false no receipt is
    kept. `for_agents` leaves out advice that is held back from agents until a person accepts it.
    """

    project: str
    top_k: int
    mode: Literal["auto", "lexical", "vector", "entity"]
    profile: Literal["balanced", "wal", "match"]
    kinds: list[Kind]
    tiers: list[Tier]
    trusts: list[Trust]
    sessions: list[str]
    tags: list[str]
    since: datetime
    until: datetime
    active_only: bool
    cold: bool
    as_of: datetime | int
    known_at: Place
    min_confidence: float
    min_score: float
    explain: bool
    touch: bool
    for_agents: bool


class ReceiptFilters(TypedDict, total=False):
    """Which receipts. `memory` asks for those that brought it, `silent` for those without hits."""

    project: str
    since: datetime
    until: datetime
    session: str
    memory: str
    silent: bool


# What answers are made of. `One...` is a word of an open vocabulary. The document leaves out the
# format that is None, of a moment, and the type beside the words of an open vocabulary.

At = Annotated[
    datetime,
    Meta(
        description="A moment, UTC: 2026-11-20T13:08:56Z.",
        extra_json_schema={"format": None},
    ),
]
Timestamp = Annotated[datetime, Meta(extra_json_schema={"format": None})]
DueDay = Annotated[str, Meta(extra_json_schema={"format": "date"})]
Id = Annotated[str, Meta(extra_json_schema={"pattern": r"\A[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}\Z"})]
Share = Annotated[float, Meta(extra_json_schema={"minimum": 0.0, "maximum": 1.0})]
Verdict = Annotated[float, Meta(extra_json_schema={"minimum": -1.0, "maximum": 1.0})]
OneKind = Annotated[str, _words(Kind)]
OneTier = Annotated[str, _words(Tier)]
OneTrust = Annotated[str, _words(Trust)]
OneAuthor = Annotated[str, _words(Author)]
OneHazard = Annotated[str, _words(Hazard)]
OneRelation = Annotated[str, _words(Relation)]
OneStatus = Annotated[str, _words(GoalStatus)]
OneScope = Annotated[str, _words(Scope)]
OneCategory = Annotated[str, _words(Category)]
OneProposalState = Annotated[str, _words(ProposalState)]
OneJobState = Annotated[str, _words(JobState)]
State = Annotated[str, _words(_State)]
ShownState = Annotated[str, _either(_State, Literal["expired"])]
SourceState = Annotated[str, _either(_State, Literal["unknown"])]
TokenState = Annotated[str, _words(Literal["active", "expired", "revoked"])]
Role = Annotated[str, _words(Literal["rule", "fact"])]
Likeness = Annotated[str, _words(Literal["exact", "near", "update"])]
ConflictSort = Annotated[str, _words(Literal["overridden", "facts", "linked", "wording", "stale"])]
EntityKind = Annotated[
    str,
    _words(
        Literal[
            "file",
            "symbol",
            "package",
            "command",
            "error",
            "person",
            "url",
            "name",
            "host",
            "ticket",
        ]
    ),
]
Effort = Annotated[str, _words(Literal["test", "build", "lint", "deploy", "commit", "install"])]
Judge = Annotated[str, _words(Literal["heuristic", "model"])]
Maker = Annotated[str, _words(_Maker)]


# Memories


class Acknowledged(Struct, frozen=True, kw_only=True):
    """A memory is on disk. `new` is false where the same was there already."""

    id: str
    seq: int
    new: bool


class AllAcknowledged(Struct, frozen=True, kw_only=True):
    memories: tuple[Acknowledged, ...]


class ShownMemory(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A memory in short; what it does not have is left out. `held` says why it is held back from
    agents until a person accepts it.
    """

    id: str
    text: str
    kind: OneKind
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
    trust: OneTrust = "user"
    author: OneAuthor | None = None
    pinned: bool = False
    state: ShownState = "active"
    superseded_by: str | None = None
    ended_at: At | None = None
    held: OneHazard | None = None


class Edge(Struct, frozen=True, kw_only=True):
    """A reasoning edge, drawn from `source`."""

    source: str
    relation: OneRelation
    target: str


class DrawnEdge(Edge, frozen=True, kw_only=True):
    """An edge is on disk. `new` is false where a request was sent again."""

    seq: int
    new: bool


class Duplicate(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Another memory that says the same, or, an update, the same with another value."""

    id: str
    state: State
    kind: Likeness
    likeness: float
    was: str | None = None
    becomes: str | None = None
    is_newer: bool | None = None


class Relative(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a memory was made of, or what was made of it: a memory, or an event of a session."""

    id: str
    kind: OneKind | None = None
    trust: OneTrust | None = None
    state: SourceState | None = None
    job: Maker | None = None
    text: str | None = None
    event: str | None = None
    at: At | None = None


class MadeBy(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a job came to a memory; what a model was paid for it."""

    job: Maker
    model: str | None = None
    prompt_sha256: str | None = None
    tokens: int | None = None
    cost_usd: float | None = None
    plan: str | None = None


class Ancestor(Relative, frozen=True, kw_only=True, omit_defaults=True):
    """A memory or an event of a lineage, and how a job came to it. `of` is the memory that it was
    made into, or that it was made of; `seq`, `at`, `session` and `agent` are those of the event
    that began it.
    """

    of: str | None = None
    made: MadeBy | None = None
    seq: int | None = None
    session: str | None = None
    agent: str | None = None


class RecallOfLineage(Struct, frozen=True, kw_only=True):
    """A recall, the memory of the lineage that it returned, and at which rank."""

    id: str
    at: At
    query: str
    memory: str
    rank: int


class RecallsOfLineage(Struct, frozen=True, kw_only=True):
    """How many recalls returned a memory, and how many only what was made of it; the newest of
    both. `has_older` says that the oldest receipts were not looked at.
    """

    returned_it: int
    returned_what_was_made_of_it: int
    has_older: bool
    newest: tuple[RecallOfLineage, ...]


class Lineage(Ancestor, frozen=True, kw_only=True, omit_defaults=True):
    """All that a memory or an event was made of and all that was made of it, the nearest first;
    what the models that made it and its sources took; the recalls that it took part in.
    """

    sources: tuple[Ancestor, ...]
    made_of_it: tuple[Ancestor, ...]
    tokens: int
    cost_usd: float
    recalls: RecallsOfLineage


class WholeMemory(ShownMemory, frozen=True, kw_only=True, omit_defaults=True):
    """All there is of a memory: its edges both ways, its lineage, what happened to it.

    `history` are the events about it, oldest first: each with `seq`, `at`, `event` (its kind), and
    what that said. Of a forgotten memory only its tombstone is shown.
    """

    tier: OneTier | None = None
    importance: float | None = None
    score: float | None = None
    parent_id: str | None = None
    source_ids: tuple[str, ...] = ()
    duplicates: tuple[Duplicate, ...] = ()
    insight_type: str | None = None
    key: str | None = None
    value: str | None = None
    chain: str | None = None
    status: OneStatus | None = None
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


class ShownValue(ShownMemory, frozen=True, kw_only=True, omit_defaults=True):
    """A memory and when it held; `until` is null for what still holds."""

    from_: At = field(name="from")
    until: At | None
    key: str | None = None
    value: str | None = None


class HistoryOfMemory(Struct, frozen=True, kw_only=True):
    """A memory, what it replaced and what replaced it, the newest first."""

    id: str
    memories: tuple[ShownValue, ...]


class HistoryOfKey(Struct, frozen=True, kw_only=True):
    """The memories that gave a key its values, the newest first."""

    key: str
    memories: tuple[ShownValue, ...]


class ListedMemory(ShownMemory, frozen=True, kw_only=True, omit_defaults=True):
    """A memory in a list; of a forgotten one only its tombstone."""

    tier: OneTier | None = None
    importance: float | None = None
    key: str | None = None
    value: str | None = None
    status: OneStatus | None = None
    progress: float | None = None
    updated_at: At | None = None
    expires_at: At | None = None
    metadata: dict[str, Any] = {}


class Memories(Struct, frozen=True, kw_only=True):
    """A page; `next` is the cursor of the one after it, null at the end. `total` counts all that
    pass the filters, on whatever page.
    """

    memories: tuple[ListedMemory, ...]
    next: str | None
    total: int


# Recalls and their receipts


class Replaced(Struct, frozen=True, kw_only=True):
    """What a memory took the place of."""

    id: str
    text: str
    at: At
    trust: OneTrust


class Successor(Struct, frozen=True, kw_only=True):
    """What holds in place of a hit: a memory, the words of it that say so, and when they came."""

    id: str
    text: str
    at: At


class ShownHit(ShownMemory, frozen=True, kw_only=True, omit_defaults=True):
    """A memory that came back. `confidence` is the calibrated chance that it bears on the query;
    where that is low, it is `unsure`: only among the nearest.

    `copies` say the same and were folded into it; `conflicts_with` is a newer one that says another
    value; of a hit that no longer holds `replaced_by` does since `until`, and where it says more
    than that, `outdated` is the sentence that is over; `no_longer` is what a hit quotes only to say
    that it is over; `history` what it replaced, newest first; `insights` are of jobs, and gave way
    to it. A `rule` is to be followed, a `fact` is background. `why`, where asked for, is its
    evidence.
    """

    role: Role
    score: float
    confidence: float
    metadata: dict[str, Any] = {}
    unsure: bool = False
    copies: tuple[str, ...] = ()
    conflicts_with: str | None = None
    until: At | None = None
    replaced_by: Successor | None = None
    outdated: str | None = None
    no_longer: str | None = None
    insights: tuple[str, ...] = ()
    history: tuple[Replaced, ...] = ()
    why: dict[str, Any] | None = None


class Recalled(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer. `recall` is its receipt's id, by which it can be rated; `below_bar` counts what
    lay below `min_confidence`, `held_back` what was left out for agents. `hint` says why nothing
    came back, and what to do. `known_at` is the last event that was known, where the past was
    asked.
    """

    hits: tuple[ShownHit, ...]
    below_bar: int
    min_confidence: float
    degraded: bool
    manifest: int | None
    watermark: int
    took_ms: float
    notices: tuple[str, ...] = ()
    hint: str | None = None
    recall: str | None = None
    why: dict[str, Any] | None = None
    known_at: int | None = None
    held_back: int = 0


class Rated(Struct, frozen=True, kw_only=True):
    id: str
    seq: int


class AsHit(Struct, frozen=True, kw_only=True):
    """The place of a memory among the hits, from 1."""

    rank: int
    score: float
    confidence: float


class ReceiptInShort(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A recall: `hits` came back, the surest with this `confidence`, `dropped` did not. `rated` is
    the newest rating of it. `as_hit` is told where a memory was asked for.
    """

    id: Id
    seq: int
    at: At
    query: str
    mode: str
    project: str | None
    session: str | None
    agent: str | None
    hits: int
    confidence: float | None
    dropped: int
    took_ms: float
    rated: Verdict | None
    as_hit: AsHit | None = None


class Receipts(Struct, frozen=True, kw_only=True):
    """The newest first. `looked_at` were read for it: with few that pass a page may be short, and
    `next` the cursor of what is older all the same; null at the end.
    """

    receipts: tuple[ReceiptInShort, ...]
    next: str | None
    looked_at: int


class HitOfReceipt(AsHit, frozen=True, kw_only=True):
    """What came back, and the memory as it is now; null where it is no more."""

    id: Id
    memory: ShownMemory | None


class Rating(Struct, frozen=True, kw_only=True):
    """What was said of the recall, or of a memory that it brought."""

    of: Id
    at: At
    verdict: Verdict
    reason: str | None
    trust: OneTrust


class OneVerdict(Struct, frozen=True, kw_only=True):
    id: Id
    verdict: Verdict
    evidence: str | None


class Judgment(Struct, frozen=True, kw_only=True):
    """How the hits turned out, by what was done afterwards."""

    at: At
    by: Judge
    verdicts: tuple[OneVerdict, ...]


class OutcomeOfTurn(Struct, frozen=True, kw_only=True):
    """How tests, a build, ... came out in the turn that the recall was part of."""

    at: At
    effort: Effort
    passed: bool
    before: bool | None


class Route(Struct, frozen=True):
    """What the router chose for a recall, in which state, and how likely it was to choose so.

    `tried` is the level whose action was drawn instead of served; None where all were served.
    """

    state: str
    actions: dict[str, str]
    propensity: float
    tried: str | None = None


class Basis(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What decided an answer besides its query, its moment and the state of the memory: enough to
    ask the same again.

    `version` is mnemolog's, `code` a digest of the files that decide answers, `embedder` the
    model that vectors are of, `built` how many events of the log the snapshots held. What is left
    out was as that version has it by default; `weights` are the profile's, in the order of its
    fields, `narrowed` what the filter asked of a memory, moments in microseconds UTC; `no_project`
    asked for memories of none. `requested` names what of it was asked for in place of the setting.
    `moment` is the time to which ages were counted, microseconds UTC; 0 in a receipt of an earlier
    version. A `degraded` answer did without an index or the embedder; a query that was `cut` is
    kept in part.
    """

    version: str
    embedder: str
    code: str = ""
    built: int = 0
    top_k: int | None = None
    fusion: str | None = None
    profile: str | None = None
    weights: tuple[float, ...] = ()
    min_confidence: float | None = None
    min_score: float | None = None
    narrowed: dict[str, Any] = {}
    no_project: bool = False
    requested: tuple[str, ...] = ()
    degraded: bool = False
    cut: bool = False
    moment: int = 0


class Trial(Struct, frozen=True):
    """Two ways to answer, interleaved: as the settings are, A, and as a plan would `set` them, B.
    `teams` names the one that brought each hit, in order; "-" where neither did.
    """

    plan: Id
    set: tuple[str, ...]
    teams: str


class Receipt(Struct, frozen=True, kw_only=True):
    """All there is of a recall: `dropped` counts what did not come back, by the reason. `digest`
    are 16 hex digits of the SHA-256 of what did: of the block of `characters` that a prompt's hook
    put before the model, else of all hits. Receipts of earlier versions have neither.
    """

    id: Id
    seq: int
    at: At
    query: str
    mode: str
    project: str | None
    session: str | None
    agent: str | None
    manifest: int | None
    watermark: int
    door: str | None
    basis: Basis | None
    digest: str | None
    characters: int | None
    took_ms: float
    hits: tuple[HitOfReceipt, ...]
    dropped: dict[str, int]
    route: Route | None
    trial: Trial | None
    ratings: tuple[Rating, ...]
    judged: Judgment | None
    outcomes: tuple[OutcomeOfTurn, ...]


# Proposals


class ProposalInShort(Struct, frozen=True, kw_only=True):
    """Something that waits for a word, or was answered. `changes` counts its steps, `left` those
    that wait for the next plan; `stale_because` says what changed since.
    """

    id: Id
    sort: OneCategory
    job: Maker | None
    state: OneProposalState
    at: At
    project: str | None
    title: str
    because: tuple[str, ...]
    stale_because: tuple[str, ...]
    changes: int
    left: int
    plan: Id | None
    memory: Id | None
    model: str | None
    cost_usd: float


class Proposals(Struct, frozen=True, kw_only=True):
    """The newest first; `more` were left out."""

    proposals: tuple[ProposalInShort, ...]
    more: int


class Change(Struct, frozen=True, kw_only=True):
    """A field before and after; null where it had no value, or has none."""

    field: str
    before: Any
    after: Any


class ProposedChange(Struct, frozen=True, kw_only=True):
    """What a yes does to one memory. `text` are its words where they stay as they are; `other` is
    the memory that takes its place, or that it is linked to. `answer` is of this step alone.
    """

    verb: str
    event: str
    subject: Id
    why: str
    text: str | None
    changes: tuple[Change, ...]
    other: Id | None
    relation: str | None
    evidence: dict[str, Any]
    answer: OneProposalState = "waiting"


class ChangedAnswer(Struct, frozen=True, kw_only=True):
    """A recall, and the memories that come back before and after a change."""

    recall: Id
    before: tuple[Id, ...]
    after: tuple[Id, ...]


class ReplayDiff(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a change does to past recalls, asked again of the memory as it was known.

    `spoke` are the recalls that bring something before the change, `silenced` those of them that
    bring nothing after it, `awoken` those that bring something only after it; `led` ones begin with
    another memory, `reordered` ones bring the same in another order. `hits` came back before,
    `gone` of them do not after, `new` are those that only come after; `helpful` and `harmful` of
    them were rated or followed. `characters` and `took_us`, microseconds, are those before and
    after. `answers` are the first of the changed ones.
    """

    asked: int = 0
    changed: int = 0
    reordered: int = 0
    spoke: int = 0
    silenced: int = 0
    awoken: int = 0
    led: int = 0
    hits: int = 0
    gone: int = 0
    new: int = 0
    helpful: int = 0
    helpful_gone: int = 0
    harmful: int = 0
    harmful_gone: int = 0
    characters: tuple[int, int] = (0, 0)
    took_us: tuple[int, int] = (0, 0)
    skipped: dict[str, int] = {}
    answers: tuple[ChangedAnswer, ...] = ()


class PlanCheck(Struct, frozen=True, kw_only=True):
    """What must hold before a plan is applied, and whether it does."""

    name: str
    passed: bool
    detail: str


class Proposal(ProposalInShort, frozen=True, kw_only=True):
    """A proposal with all it would do, or did. One that changes how recall works has what it does
    to past recalls, and its `checks`: one of them failed, it is accepted by the command line alone,
    and `forced` names what had failed.
    """

    steps: tuple[ProposedChange, ...]
    replay: ReplayDiff | None = None
    checks: tuple[PlanCheck, ...] = ()
    forced: tuple[str, ...] = ()


# Batches that were accepted


class JobInShort(Struct, frozen=True, kw_only=True):
    """An accepted batch. `done` counts the items looked at, `refused` those of them that make no
    memory. One that is queued is tried `next_at`; a dead one was tried too often, and why is its
    `error`.
    """

    id: Id
    at: At
    state: OneJobState
    attempts: int
    next_at: At | None
    ended_at: At | None
    items: int
    turns: int
    done: int
    refused: int
    error: str | None


class Refused(Struct, frozen=True):
    """An item that makes no memory, by its place in the batch, and why."""

    item: int
    reason: str


class WholeJob(JobInShort, frozen=True, kw_only=True):
    """A job with the memory of each of its items, null where it was refused, and why those were."""

    ids: tuple[str | None, ...]
    because: tuple[Refused, ...]


class Jobs(Struct, frozen=True, kw_only=True):
    """The newest first; `next` is the cursor of the page after this one, null at the end."""

    jobs: tuple[JobInShort, ...]
    next: str | None


# Summaries


class Line(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A memory as a line of a summary: its text cut, what it does not have left out."""

    id: str
    at: At
    kind: OneKind
    role: Role
    trust: OneTrust
    text: str
    project: str | None = None
    key: str | None = None
    value: str | None = None
    status: OneStatus | None = None
    progress: float | None = None
    ended_at: At | None = None
    superseded_by: str | None = None


class Named(Struct, frozen=True, kw_only=True):
    """Someone or something that the memories name, and in how many of them."""

    kind: EntityKind
    name: str
    memories: int


class Overview(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known of a topic: each memory in one group, the best first; `timeline` has them by
    their days. `found` counts all that came back.
    """

    topic: str
    found: int
    now: tuple[Line, ...]
    rules: tuple[Line, ...]
    goals: tuple[Line, ...]
    background: tuple[Line, ...]
    timeline: tuple[Line, ...]
    replaced: tuple[Line, ...]
    names: tuple[Named, ...]
    degraded: bool
    notices: tuple[str, ...] = ()


class Goal(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is wanted; `due` is the day it is due, UTC."""

    id: Id
    text: str
    trust: OneTrust
    status: OneStatus | None = None
    progress: Share | None = None
    due: DueDay | None = None
    overdue: bool = False
    project: str | None = None


class Goals(Struct, frozen=True, kw_only=True):
    """Goals, the next due first, and chains of milestones by their names, the oldest first."""

    goals: tuple[Goal, ...]
    chains: dict[str, tuple[Line, ...]]


class EditedFile(Struct, frozen=True, kw_only=True):
    file: str
    times: int


class Runs(Struct, frozen=True, kw_only=True):
    """How often tests, a build, ... passed and failed."""

    for_: str = field(name="for")
    passed: int
    failed: int


class Failing(Struct, frozen=True, kw_only=True):
    """A command that failed and did not pass since."""

    for_: str = field(name="for")
    command: str | None


class Day(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What happened on one day, UTC; what did not is left out. `more` memories are not shown, and
    `others` are of other kinds.
    """

    day: str
    decided: tuple[Line, ...] = ()
    learned: tuple[Line, ...] = ()
    done: tuple[Line, ...] = ()
    others: int = 0
    more: int = 0
    sessions: int = 0
    asked: tuple[str, ...] = ()
    edited: tuple[EditedFile, ...] = ()
    ran: tuple[Runs, ...] = ()
    failing: tuple[Failing, ...] = ()


class Digest(Struct, frozen=True, kw_only=True):
    """Days with something in them, the oldest first, and what is open now."""

    since: At
    until: At
    days: tuple[Day, ...]
    open: tuple[Goal, ...]


class Turns(Struct, frozen=True, kw_only=True):
    """Turns that came out well or badly, by whether they followed the lesson."""

    good_followed: int
    bad_followed: int
    good_ignored: int
    bad_ignored: int


class Impact(Struct, frozen=True, kw_only=True):
    """How much oftener turns came out well, from -1 to 1, and its 95 % interval."""

    value: float
    low: float
    high: float


class Lesson(Struct, frozen=True, kw_only=True):
    """How a lesson does; an `impact` of too few turns is null. `at_rest`, nobody goes by it, so it
    is no longer said before a tool.
    """

    id: Id
    text: str
    kind: OneKind
    project: str | None
    surfaced: int
    followed: int
    ignored: int
    not_applicable: int
    last_surfaced_at: At | None
    turns: Turns
    efforts: dict[str, Turns]
    impact: Impact | None
    at_rest: bool


class LessonDraft(Struct, frozen=True, kw_only=True):
    """Lasting words of the user, or a draft, that wait for a yes: `POST /v1/proposals/{id}/accept`.

    `kind` is what it becomes.
    """

    id: Id
    at: At
    project: str | None
    session: str | None
    because: str | None
    kind: OneKind | None
    text: str | None


class Lessons(Struct, frozen=True, kw_only=True):
    """Lessons, the most shown first; `never_shown` counts the others."""

    lessons: tuple[Lesson, ...]
    never_shown: int
    drafts: tuple[LessonDraft, ...]


class Fact(Struct, frozen=True, kw_only=True):
    """A value of an entity's relation, and the memory that says so; `until` is null for what still
    holds. A `singleton` has one value at a time.
    """

    entity: str
    relation: str
    value: str
    since: At
    until: At | None
    singleton: bool
    id: Id
    source_ids: tuple[Id, ...]
    project: str | None
    said_by: str
    trust: OneTrust
    text: str


class Facts(Struct, frozen=True, kw_only=True):
    """By entity and relation; `more` were left out."""

    facts: tuple[Fact, ...]
    more: int


class Side(Struct, frozen=True, kw_only=True):
    """A memory and the value it says, null where it is all of its words."""

    id: Id
    text: str
    value: str | None
    at: At
    said_by: str
    trust: OneTrust
    project: str | None
    state: State
    holds: bool


class Conflict(Struct, frozen=True, kw_only=True):
    """What cannot hold together: the sides in the order of their days, and commands that settle it,
    of which one is enough.
    """

    what: ConflictSort
    about: str
    why: str
    sides: tuple[Side, ...]
    settle: tuple[str, ...]


class Conflicts(Struct, frozen=True, kw_only=True):
    """The surest sort first; without `compared_all` only the newest texts were compared."""

    conflicts: tuple[Conflict, ...]
    compared_all: bool


class Entity(Struct, frozen=True, kw_only=True):
    """What the memories name. `memories` counts those that do; `aliases` are how they write it."""

    id: str
    kind: EntityKind
    name: str
    aliases: tuple[str, ...]
    memories: int


class EntityEdge(Struct, frozen=True, kw_only=True):
    """Two entities that memories name together, by their ids. A memory that names m of them adds
    1 / (m - 1) to the weight.
    """

    source: str
    target: str
    weight: float


class Neighbourhood(Struct, frozen=True, kw_only=True):
    """What lies around an entity; `centre` has the ids of all that the name stands for. `memories`
    are the newest that mention it, of `mentioned` at the last build.
    """

    centre: tuple[str, ...]
    nodes: tuple[Entity, ...]
    edges: tuple[EntityEdge, ...]
    memories: tuple[ShownMemory, ...]
    mentioned: int


class Entities(Struct, frozen=True, kw_only=True):
    """The most mentioned first."""

    entities: tuple[Entity, ...]


# Tenants, tokens and the server


class ShownTenant(Struct, frozen=True, kw_only=True):
    """A tenant in short. Who names none means the default; `tokens` counts those that open it."""

    tenant: str
    is_default: bool
    log_bytes: int
    tokens: int


class Tenants(Struct, frozen=True, kw_only=True):
    tenants: tuple[ShownTenant, ...]


class Served(Struct, frozen=True, kw_only=True):
    """The manifest that is served; `watermark` is the last event it was built from."""

    number: int
    at: Timestamp
    age_s: int
    watermark: int


class TenantStats(Struct, frozen=True, kw_only=True):
    """A tenant in figures. `memories` counts them by kind and state, none of zero; `tail` counts
    the events that wait for the next build; `silence_rate` is the share of the newest recalls, a
    thousand at most, that brought nothing.
    """

    tenant: str
    memories: dict[str, dict[str, int]]
    active: int
    events: int
    tail: int
    log_bytes: int
    snapshot_bytes: int
    manifest: Served | None
    recalls_of_day: int
    silence_rate: float | None


class Deleted(Struct, frozen=True, kw_only=True):
    """A tenant that was deleted: where its folder lies now, and how many tokens that ended."""

    tenant: str
    kept_in: str
    tokens: int


class ShownToken(Struct, frozen=True, kw_only=True):
    """What is known of a token; what opens the tenant is not. `made_by` is null: by the owner."""

    id: str
    name: str
    tenant: str
    scopes: tuple[OneScope, ...]
    state: TokenState
    created_at: Timestamp
    per_minute: int
    expires_at: Timestamp | None
    revoked_at: Timestamp | None
    made_by: str | None


class NewToken(ShownToken, frozen=True, kw_only=True):
    """A token that was just made: `token` is what opens the tenant, shown this once."""

    token: str


class Tokens(Struct, frozen=True, kw_only=True):
    """The newest first; one that ended is listed for thirty days more."""

    tokens: tuple[ShownToken, ...]


class Health(Struct, frozen=True, kw_only=True):
    status: str
    version: str
