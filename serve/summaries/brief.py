"""
The brief of a project: what a session should know before its first prompt, or nothing.

Only what the project's own memories say, and the rules a person pinned for all projects: rules,
open goals, the newest decisions. A project nobody told us anything about has no brief.
"""

from dataclasses import replace

from serve.filters import Filter
from serve.hooks.block import Note, Part, note
from serve.lessons.index import rests, rules
from serve.reader import View
from serve.rules import may_come_unasked
from serve.summaries.goals import due, open_goals
from serve.summaries.newest import newest
from store.projections.memories import Memory

BYTES = 2_000  # of the whole brief
LONGEST = 240  # characters of a text
_GOALS, _RULES, _DECISIONS = 5, 5, 3
_LOOKED_AT = 50  # decisions, the newest


def brief(view: View, asked: Filter) -> list[Part]:
    """Return the parts of a project's brief, those with something in them; `asked` names it."""
    goals = [one for one in open_goals(view, asked) if _is_told(one, asked)]
    decisions = newest(view, replace(asked, kinds=("decision",)), _LOOKED_AT)
    parts = (
        Part("Rules on record here:", _notes(_rules(view, asked)[:_RULES], asked)),
        Part("Open goals:", tuple(goal_note(one, asked) for one in goals[:_GOALS])),
        Part(
            "Newest decisions:",
            _notes([one for one in decisions if _is_told(one, asked)][:_DECISIONS], asked),
        ),
    )
    return [part for part in parts if part.notes]


def goal_note(goal: Memory, asked: Filter) -> Note:
    """Return a goal as a line of a block, with the day it is due."""
    day = due(goal)
    return note(goal, asked.project, longest=LONGEST) | ({"due": day} if day else {})


def _rules(view: View, asked: Filter) -> list[Memory]:
    """Return the project's rules and those pinned for all: these first, then the most followed.

    Those at rest are left out.
    """
    counted = view.snapshots.lessons
    own = [one for one in rules(view, asked) if one.pinned or _is_own(one, asked)]
    here = [one for one in own if not rests(view, one)]

    def rank(rule: Memory) -> tuple[bool, int, int, int]:
        followed = counted.of(rule.id)["followed"] if counted is not None else 0
        return not rule.pinned, -followed, -rule.created_at, -rule.seq

    return sorted(here, key=rank)


def _notes(memories: list[Memory], asked: Filter) -> tuple[Note, ...]:
    return tuple(note(one, asked.project, longest=LONGEST) for one in memories)


def _is_told(memory: Memory, asked: Filter) -> bool:
    return _is_own(memory, asked) and may_come_unasked(memory)


def _is_own(memory: Memory, asked: Filter) -> bool:
    return (memory.project or "") == (asked.project or "")
