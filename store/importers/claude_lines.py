"""
The lines of a Claude Code session file that a person or the agent wrote.

What the host, its hooks and its commands wrote into the file is left out here, and so are thinking,
side chains and bookkeeping; what is kept of a line is short, so that a long turn fits in memory.
The format is internal to Claude Code and changes between releases, so only the fields below are
read, and a type of line we do not know is passed over. https://code.claude.com/docs/en/sessions
says where the files lie; `tests/data/sessions` shows what is in them.
"""

from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

import msgspec

from store.deeds.fields import MAX_OUTPUT
from store.extracts import MAX_SOURCE
from store.importers import lines as source
from store.importers.prompts import MAX_TEXT

MAX_LINE = 8 << 20  # bytes: a prompt with a picture; what is longer holds little that is said

SYNTHETIC = "<synthetic>"  # the "model" of API errors and placeholders

_BLOCKS = frozenset({"text", "tool_use", "tool_result"})
_LONGEST_INPUT = 4_000  # characters of a text that a tool was given


class Block(msgspec.Struct, frozen=True):
    """A piece of a message: text, tool_use or tool_result; other types are dropped."""

    type: str = ""
    text: str | None = None
    id: str | None = None
    name: str | None = None
    input: object = None
    tool_use_id: str | None = None
    content: "str | list[Block] | None" = None
    is_error: bool | None = None


class Message(msgspec.Struct, frozen=True):
    """What was said; a list of blocks, or a plain text."""

    content: str | list[Block] = ""
    model: str | None = None


class Line(msgspec.Struct, frozen=True, rename="camel"):
    """What is read of a line of type user or assistant."""

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
    tool_use_result: object = None

    @property
    def original_file(self) -> str:
        """What an edited file said before the edit, where the line tells of one."""
        result = self.tool_use_result
        original = result.get("originalFile") if isinstance(result, dict) else None
        return original if isinstance(original, str) else ""


class Head(msgspec.Struct, frozen=True, rename="camel"):
    """What every line has; decides how it is read. `summary` is the title of a session."""

    type: str = ""
    summary: object = None
    leaf_uuid: str | None = None


_head = msgspec.json.Decoder(Head)
_line = msgspec.json.Decoder(Line)


def lines(path: Path, on_skip: Callable[[str], None]) -> Iterator[Line | Head]:
    """Yield the conversation's lines and the session's titles (as `Head`), in file order.

    A line that cannot be read, or is over MAX_LINE, is left out and `on_skip` is told which. Raise
    OSError as the file system does.
    """
    for number, raw in enumerate(source.lines(path, MAX_LINE), 1):
        if not raw.strip():
            continue
        if len(raw) > MAX_LINE or source.is_crowded(raw):
            on_skip(f"{path} line {number} was left out: it is too long, or holds too much")
            continue
        try:
            head = _head.decode(raw)
            line = _line.decode(raw) if head.type in ("user", "assistant") else None
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            on_skip(f"{path} line {number} was left out: {error}")
            continue
        if head.type == "summary" and isinstance(head.summary, str):
            yield head
        if line is not None and not _is_machine(line):
            yield _short(line)


def texts(line: Line) -> list[str]:
    """Return the plain texts of a line, in order."""
    content = line.message.content
    if isinstance(content, str):
        return [content]
    return [block.text for block in content if block.type == "text" and block.text]


def blocks(line: Line) -> list[Block]:
    """Return the blocks of a line; none where its content is a plain text."""
    return line.message.content if isinstance(line.message.content, list) else []


def plain(content: str | list[Block] | None) -> str:
    """Return the text of a tool's result."""
    if isinstance(content, str):
        return content
    return "\n".join(block.text for block in content or () if block.type == "text" and block.text)


def _is_machine(line: Line) -> bool:
    flags = (line.is_meta, line.is_sidechain, line.is_compact_summary, line.is_api_error_message)
    return any(flags) or line.message.model == SYNTHETIC


def _short(line: Line) -> Line:
    """Return a line without what is never looked at, so that a long turn stays small."""
    content = line.message.content
    if isinstance(content, str):
        short: str | list[Block] = content[: MAX_TEXT * 2]
    else:
        short = [_short_block(block) for block in content if block.type in _BLOCKS]
    message = msgspec.structs.replace(line.message, content=short)
    original = line.original_file[:MAX_SOURCE]
    result = {"originalFile": original} if original else None
    return msgspec.structs.replace(line, message=message, tool_use_result=result)


def _short_block(block: Block) -> Block:
    if block.type == "tool_result":
        output = plain(block.content)[-MAX_OUTPUT:]
        return Block(
            "tool_result", tool_use_id=block.tool_use_id, content=output, is_error=block.is_error
        )
    if block.type == "tool_use":
        return Block("tool_use", id=block.id, name=block.name, input=_short_input(block.input))
    return Block("text", text=(block.text or "")[: MAX_TEXT * 2])


def _short_input(given: object, depth: int = 2) -> object:
    """Return what a tool was given, its long texts cut."""
    if isinstance(given, str):
        return given[:_LONGEST_INPUT]
    if isinstance(given, dict) and depth:
        return {name: _short_input(value, depth - 1) for name, value in given.items()}
    if isinstance(given, list) and depth:
        return [_short_input(value, depth) for value in given[:50]]
    return given if isinstance(given, (bool, int, float)) else None
