"""
All data of one memory, as JSON: its edges, duplicates, events and lineage.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from serve.reader.memory_json import is_withheld, visible_json, whole_json
from serve.reader.view import Superseded, View
from serve.reports.lineage import lineage
from store.home.errors import NotFound
from store.home.instants import isoformat
from store.home.projects import holds_in
from store.log.event_log import EventLog
from store.memories.memory import FORGOTTEN, OPEN, Memory


def full_json_by_id(view: View, log: EventLog, id_: str) -> dict[str, Any]:
    """Return all data of a memory, or the tombstone of a forgotten or the notice of a withheld one;
    raise NotFound, also for an episode of an unfinished turn.
    """
    memory = view.tail.find(id_)
    if memory is None or memory.state == OPEN:
        raise NotFound(f"no memory {id_!r}")
    is_hidden = memory.state == FORGOTTEN or is_withheld(memory)
    return visible_json(memory) if is_hidden else full_json(view, log, memory)


def full_json(view: View, log: EventLog, memory: Memory) -> dict[str, Any]:
    """Return all data of a memory: its edges both ways, its lineage, and its events, oldest
    first.
    """
    edges, events = view.tail.edges_of(memory.id), log.events_for(memory.id)
    return whole_json(memory) | {
        "duplicates": duplicates_of(view, memory.id),
        **lineage(view, log, memory, events),
        "edges": [
            {"source": edge.source, "relation": edge.relation, "target": edge.target}
            for edge in edges
        ],
        "history": [
            {
                "seq": event.seq,
                "at": isoformat(event.at),
                "event": event.kind,
                **msgspec.to_builtins(event.body),
            }
            for event in events
        ],
    }


def duplicates_of(view: View, id_: str) -> list[dict[str, Any]]:
    """Return the duplicates of a memory, and memories that differ in one value, as JSON.

    `kind` is exact, near or update; of an update, `was` and `becomes` are the values and `is_newer`
    is true for a later memory. Empty for a memory recorded after the build.
    """
    of = view.snapshots
    row = of.rows.row(id_)
    if row is None or of.duplicates is None:
        return []
    duplicates = []
    for link in of.duplicates.of(row):
        is_newer = link.of == row
        other = of.rows.take([link.document if is_newer else link.of])[0]
        now = view.tail.find(other.id)
        if now is None or now.state == FORGOTTEN:
            continue
        duplicate: dict[str, Any] = {
            "id": other.id,
            "state": now.state,
            "kind": link.kind,
            "likeness": link.likeness,
        }
        if link.kind == "update":
            duplicate |= {"was": link.was, "becomes": link.becomes, "is_newer": is_newer}
        duplicates.append(duplicate)
    return duplicates


# History: every value of a key, or a memory's predecessors and successors; newest first


def history_of_key(view: View, key: str, project: str | None) -> list[Memory]:
    """Return the values of a key, forgotten ones too; empty for an unknown key.

    With a project, its values, those of the projects that contain it and those of no project: a
    chain of each; without, those of every project.
    """
    memories = view.select(view.snapshots.rows.with_key(key), lambda memory: memory.key == key)
    return _newest_first(memory for memory in memories if holds_in(memory.project, project))


def history_of_memory(view: View, id_: str) -> list[Memory]:
    """Return a memory, its successors, and all that they replaced.

    Empty for an unknown id.
    """
    chain: dict[str, Memory] = {}
    newer = view.tail.find(id_)
    while newer is not None and newer.id not in chain:  # two may have replaced each other
        chain[newer.id] = newer
        newer = view.tail.find(newer.superseded_by) if newer.superseded_by else None
    replaced, waiting, visited = Superseded(view), [id_], {id_}
    while waiting:
        for older in replaced.directly(waiting.pop()):
            if older.id not in visited:
                visited.add(older.id)
                chain[older.id] = older
                waiting.append(older.id)
    return _newest_first(chain.values())


def _newest_first(memories: Iterable[Memory]) -> list[Memory]:
    return sorted(memories, key=lambda memory: (-memory.created_at, -memory.seq))


def history_fields(memory: Memory) -> dict[str, Any]:
    """Return a memory as history shows it: its value and the time it was valid.

    `until` is null for a current value, and no later than `from` for one that was never valid.
    """
    ends = [at for at in (memory.ended_at, memory.expires_at) if at is not None]
    is_hidden = memory.state == FORGOTTEN or is_withheld(memory)
    value = {} if is_hidden else {"key": memory.key, "value": memory.value}
    return (
        visible_json(memory)
        | {"state": memory.state}
        | {name: text for name, text in value.items() if text is not None}
        | {
            "from": isoformat(memory.created_at),
            "until": isoformat(min(ends)) if ends else None,
        }
    )
