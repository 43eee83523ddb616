"""
HookEvent, what happened at an agent host, the same for every host; Reply, our answer.

Of a payload fields of the wrong type count as missing, long texts are cut, and what our own memory
or the host's machinery put into a text is taken out of it.
"""

import os
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from store.agents.json_fields import LONGEST_ID, join_surrogates, text
from store.agents.tool_calls import ToolUse
from store.home.errors import InvalidInput
from store.importers.transcript_turn import human_text
from store.text import frame

Moment = Literal[
    "session_start", "prompt", "before_tool", "after_tool", "stop", "compacted", "session_end"
]
Decision = Literal["ask", "deny"]  # of a tool that is about to be used
Start = Literal["startup", "resume", "clear", "compact", "fork"]

MAX_PROMPT = 16_000  # characters looked at; a longer one is a pasted document
MAX_SAID = 8_000  # of what the agent said last, or of a summary
MAX_CONTEXT = 9_000  # bytes: Claude Code and Codex put what is longer into a file


class HookEvent(msgspec.Struct, frozen=True):
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
    is_subagent: bool = False
    is_unattended: bool = False  # nobody types into this run: a program sent the prompt
    is_heard: bool = True  # what is said now reaches the model
    decides: frozenset[Decision] = frozenset()  # what the host lets a hook decide now


class Reply(msgspec.Struct, frozen=True):
    """What reaches the model, and what the host shows to the user; empty is silence.

    A `decision`, of those that the event `decides`, comes with its reason: of `ask` the host shows
    it to the user, of `deny` to the model.
    """

    context: str = ""
    notice: str = ""
    decision: Decision | None = None
    reason: str = ""


SILENCE = Reply()

Payload = Mapping[str, Any]


_LONGEST_PATH = 4_096
_READ = 4  # times as much as is kept is looked at: what is taken out makes place for more

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
    """Return a working directory as it was named; None where it cannot be one."""
    if not isinstance(value, str) or len(value) > _LONGEST_PATH or "\x00" in value:
        return None
    return value if os.path.isabs(value) else None  # else it would be taken from where we stand


def prompt_text(value: str) -> str:
    """Return what a person wrote of a prompt, cut; nothing where a machine wrote all of it."""
    return human_text(frame.strip(value[: MAX_PROMPT * _READ]))[:MAX_PROMPT]


def reply_text(value: str) -> str:
    """Return what an agent said, without blocks of ours, cut."""
    return frame.strip(value[: MAX_SAID * _READ])[:MAX_SAID]
