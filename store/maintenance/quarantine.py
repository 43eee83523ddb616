"""
Quarantine: memories that an audit fails on by themselves, taken out so that the others are built.

The removal is an event, so every build, recall and backup knows of it; the memory is hidden like a
forgotten one, but nothing made from it is dropped. A person releases or forgets it. After a
release, an injected block no longer fails its memory; secrets, which builds redact, and wrong
numbers in the index still do.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from store.home.errors import Conflict
from store.home.instants import new_id
from store.log import commands, log_queries
from store.log.event_kinds import Erased, Forgotten, Quarantined, Restored, State
from store.log.event_log import EventLog
from store.log.events import Event
from store.memories.parts import MemoryParts
from store.snapshots.manifest import CheckResult

CURE = "`mnemolog quarantine --release ID` takes it in, `--forget ID` leaves it out for good"


class Held(msgspec.Struct, frozen=True):
    """A memory in quarantine: since when (microseconds UTC), the failed check, and the reason.

    `was` is its earlier state.
    """

    id: str
    at: int
    check: str
    reason: str
    was: State


def alone(results: Iterable[CheckResult]) -> dict[str, CheckResult]:
    """Return the memories that failed checks name as failing alone, and the first check of each.

    Empty if a check failed for another reason: the build is refused all the same.
    """
    failed = [result for result in results if result.stops]
    if not all(result.alone for result in failed):
        return {}
    return {id_: result for result in reversed(failed) for id_ in result.alone}


def isolate(
    log: EventLog, failed: Mapping[str, CheckResult], memories: MemoryParts, now: int
) -> list[Held]:
    """Take out memories that a check failed on; return them.

    Raise LogError if the log cannot be written.
    """
    held: list[Held] = []
    events: list[Event] = []
    for id_, result in sorted(failed.items()):
        row = memories.row(id_)
        assert row is not None  # checks name memories of the candidate
        was = memories.value(row, "state")
        held.append(Held(id_, now, result.name, result.detail, was))
        body = Quarantined(check=result.name, reason=result.detail, was=was)
        events.append(Event(new_id(now), now, body, id_, log.events_for(id_)[0].project))
    log.append(events)
    return held


def entries(log: EventLog) -> list[Held]:
    """Return the memories that are in quarantine now, the first one first."""
    held = []
    for id_ in _ever(log):
        newest = _newest(log, id_)
        if isinstance(newest.body, Quarantined):
            body = newest.body
            held.append(Held(id_, newest.at, body.check, body.reason, body.was))
    return sorted(held, key=lambda entry: (entry.at, entry.id))


def releases(log: EventLog, until: int) -> frozenset[str]:
    """Return the ids of memories that were taken out and then released, up to a seq."""
    ids = _ever(log)
    return frozenset(id_ for id_ in ids if isinstance(_newest(log, id_, until).body, Restored))


def release(log: EventLog, ids: Sequence[str], now: int) -> list[Event]:
    """Restore memories to the states that they had, all or none.

    Raise NotFound, or Conflict for a memory that is not in quarantine.
    """
    reason = "released from quarantine"
    return _settle(log, ids, lambda body: Restored(reason=reason, state=body.was), now)


def forget(log: EventLog, ids: Sequence[str], now: int) -> list[Event]:
    """Forget quarantined memories, all or none; raise as `release` does."""
    return _settle(log, ids, lambda body: Forgotten(reason="quarantined"), now)


def _settle(
    log: EventLog,
    ids: Sequence[str],
    change: Callable[[Quarantined], Restored | Forgotten],
    now: int,
) -> list[Event]:
    bodies = {id_: _newest(log, id_).body for id_ in _ever(log)}
    events = []
    for id_ in ids:
        if not isinstance(body := bodies.get(id_), Quarantined):
            cure = "`mnemolog quarantine` lists what is"
            raise Conflict(f"memory {id_!r} is not in quarantine: {cure}")
        events.append(commands.change_event(log, id_, change(body), now))
    return [appended.event for appended in log.append(events)]


def _ever(log: EventLog) -> frozenset[str]:
    """Return the ids of the memories that were ever taken out."""
    return log_queries.subjects_by_kind(log, ("quarantined",))["quarantined"]


def _newest(log: EventLog, id_: str, until: int | None = None) -> Event:
    """Return the newest event that took a memory out, brought it back or ended it."""
    return [
        event
        for event in log.events_for(id_)
        if isinstance(event.body, Quarantined | Restored | Forgotten | Erased)
        and (until is None or event.seq <= until)
    ][-1]
