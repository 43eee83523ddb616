"""
Pali's database: the memories and entity facts of its tenants; each tenant is named in the metadata.

https://github.com/pali-mem/pali, internal/repository/sqlite/migrations.go
"""

from collections.abc import Iterator
from pathlib import Path

from store.home.instants import moment
from store.importers.jsonl import Exported
from store.importers.memory_store import (
    MemoryStore,
    database_file,
    existing_files,
    instant,
    json_value,
    kind_of,
    memory_id,
    memory_line,
)
from store.importers.source_files import table_rows
from store.importers.transcript_turn import Skip
from store.log.event_kinds import RecordedKind

NAME = "pali"
FILE = "pali.db"
_KINDS: dict[str, RecordedKind] = {
    "raw_turn": "raw_turn",
    "observation": "observation",
    "summary": "summary",
    "event": "activity",
}
_MEMORIES = """id tenant_id content tier tags_json source created_by kind canonical_key
    importance_score metadata_json created_at"""
_FACTS = "id tenant_id entity relation value memory_id observed_at valid_from valid_to created_at"


def read(source: Path, on_skip: Skip) -> Iterator[Exported]:
    """Yield the memories and entity facts of a database, or of the one in a folder."""
    path = database_file(source, FILE, STORE)
    for row in table_rows(path, NAME, "memories", _MEMORIES):
        score = row["importance_score"]
        importance = float(score) if isinstance(score, (int, float)) and 0 < score <= 1 else None
        about = json_value(row["metadata_json"], {})
        is_user = row["created_by"] == "user"
        yield memory_line(
            NAME,
            str(row["id"]),
            row["content"] or "",
            at=instant(row["created_at"]),
            tags=json_value(row["tags_json"], []),
            kind=kind_of(row["kind"], _KINDS, "fact"),
            tier=row["tier"] if row["tier"] in ("working", "episodic", "semantic") else None,
            importance=importance,
            project=str(about["project"]) if about.get("project") else None,
            session=about.get("session_id"),
            trust="user" if is_user else "agent",
            metadata={
                "tenant": row["tenant_id"],
                "source": row["source"],
                "canonical_key": row["canonical_key"],
                **{name: value for name, value in about.items() if isinstance(value, (str, int))},
            },
        )
    for row in table_rows(path, NAME, "entity_facts", _FACTS):
        ended = instant(row["valid_to"])
        yield memory_line(
            NAME,
            f"fact {row['id']}",
            f"{row['entity']} {str(row['relation']).replace('_', ' ')} {row['value']}",
            at=instant(row["valid_from"])
            or instant(row["observed_at"])
            or instant(row["created_at"]),
            kind="fact",
            parent_id=memory_id(NAME, str(row["memory_id"])) if row["memory_id"] else None,
            state="archived" if ended else None,
            ended_at=moment(ended) if ended else None,
            trust="agent",
            metadata={"tenant": row["tenant_id"], "entity": row["entity"]},
        )


STORE = MemoryStore(
    NAME,
    "Pali",
    f"{FILE} in the folder it was started in",
    lambda folder, here: existing_files(here / FILE),  # where Pali was started
    read,
    "vectors, recall counts, jobs; memories of a Pali that keeps them in Postgres",
)
