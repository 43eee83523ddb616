"""
Shared notes: one memory in one Markdown file below `.mnemolog/memory` of a repository.

    ---
    id: 01M8DG1TJ3...
    kind: decision
    created: 2026-11-27
    tags: [deploy]
    ---
    We deploy on Mondays, from the release branch.

Anybody who can send a pull request can write a file. So it is read within bounds, links out of the
folder are not followed, and anything else in it is left out or reported as a problem.
"""

import os
import re
from hashlib import sha1, sha256
from pathlib import Path
from stat import S_ISREG
from typing import Any

import msgspec

from store.home.errors import Conflict, InvalidInput
from store.home.files import make_folder
from store.home.instants import moment
from store.log.event_kinds import RECORDED_KINDS, STATEMENT
from store.memories.memory import ACTIVE, Memory
from store.redaction import redact
from store.text.text_features import MAY_RULE

FOLDER = ".mnemolog/memory"
MOST_FILES, MOST_BYTES = 200, 8 << 10
_SIDES = ("context", "action", "result")
_DEFAULT_KIND = "fact"
_WORDS, _TAIL = 6, 6  # of a file's name: the first words of the text, the last letters of the id
_APART = re.compile(r"[^a-z0-9]+")
_NAME = re.compile(r"[\w.-]{1,100}\.md")  # shown beside the text: other names are refused


class SharedNote(msgspec.Struct, frozen=True, kw_only=True):
    """A file that shares a memory: `path` from the tree's root, `blob` is git's id of its bytes.

    `created` is microseconds UTC, 0 if the file has none; `problem` is the reason it is no memory,
    "" if it is one.
    """

    path: str
    blob: str
    id: str = ""
    kind: str = _DEFAULT_KIND
    content: str = ""
    created: int = 0
    tags: tuple[str, ...] = ()
    context: str | None = None
    action: str | None = None
    result: str | None = None
    problem: str = ""

    @property
    def mark(self) -> str:
        """A hash that changes with the file's path and bytes."""
        return sha256(f"{self.path}\x00{self.blob}".encode()).hexdigest()[:16]


def read_notes(root: Path) -> list[SharedNote]:
    """Return the notes in a tree, by path; unreadable ones with their problem."""
    return [_read(root / FOLDER / name, f"{FOLDER}/{name}") for name, *_ in note_stamps(root)]


def note_stamps(root: Path) -> list[tuple[str, int, int, int]]:
    """Return the names of possible note files, in order, each with stamps that change with it.

    A folder that is a link, or is behind one, has none: it leads elsewhere.
    """
    folder = root / FOLDER
    if folder.is_symlink() or folder.parent.is_symlink():
        return []
    stamps = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.endswith(".md"):
                    at = entry.stat(follow_symlinks=False)
                    stamps.append((entry.name, at.st_mtime_ns, at.st_size, at.st_ino))
    except OSError:
        return []
    return sorted(stamps)[:MOST_FILES]


def parse_note(path: str, data: bytes) -> SharedNote:
    """Return the note in a file's bytes."""
    # imports YAML and the readers of other programs' notes: few repositories share any
    from store.importers.memory_store import front_moment, split_note, word_list, words

    blob = blob_of(data)
    if len(data) > MOST_BYTES:
        return SharedNote(path=path, blob=blob, problem=f"it is over {MOST_BYTES:,} bytes")
    try:
        text = data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        return SharedNote(path=path, blob=blob, problem="it is no UTF-8 text")
    fields, content = split_note(text)
    kind = words(fields, "kind").lower()
    note = SharedNote(
        path=path,
        blob=blob,
        id=words(fields, "id"),
        # a file may not claim to be a person's own words
        kind=kind if kind in RECORDED_KINDS and kind != STATEMENT else _DEFAULT_KIND,
        content=content,
        created=max(0, front_moment(fields.get("created"))),
        tags=tuple(word_list(fields.get("tags"))[:20]),
        context=words(fields, "context") or None,
        action=words(fields, "action") or None,
        result=words(fields, "result") or None,
    )
    if not content:
        return msgspec.structs.replace(note, problem="it says nothing below its front matter")
    if redact.find(text):
        return msgspec.structs.replace(note, content="", problem="it holds a secret: take it out")
    return note


def blob_of(data: bytes) -> str:
    """Return the id that git gives to a file's bytes, in a repository of SHA-1."""
    return sha1(b"blob %d\x00" % len(data) + data, usedforsecurity=False).hexdigest()


def write_note(root: Path, memory: Memory) -> Path:
    """Share a memory: write its file, or replace the one that shares it already; return its path.

    Raise InvalidInput if it may not be shared, Conflict for another file of that name, or a link
    that leads elsewhere.
    """
    _check_shareable(memory)
    data = format_note(memory)
    if (problem := parse_note("", data).problem) != "":
        raise InvalidInput(f"{memory.id} cannot be shared: {problem}")
    there = find_note(root, memory.id)
    path = root / there.path if there else root / FOLDER / file_name(memory)
    if any(part.is_symlink() for part in (path.parent.parent, path.parent, path)):
        raise Conflict(f"{path} is a link, or lies behind one: shared files lie in the repository")
    if there is None and path.exists():
        raise Conflict(f"{path} is there already, and shares another memory")
    make_folder(path.parent)
    path.write_bytes(data)  # as any file of a work tree: git keeps it
    return path


def find_note(root: Path, id_: str) -> SharedNote | None:
    """Return the note that shares a memory, by its id or the beginning of it, or by its path; None
    if there is none, or more than one.
    """
    notes = [note for note in read_notes(root) if note.path == id_ or note.id.startswith(id_)]
    return notes[0] if id_ and len(notes) == 1 else None


def format_note(memory: Memory) -> bytes:
    """Return the file that shares a memory."""
    import yaml

    fields: dict[str, Any] = {
        "id": memory.id,
        "kind": _DEFAULT_KIND if memory.kind == STATEMENT else memory.kind,
        "created": moment(memory.created_at).date(),
    }
    fields |= {"tags": list(memory.tags)} if memory.tags else {}
    fields |= {name: value for name in _SIDES if (value := getattr(memory, name))}
    front = yaml.safe_dump(fields, allow_unicode=True, sort_keys=False, width=10_000)
    return f"---\n{front}---\n\n{memory.content.strip()}\n".encode()


def file_name(memory: Memory) -> str:
    slug = "-".join(filter(None, _APART.split(memory.content.lower())))
    first = "-".join(slug.split("-")[:_WORDS])[:60].strip("-")
    return f"{first or memory.kind}-{memory.id[-_TAIL:].lower()}.md"


def _check_shareable(memory: Memory) -> None:
    if memory.state != ACTIVE:
        raise InvalidInput(f"{memory.id} is {memory.state}: share what holds")
    if memory.kind not in RECORDED_KINDS:
        raise InvalidInput(
            f"{memory.id} is a turn of an agent: record what it taught, and share that"
        )
    if memory.trust not in MAY_RULE:
        raise InvalidInput(
            f"{memory.id} was said by {memory.trust}: record it in your own words, and share that"
        )
    text = "\n".join(filter(None, (memory.content, *(getattr(memory, name) for name in _SIDES))))
    if redact.find(text):
        raise InvalidInput(f"{memory.id} holds a secret: it is not shared")


def _read(file: Path, path: str) -> SharedNote:
    if not _NAME.fullmatch(file.name):
        return SharedNote(
            path=path, blob="", problem="its name has more than letters, digits, . _ and -"
        )
    try:
        if not S_ISREG(file.lstat().st_mode):
            return SharedNote(path=path, blob="", problem="it is no file of its own")
        with file.open("rb") as opened:
            data = opened.read(MOST_BYTES + 1)
    except OSError as error:
        return SharedNote(path=path, blob="", problem=f"it cannot be read: {error.strerror}")
    return parse_note(path, data)
