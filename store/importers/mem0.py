"""
mem0's memories: its history database, an export of its API or its plugin, and OpenMemory's
database and backups.

mem0 keeps the texts of its memories in history.db, an event a line; the newest of each counts. A
memory's owner and metadata are in its vector store, the default one in pickles, which must not be
loaded from elsewhere; an export as JSON (`get_all()`) has both. A model wrote most of them from the
user's words: an agent's trust.

https://github.com/mem0ai/mem0: mem0/memory/storage.py, openmemory/api/app/models.py and
routers/backup.py, integrations/mem0-plugin/scripts/parse_export_file.py
"""

import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from store.home.capped_files import CappedZip, is_crowded
from store.home.errors import SourceError
from store.importers.jsonl import MAX_LINE, Exported
from store.importers.memory_store import (
    MemoryStore,
    database_file,
    existing_files,
    front_moment,
    instant,
    json_value,
    kind_of,
    memory_line,
    read_json,
    split_note,
    word_list,
    words,
)
from store.importers.source_files import Row, is_database, split_lines, table_rows
from store.importers.transcript_turn import Skip
from store.log.event_kinds import RecordedKind

NAME = "mem0"
FILE = "history.db"
_KINDS: dict[str, RecordedKind] = {
    "decision": "decision",
    "task_learnings": "lesson",
    "anti_pattern": "antipattern",
    "user_preference": "preference",
    "user_preferences": "preference",
    "coding_conventions": "pattern",
}
_HISTORY = "memory_id new_memory event created_at updated_at is_deleted actor_id role"
_OPEN = "id user_id app_id content metadata state created_at archived_at deleted_at"
_MAX_EXPORT = 16 << 20  # bytes
_BLOCK = re.compile(r"(?m)^---[ \t]*$")


def read(source: Path, on_skip: Skip) -> Iterator[Exported]:
    """Yield the memories of a database, a folder with one, or an export in any of mem0's forms."""
    path = database_file(source, FILE, STORE)
    if is_database(path):
        yield from _history(path) if path.name == FILE else _openmemory(path)
    elif zipfile.is_zipfile(path):
        yield from _backup(path, on_skip)
    elif path.suffix == ".md":
        yield from _plugin_export(path)
    else:
        yield from _exported(read_json(path), path)


def _history(path: Path) -> Iterator[Exported]:
    """Yield the present memories of history.db, in the order of their first versions."""
    newest: dict[str, Row] = {}
    first: dict[str, int] = {}
    for row in table_rows(path, NAME, "history", _HISTORY):
        id_ = str(row["memory_id"])
        first.setdefault(id_, instant(row["created_at"]) or instant(row["updated_at"]))
        newest[id_] = row
    for id_, row in newest.items():
        if not row["is_deleted"] and row["event"] != "DELETE":
            yield memory_line(
                NAME,
                id_,
                row["new_memory"] or "",
                at=first[id_],
                created_by=_short(row["actor_id"]),
                trust="agent",
            )


def _openmemory(path: Path) -> Iterator[Exported]:
    apps = {str(row["id"]): row["name"] for row in table_rows(path, NAME, "apps", "id name")}
    labels = {
        str(row["id"]): row["name"] for row in table_rows(path, NAME, "categories", "id name")
    }
    tags: dict[str, list[str]] = {}
    for row in table_rows(path, NAME, "memory_categories", "memory_id category_id"):
        tags.setdefault(str(row["memory_id"]), []).append(labels.get(str(row["category_id"]), ""))
    for row in table_rows(path, NAME, "memories", _OPEN):
        about = json_value(row["metadata"], {})
        yield from _line(row, about, apps.get(str(row["app_id"])), tags.get(str(row["id"]), []))


def _backup(path: Path, on_skip: Skip) -> Iterator[Exported]:
    """Yield the memories of an OpenMemory backup: memories.jsonl.gz, the one with names in it."""
    with CappedZip(path) as archive:
        members = archive.members()
        lines = next(
            (member for member in members if member.filename.endswith("memories.jsonl.gz")), None
        )
        if lines is None:
            raise SourceError(f"{path} holds no memories.jsonl.gz: it is no backup of OpenMemory's")
        for number, raw in enumerate(split_lines(archive.open(lines), MAX_LINE), 1):
            is_read = len(raw) <= MAX_LINE and not is_crowded(raw)
            row = json_value(raw.decode(errors="replace"), {}) if is_read else {}
            if not row:
                on_skip(f"{path} line {number} was left out: it is no memory, or too long a one")
                continue
            about = json_value(row.get("metadata"), {})
            yield from _line(row, about, row.get("app"), json_value(row.get("categories"), []))


def _exported(export: Any, path: Path) -> Iterator[Exported]:
    """Yield the memories of a result of `get_all()`, or of a list of them."""
    is_answer = isinstance(export, dict)
    rows = export.get("results", export.get("memories")) if is_answer else export
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise SourceError(f"{path} is no export of mem0's: write the result of get_all() as JSON")
    for row in rows:
        about = json_value(row.get("metadata"), {})
        yield from _line(row, about, row.get("agent_id"), json_value(row.get("categories"), []))


def _line(row: dict[str, Any], about: dict[str, Any], app: Any, tags: Any) -> Iterator[Exported]:
    """Yield the memory of a row, unless it was deleted."""
    if row.get("state") == "deleted":
        return
    content = row.get("memory") or row.get("content") or row.get("text") or ""
    yield memory_line(
        NAME,
        str(row.get("id") or content[:2_000]),
        content,
        at=instant(row.get("created_at")),
        tags=tags,
        kind=kind_of(about.get("type") or about.get("category"), _KINDS, "fact"),
        project=_short(about.get("project") or about.get("project_id")),
        session=row.get("run_id"),
        agent=_short(app),
        created_by=_short(row.get("user_id")) if "categories" in row or "memory" in row else None,
        trust="agent",
        state="archived" if row.get("state") in ("archived", "paused") else None,
        metadata={name: value for name, value in about.items() if isinstance(value, (str, int))},
    )


def _plugin_export(path: Path) -> Iterator[Exported]:
    """Yield the memories of an export of mem0's plugin: blocks of fields and a text between ---."""
    if path.stat().st_size > _MAX_EXPORT:
        raise SourceError(f"{path} is over {_MAX_EXPORT >> 20} MiB: split it")
    parts = _BLOCK.split(path.read_text("utf-8-sig", errors="replace").replace("\r\n", "\n"))
    for head, body in zip(parts[1::2], parts[2::2], strict=False):
        fields, text = split_note(f"---\n{head.strip()}\n---\n{body}")
        if text:
            yield memory_line(
                NAME,
                words(fields, "id") or text[:2_000],
                text,
                at=front_moment(fields.get("created_at")),
                tags=word_list(fields.get("categories")),
                kind=kind_of(fields.get("type"), _KINDS, "fact"),
                trust="agent",
                metadata={name: words(fields, name) for name in ("branch", "files", "confidence")},
            )


def _short(value: Any) -> str | None:
    return str(value)[:200] if value else None


STORE = MemoryStore(
    NAME,
    "mem0 and OpenMemory",
    f"~/.mem0/{FILE}, openmemory.db, or an export",
    lambda folder, here: existing_files(folder("MEM0_DIR", ".mem0") / FILE, here / "openmemory.db"),
    read,
    "vectors and its entity graph; from history.db also whose a memory is and its metadata, "
    "which an export as JSON has",
)
