"""
PMB's workspaces: the events that it keeps in SQLite, with their edges, keys, goals and milestones.

A keyed fact stays one, its older values superseded; an archived event is archived. Edges that only
give the order are left out.

https://pypi.org/project/pmb-ai: pmb/core/events.py, engine/write.py, engine/goals.py
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from store.home.errors import SourceError
from store.home.instants import moment
from store.home.projects import git_root
from store.importers.jsonl import Exported, ExportedLink
from store.importers.memory_store import (
    MemoryStore,
    existing_files,
    instant,
    json_value,
    kind_of,
    memory_id,
    memory_line,
    read_note,
    split_note,
    words,
)
from store.importers.source_files import Row, table_rows
from store.importers.transcript_hosts import Folder
from store.importers.transcript_turn import Skip
from store.log.event_kinds import GoalStatus, RecordedKind, Relation

NAME = "pmb"
FILE = "events.sqlite"
_KINDS: dict[str, RecordedKind] = {
    "fact": "fact",
    "fact_atom": "fact",
    "lesson": "lesson",
    "decision": "decision",
    "goal": "goal",
    "milestone": "milestone",
    "preference": "preference",
    "summary": "summary",
    "reflection": "insight",
    "activity": "activity",
    "qa": "raw_turn",
    "git": "activity",
    "test": "activity",
    "failure": "antipattern",
}
_RELATIONS: dict[str, Relation] = {
    "causes": "cause",
    "caused": "cause",
    "enables": "cause",
    "blocks": "conflict",
    "contradicts": "conflict",
    "supports": "support",
    "references": "support",
    "refines": "derived",
    "derived-from": "derived",
    "supersedes": "derived",
}
_STATUSES: dict[str, GoalStatus] = {
    "done": "done",
    "completed": "done",
    "abandoned": "dropped",
    "cancelled": "dropped",
    "dropped": "dropped",
    "blocked": "blocked",
}
_EVENTS = """ulid event_type content metadata_json timestamp importance archived_at
    source_session_id tier"""
_NOT_KEPT = frozenset({"goal_update", "image"})  # the goal has its newest state; pictures


def find(folder: Folder, here: Path) -> list[Path]:
    """Return the workspaces of PMB's home."""
    home = folder("PMB_HOME", ".pmb") / "workspaces"
    return sorted(path.parent for path in home.glob(f"*/{FILE}"))


def read(source: Path, on_skip: Skip) -> Iterator[Exported]:
    """Yield the memories of a workspace, of PMB's home, or of one file of events."""
    files = [source]
    if not source.is_file():
        inner = (*source.glob(f"*/{FILE}"), *source.glob(f"workspaces/*/{FILE}"))
        files = sorted(existing_files(source / FILE, *inner))
    if not files:
        raise SourceError(f"{source} holds no {FILE}: PMB keeps its memories in {STORE.usual}")
    for file in files:
        yield from _workspace(file, on_skip)


def _workspace(path: Path, on_skip: Skip) -> Iterator[Exported]:
    project = _project(path.parent, on_skip)
    links: dict[str, list[ExportedLink]] = {}
    for row in table_rows(path, NAME, "event_edges", "source_ulid target_ulid edge_type"):
        kind = _RELATIONS.get(str(row["edge_type"]).replace("_", "-"))
        if kind is not None:
            link = ExportedLink(target=memory_id(NAME, str(row["target_ulid"])), relation=kind)
            links.setdefault(str(row["source_ulid"]), []).append(link)
    for row in table_rows(path, NAME, "events", _EVENTS):
        if row["event_type"] not in _NOT_KEPT:
            yield _line(row, project, tuple(dict.fromkeys(links.get(str(row["ulid"]), ()))))


def _project(folder: Path, on_skip: Skip) -> str | None:
    """Return a workspace's folder if it is a repository, else the name its user gave it."""
    file = folder / "meta.yaml"
    if not file.is_file():
        return None
    fields, _ = split_note(f"---\n{read_note(file, on_skip)[1]}\n---\n")
    root, id_, name = (words(fields, field) for field in ("root", "id", "name"))
    if root and git_root(Path(root)) is not None:
        return root
    return (name if re.fullmatch(r"[0-9a-f]{8,}", id_) else id_) or None


def _line(row: Row, project: str | None, links: tuple[ExportedLink, ...]) -> Exported:
    about = json_value(row["metadata_json"], {})
    kind = kind_of(about.get("kind"), _KINDS, kind_of(row["event_type"], _KINDS, "fact"))
    ended = instant(row["archived_at"])
    newer = about.get("superseded_by")
    fields: dict[str, Any] = {}
    if row["event_type"] == "qa" and about.get("query"):
        fields["context"] = str(about["query"])
    if kind == "goal":
        fields["status"] = _STATUSES.get(str(about.get("goal_status")), "open")
        progress = about.get("goal_progress")
        if isinstance(progress, (int, float)):
            fields["progress"] = min(max(float(progress) / (100 if progress > 1 else 1), 0.0), 1.0)
    if about.get("keyed_fact_key") and about.get("keyed_fact_value"):
        subject, attribute = (
            re.sub(r"\s+", "_", str(about.get(f"keyed_fact_{name}") or "").strip().lower())
            for name in ("subject", "attribute")
        )
        if subject and attribute and len(f"{subject}.{attribute}") <= 200:
            fields |= {"key": f"{subject}.{attribute}", "value": str(about["keyed_fact_value"])}
    importance = row["importance"]
    return memory_line(
        NAME,
        str(row["ulid"]),
        row["content"] or "",
        at=instant(row["timestamp"]),
        kind=kind,
        project=project,
        session=row["source_session_id"],
        importance=float(importance)
        if isinstance(importance, float) and 0 <= importance <= 1
        else None,
        tier=row["tier"] if row["tier"] in ("working", "episodic", "semantic") else None,
        chain=str(about["chain_name"])[:200] if about.get("chain_name") else None,
        state=("superseded" if newer else "archived") if ended else None,
        superseded_by=memory_id(NAME, str(newer)) if newer and ended else None,
        ended_at=moment(ended) if ended else None,
        links=links,
        trust="agent",
        metadata={"type": str(row["event_type"]), "action": about.get("source")},
        **fields,
    )


STORE = MemoryStore(
    NAME,
    "PMB",
    "~/.pmb/workspaces",
    find,
    read,
    "vectors, its entity graph, pictures, how often lessons were shown and followed",
)
