"""
claude-mem's database: its observer's notes on each session of Claude Code, and its summaries.

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
    existing_files,
    instant,
    json_value,
    kind_of,
    memory_line,
)
from store.importers.source_files import Row, table_rows
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


def read(source: Path, on_skip: Skip) -> Iterator[Exported]:
    """Yield the observations and summaries of a database, or of the one in a folder."""
    path = database_file(source, FILE, STORE)
    for row in table_rows(path, NAME, "observations", _NOTED):
        texts = [row["title"], row["narrative"] or row["text"]]
        facts = [str(fact) for fact in json_value(row["facts"], [])]
        files = [*json_value(row["files_modified"], []), *json_value(row["files_read"], [])]
        yield _line(
            row,
            "observation",
            "\n".join(filter(None, texts)) or "\n".join(facts),
            kind=kind_of(row["type"], _KINDS, "observation"),
            context=row["subtitle"],
            result="\n".join(facts) if any(texts) else None,
            tags=json_value(row["concepts"], []),
            metadata={"files": [str(file) for file in files][:50], "type": row["type"]},
        )
    for row in table_rows(path, NAME, "session_summaries", _SUMMED_UP):
        texts = [row["completed"], row["learned"], row["notes"]]
        yield _line(
            row,
            "summary",
            "\n".join(filter(None, texts)) or row["request"] or "",
            kind="summary",
            context=row["request"],
            action=row["investigated"],
            result=f"Next: {row['next_steps']}" if row["next_steps"] else None,
        )


def _line(row: Row, table: str, content: str, **fields: Any) -> Exported:
    at = instant(row["created_at_epoch"])
    return memory_line(
        NAME,
        f"{table} {row['id']} {at}",  # numbered from 1 on every machine
        content,
        at=at,
        project=row["project"],
        session=row["memory_session_id"],
        agent="claude-code",
        trust="agent",
        **fields,
    )


STORE = MemoryStore(
    NAME,
    "claude-mem",
    f"~/.claude-mem/{FILE}",
    lambda folder, here: existing_files(folder("CLAUDE_MEM_DATA_DIR", ".claude-mem") / FILE),
    read,
    "prompts (`mnemolog import claude-code` reads them in full), vectors, token counts",
)
