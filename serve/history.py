"""
History: every value of a key, or what a memory replaced and what replaced it; newest first.
"""

from collections.abc import Iterable
from typing import Any

from serve.answers import seen
from serve.reader import View
from store.events import isoformat
from store.projections.memories import Memory


def of_key(view: View, key: str, project: str | None) -> list[Memory]:
    """Return the values of a key, forgotten ones too; empty for a key nobody recorded.

    With a project, its values and those that belong to no project: two chains, as each has its
    own; without, those of every project.
    """
    found = view.those(view.snapshots.rows.keyed(key), lambda memory: memory.key == key)
    return _newest_first(one for one in found if project is None or one.project in (None, project))


def of_memory(view: View, id_: str) -> list[Memory]:
    """Return a memory, what took its place and what that of each, and whose place they took.

    Empty for an unknown id.
    """
    replaced = dict(view.snapshots.rows.superseded())
    for memory in view.tail.current():
        replaced.pop(memory.id, None)
        if memory.superseded_by is not None:
            replaced[memory.id] = memory.superseded_by
    older: dict[str, list[str]] = {}
    for one, by in replaced.items():
        older.setdefault(by, []).append(one)
    newer = {one: [by] for one, by in replaced.items()}
    chain = _reached(id_, newer) | _reached(id_, older)
    return _newest_first(found for one in chain if (found := view.tail.find(one)) is not None)


def _reached(start: str, steps: dict[str, list[str]]) -> dict[str, None]:
    """Return all that is reached from a start, itself too; two may have replaced each other."""
    reached: dict[str, None] = {}
    waiting = [start]
    while waiting:
        one = waiting.pop()
        if one not in reached:
            reached[one] = None
            waiting += steps.get(one, ())
    return reached


def _newest_first(found: Iterable[Memory]) -> list[Memory]:
    return sorted(found, key=lambda one: (-one.created_at, -one.seq))


def shown(memory: Memory) -> dict[str, Any]:
    """Return a memory as history shows it: its value, and from when until when it held.

    `until` is null for what still holds, and no later than `from` for what never did.
    """
    ends = [one for one in (memory.ended_at, memory.expires_at) if one is not None]
    value = {} if memory.state == "forgotten" else {"key": memory.key, "value": memory.value}
    return (
        seen(memory)
        | {"state": memory.state}
        | {name: said for name, said in value.items() if said is not None}
        | {
            "from": isoformat(memory.created_at),
            "until": isoformat(min(ends)) if ends else None,
        }
    )
