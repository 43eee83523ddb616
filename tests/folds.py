"""The memories of a log, folded here from its events, without a build."""

from collections.abc import Iterable

from store.log.event_log import EventLog
from store.log.events import Event
from store.memories.fold import Fold


def fold_events(events: Iterable[Event]) -> Fold:
    fold = Fold()
    for event in events:
        fold.apply(event)
    return fold


def fold_log(log: EventLog) -> Fold:
    """Fold the effective events, without those that were undone."""
    return fold_events(log.effective_events(0, log.head()))
