"""
Claude Code's session transcripts, read turn by turn.

Ids come from the transcript's own uuids, so that a session read again after it grew, or copied into
another file by `--resume`, adds only what is new.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from store.deeds.tools import tool_use
from store.errors import SourceError
from store.events import EARLIEST, LATEST, micros
from store.importers import claude_lines
from store.importers.claude_lines import Block, Head, Line
from store.importers.files import is_ours
from store.importers.prompts import typed
from store.importers.session import Said, Step, Turn

AGENT = "claude-code"
MAX_LINES = 4_000  # of one turn; what comes after is left out
SIDE_FOLDERS = frozenset({"subagents", "tool-results", "workflows", "memory"})

# A refused or malformed call did nothing, and is no error of the work either.
NOT_DONE = ("The user doesn't want to", "<tool_use_error>", "[Request interrupted", "Cancelled:")


def files(source: Path) -> list[Path]:
    """Return the session files at a place: a file, a project's folder or that of all projects.

    Raise SourceError where there is none.
    """
    if source.is_file():
        return [source]
    if not source.is_dir():
        raise SourceError(f"no transcripts at {source}: name a .jsonl file or ~/.claude/projects")
    found: list[Path] = []
    for folder, folders, names in os.walk(source):
        folders[:] = [name for name in folders if name not in SIDE_FOLDERS]
        paths = (Path(folder, name) for name in names if name.endswith(".jsonl"))
        found += (path for path in paths if is_ours(path, source))
    if not found:
        raise SourceError(f"no transcripts (*.jsonl) in {source}: name ~/.claude/projects")
    return sorted(found)


def turns(path: Path, on_skip: Callable[[str], None]) -> Iterator[Turn]:
    """Yield a session file's turns in order; raise OSError as the disk does."""
    open_turn: list[Line] = []
    for line in claude_lines.lines(path, on_skip):
        if isinstance(line, Head):  # a title, often another session's
            continue
        if open_turn and _request(line):
            yield _turn(open_turn, path)
            open_turn = []
        if len(open_turn) < MAX_LINES:
            open_turn.append(line)
    if open_turn:
        yield _turn(open_turn, path)


def _turn(lines: list[Line], path: Path) -> Turn:
    first, text = lines[0], _request(lines[0])
    results = {
        block.tool_use_id: (block, line.original_file)
        for line in lines
        for block in claude_lines.blocks(line)
        if block.type == "tool_result"
    }
    said = (line for line in lines if line.type == "assistant")
    steps = tuple(step for line in said for step in _steps(line, results))
    request = Said(text, first.uuid or text, _at(first)) if text else None
    session = (first.session_id or path.stem)[:200]
    return Turn(session, first.cwd, first.git_branch, request, steps)


def _request(line: Line) -> str:
    """Return what a person typed in this line; empty where a machine wrote it."""
    if line.type != "user":
        return ""
    prompts = (typed(text) for text in claude_lines.texts(line))
    return "\n\n".join(text for text in prompts if text)


def _steps(line: Line, results: dict[str | None, tuple[Block, str]]) -> Iterator[Said | Step]:
    if isinstance(line.message.content, str):
        yield Said(line.message.content.strip(), line.uuid or "", _at(line))
    for block in claude_lines.blocks(line):
        if block.type == "text" and block.text and block.text.strip():
            yield Said(block.text.strip(), line.uuid or "", _at(line))
        elif block.type == "tool_use" and block.id in results:
            if (step := _step(block, *results[block.id], _at(line))) is not None:
                yield step


def _step(use: Block, result: Block, original: str, at: int) -> Step | None:
    output = claude_lines.plain(result.content).strip()
    has_failed = bool(result.is_error)
    if has_failed and output.startswith(NOT_DONE):
        return None
    given = use.input if isinstance(use.input, dict) else {}
    name = use.name or ""
    tool = tool_use(name, given, id_=use.id or "", passed=not has_failed, output=output)
    return Step(tool, use.id or "", at, original)


def _at(line: Line) -> int:
    at = micros(line.timestamp) if line.timestamp else 0
    return at if EARLIEST <= at <= LATEST else 0  # its zone puts it beyond the calendar
