"""
Lineage: how a job came to a memory, what it was made of, what was made of it, and why it is stale;
and the recalls that a source took part in, by itself or by what was made of it.

It is read from the log and the memory as they are now; nothing of it is stored.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from serve.reader.memory_json import shown_text
from serve.reader.view import View
from store.home.instants import isoformat
from store.log import receipts
from store.log.event_kinds import Applied, Made, Recalled, Recorded, Staled
from store.log.event_log import EventLog
from store.log.events import Event
from store.log.receipts import Wanted
from store.memories.memory import FALLEN, FORGOTTEN, STALE, SUPERSEDED, Memory
from store.text.excerpt import one_line

MOST = 50  # sources, and memories made of one
_LONGEST = 160  # characters of a text


def lineage(view: View, log: EventLog, memory: Memory, events: Sequence[Event]) -> dict[str, Any]:
    """Return the lineage of a memory, empty parts left out; `events` are those about it."""
    found = {
        "made": _origin(log, memory, events),
        "sources": [_source(view, log, id_) for id_ in memory.source_ids[:MOST]],
        "made_of_it": [_one(view, id_) for id_ in view.tail.derivatives(memory.id)[:MOST]],
        "stale_because": list(_because(view, memory, events)),
    }
    return {name: value for name, value in found.items() if value}


def _origin(log: EventLog, memory: Memory, events: Sequence[Event]) -> dict[str, Any]:
    """Return which job made a memory, how, and by which plan; empty where none did."""
    first = events[0].body if events else None
    if not isinstance(first, Recorded) or first.made is None:
        return {}
    plans = [
        event.subject
        for event in log.job_events(("applied",))
        if isinstance(event.body, Applied) and memory.id in event.body.events
    ]
    return _of(first.made) | ({"plan": plans[-1]} if plans else {})


def _of(made: Made) -> dict[str, Any]:
    payload: dict[str, Any] = msgspec.to_builtins(made)
    return payload


def _source(view: View, log: EventLog, id_: str) -> dict[str, Any]:
    """Return a source as it is now: a memory, or an event of a session."""
    if view.tail.find(id_) is not None:
        return _one(view, id_)
    events = log.events_for(id_)
    if not events:
        return {"id": id_, "state": "unknown"}
    return {"id": id_, "event": events[0].kind, "at": isoformat(events[0].at)}


def _one(view: View, id_: str) -> dict[str, Any]:
    memory = view.tail.find(id_)
    if memory is None:
        return {"id": id_, "state": "unknown"}
    shown = {"id": id_, "kind": memory.kind, "trust": memory.trust, "state": memory.state}
    shown |= {"job": memory.job or ""}
    text = "" if memory.state == FORGOTTEN else one_line(shown_text(memory), _LONGEST)
    return {name: value for name, value in (shown | {"text": text}).items() if value}


def _because(view: View, memory: Memory, events: Sequence[Event]) -> list[str]:
    """Return why a memory is stale: what was said of it, else which of its sources fell."""
    if memory.state != STALE:
        return []
    last = next((event for event in reversed(events) if event.kind in ("staled", "restored")), None)
    said = [last.body.reason] if last is not None and isinstance(last.body, Staled) else []
    return [
        *said,
        *(_invalid_reason(one) for id_ in memory.source_ids if (one := _invalid_source(view, id_))),
    ]


def _invalid_source(view: View, id_: str) -> Memory | None:
    memory = view.tail.find(id_)
    return memory if memory is not None and memory.state in FALLEN else None


def _invalid_reason(source: Memory) -> str:
    by = f" by {source.superseded_by}" if source.state == SUPERSEDED else ""
    return f"its source {source.id} is {source.state}{by}"


# The whole lineage, both ways, and the recalls


NEWEST = 20  # recalls told of
_EVERY = 1_000_000  # recalls counted


def full_lineage(view: View, log: EventLog, id_: str, most: int) -> dict[str, Any]:
    """Return all that a memory or an event was made of and all that was made of it, the nearest
    first, with how jobs came to each, what that cost together, and the recalls it took part in.

    `most` is how many receipts are looked at, the newest.
    """
    payload = _describe(view, log, id_)
    sources = _walk(id_, lambda one: _source_ids(view, one))
    made_of_it = _walk(id_, view.tail.derivatives)
    above = [_describe(view, log, one) | {"of": of} for one, of in sources]
    below = [_describe(view, log, one) | {"of": of} for one, of in made_of_it]
    paid = {
        one["made"].get("prompt_sha256"): one["made"] for one in (payload, *above) if "made" in one
    }
    return payload | {
        "sources": above,
        "made_of_it": below,
        "tokens": sum(one.get("tokens", 0) for one in paid.values()),
        "cost_usd": sum(one.get("cost_usd", 0.0) for one in paid.values()),
        "recalls": recalls_of(log, id_, [one for one, _ in made_of_it], most),
    }


def recalls_of(log: EventLog, id_: str, derivatives: Sequence[str], most: int) -> dict[str, Any]:
    """Return how many recalls returned a memory, how many only what was made of it, and the newest
    of both; of the newest `most` receipts.
    """
    page = receipts.page(log, Wanted(memories=(id_, *derivatives)), _EVERY, most=most)
    took_part = []
    for receipt in page.receipts:
        assert isinstance(receipt.body, Recalled)
        ids = [hit.id for hit in receipt.body.hits]
        as_id = id_ if id_ in ids else next(other for other in ids if other in derivatives)
        took_part.append((receipt, as_id, ids.index(as_id) + 1))
    return {
        "returned_it": sum(as_id == id_ for _, as_id, _ in took_part),
        "returned_what_was_made_of_it": sum(as_id != id_ for _, as_id, _ in took_part),
        "has_older": page.last is not None,
        "newest": [
            {
                "id": receipt.id,
                "at": isoformat(receipt.at),
                "query": receipt.body.query if isinstance(receipt.body, Recalled) else "",
                "memory": as_id,
                "rank": rank,
            }
            for receipt, as_id, rank in took_part[:NEWEST]
        ],
    }


def derivatives_of(view: View, id_: str) -> list[str]:
    """Return the ids of all that jobs made of a memory, and of that in turn, the nearest first."""
    return [one for one, _ in _walk(id_, view.tail.derivatives)]


def _walk(start: str, following: Callable[[str], Iterable[str]]) -> list[tuple[str, str]]:
    """Return the ids that lead on from one, each with the one it was reached from; MOST at most."""
    found: dict[str, str] = {}
    waiting = [start]
    for id_ in waiting:
        for one in following(id_):
            if one not in found and one != start and len(found) < MOST:
                found[one] = id_
                waiting.append(one)
    return list(found.items())


def _source_ids(view: View, id_: str) -> Sequence[str]:
    memory = view.tail.find(id_)
    return memory.source_ids if memory is not None and memory.state != FORGOTTEN else ()


def _describe(view: View, log: EventLog, id_: str) -> dict[str, Any]:
    """Return a memory or an event of a lineage: what it is now, and the event that began it."""
    events = log.events_for(id_)
    shown = _source(view, log, id_)
    memory = view.tail.find(id_)
    if memory is not None and (made := _origin(log, memory, events)):
        shown |= {"made": made}
    if not events:
        return shown
    first = events[0]
    begun = {
        "at": isoformat(first.at),
        "seq": first.seq,
        "session": first.session,
        "agent": first.agent,
    }
    return shown | {name: value for name, value in begun.items() if value is not None}
