"""
History: every value of a key, or what a memory replaced and what replaced it; newest first.
"""

from collections.abc import Iterable
from typing import Any

from serve.reader.memory_json import visible_json
from serve.reader.view import Superseded, View
from store.home.instants import isoformat
from store.memories.memory import Memory


def of_key(view: View, key: str, project: str | None) -> list[Memory]:
    """Return the values of a key, forgotten ones too; empty for a key nobody recorded.

    With a project, its values and those that belong to no project: two chains, as each has its
    own; without, those of every project.
    """
    found = view.select(view.snapshots.rows.keyed(key), lambda memory: memory.key == key)
    return _newest_first(one for one in found if project is None or one.project in (None, project))


def of_memory(view: View, id_: str) -> list[Memory]:
    """Return a memory, what took its place and what that of each, and whose place they took.

    Empty for an unknown id.
    """
    chain: dict[str, Memory] = {}
    newer = view.tail.find(id_)
    while newer is not None and newer.id not in chain:  # two may have replaced each other
        chain[newer.id] = newer
        newer = view.tail.find(newer.superseded_by) if newer.superseded_by else None
    replaced, waiting, seen_ids = Superseded(view), [id_], {id_}
    while waiting:
        for older in replaced.directly(waiting.pop()):
            if older.id not in seen_ids:
                seen_ids.add(older.id)
                chain[older.id] = older
                waiting.append(older.id)
    return _newest_first(chain.values())


def _newest_first(found: Iterable[Memory]) -> list[Memory]:
    return sorted(found, key=lambda one: (-one.created_at, -one.seq))


def shown(memory: Memory) -> dict[str, Any]:
    """Return a memory as history shows it: its value, and from when until when it held.

    `until` is null for what still holds, and no later than `from` for what never did.
    """
    ends = [one for one in (memory.ended_at, memory.expires_at) if one is not None]
    value = {} if memory.state == "forgotten" else {"key": memory.key, "value": memory.value}
    return (
        visible_json(memory)
        | {"state": memory.state}
        | {name: said for name, said in value.items() if said is not None}
        | {
            "from": isoformat(memory.created_at),
            "until": isoformat(min(ends)) if ends else None,
        }
    )
