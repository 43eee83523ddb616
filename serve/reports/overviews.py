"""
Overviews of a topic, and digests of some days; without a model.

An overview groups the memories that recall finds: rules, goals, current values, the background;
then the same along time, the names in them, and the replaced ones. A digest lists by day the
prompts, decisions, work and lessons, and the open goals. Groups are bounded and texts cut.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
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

# a topic of one common word gives no sure answer, and yet a memory may be about it
LEAST_SURE = 0.03


class Name(msgspec.Struct, frozen=True):
    """A name in the memories, and the number of memories with it."""

    kind: EntityKind
    name: str
    memories: int


class Overview(msgspec.Struct, frozen=True):
    """The memories of a topic. Groups are in the order of recall, the best first."""

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
    topic: str, conditions: Filter, choices: Choices, limit: int = FOUND
) -> Question:
    """Return the question of an overview; raise InvalidInput for an empty topic."""
    if not topic.strip():
        raise InvalidInput("give a topic: words that memories about it would contain")
    bar = choices.min_confidence or LEAST_SURE
    return Question(topic, conditions, limit, fusion=choices.fusion, min_confidence=bar)


def overview(view: View, question: Question) -> Overview:
    """Return the overview of a question's topic; all groups may be empty."""
    answer = recall(view, question)
    living = [hit.memory for hit in answer.hits]
    groups: dict[OverviewGroup, list[Memory]] = defaultdict(list)
    for memory in living:
        groups[_overview_group(memory)].append(memory)
    whole = replace(question.filter, active_only=False)
    every = replace(question, top_k=2 * question.top_k, filter=whole)
    ended = [hit.memory for hit in recall(view, every).hits]
    return Overview(
        topic=question.text,
        found=len(living),
        now=tuple(groups["now"][:SHOWN]),
        rules=tuple(groups["rules"][:SHOWN]),
        goals=tuple(groups["goals"][:SHOWN]),
        background=tuple(groups["background"][:SHOWN]),
        timeline=oldest_first(living[:DAYS]),
        names=_names(living),
        replaced=tuple(memory for memory in ended if memory.state == SUPERSEDED)[:SHOWN],
        notices=answer.notices,
    )


def timeline(
    view: View, topic: str, conditions: Filter, choices: Choices, limit: int
) -> tuple[Memory, ...]:
    """Return the memories about a topic, or the newest ones: at most `limit`, oldest first."""
    if not topic:
        return oldest_first(newest(view, conditions, limit))
    question = overview_question(topic, conditions, choices, limit)
    return oldest_first(hit.memory for hit in recall(view, question).hits)


def _overview_group(memory: Memory) -> OverviewGroup:
    """Return the group of a memory; being a rule comes before any other group."""
    if role(memory) == "rule":
        return "rules"
    if memory.kind == "goal" and memory.status in ("open", "blocked"):
        return "goals"
    return "now" if memory.key is not None or memory.kind == "decision" else "background"


def _names(memories: Sequence[Memory]) -> tuple[Name, ...]:
    """Return the names in the most memories; ties by kind and name."""
    counts = Counter(
        (mention.kind, mention.name)
        for memory in memories
        for mention in mentions(memory.text, speaker=memory.created_by)
    )
    most = sorted(counts.items(), key=lambda count: (-count[1], count[0]))[:SHOWN]
    return tuple(Name(kind, name, count) for (kind, name), count in most)


def overview_payload(overview: Overview) -> dict[str, Any]:
    """Return an overview as JSON."""
    groups = ("now", "rules", "goals", "background", "timeline", "replaced")
    return {
        "topic": overview.topic,
        "found": overview.found,
        **{name: [memory_item(memory) for memory in getattr(overview, name)] for name in groups},
        "names": [msgspec.to_builtins(name) for name in overview.names],
        "degraded": bool(overview.notices),
        **({"notices": list(overview.notices)} if overview.notices else {}),
    }


def memory_item(memory: Memory) -> dict[str, Any]:
    """Return a memory as a line of an overview: its text cut, missing fields left out."""
    text = " ".join(shown_text(memory).split())
    fields = {
        "id": memory.id,
        "at": isoformat(memory.created_at),
        "kind": memory.kind,
        "role": role(memory),
        "trust": memory.trust,
        "project": memory.project,
        "text": text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 1] + "…",
        "key": memory.key,
        "value": shown_text(memory) and memory.value,
        "status": memory.status,
        "progress": memory.progress,
        "ended_at": isoformat(memory.ended_at) if memory.ended_at is not None else None,
        "superseded_by": memory.superseded_by,
    }
    return {name: value for name, value in fields.items() if value is not None}


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
    """One day, UTC: its memories by the time of their events, oldest first, and the work."""

    day: str
    decided: tuple[Memory, ...]
    learned: tuple[Memory, ...]
    done: tuple[Memory, ...]
    others: int  # memories of other kinds
    work: Work


class Digest(msgspec.Struct, frozen=True):
    """Days with at least one entry, oldest first, and the goals open now."""

    since: int  # microseconds UTC
    until: int
    days: tuple[Day, ...]
    open: tuple[Memory, ...]


def digest(view: View, log: EventLog, conditions: Filter) -> Digest:
    """Return the digest from `conditions.since` to `conditions.until`, of its project or of all."""
    since, until = conditions.since or 0, conditions.until or conditions.now
    timeless = replace(conditions, since=None, until=None)
    memories = newest(view, replace(conditions, since=since, until=until), LOOKED_AT)
    by_day: dict[str, list[Memory]] = defaultdict(list)
    for memory in oldest_first(memories):
        if memory.kind != "goal":
            by_day[_day(memory.created_at)].append(memory)
    # a goal's time is that of its last change, not of its recording
    reached: dict[str, list[Memory]] = defaultdict(list)
    for goal in newest(view, replace(timeless, kinds=("goal",)), LOOKED_AT):
        if goal.status == "done" and since <= goal.updated_at < until:
            reached[_day(goal.updated_at)].append(goal)
    scope = None if conditions.project is None else scope_chain(conditions.project)
    events: dict[str, list[Event]] = defaultdict(list)
    for event in log.events_between(DIGEST_KINDS, since, until):
        if scope is None or (event.project or "") in scope:
            events[_day(event.at)].append(event)
    days = tuple(
        _summarize_day(day, by_day[day], reached[day], events[day])
        for day in sorted({*by_day, *reached, *events})
    )
    return Digest(since, until, days, tuple(open_goals(view, timeless)))


def _summarize_day(
    day: str, memories: Sequence[Memory], reached: Sequence[Memory], events: Sequence[Event]
) -> Day:
    groups = {
        name: tuple(memory for memory in memories if _digest_group(memory) == name)
        for name in _GROUPS
    }
    return Day(
        day=day,
        decided=groups["decided"],
        learned=groups["learned"],
        done=(*groups["done"], *reached),
        others=len(memories) - sum(map(len, groups.values())),
        work=work(events),
    )


def _digest_group(memory: Memory) -> DigestGroup | None:
    if memory.kind == "decision":
        return "decided"
    if role(memory) == "rule" or memory.kind in _LEARNED:
        return "learned"
    return "done" if memory.kind in _DONE else None


def _day(at: int) -> str:
    return isoformat(at)[:10]


def digest_payload(digest: Digest, now: int) -> dict[str, Any]:
    """Return a digest as JSON; a day's group has its first memories and the number of others."""
    return {
        "since": isoformat(digest.since),
        "until": isoformat(digest.until),
        "days": [_day_payload(day) for day in digest.days],
        "open": goals_shown(digest.open, moment(now).date()),
    }


def _day_payload(day: Day) -> dict[str, Any]:
    groups = {
        name: [memory_item(memory) for memory in getattr(day, name)[:SHOWN_OF_DAY]]
        for name in _GROUPS
    }
    counts = {
        "others": day.others,
        "more": sum(max(0, len(getattr(day, name)) - SHOWN_OF_DAY) for name in _GROUPS),
        "sessions": day.work.sessions,
    }
    did = {
        "asked": [
            " ".join(prompt.split())[:LONGEST_PROMPT] for prompt in day.work.asked[:SHOWN_OF_DAY]
        ],
        "edited": [
            {"file": file, "times": times} for file, times in day.work.edited[:SHOWN_OF_DAY]
        ],
        "ran": [
            {"for": effort, "passed": runs.passed, "failed": runs.failed}
            for effort, runs in day.work.runs.items()
        ],
        "failing": [{"for": effort, "command": act.command} for effort, act in day.work.failures],
    }
    fields = groups | counts | did
    return {"day": day.day} | {name: value for name, value in fields.items() if value}
