"""
Merging: the events of a person's other homes in this log, and the one order in which all homes that
have them fold them.

An event keeps the id, origin and clock it got where it was first written. Its `seq` is its place in
this log, by arrival, and differs from home to home; the resulting memory must not. So if the events
about a memory arrived in another order than they were written in, that memory is refolded by their
clocks: `place` is the order, `late_subjects` finds the memories affected.
"""

from collections.abc import Iterable
from operator import attrgetter

import msgspec
from msgspec.structs import replace

from store.log import compaction, erasing, log_queries
from store.log.event_kinds import Prompted, Recorded
from store.log.event_log import EventLog
from store.log.events import RECEIPTS, Event, decode, is_erased
from store.log.log_file import Row
from store.log.rows import BODY, PUT_AWAY, row_columns

# of use to one home alone: its receipts, its model calls, the gaps of its own log
LOCAL = frozenset("recalled judged adopted configured called lost".split())
_TURN = ("action", "prompted", "session")  # kinds that make up an episode
_UNFOLDED = sorted((RECEIPTS | {"rated"}) - {*_TURN})  # kinds that change no memory
_FOLDED = f"kind NOT IN ({', '.join(map(repr, _UNFOLDED))})"
# events that end or revive a memory also decide the fate of memories that jobs made from it
_DECIDING = "archived erased forgotten quarantined restored staled superseded".split()
_PLACE = "coalesce(clock, at)"


class Merged(msgspec.Struct, frozen=True):
    """The result of a merge: the events new to this log, and the number of existing events replaced
    by the earlier form and place from another home. `moved` are the memories of the latter whose
    snapshots may be outdated.
    """

    new: tuple[Event, ...]
    replaced: int
    moved: tuple[str, ...] = ()


def place(event: Event) -> tuple[int, str]:
    """Return an event's place among those of all homes. An event written before clocks existed has
    its time instead.
    """
    return event.clock or event.at, event.id


def erased_episodes(log: EventLog, events: Iterable[Event]) -> list[str]:
    """Return the episodes erased here that belong to the sessions of some events: later events of
    their turns must be erased too.
    """
    if not (erased := log_queries.erased_ids(log, log.head())):
        return []
    sessions = {event.session for event in events if event.kind in _TURN} - {None}
    return [
        event.id
        for session in sorted(map(str, sessions))
        for event in log.session_events(session)
        if event.kind == "prompted" and event.id in erased
    ]


def merge(log: EventLog, events: Iterable[Event], home: str) -> Merged:
    """Write the events of another home, by its id, that are not here yet; all of them or none.

    Events about a memory that was erased here come in without their texts. If both homes wrote an
    event, such as an import of the same commits, both keep the form with the earlier place. Raise
    InvalidInput for an invalid event, and the disk errors of `append`.
    """
    # with an origin and a clock, as their home would have assigned them
    stamped = (event.with_stamp(event.origin or home, event.clock or event.at) for event in events)
    incoming = sorted(stamped, key=place)
    ids = msgspec.json.encode([event.id for event in incoming]).decode()
    with compaction.alone(log.path):
        erased = log_queries.erased_ids(log, log.head())
        rows = log.select_rows("id IN (SELECT value FROM json_each(?))", (ids,))
        there = {row[1]: row for row in rows}
        new: dict[str, Event] = {}  # a home that was copied or restored sends some events twice
        replaced: dict[str, tuple[Row, Event]] = {}
        for event in incoming:
            if not erased.isdisjoint((event.id, event.subject)):
                event = replace(event, body=erasing.strip_texts(event.body))
            if event.id not in there:
                new.setdefault(event.id, event)
            elif _comes_before(event, there[event.id]):
                replaced.setdefault(event.id, (there[event.id], event))
        taken = log.take([*new.values()], [*replaced.values()])
        moved = {
            event.subject
            for row, event in replaced.values()
            # the row differs in more than origin and clock, or its place matters
            if row_columns(event)[:-2] != row[1:-3] or _is_tied(log, event.subject, log.head())
        }
    fresh = tuple(appended.event for appended in taken if appended.is_new)
    return Merged(fresh, len(replaced), tuple(sorted(moved)))


def _comes_before(event: Event, row: Row) -> bool:
    """Return True if an event replaces the row with its id. Erased and archived rows stay as they
    are.
    """
    kind, subject, body = row[3], row[4], row[BODY]
    if body == PUT_AWAY or (kind, subject) != (event.kind, event.subject):
        return False
    if is_erased(decode(kind, body)):
        return False
    return (event.clock, event.origin or "") < (row[-2] or row[2], row[-3] or "")


# The order of all homes.


def is_folded(event: Event) -> bool:
    """Return True if an event may change a memory."""
    return event.kind not in _UNFOLDED


def newest_place(log: EventLog, until: int) -> int:
    """Return the greatest clock of the events up to a seq that change memories; 0 for none."""
    rows = log.sql(f"SELECT max({_PLACE}) FROM events WHERE seq <= ? AND {_FOLDED}", (until,))
    return rows[0][0] or 0


def late_subjects(log: EventLog, after: int, until: int) -> list[str]:
    """Return the subjects of the events with `after` < seq <= `until` whose memory may depend on
    whether its events are folded in the order of arrival or of writing.

    None in a log of one home alone.
    """
    if not log.is_merged():
        return []
    late = log.sql(
        f"SELECT kind, subject, session FROM (SELECT seq, kind, subject, session, {_PLACE} AS at, "
        f"max({_PLACE}) OVER (ORDER BY seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) "
        f"AS newest FROM events WHERE seq <= ? AND {_FOLDED}) WHERE seq > ? AND at <= newest "
        "ORDER BY seq",
        (until, after),
    )
    tied = dict.fromkeys(subject for kind, subject, _ in late if kind in _DECIDING)
    tied |= dict.fromkeys(row[0] for row in log.sql(_OVERTAKEN, (after, until)))
    others = dict.fromkeys(subject for kind, subject, _ in late if kind not in _TURN)
    sessions = {session for kind, _, session in late if kind in _TURN and session is not None}
    tied |= dict.fromkeys(id_ for id_ in others if id_ not in tied and _is_tied(log, id_, until))
    for session in sorted(sessions):
        tied |= dict.fromkeys(_changed_episodes(log, session, until))
    return list(tied)


# memories with an event that arrived before they themselves did
_OVERTAKEN = (
    "SELECT id FROM events AS memory WHERE seq > ? AND seq <= ? "
    "AND kind IN ('prompted', 'recorded') AND EXISTS (SELECT 1 FROM events "
    f"WHERE subject = memory.id AND seq < memory.seq AND {_FOLDED})"
)


def is_overtaken(log: EventLog, event: Event) -> bool:
    """Return True if an event about a memory, or an episode, arrived before it did."""
    if event.kind not in ("prompted", "recorded"):
        return False
    return bool(log.sql(_OVERTAKEN, (event.seq - 1, event.seq)))


def _is_tied(log: EventLog, id_: str, until: int) -> bool:
    """Return True if the order of a memory's events matters: they arrived in another order, or
    other memories' events affect it too, as with the value of a key.
    """
    rows = log.sql(
        f"SELECT kind, {_PLACE}, id, body FROM events WHERE subject = ? AND seq <= ? AND {_FOLDED} "
        "ORDER BY seq",
        (id_, until),
    )
    places = [row[1:3] for row in rows]
    if places != sorted(places):
        return True
    bodies = [decode(row[0], row[3]) for row in rows if row[0] in ("recorded", "prompted")]
    return any(
        isinstance(body, Prompted) or (isinstance(body, Recorded) and bool(body.key or body.made))
        for body in bodies
    )


def _changed_episodes(log: EventLog, session: str, until: int) -> list[str]:
    """Return a session's episodes that were changed by hand: forgotten, pinned, ..."""
    rows = log.sql(
        "SELECT id FROM events AS episode WHERE session = ? AND kind = 'prompted' AND seq <= ? "
        "AND EXISTS (SELECT 1 FROM events "
        f"WHERE subject = episode.id AND id != episode.id AND {_FOLDED})",
        (session, until),
    )
    return [row[0] for row in rows]


def events_about(log: EventLog, ids: Iterable[str], until: int) -> list[Event]:
    """Return the events about some memories that count up to a seq, in the order of all homes; for
    an episode also those of its turn, and the prompt that ended it.

    However wrong the clocks are, nothing happened to a memory before it was recorded.
    """
    undone = log.undone_ids(until)
    by_id = {event.id: event for id_ in ids for event in _about(log, id_)}
    events = [event for event in by_id.values() if event.seq <= until and event.id not in undone]
    if not log.is_merged():  # events from before clocks have times, but no order
        return sorted(events, key=attrgetter("seq"))
    begun = {event.id: place(event) for event in events}

    def order(event: Event) -> tuple[tuple[int, str], bool, tuple[int, str]]:
        own = place(event)
        return max(own, begun.get(event.subject, own)), event.subject != event.id, own

    return sorted(events, key=order)


def _about(log: EventLog, id_: str) -> list[Event]:
    events = log.events_for(id_)
    prompt = next((event for event in events if isinstance(event.body, Prompted)), None)
    if prompt is None or prompt.session is None:
        return events
    for event in log.session_events(prompt.session, prompt.seq):
        if event.kind in _TURN:
            events.append(event)
        if event.kind == "prompted":
            break
    return events
