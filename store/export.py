"""
Export: a tenant's memories as JSON Lines, in the order of the log, for `import jsonl` to take back.

Read from the log alone, so that it holds what was recorded a moment ago and no build is needed. A
forgotten memory's line says so and holds no text.
"""

from collections.abc import Iterator

import msgspec

from store.events import EPISODE, moment
from store.importers.jsonl import Exported
from store.log import EventLog
from store.projections.memories import (
    ACTIVE,
    AUTO,
    DEFAULT_SCORE,
    FORGOTTEN,
    Fold,
    Memory,
)


def export(
    log: EventLog, now: int, *, all_states: bool = False, project: str | None = None
) -> Iterator[bytes]:
    """Yield one line for each memory, without the line's end.

    Without `all_states` only those that are active at `now`; with `project` only its own, and not
    those that belong to no project.
    """
    fold = Fold()
    for event in log.standing(0, log.head(), cold=False):
        fold.apply(event)
    for memory in sorted(fold.rows.values(), key=lambda one: one.seq):
        if memory.kind == EPISODE or (project is not None and memory.project != project):
            continue
        if all_states or (memory.state == ACTIVE and not _is_expired(memory, now)):
            yield msgspec.json.encode(_forgotten(memory) or _line(memory, now))


def _is_expired(memory: Memory, now: int) -> bool:
    return memory.expires_at is not None and memory.expires_at <= now


def _forgotten(memory: Memory) -> Exported | None:
    if memory.state != FORGOTTEN:
        return None
    return msgspec.convert({"id": memory.id, "content": "", "state": FORGOTTEN}, Exported)


def _line(memory: Memory, now: int) -> Exported:
    same = {
        name: getattr(memory, name)
        for name in Exported.__struct_fields__
        if hasattr(memory, name) and getattr(memory, name) is not None
    }
    # what nobody said stays unsaid, so that a better default later serves these memories too
    if same["importance"] == memory.unsaid_importance:
        del same["importance"]
    if same["tier"] == memory.auto_tier:
        same["tier"] = AUTO
    if same["score"] == DEFAULT_SCORE:
        del same["score"]
    same |= {
        "created_at": moment(memory.created_at),
        "updated_at": moment(memory.updated_at),
        "metadata": msgspec.json.decode(memory.metadata),
    }
    if memory.expires_at is not None:  # what is left of it; the least where it has run out
        same["ttl_s"] = max(1, (memory.expires_at - now) // 1_000_000)
    return msgspec.convert(same, Exported)
