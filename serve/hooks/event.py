"""
HookEvent: what happened at an agent host, said the same way for every host; Reply: our answer.
"""

from dataclasses import dataclass
from typing import Literal

from store.agents.tool_calls import ToolUse

Moment = Literal[
    "session_start", "prompt", "before_tool", "after_tool", "stop", "compacted", "session_end"
]
Decision = Literal["ask", "deny"]  # of a tool that is about to be used
Start = Literal["startup", "resume", "clear", "compact", "fork"]

MAX_PROMPT = 16_000  # characters looked at; a longer one is a pasted document
MAX_SAID = 8_000  # of what the agent said last, or of a summary
MAX_CONTEXT = 9_000  # bytes: Claude Code and Codex put what is longer into a file


@dataclass(frozen=True, slots=True)
class HookEvent:
    """One event of a host. What a moment does not have is at its default."""

    host: str
    moment: Moment
    session: str
    name: str = ""  # as the host calls it
    cwd: str | None = None
    prompt: str = ""
    start: Start = "startup"
    tool: ToolUse | None = None
    said: str = ""  # the agent's last message; the summary of what was compacted
    turn: str | None = None
    is_continued: bool = False  # the agent goes on because a stop hook wanted it
    is_subagent: bool = False
    is_heard: bool = True  # what is said now reaches the model
    decides: frozenset[Decision] = frozenset()  # what the host lets a hook decide now


@dataclass(frozen=True, slots=True)
class Reply:
    """What reaches the model, and what the host shows to the user; empty is silence.

    A `decision`, of those that the event `decides`, comes with its reason: of `ask` the host shows
    it to the user, of `deny` to the model.
    """

    context: str = ""
    notice: str = ""
    decision: Decision | None = None
    reason: str = ""


SILENCE = Reply()
