"""
Folders of linked notes: basic-memory's projects, Obsidian's vaults, and the files of `mnemolog
export --format obsidian` or `basic-memory`.

A note of basic-memory's is Markdown under a front matter, with observations
(`- [category] text #tag (context)`) and relations (`- requires [[Note]]`) as list items anywhere in
it. Each observation becomes a memory, the rest of the note the memory they derive from, a relation
a link between two notes. An Obsidian note is read the same way. Notes in a git repository may be
anybody's: they have a tool's trust.

https://github.com/basicmachines-co/basic-memory, docs/NOTE-FORMAT.md
"""

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from store.home.errors import SourceError
from store.home.projects import git_root
from store.importers.jsonl import Exported, ExportedLink
from store.importers.markdown import markdown_files
from store.importers.memory_store import (
    MemoryStore,
    front_moment,
    kind_of,
    memory_id,
    memory_line,
    modified,
    note_texts,
    own_line,
    read_json,
    read_note,
    word_list,
    words,
)
from store.importers.source_files import printable_name
from store.importers.transcript_hosts import Folder
from store.importers.transcript_turn import Skip
from store.log.event_kinds import RecordedKind, Relation

BASIC_MEMORY, OBSIDIAN = "basic-memory", "obsidian"
_KINDS: dict[str, RecordedKind] = {
    "decision": "decision",
    "preference": "preference",
    "goal": "goal",
    "lesson": "lesson",
    "learning": "lesson",
    "insight": "insight",
    "pattern": "pattern",
    "antipattern": "antipattern",
    "bug": "bugfix",
    "bugfix": "bugfix",
    "fix": "bugfix",
    "milestone": "milestone",
    "observation": "observation",
}
_RELATIONS: dict[str, Relation] = {
    "caused_by": "cause",
    "causes": "cause",
    "leads_to": "cause",
    "contradicts": "conflict",
    "conflicts_with": "conflict",
    "contrasts_with": "conflict",
    "derived_from": "derived",
    "derives_from": "derived",
    "extends": "derived",
    "implements": "derived",
    "based_on": "derived",
    "supersedes": "derived",
}
_OBSERVATION = re.compile(r"^\s{0,3}[-*] \[([^\[\]()]{2,60})\]\s+(\S.*)$")
_CLOCK = re.compile(r"\d{1,3}:\d{2}")
_RELATION = re.compile(
    r"""^\s{0,3}[-*] (?:"([^"\[\]]+)"|'([^'\[\]]+)'|([^\s\[\]"']+))\s+"""
    r"""\[\[([^\[\]]+)\]\]\s*(?:\([^()]*\))?\s*$"""
)
_TAG = re.compile(r"(?<!\S)#([^\s#]+)")
_FENCE = re.compile(r"^\s*(?:```|~~~)")


class _Note(msgspec.Struct, frozen=True):
    """A note in a folder; `names` are its names in links."""

    file: Path
    place: str
    fields: dict[str, Any]
    text: str
    at: int
    is_quoted: bool

    @property
    def title(self) -> str:
        return words(self.fields, "title") or self.place.rsplit("/", 1)[-1].rsplit(".", 1)[0]

    @property
    def names(self) -> tuple[str, ...]:
        place = self.place.rsplit(".", 1)[0].lower()
        permalink = words(self.fields, "permalink").lower()
        return (self.title.lower(), place, place.rsplit("/", 1)[-1], permalink)


def find(folder: Folder, here: Path) -> list[Path]:
    """Return the existing folders of basic-memory's projects."""
    config = folder("BASIC_MEMORY_CONFIG_DIR", ".basic-memory") / "config.json"
    places = [folder("BASIC_MEMORY_HOME", "basic-memory")]
    if config.is_file():
        try:
            projects = read_json(config).get("projects", {})
        except (SourceError, AttributeError):
            projects = {}
        for entry in projects.values() if isinstance(projects, dict) else ():
            path = entry.get("path") if isinstance(entry, dict) else entry
            if isinstance(path, str) and path:
                places.append(Path(path).expanduser())
    there = dict.fromkeys(other.resolve() for other in places if other.is_dir())
    return [other for other in there if any(markdown_files(other))]


def read(store: str, source: Path, on_skip: Skip) -> Iterator[Exported]:
    """Yield the memories of a folder of notes, or of one note."""
    top = source if source.is_dir() else source.parent
    if not source.exists():
        raise SourceError(f"{source} is not there: name a folder of notes")
    files = [source] if source.is_file() else list(markdown_files(source))
    if not files:
        raise SourceError(f"no notes in {source}: name a folder with .md files")
    quoted: dict[Path, bool] = {}
    notes: list[_Note] = []
    for file in files:
        fields, text = read_note(file, on_skip)
        is_quoted = quoted.setdefault(file.parent, git_root(file.parent) is not None)
        at = next((at for name in ("created", "date") if (at := front_moment(fields.get(name)))), 0)
        place = printable_name(file.relative_to(top).as_posix())
        notes.append(_Note(file, place, fields, text, at or modified(file), is_quoted))
    targets = {name: note for note in reversed(notes) for name in note.names if name}
    for note in notes:
        yield from _memories(store, note, targets)


def _native(note: _Note) -> str:
    """Return the native id of a note: its permalink, which outlives a move, else its place."""
    return words(note.fields, "permalink") or note.place


def _memories(store: str, note: _Note, targets: dict[str, _Note]) -> Iterator[Exported]:
    if (own := own_line(note.file, note.fields, note.text)) is not None:
        yield own
        return
    tags = word_list(note.fields.get("tags"))
    observations, relations, rest = _divide(note.text)
    shared: dict[str, Any] = {
        "at": note.at,
        "trust": "tool" if note.is_quoted else "user",
        "project": words(note.fields, "project") or None,
    }
    about = {"path": note.place, "note": note.title, "type": words(note.fields, "type")}
    links: list[ExportedLink] = []
    for relation, target in relations:
        other = targets.get(target.split("|")[0].split("#")[0].strip().lower())
        if other is not None and other is not note:
            kind = _RELATIONS.get(relation.lower().replace(" ", "_").replace("-", "_"), "support")
            links.append(ExportedLink(target=memory_id(store, _native(other)), relation=kind))
    # a note of observations alone stays one, to be linked to
    pieces = list(note_texts(rest)) or [("", note.title)]
    for number, (part, piece) in enumerate(pieces):
        yield memory_line(
            store,
            f"{_native(note)}#{part}" if number else _native(note),
            piece,
            tags=[*tags, *_TAG.findall(piece)],
            context=note.title if note.title not in piece[:200] else None,
            kind=kind_of(note.fields.get("type"), _KINDS, "fact"),
            links=tuple(dict.fromkeys(links)) if not number else (),
            metadata=about,
            **shared,
        )
    for category, text in observations:
        yield memory_line(
            store,
            f"{_native(note)}#[{category}] {text[:1_000]}",
            text,
            tags=[*tags, *_TAG.findall(text)],
            context=f"{note.title} ({category})",
            kind=kind_of(category, _KINDS, "fact"),
            parent_id=memory_id(store, _native(note)),
            metadata=about,
            **shared,
        )


def _divide(text: str) -> tuple[list[tuple[str, str]], list[tuple[str, str]], str]:
    """Return a note's observations, its relations, and the text without the observations.

    A relation stays in the text too: its name says more than a link.
    """
    observations: list[tuple[str, str]] = []
    relations: list[tuple[str, str]] = []
    rest: list[str] = []
    is_fenced = False
    for line in text.splitlines():
        is_fenced ^= bool(_FENCE.match(line))
        noted = None if is_fenced else _OBSERVATION.match(line)
        linked = None if is_fenced else _RELATION.match(line)
        if noted is not None and not _CLOCK.match(noted[1]):
            observations.append((noted[1].strip(), noted[2].strip()))
            continue
        if linked is not None:
            relations.append((linked[1] or linked[2] or linked[3], linked[4]))
        rest.append(line)
    body = "\n".join(rest).strip()
    # a heading without its list, and the title alone, carry nothing
    body = re.sub(r"(?m)^#{1,6} (?:Observations|Relations)\s*(?=\n#|\Z)", "", body).strip()
    return observations, relations, "" if re.fullmatch(r"#{1,6} .*", body) else body


STORES = (
    MemoryStore(
        BASIC_MEMORY,
        "basic-memory",
        "~/basic-memory and the projects in ~/.basic-memory/config.json",
        find,
        partial(read, BASIC_MEMORY),
        "links to notes that are not in the folder; schemas, canvases",
    ),
    MemoryStore(
        OBSIDIAN,
        "an Obsidian vault, or another folder of linked notes",
        "wherever you keep it: name the folder",
        lambda folder, here: [],
        partial(read, OBSIDIAN),
        "attachments, canvases, links to notes that are not in the folder",
    ),
)
