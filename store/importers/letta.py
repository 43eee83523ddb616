"""
Letta's agents: the memory blocks and messages in an agent file (.af), the blocks and archival
passages in the SQLite database of a server before 1.0.

The user's block ("human") and the agent's own are texts that the agent edits: each paragraph
becomes a memory, with an agent's trust.

https://docs.letta.com/guides/core-concepts/agent-file; letta-ai/letta, letta/schemas/agent_file.py
and letta/orm
"""

from collections.abc import Iterator
from pathlib import Path

from store.agents.json_fields import objects
from store.home.errors import SourceError
from store.importers.jsonl import Exported
from store.importers.markdown import split_blocks
from store.importers.memory_store import (
    MemoryStore,
    database_file,
    existing_files,
    instant,
    json_value,
    memory_line,
    read_json,
)
from store.importers.source_files import Row, is_database, table_rows
from store.importers.transcript_turn import Skip

NAME = "letta"
FILE = "sqlite.db"
_OWN = frozenset({"persona", "system", "tool_usage_rules", "skills", "loaded_skills"})


def read(source: Path, on_skip: Skip) -> Iterator[Exported]:
    """Yield the memories of a database, its folder, or an agent file."""
    path = database_file(source, FILE, STORE)
    if is_database(path):
        yield from _database(path, on_skip)
        return
    export = read_json(path)
    if not isinstance(export, dict):
        raise SourceError(f"{path} is no agent file of Letta's: export the agent again")
    agents = objects(export, "agents") or [export]
    blocks = objects(export, "blocks") or objects(export, "core_memory")
    if not blocks and not any("messages" in agent for agent in agents):
        raise SourceError(f"{path} is no agent file of Letta's: it has no agents and no blocks")
    names = ", ".join(str(agent["name"]) for agent in agents if agent.get("name"))
    for block in blocks:
        yield from _block(block, names or path.stem, str(path.stem), on_skip)
    messages = sum(len(objects(agent, "messages")) for agent in agents)
    if messages:
        on_skip(
            f"{messages} messages of {names or path.stem}: an agent file keeps the last 50 only"
        )


def _database(path: Path, on_skip: Skip) -> Iterator[Exported]:
    columns = "id label value description is_deleted created_at is_template"
    for block in table_rows(path, NAME, "block", columns):
        if not block["is_deleted"] and not block["is_template"]:
            yield from _block(block, "an agent", "", on_skip)
    try:
        passages = list(
            table_rows(
                path, NAME, "agent_passages", "id text agent_id metadata_ created_at is_deleted"
            )
        )
    except SourceError:  # renamed to archival_passages, whose archives agents share
        columns = "id text archive_id metadata_ tags created_at is_deleted"
        passages = list(table_rows(path, NAME, "archival_passages", columns))
    for row in passages:
        if not row["is_deleted"]:
            yield memory_line(
                NAME,
                str(row["id"]),
                row["text"] or "",
                at=instant(row["created_at"]),
                tags=json_value(row.get("tags"), []),
                context="archival memory",
                trust="agent",
                metadata={"agent": row.get("agent_id") or row.get("archive_id")},
            )


def _block(block: Row, agent: str, where: str, on_skip: Skip) -> Iterator[Exported]:
    """Yield the paragraphs of a memory block, but not of one on the agent's behaviour."""
    label, value = str(block.get("label") or "memory"), block.get("value")
    if label in _OWN:
        on_skip(f"block {label!r} of {agent}: it says how that agent behaves")
        return
    name = str(block.get("id") or f"{where} {label}")
    for text in split_blocks(value) if isinstance(value, str) else []:
        yield memory_line(
            NAME,
            f"{name}#{text[:1_000]}",
            text,
            at=instant(block.get("created_at")),
            context=f"memory block {label!r} of {agent}",
            trust="agent",
            metadata={"block": label},
        )


STORE = MemoryStore(
    NAME,
    "Letta",
    f"~/.letta/{FILE}, or an agent file (.af)",
    lambda folder, here: existing_files(folder("LETTA_DIR", ".letta") / FILE),
    read,
    "tools, messages, the blocks that say how an agent behaves, servers on Postgres",
)
