"""
Digests: what was asked, decided, done and learned, and what is open, of a session or of some days.

Read from the memories and from what agents' hooks told; nothing is summed up by a model.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, islice
from typing import Any, Literal

from serve.reader.filters import Filter
from serve.reader.memory_json import role
from serve.reader.view import View, newest
from serve.summaries.goals import open_goals
from serve.summaries.goals import shown as goals_shown
from serve.summaries.overview import along_time, item
from serve.summaries.work import Work, work
from store.home.instants import isoformat, moment
from store.log.event_log import EventLog
from store.log.events import Event
from store.memories.memory import Memory

TOLD = ("prompted", "action", "session")  # the kinds of event a digest reads
LOOKED_AT = 2_000  # memories of a digest: the newest
SHOWN = 10  # of a group of a day
LONGEST = 200  # characters of a prompt

Group = Literal["decided", "learned", "done"]
_GROUPS: tuple[Group, ...] = ("decided", "learned", "done")
_LEARNED = frozenset({"bugfix", "pattern", "insight"})  # and rules
_DONE = frozenset({"milestone", "activity", "summary"})


@dataclass(frozen=True, slots=True)
class Day:
    """What happened on one day, UTC: memories by when they happened, oldest first, and the work."""

    day: str
    decided: tuple[Memory, ...]
    learned: tuple[Memory, ...]
    done: tuple[Memory, ...]
    others: int  # memories of other kinds
    work: Work


@dataclass(frozen=True, slots=True)
class Digest:
    """Days with something in them, oldest first, and what is open now."""

    since: int  # microseconds UTC
    until: int
    days: tuple[Day, ...]
    open: tuple[Memory, ...]


def digest(view: View, log: EventLog, asked: Filter) -> Digest:
    """Return what happened from `asked.since` to `asked.until`, in its project or in all."""
    since, until = asked.since or 0, asked.until or asked.now
    timeless = replace(asked, since=None, until=None)
    memories = newest(view, replace(asked, since=since, until=until), LOOKED_AT)
    goals = newest(view, replace(timeless, kinds=("goal",)), LOOKED_AT)
    # a goal is reached when it last changed, not when it was set
    reached = [one for one in goals if one.status == "done" and since <= one.updated_at < until]
    events = [one for one in log.events_between(TOLD, since, until) if _is_of(one, asked)]
    found: tuple[tuple[str, Any], ...] = (
        *((_day(one.created_at), one) for one in along_time(memories) if one.kind != "goal"),
        *((_day(one.updated_at), _Reached(one)) for one in reached),
        *((_day(one.at), one) for one in events),
    )
    by_day = groupby(sorted(found, key=lambda pair: pair[0]), key=lambda pair: pair[0])
    days = tuple(_of_day(day, [one for _, one in those]) for day, those in by_day)
    return Digest(since, until, days, tuple(open_goals(view, timeless)))


@dataclass(frozen=True, slots=True)
class _Reached:
    goal: Memory


def _of_day(day: str, found: Sequence[Any]) -> Day:
    memories = [one for one in found if isinstance(one, Memory)]
    groups = {name: tuple(one for one in memories if _group(one) == name) for name in _GROUPS}
    reached = tuple(one.goal for one in found if isinstance(one, _Reached))
    return Day(
        day=day,
        decided=groups["decided"],
        learned=groups["learned"],
        done=(*groups["done"], *reached),
        others=len(memories) - sum(map(len, groups.values())),
        work=work([one for one in found if isinstance(one, Event)]),
    )


def _group(memory: Memory) -> Group | None:
    if memory.kind == "decision":
        return "decided"
    if role(memory) == "rule" or memory.kind in _LEARNED:
        return "learned"
    return "done" if memory.kind in _DONE else None


def _is_of(event: Event, asked: Filter) -> bool:
    return asked.project is None or (event.project or "") == asked.project


def _day(at: int) -> str:
    return isoformat(at)[:10]


def shown(found: Digest, now: int) -> dict[str, Any]:
    """Return a digest as it is sent; of a group of a day, the first ones and how many more."""
    return {
        "since": isoformat(found.since),
        "until": isoformat(found.until),
        "days": [_shown(one) for one in found.days],
        "open": goals_shown(found.open, moment(now).date()),
    }


def _shown(day: Day) -> dict[str, Any]:
    groups = {name: _first(getattr(day, name)) for name in _GROUPS}
    counts = {
        "others": day.others,
        "more": sum(max(0, len(getattr(day, name)) - SHOWN) for name in _GROUPS),
        "sessions": day.work.sessions,
    }
    did = {
        "asked": [" ".join(one.split())[:LONGEST] for one in day.work.asked[:SHOWN]],
        "edited": [{"file": file, "times": times} for file, times in day.work.edited[:SHOWN]],
        "ran": [
            {"for": effort, "passed": one.passed, "failed": one.failed}
            for effort, one in day.work.runs.items()
        ],
        "failing": [{"for": effort, "command": act.command} for effort, act in day.work.failing],
    }
    said = groups | counts | did
    return {"day": day.day} | {name: value for name, value in said.items() if value}


def _first(memories: Iterable[Memory]) -> list[dict[str, Any]]:
    return [item(one) for one in islice(memories, SHOWN)]
