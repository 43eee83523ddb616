"""
HookEvent, an event at an agent host, the same for every host; Reply, our answer.

Fields of a payload with the wrong type count as missing, long texts are cut, and text added by our
own memory or the host's machinery is removed.
"""

import os
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from store.agents.json_fields import LONGEST_ID, join_surrogates, text
from store.agents.tool_calls import ToolUse
from store.agents.typed_text import human_text
from store.home.errors import InvalidInput
from store.text import frame

Moment = Literal[
    "session_start", "prompt", "before_tool", "after_tool", "stop", "compacted", "session_end"
]
Decision = Literal["ask", "deny"]  # of a tool that is about to be used
Start = Literal["startup", "resume", "clear", "compact", "fork"]

MAX_PROMPT = 16_000  # characters looked at; a longer one is a pasted document
MAX_SAID = 8_000  # of the agent's last message, or of a summary
MAX_CONTEXT = 9_000  # bytes: Claude Code and Codex put a longer text into a file


class HookEvent(msgspec.Struct, frozen=True):
    """One event of a host. Fields that a moment does not have are at their defaults."""

    host: str
    moment: Moment
    session: str
    name: str = ""  # as the host calls it
    cwd: str | None = None
    prompt: str = ""
    start: Start = "startup"
    tool: ToolUse | None = None
    said: str = ""  # the agent's last message; the summary of a compaction
    turn: str | None = None
    is_subagent: bool = False
    is_unattended: bool = False  # no person types into this run: a program sent the prompt
    is_heard: bool = True  # a reply now reaches the model
    decides: frozenset[Decision] = frozenset()  # the decisions that the host accepts now


class Reply(msgspec.Struct, frozen=True):
    """The context for the model and the notice for the user; empty is silence.

    A `decision`, one of the event's `decides`, comes with its reason: for `ask` the host shows it
    to the user, for `deny` to the model.
    """

    context: str = ""
    notice: str = ""
    decision: Decision | None = None
    reason: str = ""


SILENCE = Reply()

Payload = Mapping[str, Any]


_LONGEST_PATH = 4_096
_READ = 4  # times the kept length is read: removed blocks make room for more

_payload = msgspec.json.Decoder(dict[str, Any])


def decode_payload(raw: bytes) -> dict[str, Any]:
    """Return the object that a host sent; raise InvalidInput or msgspec.DecodeError.

    Hosts cut texts between the two halves of an emoji; such a half becomes U+FFFD.
    """
    try:
        return _payload.decode(raw)
    except UnicodeDecodeError as error:
        raise InvalidInput(f"the event is not UTF-8: {error}") from error
    except RecursionError as error:
        raise InvalidInput("the event is nested too deeply") from error
    except msgspec.DecodeError:
        whole = join_surrogates(raw)
        if whole == raw:
            raise
        return decode_payload(whole)


def required_text(payload: Mapping[str, Any], *names: str) -> str:
    """Return the first of some fields that is a text; raise InvalidInput naming them."""
    if value := text(payload, *names, most=LONGEST_ID):
        return value
    raise InvalidInput(f"a hook's event needs {' or '.join(names)}: send the host's own JSON")


def working_directory(value: object) -> str | None:
    """Return a working directory as given, None if it cannot be one."""
    if not isinstance(value, str) or len(value) > _LONGEST_PATH or "\x00" in value:
        return None
    return value if os.path.isabs(value) else None  # else it would be relative to our own


def prompt_text(value: str) -> str:
    """Return a prompt's text by a person, cut; empty if a machine wrote all of it."""
    return human_text(frame.strip(value[: MAX_PROMPT * _READ]))[:MAX_PROMPT]


def reply_text(value: str) -> str:
    """Return an agent's message without blocks of ours, cut."""
    return frame.strip(value[: MAX_SAID * _READ])[:MAX_SAID]
