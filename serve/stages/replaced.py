"""
Replaced: what a memory took the place of, and what that one had, newest first.

A superseded memory is no candidate, so it never takes a living one's place; whoever gets the one
that took its place can see what held before.
"""

from collections import deque
from dataclasses import dataclass

from serve.reader.filters import Filter
from serve.reader.reader import View
from store.memories.memory import SUPERSEDED, Memory

LONGEST = 5  # memories


@dataclass(frozen=True, slots=True)
class Replaced:
    """Who was replaced by whom, in one view."""

    view: View

    def by(self, id_: str, asked: Filter) -> tuple[Memory, ...]:
        """Return the nearest few that a memory stands for; forgotten and archived ones are none."""
        found: dict[str, Memory] = {}
        waiting = deque([id_])
        while waiting and len(found) < LONGEST:
            for memory in self.directly(waiting.popleft()):
                if memory.id not in found and memory.id != id_ and _may_show(memory, asked):
                    found[memory.id] = memory
                    waiting.append(memory.id)
        return tuple(list(found.values())[:LONGEST])

    def directly(self, id_: str) -> list[Memory]:
        """Return what a memory itself took the place of, in whatever state, newest first."""
        tail, built = self.view.tail, self.view.snapshots.rows
        rows = [row for row in built.replaced(id_) if not tail.is_hidden(row)]
        found = [*tail.replaced_by(id_), *(built.take(rows) if rows else ())]
        return sorted(found, key=lambda memory: (memory.created_at, memory.seq), reverse=True)


def _may_show(memory: Memory, asked: Filter) -> bool:
    return (
        memory.state == SUPERSEDED
        and (asked.project is None or memory.project in (None, asked.project))
        and (memory.expires_at is None or memory.expires_at > asked.now)
    )
