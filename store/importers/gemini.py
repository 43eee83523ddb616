"""
Gemini CLI's recorded chats, read turn by turn.

A chat is a file of JSON Lines: the session's metadata, then each message, again whenever more of it
is known, and settings (`$set`) that may hold all messages anew. A repeated message keeps its first
time: it was copied when the chat was resumed. Messages that were taken back or summarized stay:
they happened. Before the spring of 2026 a chat was one JSON document.

https://github.com/google-gemini/gemini-cli, packages/core/src/services/chatRecordingService.ts. The
project is known by the file `.project_root` beside the chats, before that by a digest of its path
(packages/core/src/config/storage.ts), which is looked up among the known projects.
"""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path, PurePath
from typing import Any

from store.agents.json_fields import mapping, objects, plain, text
from store.agents.typed_text import human_text
from store.home.capped_files import is_crowded, open_capped
from store.home.errors import SourceError
from store.importers.source_files import (
    UNREADABLE,
    decode_object,
    files_below,
    read_records,
)
from store.importers.transcript_turn import OpenTurn, Said, Skip, Transcript, Turn, parse_instant

MAX_LINE = 16 << 20  # bytes: all messages of a chat that was resumed
MAX_DOCUMENT = 32 << 20
_NAME = re.compile(r"\Asession-.*\.jsonl?")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_LONG = 1 << 20  # characters read of a field
_SMALL = 1 << 20  # bytes of a file that names projects
# addressed to Gemini CLI, not to the model: "/chat save x", "?"; a path has a second slash
_COMMAND = re.compile(r"(?:/[\w:.-]+(?=\s|\Z)|\?\s*\Z)")
_EXIT = re.compile(r"^Exit Code: (\d{1,9})$", re.MULTILINE)
_ENDED = re.compile(
    r"\n(?:Error: \(none\)|(?:Exit Code|Signal|Background PIDs|Process Group PGID): .*"
    r"|</untrusted_context>)(?=\n|\Z)"
)


def find(source: Path, on_skip: Skip) -> list[Transcript]:
    """Return the chats of a folder, of a project's or of ~/.gemini; none of sub-agents."""
    homes = (source / "tmp", source / ".gemini" / "tmp")
    top = next((home for home in homes if home.is_dir()), source)
    # the folders in `chats` are those of sub-agents
    paths = files_below(top, _NAME.fullmatch, lambda folder: folder.parent.name == "chats")
    return [Transcript(path) for path in paths]


def turns(transcript: Transcript, on_skip: Skip) -> Iterator[Turn]:
    """Yield a chat's turns in order; none of a sub-agent's. Raise OSError, SourceError."""
    chat = _Chat(transcript.path.stem, _folder(transcript.path))
    is_document = transcript.path.suffix == ".json"
    records = _document(transcript.path) if is_document else _records(transcript.path, on_skip)
    for record in records:
        changes = mapping(record, "$set")
        if text(record, "sessionId"):
            chat.session = text(record, "sessionId")
        if text(record, "kind") == "subagent":
            return
        chat.digest = text(record, "projectHash") or chat.digest
        messages = [record] if text(record, "id") else []
        for message in (*messages, *objects(record, "messages"), *objects(changes, "messages")):
            yield from chat.add(message)
    yield from chat.end()


def _records(path: Path, on_skip: Skip) -> Iterator[dict[str, Any]]:
    for number, raw in read_records(path, MAX_LINE, on_skip):
        try:
            yield decode_object(raw)
        except UNREADABLE as error:
            on_skip(f"{path} line {number} was left out: {error}")


def _document(path: Path) -> list[dict[str, Any]]:
    """Return the one record of a chat from before the spring of 2026; raise SourceError."""
    with open_capped(path) as file:
        raw = file.read(MAX_DOCUMENT + 1)
    if len(raw) > MAX_DOCUMENT or is_crowded(raw):
        raise SourceError(f"it is over {MAX_DOCUMENT >> 20} MiB, or holds too much")
    try:
        return [decode_object(raw)]
    except UNREADABLE as error:
        raise SourceError(str(error)) from error


@dataclass
class _Chat:
    """The state of reading a chat. `over` are the messages of ended turns."""

    session: str
    cwd: str | None
    digest: str = ""  # of the project's path
    open_turn: OpenTurn | None = None
    over: set[str] = field(default_factory=set)
    answers: set[str] = field(default_factory=set)  # of the open turn

    def add(self, message: Mapping[str, Any]) -> Iterator[Turn]:
        """Add a message; yield the turn that a prompt ends."""
        id_, kind = text(message, "id"), text(message, "type")
        if not id_ or id_ in self.over:
            return
        at = parse_instant(message.get("timestamp"))
        if kind == "user":
            self.over.add(id_)
            if request := _request(message):
                yield from self.end()
                statement = Said(request, id_, at)
                self.open_turn = OpenTurn(self.session, self.cwd, None, statement)
        elif kind == "gemini" and self.open_turn is not None:
            self._answer(self.open_turn, message, id_, at)

    def _answer(self, turn: OpenTurn, message: Mapping[str, Any], id_: str, at: int) -> None:
        if id_ not in self.answers:
            turn.say(_words(message.get("content")), id_, at)
        self.answers.add(id_)
        for call in objects(message, "toolCalls"):
            _add_call(turn, call, id_)
            self._look_for_folder(turn, mapping(call, "args"))

    def _look_for_folder(self, turn: OpenTurn, arguments: Mapping[str, Any]) -> None:
        """Set the folder of the project from the path of a file in it."""
        path = text(arguments, "file_path", "absolute_path", "dir_path")
        if self.cwd is not None or not os.path.isabs(path):
            return
        for folder in PurePath(path).parents:
            if sha256(str(folder).encode()).hexdigest() == self.digest:
                self.cwd = turn.cwd = str(folder)

    def end(self) -> Iterator[Turn]:
        """Yield the open turn, if any."""
        if self.open_turn is not None:
            yield self.open_turn.close()
        self.open_turn = None
        self.over |= self.answers
        self.answers.clear()


def _add_call(turn: OpenTurn, call: Mapping[str, Any], message: str) -> None:
    id_, status = text(call, "id"), text(call, "status")
    if turn.has(id_) or status not in ("success", "error"):
        return
    at = parse_instant(call.get("timestamp"))
    turn.call(id_, text(call, "name"), call.get("args"), at, message)
    response = _response(call.get("result"))
    wrote = plain(response)
    code = _EXIT.findall(wrote)  # given only if it is not 0
    passed = status == "success" and "error" not in response and (not code or code[-1] == "0")
    turn.end(id_, passed, text(call, "resultDisplay", most=_LONG) or _output(wrote))


def _output(wrote: str) -> str:
    """Return a tool's output without the frame of a shell's."""
    wrote = wrote.removeprefix("<untrusted_context>\n")
    if wrote.startswith("Command: "):  # before 2026
        wrote = wrote.partition("\nOutput: ")[2]
    return _ENDED.sub("", wrote.removeprefix("Output: "))


def _response(result: object) -> Mapping[str, Any]:
    """Return a tool's answer from a result that is a text, a part or a list of parts."""
    for part in result[:10] if isinstance(result, list) else [result]:
        if isinstance(part, dict):
            return mapping(mapping(part, "functionResponse"), "response") or part
    return {"output": result if isinstance(result, str) else ""}


def _request(message: Mapping[str, Any]) -> str:
    """Return the part of a message that a person typed, without Gemini CLI's additions."""
    content = message.get("displayContent") or message.get("content")
    request = human_text(_words(content)[:64_000])
    return "" if _COMMAND.match(request) else request


def _words(content: object) -> str:
    """Return the text of a message: a text, a part or a list of both, without thoughts."""
    parts = content if isinstance(content, list) else [content]
    texts: list[str] = []
    for part in parts[:1_000]:
        if isinstance(part, dict):
            part = "" if part.get("thought") else text(part, "text", most=_LONG)
        if isinstance(part, str) and part:
            texts.append(part)
    return "\n".join(texts)


def _folder(path: Path) -> str | None:
    """Return the folder of the project that a chat belongs to; None if unknown."""
    home = path.parent.parent  # of the project, in ~/.gemini/tmp
    named = _head_of(home / ".project_root").strip()
    if named or not _DIGEST.fullmatch(home.name):
        return named or None
    try:
        registry = decode_object(_head_of(home.parent.parent / "projects.json").encode())
    except UNREADABLE:
        return None
    paths = mapping(registry, "projects")
    return next((other for other in paths if sha256(other.encode()).hexdigest() == home.name), None)


def _head_of(path: Path) -> str:
    try:
        if not path.is_file():
            return ""
        with path.open("rb") as file:
            return file.read(_SMALL).decode(errors="replace")
    except OSError:
        return ""
