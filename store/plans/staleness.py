"""
Staleness: the changes to memories and keys after a plan was made, and the undoing of a plan in a
fold.

All plans are checked at once, and only the kinds of events are read: reading every event of every
memory for each plan took seconds. Undone events are ignored.
"""

from collections.abc import Iterator, Mapping, Sequence, Set

import msgspec

from store.log import log_queries, merging
from store.log.event_kinds import Planned, Step, Undone
from store.log.event_log import EventLog
from store.log.events import RECEIPTS, Event
from store.log.log_queries import EventLine
from store.memories.fold import Fold

_HARMLESS = RECEIPTS | {"rated"}  # kinds of events about a memory that no plan depends on

Key = tuple[str | None, str]  # of a project


class Changes(msgspec.Struct, frozen=True):
    """The changes in the order of the log, by memory, and by key where a memory became its value.

    `held` has the keys of the memories that are, or were, the value of one. Valid only for the
    plans it was read for.
    """

    memories: Mapping[str, Sequence[EventLine]]
    keys: Sequence[tuple[int, str, Key]]
    held: Mapping[str, Key]

    def reasons(
        self, plan: Planned, own: Set[str] = frozenset(), *, is_undo: bool = False
    ) -> tuple[str, ...]:
        """Return the changes to the basis of a plan since it was made.

        `own` are the events that carried it out, or a part of it: for memories that they changed,
        return the changes since then. Keys are not checked for an undo.
        """
        return tuple(self._changes(plan, own, is_undo))

    def _changes(self, plan: Planned, own: Set[str], is_undo: bool) -> Iterator[str]:
        for id_ in dict.fromkeys(step_memory_ids(plan.steps)):
            lines = self.memories.get(id_, ())
            begins = max(
                (event_line.seq for event_line in lines if event_line.id in own),
                default=plan.watermark,
            )
            for line in lines:
                if line.seq > begins and line.id not in own:
                    yield f"{id_} was {line.kind} since"
                    break
        if not is_undo:
            wanted = _keys_of_plan(plan, self.held)
            for seq, id_, (project, key) in self.keys if wanted else ():
                if seq > plan.watermark and (project, key) in wanted and id_ not in own:
                    yield f"{key} was given a value since"


def changes_since(log: EventLog, plans: Sequence[Planned]) -> Changes:
    """Return the changes to memories and keys since plans were made."""
    if not plans:
        return Changes({}, (), {})
    undone = log.undone_ids(log.head())
    ids = sorted({id_ for plan in plans for id_ in step_memory_ids(plan.steps)})
    first = min(plan.watermark for plan in plans)
    held = _keys_held_by(log, ids)
    wanted = set[Key]().union(*(_keys_of_plan(plan, held) for plan in plans))
    keys = _key_changes(log, first, wanted, undone) if wanted else ()
    memories: dict[str, list[EventLine]] = {}
    for line in log_queries.other_changes_of(log, ids, sorted(_HARMLESS), first):
        if line.id not in undone:
            memories.setdefault(line.subject, []).append(line)
    return Changes(memories, keys, held)


def step_memory_ids(steps: Sequence[Step]) -> Iterator[str]:
    """Yield the ids of the memories that some steps change, name or are made of."""
    for step in steps:
        yield step.subject
        for name in ("by", "target"):
            if isinstance(id_ := step.body.get(name), str):
                yield id_
        yield from step.body.get("source_ids", ())


def _keys_held_by(log: EventLog, ids: Sequence[str]) -> dict[str, Key]:
    """Return the keys of those memories that are a value of one."""
    return {fact.id: (fact.project, fact.key) for fact in log_queries.facts_with_key(log, ids)}


def _key_changes(
    log: EventLog, after: int, wanted: Set[Key], undone: Set[str]
) -> list[tuple[int, str, Key]]:
    """Return the seq, event and key of each memory that became the value of a key, in order."""
    facts = [fact for fact in log_queries.new_facts_with_key(log, after) if fact.id not in undone]
    changes: list[tuple[int, str, Key | None]]
    changes = [(fact.seq, fact.id, (fact.project, fact.key)) for fact in facts]
    restorings = [line for line in log_queries.restorings(log, after) if line.id not in undone]
    held = _keys_held_by(log, [line.subject for line in restorings])
    changes += [(line.seq, line.id, held.get(line.subject)) for line in restorings]
    return sorted((seq, id_, key) for seq, id_, key in changes if key is not None and key in wanted)


def _keys_of_plan(plan: Planned, held: Mapping[str, Key]) -> set[Key]:
    """Return the keys that a plan would give a value, and those of the memories it touches."""
    steps = (step for step in plan.steps if step.event == "recorded")
    keys = {(step.project, key) for step in steps if (key := step.body.get("key"))}
    return keys.union(held[id_] for id_ in step_memory_ids(plan.steps) if id_ in held)


# Unapplying: memories as they are without an undone plan, for readers that fold event by event.
#
# A build leaves the plan's events out from the start. A reader that has already applied them folds
# the affected memories anew from the events that still count. An event that only reversed a step
# would not do: a value of a key that was written meanwhile would give way to the older one.


def unapply_plan(log: EventLog, undone: Event, fold: Fold, since: int) -> list[str]:
    """Fold anew the memories touched by the plan of `undone`; return the ids of the changed ones.

    The plan's own records are dropped; links up to the seq `since` are below the fold. Raise
    LogError if an event cannot be read: then nothing was changed.
    """
    plans = (event.body for event in log.events_for(undone.subject))
    steps = [step for plan in plans if isinstance(plan, Planned) for step in plan.steps]
    assert isinstance(undone.body, Undone)
    # a bulk change has no steps
    named = step_memory_ids(steps) if steps else log_queries.subjects_of(log, undone.body.events)
    ids = fold.dependents(named)
    return fold.anew(ids, merging.events_about(log, ids, undone.seq), since)
