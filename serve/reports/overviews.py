"""
Overviews: what is known of a topic, and digests of what happened in some days; without a model.

An overview groups the memories that recall finds: rules, goals, what holds now, the background;
then the same along time, the names in them, and what was replaced. A digest lists by day what was
asked, decided, done and learned, and what is open. Groups are bounded and texts cut.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby, islice
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from serve.reader.filters import Filter
from serve.reader.goals import goals_payload as goals_shown
from serve.reader.goals import oldest_first, open_goals
from serve.reader.memory_json import role, shown_text
from serve.reader.view import View, newest
from serve.recall.analysis import Question
from serve.recall.recall import recall
from store.agents.work import Work, work
from store.home.config import Choices
from store.home.errors import InvalidInput
from store.home.instants import isoformat, moment
from store.home.projects import scope_chain
from store.log.event_log import EventLog
from store.log.events import Event
from store.memories.memory import SUPERSEDED, Memory
from store.text.mentions import EntityKind, mentions

FOUND = 50  # memories an overview is made of
SHOWN = 10  # of a group
DAYS = 20  # lines of the timeline
LONGEST_TEXT = 300  # characters of a text

OverviewGroup = Literal["now", "rules", "goals", "background"]

# a topic of one common word answers no question for sure, and yet is what a memory is about
LEAST_SURE = 0.03


class Name(msgspec.Struct, frozen=True):
    """Someone or something that the memories name, and in how many of them."""

    kind: EntityKind
    name: str
    memories: int


class Overview(msgspec.Struct, frozen=True):
    """What is known of a topic. Groups are in the order of recall, the best first."""

    topic: str
    found: int
    now: tuple[Memory, ...]
    rules: tuple[Memory, ...]
    goals: tuple[Memory, ...]
    background: tuple[Memory, ...]
    timeline: tuple[Memory, ...]  # oldest first
    names: tuple[Name, ...]
    replaced: tuple[Memory, ...]
    notices: tuple[str, ...]


def overview_question(
    topic: str, conditions: Filter, choices: Choices, found: int = FOUND
) -> Question:
    """Return the question for what is known of a topic; raise InvalidInput for an empty one."""
    if not topic.strip():
        raise InvalidInput("give a topic: words that memories about it would contain")
    bar = choices.min_confidence or LEAST_SURE
    return Question(topic, conditions, found, fusion=choices.fusion, min_confidence=bar)


def overview(view: View, question: Question) -> Overview:
    """Return what is known of the topic a question names; all groups may be empty."""
    answer = recall(view, question)
    living = [hit.memory for hit in answer.hits]
    whole = replace(question.filter, active_only=False)
    every = replace(question, top_k=2 * question.top_k, filter=whole)
    ended = [hit.memory for hit in recall(view, every).hits]
    return Overview(
        topic=question.text,
        found=len(living),
        now=_of(living, "now"),
        rules=_of(living, "rules"),
        goals=_of(living, "goals"),
        background=_of(living, "background"),
        timeline=oldest_first(living[:DAYS]),
        names=_names(living),
        replaced=tuple(memory for memory in ended if memory.state == SUPERSEDED)[:SHOWN],
        notices=answer.notices,
    )


def timeline(
    view: View, topic: str, conditions: Filter, choices: Choices, limit: int
) -> tuple[Memory, ...]:
    """Return the memories about a topic, without one the newest: at most `limit`, oldest first."""
    if not topic:
        return oldest_first(newest(view, conditions, limit))
    question = overview_question(topic, conditions, choices, limit)
    return oldest_first(hit.memory for hit in recall(view, question).hits)


def _of(memories: Sequence[Memory], group: OverviewGroup) -> tuple[Memory, ...]:
    return tuple(memory for memory in memories if _overview_group(memory) == group)[:SHOWN]


def _overview_group(memory: Memory) -> OverviewGroup:
    """Return where a memory belongs; a rule is one first, whatever else it is."""
    if role(memory) == "rule":
        return "rules"
    if memory.kind == "goal" and memory.status in ("open", "blocked"):
        return "goals"
    return "now" if memory.key is not None or memory.kind == "decision" else "background"


def _names(memories: Sequence[Memory]) -> tuple[Name, ...]:
    """Return who and what is named in most of the memories; then by kind and name."""
    counts = Counter(
        (mention.kind, mention.name)
        for memory in memories
        for mention in mentions(memory.text, speaker=memory.created_by)
    )
    most = sorted(counts.items(), key=lambda found: (-found[1], found[0]))[:SHOWN]
    return tuple(Name(kind, name, count) for (kind, name), count in most)


def overview_payload(found: Overview) -> dict[str, Any]:
    """Return an overview as it is sent."""
    groups = ("now", "rules", "goals", "background", "timeline", "replaced")
    return {
        "topic": found.topic,
        "found": found.found,
        **{name: [memory_item(one) for one in getattr(found, name)] for name in groups},
        "names": [msgspec.to_builtins(name) for name in found.names],
        "degraded": bool(found.notices),
        **({"notices": list(found.notices)} if found.notices else {}),
    }


def memory_item(memory: Memory) -> dict[str, Any]:
    """Return a memory as a line of an overview: its text cut, what it does not have left out."""
    told = {
        "id": memory.id,
        "at": isoformat(memory.created_at),
        "kind": memory.kind,
        "role": role(memory),
        "trust": memory.trust,
        "project": memory.project,
        "text": _cut(shown_text(memory)),
        "key": memory.key,
        "value": shown_text(memory) and memory.value,
        "status": memory.status,
        "progress": memory.progress,
        "ended_at": isoformat(memory.ended_at) if memory.ended_at is not None else None,
        "superseded_by": memory.superseded_by,
    }
    return {name: value for name, value in told.items() if value is not None}


def _cut(text: str) -> str:
    """Return the beginning of a text on one line."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_TEXT else line[: LONGEST_TEXT - 1] + "…"


# Digests

DIGEST_KINDS = ("prompted", "action", "session")  # the kinds of event a digest reads
LOOKED_AT = 2_000  # memories of a digest: the newest
SHOWN_OF_DAY = 10  # of a group of a day
LONGEST_PROMPT = 200  # characters of a prompt

DigestGroup = Literal["decided", "learned", "done"]
_GROUPS: tuple[DigestGroup, ...] = ("decided", "learned", "done")
_LEARNED = frozenset({"bugfix", "pattern", "insight"})  # and rules
_DONE = frozenset({"milestone", "activity", "summary"})


class Day(msgspec.Struct, frozen=True):
    """What happened on one day, UTC: memories by when they happened, oldest first, and the work."""

    day: str
    decided: tuple[Memory, ...]
    learned: tuple[Memory, ...]
    done: tuple[Memory, ...]
    others: int  # memories of other kinds
    work: Work


class Digest(msgspec.Struct, frozen=True):
    """Days with something in them, oldest first, and what is open now."""

    since: int  # microseconds UTC
    until: int
    days: tuple[Day, ...]
    open: tuple[Memory, ...]


def digest(view: View, log: EventLog, conditions: Filter) -> Digest:
    """Return what happened from `asked.since` to `asked.until`, in its project or in all."""
    since, until = conditions.since or 0, conditions.until or conditions.now
    timeless = replace(conditions, since=None, until=None)
    memories = newest(view, replace(conditions, since=since, until=until), LOOKED_AT)
    goals = newest(view, replace(timeless, kinds=("goal",)), LOOKED_AT)
    # a goal is reached when it last changed, not when it was set
    reached = [
        memory for memory in goals if memory.status == "done" and since <= memory.updated_at < until
    ]
    events = [
        event
        for event in log.events_between(DIGEST_KINDS, since, until)
        if _is_of(event, conditions)
    ]
    found: tuple[tuple[str, Any], ...] = (
        *(
            (_day(memory.created_at), memory)
            for memory in oldest_first(memories)
            if memory.kind != "goal"
        ),
        *((_day(memory.updated_at), _Reached(memory)) for memory in reached),
        *((_day(event.at), event) for event in events),
    )
    by_day = groupby(sorted(found, key=lambda pair: pair[0]), key=lambda pair: pair[0])
    days = tuple(_of_day(day, [one for _, one in those]) for day, those in by_day)
    return Digest(since, until, days, tuple(open_goals(view, timeless)))


class _Reached(msgspec.Struct, frozen=True):
    goal: Memory


def _of_day(day: str, found: Sequence[Any]) -> Day:
    memories = [memory for memory in found if isinstance(memory, Memory)]
    groups = {
        name: tuple(memory for memory in memories if _digest_group(memory) == name)
        for name in _GROUPS
    }
    reached = tuple(one.goal for one in found if isinstance(one, _Reached))
    return Day(
        day=day,
        decided=groups["decided"],
        learned=groups["learned"],
        done=(*groups["done"], *reached),
        others=len(memories) - sum(map(len, groups.values())),
        work=work([event for event in found if isinstance(event, Event)]),
    )


def _digest_group(memory: Memory) -> DigestGroup | None:
    if memory.kind == "decision":
        return "decided"
    if role(memory) == "rule" or memory.kind in _LEARNED:
        return "learned"
    return "done" if memory.kind in _DONE else None


def _is_of(event: Event, conditions: Filter) -> bool:
    return conditions.project is None or (event.project or "") in scope_chain(conditions.project)


def _day(at: int) -> str:
    return isoformat(at)[:10]


def digest_payload(found: Digest, now: int) -> dict[str, Any]:
    """Return a digest as it is sent; of a group of a day, the first ones and how many more."""
    return {
        "since": isoformat(found.since),
        "until": isoformat(found.until),
        "days": [_day_payload(day) for day in found.days],
        "open": goals_shown(found.open, moment(now).date()),
    }


def _day_payload(day: Day) -> dict[str, Any]:
    groups = {name: _first(getattr(day, name)) for name in _GROUPS}
    counts = {
        "others": day.others,
        "more": sum(max(0, len(getattr(day, name)) - SHOWN_OF_DAY) for name in _GROUPS),
        "sessions": day.work.sessions,
    }
    did = {
        "asked": [" ".join(one.split())[:LONGEST_PROMPT] for one in day.work.asked[:SHOWN_OF_DAY]],
        "edited": [
            {"file": file, "times": times} for file, times in day.work.edited[:SHOWN_OF_DAY]
        ],
        "ran": [
            {"for": effort, "passed": runs.passed, "failed": runs.failed}
            for effort, runs in day.work.runs.items()
        ],
        "failing": [{"for": effort, "command": act.command} for effort, act in day.work.failures],
    }
    said = groups | counts | did
    return {"day": day.day} | {name: value for name, value in said.items() if value}


def _first(memories: Iterable[Memory]) -> list[dict[str, Any]]:
    return [memory_item(memory) for memory in islice(memories, SHOWN_OF_DAY)]
