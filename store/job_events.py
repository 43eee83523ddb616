"""
What jobs did: the plans they made of the memory, what became of these, and what a model was paid.

A plan is carried out by appending the events its steps name. One that was undone counts as if those
had never been written (`EventLog.standing`), so its memory is to the byte what it was before.
"""

from typing import Annotated, Any, Literal

import msgspec

from store.body import Body, Id, Name

Job = Literal[
    "consolidate", "reflect", "distill", "facts", "importance", "archive", "judge", "route"
]
Maker = Literal[Job, "recommend"]  # of a plan: a job, or a person's yes to a recommendation
Tier = Literal["cheap", "balanced", "expensive"]  # of models
Judge = Literal["heuristic", "model"]
Verdict = Annotated[float, msgspec.Meta(ge=-1.0, le=1.0)]  # -1 harmful, 1 decisive
Actions = dict[str, str]  # what the router chose, by level


class Made(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a job came to a memory. `prompt_sha256` is hex; the cost that of the call it came from.

    Without a model the last four say nothing.
    """

    job: Maker
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


class Planned(Body, frozen=True, kw_only=True):
    """A job proposes changes; the subject is the event itself, which is the plan.

    `watermark` is what it was made from, `looked_at` how many memories, `left` how many steps did
    not fit and wait for the next plan. `notes` say what a person should know of how it was made.
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


class Applied(Body, frozen=True, kw_only=True):
    """The subject, a plan, was carried out by these events."""

    events: tuple[Id, ...]


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


class Called(Body, frozen=True, kw_only=True):
    """A language model was asked, whether or not it answered. The subject is the event itself."""

    purpose: Name
    model: Name
    tier: Tier
    prompt_sha256: str
    prompt_tokens: int = 0
    answer_tokens: int = 0
    cost_usd: float = 0.0
    took_ms: int = 0
    error: str | None = None
