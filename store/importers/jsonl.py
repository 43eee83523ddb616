"""
JSON Lines, one memory a line: the format of `mnemolog export`, easily written by hand.

A line is a `Draft` with an export's additions: the memory's state and its moment, its links and
ratings. Those become events of their own, with ids derived from the line, so that they are added
once. Unlike a transcript this is our own format, so a wrong line is an error that names its number,
never left out.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec

from store.home.capped_files import is_crowded
from store.home.errors import InvalidInput, SourceError
from store.home.instants import derived_id, micros
from store.home.projects import git_root
from store.importers.source_files import UNREADABLE, read_lines
from store.log.commands import Counts, Draft, check_text, import_drafts, memory_event
from store.log.event_kinds import (
    Archived,
    Body,
    Id,
    Instant,
    Linked,
    Rated,
    Recorded,
    Relation,
    Restored,
    Superseded,
    Trust,
)
from store.log.event_log import EventLog
from store.log.events import Event, encode

SOURCE = "jsonl"
OWN = "mnemolog"  # the front matter's field with a note's line, as an export wrote it
QUARANTINED = "quarantined"  # in an export: forgotten, but not by a person
MAX_LINE = 8 << 20  # bytes; no memory is that long, and a file without line ends must not be read


# a field by the name under which memories are listed, or by that of a flag of `mnemolog record`
ALIASES = {"text": "content", "at": "created_at", "tag": "tags", "pin": "pinned"}


def rename_fields(line: dict[str, Any]) -> dict[str, Any]:
    """Return a line's fields by their own names; raise InvalidInput if one is given twice."""
    fields: dict[str, Any] = {}
    for name, value in line.items():
        own = ALIASES.get(name, name)
        if own in fields or (own != name and own in line):
            raise InvalidInput(f"`{own}` is given twice, as `{name}` too: give one of them")
        fields[own] = [value] if name == "tag" and isinstance(value, str) else value
    return fields


class ExportedLink(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An edge from the line's memory to another; left out where that one is not imported."""

    target: Id
    relation: Relation


class ExportedRating(Rated, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A rating of the line's memory, and when and by whom it was given."""

    at: Instant
    trust: Literal["user", "agent"] = "user"


class Exported(Draft, frozen=True, kw_only=True):
    """A draft, and what an export says of the memory's state, links and ratings.

    Forgotten ones are not imported; one in quarantine is, as an active one: the next build finds
    whether it still fails. `ended_at` is null while the memory is active.
    """

    state: Literal["active", "archived", "superseded", "forgotten", "stale", "quarantined"] = (
        "active"
    )
    superseded_by: str | None = None
    updated_at: Any = None
    ended_at: Instant | None = None
    seq: int | None = None
    links: tuple[ExportedLink, ...] = ()
    ratings: tuple[ExportedRating, ...] = ()


_STANDING = ("active", QUARANTINED)
_decoder = msgspec.json.Decoder(Exported)


def import_lines(
    log: EventLog, source: Iterable[Exported], now: int, *, project: str | None
) -> Counts:
    """Record memories, then the states, links and ratings of their lines.

    The counts are of memories. A memory that was there before, or was changed by anything else
    since, is left alone.
    """
    lines: list[tuple[Draft, Exported]] = []  # those with more than their draft
    newest: dict[tuple[str | None, str], str | None] = {}  # the last value of each key

    def read() -> Iterator[Draft]:
        for line in source:
            draft = _draft(line, project)
            if draft.key is not None:
                newest[draft.project, draft.key] = draft.id
            if line.state not in _STANDING or line.links or line.ratings or draft.key is not None:
                lines.append((draft, line))
            yield draft

    counts = import_drafts(log, read(), now)
    changes: list[Event] = []
    restored: list[Event] = []  # last, as they are to stay
    for draft, line in lines:
        again = []
        if line.state in _STANDING and draft.key and newest[draft.project, draft.key] != draft.id:
            again = [_event(draft, Restored(), now)]
        events = list(_line_events(log, draft, line, now))
        if _is_of_this_file(log, draft, {event.id for event in (*events, *again)}):
            changes += events
            restored += again
    import_drafts(log, changes, now)
    import_drafts(log, restored, now)
    return counts


def survey(log: EventLog | None, source: Path, now: int, *, project: str | None) -> Counts:
    """Return the counts of a dry run of `import_lines`; a log of None does not exist yet."""
    read: set[str] = set()
    added = known = refused = 0
    for draft in drafts(source, project=project):
        try:
            id_ = memory_event(draft, now).id
        except InvalidInput:
            refused += 1
            continue
        is_known = id_ in read or (log is not None and bool(log.present_ids([id_])))
        added, known = added + (not is_known), known + is_known
        read.add(id_)
    return Counts(added, known, refused)


def _line_events(log: EventLog, draft: Draft, line: Exported, now: int) -> Iterator[Event]:
    """Yield a line's events beside its draft; other memories must exist to be named."""
    by = line.superseded_by
    named = [link.target for link in line.links] + ([by] if by else [])
    present = log.present_ids(named)
    for rating in line.ratings:
        body = Rated(verdict=rating.verdict, reason=rating.reason)
        yield _event(draft, body, micros(rating.at), rating.trust, str(rating.at))
    for link in line.links:
        if link.target in present:
            yield _event(draft, Linked(target=link.target, relation=link.relation), now)
    if line.state not in _STANDING:
        ended = micros(line.ended_at) if line.ended_at else now
        yield _event(draft, Superseded(by=by) if by and by in present else Archived(), ended)


def _event(draft: Draft, body: Body, at: int, trust: Trust = "user", *parts: str) -> Event:
    assert draft.id is not None
    began = micros(draft.created_at) if draft.created_at else 0
    kind = type(body).__name__
    id_ = derived_id(began, SOURCE, draft.id, kind, encode(body), *parts)
    return Event(id_, at, body, draft.id, draft.project, trust=trust)


def _is_of_this_file(log: EventLog, draft: Draft, ids: set[str]) -> bool:
    """Return True if a memory is as an import of the file left it, even an interrupted one."""
    assert draft.id is not None
    events = log.events_for(draft.id)
    if not events or not isinstance(events[0].body, Recorded):
        return False
    is_same = events[0].body.content == check_text(draft.content)
    return is_same and all(event.id in ids for event in events[1:])


def drafts(source: Path, *, project: str | None, alone: bool = False) -> Iterator[Draft]:
    """Yield the file's memories in order, without the forgotten ones.

    `alone` refuses a line with more than its draft, as the rest would be lost.

    `project` is for lines without one. A line without an id gets one from its texts and project, so
    that it is added once. Raise SourceError if the file cannot be read, and for the first line that
    is no memory, with its number.
    """
    for number, line in enumerate(exported_lines(source), 1):
        if alone and (line.links or line.ratings or line.state not in _STANDING):
            raise SourceError(
                f"{source.name} memory {number} has a state, links or ratings, which a draft has "
                "not: `mnemolog import jsonl` keeps them"
            )
        yield _draft(line, project)


def quote(line: Exported) -> Exported:
    """Return a line as one of a repository, which may be anybody's, not the user's word."""
    if line.trust != "user":
        return msgspec.structs.replace(line, author="repository")
    return msgspec.structs.replace(line, trust="tool", author="repository", pinned=False)


def exported_lines(source: Path, *, is_mine: bool = False) -> Iterator[Exported]:
    """Yield the file's lines, without the forgotten ones; those of a file in a git repository are
    quoted, unless the user claims them.
    """
    is_quoted = not is_mine and git_root(source.parent) is not None
    for number, raw in enumerate(_lines(source), 1):
        if not raw.strip():
            continue
        if len(raw) > MAX_LINE:
            raise SourceError(f"{source} line {number}: over {MAX_LINE} bytes: split the memory")
        if is_crowded(raw):
            raise SourceError(f"{source} line {number}: too many values for one memory")
        try:
            line = _decode(raw)
        except (*UNREADABLE, InvalidInput) as error:
            raise SourceError(f"{source.name} line {number}: {error}") from error
        if line.state != "forgotten":
            yield quote(line) if is_quoted else line


def _decode(raw: bytes) -> Exported:
    try:
        return _decoder.decode(raw)
    except msgspec.ValidationError:
        fields = msgspec.json.decode(raw)
        if not isinstance(fields, dict) or not fields.keys() & ALIASES.keys():
            raise
        return msgspec.convert(rename_fields(fields), Exported)


def _lines(source: Path) -> Iterator[bytes]:
    """Yield the lines, cut if they are too long, without the byte order mark of some editors."""
    try:
        lines = read_lines(source, MAX_LINE)
        yield next(lines, b"").removeprefix(b"\xef\xbb\xbf")
        yield from lines
    except OSError as error:
        raise SourceError(
            f"{source} cannot be read ({error.strerror}): "
            "name a .jsonl file that exists and may be read"
        ) from error


def _draft(line: Exported, project: str | None) -> Draft:
    fields = {name: getattr(line, name) for name in Draft.__struct_fields__}
    fields["project"] = line.project or project
    fields["source"] = line.source or SOURCE
    if not line.id:
        at = micros(line.created_at) if line.created_at else 0
        texts = (line.content, line.context or "", line.action or "", line.result or "")
        fields["id"] = derived_id(at, SOURCE, fields["project"] or "", *texts)
    return Draft(**fields)
