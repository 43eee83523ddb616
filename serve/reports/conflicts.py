"""
Conflicts: what the memories say that cannot hold together, both sides and what would settle it.

Only what holds now is one: an older value that its own author replaced is history. Two texts are of
one thing by strict evidence alone: the same words but for one value.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import combinations, groupby, pairwise
from typing import Any, Literal

import msgspec
import numpy as np

from serve.reader.memory_json import shown_text
from serve.reader.view import View
from store.derived.duplicates import MOST_VALUES
from store.derived.facts import Fact, entity_name, facts_of, may_bear
from store.home.instants import isoformat
from store.home.projects import holds_in, scope_chain
from store.log.event_kinds import Staled
from store.log.event_log import EventLog
from store.memories.memory import ACTIVE, STALE, Edge, Memory
from store.memories.table import NEVER
from store.sync.unaware import are_unaware
from store.text.corrections import correction
from store.text.mentions import speaker_name
from store.text.strict_duplicates import Statement, statement

# Facts of each entity: from when until when they hold, and which memory says so

KnownFact = tuple[Fact, Memory]


def all_facts(view: View, project: str | None = None) -> list[KnownFact]:
    """Return all facts, those that are over too, of a project and of none, by entity and relation.

    Without a project of every one. The newest state of the log counts, built or not.
    """
    mask = np.zeros(len(view.snapshots.rows), np.bool_)
    built = view.snapshots.facts
    if built is not None:
        mask[built.documents] = True
    else:  # keyed ones are found without it
        mask[view.snapshots.rows.memories.keys.documents] = True
    memories = view.select(mask, may_bear)
    found = [(fact, memories[fact.document]) for fact in facts_of(memories)]
    return [one for one in found if holds_in(one[0].project, project)]


def facts_held_at(
    found: list[KnownFact], at: int | None, entity: str | None = None
) -> list[KnownFact]:
    """Return those facts that held at a moment (None: at any), of one entity or of all."""
    named = None if entity is None else entity_name(entity)
    return [
        one
        for one in found
        if (at is None or one[0].holds_at(at)) and (named is None or one[0].entity == named)
    ]


def fact_payload(one: KnownFact) -> dict[str, Any]:
    """Return a fact as it is sent; `until` is null for what still holds."""
    fact, memory = one
    return {
        "entity": fact.entity,
        "relation": fact.relation,
        "value": shown_text(memory) and fact.value,
        "since": isoformat(fact.valid_from),
        "until": isoformat(fact.valid_to) if fact.valid_to < NEVER else None,
        "singleton": fact.is_singleton,
        "id": memory.id,
        "source_ids": list(memory.source_ids),
        "project": memory.project,
        "said_by": memory.created_by or memory.trust,
        "trust": memory.trust,
        "text": shown_text(memory),
    }


What = Literal["overridden", "facts", "linked", "wording", "stale"]
Pair = frozenset[str]

MOST_COMPARED = 50_000  # memories; the newest ones
_HAPPENED = ("activity", "milestone")  # what happened once is not made untrue later


class Side(msgspec.Struct, frozen=True):
    """One of what disagrees: a memory and the value it says, None where it is all of its words."""

    memory: Memory
    value: str | None = None


class Conflict(msgspec.Struct, frozen=True):
    """`sides` are in the order of their days; `settle` are commands, of which one is enough."""

    what: What
    about: str
    why: str
    sides: tuple[Side, ...]
    settle: tuple[str, ...]


def conflicts(
    view: View, log: EventLog, now: int, project: str | None = None
) -> tuple[list[Conflict], bool]:
    """Return the conflicts of a project and of none (None: of all), the surest sort first; and
    whether all memories were compared. Two memories disagree once.
    """
    facts = all_facts(view, project)
    disagreeing = [edge for edge in _edges(view) if edge.relation == "conflict"]
    texts, is_all = _memories_to_compare(view, now, project)
    found = [
        *_fact_overrides(facts, now, _unaware_pairs(log, disagreeing)),
        *_fact_conflicts(facts, now),
        *_link_conflicts(view, disagreeing, now, project),
        *_wording_conflicts(texts),
        *_stale_conflicts(view, log, project),
    ]
    seen: set[Pair] = set()
    kept = []
    for conflict in found:
        pair = frozenset(side.memory.id for side in conflict.sides)
        if pair not in seen:
            seen.add(pair)
            kept.append(conflict)
    return kept, is_all


def speaker(memory: Memory) -> str:
    """Return who said a memory, as well as it tells."""
    return memory.created_by or memory.agent or memory.trust


def _edges(view: View) -> Iterator[Edge]:
    yield from (Edge(**row) for row in view.snapshots.rows.edges.to_pylist())
    yield from view.tail.edges


def _unaware_pairs(log: EventLog, disagreeing: Iterable[Edge]) -> set[Pair]:
    """Return the values that two machines wrote without knowing of each other."""
    return {
        frozenset((edge.source, edge.target))
        for edge in disagreeing
        if are_unaware(log, edge.source, edge.target)
    }


def _fact_overrides(
    facts: Sequence[KnownFact], now: int, unaware: Collection[Pair]
) -> Iterator[Conflict]:
    """Yield the values that hold of a key and took the place of what somebody else said, or of what
    another machine said that did not know of it.
    """
    keyed = (fact for fact in facts if fact[1].key is not None)
    ordered = sorted(keyed, key=lambda one: (*_scope(one[0]), one[0].valid_from, one[0].seq))
    for _, group in groupby(ordered, lambda one: _scope(one[0])):
        held = [one for one in group if one[0].valid_from < one[0].valid_to]
        for (older, before), (newer, after) in pairwise(held):
            is_unaware = frozenset((before.id, after.id)) in unaware
            if (
                not newer.holds_at(now)
                or _same(older.value, newer.value)
                or (_one_speaker(before, after) and not is_unaware)
            ):
                continue
            yield Conflict(
                "overridden",
                newer.key,
                "said on two machines, neither of which knew of the other's"
                if is_unaware
                else f"{speaker(after)} replaced what {speaker(before)} said",
                (Side(before, older.value), Side(after, newer.value)),
                (
                    f"mnemolog history {newer.key}",
                    f"mnemolog restore {before.id}",
                    f"mnemolog forget {before.id}",
                ),
            )


def _fact_conflicts(facts: Sequence[KnownFact], now: int) -> Iterator[Conflict]:
    """Yield the facts that hold now, of one relation that has one value, with different values."""
    by_relation: dict[tuple[str, str], list[KnownFact]] = defaultdict(list)
    for fact, memory in facts:
        if memory.state == ACTIVE and memory.holds_at(now):
            by_relation[fact.entity, fact.relation].append((fact, memory))
    for some in by_relation.values():
        for (a, one), (b, other) in combinations(some, 2):
            is_scope = holds_in(a.project, b.project) or holds_in(b.project, a.project)
            if is_scope and (a.is_singleton or b.is_singleton) and not _same(a.value, b.value):
                older, newer = sorted((Side(one, a.value), Side(other, b.value)), key=_age)
                yield Conflict(
                    "facts", a.key, f"{a.key} has two values", (older, newer), _choose(older, newer)
                )


def _link_conflicts(
    view: View, disagreeing: Iterable[Edge], now: int, project: str | None
) -> Iterator[Conflict]:
    """Yield the memories that hold now and that an edge says disagree."""
    for edge in disagreeing:
        ends = (view.tail.find(edge.source), view.tail.find(edge.target))
        sides = [
            Side(memory, memory.value) for memory in ends if memory and _holds(memory, now, project)
        ]
        if len(sides) == 2 and edge.source != edge.target:
            older, newer = sorted(sides, key=_age)
            about, settle = _about(older, newer), _choose(older, newer)
            yield Conflict("linked", about, "a link says so", (older, newer), settle)


def _wording_conflicts(texts: Iterable[Memory]) -> Iterator[Conflict]:
    """Yield the memories that say the same but for one value."""
    framed: dict[tuple[str | None, int], list[tuple[Memory, Statement]]] = defaultdict(list)
    for memory in texts:
        said = statement(_statement_text(memory))
        if frame := said.frame:
            framed[memory.project, frame].append((memory, said))
    for some in framed.values():
        if len({one[1].key for one in some}) > MOST_VALUES:
            continue  # a series, of which none corrects the other
        newest, said = max(some, key=lambda one: (one[0].created_at, one[0].seq))
        for older, was in some:
            if older.id != newest.id and (values := correction(was, said)) is not None:
                left, right = Side(older, values[0]), Side(newest, values[1])
                why = "they say the same but for a value"
                yield Conflict(
                    "wording", " / ".join(values), why, (left, right), _choose(left, right)
                )


def _stale_conflicts(view: View, log: EventLog, project: str | None) -> Iterator[Conflict]:
    """Yield the memories that rest on a file that changed since."""
    rows = view.snapshots.rows
    for memory in view.select(rows.equal("state", (STALE,)), lambda one: one.state == STALE):
        if not holds_in(memory.project, project):
            continue
        bodies = [
            event.body for event in log.events_for(memory.id) if isinstance(event.body, Staled)
        ]
        if bodies and (file := bodies[-1].file):
            settle = (f"mnemolog restore {memory.id}", f"mnemolog forget {memory.id}")
            yield Conflict("stale", file, bodies[-1].reason, (Side(memory, memory.value),), settle)


def _memories_to_compare(view: View, now: int, project: str | None) -> tuple[list[Memory], bool]:
    """Return the newest memories whose words are compared, and whether these are all."""
    rows = view.snapshots.rows
    mask = rows.active_at(now) & ~rows.equal("kind", _HAPPENED)
    if project is not None:
        mask &= rows.equal("project", scope_chain(project)) | rows.lacks("project")
    places = np.flatnonzero(mask)
    if is_cut := len(places) > MOST_COMPARED:
        mask[places[:-MOST_COMPARED]] = False
    memories = view.select(
        mask, lambda memory: _holds(memory, now, project) and memory.kind not in _HAPPENED
    )
    # what a job made of others says what they say
    return [memory for memory in memories if memory.job is None and memory.key is None], not is_cut


def _holds(memory: Memory, now: int, project: str | None) -> bool:
    is_there = holds_in(memory.project, project)
    return is_there and memory.state == ACTIVE and memory.holds_at(max(now, memory.created_at))


def _choose(older: Side, newer: Side) -> tuple[str, ...]:
    old, new = older.memory.id, newer.memory.id
    return (f"mnemolog supersede {old} --by {new}", f"mnemolog supersede {new} --by {old}")


def _about(*sides: Side) -> str:
    keys = [side.memory.key for side in sides if side.memory.key]
    return keys[0] if keys else ""


def _scope(fact: Fact) -> tuple[str, str]:
    return fact.project or "", fact.key


def _age(side: Side) -> tuple[int, int]:
    return side.memory.created_at, side.memory.seq


def _one_speaker(one: Memory, other: Memory) -> bool:
    names = [speaker_name(speaker(memory)) or speaker(memory) for memory in (one, other)]
    return names[0] == names[1]


def _same(one: str, other: str) -> bool:
    return " ".join(one.casefold().split()) == " ".join(other.casefold().split())


def _statement_text(memory: Memory) -> str:
    fields = (memory.content, memory.context, memory.action, memory.result)
    return "\n".join(field for field in fields if field)


def conflict_payload(conflict: Conflict, now: int) -> dict[str, Any]:
    """Return a conflict as it is sent."""
    return {
        "what": conflict.what,
        "about": conflict.about,
        "why": conflict.why,
        "sides": [_side(side, now) for side in conflict.sides],
        "settle": list(conflict.settle),
    }


def _side(side: Side, now: int) -> dict[str, Any]:
    memory = side.memory
    return {
        "id": memory.id,
        "text": shown_text(memory),
        "value": side.value,
        "at": isoformat(memory.created_at),
        "said_by": speaker(memory),
        "trust": memory.trust,
        "project": memory.project,
        "state": memory.state,
        "holds": memory.holds_at(now),
    }
