"""
Taken back: memories as they are without a plan that was undone, for who folds event by event.

A build leaves the plan's events out from the start. Who has applied them already folds anew what
they may have touched, from what the log still holds to be so: an event that only turned a step
round would not do, for a value of a key that was written meanwhile would give way to the older one.
"""

from collections.abc import Iterable, Iterator
from operator import attrgetter

from store.events import Event
from store.job_events import Planned
from store.log import EventLog
from store.memories.fold import Fold
from store.plans.since import touched


def take_back(log: EventLog, undone: Event, fold: Fold) -> list[str]:
    """Fold anew what the plan that `undone` is about had touched; return the ids of what changed.

    What the plan had recorded is forgotten. Raise LogError where an event cannot be read: then
    nothing was changed.
    """
    plans = (event.body for event in log.about(undone.subject))
    steps = [step for plan in plans if isinstance(plan, Planned) for step in plan.steps]
    ids = _kin(fold, touched(steps))
    return fold.anew(ids, _counting(log, ids, undone.seq))


def _counting(log: EventLog, ids: Iterable[str], until: int) -> list[Event]:
    """Return the events about some memories that count up to a seq, in order."""
    gone = log.undone(until)
    told = [event for id_ in ids for event in log.about(id_)]
    told = [event for event in told if event.seq <= until and event.id not in gone]
    return sorted(told, key=attrgetter("seq"))


def _kin(fold: Fold, ids: Iterable[str]) -> list[str]:
    """Return the memories among some ids, and all on whose state theirs may rest or that may rest
    on theirs.
    """
    found: dict[str, None] = {}
    waiting = list(ids)
    while waiting:
        id_ = waiting.pop()
        if id_ not in found and fold.find(id_) is not None:
            found[id_] = None
            waiting += _nearest(fold, id_)
    return list(found)


def _nearest(fold: Fold, id_: str) -> Iterator[str]:
    yield from fold.made_of(id_)
    memory = fold.find(id_)
    assert memory is not None
    if memory.key is not None:
        yield from fold.values(memory.project, memory.key)
    if memory.job is not None:
        yield from memory.source_ids
