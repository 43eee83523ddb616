"""
MemoryTool: a memory behind Anthropic's memory tool, `memory_20250818`.

Claude sees files below `/memories`. A file is a memory, found by its words and its path like any
other; its earlier text stays in that memory's history. The answers are those that Anthropic
documents for the tool.
"""

import asyncio
import posixpath
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Any

from anthropic.lib.tools import ToolError
from anthropic.tools.memory import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool

from mnemolog import Client, Error, wire

_ROOT = "/memories"
_TAG = "anthropic-memory"
_LONGEST = 64 * 1024  # characters of a memory
_MOST_LINES = 999_999
_LEVELS = 2  # of a listing
_NUMBER = 6  # characters of a line's number


class MemoryTool(BetaAbstractMemoryTool):
    """The memory tool for `client.beta.messages.tool_runner(tools=[MemoryTool(Client())])`.

    A file may have 65,536 characters with its path; secrets in it are redacted before they are
    written. A failed command raises ToolError with the reason for Claude, also if the server
    refuses it.
    """

    def __init__(
        self,
        client: Client,
        *,
        project: str | None = None,
        trust: wire.Trust = "agent",
        cache_control: Any = None,
    ) -> None:
        super().__init__(cache_control=cache_control)
        self._client, self._project, self._trust = client, project, trust

    def execute(self, command: Any) -> Any:
        """Return the result for Claude; raise ToolError."""
        try:
            return super().execute(command)
        except Error as error:
            raise ToolError(f"The memory cannot do this: {error}") from error

    def view(self, command: Any) -> str:
        path = _check_path(command.path)
        held = self._held(path)
        if held is not None:
            return _numbered(command.path, _text(held), command.view_range)
        files = {_path(memory): len(_text(memory).encode()) for memory in self._below(path)}
        if not files and path != _ROOT:
            raise ToolError(_no_path(command.path))
        return _listing(path, files)

    def create(self, command: Any) -> str:
        path = _check_path(command.path)
        if path == _ROOT or self._exists(path):
            raise ToolError(f"File {command.path} already exists")
        self._check_parents(path)
        self._write(path, command.file_text)
        return f"File created successfully at: {command.path}"

    def str_replace(self, command: Any) -> str:
        path, text = self._read(command.path)
        old = command.old_str
        starts = list(_starts(text, old)) if old else []
        if not starts:
            raise ToolError(
                f"No replacement was performed, old_str `{old}` did not appear verbatim in "
                f"{command.path}."
            )
        if len(starts) > 1:
            lines = ", ".join(str(text.count("\n", 0, start) + 1) for start in starts)
            raise ToolError(
                f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: "
                f"{lines}. Please ensure it is unique"
            )
        line = text.count("\n", 0, starts[0])
        changed = text.replace(old, command.new_str or "")
        self._write(path, changed)
        first = max(0, line - 2)
        around = changed.split("\n")[first : line + 3]
        return (
            "The memory file has been edited. Here is the snippet showing the change "
            "(with line numbers):\n" + _with_numbers(around, first + 1)
        )

    def insert(self, command: Any) -> str:
        path, text = self._read(command.path)
        lines = text.removesuffix("\n").split("\n") if text else []
        if not 0 <= command.insert_line <= len(lines):
            raise ToolError(
                f"Invalid `insert_line` parameter: {command.insert_line}. "
                f"It should be within the range [0, {len(lines)}]."
            )
        lines.insert(command.insert_line, command.insert_text.rstrip("\n"))
        self._write(path, "\n".join(lines) + "\n")
        return f"The file {command.path} has been edited."

    def delete(self, command: Any) -> str:
        path = _check_path(command.path)
        if path == _ROOT:
            raise ToolError(f"Cannot delete the {_ROOT} directory itself")
        memories = list(self._at_or_below(path))
        if not memories:
            raise ToolError(f"The path {command.path} does not exist")
        for memory in memories:
            self._client.memories.forget(memory.id)
        return f"Successfully deleted {command.path}"

    def rename(self, command: Any) -> str:
        old, new = _check_path(command.old_path), _check_path(command.new_path)
        if old == _ROOT:
            raise ToolError(f"Cannot rename the {_ROOT} directory itself")
        if new == _ROOT or self._exists(new):
            raise ToolError(f"The destination {command.new_path} already exists")
        self._check_parents(new)
        memories = list(self._at_or_below(old))
        if not memories:
            raise ToolError(f"The path {command.old_path} does not exist")
        if f"{new}/".startswith(f"{old}/"):
            raise ToolError(f"Cannot rename {command.old_path} into itself")
        for memory in memories:
            self._write(new + _path(memory).removeprefix(old), _text(memory))
        for memory in memories:
            self._client.memories.forget(memory.id)
        return f"Successfully renamed {command.old_path} to {command.new_path}"

    def clear_all_memory(self) -> str:
        """Forget all files."""
        for memory in list(self._below(_ROOT)):
            self._client.memories.forget(memory.id)
        return "All memory cleared"

    def _list(self, **filters: Any) -> Iterator[wire.ListedMemory]:
        for memory in self._client.memories.list(project=self._project or "", **filters):
            if memory.project == self._project and _TAG in memory.metadata:
                yield memory

    def _held(self, path: str) -> wire.ListedMemory | None:
        """Return a file's current memory."""
        return next(self._list(key=_key(path)), None)

    def _below(self, folder: str) -> Iterator[wire.ListedMemory]:
        return (
            memory for memory in self._list(tag=[_TAG]) if _path(memory).startswith(f"{folder}/")
        )

    def _at_or_below(self, path: str) -> Iterator[wire.ListedMemory]:
        if held := self._held(path):
            yield held
        else:
            yield from self._below(path)

    def _exists(self, path: str) -> bool:
        return next(self._at_or_below(path), None) is not None

    def _check_parents(self, path: str) -> None:
        """Raise ToolError if a parent folder of the path is a file."""
        while (path := posixpath.dirname(path)) != _ROOT:
            if self._held(path):
                raise ToolError(f"The path {path} is not a directory.")

    def _read(self, named: str) -> tuple[str, str]:
        """Return a file's path and text; raise ToolError."""
        path = _check_path(named)
        held = self._held(path)
        if held is not None:
            return path, _text(held)
        is_folder = path == _ROOT or self._exists(path)
        raise ToolError(f"The path {named} is not a file." if is_folder else _no_path(named))

    def _write(self, path: str, text: str) -> None:
        whole = f"{path}\n{text}"
        if len(whole) > _LONGEST:
            raise ToolError(f"A file holds {_LONGEST} characters with its path: split {path}")
        fields: wire.Fields = {"tags": [_TAG], "trust": self._trust, "source": path}
        if self._project is not None:
            fields["project"] = self._project
        # the server strips a text: the stripped end is kept in the metadata
        fields["metadata"] = {_TAG: {"path": path, "end": whole[len(whole.rstrip()) :]}}
        self._client.memories.upsert(_key(path), whole.rstrip(), **fields)


class AsyncMemoryTool(BetaAsyncAbstractMemoryTool):
    """MemoryTool for AsyncAnthropic; each command runs in a thread."""

    def __init__(
        self,
        client: Client,
        *,
        project: str | None = None,
        trust: wire.Trust = "agent",
        cache_control: Any = None,
    ) -> None:
        super().__init__(cache_control=cache_control)
        self._tool = MemoryTool(client, project=project, trust=trust)

    async def execute(self, command: Any) -> Any:
        """Return the result for Claude; raise ToolError."""
        return await asyncio.to_thread(self._tool.execute, command)

    async def clear_all_memory(self) -> Any:
        """Forget all files."""
        return await asyncio.to_thread(self._tool.clear_all_memory)

    view = create = str_replace = insert = delete = rename = execute


def _check_path(named: str) -> str:
    """Return a path without dots and doubled slashes; raise ToolError if it leads outside."""
    if not named.startswith(_ROOT):
        raise ToolError(f"Path must start with {_ROOT}, got: {named}")
    path = posixpath.normpath(named)
    if path != _ROOT and not path.startswith(f"{_ROOT}/"):
        raise ToolError(f"Path {named} would escape {_ROOT} directory")
    return path


def _no_path(named: str) -> str:
    return f"The path {named} does not exist. Please provide a valid path."


def _key(path: str) -> str:
    return f"{_TAG}.{sha256(path.encode()).hexdigest()[:40]}"


def _path(memory: wire.ListedMemory) -> str:
    path: str = memory.metadata[_TAG]["path"]
    return path


def _text(memory: wire.ListedMemory) -> str:
    whole: str = memory.text + memory.metadata[_TAG]["end"]
    return whole.removeprefix(f"{_path(memory)}\n")


def _starts(text: str, part: str) -> Iterator[int]:
    start = text.find(part)
    while start >= 0:
        yield start
        start = text.find(part, start + 1)


def _with_numbers(lines: Sequence[str], first: int) -> str:
    return "\n".join(f"{number:>{_NUMBER}}\t{line}" for number, line in enumerate(lines, first))


def _numbered(named: str, text: str, shown: Sequence[int] | None) -> str:
    lines = text.split("\n")
    if len(lines) > _MOST_LINES:
        raise ToolError(f"File {named} exceeds maximum line limit of 999,999 lines.")
    first, last = (max(1, shown[0]), shown[1]) if shown and len(shown) == 2 else (1, -1)
    part = lines[first - 1 : None if last == -1 else last]
    return f"Here's the content of {named} with line numbers:\n" + _with_numbers(part, first)


def _listing(folder: str, files: dict[str, int]) -> str:
    """Return the files and folders two levels deep with their sizes, hidden ones left out."""
    sizes: dict[str, int] = {}
    for path, size in files.items():
        names = path.removeprefix(f"{folder}/").split("/")
        if any(name.startswith(".") for name in names):
            continue
        for level in range(1, min(len(names), _LEVELS) + 1):
            is_file = level == len(names)
            place = "/".join(names[:level]) + ("" if is_file else "/")
            sizes[place] = sizes.get(place, 0) + size
    lines = [f"{_size(sum(files.values()))}\t{folder}"]
    lines += [f"{_size(sizes[place])}\t{folder}/{place}" for place in sorted(sizes)]
    head = f"Here're the files and directories up to 2 levels deep in {folder}, "
    return f"{head}excluding hidden items:\n" + "\n".join(lines)


def _size(size: float) -> str:
    units = iter("BKMG")
    unit = next(units)
    while size >= 1024:
        size, unit = size / 1024, next(units)
    return f"{size:.0f}{unit}" if size == int(size) else f"{size:.1f}{unit}"
