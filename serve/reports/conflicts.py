"""
Conflicts: memories that cannot hold together, both sides and the commands that settle them.

Only current memories conflict: an older value that its own author replaced is history. Two texts
have the same subject by strict evidence alone: the same words but for one value.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import combinations, pairwise
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

# Facts of each entity: their period of validity, and their memory

KnownFact = tuple[Fact, Memory]


def all_facts(view: View, project: str | None = None) -> list[KnownFact]:
    """Return all facts, past ones too, of a project and of none, by entity and relation.

    Without a project, those of all projects. The newest state of the log counts, built or not.
    """
    mask = np.zeros(len(view.snapshots.rows), np.bool_)
    built = view.snapshots.facts
    if built is not None:
        mask[built.documents] = True
    else:  # keyed facts are found without it
        mask[view.snapshots.rows.memories.keys.documents] = True
    memories = view.select(mask, may_bear)
    return [
        (fact, memories[fact.document])
        for fact in facts_of(memories)
        if holds_in(fact.project, project)
    ]


def facts_held_at(
    facts: list[KnownFact], at: int | None, entity: str | None = None
) -> list[KnownFact]:
    """Return the facts that were valid at a moment (None: at any), of one entity or of all."""
    named = None if entity is None else entity_name(entity)
    return [
        (fact, memory)
        for fact, memory in facts
        if (at is None or fact.holds_at(at)) and (named is None or fact.entity == named)
    ]


def fact_payload(known: KnownFact) -> dict[str, Any]:
    """Return a fact as JSON; `until` is null for a current fact."""
    fact, memory = known
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
_HAPPENED = ("activity", "milestone")  # an event does not become untrue later


class Side(msgspec.Struct, frozen=True):
    """One side: a memory and its value, None where the value is the whole text."""

    memory: Memory
    value: str | None = None


class Conflict(msgspec.Struct, frozen=True):
    """Memories that disagree: `sides` by their days; any command in `settle` resolves it."""

    what: What
    about: str
    why: str
    sides: tuple[Side, ...]
    settle: tuple[str, ...]


def conflicts(
    view: View, log: EventLog, now: int, project: str | None = None
) -> tuple[list[Conflict], bool]:
    """Return the conflicts of a project and of none (None: of all), the surest sort first; and
    True if all memories were compared. Each pair of memories is listed once.
    """
    facts = all_facts(view, project)
    edges = (*(Edge(**row) for row in view.snapshots.rows.edges.to_pylist()), *view.tail.edges)
    disagreeing = [edge for edge in edges if edge.relation == "conflict"]
    unaware = {
        frozenset((edge.source, edge.target))
        for edge in disagreeing
        if are_unaware(log, edge.source, edge.target)
    }
    texts, is_all = _memories_to_compare(view, now, project)
    by_pair: dict[Pair, Conflict] = {}
    for conflict in (
        *_fact_overrides(facts, now, unaware),
        *_fact_conflicts(facts, now),
        *_link_conflicts(view, disagreeing, now, project),
        *_wording_conflicts(texts),
        *_stale_conflicts(view, log, project),
    ):
        by_pair.setdefault(frozenset(side.memory.id for side in conflict.sides), conflict)
    return list(by_pair.values()), is_all


def speaker(memory: Memory) -> str:
    """Return the speaker of a memory, else the agent, else its trust."""
    return memory.created_by or memory.agent or memory.trust


def _fact_overrides(
    facts: Sequence[KnownFact], now: int, unaware: Collection[Pair]
) -> Iterator[Conflict]:
    """Yield the values of a key that replaced another author's, or values of another machine that
    did not know of them (`unaware`).
    """
    by_scope: dict[tuple[str, str], list[KnownFact]] = defaultdict(list)
    for fact, memory in facts:
        if memory.key is not None and fact.valid_from < fact.valid_to:
            by_scope[fact.project or "", fact.key].append((fact, memory))
    for _, scoped in sorted(by_scope.items(), key=lambda item: item[0]):
        scoped.sort(key=lambda known: (known[0].valid_from, known[0].seq))
        for (older, before), (newer, after) in pairwise(scoped):
            if not newer.holds_at(now) or _same(older.value, newer.value):
                continue
            is_unaware = frozenset((before.id, after.id)) in unaware
            names = {speaker_name(speaker(memory)) or speaker(memory) for memory in (before, after)}
            if len(names) == 1 and not is_unaware:
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
    """Yield the current facts of one singleton relation with different values."""
    by_relation: dict[tuple[str, str], list[KnownFact]] = defaultdict(list)
    for fact, memory in facts:
        if memory.state == ACTIVE and memory.holds_at(now):
            by_relation[fact.entity, fact.relation].append((fact, memory))
    for related in by_relation.values():
        for (a, memory_a), (b, memory_b) in combinations(related, 2):
            is_scope = holds_in(a.project, b.project) or holds_in(b.project, a.project)
            if is_scope and (a.is_singleton or b.is_singleton) and not _same(a.value, b.value):
                older, newer = sorted((Side(memory_a, a.value), Side(memory_b, b.value)), key=_age)
                yield Conflict(
                    "facts", a.key, f"{a.key} has two values", (older, newer), _choose(older, newer)
                )


def _link_conflicts(
    view: View, disagreeing: Iterable[Edge], now: int, project: str | None
) -> Iterator[Conflict]:
    """Yield the current memories that are joined by a conflict edge."""
    for edge in disagreeing:
        ends = (view.tail.find(edge.source), view.tail.find(edge.target))
        sides = [
            Side(memory, memory.value) for memory in ends if memory and _holds(memory, now, project)
        ]
        if len(sides) == 2 and edge.source != edge.target:
            older, newer = sorted(sides, key=_age)
            about = older.memory.key or newer.memory.key or ""
            settle = _choose(older, newer)
            yield Conflict("linked", about, "a link says so", (older, newer), settle)


def _wording_conflicts(texts: Iterable[Memory]) -> Iterator[Conflict]:
    """Yield the memories with the same words but for one value."""
    by_frame: dict[tuple[str | None, int], list[tuple[Memory, Statement]]] = defaultdict(list)
    for memory in texts:
        fields = (memory.content, memory.context, memory.action, memory.result)
        words = statement("\n".join(field for field in fields if field))
        if frame := words.frame:
            by_frame[memory.project, frame].append((memory, words))
    for framed in by_frame.values():
        if len({words.key for _, words in framed}) > MOST_VALUES:
            continue  # a series, not corrections of one value
        newest, words = max(framed, key=lambda pair: (pair[0].created_at, pair[0].seq))
        for older, was in framed:
            if older.id != newest.id and (values := correction(was, words)) is not None:
                left, right = Side(older, values[0]), Side(newest, values[1])
                why = "they say the same but for a value"
                yield Conflict(
                    "wording", " / ".join(values), why, (left, right), _choose(left, right)
                )


def _stale_conflicts(view: View, log: EventLog, project: str | None) -> Iterator[Conflict]:
    """Yield the memories based on a file that has changed since."""
    rows = view.snapshots.rows
    for memory in view.select(rows.equal("state", (STALE,)), lambda memory: memory.state == STALE):
        if not holds_in(memory.project, project):
            continue
        bodies = [
            event.body for event in log.events_for(memory.id) if isinstance(event.body, Staled)
        ]
        if bodies and (file := bodies[-1].file):
            settle = (f"mnemolog restore {memory.id}", f"mnemolog forget {memory.id}")
            yield Conflict("stale", file, bodies[-1].reason, (Side(memory, memory.value),), settle)


def _memories_to_compare(view: View, now: int, project: str | None) -> tuple[list[Memory], bool]:
    """Return the newest memories whose words are compared, and True if these are all."""
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
    # an insight of a job repeats its sources
    return [memory for memory in memories if memory.job is None and memory.key is None], not is_cut


def _holds(memory: Memory, now: int, project: str | None) -> bool:
    is_there = holds_in(memory.project, project)
    return is_there and memory.state == ACTIVE and memory.holds_at(max(now, memory.created_at))


def _choose(older: Side, newer: Side) -> tuple[str, ...]:
    old, new = older.memory.id, newer.memory.id
    return (f"mnemolog supersede {old} --by {new}", f"mnemolog supersede {new} --by {old}")


def _age(side: Side) -> tuple[int, int]:
    return side.memory.created_at, side.memory.seq


def _same(a: str, b: str) -> bool:
    return a.casefold().split() == b.casefold().split()


def conflict_payload(conflict: Conflict, now: int) -> dict[str, Any]:
    """Return a conflict as JSON."""
    return {
        "what": conflict.what,
        "about": conflict.about,
        "why": conflict.why,
        "sides": [
            {
                "id": side.memory.id,
                "text": shown_text(side.memory),
                "value": side.value,
                "at": isoformat(side.memory.created_at),
                "said_by": speaker(side.memory),
                "trust": side.memory.trust,
                "project": side.memory.project,
                "state": side.memory.state,
                "holds": side.memory.holds_at(now),
            }
            for side in conflict.sides
        ],
        "settle": list(conflict.settle),
    }
