"""
Statistics of every lesson: shown, followed, its impact; and the drafts that wait for a person.

It counts the tables of the last build and the events since: nothing waits for a build.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from serve.lessons.impact import impact, is_at_rest
from serve.lessons.rule_index import rules
from serve.reader.filters import Filter
from serve.reader.held import hazard_of, is_held
from serve.reader.memory_json import role, shown_text
from serve.reader.view import View, newest
from store.derived.feedback import Counts, Tally
from store.home.instants import isoformat
from store.home.projects import holds_in
from store.log.event_kinds import STATEMENT
from store.log.event_log import EventLog
from store.memories.memory import Memory
from store.plans.lesson_proposals import rule_kind

if TYPE_CHECKING:
    from mnemolog.wire import Impact

_MOST_STATED = 200
_HELD_KINDS = ("lesson", "preference", "antipattern", "decision", "fact", "goal")
SHOWN = ("surfaced", "followed", "ignored", "not_applicable")
_TURNS = ("good_followed", "bad_followed", "good_ignored", "bad_ignored")


class LessonStats(msgspec.Struct, frozen=True):
    """A lesson that was shown; `efforts` are its turns by effort (test, lint, ...)."""

    memory: Memory
    counts: Counts
    efforts: Mapping[str, Counts]

    @property
    def impact(self) -> "Impact | None":
        return impact(self.counts)

    @property
    def is_at_rest(self) -> bool:
        return is_at_rest(self.counts, pinned=self.memory.pinned)


class Statistics(msgspec.Struct, frozen=True):
    """The lessons that were shown, the most shown first; the number of rules never shown; and the
    items awaiting approval, the newest first: statements, and drafts as in the projection.
    """

    lessons: tuple[LessonStats, ...]
    never: int
    drafts: tuple[dict[str, Any], ...]


def statistics(view: View, log: EventLog, conditions: Filter) -> Statistics:
    """Return the statistics of the lessons that pass a filter."""
    tally = _tally(view, log)
    may_come = {memory.id: memory for memory in rules(view, conditions)}
    lessons = [
        LessonStats(
            may_come[id_],
            counts,
            {effort: of for (of_id, effort), of in tally.efforts.items() if of_id == id_},
        )
        for id_, counts in tally.lessons.items()
        if id_ in may_come
    ]
    lessons.sort(key=lambda stats: (-stats.counts["surfaced"], -stats.counts["last_surfaced_at"]))
    drafts = _waiting_rows(view, tally, conditions, may_come.values())
    return Statistics(tuple(lessons), len(may_come) - len(lessons), drafts)


def waiting_lessons(view: View, log: EventLog, conditions: Filter) -> tuple[dict[str, Any], ...]:
    """Return the `drafts` of `statistics`."""
    return _waiting_rows(view, _tally(view, log), conditions, rules(view, conditions))


def _tally(view: View, log: EventLog) -> Tally:
    built = view.snapshots.lessons
    tally = Tally() if built is None else Tally.of(built.tables)
    for event in log.read(0 if built is None else view.snapshots.watermark):
        tally.add(event)
    return tally


def _waiting_rows(
    view: View, tally: Tally, conditions: Filter, may_come: Iterable[Memory]
) -> tuple[dict[str, Any], ...]:
    drafts = [
        {**row, "draft": msgspec.json.decode(row["draft"]), "is_memory": False, "sort": "draft"}
        for row in tally.drafts.values()
        if holds_in(row["project"], conditions.project)
    ]
    stated = newest(view, replace(conditions, kinds=(STATEMENT,)), _MOST_STATED)
    drafts += map(_waiting_memory, stated)
    waiting = {memory.id: memory for memory in may_come if role(memory) != "rule"}
    others = newest(view, replace(conditions, kinds=_HELD_KINDS), _MOST_STATED)
    waiting |= {memory.id: memory for memory in others if is_held(memory)}
    drafts += map(_waiting_memory, waiting.values())
    return tuple(sorted(drafts, key=lambda row: -row["at"]))


def stats_json(found: Statistics) -> dict[str, Any]:
    """Return statistics as JSON; an impact of too few turns is null."""
    return {
        "lessons": [_lesson_json(stats) for stats in found.lessons],
        "never_shown": found.never,
        "drafts": [
            {
                "id": row["id"],
                "at": isoformat(row["at"]),
                "project": row["project"],
                "session": row["session"],
                "because": row["because"],
                "kind": row["draft"].get("kind"),
                "text": row["draft"].get("content"),
            }
            for row in found.drafts
        ],
    }


def _lesson_json(stats: LessonStats) -> dict[str, Any]:
    worth, last = stats.impact, stats.counts["last_surfaced_at"]
    return {
        "id": stats.memory.id,
        "text": stats.memory.content,
        "kind": stats.memory.kind,
        "project": stats.memory.project,
        **{name: stats.counts[name] for name in SHOWN},
        "last_surfaced_at": isoformat(last) if last else None,
        "turns": {name: stats.counts[name] for name in _TURNS},
        "efforts": {
            effort: {name: counts[name] for name in _TURNS}
            for effort, counts in sorted(stats.efforts.items())
        },
        "impact": msgspec.to_builtins(worth) if worth is not None else None,
        "at_rest": stats.is_at_rest,
    }


def _waiting_memory(memory: Memory) -> dict[str, Any]:
    """Return a statement, an agent's lesson or held advice as a row awaiting approval."""
    hazard = hazard_of(memory)
    sort = "statement" if memory.kind == STATEMENT else "lesson of an agent"
    kind: str | None = memory.kind  # of the rule that it becomes on approval
    if memory.kind == STATEMENT:
        kind = rule_kind(memory.insight_type)
    elif memory.kind == "insight":
        kind = memory.insight_type
    return {
        "id": memory.id,
        "at": memory.created_at,
        "project": memory.project,
        "session": memory.session,
        "because": f"held back from agents: {hazard}" if hazard else None,
        "is_memory": True,
        "sort": "note held back from agents" if hazard else sort,
        "draft": {"kind": kind, "content": shown_text(memory)},
    }
