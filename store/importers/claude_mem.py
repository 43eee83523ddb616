"""
claude-mem's database: what its observer noted of each session of Claude Code, and its summaries.

A model wrote both, so they have an agent's trust. Prompts are in the host's transcripts too, which
`mnemolog import claude-code` reads whole, and are left there.

https://github.com/thedotmack/claude-mem, src/services/sqlite/SessionStore.ts
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from store.importers.jsonl import Exported
from store.importers.memory_store import (
    MemoryStore,
    database_file,
    instant,
    json_value,
    kind_of,
    memory_line,
)
from store.importers.source_files import Row, table_rows
from store.importers.transcript_hosts import Folder
from store.importers.transcript_turn import Skip
from store.log.event_kinds import RecordedKind

NAME = "claude-mem"
FILE = "claude-mem.db"
_KINDS: dict[str, RecordedKind] = {
    "decision": "decision",
    "bugfix": "bugfix",
    "feature": "activity",
    "refactor": "activity",
    "change": "activity",
}
_NOTED = """id memory_session_id project text type title subtitle facts narrative concepts
    files_read files_modified created_at_epoch"""
_SUMMED_UP = """id memory_session_id project request investigated learned completed next_steps
    notes created_at_epoch"""


def find(folder: Folder, here: Path) -> list[Path]:
    """Return claude-mem's database, if there is one."""
    path = folder("CLAUDE_MEM_DATA_DIR", ".claude-mem") / FILE
    return [path] if path.is_file() else []


def read(source: Path, on_skip: Skip) -> Iterator[Exported]:
    """Yield the observations and summaries of a database, or of the one in a folder."""
    path = database_file(source, FILE, STORE)
    for row in table_rows(path, NAME, "observations", _NOTED):
        told = [row["title"], row["narrative"] or row["text"]]
        facts = [str(one) for one in json_value(row["facts"], [])]
        files = [*json_value(row["files_modified"], []), *json_value(row["files_read"], [])]
        yield _line(
            row,
            "observation",
            "\n".join(one for one in told if one) or "\n".join(facts),
            kind=kind_of(row["type"], _KINDS, "observation"),
            context=row["subtitle"],
            result="\n".join(facts) if any(told) else None,
            tags=json_value(row["concepts"], []),
            metadata={"files": [str(file) for file in files][:50], "type": row["type"]},
        )
    for row in table_rows(path, NAME, "session_summaries", _SUMMED_UP):
        told = [row["completed"], row["learned"], row["notes"]]
        yield _line(
            row,
            "summary",
            "\n".join(one for one in told if one) or row["request"] or "",
            kind="summary",
            context=row["request"],
            action=row["investigated"],
            result=f"Next: {row['next_steps']}" if row["next_steps"] else None,
        )


def _line(row: Row, what: str, content: str, **said: Any) -> Exported:
    at = instant(row["created_at_epoch"])
    session = row["memory_session_id"]
    return memory_line(
        NAME,
        f"{what} {row['id']} {at}",  # numbered from 1 on every machine
        content,
        at=at,
        project=row["project"],
        session=str(session)[:200] if session else None,
        agent="claude-code",
        trust="agent",
        **said,
    )


STORE = MemoryStore(
    NAME,
    "claude-mem",
    f"~/.claude-mem/{FILE}",
    find,
    read,
    "prompts (`mnemolog import claude-code` reads them in full), vectors, token counts",
)
