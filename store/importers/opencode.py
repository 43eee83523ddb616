"""
OpenCode's sessions, read turn by turn: from its database, or from the folder of files before 2026.

A session has messages, and a message has parts: texts, and tools with their outcomes. Both stores
hold the same JSON under the same ids, so that a session moved from one to the other adds nothing.
Messages copied by a fork are older than its session and are left out: they are in the original
session. The database is opened for reading only.

https://github.com/anomalyco/opencode, packages/opencode/src/session/message-v2.ts and
session.sql.ts; before that storage/{session,message,part} of src/storage/storage.ts.
"""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import apsw

from store.agents.json_fields import mapping, text
from store.agents.tool_calls import has_passed
from store.agents.typed_text import human_text, unquote_prompt
from store.home.capped_files import is_crowded
from store.home.errors import SourceError
from store.importers.source_files import (
    UNREADABLE,
    decode_object,
    is_database,
    is_source_file,
    open_database,
)
from store.importers.transcript_turn import OpenTurn, Said, Skip, Transcript, Turn, parse_instant

MAX_RECORD = 8 << 20  # bytes of a message or a part
MAX_PARTS = 2_000  # of a message
_TABLES = ("message", "part", "session")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,100}")
_LONG = 1 << 20  # characters read of a field
# a call that was refused or cut off did nothing, and is no error of the work either
_NOT_DONE = ("The user rejected permission", "The user dismissed", "Tool execution aborted")


def find(source: Path, on_skip: Skip) -> list[Transcript]:
    """Return the sessions of OpenCode's data folder, of a database or of a folder `storage`; none
    of sub-agents. Raise SourceError if there is only an unreadable database.
    """
    if source.is_file():
        return _database_sessions(source) if is_database(source) else [Transcript(source)]
    inner = ("", "opencode", ".local/share/opencode")
    homes = [source / name for name in inner if (source / name).is_dir()]
    databases = (other for home in homes for other in sorted(home.glob("opencode*.db")))
    transcripts: list[Transcript] = []
    broken: list[SourceError] = []
    for path in (other for other in databases if is_source_file(other, source)):
        try:
            transcripts += _database_sessions(path)
        except SourceError as error:
            broken.append(error)
    moved = {transcript.session for transcript in transcripts}
    for home in homes:
        for top in (home, home / "storage"):
            files = sorted(top.glob("session/*/ses_*.json"))
            ours = (path for path in files if is_source_file(path, top) and path.stem not in moved)
            transcripts += (Transcript(path) for path in ours)
    if broken and not transcripts:
        raise broken[0]
    for source_error in broken:
        on_skip(str(source_error))
    return transcripts


def turns(transcript: Transcript, on_skip: Skip) -> Iterator[Turn]:
    """Yield a session's turns in order; none of a sub-agent's. Raise OSError, SourceError."""
    if not transcript.session:
        path = transcript.path.absolute()
        if len(path.parents) < 3:
            raise SourceError("it does not lie in a folder `storage` of OpenCode's")
        yield from _turns(_Files(path, on_skip))
        return
    try:
        with closing(open_database(transcript.path, _TABLES, "OpenCode")) as database:
            yield from _turns(_Rows(database, transcript, on_skip))
    except (apsw.Error, UnicodeDecodeError) as error:
        raise SourceError(f"{transcript}: {error}") from error


Record = tuple[str, Mapping[str, Any]]  # an id and its object


@dataclass(frozen=True)
class _Files:
    """A session in files of JSON."""

    path: Path
    on_skip: Skip

    @property
    def top(self) -> Path:
        return self.path.parents[2]

    def session(self) -> Record:
        fields = self._read(self.path)
        if fields is None:
            raise SourceError("it is no session")
        return text(fields, "id") or self.path.stem, fields

    def messages(self) -> list[Record]:
        messages = map(_heading, self._folder(self.top / "message" / self.path.stem))
        return sorted(messages, key=lambda message: (_creation_ms(message[1]), message[0]))

    def parts(self, message: str) -> Iterator[Record]:
        if _NAME.fullmatch(message):
            yield from self._folder(self.top / "part" / message)

    def _folder(self, folder: Path) -> Iterator[Record]:
        names = sorted(os.listdir(folder)) if folder.is_dir() else []
        for path in (folder / name for name in names if name.endswith(".json")):
            fields = self._read(path) if is_source_file(path, self.top) else None
            if fields is not None:
                yield path.stem, fields

    def _read(self, path: Path) -> dict[str, Any] | None:
        with path.open("rb") as file:
            raw = file.read(MAX_RECORD + 1)
        return _decode_record(raw if len(raw) <= MAX_RECORD else None, str(path), self.on_skip)


@dataclass(frozen=True)
class _Rows:
    """A session in the database."""

    database: apsw.Connection
    transcript: Transcript
    on_skip: Skip

    def session(self) -> Record:
        query = "SELECT directory, parent_id, time_created FROM session WHERE id = ?"
        for directory, parent, created in self.database.execute(query, (self.transcript.session,)):
            fields = {"directory": directory, "parentID": parent, "time": {"created": created}}
            return self.transcript.session, fields
        raise SourceError("it is gone")

    def messages(self) -> list[Record]:
        messages = self._records("message WHERE session_id = ?", self.transcript.session)
        return list(map(_heading, messages))

    def parts(self, message: str) -> Iterator[Record]:
        yield from self._records("part WHERE message_id = ?", message)

    def _records(self, where: str, id_: str) -> Iterator[Record]:
        order = "time_created, id" if where.startswith("message") else "id"
        query = (
            f"SELECT id, CASE WHEN octet_length(data) <= ? THEN CAST(data AS BLOB) END "
            f"FROM {where} ORDER BY {order}"
        )
        for name, raw in self.database.execute(query, (MAX_RECORD, id_)):
            fields = _decode_record(raw, f"{self.transcript.path} {name}", self.on_skip)
            if fields is not None:
                yield str(name), fields


def _turns(store: _Files | _Rows) -> Iterator[Turn]:
    session, about = store.session()
    if text(about, "parentID"):  # a sub-agent's
        return
    began, cwd = _creation_ms(about), text(about, "directory") or None
    open_turn: OpenTurn | None = None
    for id_, message in store.messages():
        if 0 < _creation_ms(message) < began or message["summary"]:
            continue
        parts = list(islice(store.parts(id_), MAX_PARTS))
        if text(message, "role") == "assistant" and open_turn is not None:
            _add(open_turn, message, parts)
        elif text(message, "role") == "user" and (request := _request(parts)):
            if open_turn is not None:
                yield open_turn.close()
            statement = Said(request, id_, parse_instant(_creation_ms(message)))
            open_turn = OpenTurn(session, cwd, None, statement)
    if open_turn is not None:
        yield open_turn.close()


def _heading(record: Record) -> Record:
    """Return the fields read of a message, which may also hold every change of its turn."""
    id_, fields = record
    return id_, {
        "role": text(fields, "role"),
        "time": {"created": _creation_ms(fields)},
        "summary": fields.get("summary") is True,
    }


def _request(parts: list[Record]) -> str:
    """Return the part of a message that a person typed; named files are texts beside it."""
    texts = (human_text(_words(part)[:64_000]) for _, part in parts)
    return unquote_prompt("\n\n".join(filter(None, texts)))


def _words(part: Mapping[str, Any]) -> str:
    is_ours = part.get("synthetic") is True or part.get("ignored") is True
    return "" if is_ours or part.get("type") != "text" else text(part, "text", most=_LONG)


def _add(turn: OpenTurn, message: Mapping[str, Any], parts: list[Record]) -> None:
    for id_, part in parts:
        if words := _words(part):
            at = _at(part, "end", "start") or parse_instant(_creation_ms(message))
            turn.say(words, id_, at)
        elif part.get("type") == "tool":
            _add_tool(turn, id_, part)


def _add_tool(turn: OpenTurn, id_: str, part: Mapping[str, Any]) -> None:
    state = mapping(part, "state")
    status, error = text(state, "status"), text(state, "error", most=_LONG)
    if status not in ("completed", "error") or error.startswith(_NOT_DONE):
        return
    turn.call(id_, text(part, "tool"), mapping(state, "input"), _at(state, "start"))
    passed = status == "completed" and has_passed(mapping(state, "metadata")) is not False
    turn.end(id_, passed, error or text(state, "output", most=_LONG))


def _at(fields: Mapping[str, Any], *names: str) -> int:
    time = mapping(fields, "time")
    return next((at for name in names if (at := parse_instant(time.get(name)))), 0)


def _creation_ms(fields: Mapping[str, Any]) -> int:
    """Return the time of creation in milliseconds; 0 if unknown."""
    created = mapping(fields, "time").get("created")
    return created if isinstance(created, int) else 0


def _decode_record(raw: bytes | None, place: str, on_skip: Skip) -> dict[str, Any] | None:
    """Return a record; None if it is too long or no object, which is reported to `on_skip`."""
    if raw is None or is_crowded(raw):
        on_skip(f"{place} was left out: it is too long, or holds too much")
        return None
    try:
        return decode_object(raw)
    except UNREADABLE as error:
        on_skip(f"{place} was left out: {error}")
        return None


def _database_sessions(path: Path) -> list[Transcript]:
    """Return the sessions in a database, oldest first."""
    query = "SELECT id FROM session WHERE parent_id IS NULL ORDER BY time_created, id"
    try:
        with closing(open_database(path, _TABLES, "OpenCode")) as database:
            return [Transcript(path, str(id_)) for (id_,) in database.execute(query)]
    except (apsw.Error, UnicodeDecodeError) as error:
        raise SourceError(f"{path} cannot be read as a database of OpenCode's: {error}") from error
