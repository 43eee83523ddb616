"""
What an agent's hooks tell of its work, what became of the lessons it was shown, and what waits for
a person's word. Prompts, actions and the ends of turns make an episode; nothing here changes any
other memory.

The project, session and agent are the envelope's. A prompt and what the agent said last are kept
short; of a tool's output only the telling lines are, and the end of a failure.
"""

from typing import Any, Literal

import msgspec

from store.body import Body, Id, Name, Tag

Intent = Literal["small_talk", "command", "question", "work", "correction", "general", "recap"]
Doing = Literal["run", "edit", "read", "search", "recall", "remember", "other"]
Effort = Literal["test", "build", "lint", "deploy", "commit", "install"]  # what a command is for
Stage = Literal["started", "resumed", "cleared", "compacted", "stopped", "ended"]
Place = Literal["prompt", "tool", "session"]  # where a lesson was shown
What = Literal["lesson", "archive", "merge", "promote", "reword"]  # what is proposed
Verdict = Literal["followed", "ignored", "not_applicable"]


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
    is the length of the brief that the session was given.
    """

    stage: Stage
    said: str | None = None
    characters: int | None = None


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

    verdict: Verdict
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
    """A person said no to the subject, a proposal."""

    reason: str | None = None
