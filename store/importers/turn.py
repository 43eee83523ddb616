"""
Turn: what a person asked of Claude Code, and all that was said and done until the next request.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from store.events import EARLIEST, LATEST, micros
from store.importers import transcript
from store.importers.transcript import Block, Head, Line

MAX_LINES = 4_000  # of one turn; what comes after is left out
EDITORS = frozenset({"Edit", "MultiEdit", "Write", "NotebookEdit"})

# A refused or malformed call did nothing, and is no error of the work either.
NOT_DONE = ("The user doesn't want to", "<tool_use_error>", "[Request interrupted", "Cancelled:")


@dataclass(frozen=True, slots=True)
class Said:
    """What was said; `uuid` and `at` (microseconds, 0 unknown) are its line's."""

    text: str
    uuid: str | None
    at: int


@dataclass(frozen=True, slots=True)
class Called:
    """A tool call. One that was refused or cut off has neither `passed` nor an `error`."""

    id: str
    at: int
    tool: str
    command: str | None
    path: str | None
    passed: bool
    error: str | None


@dataclass(frozen=True, slots=True)
class Turn:
    """A request (None where the file begins without one) and the steps that followed, in order."""

    session: str
    cwd: str | None
    branch: str | None
    request: Said | None
    steps: tuple[Said | Called, ...]


@dataclass(frozen=True, slots=True)
class Title:
    """The session's own summary line, dated by the first line that has a time."""

    session: str
    cwd: str | None
    text: str
    leaf: str | None
    at: int


def edited(steps: Sequence[Said | Called]) -> list[str]:
    """Return the paths that were edited, as the calls named them, in order, each once."""
    calls = (step for step in steps if isinstance(step, Called) and step.tool in EDITORS)
    return list(dict.fromkeys(call.path for call in calls if call.passed and call.path))


def turns(path: Path, on_skip: Callable[[str], None]) -> Iterator[Turn | Title]:
    """Yield a session file's turns in order, then its titles; raise OSError as the disk does."""
    first: Line | None = None
    titles: dict[str, Head] = {}
    open_turn: list[Line] = []
    for line in transcript.lines(path, on_skip):
        if isinstance(line, Head):
            titles.setdefault(str(line.summary), line)
            continue
        first = first or line
        if open_turn and _request(line):
            yield _turn(open_turn, path)
            open_turn = []
        if len(open_turn) < MAX_LINES:
            open_turn.append(line)
    if open_turn:
        yield _turn(open_turn, path)
    for text, head in titles.items():
        session, at = (_session(first, path), _at(first)) if first else (path.stem, 0)
        yield Title(session, first.cwd if first else None, text, head.leaf_uuid, at)


def _turn(lines: list[Line], path: Path) -> Turn:
    first, text = lines[0], _request(lines[0])
    results = {
        block.tool_use_id: block
        for line in lines
        for block in transcript.blocks(line)
        if block.type == "tool_result"
    }
    said = (line for line in lines if line.type == "assistant")
    steps = tuple(step for line in said for step in _steps(line, results))
    request = Said(text, first.uuid, _at(first)) if text else None
    return Turn(_session(first, path), first.cwd, first.git_branch, request, steps)


def _request(line: Line) -> str:
    """Return what a person typed in this line; empty where a machine wrote it."""
    if line.type != "user":
        return ""
    typed = (transcript.human(text) for text in transcript.texts(line))
    return "\n\n".join(text for text in typed if text)


def _steps(line: Line, results: dict[str | None, Block]) -> Iterator[Said | Called]:
    if isinstance(line.message.content, str):
        yield Said(line.message.content.strip(), line.uuid, _at(line))
    for block in transcript.blocks(line):
        if block.type == "text" and block.text and block.text.strip():
            yield Said(block.text.strip(), line.uuid, _at(line))
        elif block.type == "tool_use":
            yield _called(block, results.get(block.id), _at(line))


def _called(use: Block, result: Block | None, at: int) -> Called:
    inputs = use.input if isinstance(use.input, dict) else {}
    path = inputs.get("file_path") or inputs.get("notebook_path")
    output = transcript.plain(result.content).strip() if result is not None else ""
    failed = result is not None and bool(result.is_error)
    return Called(
        use.id or "",
        at,
        use.name or "",
        inputs.get("command"),
        path,
        passed=result is not None and not failed,
        error=output if failed and not output.startswith(NOT_DONE) else None,
    )


def _session(line: Line, path: Path) -> str:
    return (line.session_id or path.stem)[:200]


def _at(line: Line) -> int:
    at = micros(line.timestamp) if line.timestamp else 0
    return at if EARLIEST <= at <= LATEST else 0  # its zone puts it beyond the calendar
