"""
Conversations in the data exports of ChatGPT and Claude.ai, read turn by turn.

Both are a .zip with conversations.json (a large one of ChatGPT's in parts, conversations-000.json),
an array of conversations. ChatGPT's are trees of messages, of which the branch that is shown is
read; Claude.ai's are lists. What hidden messages, tools and attachments say is left out. The
archive is never unpacked to the disk.
"""

import re
import zipfile
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from store.agents.json_fields import mapping, text
from store.home.errors import SourceError
from store.importers.source_files import UNREADABLE
from store.importers.transcript_turn import OpenTurn, Said, Skip, Transcript, Turn, parse_instant

MAX_FILE = 1 << 30  # bytes of a file of conversations
_FILES = re.compile(r"(?:^|/)conversations(?:-\d+)?\.json$")
_LONG = 64_000  # characters of a message that are looked at
_MOST = 20_000  # messages of a conversation

Message = tuple[str, str, str, int]  # who said it ("user", "assistant"), what, its id, when
_fields = msgspec.json.Decoder(dict[str, Any])


def find_chatgpt(source: Path, on_skip: Skip) -> list[Transcript]:
    """Return the conversations of ChatGPT in an export, or in the exports in a folder."""
    return _find(source, b'"mapping"', on_skip)


def find_claude_ai(source: Path, on_skip: Skip) -> list[Transcript]:
    """Return the conversations of Claude.ai in an export, or in the exports in a folder."""
    return _find(source, b'"chat_messages"', on_skip)


def chatgpt_turns(transcript: Transcript, on_skip: Skip) -> Iterator[Turn]:
    """Yield a conversation's turns in order; raise SourceError."""
    yield from _turns(transcript, _shown_branch)


def claude_ai_turns(transcript: Transcript, on_skip: Skip) -> Iterator[Turn]:
    """Yield a conversation's turns in order; raise SourceError."""
    yield from _turns(transcript, _listed)


def _find(source: Path, mark: bytes, on_skip: Skip) -> list[Transcript]:
    found: list[Transcript] = []
    for path in _exports(source):
        try:
            there = _conversations(path, path.stat().st_mtime_ns)
        except SourceError as error:
            on_skip(str(error))
            continue
        found += (Transcript(path, id_) for id_, raw in there.items() if mark in bytes(raw))
    return found


def _exports(source: Path) -> list[Path]:
    """Return the files of conversations and archives with some at a place."""
    if source.is_file():
        return [source] if _is_export(source) else []
    inner = sorted([*source.glob("conversations*.json"), *source.glob("*/conversations*.json")])
    archives = sorted(one for one in source.glob("*.zip") if one.is_file())
    return [one for one in (*inner, *archives) if _is_export(one)]


def _is_export(path: Path) -> bool:
    try:
        if path.suffix == ".json":
            return bool(_FILES.search(path.as_posix()))
        with zipfile.ZipFile(path) as archive:
            return any(map(_FILES.search, archive.namelist()))
    except (OSError, zipfile.BadZipFile):
        return False


@lru_cache(maxsize=1)  # each conversation is asked for by itself
def _conversations(path: Path, modified: int) -> Mapping[str, msgspec.Raw]:
    """Return the conversations of an export as they are written, by their ids."""
    found: dict[str, msgspec.Raw] = {}
    for data in _read(path):
        try:
            for raw in msgspec.json.decode(data, type=list[msgspec.Raw]):
                heading = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
                said = heading.get("conversation_id", heading.get("id", heading.get("uuid")))
                id_ = msgspec.json.decode(said) if said is not None else ""
                if isinstance(id_, str) and id_:
                    found[id_[:200]] = raw
        except UNREADABLE as error:
            raise SourceError(f"{path} is no list of conversations: {error}") from error
    return found


def _read(path: Path) -> Iterator[bytes]:
    try:
        if path.suffix == ".json":
            if path.stat().st_size > MAX_FILE:
                raise SourceError(f"{path} is over {MAX_FILE >> 20} MiB: split it")
            yield path.read_bytes()
            return
        with zipfile.ZipFile(path) as archive:
            for one in archive.infolist():
                if not _FILES.search(one.filename):
                    continue
                with archive.open(one) as file:
                    data = file.read(MAX_FILE + 1)
                if len(data) > MAX_FILE:
                    raise SourceError(f"{path} unpacks to over {MAX_FILE >> 20} MiB: split it")
                yield data
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError) as error:
        raise SourceError(f"{path} cannot be unpacked: {error}") from error


def _turns(
    transcript: Transcript, messages: Callable[[Mapping[str, Any]], Iterator[Message]]
) -> Iterator[Turn]:
    path = transcript.path
    raw = _conversations(path, path.stat().st_mtime_ns).get(transcript.session)
    if raw is None:
        raise SourceError("it is gone")
    try:
        conversation = _fields.decode(raw)
    except UNREADABLE as error:
        raise SourceError(str(error)) from error
    open_turn: OpenTurn | None = None
    for who, said, id_, at in messages(conversation):
        if who == "assistant" and open_turn is not None:
            open_turn.say(said, id_, at)
        elif who == "user":
            if open_turn is not None:
                yield open_turn.close()
            request = Said(said.strip()[:_LONG], id_ or said[:200], at)
            open_turn = OpenTurn(transcript.session, None, None, request)
    if open_turn is not None:
        yield open_turn.close()


def _shown_branch(conversation: Mapping[str, Any]) -> Iterator[Message]:
    """Yield the messages from the root of ChatGPT's tree to the one that is shown last."""
    nodes = mapping(conversation, "mapping")
    branch: list[Mapping[str, Any]] = []
    at, seen = conversation.get("current_node"), set[str]()
    while isinstance(at, str) and at not in seen and len(branch) < _MOST:
        seen.add(at)
        node = mapping(nodes, at)
        branch.append(mapping(node, "message"))
        at = node.get("parent")
    for message in reversed(branch):
        about, content = mapping(message, "metadata"), mapping(message, "content")
        is_hidden = about.get("is_visually_hidden_from_conversation") is True
        if is_hidden or content.get("content_type") not in ("text", "multimodal_text"):
            continue
        parts = content.get("parts")
        texts = [one for one in parts if isinstance(one, str)] if isinstance(parts, list) else []
        if said := "\n\n".join(texts)[:_LONG].strip():
            seconds = message.get("create_time")
            moment = parse_instant(seconds * 1_000 if isinstance(seconds, (int, float)) else 0)
            who = text(mapping(message, "author"), "role")
            yield who, said, text(message, "id"), moment


def _listed(conversation: Mapping[str, Any]) -> Iterator[Message]:
    """Yield the messages of Claude.ai's list, as they stand in it."""
    messages = conversation.get("chat_messages")
    for message in messages[:_MOST] if isinstance(messages, list) else []:
        if not isinstance(message, dict):
            continue
        blocks = message.get("content")
        texts = [
            text(one, "text", most=_LONG)
            for one in (blocks if isinstance(blocks, list) else [])
            if isinstance(one, dict) and one.get("type") == "text"
        ]
        said = "\n\n".join(filter(None, texts)) or text(message, "text", most=_LONG)
        if said.strip():
            who = {"human": "user"}.get(text(message, "sender"), text(message, "sender"))
            yield (
                who,
                said[:_LONG].strip(),
                text(message, "uuid"),
                parse_instant(message.get("created_at")),
            )
