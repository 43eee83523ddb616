"""
A turn of a transcript: a request to an agent and its outcome; OpenTurn: a turn being read.

Every host records a tool's call and its outcome apart from each other, some the outcome twice or
long after. A turn is put together here, the same way for all; it keeps no more of each step than an
episode can hold, so that a long turn fits in memory.
"""

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
