"""
The kinds of event: the body of each, a frozen value.

An event states that something happened and never changes. Values that can be computed from events
(use counts, duplicates, current facts) are never events; projections compute them. The field types
come first, then the reports of agents and jobs, then the changes of memories.
"""

from datetime import datetime
from typing import Annotated, Any, Literal, get_args

import msgspec

Unit = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]
Seconds = Annotated[int, msgspec.Meta(gt=0, le=100 * 366 * 86_400)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
Id = Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}\Z")]
Tag = Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
Key = Annotated[str, msgspec.Meta(pattern=r"\A[^\s.][^\s]*\.[^\s]*[^\s.]\Z", max_length=200)]

# validated elsewhere, with errors of their own; stated here for JSON schemas
Project = Annotated[
    str, msgspec.Meta(extra_json_schema={"pattern": r"^[A-Za-z0-9~@][A-Za-z0-9._@/~+-]{0,199}$"})
]
Instant = Annotated[datetime, msgspec.Meta(extra_json_schema={"format": "date-time"})]

Trust = Literal["user", "agent", "tool", "web"]
# the author of the text, most trusted first: `typed` by a person, `quoted` by a person from
# elsewhere, a `program` with no person at the keyboard, ...
Author = Literal["typed", "quoted", "program", "agent", "tool", "web", "repository"]


class Body(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The fields of an event beyond its envelope."""


# The reports of an agent's hooks, the outcomes of the lessons shown to it, and the proposals that
# wait for a person's decision. Prompts, actions and the ends of turns form an episode; nothing here
# changes any other memory.
#
# Project, session and agent are in the envelope. A prompt and the agent's last answer are stored
# shortened; of a tool's output only the significant lines, and the end of a failure.

Intent = Literal["small_talk", "command", "question", "work", "correction", "general", "recap"]
Doing = Literal["run", "edit", "read", "search", "recall", "remember", "other"]
Effort = Literal["test", "build", "lint", "deploy", "commit", "install"]  # the purpose of a command
Stage = Literal["started", "resumed", "cleared", "compacted", "stopped", "ended"]
Place = Literal["prompt", "tool", "session"]  # where a lesson was shown
What = Literal["lesson", "archive", "merge", "promote", "reword"]  # the kind of proposal
LessonVerdict = Literal["followed", "ignored", "not_applicable"]


class Prompted(Body, frozen=True, kw_only=True):
    """A person's prompt reached the agent: a turn begins. The subject is the event itself.

    An `imported` prompt was read from a transcript, long after.
    """

    prompt: str
    intent: Intent | None = None
    turn: Name | None = None
    branch: Name | None = None
    imported: bool = False


class Acted(Body, frozen=True, kw_only=True):
    """The agent used a tool. `passed` is None if the host does not report it.

    `output` holds the significant lines of the tool's output; `names` the definitions in the edited
    files; `diff` the lines that an edit added and removed, as in a unified diff.
    """

    tool: Name
    doing: Doing = "other"
    effort: Effort | None = None
    command: str | None = None
    files: tuple[str, ...] = ()
    passed: bool | None = None
    error: str | None = None
    output: str | None = None
    names: tuple[Tag, ...] = ()
    diff: str | None = None


class SessionTold(Body, frozen=True, kw_only=True):
    """A session began, was resumed or compacted, came to the end of a turn, or ended.

    `said` is the host's summary of the compacted text, or the agent's last answer. `characters` is
    the length of the brief given to the session. `drawn` is the share of new sessions held out
    (given no context unasked) when this session was drawn; `is_held_out`: this session is one of
    them.
    """

    stage: Stage
    said: str | None = None
    characters: int | None = None
    drawn: float | None = None
    is_held_out: bool = False


class Surfaced(Body, frozen=True, kw_only=True):
    """The subject, a lesson, was put before the agent.

    `about` is the command or file that the lesson matched. `characters` is the length of the block
    that contained the lesson: set on the first lesson of a block that no receipt or brief records.
    """

    place: Place
    about: str | None = None
    characters: int | None = None


class Followed(Body, frozen=True, kw_only=True):
    """Whether the subject, a lesson surfaced in this session, was then followed.

    `place` is where it was shown; `stood` is the state of tests, a build, ... at the end of the
    judged turn.
    """

    verdict: LessonVerdict
    place: Place | None = None
    evidence: str | None = None
    stood: dict[Effort, bool] = msgspec.field(default_factory=dict)


class Outcome(Body, frozen=True, kw_only=True):
    """The state of tests, a build, ... at the end of a turn, and before it if known."""

    effort: Effort
    passed: bool
    before: bool | None = None


class Proposed(Body, frozen=True, kw_only=True):
    """A proposal waits for a person's yes or no; the subject is the event itself.

    `draft` is the effect of a yes: for a lesson, the fields of the memory to record; for anything
    else, the steps of the plan to apply, and their sources.
    """

    what: What
    draft: dict[str, Any]
    because: str | None = None
    source_ids: tuple[Id, ...] = ()


class Accepted(Body, frozen=True, kw_only=True):
    """A person accepted the subject, a proposal: `memory` was recorded, or `plan` applied."""

    memory: Id | None = None
    plan: Id | None = None


class Rejected(Body, frozen=True, kw_only=True):
    """A person rejected the subject, a proposal; `steps` are those of a plan, by index, None for
    all unanswered ones.
    """

    reason: str | None = None
    steps: tuple[int, ...] | None = None


# The reports of jobs: their plans, the outcome of each plan, and the cost of model calls.
#
# A plan is carried out by appending the events its steps name. The events of an undone plan count
# as if they had never been written (`EventLog.effective_events`).

Job = Literal[
    "consolidate", "reflect", "distill", "facts", "importance", "archive", "judge", "route"
]
# of a plan: a job, a person's yes to a recommendation, or a person who tries other settings
MemoryMaker = Literal[Job, "recommend", "settings"]
# or a command that changed many memories at once, whose plan was applied when it was written
Maker = Literal[MemoryMaker, "bulk"]
ModelTier = Literal["cheap", "balanced", "expensive"]  # of models
Judge = Literal["heuristic", "model"]
Verdict = Annotated[float, msgspec.Meta(ge=-1.0, le=1.0)]  # -1 harmful, 1 decisive
Actions = dict[str, str]  # the router's choices, by level


class Made(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a job made a memory. `prompt_sha256` is hex; the cost is that of the model call.

    Without a model the last four are unset.
    """

    job: MemoryMaker
    model: str | None = None
    prompt_sha256: str | None = None
    tokens: int = 0
    cost_usd: float = 0.0


class Step(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One event that a plan would write: its kind, envelope and body; `why` is for people.

    `before` holds the replaced fields of the memory, which `mnemolog plans show` prints and undoing
    needs; `evidence` the figures behind the step.
    """

    event: str
    subject: Id
    body: dict[str, Any] = {}
    why: str
    project: str | None = None
    session: str | None = None
    trust: Trust = "user"
    author: Author | None = None
    before: dict[str, Any] = {}
    evidence: dict[str, Any] = {}


class ChangedAnswer(msgspec.Struct, frozen=True):
    """A recall, by its receipt's id, and the memories that come back before and after a change."""

    recall: Id
    before: tuple[Id, ...]
    after: tuple[Id, ...]


class ReplayDiff(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The effect of a change on past recalls, replayed against the memory as it was known.

    `spoke` are the recalls with results before the change, `silenced` those of them without results
    after it, `awoken` those with results only after it; `led` ones begin with another memory,
    `reordered` ones return the same memories in another order. `hits` came back before, `gone` of
    them do not after, `new` are those that only come after. `helpful` and `harmful` count the hits
    that were rated or followed, `helpful_gone` and `harmful_gone` those of them that do not come
    back after. `characters` is the length of the results, `took_us` the time to answer, before and
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


class PlanCheck(msgspec.Struct, frozen=True):
    """A condition that must hold before a plan is applied, and its result."""

    name: str
    passed: bool
    detail: str


class Planned(Body, frozen=True, kw_only=True):
    """A job proposes changes; the subject is the event itself, which is the plan.

    `watermark` is the log position that the plan was made from, `looked_at` the number of memories
    examined, `left` the number of steps that did not fit and wait for the next plan. `notes`
    explain to a person how the plan was made. A change to recall has its effect on past recalls
    (`replay`), and the `checks` of that; so has a bulk change, which names no steps: its events
    were written before it.
    """

    job: Maker
    watermark: int
    steps: tuple[Step, ...]
    looked_at: int = 0
    left: int = 0
    notes: tuple[str, ...] = ()
    model: str | None = None
    tokens: int = 0
    cost_usd: float = 0.0
    replay: ReplayDiff | None = None
    checks: tuple[PlanCheck, ...] = ()


class Applied(Body, frozen=True, kw_only=True):
    """The subject, a plan, was carried out by these events; if it had been undone it counts again,
    and no events are named. `steps` are those carried out, by index; None: all unanswered ones.
    `accepted`: a person said yes to it. `forced` are the failed checks that a person overrode.
    """

    events: tuple[Id, ...]
    steps: tuple[int, ...] | None = None
    accepted: bool = False
    forced: tuple[str, ...] = ()


class Undone(Body, frozen=True, kw_only=True):
    """The subject, an applied plan, was undone: these events no longer count."""

    events: tuple[Id, ...]


class Staled(Body, frozen=True, kw_only=True):
    """The subject rests on something that has changed, such as a file."""

    reason: str
    file: str | None = None


class Judged(Body, frozen=True, kw_only=True):
    """The verdicts on the hits of the subject, a recall's receipt, from the actions that followed.

    A hit without any evidence is in `verdicts` with 0.
    """

    verdicts: dict[Id, Verdict]
    by: Judge = "heuristic"
    evidence: dict[Id, str] = msgspec.field(default_factory=dict)
    made: Made | None = None


class Adopted(Body, frozen=True, kw_only=True):
    """The router serves this policy from now on: an action for each level, by mode.

    `value` is the policy's estimated worth on the log, `served` that of the previous policy, both
    mean rewards; `low` is the lower end of the estimated gain's 95 % interval.
    """

    policy: dict[str, Actions]
    recalls: int
    value: float
    served: float
    low: float


class Configured(Body, frozen=True, kw_only=True):
    """A plan set a setting in the user's config.toml; the subject is "setting:" and its name.

    "version" is not a setting: a person accepted the answers of that version of mnemolog.
    """

    name: Name
    value: Any


class Called(Body, frozen=True, kw_only=True):
    """A language model was called, successfully or not. The subject is the event itself."""

    purpose: Name
    model: Name
    tier: ModelTier
    prompt_sha256: str
    prompt_tokens: int = 0
    answer_tokens: int = 0
    cost_usd: float = 0.0
    took_ms: int = 0
    error: str | None = None


# The changes of memories, and the receipts of recalls.

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
MemoryKind = Literal[RecordedKind, "episode"]
Tier = Literal["auto", "working", "episodic", "semantic"]
Relation = Literal["cause", "support", "conflict", "derived"]
GoalStatus = Literal["open", "done", "dropped", "blocked"]
State = Literal["active", "archived", "superseded", "forgotten", "stale", "open"]  # of a memory

STATEMENT = "statement"  # the user's own words, quoted, until they are made a rule
EPISODE = "episode"  # one turn of an agent: folded from the reports of its hooks, never recorded
RECORDED_KINDS: tuple[str, ...] = get_args(RecordedKind)
MEMORY_KINDS: tuple[str, ...] = get_args(MemoryKind)
TIERS: tuple[str, ...] = get_args(Tier)
TRUSTS: tuple[str, ...] = get_args(Trust)
AUTHORS: tuple[str, ...] = get_args(Author)
RELATIONS: tuple[str, ...] = get_args(Relation)
GOAL_STATUSES: tuple[str, ...] = get_args(GoalStatus)


class Recorded(Body, frozen=True, kw_only=True):
    """A memory was made; the event's id is the memory's id.

    `key` ("deploy.region") makes it a keyed fact: the newest of a key in a project holds, the older
    ones are kept as its history. `chain` names the milestones that follow one another. `created_at`
    is the time it happened, if that is not the time it was written down. `made` is set if a job
    made it from its `source_ids`: it holds only as long as each of them does.
    """

    content: str
    kind: RecordedKind = "fact"
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
    """Previously forgotten, archived, superseded or expired, and now current again.

    A quarantined memory comes back in its former `state`.
    """

    reason: str | None = None
    state: State = "active"


class Quarantined(Body, frozen=True, kw_only=True):
    """A build's audit failed on this memory alone: hidden until a person releases or forgets it."""

    check: str
    reason: str
    was: State = "active"


class Erased(Body, frozen=True, kw_only=True):
    """The memory's text was blanked, here in the log too: nothing brings it back.

    `events` is the number of rewritten events. An `aged` episode was erased because its retention
    period was over: memories made from it stay.
    """

    events: int = 0
    aged: bool = False


class Lost(Body, frozen=True, kw_only=True):
    """The events with these numbers, first and last of each gap, are lost for good.

    This event takes the number after the newest ever assigned. `ids` are the ids that could be
    read.
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


# the origin of a recall: the prompt hook, or an explicit request
Door = Literal["prompt", "rest", "mcp", "cli"]


class Route(msgspec.Struct, frozen=True):
    """The router's choice for a recall, the state it was in, and the probability of that choice.

    `tried` is the level whose action was drawn instead of served; None if all were served.
    """

    state: str
    actions: Actions
    propensity: float
    tried: str | None = None


class Basis(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The inputs of an answer besides its query, its time and the state of the memory: enough to
    repeat the recall.

    `version` is mnemolog's, `code` a digest of the files that decide answers. `embedder` is the
    model of the vectors, `built` the number of events in the snapshots. Omitted fields had that
    version's defaults; `weights` are the profile's, in the order of its fields, `narrowed` the
    filter's conditions on memories, times in microseconds UTC; `no_project` restricts to memories
    without a project. `requested` names the settings that the request overrode. `moment` is the
    time from which ages are computed, microseconds UTC; 0 in a receipt of an earlier version. A
    `degraded` answer did without an index or the embedder; a `cut` query is stored in part.
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


class Tried(msgspec.Struct, frozen=True):
    """A recall was answered in two ways, interleaved: with the current settings, A, and with those
    that a plan would `set`, B. `teams` names the source of each hit of the receipt, in order; "-"
    for neither.
    """

    plan: Id
    set: tuple[str, ...]
    teams: str


class Recalled(Body, frozen=True, kw_only=True):
    """The receipt of one recall: its query, the state of the memory, and the results.

    `door` is the entry point. `basis` holds the other inputs of the answer, and `digest` the first
    16 hex digits of the SHA-256 of the results: of the block that a hook put before the model, with
    `characters` as its length, or of every hit. Receipts of earlier versions have neither.
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
    door: Door | None = None
    basis: Basis | None = None
    digest: str | None = None
    trial: Tried | None = None


class Rated(Body, frozen=True, kw_only=True):
    """A person or an agent rated a memory, or all results of a recall.

    The subject is the memory, or the recall's receipt; -1 is harmful, 1 decisive.
    """

    verdict: Annotated[float, msgspec.Meta(ge=-1.0, le=1.0)]
    reason: str | None = None


class Expected(Body, frozen=True, kw_only=True):
    """A person expects this question, asked in the envelope's project, to return the subject, a
    memory; or, if not `expected`, no longer does.
    """

    question: str
    expected: bool = True


class Unknown(Body, frozen=True, kw_only=True):
    """An event of a kind that a later version of mnemolog added."""

    kind: str
