"""
History: what a memory replaced, and what that one had replaced, newest first.

A superseded memory is no candidate, so it never takes a living one's place; whoever gets the one
that took its place can see what held before.
"""

from collections import deque

from serve.filters import Filter
from serve.reader import View
from store.projections.memories import SUPERSEDED, Memory

LONGEST = 5  # memories


class Replaced:
    """Who was replaced by whom, in one view; costs a pass over the tail to make."""

    def __init__(self, view: View, asked: Filter) -> None:
        self._view, self._asked = view, asked
        self._fresh: dict[str, list[Memory]] = {}
        for slot, memory in enumerate(view.tail.memories):
            if memory.superseded_by is not None and view.tail.live(slot):
                self._fresh.setdefault(memory.superseded_by, []).append(memory)

    def by(self, id_: str) -> tuple[Memory, ...]:
        """Return the nearest few that a memory stands for; forgotten and archived ones are none."""
        found: dict[str, Memory] = {}
        waiting = deque([id_])
        while waiting and len(found) < LONGEST:
            for memory in self._directly(waiting.popleft()):
                if memory.id not in found and memory.id != id_:
                    found[memory.id] = memory
                    waiting.append(memory.id)
        return tuple(list(found.values())[:LONGEST])

    def _directly(self, id_: str) -> list[Memory]:
        snapshot = self._view.snapshots.rows
        rows = [row for row in snapshot.replaced.get(id_, ()) if row not in self._view.tail.hidden]
        found = [*self._fresh.get(id_, ()), *(snapshot.take(rows) if rows else ())]
        shown = filter(self._may_show, found)
        return sorted(shown, key=lambda memory: (memory.created_at, memory.seq), reverse=True)

    def _may_show(self, memory: Memory) -> bool:
        asked = self._asked
        return (
            memory.state == SUPERSEDED
            and (asked.project is None or memory.project in (None, asked.project))
            and (memory.expires_at is None or memory.expires_at > asked.now)
        )
