"""
Goals: the open goals, the next due first, and chains of milestones.
"""

from collections.abc import Collection, Iterable, Sequence
from datetime import date
from typing import Any

import msgspec
from msgspec.structs import replace

from serve.reader.filters import Filter
from serve.reader.memory_json import shown_text
from serve.reader.view import View, newest
from store.log.event_kinds import GoalStatus
from store.memories.memory import Memory
from store.text.text_features import MAY_RULE

OPEN_STATUSES: tuple[GoalStatus, ...] = ("open", "blocked")
MOST_GOALS = 200  # of the newest: a user with more open goals has none


class Chain(msgspec.Struct, frozen=True):
    """Milestones that follow one another, oldest first."""

    name: str
    milestones: tuple[Memory, ...]


def open_goals(view: View, conditions: Filter) -> list[Memory]:
    """Return the goals that are open or blocked: the next due first, then the last changed."""
    return goals_with_status(view, conditions, OPEN_STATUSES)


def set_goals(view: View, conditions: Filter) -> list[Memory]:
    """Return the open goals that a user or an agent set, not those of a page or a tool."""
    return [memory for memory in open_goals(view, conditions) if memory.trust in MAY_RULE]


def goals_with_status(
    view: View, conditions: Filter, wanted: Collection[GoalStatus]
) -> list[Memory]:
    """Return the goals with a wanted status: the next due first, then the last changed."""
    goals = newest(view, replace(conditions, kinds=("goal",)), MOST_GOALS)
    memories = (memory for memory in goals if memory.status in wanted)
    return sorted(
        memories, key=lambda memory: (due_date(memory) or "~", -memory.updated_at, -memory.seq)
    )


def milestone_chains(view: View, conditions: Filter) -> list[Chain]:
    """Return the chains of milestones, by name."""
    memories = newest(view, replace(conditions, kinds=("milestone",)), MOST_GOALS)
    names = sorted({memory.chain for memory in memories if memory.chain is not None})
    return [
        Chain(name, oldest_first(memory for memory in memories if memory.chain == name))
        for name in names
    ]


def due_date(memory: Memory) -> str | None:
    """Return the day a goal is due, in ISO 8601, from `due` in its metadata."""
    metadata: dict[str, Any] = msgspec.json.decode(memory.metadata)
    try:
        return date.fromisoformat(metadata["due"]).isoformat()
    except (KeyError, TypeError, ValueError):  # metadata is the caller's own: anything may be there
        return None


def goals_payload(goals: Sequence[Memory], today: date) -> list[dict[str, Any]]:
    """Return goals as JSON objects; missing fields are left out."""
    payloads = []
    for goal in goals:
        day = due_date(goal)
        fields = {
            "id": goal.id,
            "text": shown_text(goal),
            "trust": goal.trust,
            "status": goal.status,
            "progress": goal.progress,
            "due": day,
            "overdue": True if day is not None and day < today.isoformat() else None,
            "project": goal.project,
        }
        payloads.append({name: value for name, value in fields.items() if value is not None})
    return payloads


def oldest_first(memories: Iterable[Memory]) -> tuple[Memory, ...]:
    """Return memories oldest first; of one moment, in the order of recording."""
    return tuple(sorted(memories, key=lambda memory: (memory.created_at, memory.seq)))
