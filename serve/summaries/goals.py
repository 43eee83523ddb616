"""
What is wanted and not yet reached: open goals, the next due first, and chains of milestones.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

import msgspec

from serve.reader.filters import Filter
from serve.reader.view import View, newest
from serve.summaries.overview import along_time
from store.log.event_kinds import GoalStatus
from store.memories.memory import Memory
from store.text.text_features import MAY_RULE

OPEN: tuple[GoalStatus, ...] = ("open", "blocked")
LOOKED_AT = 200  # of the newest: who has more open goals has none


@dataclass(frozen=True, slots=True)
class Chain:
    """Milestones that follow one another, oldest first."""

    name: str
    milestones: tuple[Memory, ...]


def open_goals(view: View, asked: Filter) -> list[Memory]:
    """Return the goals that are open or blocked: the next due first, then the last changed."""
    return with_status(view, asked, OPEN)


def set_goals(view: View, asked: Filter) -> list[Memory]:
    """Return the open goals that a user or an agent set: what a page or a tool wants is none."""
    return [one for one in open_goals(view, asked) if one.trust in MAY_RULE]


def with_status(view: View, asked: Filter, wanted: Collection[GoalStatus]) -> list[Memory]:
    """Return the goals of some states: the next due first, then the last changed."""
    goals = newest(view, replace(asked, kinds=("goal",)), LOOKED_AT)
    found = (one for one in goals if one.status in wanted)
    return sorted(found, key=lambda one: (due(one) or "~", -one.updated_at, -one.seq))


def chains(view: View, asked: Filter) -> list[Chain]:
    """Return the chains of milestones, by name."""
    found = newest(view, replace(asked, kinds=("milestone",)), LOOKED_AT)
    names = sorted({one.chain for one in found if one.chain is not None})
    return [Chain(name, along_time(one for one in found if one.chain == name)) for name in names]


def due(memory: Memory) -> str | None:
    """Return the day a goal is due, as ISO 8601 writes it; `due` of its metadata."""
    metadata: dict[str, Any] = msgspec.json.decode(memory.metadata)
    try:
        return date.fromisoformat(metadata["due"]).isoformat()
    except (KeyError, TypeError, ValueError):  # metadata is the caller's own: anything may be there
        return None


def shown(goals: Sequence[Memory], today: date) -> list[dict[str, Any]]:
    """Return goals as they are sent; what one does not have is left out."""
    return [_shown(one, today) for one in goals]


def _shown(goal: Memory, today: date) -> dict[str, Any]:
    day = due(goal)
    said = {
        "id": goal.id,
        "text": goal.content,
        "trust": goal.trust,
        "status": goal.status,
        "progress": goal.progress,
        "due": day,
        "overdue": True if day is not None and day < today.isoformat() else None,
        "project": goal.project,
    }
    return {name: value for name, value in said.items() if value is not None}
