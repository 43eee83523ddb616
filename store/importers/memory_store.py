"""
Memory stores: the memories of other programs, read into the lines of a mnemolog export.

A reader yields each memory with an id derived from its id there, so that it is added once, however
often it is read; a text that changed there since revises the memory, unless it was edited or rated
here. Times and origins are kept: `source` names the program, `imported_id` in the metadata is the
memory's id there. Secrets are removed when the log is written.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date, datetime
from itertools import islice
from pathlib import Path
from typing import IO, Any

import msgspec
import yaml

from store.home.capped_files import MOST_VALUES, is_crowded
from store.home.errors import InvalidInput, SourceError
from store.home.instants import derived_id, micros, moment
from store.home.projects import git_root
from store.importers.jsonl import OWN, Exported, import_lines, quote
from store.importers.markdown import MAX_TEXT, pack, read_text, split_blocks, split_sections
from store.importers.source_files import UNREADABLE, printable_name
from store.importers.transcript_hosts import Folder
from store.importers.transcript_turn import Skip, parse_instant
from store.log import commands, log_queries
from store.log.commands import Draft, memory_event
from store.log.event_kinds import Author, Linked, Recorded, RecordedKind, Revised, Trust
from store.log.event_log import EventLog
from store.log.events import Event
from store.redaction.redact import redact
from store.text.excerpt import one_line

MAX_FILE = 64 << 20  # bytes of JSON read at once
_BATCH = 500  # lines whose ids are looked up at once
_FRONT = re.compile(r"\A---[ \t]*\n(.*?)\n---[ \t]*(?:\n|\Z)", re.DOTALL)
_MOST_FRONT = 64_000  # characters


class MemoryStore(msgspec.Struct, frozen=True):
    """A program with memories: their place, for people and on this machine, and their reader.

    `find` returns the existing files and folders, for a user's working folder. `read` yields the
    memories of one; it raises SourceError if the place is not the program's, and reports skipped
    entries to `on_skip`. `left` describes the data that no import carries.
    """

    name: str
    title: str
    usual: str
    find: Callable[[Folder, Path], list[Path]]
    read: Callable[[Path, Skip], Iterator[Exported]]
    left: str


@dataclass(slots=True)
class Found:
    """Counts of a store's memories: `known` were there already, `refused` are unfit to record."""

    found: int = 0
    added: int = 0
    changed: int = 0
    known: int = 0
    refused: int = 0
    projects: dict[str | None, int] = field(default_factory=dict)


def import_memories(
    log: EventLog,
    lines: Iterable[Exported],
    now: int,
    project: str | None,
    on_refused: Skip,
    here: str | None = None,
) -> Found:
    """Record the memories of a store; each belongs to `project`, or else to its line's project.

    `here` is the project of the folder it is imported in, which a line may mean by its last part.
    """
    counts, changes = Found(), []

    def wanted() -> Iterator[Exported]:
        for line, change in _judge(lines, log, now, project, counts, on_refused, here):
            if change is not None:
                changes.append(change)
            else:
                yield line  # a known one too: its link's target may be new

    import_lines(log, wanted(), now, project=None)
    commands.import_drafts(log, changes, now)
    return counts


def survey_memories(
    log: EventLog | None,
    lines: Iterable[Exported],
    now: int,
    project: str | None,
    on_refused: Skip,
    here: str | None = None,
) -> Found:
    """Return the counts of a dry run of `import_memories`; a log of None does not exist yet."""
    counts = Found()
    for _ in _judge(lines, log, now, project, counts, on_refused, here):
        pass
    return counts


def _judge(
    lines: Iterable[Exported],
    log: EventLog | None,
    now: int,
    project: str | None,
    counts: Found,
    on_refused: Skip,
    here: str | None,
) -> Iterator[tuple[Exported, Event | None]]:
    """Yield the recordable memories, each once; beside a known one with a changed text, the event
    that revises it. `counts` is updated.
    """
    known = log_queries.project_names(log) if log is not None else frozenset()
    names = {*known, here} if here else known
    undone = log.undone_ids(log.head()) if log is not None else frozenset()
    seen: set[str] = set()
    remaining = iter(lines)
    while batch := list(islice(remaining, _BATCH)):
        there = log.present_ids([line.id or "" for line in batch]) if log is not None else set()
        for imported in batch:
            belongs = project or settle_project(imported.project, names)
            line = msgspec.structs.replace(imported, project=belongs)
            id_ = line.id or ""
            counts.found += 1
            counts.projects[belongs] = counts.projects.get(belongs, 0) + 1
            try:
                event = memory_event(as_draft(line), now)
            except InvalidInput as error:
                counts.refused += 1
                on_refused(f"{line.source} {line.metadata.get(NATIVE, id_)}: {error}")
                continue
            change = None
            if id_ in seen:
                counts.known += 1
                continue
            seen.add(id_)
            if id_ in there and log is not None:
                change = _change(log, line, event, now) if id_ not in undone else None
                counts.changed += change is not None
                counts.known += change is None
            else:
                counts.added += 1
            yield line, change


def _change(log: EventLog, line: Exported, event: Event, now: int) -> Event | None:
    """Return the event that revises a memory to its store's present text; None if the text is the
    same, or if anything but its importer changed the memory here.
    """
    reason = f"changed in {line.source}"
    last = ""
    for earlier in log.events_for(event.id):
        if isinstance(earlier.body, Recorded):
            last = earlier.body.content
        elif isinstance(earlier.body, Revised) and earlier.body.reason == reason:
            last = earlier.body.content or last
        elif not isinstance(earlier.body, Linked):
            return None
    assert isinstance(event.body, Recorded)
    text = event.body.content
    if redact(text) == last:
        return None
    id_ = derived_id(now, event.id, text)
    change = Revised(content=text, reason=reason)
    return commands.change_event(log, event.id, change, now, id_, line.trust, line.author)


def as_draft(line: Exported) -> Draft:
    """Return the memory of a line itself, without its state, links and ratings."""
    return Draft(**{name: getattr(line, name) for name in Draft.__struct_fields__})


def settle_project(named: str | None, known: Iterable[str]) -> str | None:
    """Return the project that another program means by a name or a folder; None for no name.

    A folder gives the project of its repository. A bare name, as most programs keep it, is that of
    the one known project that ends with it ("web" is "github.com/acme/web"), else itself.
    """
    if not named:
        return None
    from store.importers.transcript_events import project_at  # and numpy, unused by --help

    if named.startswith(("/", "~")) or re.match(r"[A-Za-z]:[\\/]", named):
        return project_at(named)
    name = re.sub(r"[^A-Za-z0-9._@/~+-]+", "-", named).lstrip("._-+/")[:200]
    ends = [
        project
        for project in known
        if project.split("@")[0].rsplit("/", 1)[-1].lower() == name.lower()
    ]
    if name in known or len(ends) != 1:
        return name if name and ".." not in name.split("/") else None
    return ends[0]


# Shared by the readers.


NATIVE = "imported_id"


def memory_id(store: str, native: str) -> str:
    """Return the stable id of a store's memory."""
    return derived_id(0, store, native)


def memory_line(
    store: str,
    native: str,
    content: str,
    *,
    at: int = 0,
    tags: Iterable[object] = (),
    session: object = None,
    **fields: Any,
) -> Exported:
    """Return the line of a memory that a store calls `native`; `at` in microseconds, 0 unknown.

    Further fields are those of `Exported`; None leaves one out. Memories with a tool's trust lie in
    a repository; the author of memories with the user's trust is not known.
    """
    authors: dict[Trust | None, Author] = {"agent": "agent", "tool": "repository"}
    metadata = {NATIVE: printable_name(native)[:500]} | fields.pop("metadata", {})
    fields |= {"session": str(session)[:200] if session else None}
    return Exported(
        author=authors.get(fields.get("trust")),
        id=memory_id(store, native),
        content=content,
        source=store,
        created_at=moment(at) if at else None,
        tags=commands.limit_tags(
            str(tag).lstrip("#")[:100] for tag in tags if str(tag).strip("# ")
        ),
        metadata={name: value for name, value in metadata.items() if value not in (None, "", [])},
        **{name: value for name, value in fields.items() if value is not None},
    )


def instant(value: object) -> int:
    """Return microseconds since 1970 of an ISO 8601 text, seconds or milliseconds; 0 of neither."""
    if isinstance(value, (int, float)) and value < 1e11:
        value = value * 1_000
    return parse_instant(value)


def kind_of(word: object, table: dict[str, RecordedKind], default: RecordedKind) -> RecordedKind:
    """Return our kind for another program's word."""
    return table.get(str(word or "").strip().lower().replace("-", "_"), default)


def json_value(cell: object, default: Any) -> Any:
    """Return the value of a JSON text, of the same type as `default`; else `default`."""
    try:
        value = msgspec.json.decode(cell) if isinstance(cell, str) else cell
    except UNREADABLE:
        return default
    return value if isinstance(value, type(default)) else default


def existing_files(*paths: Path) -> list[Path]:
    """Return the paths that are files."""
    return [path for path in paths if path.is_file()]


def database_file(source: Path, name: str, store: MemoryStore) -> Path:
    """Return the file of a store named by itself or by its folder; raise SourceError."""
    path = source / name if source.is_dir() else source
    if not path.is_file():
        raise SourceError(f"{path} is not there: {store.title} keeps its memories in {store.usual}")
    return path


def read_json(path: Path, file: IO[bytes] | None = None) -> Any:
    """Return the JSON of a file, or of an open part of it; raise SourceError."""
    try:
        if file is None:
            with path.open("rb") as whole:
                return read_json(path, whole)
        data = file.read(MAX_FILE + 1)
        if len(data) > MAX_FILE or is_crowded(data):
            raise SourceError(
                f"{path} is over {MAX_FILE >> 20} MiB of JSON, or holds over {MOST_VALUES:,} "
                "lists and objects: split it"
            )
        return msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"))
    except OSError as error:
        raise SourceError(f"{path} cannot be read ({error.strerror}): check its mode") from error
    except UNREADABLE as error:
        raise SourceError(f"{path} is no JSON: {error}") from error


def read_note(path: Path, on_skip: Skip) -> tuple[dict[str, Any], str]:
    """Return the front matter and the text of a note; nothing for an unreadable one."""
    return split_note(read_text(path, on_skip))


def split_note(text: str) -> tuple[dict[str, Any], str]:
    """Return the front matter of a note and the text after it; invalid YAML stays text."""
    match = _FRONT.match(text)
    if match is None or len(match[1]) > _MOST_FRONT:
        return {}, text.strip()
    try:
        # nested aliases would fill the memory
        events = yaml.parse(match[1], yaml.SafeLoader)
        if any(isinstance(event, yaml.AliasEvent) for event in events):
            return {}, text.strip()
        fields = yaml.safe_load(match[1])
    except (yaml.YAMLError, ValueError, RecursionError):
        return {}, text.strip()
    if not isinstance(fields, dict):
        return {}, text.strip()
    return {str(name): value for name, value in fields.items()}, text[match.end() :].strip()


def own_line(file: Path, fields: dict[str, Any], text: str) -> Exported | None:
    """Return the memory that a mnemolog export wrote as a note; None if it did not.

    In a git repository a note may be anybody's: words it attributes to the user are quoted.
    """
    own = fields.get(OWN)
    if not isinstance(own, dict):
        return None
    try:
        line = msgspec.convert({"content": text} | own, Exported)
    except msgspec.ValidationError:
        return None
    return quote(line) if git_root(file.parent) is not None else line


def note_texts(text: str) -> Iterator[tuple[str, str]]:
    """Yield the texts that a note is kept as, each with its distinguishing key: all of a short one,
    the sections of a longer one.
    """
    if len(text) <= MAX_TEXT:
        if text:
            yield "", text
        return
    for section in split_sections(text):
        name = " > ".join(section.path)
        for number, piece in enumerate(pack(split_blocks(section.text), MAX_TEXT)):
            yield f"{name} {number}" if number else name, f"{name}\n{piece}" if name else piece


def modified(path: Path) -> int:
    """Return the time of a file's last change, in microseconds; 0 if unknown."""
    try:
        return path.stat().st_mtime_ns // 1_000
    except OSError:
        return 0


def words(fields: dict[str, Any], name: str) -> str:
    """Return a field of a front matter as one line; empty if the field is."""
    value = fields.get(name)
    return one_line(str(value), 500) if value is not None and not isinstance(value, dict) else ""


def word_list(value: object) -> list[str]:
    """Return a list in a front matter, or one written with commas."""
    if isinstance(value, str):
        value = value.split(",")
    return [str(word).strip() for word in value] if isinstance(value, list) else []


def front_moment(value: object) -> int:
    """Return microseconds of a date in a front matter, which YAML may have read; 0 of none."""
    if isinstance(value, datetime):
        return micros(value)
    if isinstance(value, date):
        return micros(datetime(value.year, value.month, value.day))
    return instant(value) if isinstance(value, str) else 0
