"""
Stores of other programs, written here in the formats that their own sources declare.

Each function writes one below a home folder and returns the path to import.
"""

import gzip
import json
import zipfile
from pathlib import Path

import apsw

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
AT_MS = 1_772_359_200_000  # 2026-03-01T10:00:00Z
ISO = "2026-03-01T10:00:00+00:00"


def note(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def database(path: Path, schema: str, rows: dict[str, list[dict[str, object]]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = apsw.Connection(str(path))
    connection.execute(schema)
    for table, some in rows.items():
        for row in some:
            names, marks = ", ".join(row), ", ".join("?" * len(row))
            connection.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", [*row.values()])
    connection.close()
    return path


def repository(folder: Path, remote: str = "https://github.com/acme/quarry.git") -> Path:
    note(folder / ".git" / "config", f'[remote "origin"]\n\turl = {remote}\n')
    note(folder / ".git" / "HEAD", "ref: refs/heads/main\n")
    return folder


def claude_memory(home: Path) -> Path:
    work = repository(home / "src" / "quarry")
    claude = home / ".claude"
    folder = claude / "projects" / "-home-me-src-quarry"
    line = {"type": "user", "cwd": str(work), "message": {"content": "hello there"}}
    note(folder / "s1.jsonl", json.dumps(line) + "\n")
    note(
        folder / "memory" / "MEMORY.md",
        "# Memory\n\n- [Deploys](deploys.md) — where deploys go out from\n",
    )
    note(
        folder / "memory" / "deploys.md",
        "---\nname: deploys\ndescription: where deploys go out from\nmetadata:\n  type: project\n"
        "---\nDeploys of quarry go out from eu-north-1 only.\n",
    )
    note(
        folder / "memory" / "commits.md",
        "---\nname: commits\ndescription: how commits look\ntype: feedback\n---\n"
        f"Commits stay small. The bot's token is {SECRET}.\n",
    )
    note(claude / "CLAUDE.md", "# Mine\n\n- Always answer in short sentences.\n\nSee @extra.md\n")
    note(claude / "extra.md", "# Extra\n\n- Never force-push to the main branch.\n")
    note(claude / "rules" / "python.md", "- Use ruff for every Python file.\n")
    note(work / "CLAUDE.md", "# Quarry\n\n- Always run `make test` before a commit.\n")
    return claude


def codex_memory(home: Path) -> Path:
    work = repository(home / "src" / "quarry")
    codex = home / ".codex"
    note(codex / "AGENTS.md", "- Always write tests before the code.\n")
    note(
        codex / "memories" / "MEMORY.md",
        "\ufeff---\nrollout_summary_files:\n"
        f"  - a.md (success, cwd={work}, updated_at=2026-02-12T10:30:00Z)\n"
        "description: upgrading the index\nkeywords: lancedb, pyarrow\n---\n\n"
        "- Pin the pyarrow wheel before lancedb is upgraded, else the build breaks.\n"
        "- The index is rebuilt with `make index`, which takes nine minutes.\n",
    )
    note(
        codex / "memories" / "memory_summary.md",
        "v1\n\n## User Profile\n\nThe user maintains quarry and likes terse answers.\n\n"
        "## What's in Memory\n- lancedb: index, upgrade, wheel and so on\n",
    )
    note(
        codex / "memories" / "rollout_summaries" / "a.md",
        f"thread_id: 019f\nupdated_at: 2026-02-12T10:30:00+00:00\ncwd: {work}\n\n"
        "The upgrade of the index failed twice because the wheel was too new.\n",
    )
    note(codex / "memories" / "raw_memories.md", "# Raw Memories\n\nThis is read nowhere at all.\n")
    note(
        codex / "memories" / "skills" / "index" / "SKILL.md",
        "---\nname: index\ndescription: rebuild the index\n---\nStop the worker, then rebuild.\n",
    )
    return codex


def cursor(home: Path) -> Path:
    work = repository(home / "src" / "quarry")
    note(
        work / ".cursor" / "rules" / "python.mdc",
        "---\ndescription: Python style\nglobs: '*.py, *.pyi'\nalwaysApply: false\n---\n"
        "# Style\n\n- Always annotate public functions.\n- Prefer dataclasses to dictionaries.\n",
    )
    note(work / ".cursorrules", "Use four spaces in every template of the website.\n")
    return work


CLAUDE_MEM = """
CREATE TABLE sdk_sessions (id INTEGER PRIMARY KEY, content_session_id TEXT, memory_session_id TEXT);
CREATE TABLE observations (id INTEGER PRIMARY KEY AUTOINCREMENT, memory_session_id TEXT NOT NULL,
    project TEXT NOT NULL, text TEXT, type TEXT NOT NULL, title TEXT, subtitle TEXT, facts TEXT,
    narrative TEXT, concepts TEXT, files_read TEXT, files_modified TEXT, prompt_number INTEGER,
    created_at TEXT NOT NULL, created_at_epoch INTEGER NOT NULL);
CREATE TABLE session_summaries (id INTEGER PRIMARY KEY AUTOINCREMENT, memory_session_id TEXT,
    project TEXT, request TEXT, investigated TEXT, learned TEXT, completed TEXT, next_steps TEXT,
    files_read TEXT, files_edited TEXT, notes TEXT, created_at TEXT, created_at_epoch INTEGER);
CREATE TABLE user_prompts (id INTEGER PRIMARY KEY, prompt_text TEXT);
"""


def claude_mem(home: Path) -> Path:
    common = {"memory_session_id": "m1", "project": "quarry", "created_at": ISO}
    common["created_at_epoch"] = AT_MS
    observations: list[dict[str, object]] = [
        {
            **common,
            "type": "decision",
            "title": "Chose SQLite for the event log",
            "subtitle": "One file is easy to back up",
            "narrative": "Postgres was considered and dropped: nobody wants to run a server.",
            "facts": '["WAL mode is on", "The log lives in events.db"]',
            "concepts": '["what-changed", "trade-off"]',
            "files_modified": '["store/log.py"]',
        },
        {**common, "type": "bugfix", "title": "todo", "text": None},
        {**common, "type": "discovery", "title": "Token", "narrative": f"CI uses {SECRET} now."},
    ]
    summary = {**common, "request": "Fix the flaky sync test", "learned": "Two threads closed it."}
    rows = {"observations": observations, "session_summaries": [summary]}
    return database(home / ".claude-mem" / "claude-mem.db", CLAUDE_MEM, rows)


MEM0 = """
CREATE TABLE history (id TEXT PRIMARY KEY, memory_id TEXT, old_memory TEXT, new_memory TEXT,
    event TEXT, created_at DATETIME, updated_at DATETIME, is_deleted INTEGER, actor_id TEXT,
    role TEXT);
"""


def mem0(home: Path) -> Path:
    def event(id_: str, memory: str, text: str | None, what: str) -> dict[str, object]:
        gone = int(what == "DELETE")
        row = {"id": id_, "memory_id": memory, "new_memory": text, "event": what}
        return row | {"created_at": ISO, "updated_at": ISO, "is_deleted": gone}

    rows = [
        event("1", "a", "The staging cluster runs in eu-central-1", "ADD"),
        event("2", "b", "We deploy on Fridays", "ADD"),
        event("3", "a", "The staging cluster runs in eu-west-3", "UPDATE"),
        event("4", "b", None, "DELETE"),
        event("5", "c", f"The token of the bot is {SECRET}", "ADD"),
    ]
    return database(home / ".mem0" / "history.db", MEM0, {"history": rows})


def mem0_export(home: Path) -> Path:
    row = {"id": "a", "memory": "The staging cluster runs in eu-west-3", "created_at": ISO}
    row |= {"user_id": "anna", "categories": ["ops"], "metadata": {"category": "decision"}}
    return note(home / "mem0.json", json.dumps({"results": [row]}))


def mem0_plugin(home: Path) -> Path:
    text = (
        "---\nid: p1\ncreated_at: 2026-03-01T10:00:00Z\ntype: task_learnings\n"
        "categories: ops, ci\n---\nThe runner needs twelve gigabytes of memory.\n"
    )
    return note(home / "mem0-export-1.md", text)


OPENMEMORY = """
CREATE TABLE users (id TEXT, user_id TEXT);
CREATE TABLE apps (id TEXT, owner_id TEXT, name TEXT);
CREATE TABLE categories (id TEXT, name TEXT);
CREATE TABLE memory_categories (memory_id TEXT, category_id TEXT);
CREATE TABLE memories (id TEXT, user_id TEXT, app_id TEXT, content TEXT, vector TEXT,
    metadata JSON, state TEXT, created_at DATETIME, archived_at DATETIME, deleted_at DATETIME);
"""


def openmemory(home: Path) -> Path:
    def memory(id_: str, text: str, state: str) -> dict[str, object]:
        row = {"id": id_, "user_id": "u", "app_id": "x", "content": text, "state": state}
        return row | {"created_at": "2026-03-01 10:00:00.000000", "metadata": '{"project": "web"}'}

    rows: dict[str, list[dict[str, object]]] = {
        "apps": [{"id": "x", "owner_id": "u", "name": "cursor"}],
        "categories": [{"id": "k", "name": "tooling"}],
        "memory_categories": [{"memory_id": "m1", "category_id": "k"}],
        "memories": [
            memory("m1", "Anna uses the fish shell on every machine", "active"),
            memory("m2", "Anna used the zsh shell until March", "archived"),
            memory("m3", "Nobody should ever see this one again", "deleted"),
        ],
    }
    return database(home / "openmemory.db", OPENMEMORY, rows)


def openmemory_backup(home: Path) -> Path:
    row = {"id": "m1", "content": "Anna uses the fish shell on every machine", "state": "active"}
    row |= {"created_at": ISO, "app": "cursor", "categories": ["tooling"], "metadata": {}}
    path = home / "memories_export_anna.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("memories.json", "{}")
        archive.writestr("memories.jsonl.gz", gzip.compress(json.dumps(row).encode() + b"\n"))
    return path


def basic_memory(home: Path) -> Path:
    top = home / "basic-memory"
    note(
        top / "design" / "Event log.md",
        "---\ntitle: Event log\ntype: note\npermalink: design/event-log\ntags:\n- sqlite\n"
        "created: 2026-03-01T10:00:00+00:00\n---\n\n# Event log\n\n"
        "Every write is one transaction, acknowledged after it is on the disk.\n\n"
        "## Observations\n"
        "- [decision] SQLite in WAL mode holds the event log #backup (one file)\n"
        "- [gotcha] The WAL file must be copied too\n- [ ] an open task\n\n"
        "## Relations\n- requires [[Backup plan]]\n- contradicts [[ops/Old plan]]\n"
        "- relates_to [[Nowhere]]\n",
    )
    note(top / "ops" / "Backup plan.md", "Backups run at night from the replica in Falkenstein.\n")
    note(top / "ops" / "Old plan.md", "---\ntitle: Old plan\n---\nBackups run on Sundays only.\n")
    config = {"projects": {"main": {"path": str(top)}}}
    note(home / ".basic-memory" / "config.json", json.dumps(config))
    return top


PMB = """
CREATE TABLE events (id INTEGER PRIMARY KEY AUTOINCREMENT, ulid TEXT UNIQUE NOT NULL,
    workspace_id TEXT NOT NULL, event_type TEXT NOT NULL, content TEXT NOT NULL,
    metadata_json TEXT, timestamp REAL NOT NULL, importance REAL DEFAULT 0.5,
    access_count INTEGER DEFAULT 0, last_accessed REAL NOT NULL, archived_at REAL,
    source_session_id TEXT, tier TEXT NOT NULL DEFAULT 'working');
CREATE TABLE event_edges (source_ulid TEXT, target_ulid TEXT, edge_type TEXT, confidence REAL,
    rationale TEXT, created_at REAL);
"""


def pmb(home: Path) -> Path:
    def event(ulid: str, kind_: str, text: str, **about: object) -> dict[str, object]:
        archived, at = about.pop("archived_at", None), about.pop("at", AT_MS / 1000)
        row = {"ulid": ulid, "workspace_id": "quarry", "event_type": kind_, "content": text}
        row |= {"metadata_json": json.dumps(about), "timestamp": at}
        row |= {"last_accessed": AT_MS / 1000, "archived_at": archived, "tier": "semantic"}
        return row

    key = {"keyed_fact_key": "deploy::region", "keyed_fact_subject": "Deploy"}
    key["keyed_fact_attribute"] = "region"
    events = [
        event("u1", "fact", "Pin the wheel before lancedb is upgraded", kind="lesson"),
        event("u2", "fact", "The build broke on the first of March"),
        event("u3", "goal", "Cut the cold start of the importer", goal_status="completed"),
        event("u4", "fact", "deploy region: eu-west-1", **key, keyed_fact_value="eu-west-1",
              superseded_by="u5", archived_at=AT_MS / 1000 + 60),
        event("u5", "fact", "deploy region: eu-north-1", **key, keyed_fact_value="eu-north-1",
              at=AT_MS / 1000 + 60),
        event("u6", "milestone", "Version 1.4 shipped to everyone", chain_name="release"),
        event("u7", "qa", "It runs at night, from the replica.", query="When does it run?"),
    ]  # fmt: skip
    edges = [
        {"source_ulid": "u2", "target_ulid": "u1", "edge_type": "causes"},
        {"source_ulid": "u1", "target_ulid": "u2", "edge_type": "temporal-next"},
    ]
    folder = home / ".pmb" / "workspaces" / "quarry"
    database(folder / "events.sqlite", PMB, {"events": events, "event_edges": edges})
    note(folder / "meta.yaml", "id: quarry\nname: quarry\nroot: /nowhere/quarry\n")
    return home / ".pmb"


ENGRAM = """
CREATE TABLE sessions (id TEXT PRIMARY KEY, project TEXT NOT NULL, directory TEXT NOT NULL,
    started_at TEXT NOT NULL DEFAULT (datetime('now')), ended_at TEXT, summary TEXT);
CREATE TABLE observations (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL,
    type TEXT NOT NULL, title TEXT NOT NULL, content TEXT NOT NULL, tool_name TEXT, project TEXT,
    scope TEXT NOT NULL DEFAULT 'project', topic_key TEXT,
    created_at TEXT NOT NULL DEFAULT (datetime('now')), deleted_at TEXT);
"""


def engram(home: Path) -> Path:
    when = "2026-03-01 10:00:00"
    row = {"session_id": "s1", "project": "quarry", "created_at": when}
    rows: dict[str, list[dict[str, object]]] = {
        "sessions": [
            {"id": "s1", "project": "quarry", "directory": "/nowhere", "started_at": when,
             "summary": "Moved the queue to Postgres with SKIP LOCKED."},
        ],
        "observations": [
            {**row, "type": "bugfix", "title": "Fixed the 500 on /invoices",
             "content": "A null tenant id in invoice.py caused it.", "topic_key": "bug/invoices"},
            {**row, "type": "preference", "title": "Editor", "content": "Uses helix.",
             "scope": "personal"},
            {**row, "type": "decision", "title": "Gone", "content": "Gone for good.",
             "deleted_at": when},
        ],
    }  # fmt: skip
    return database(home / ".engram" / "engram.db", ENGRAM, rows)


def engram_export(home: Path) -> Path:
    observation = {"id": 1, "session_id": "s1", "type": "bugfix", "project": "quarry"}
    observation |= {"title": "Fixed the 500 on /invoices", "created_at": "2026-03-01 10:00:00"}
    observation |= {"content": "A null tenant id in invoice.py caused it.", "scope": "project"}
    said = {"version": "1", "sessions": [], "observations": [observation], "prompts": []}
    return note(home / "engram.json", json.dumps(said))


PALI = """
CREATE TABLE memories (id TEXT PRIMARY KEY, tenant_id TEXT, content TEXT, tier TEXT,
    tags_json TEXT, source TEXT, created_by TEXT, kind TEXT, canonical_key TEXT,
    importance_score REAL, metadata_json TEXT, created_at TEXT, updated_at TEXT);
CREATE TABLE entity_facts (id TEXT PRIMARY KEY, tenant_id TEXT, entity TEXT, relation TEXT,
    value TEXT, memory_id TEXT, observed_at TEXT, valid_from TEXT, valid_to TEXT, created_at TEXT);
"""


def pali(home: Path) -> Path:
    rows: dict[str, list[dict[str, object]]] = {
        "memories": [
            {"id": "p1", "tenant_id": "t1", "content": "Anna moved to Lisbon in February.",
             "tier": "semantic", "tags_json": '["home"]', "created_by": "user", "kind": "event",
             "importance_score": 0.8, "metadata_json": "{}", "created_at": "2026-03-01T10:00:00Z"},
        ],
        "entity_facts": [
            {"id": "f1", "tenant_id": "t1", "entity": "Anna", "relation": "lives_in",
             "value": "Porto", "memory_id": "p1", "valid_to": "2026-02-01T00:00:00Z",
             "created_at": "2026-01-01T10:00:00Z"},
        ],
    }  # fmt: skip
    return database(home / "pali.db", PALI, rows)


def letta(home: Path) -> Path:
    said = {
        "agents": [{"id": "agent-0", "name": "sam", "block_ids": ["block-0"], "messages": [{}]}],
        "blocks": [
            {"id": "block-0", "label": "human", "limit": 5000,
             "value": "The user is called Anna.\n\nAnna leads the quarry project since March."},
            {"id": "block-1", "label": "persona", "value": "I am Sam, a helpful assistant."},
        ],
    }  # fmt: skip
    return note(home / "sam.af", json.dumps(said))


LETTA = """
CREATE TABLE block (id TEXT, label TEXT, value TEXT, is_deleted BOOLEAN, is_template BOOLEAN);
CREATE TABLE agent_passages (id TEXT, text TEXT, agent_id TEXT, metadata_ JSON,
    created_at DATETIME, is_deleted BOOLEAN);
"""


def letta_server(home: Path) -> Path:
    passage = {"id": "passage-1", "text": "The invoice job runs on the second of each month."}
    passage |= {"agent_id": "agent-1", "created_at": "2026-03-01 10:00:00", "is_deleted": 0}
    block = {"id": "block-1", "label": "human", "value": "The user is called Anna."}
    block |= {"is_deleted": 0, "is_template": 0}
    rows = {"block": [block], "agent_passages": [passage]}
    return database(home / ".letta" / "sqlite.db", LETTA, rows)


HALF = "\ud83d"  # of an emoji, as a text that was cut in its middle has


def chatgpt(home: Path) -> Path:
    def message(id_: str, who: str, text: str, **about: object) -> dict[str, object]:
        content = {"content_type": "text", "parts": [text]}
        author, at = {"role": who}, AT_MS / 1000
        return {"id": id_, "author": author, "content": content, "create_time": at, **about}

    hidden = {"metadata": {"is_visually_hidden_from_conversation": True}}
    mapping = {
        "root": {"id": "root", "message": None, "parent": None},
        "s": {"id": "s", "message": message("s", "system", "Be kind.", **hidden), "parent": "root"},
        "a": {"id": "a", "message": message("a", "user", f"How do I rotate the logs? {HALF}"),
              "parent": "s"},
        "b": {"id": "b", "message": message("b", "assistant", "An answer that was regenerated."),
              "parent": "a"},
        "c": {"id": "c", "message": message("c", "assistant", "Use logrotate with copytruncate."),
              "parent": "a"},
    }  # fmt: skip
    conversation = {"conversation_id": "c-1", "title": f"Logs {HALF}", "create_time": AT_MS / 1000}
    conversation |= {"mapping": mapping, "current_node": "c"}
    path = home / "Downloads" / "chatgpt.zip"
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("conversations.json", json.dumps([conversation]))
    return path


def claude_ai(home: Path) -> Path:
    messages = [
        {"uuid": "1", "sender": "human", "text": "Which port does quarry listen on?",
         "created_at": ISO},
        {"uuid": "2", "sender": "assistant", "text": "", "created_at": ISO,
         "content": [{"type": "thinking", "text": "hm"}, {"type": "text", "text": "Port 7437."}]},
    ]  # fmt: skip
    conversation = {"uuid": "k-1", "name": "Ports", "chat_messages": messages, "created_at": ISO}
    memory = {"conversations_memory": "**Work**\n\nAnna runs quarry on two machines at home."}
    memory["project_memories"] = {"p-1": "The thesis is due on the first of June."}
    path = home / "Downloads" / "data-2026-batch-0000.zip"
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("conversations.json", json.dumps([conversation]))
        archive.writestr("memories.json", json.dumps([memory]))
        archive.writestr("projects.json", json.dumps([{"uuid": "p-1", "name": "Thesis"}]))
    return path
