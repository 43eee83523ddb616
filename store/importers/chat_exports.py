"""
Conversations in the data exports of ChatGPT and Claude.ai, read turn by turn.

Both are a .zip with conversations.json (a large one of ChatGPT's in parts, conversations-000.json),
an array of conversations. ChatGPT's are trees of messages, read along the shown branch; Claude.ai's
are lists. Hidden messages, tools and attachments are left out. The archive is never unpacked to the
disk.
"""

import re
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from io import BufferedReader
from pathlib import Path
from threading import local
from typing import Any

import msgspec

from store.agents.json_fields import mapping, objects, text
from store.home.capped_files import CappedZip, json_elements
from store.home.errors import SourceError
from store.importers.source_files import UNREADABLE, decode_json, decode_object, printable_name
from store.importers.transcript_turn import OpenTurn, Said, Skip, Transcript, Turn, parse_instant

MAX_CONVERSATION = 32 << 20  # bytes
_MOST_CONVERSATIONS = 100_000
_MOST_NAMELESS = 1_000  # conversations without an id, which no program writes
_CHATGPT, _CLAUDE_AI = b'"mapping"', b'"chat_messages"'
_FILES = re.compile(r"(?:^|/)conversations(?:-\d+)?\.json$")
_LONG = 64_000  # characters read of a message
_MOST = 20_000  # messages of a conversation

Message = tuple[str, str, str, int]  # the speaker ("user", "assistant"), the text, its id, the time


class _Heading(msgspec.Struct):
    conversation_id: Any = None
    id: Any = None
    uuid: Any = None


_heading = msgspec.json.Decoder(_Heading)
_reading = local()  # a thread's open export: `of` names it, `rest` is its unread part


def find_chatgpt(source: Path, on_skip: Skip) -> list[Transcript]:
    """Return the conversations of ChatGPT in an export, or in the exports in a folder."""
    return _find(source, _CHATGPT, on_skip)


def find_claude_ai(source: Path, on_skip: Skip) -> list[Transcript]:
    """Return the conversations of Claude.ai in an export, or in the exports in a folder."""
    return _find(source, _CLAUDE_AI, on_skip)


def chatgpt_turns(transcript: Transcript, on_skip: Skip) -> Iterator[Turn]:
    """Yield a conversation's turns in order; raise SourceError."""
    yield from _turns(transcript, _CHATGPT, _shown_branch)


def claude_ai_turns(transcript: Transcript, on_skip: Skip) -> Iterator[Turn]:
    """Yield a conversation's turns in order; raise SourceError."""
    yield from _turns(transcript, _CLAUDE_AI, _listed)


def _find(source: Path, mark: bytes, on_skip: Skip) -> list[Transcript]:
    transcripts: dict[str, Transcript] = {}
    for path in _exports(source):
        there: dict[str, Transcript] = {}
        try:
            for id_, _ in _conversations(path, mark, on_skip):
                there.setdefault(id_, Transcript(path, id_))
                if len(transcripts) + len(there) > _MOST_CONVERSATIONS:
                    raise SourceError(
                        f"{path} makes it over {_MOST_CONVERSATIONS:,} conversations: import fewer "
                        "at once"
                    )
        except SourceError as error:
            if path == source:
                raise
            on_skip(str(error))
            continue
        transcripts = there | transcripts
    return list(transcripts.values())


def _exports(source: Path) -> list[Path]:
    """Return the files of conversations and archives with some at a place; raise SourceError."""
    if source.is_file():
        return [source] if _is_export(source) else []
    inner = sorted([*source.glob("conversations*.json"), *source.glob("*/conversations*.json")])
    archives = sorted(other for other in source.glob("*.zip") if other.is_file())
    paths = []
    for path in (*inner, *archives):
        with suppress(SourceError, OSError):  # a folder of downloads has zips that are no exports
            paths += [path] if _is_export(path) else []
    return paths


def _is_export(path: Path) -> bool:
    if path.suffix == ".json":
        return bool(_FILES.search(path.as_posix()))
    if not zipfile.is_zipfile(path):
        return False
    with CappedZip(path) as archive:
        return any(_FILES.search(member.filename) for member in archive.members())


def _conversations(path: Path, mark: bytes, on_skip: Skip) -> Iterator[tuple[str, bytes]]:
    """Yield the ids of an export's conversations that hold `mark`, and their bytes.

    Raise SourceError.
    """
    if path.suffix == ".json":
        with path.open("rb") as file:
            yield from _marked(file, str(path), mark, on_skip)
        return
    with CappedZip(path) as archive:
        for member in archive.members():
            if _FILES.search(member.filename):
                place = f"{path}/{printable_name(member.filename)[:200]}"
                yield from _marked(archive.open(member), place, mark, on_skip)


def _marked(
    file: BufferedReader, place: str, mark: bytes, on_skip: Skip
) -> Iterator[tuple[str, bytes]]:
    nameless = 0
    for raw in json_elements(file, place, MAX_CONVERSATION, on_skip):
        try:
            heading = decode_json(raw, _heading)
        except UNREADABLE as error:
            raise SourceError(f"{place} is no list of conversations: {error}") from error
        id_ = heading.conversation_id or heading.id or heading.uuid
        if isinstance(id_, str) and id_ and mark in raw:
            yield id_[:200], raw
        elif (nameless := nameless + (not id_)) > _MOST_NAMELESS:
            raise SourceError(
                f"{place} is no list of conversations: over {_MOST_NAMELESS:,} of them have no id"
            )


def _conversation(transcript: Transcript, mark: bytes) -> bytes:
    """Return a conversation as it is written; raise SourceError.

    The search begins at the end of the last one, then at the start, so that reading an export in
    order unpacks it once.
    """
    path = transcript.path
    of = path, path.stat().st_mtime_ns, mark
    for is_anew in (False, True):
        if is_anew or getattr(_reading, "of", None) != of:
            _reading.of, _reading.rest = of, _conversations(path, mark, lambda _: None)
        rest: Iterator[tuple[str, bytes]] = _reading.rest
        for id_, raw in rest:
            if id_ == transcript.session:
                return raw
    raise SourceError("it is gone")


def _turns(
    transcript: Transcript,
    mark: bytes,
    messages: Callable[[Mapping[str, Any]], Iterator[Message]],
) -> Iterator[Turn]:
    raw = _conversation(transcript, mark)
    try:
        conversation = decode_object(raw)
    except UNREADABLE as error:
        raise SourceError(str(error)) from error
    open_turn: OpenTurn | None = None
    for who, words, id_, at in messages(conversation):
        if who == "assistant" and open_turn is not None:
            open_turn.say(words, id_, at)
        elif who == "user":
            if open_turn is not None:
                yield open_turn.close()
            request = Said(words.strip()[:_LONG], id_ or words[:200], at)
            open_turn = OpenTurn(transcript.session, None, None, request)
    if open_turn is not None:
        yield open_turn.close()


def _shown_branch(conversation: Mapping[str, Any]) -> Iterator[Message]:
    """Yield the messages from the root of ChatGPT's tree to the last one shown."""
    nodes = mapping(conversation, "mapping")
    branch: list[Mapping[str, Any]] = []
    id_, visited = conversation.get("current_node"), set[str]()
    while isinstance(id_, str) and id_ not in visited and len(branch) < _MOST:
        visited.add(id_)
        node = mapping(nodes, id_)
        branch.append(mapping(node, "message"))
        id_ = node.get("parent")
    for message in reversed(branch):
        about, content = mapping(message, "metadata"), mapping(message, "content")
        is_hidden = about.get("is_visually_hidden_from_conversation") is True
        if is_hidden or content.get("content_type") not in ("text", "multimodal_text"):
            continue
        parts = content.get("parts")
        texts = [part for part in parts if isinstance(part, str)] if isinstance(parts, list) else []
        if words := "\n\n".join(texts)[:_LONG].strip():
            seconds = message.get("create_time")
            moment = parse_instant(seconds * 1_000 if isinstance(seconds, (int, float)) else 0)
            yield text(mapping(message, "author"), "role"), words, text(message, "id"), moment


def _listed(conversation: Mapping[str, Any]) -> Iterator[Message]:
    """Yield the messages of Claude.ai's list, in its order."""
    for message in objects(conversation, "chat_messages")[:_MOST]:
        texts = [
            text(block, "text", most=_LONG)
            for block in objects(message, "content")
            if block.get("type") == "text"
        ]
        words = "\n\n".join(filter(None, texts)) or text(message, "text", most=_LONG)
        if words.strip():
            sender, at = text(message, "sender"), parse_instant(message.get("created_at"))
            who = "user" if sender == "human" else sender
            yield who, words[:_LONG].strip(), text(message, "uuid"), at
