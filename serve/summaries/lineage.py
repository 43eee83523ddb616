"""
Lineage: how a job came to a memory, what it was made of, what was made of it, and why it is stale.

Read from the log and the memory as they are now; nothing of it is kept.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from serve.reader.reader import View
from store.home.instants import isoformat
from store.log.event_kinds import Applied, Made, Recorded, Staled
from store.log.event_log import EventLog
from store.log.events import Event
from store.memories.memory import FALLEN, FORGOTTEN, STALE, SUPERSEDED, Memory
from store.text.excerpt import one_line

MOST = 50  # sources, and memories made of one
_LONGEST = 160  # characters of a text


def lineage(view: View, log: EventLog, memory: Memory, events: Sequence[Event]) -> dict[str, Any]:
    """Return the lineage of a memory, empty parts left out; `events` are those about it."""
    found = {
        "made": _made(log, memory, events),
        "sources": [_source(view, log, id_) for id_ in memory.source_ids[:MOST]],
        "made_of_it": [_one(view, id_) for id_ in view.tail.made_of(memory.id)[:MOST]],
        "stale_because": list(_because(view, memory, events)),
    }
    return {name: value for name, value in found.items() if value}


def _made(log: EventLog, memory: Memory, events: Sequence[Event]) -> dict[str, Any]:
    """Return which job made a memory, how, and by which plan; empty where none did."""
    first = events[0].body if events else None
    if not isinstance(first, Recorded) or first.made is None:
        return {}
    plans = [
        event.subject
        for event in log.of_jobs(("applied",))
        if isinstance(event.body, Applied) and memory.id in event.body.events
    ]
    return _of(first.made) | ({"plan": plans[-1]} if plans else {})


def _of(made: Made) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(made)
    return found


def _source(view: View, log: EventLog, id_: str) -> dict[str, Any]:
    """Return a source as it is now: a memory, or an event of a session."""
    if view.tail.find(id_) is not None:
        return _one(view, id_)
    told = log.about(id_)
    if not told:
        return {"id": id_, "state": "unknown"}
    return {"id": id_, "event": told[0].kind, "at": isoformat(told[0].at)}


def _one(view: View, id_: str) -> dict[str, Any]:
    memory = view.tail.find(id_)
    if memory is None:
        return {"id": id_, "state": "unknown"}
    shown = {"id": id_, "kind": memory.kind, "trust": memory.trust, "state": memory.state}
    shown |= {"job": memory.job or ""}
    text = "" if memory.state == FORGOTTEN else one_line(memory.content, _LONGEST)
    return {name: value for name, value in (shown | {"text": text}).items() if value}


def _because(view: View, memory: Memory, events: Sequence[Event]) -> list[str]:
    """Return why a memory is stale: what was said of it, else which of its sources fell."""
    if memory.state != STALE:
        return []
    last = next((one for one in reversed(events) if one.kind in ("staled", "restored")), None)
    said = [last.body.reason] if last is not None and isinstance(last.body, Staled) else []
    return [*said, *(_fell(one) for id_ in memory.source_ids if (one := _fallen(view, id_)))]


def _fallen(view: View, id_: str) -> Memory | None:
    found = view.tail.find(id_)
    return found if found is not None and found.state in FALLEN else None


def _fell(source: Memory) -> str:
    by = f" by {source.superseded_by}" if source.state == SUPERSEDED else ""
    return f"its source {source.id} is {source.state}{by}"
