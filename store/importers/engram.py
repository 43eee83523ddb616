"""
engram's database (~/.engram/engram.db) and the output of `engram export`: an agent's observations,
and the summaries of its sessions.

https://github.com/Gentleman-Programming/engram, internal/store/store.go
"""

from collections.abc import Iterator
from pathlib import Path

from store.agents.json_fields import objects
from store.home.errors import SourceError
from store.importers.jsonl import Exported
from store.importers.memory_store import (
    MemoryStore,
    database_file,
    existing_files,
    instant,
    kind_of,
    memory_line,
    read_json,
)
from store.importers.source_files import Row, is_database, table_rows
from store.importers.transcript_turn import Skip
from store.log.event_kinds import RecordedKind

NAME = "engram"
FILE = "engram.db"
_KINDS: dict[str, RecordedKind] = {
    "decision": "decision",
    "architecture": "decision",
    "bugfix": "bugfix",
    "pattern": "pattern",
    "preference": "preference",
    "learning": "lesson",
    "discovery": "observation",
    "session_summary": "summary",
    "tool_use": "activity",
    "file_change": "activity",
    "command": "activity",
    "file_read": "activity",
    "search": "activity",
}
_OBSERVED = "id session_id type title content project scope topic_key created_at deleted_at"
_SESSIONS = "id project directory started_at ended_at summary"


def read(source: Path, on_skip: Skip) -> Iterator[Exported]:
    """Yield the observations and session summaries of a database, its folder, or an export."""
    path = database_file(source, FILE, STORE)
    if is_database(path):
        sessions = list(table_rows(path, NAME, "sessions", _SESSIONS))
        observations = table_rows(path, NAME, "observations", _OBSERVED)
    else:
        export = read_json(path)
        if not isinstance(export, dict) or "observations" not in export:
            raise SourceError(f"{path} is no export of engram's: run `engram export` again")
        sessions = _rows(export, "sessions", _SESSIONS)
        observations = iter(_rows(export, "observations", _OBSERVED))
    folders = {str(row["id"]): row["directory"] for row in sessions}
    for row in observations:
        if not row["deleted_at"]:
            yield _observation(row, folders.get(str(row["session_id"])))
    for row in sessions:
        if row["summary"]:
            yield memory_line(
                NAME,
                f"session {row['id']}",
                row["summary"],
                at=instant(row["ended_at"]) or instant(row["started_at"]),
                kind="summary",
                project=_project(row["project"], row["directory"]),
                session=str(row["id"]),
                trust="agent",
            )


def _rows(export: Row, table: str, columns: str) -> list[Row]:
    return [{name: row.get(name) for name in columns.split()} for row in objects(export, table)]


def _observation(row: Row, folder: str | None) -> Exported:
    title, content = row["title"] or "", row["content"] or ""
    at = instant(row["created_at"])
    return memory_line(
        NAME,
        f"{row['id']} {at}",  # numbered from 1 on every machine
        content if title.lower() in content[: len(title) + 20].lower() else f"{title}\n{content}",
        at=at,
        kind=kind_of(row["type"], _KINDS, "fact"),
        project=_project(row["project"], folder) if row["scope"] != "personal" else None,
        session=row["session_id"],
        trust="agent",
        metadata={"topic": row["topic_key"], "type": row["type"]},
    )


def _project(name: str | None, folder: str | None) -> str | None:
    """Return the folder of a session if it is on this disk, else the project's name."""
    return folder if folder and Path(folder).is_dir() else name


STORE = MemoryStore(
    NAME,
    "engram",
    f"~/.engram/{FILE}",
    lambda folder, here: existing_files(folder("ENGRAM_DATA_DIR", ".engram") / FILE),
    read,
    "prompts (the host's transcripts have them), what was deleted, counts of revisions",
)
