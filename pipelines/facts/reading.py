"""
Reading: the facts a memory states, with who they are of, since when they hold, and in which words.
"""

from dataclasses import dataclass

from pipelines.facts.assertions import assertions
from pipelines.facts.rules import PROJECT, SPEAKER
from pipelines.facts.statements import Statement, statements
from store.derived.facts import entity_name
from store.log.event_kinds import Made
from store.memories.memory import Memory
from store.text.dates import interval
from store.text.mentions import speaker_name


@dataclass(frozen=True, slots=True)
class Stated:
    """A fact as a memory states it: `entity` and `relation` by their canonical names.

    `since` is microseconds UTC, of the memory where the words say no time; `said` its sentence.
    """

    entity: str
    relation: str
    value: str
    is_singleton: bool
    confidence: float
    since: int
    said: str

    @property
    def key(self) -> str:
        return f"{self.entity}.{self.relation}"


@dataclass(frozen=True, slots=True)
class Read:
    """A fact that was read in a memory, and how."""

    memory: Memory
    fact: Stated
    made: Made


def stated(memory: Memory) -> list[Stated]:
    """Return the facts that a memory's content states, in order.

    Where it says two values of what has one at a time it says neither: which holds is a guess.
    """
    found: list[Stated] = []
    for sentence in assertions(memory.content):
        for one in statements(sentence):
            if (fact := anchored(memory, one, sentence)) is not None and fact not in found:
                found.append(fact)
    return [one for one in found if not any(_disagree(one, other) for other in found)]


def anchored(memory: Memory, one: Statement, sentence: str) -> Stated | None:
    """Return a statement as a fact of whom and since when the memory says; None where it tells
    neither, or a time that had not come.
    """
    entity = _whom(memory) if one.entity == SPEAKER else one.entity
    if entity is not None and one.entity == PROJECT:
        entity = "project" if memory.project is not None else _whom(memory)
    since = memory.created_at
    if one.when:
        spoken = interval(one.when, memory.created_at)
        if spoken is None or spoken.since > memory.created_at:
            return None
        since = spoken.since
    if entity is None:
        return None
    return Stated(
        entity_name(entity),
        entity_name(one.relation),
        one.value,
        one.is_singleton,
        one.confidence,
        since,
        sentence,
    )


def _whom(memory: Memory) -> str | None:
    """Return who says "I" in a memory: its author by name, else the user; an agent is nobody."""
    author = speaker_name(memory.created_by) if memory.created_by else None
    if author is not None:
        return author
    return "user" if memory.trust == "user" else None


def _disagree(one: Stated, other: Stated) -> bool:
    is_same = one.key == other.key and (one.is_singleton or other.is_singleton)
    return is_same and one.value.casefold() != other.value.casefold()
