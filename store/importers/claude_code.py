"""
Claude Code's session transcripts, read turn by turn.

Ids come from the transcript's own uuids, so that a session read again after it grew, or copied into
another file by `--resume` or a fork, adds only its new turns. Text that the host, its hooks and its
commands wrote into the file is left out, as are thinking, side chains and bookkeeping.

The format is internal to Claude Code and changes between releases, so only the fields below are
read, and lines of an unknown type are ignored. https://code.claude.com/docs/en/sessions says where
the files are; `tests/data/sessions` shows their content.
"""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import msgspec

from store.agents.tool_calls import MAX_SOURCE
from store.agents.typed_text import human_text
from store.home.instants import LATEST, micros
from store.importers.source_files import UNREADABLE, decode_json, files_below, read_records
from store.importers.transcript_turn import OpenTurn, Said, Skip, Transcript, Turn

MAX_LINE = 8 << 20  # bytes: a prompt with a picture; longer lines hold little text
SYNTHETIC = "<synthetic>"  # the "model" of API errors and placeholders
# requesters: the host itself, not a person
_MACHINES = frozenset({"system", "loop_wakeup", "schedule_wakeup", "poll_event"})
SIDE_FOLDERS = frozenset({"subagents", "tool-results", "workflows", "memory"})
_ENDINGS = (".jsonl", ".jsonl.gz", ".jsonl.zst")
_LOOKED_AT = 64_000  # characters of a prompt
_MOST_BLOCKS = 1_000  # of a line

# A refused or malformed call did nothing, and is no error of the work either.
NOT_DONE = ("The user doesn't want to", "<tool_use_error>", "[Request interrupted", "Cancelled:")


class Block(msgspec.Struct, frozen=True):
    """A piece of a message: text, tool_use or tool_result; other types are passed over."""

    type: str = ""
    text: str | None = None
    id: str | None = None
    name: str | None = None
    input: object = None
    tool_use_id: str | None = None
    content: "str | list[Block] | None" = None
    is_error: bool | None = None


class Message(msgspec.Struct, frozen=True):
    """A message; its content is a list of blocks, or a plain text."""

    content: str | list[Block] = ""
    model: str | None = None


class Line(msgspec.Struct, frozen=True, rename="camel"):
    """The fields read from a line of type user or assistant."""

    type: str
    message: Message
    session_id: str | None = None
    uuid: str | None = None
    timestamp: datetime | None = None
    cwd: str | None = None
    git_branch: str | None = None
    is_meta: bool | None = None
    is_sidechain: bool | None = None
    is_compact_summary: bool | None = None
    is_api_error_message: bool | None = None
    prompt_source: str | None = None
    entrypoint: str | None = None
    tool_use_result: object = None

    @property
    def original_file(self) -> str:
        """An edited file's text before the edit, where the line has it."""
        result = self.tool_use_result
        original = result.get("originalFile") if isinstance(result, dict) else None
        return original if isinstance(original, str) else ""


class _Head(msgspec.Struct, frozen=True):
    type: str = ""


_head = msgspec.json.Decoder(_Head)
_line = msgspec.json.Decoder(Line)


def find(source: Path, on_skip: Skip) -> list[Transcript]:
    """Return the session files of a project's folder, of the folder of all projects, or of
    ~/.claude.
    """
    homes = (source / "projects", source / ".claude" / "projects")
    top = next((home for home in homes if home.is_dir()), source)
    paths = files_below(
        top,
        lambda name: name.endswith(_ENDINGS),
        lambda folder: folder.name in SIDE_FOLDERS,
    )
    return [Transcript(path) for path in paths]


def turns(transcript: Transcript, on_skip: Skip) -> Iterator[Turn]:
    """Yield a session file's turns in order; raise OSError as the disk does."""
    path, open_turn = transcript.path, None
    for line in lines(path, on_skip):
        if open_turn is not None:
            _add(open_turn, line)
        if request := _request(line):
            if open_turn is not None:
                yield open_turn.close()
            session = (line.session_id or path.stem)[:200]
            statement = Said(request, line.uuid or request, _at(line))
            # through the SDK, or `claude -p`
            is_sent = line.prompt_source == "sdk" or (line.entrypoint or "").startswith("sdk")
            open_turn = OpenTurn(session, line.cwd, line.git_branch, statement, is_sent)
    if open_turn is not None:
        yield open_turn.close()


def _request(line: Line) -> str:
    """Return the text a person typed in this line; empty if a machine wrote it."""
    if line.type != "user":
        return ""
    prompts = (human_text(text[:_LOOKED_AT]) for text in texts(line)[:_MOST_BLOCKS])
    return "\n\n".join(text for text in prompts if text)


def _add(turn: OpenTurn, line: Line) -> None:
    at, is_agents = _at(line), line.type == "assistant"
    if is_agents and isinstance(line.message.content, str):
        turn.say(line.message.content, line.uuid or "", at)
    for block in blocks(line)[:_MOST_BLOCKS]:
        if is_agents and block.type == "text":
            turn.say(block.text or "", line.uuid or "", at)
        elif is_agents and block.type == "tool_use":
            turn.call(block.id or "", block.name or "", block.input, at, line.uuid or "")
        elif block.type == "tool_result" and block.tool_use_id:
            output = plain(block.content).strip()
            if block.is_error and output.startswith(NOT_DONE):
                turn.forget(block.tool_use_id)
            else:
                original = line.original_file[:MAX_SOURCE]
                turn.end(block.tool_use_id, not block.is_error, output, original)


def _at(line: Line) -> int:
    at = micros(line.timestamp) if line.timestamp else 0
    return at if 0 < at <= LATEST else 0  # its zone may put it beyond the calendar


def lines(path: Path, on_skip: Skip) -> Iterator[Line]:
    """Yield the conversation's lines, in file order.

    A line that cannot be read, or is over MAX_LINE, is left out and reported to `on_skip`. Raise
    OSError as the file system does.
    """
    for number, raw in read_records(path, MAX_LINE, on_skip):
        try:
            head = decode_json(raw, _head)
            line = decode_json(raw, _line) if head.type in ("user", "assistant") else None
        except UNREADABLE as error:
            on_skip(f"{path} line {number} was left out: {error}")
            continue
        if line is None or line.message.model == SYNTHETIC or line.prompt_source in _MACHINES:
            continue
        if not (
            line.is_meta
            or line.is_sidechain
            or line.is_compact_summary
            or line.is_api_error_message
        ):
            yield line


def texts(line: Line) -> list[str]:
    """Return the plain texts of a line, in order."""
    content = line.message.content
    if isinstance(content, str):
        return [content]
    return [block.text for block in content if block.type == "text" and block.text]


def blocks(line: Line) -> list[Block]:
    """Return the blocks of a line; none if its content is a plain text."""
    return line.message.content if isinstance(line.message.content, list) else []


def plain(content: str | list[Block] | None) -> str:
    """Return the text of a tool's result."""
    if isinstance(content, str):
        return content
    return "\n".join(block.text for block in content or () if block.type == "text" and block.text)
