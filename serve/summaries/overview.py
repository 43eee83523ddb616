"""
Overview: what is known of a topic, put in order without a model.

The memories that recall finds for the topic, each in one group: what is to be followed, what is
wanted, what holds now, and the background; then the same along time, whom and what they name, and
what was replaced. Every group is bounded and every text cut: the whole is read by its id.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import msgspec

from serve.reader.filters import Filter
from serve.reader.memory_json import role
from serve.reader.view import View
from serve.recall.analysis import Question
from serve.recall.recall import recall
from store.embedders.embedder import Embedder
from store.home.config import Choices
from store.home.errors import InvalidInput
from store.home.instants import isoformat
from store.memories.memory import SUPERSEDED, Memory
from store.text.mentions import EntityKind, mentions

FOUND = 50  # memories an overview is made of
SHOWN = 10  # of a group
DAYS = 20  # lines of the timeline
LONGEST = 300  # characters of a text

Group = Literal["now", "rules", "goals", "background"]


class Name(msgspec.Struct, frozen=True):
    """Someone or something that the memories name, and in how many of them."""

    kind: EntityKind
    name: str
    memories: int


@dataclass(frozen=True, slots=True)
class Overview:
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


def about(topic: str, asked: Filter, choices: Choices, found: int = FOUND) -> Question:
    """Return the question for what is known of a topic; raise InvalidInput for an empty one."""
    if not topic.strip():
        raise InvalidInput("name a topic: the words that memories about it would hold")
    return Question(
        topic, asked, found, fusion=choices.fusion, min_confidence=choices.min_confidence
    )


def overview(view: View, question: Question, embedder: Embedder) -> Overview:
    """Return what is known of the topic a question names; all groups may be empty."""
    answer = recall(view, question, embedder)
    living = [hit.memory for hit in answer.hits]
    whole = replace(question.filter, active_only=False)
    every = replace(question, top_k=2 * question.top_k, filter=whole)
    ended = [hit.memory for hit in recall(view, every, embedder).hits]
    return Overview(
        topic=question.text,
        found=len(living),
        now=_of(living, "now"),
        rules=_of(living, "rules"),
        goals=_of(living, "goals"),
        background=_of(living, "background"),
        timeline=along_time(living[:DAYS]),
        names=_names(living),
        replaced=tuple(one for one in ended if one.state == SUPERSEDED)[:SHOWN],
        notices=answer.notices,
    )


def along_time(memories: Iterable[Memory]) -> tuple[Memory, ...]:
    """Return memories oldest first; of one moment, in the order of recording."""
    return tuple(sorted(memories, key=lambda one: (one.created_at, one.seq)))


def _of(memories: Sequence[Memory], group: Group) -> tuple[Memory, ...]:
    return tuple(one for one in memories if _group(one) == group)[:SHOWN]


def _group(memory: Memory) -> Group:
    """Return where a memory belongs; a rule is one first, whatever else it is."""
    if role(memory) == "rule":
        return "rules"
    if memory.kind == "goal" and memory.status in ("open", "blocked"):
        return "goals"
    return "now" if memory.key is not None or memory.kind == "decision" else "background"


def _names(memories: Sequence[Memory]) -> tuple[Name, ...]:
    """Return who and what is named in most of the memories; then by kind and name."""
    counts = Counter(
        (one.kind, one.name)
        for memory in memories
        for one in mentions(memory.text, speaker=memory.created_by)
    )
    most = sorted(counts.items(), key=lambda found: (-found[1], found[0]))[:SHOWN]
    return tuple(Name(kind, name, count) for (kind, name), count in most)


def shown(found: Overview) -> dict[str, Any]:
    """Return an overview as it is sent."""
    groups = ("now", "rules", "goals", "background", "timeline", "replaced")
    return {
        "topic": found.topic,
        "found": found.found,
        **{name: [item(one) for one in getattr(found, name)] for name in groups},
        "names": [msgspec.to_builtins(one) for one in found.names],
        "degraded": bool(found.notices),
        **({"notices": list(found.notices)} if found.notices else {}),
    }


def item(memory: Memory) -> dict[str, Any]:
    """Return a memory as a line of an overview: its text cut, what it does not have left out."""
    told = {
        "id": memory.id,
        "at": isoformat(memory.created_at),
        "kind": memory.kind,
        "role": role(memory),
        "trust": memory.trust,
        "project": memory.project,
        "text": _cut(memory.content),
        "key": memory.key,
        "value": memory.value,
        "status": memory.status,
        "progress": memory.progress,
        "ended_at": isoformat(memory.ended_at) if memory.ended_at is not None else None,
        "superseded_by": memory.superseded_by,
    }
    return {name: value for name, value in told.items() if value is not None}


def _cut(text: str) -> str:
    """Return the beginning of a text on one line."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"
