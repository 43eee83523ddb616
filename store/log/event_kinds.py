"""
The kinds of event: the body of each, a frozen value.

An event says that something happened; nothing in it is ever changed. What can be computed from
events (use counts, duplicates, what is current) is never an event but a projection's business.
First the types of their fields, then what agents and jobs report, then what happens to memories.
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

# what is checked elsewhere, with an error of its own, is told to programs here
Project = Annotated[
    str, msgspec.Meta(extra_json_schema={"pattern": r"^[A-Za-z0-9~@][A-Za-z0-9._@/~+-]{0,199}$"})
]
Instant = Annotated[datetime, msgspec.Meta(extra_json_schema={"format": "date-time"})]


class Body(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an event says beyond its envelope."""


# What an agent's hooks report of its work, the outcome of the lessons it was shown, and what waits
# for a person's decision. Prompts, actions and the ends of turns make an episode; nothing here
# changes any other memory.
#
# Project, session and agent are in the envelope. A prompt and what the agent said last are kept
# short; of a tool's output only the telling lines, and the end of a failure.

Intent = Literal["small_talk", "command", "question", "work", "correction", "general", "recap"]
Doing = Literal["run", "edit", "read", "search", "recall", "remember", "other"]
Effort = Literal["test", "build", "lint", "deploy", "commit", "install"]  # what a command is for
Stage = Literal["started", "resumed", "cleared", "compacted", "stopped", "ended"]
Place = Literal["prompt", "tool", "session"]  # where a lesson was shown
What = Literal["lesson", "archive", "merge", "promote", "reword"]  # what is proposed
LessonVerdict = Literal["followed", "ignored", "not_applicable"]


class Prompted(Body, frozen=True, kw_only=True):
    """A person's prompt reached the agent: a turn begins. The subject is the event itself.

    One that is `imported` was read from a transcript, long after.
    """

    prompt: str
    intent: Intent | None = None
    turn: Name | None = None
    branch: Name | None = None
    imported: bool = False


class Acted(Body, frozen=True, kw_only=True):
    """The agent used a tool. `passed` is None where the host does not tell.

    `output` are the telling lines of what it wrote; `names` what the edited files define.
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


class SessionTold(Body, frozen=True, kw_only=True):
    """A session began, was taken up again or compacted, came to the end of a turn, or ended.

    `said` is the host's summary of what was compacted, or what the agent said last. `characters`
    is the length of the brief that the session was given. `drawn` is the share of new sessions
    that were to be told nothing when this one was drawn; `is_held_out`: it is one of them.
    """

    stage: Stage
    said: str | None = None
    characters: int | None = None
    drawn: float | None = None
    is_held_out: bool = False


class Surfaced(Body, frozen=True, kw_only=True):
    """The subject, a lesson, was put before the agent.

    `about` is the command or file it named. `characters` is the length of the block it came in: on
    the first of a block that no receipt or brief tells of.
    """

    place: Place
    about: str | None = None
    characters: int | None = None


class Followed(Body, frozen=True, kw_only=True):
    """Whether the subject, a lesson that was surfaced in this session, was then followed.

    `place` is where it was shown; `stood` says how tests, a build, ... stood at the end of the turn
    that is judged.
    """

    verdict: LessonVerdict
    place: Place | None = None
    evidence: str | None = None
    stood: dict[Effort, bool] = msgspec.field(default_factory=dict)


class Outcome(Body, frozen=True, kw_only=True):
    """How tests, a build, ... stood at the end of a turn, and before it where that is known."""

    effort: Effort
    passed: bool
    before: bool | None = None


class Proposed(Body, frozen=True, kw_only=True):
    """Something waits for a person's yes or no; the subject is the event itself.

    `draft` is what a yes does: of a lesson the fields of the memory that it records, of anything
    else the steps of the plan that it applies, and what they were made from.
    """

    what: What
    draft: dict[str, Any]
    because: str | None = None
    source_ids: tuple[Id, ...] = ()


class Accepted(Body, frozen=True, kw_only=True):
    """A person said yes to the subject, a proposal: `memory` was recorded, or `plan` applied."""

    memory: Id | None = None
    plan: Id | None = None


class Rejected(Body, frozen=True, kw_only=True):
    """A person said no to the subject, a proposal; `steps` are those of a plan, by their place,
    None all that had no answer.
    """

    reason: str | None = None
    steps: tuple[int, ...] | None = None


# What jobs did: the plans they made, what became of these, and what a model was paid.
#
# A plan is carried out by appending the events its steps name. A plan that was undone counts as if
# they had never been written (`EventLog.effective_events`).

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
Actions = dict[str, str]  # what the router chose, by level


class Made(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a job came to a memory. `prompt_sha256` is hex; the cost that of the call it came from.

    Without a model the last four say nothing.
    """

    job: MemoryMaker
    model: str | None = None
    prompt_sha256: str | None = None
    tokens: int = 0
    cost_usd: float = 0.0


class Step(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One event that a plan would write: its kind, envelope and body; `why` is for people.

    `before` are the fields of the memory that it replaces, as `mnemolog plans show` prints them and
    an undoing needs them; `evidence` the figures behind it.
    """

    event: str
    subject: Id
    body: dict[str, Any] = {}
    why: str
    project: str | None = None
    session: str | None = None
    trust: Literal["user", "agent", "tool", "web"] = "user"
    before: dict[str, Any] = {}
    evidence: dict[str, Any] = {}


class ChangedAnswer(msgspec.Struct, frozen=True):
    """A recall, by its receipt's id, and the memories that come back before and after a change."""

    recall: Id
    before: tuple[Id, ...]
    after: tuple[Id, ...]


class ReplayDiff(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a change does to past recalls, asked again of the memory as it was known.

    `spoke` are the recalls that bring something before the change, `silenced` those of them that
    bring nothing after it, `awoken` those that bring something only after it; `led` ones begin with
    another memory, `reordered` ones bring the same in another order. `hits` came back before,
    `gone` of them do not after, `new` are those that only come after. `helpful` and `harmful` count
    the hits that somebody rated or that were followed, `helpful_gone` and `harmful_gone` those of
    them that do not come back after. `characters` are those of what came back, `took_us` what
    answering took, before and after. `answers` are the first of the changed ones.
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
    """What must hold before a plan is applied, and whether it does."""

    name: str
    passed: bool
    detail: str


class Planned(Body, frozen=True, kw_only=True):
    """A job proposes changes; the subject is the event itself, which is the plan.

    `watermark` is what it was made from, `looked_at` how many memories, `left` how many steps did
    not fit and wait for the next plan. `notes` say what a person should know of how it was made.
    A change of how recall works has what it does to past recalls, and the `checks` of that; so has
    a bulk change, which names no steps: its events were written before it.
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
    """The subject, a plan, was carried out by these events; one that was undone counts again,
    which names none. `steps` are those they carry out, by
    their place; None: all that had no answer. `accepted`: a person said yes to it. `forced` are the
    checks that had failed and that a person overrode.
    """

    events: tuple[Id, ...]
    steps: tuple[int, ...] | None = None
    accepted: bool = False
    forced: tuple[str, ...] = ()


class Undone(Body, frozen=True, kw_only=True):
    """The subject, a plan that was applied, was taken back: these events count no more."""

    events: tuple[Id, ...]


class Staled(Body, frozen=True, kw_only=True):
    """What the subject says rests on something that is no longer so, a file that changed."""

    reason: str
    file: str | None = None


class Judged(Body, frozen=True, kw_only=True):
    """How the hits of the subject, a recall's receipt, turned out, by what was done afterwards.

    A hit that nothing tells of is in `verdicts` with 0.
    """

    verdicts: dict[Id, Verdict]
    by: Judge = "heuristic"
    evidence: dict[Id, str] = msgspec.field(default_factory=dict)
    made: Made | None = None


class Adopted(Body, frozen=True, kw_only=True):
    """The router serves this policy from now on: an action for each level, by mode.

    `value` is what it is estimated to be worth on the log, `served` what the policy before it was,
    both mean rewards; `low` is the lower end of the estimated gain's 95 % interval.
    """

    policy: dict[str, Actions]
    recalls: int
    value: float
    served: float
    low: float


class Configured(Body, frozen=True, kw_only=True):
    """A plan set a setting in the user's config.toml; the subject is "setting:" and its name.

    "version" is none: a person accepted what that version of mnemolog answers.
    """

    name: Name
    value: Any


class Called(Body, frozen=True, kw_only=True):
    """A language model was asked, whether or not it answered. The subject is the event itself."""

    purpose: Name
    model: Name
    tier: ModelTier
    prompt_sha256: str
    prompt_tokens: int = 0
    answer_tokens: int = 0
    cost_usd: float = 0.0
    took_ms: int = 0
    error: str | None = None


# What happens to memories, and the receipts of recalls.

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
Trust = Literal["user", "agent", "tool", "web"]
# who wrote the text, the one whose word it is first: `typed` by a person, `quoted` by one from
# elsewhere, a `program` nobody types into, ...
Author = Literal["typed", "quoted", "program", "agent", "tool", "web", "repository"]
Relation = Literal["cause", "support", "conflict", "derived"]
GoalStatus = Literal["open", "done", "dropped", "blocked"]
State = Literal["active", "archived", "superseded", "forgotten", "stale", "open"]  # of a memory

STATEMENT = "statement"  # the user's own words, quoted, until somebody makes a rule of them
EPISODE = "episode"  # one turn of an agent: folded from what its hooks told, never recorded
RECORDED_KINDS: tuple[str, ...] = get_args(RecordedKind)
MEMORY_KINDS: tuple[str, ...] = get_args(MemoryKind)
TIERS: tuple[str, ...] = get_args(Tier)
TRUSTS: tuple[str, ...] = get_args(Trust)
AUTHORS: tuple[str, ...] = get_args(Author)
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


# where a recall is asked: a prompt's hook, or somebody who asked for it
Door = Literal["prompt", "rest", "mcp", "cli"]


class Route(msgspec.Struct, frozen=True):
    """What the router chose for a recall, in which state, and how likely it was to choose so.

    `tried` is the level whose action was drawn instead of served; None where all were served.
    """

    state: str
    actions: Actions
    propensity: float
    tried: str | None = None


class Basis(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What decided an answer besides its query, its moment and the state of the memory: enough to
    ask the same again.

    `version` is mnemolog's, `code` a digest of its files that decide answers. `embedder` is the
    model that vectors are of, `built` how many events of the log the snapshots held. What is
    left out was as that version has it by default; `weights` are the profile's, in the order of its
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


class Tried(msgspec.Struct, frozen=True):
    """A recall was answered in two ways, interleaved: as the settings are, A, and with those that a
    plan would `set`, B. `teams` names the one that brought each hit of the receipt, in order; "-"
    where neither did.
    """

    plan: Id
    set: tuple[str, ...]
    teams: str


class Recalled(Body, frozen=True, kw_only=True):
    """The receipt of one recall: what was asked, from which state, what came back.

    `door` is where it was asked. `basis` is what else decided the answer, and `digest` the SHA-256,
    its first 16 hex digits, of what came back: of the block that a hook put before the model, whose
    length is `characters`, or of every hit. Receipts of earlier versions have neither.
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
    """A person or an agent said whether a memory, or all that a recall brought, helped.

    The subject is the memory, or the recall's receipt; -1 is harmful, 1 decisive.
    """

    verdict: Annotated[float, msgspec.Meta(ge=-1.0, le=1.0)]
    reason: str | None = None


class Expected(Body, frozen=True, kw_only=True):
    """A person wants this question, asked in the envelope's project, to bring back the subject, a
    memory; or, where not `expected`, no longer asks for it.
    """

    question: str
    expected: bool = True


class Unknown(Body, frozen=True, kw_only=True):
    """An event of a kind that a later version of mnemolog added."""

    kind: str
