"""
Unaware: values of a key that two machines wrote without knowing of each other.

The one with the later clock holds, as on any machine. But neither was chosen over the other, so a
link records the conflict, and `mnemolog conflicts` shows both sides. Every machine that sees both
adds the same link, under one id.
"""

from collections.abc import Iterable, Sequence

from store.home.instants import derived_id
from store.log import log_queries, merging
from store.log.event_kinds import Linked, Recorded
from store.log.event_log import EventLog
from store.log.events import Event
from store.sync.membership import Knowledge, Machine

_KEPT = 64  # changes of a machine's knowledge


def add_knowledge(knew: Knowledge, machines: Iterable[Machine], now: int) -> Knowledge:
    """Add to `knew` the newest clock of each home among `machines`, if it changed."""
    newest: dict[str, int] = {}
    for machine in machines:
        newest[machine.home] = max(machine.clock, newest.get(machine.home, 0))
    if knew and knew[-1][1] == newest:
        return knew
    return (*knew, (max((now, *newest.values())), newest))[-_KEPT:]


def link_unaware_values(
    log: EventLog, new: Sequence[Event], machines: Iterable[Machine], own: str, now: int
) -> list[Event]:
    """Link new values of keys with existing ones if neither side knew of the other when it was
    written; return the links.
    """
    keyed = [event for event in new if isinstance(event.body, Recorded) and event.body.key]
    if not keyed:
        return []
    knew: dict[str, Knowledge] = {own: ()} | {machine.home: machine.knew for machine in machines}
    there: dict[tuple[str | None, str], list[str]] = {}
    for fact in log_queries.new_facts_with_key(log, 0):
        there.setdefault((fact.project, fact.key), []).append(fact.id)
    links = []
    for event in keyed:
        assert isinstance(event.body, Recorded) and event.body.key is not None
        ids = there.get((event.project, event.body.key), ())
        values = [log.events_for(id_)[0] for id_ in ids]
        for other in _neighbours(event, values):
            if not isinstance(other.body, Recorded) or other.body.value == event.body.value:
                continue
            homes = {event.origin, other.origin}
            if len(homes) != 2 or not homes <= knew.keys():
                continue
            # this machine's own events did not know of those that have just arrived
            if not _knew(event, other, knew) and not _knew(other, event, knew):
                older, newer = sorted((event, other), key=merging.place)
                body = Linked(target=older.id, relation="conflict")
                id_ = _link_id(older.id, newer.id)
                links.append(Event(id_, now, body, newer.id, newer.project, trust="tool"))
    return [appended.event for appended in log.append(links) if appended.is_new]


def are_unaware(log: EventLog, memory: str, other: str) -> bool:
    """Return True if two values were linked so, by their memories' ids; a person's own link is
    another.
    """
    return bool(log.present_ids([_link_id(memory, other)]))


def _neighbours(event: Event, values: Sequence[Event]) -> list[Event]:
    """Return the values written directly before and directly after one."""
    own = merging.place(event)
    before = [value for value in values if merging.place(value) < own]
    after = [value for value in values if merging.place(value) > own]
    return [*sorted(before, key=merging.place)[-1:], *sorted(after, key=merging.place)[:1]]


def _knew(event: Event, other: Event, knew: dict[str, Knowledge]) -> bool:
    """Return True if `event` was written where `other` was known."""
    changes = knew[event.origin or ""]
    clock = merging.place(event)[0]
    if len(changes) == _KEPT and clock <= changes[0][0]:
        return True  # too long ago to tell
    newest: dict[str, int] = next((then for since, then in reversed(changes) if since < clock), {})
    return merging.place(other)[0] <= newest.get(other.origin or "", 0)


def _link_id(memory: str, other: str) -> str:
    return derived_id(0, "unaware", *sorted((memory, other)))
