"""
A turn of a transcript: a request to an agent and its outcome; OpenTurn: a turn being read.

Every host records a tool's call and its outcome apart from each other, some the outcome twice or
long after. A turn is put together here, the same way for all; it keeps no more of each step than an
episode can hold, so that a long turn fits in memory.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from store.agents.diffs import MAX_ARGUMENT
from store.agents.json_fields import output_tail
from store.agents.tool_calls import ToolUse, defined_names, tool_use
from store.home.instants import LATEST, micros
from store.text import frame

MAX_STEPS = 2_000  # of one turn; later ones are left out
MAX_SAID = 8_000  # characters of the closing words
_MAX_ITEMS = 50  # of a list that a tool was given


class Transcript(msgspec.Struct, frozen=True):
    """The place of a session's transcript: a file, or one session in a file of many."""

    path: Path
    session: str = ""

    def __str__(self) -> str:
        return f"{self.path} {self.session}".rstrip()


class Said(msgspec.Struct, frozen=True):
    """A message; `id` is that of its line in the transcript, `at` microseconds, 0 unknown."""

    text: str
    id: str
    at: int


class Step(msgspec.Struct, frozen=True):
    """A tool's use; `names` are those an edited file defined before, where known."""

    tool: ToolUse
    id: str
    at: int
    names: tuple[str, ...] = ()


class Turn(msgspec.Struct, frozen=True):
    """A request, the steps taken for it in order, and the closing words."""

    session: str
    cwd: str | None
    branch: str | None
    request: Said
    steps: tuple[Step, ...]
    closing: Said | None
    is_unattended: bool = False  # an unattended run: a program sent the request


Skip = Callable[[str], None]  # is called for each part left out
Turns = Callable[[Transcript, Skip], Iterator[Turn]]


@dataclass(slots=True)
class _Call:
    id: str
    line: str
    name: str
    arguments: Mapping[str, Any]
    at: int
    has_ended: bool = False
    passed: bool | None = None
    output: str = ""
    names: tuple[str, ...] = ()


@dataclass(slots=True)
class OpenTurn:
    """A turn being read. A call without an outcome did nothing and is left out."""

    session: str
    cwd: str | None
    branch: str | None
    request: Said
    is_unattended: bool = False
    _calls: list[_Call] = field(default_factory=list)
    _latest: dict[str, _Call] = field(default_factory=dict)  # by id: some models number anew
    _words: list[Said] = field(default_factory=list)  # since the last call

    def say(self, words: str, id_: str, at: int) -> None:
        """Add words of the agent's."""
        if words.strip() and sum(len(statement.text) for statement in self._words) < MAX_SAID:
            self._words.append(Said(words.strip()[: MAX_SAID * 2], id_, at))

    def call(self, id_: str, name: str, arguments: object, at: int, line: str = "") -> None:
        """Add a tool that the agent called; `id_` distinguishes it from the turn's other calls.

        `line` is the id of its line in the transcript, for hosts whose call ids repeat.
        """
        self._words.clear()
        before = self._latest.get(id_)
        is_again = before is not None and not before.has_ended
        if id_ and not is_again and len(self._calls) < MAX_STEPS:
            shortened = _short(arguments)
            fields = shortened if isinstance(shortened, dict) else {}
            self._latest[id_] = _Call(id_, line, name, fields, at)
            self._calls.append(self._latest[id_])

    def has(self, id_: str) -> bool:
        """Return True if a tool was called under an id."""
        return id_ in self._latest

    def end(self, id_: str, passed: bool | None, output: object = "", original: str = "") -> None:
        """Add the outcome of a call; of several reports the last that is not empty counts.

        `original` is the edited file's text before the edit.
        """
        call = self._latest.get(id_)
        if call is None:
            return
        call.has_ended = True
        call.passed = call.passed if passed is None else passed
        call.output = output_tail(output) or call.output
        call.names = defined_names(original) if original else call.names

    def edit(self, id_: str, files: list[str]) -> None:
        """Set the files that a call changed, by their whole paths."""
        if files and (call := self._latest.get(id_)) is not None:
            call.name = "apply_patch"
            call.arguments = {**call.arguments, "files": files[:_MAX_ITEMS]}

    def forget(self, id_: str) -> None:
        """Drop a refused call: it did nothing."""
        if (call := self._latest.pop(id_, None)) is not None:
            self._calls.remove(call)

    def close(self) -> Turn:
        """Return the turn as it is now."""
        steps: list[Step] = []
        for call in self._calls:
            if call.has_ended:
                tool = tool_use(
                    call.name, call.arguments, id_=call.id, passed=call.passed, output=call.output
                )
                steps.append(Step(tool, f"{call.line}:{call.id}", call.at, call.names))
        words = frame.strip("\n\n".join(statement.text for statement in self._words)).strip()[
            :MAX_SAID
        ]
        last = replace(self._words[-1], text=words) if words else None
        whose = (self.session, self.cwd, self.branch, self.request)
        return Turn(*whose, tuple(steps), last, self.is_unattended)


def _short(value: object, depth: int = 3) -> object:
    """Return a tool's input, its long texts cut."""
    if isinstance(value, str):
        return value[:MAX_ARGUMENT]
    if isinstance(value, dict) and depth:
        items = list(value.items())[:_MAX_ITEMS]
        return {name: _short(item, depth - 1) for name, item in items}
    if isinstance(value, list) and depth:
        return [_short(item, depth - 1) for item in value[:_MAX_ITEMS]]
    return value if isinstance(value, (bool, int, float)) else None


def parse_instant(value: object) -> int:
    """Return the microseconds since 1970 of an ISO 8601 text or of milliseconds; 0 of neither."""
    at = 0
    if isinstance(value, str):
        try:
            at = micros(datetime.fromisoformat(value))
        except (ValueError, OverflowError):
            return 0
    elif isinstance(value, (int, float)) and 0 < value <= LATEST / 1_000:
        at = int(value * 1_000)
    return at if 0 < at <= LATEST else 0


# The part of a prompt that a person typed.
#
# Hosts, their hooks and their editors write into the text of a prompt: as tags of their own, as a
# heading before the request, as a whole message in the user's name. All of it is removed here, for
# transcripts as for hooks. Tags are named in full: a person may write about `<div>`.

MAX_TEXT = 16_000  # characters kept of one message

_CLAUDE_CODE = """system-reminder local-command-stdout local-command-stderr local-command-caveat
    command-name command-message command-args command-contents bash-input bash-stdout bash-stderr
    task-notification user-prompt-submit-hook ide_opened_file ide_selection ide_diagnostics
    new-diagnostics session-start-hook"""
_CODEX = """environment_context user_instructions user_shell_command turn_aborted user_action
    subagent_notification hook_prompt codex_internal_context goal_context"""
_GEMINI = "hook_context session_context state_snapshot loaded_context"
TAGS = (*_CLAUDE_CODE.split(), *_CODEX.split(), *_GEMINI.split())
OPENINGS = (
    "Caveat: The messages below",
    "Stop hook feedback:",
    "This session is being continued from a previous conversation",
    "UserPromptSubmit hook additional context:",
    "# AGENTS.md instructions for ",
    "Another language model started to solve this problem",
)

_TAGGED = re.compile(rf"<({'|'.join(TAGS)})(?:\s[^<>]*)?>.*?(?:</\1>|\Z)", re.DOTALL)
_MARKER = re.compile(r"^\[(?:Request interrupted by user[^\]]*|Image #\d+|Pasted text[^\]]*)\]\s*")
_REMEMBER = re.compile(r"</?user-memory-input>")  # "# always use pnpm": the words are the user's
# Gemini CLI appends the files that a prompt names by @
_APPENDED = re.compile(
    r"--- Content from referenced files ---.*?(?:--- End of content ---|\Z)", re.DOTALL
)
# Codex in an editor
_EDITOR = re.compile(
    r"\A# (?:Context from my IDE setup|Files mentioned by the user):.*?"
    r"^## My request for Codex:[ \t]*",
    re.DOTALL | re.MULTILINE,
)
# Cursor's news of a task that ended, with a request of its own below
_NOTIFIED = re.compile(r"\A(?:<timestamp>[^<]*</timestamp>\s*)?<system_notification>")
# what buttons of Cursor and of VS Code add to the request that they are
_BUTTONS = re.compile(
    r", it is attached for your reference\. Do NOT edit the plan file itself\."
    r"|\s?To-do's from the plan have already been created[.,] [Dd]o not create them again\."
    r"(?: Mark them as in_progress as you work, starting with the first one\.)?"
    r"(?: Don't stop until you have completed all the to-dos\.)?"
    r"|(?<=^How can I resolve this\?) If you propose a fix, please make it concise\.",
    re.MULTILINE,
)


def human_text(text: str) -> str:
    """Return the part of a prompt that a person typed, or that a button says for them; empty if a
    machine wrote all of it.
    """
    return without_buttons(unwrapped(text))


def without_buttons(text: str) -> str:
    """Return a request without what the button that made it adds to it."""
    return _BUTTONS.sub("", text).strip()


def unwrapped(text: str) -> str:
    """Return a prompt without what hosts write around it; empty if a machine wrote all of it."""
    if _NOTIFIED.match(text):
        return ""
    text = _REMEMBER.sub("", _TAGGED.sub("", text)).strip()
    text = _EDITOR.sub("", _APPENDED.sub("", text)).strip()
    while marker := _MARKER.match(text):
        text = text[marker.end() :]
    return "" if text.startswith(OPENINGS) else text[:MAX_TEXT].strip()
