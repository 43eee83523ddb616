"""
Lineage: the job that made a memory, its sources, its derivatives, and the reasons it is stale; and
the recalls that a source took part in, by itself or by a derivative.

It is read from the log and the memory as they are now; nothing of it is stored.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from serve.reader.memory_json import shown_text
from serve.reader.view import View
from store.home.instants import isoformat
from store.log import receipts
from store.log.event_kinds import Applied, Recalled, Recorded, Staled
from store.log.event_log import EventLog
from store.log.events import Event
from store.log.receipts import Wanted
from store.memories.memory import FALLEN, FORGOTTEN, STALE, SUPERSEDED, Memory
from store.text.excerpt import one_line

MOST = 50  # sources, and memories made of one
_LONGEST = 160  # characters of a text


def lineage(view: View, log: EventLog, memory: Memory, events: Sequence[Event]) -> dict[str, Any]:
    """Return the lineage of a memory, empty parts left out; `events` are those about it."""
    parts = {
        "made": _origin(log, memory, events),
        "sources": [_source(view, log, id_) for id_ in memory.source_ids[:MOST]],
        "made_of_it": [_memory(view, id_) for id_ in view.tail.derivatives(memory.id)[:MOST]],
        "stale_because": _stale_reasons(view, memory, events),
    }
    return {name: value for name, value in parts.items() if value}


def _origin(log: EventLog, memory: Memory, events: Sequence[Event]) -> dict[str, Any]:
    """Return the job that made a memory, its lineage and its plan; empty without a job."""
    first = events[0].body if events else None
    if not isinstance(first, Recorded) or first.made is None:
        return {}
    plans = [
        event.subject
        for event in log.job_events(("applied",))
        if isinstance(event.body, Applied) and memory.id in event.body.events
    ]
    origin: dict[str, Any] = msgspec.to_builtins(first.made)
    return origin | ({"plan": plans[-1]} if plans else {})


def _source(view: View, log: EventLog, id_: str) -> dict[str, Any]:
    """Return a source as it is now: a memory, or an event of a session."""
    if view.tail.find(id_) is not None:
        return _memory(view, id_)
    events = log.events_for(id_)
    if not events:
        return {"id": id_, "state": "unknown"}
    return {"id": id_, "event": events[0].kind, "at": isoformat(events[0].at)}


def _memory(view: View, id_: str) -> dict[str, Any]:
    memory = view.tail.find(id_)
    if memory is None:
        return {"id": id_, "state": "unknown"}
    fields = {
        "id": id_,
        "kind": memory.kind,
        "trust": memory.trust,
        "state": memory.state,
        "job": memory.job,
        "text": "" if memory.state == FORGOTTEN else one_line(shown_text(memory), _LONGEST),
    }
    return {name: value for name, value in fields.items() if value}


def _stale_reasons(view: View, memory: Memory, events: Sequence[Event]) -> list[str]:
    """Return the reasons a memory is stale: its last event's, and its outdated sources."""
    if memory.state != STALE:
        return []
    last = next((event for event in reversed(events) if event.kind in ("staled", "restored")), None)
    reasons = [last.body.reason] if last is not None and isinstance(last.body, Staled) else []
    for id_ in memory.source_ids:
        source = view.tail.find(id_)
        if source is not None and source.state in FALLEN:
            by = f" by {source.superseded_by}" if source.state == SUPERSEDED else ""
            reasons.append(f"its source {source.id} is {source.state}{by}")
    return reasons


# The whole lineage, both ways, and the recalls


NEWEST = 20  # recalls listed
_EVERY = 1_000_000  # recalls counted


def full_lineage(view: View, log: EventLog, id_: str, most: int) -> dict[str, Any]:
    """Return the sources and derivatives of a memory or an event, the nearest first, each with its
    job's lineage, their total cost, and the recalls it took part in.

    At most `most` receipts are read, the newest.
    """

    def sources_of(id_: str) -> Sequence[str]:
        memory = view.tail.find(id_)
        return memory.source_ids if memory is not None and memory.state != FORGOTTEN else ()

    payload = _describe(view, log, id_)
    sources = [_describe(view, log, source) | {"of": of} for source, of in _walk(id_, sources_of)]
    made_of_it = _walk(id_, view.tail.derivatives)
    calls = {
        item["made"].get("prompt_sha256"): item["made"]
        for item in (payload, *sources)
        if "made" in item
    }
    return payload | {
        "sources": sources,
        "made_of_it": [_describe(view, log, made) | {"of": of} for made, of in made_of_it],
        "tokens": sum(call.get("tokens", 0) for call in calls.values()),
        "cost_usd": sum(call.get("cost_usd", 0.0) for call in calls.values()),
        "recalls": recalls_of(log, id_, [made for made, _ in made_of_it], most),
    }


def recalls_of(log: EventLog, id_: str, derivatives: Sequence[str], most: int) -> dict[str, Any]:
    """Count the recalls that returned a memory and those that returned only its derivatives, with
    the newest of both; of the newest `most` receipts.
    """
    page = receipts.page(log, Wanted(memories=(id_, *derivatives)), _EVERY, most=most)
    matches = []
    for receipt in page.receipts:
        assert isinstance(receipt.body, Recalled)
        ids = [hit.id for hit in receipt.body.hits]
        as_id = id_ if id_ in ids else next(other for other in ids if other in derivatives)
        matches.append((receipt, receipt.body.query, as_id, ids.index(as_id) + 1))
    returned_it = sum(as_id == id_ for _, _, as_id, _ in matches)
    return {
        "returned_it": returned_it,
        "returned_what_was_made_of_it": len(matches) - returned_it,
        "has_older": page.last is not None,
        "newest": [
            {
                "id": receipt.id,
                "at": isoformat(receipt.at),
                "query": query,
                "memory": as_id,
                "rank": rank,
            }
            for receipt, query, as_id, rank in matches[:NEWEST]
        ],
    }


def derivatives_of(view: View, id_: str) -> list[str]:
    """Return the ids of a memory's derivatives, direct and indirect, the nearest first."""
    return [made for made, _ in _walk(id_, view.tail.derivatives)]


def _walk(start: str, following: Callable[[str], Iterable[str]]) -> list[tuple[str, str]]:
    """Return the ids reachable from `start`, each with its predecessor; MOST at most."""
    reached_from: dict[str, str] = {}
    waiting = [start]
    for id_ in waiting:
        for other in following(id_):
            if other not in reached_from and other != start and len(reached_from) < MOST:
                reached_from[other] = id_
                waiting.append(other)
    return list(reached_from.items())


def _describe(view: View, log: EventLog, id_: str) -> dict[str, Any]:
    """Return a memory or an event of a lineage as it is now, and its first event."""
    events = log.events_for(id_)
    fields = _source(view, log, id_)
    memory = view.tail.find(id_)
    if memory is not None and (origin := _origin(log, memory, events)):
        fields |= {"made": origin}
    if not events:
        return fields
    first = events[0]
    begun = {
        "at": isoformat(first.at),
        "seq": first.seq,
        "session": first.session,
        "agent": first.agent,
    }
    return fields | {name: value for name, value in begun.items() if value is not None}
