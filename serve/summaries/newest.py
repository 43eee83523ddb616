"""
The newest memories that pass a filter, without a question: what `list` and a timeline show.
"""

import numpy as np
from msgspec.structs import replace

from serve.reader.filters import Filter
from serve.reader.reader import View
from store.log.event_kinds import EPISODE
from store.memories.memory import ACTIVE, Memory


def newest(view: View, asked: Filter, limit: int, state: str = ACTIVE) -> list[Memory]:
    """Return the newest memories in a state that pass, snapshot's and tail's together.

    Newest first by `created_at`, then by the order of recording. Episodes only where their kind is
    asked for.
    """
    rows = view.snapshots.rows
    mask = asked.mask(rows) if state == ACTIVE else rows.equal("state", (state,))
    if not asked.kinds:
        mask &= ~rows.equal("kind", (EPISODE,))
    mask[view.tail.hidden] = False
    documents = np.flatnonzero(mask)
    if state == ACTIVE and 0 < limit < len(documents):  # sort no more than may come back
        made = rows.created_at[documents]
        documents = documents[made >= np.partition(made, -limit)[-limit]]
    order = np.lexsort((-documents, -rows.created_at[documents]))
    first = documents[order[: limit if state == ACTIVE else None]]
    found = rows.take([int(document) for document in first])
    found += view.tail.current()
    passed = [one for one in found if _is_wanted(one, asked, state)]
    return sorted(passed, key=lambda one: (-one.created_at, -one.seq))[:limit]


def _is_wanted(memory: Memory, asked: Filter, state: str) -> bool:
    if memory.kind == EPISODE and not asked.kinds:
        return False
    if state == ACTIVE:
        return asked.accepts(memory)
    # `Filter` never lets a forgotten memory pass; here its other conditions are asked of any state
    active = replace(memory, state=ACTIVE, ended_at=None, expires_at=None)
    return memory.state == state and asked.accepts(active)
