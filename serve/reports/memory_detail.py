"""
All there is of one memory, as JSON: its edges, duplicates, events and lineage.

The lineage tells how a job came to a memory, what it was made of, what was made of it, and why it
is stale. It is read from the log and the memory as they are now; nothing of it is stored.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from serve.reader.memory_json import visible_json, whole_json
from serve.reader.view import Superseded, View
from store.derived.duplicates import Link
from store.home.errors import NotFound
from store.home.instants import isoformat
from store.log.event_kinds import Applied, Made, Recorded, Staled
from store.log.event_log import EventLog
from store.log.events import Event
from store.memories.memory import FALLEN, FORGOTTEN, OPEN, STALE, SUPERSEDED, Memory
from store.text.excerpt import one_line


def full_json_by_id(view: View, log: EventLog, id_: str) -> dict[str, Any]:
    """Return all there is of a memory, of a forgotten one its tombstone; raise NotFound, also for
    an episode whose turn goes on.
    """
    memory = view.tail.find(id_)
    if memory is None or memory.state == OPEN:
        raise NotFound(f"no memory {id_!r}")
    return visible_json(memory) if memory.state == FORGOTTEN else full_json(view, log, memory)


def full_json(view: View, log: EventLog, memory: Memory) -> dict[str, Any]:
    """Return all there is of a memory: its edges both ways, its lineage, the events about it,
    oldest first.
    """
    edges, events = view.tail.edges_of(memory.id), log.events_for(memory.id)
    return whole_json(memory) | {
        "duplicates": duplicates_of(view, memory.id),
        **lineage(view, log, memory, events),
        "edges": [
            {"source": edge.source, "relation": edge.relation, "target": edge.target}
            for edge in edges
        ],
        "history": [
            {
                "seq": event.seq,
                "at": isoformat(event.at),
                "event": event.kind,
                **msgspec.to_builtins(event.body),
            }
            for event in events
        ],
    }


def duplicates_of(view: View, id_: str) -> list[dict[str, Any]]:
    """Return what says the same as a memory, or the same with another value, as JSON has it.

    `kind` is exact, near or update; of an update, `was` and `becomes` are the values and `is_newer`
    says whether the other is the later one. None of a memory that came after the build.
    """
    of = view.snapshots
    row = of.rows.row(id_)
    if row is None or of.duplicates is None:
        return []
    found = []
    for link in of.duplicates.of(row):
        is_newer = link.of == row
        other = of.rows.take([link.document if is_newer else link.of])[0]
        now = view.tail.find(other.id)
        if now is not None and now.state != FORGOTTEN:
            found.append({"id": other.id, "state": now.state, **_duplicate_fields(link, is_newer)})
    return found


def _duplicate_fields(link: Link, is_newer: bool) -> dict[str, Any]:
    shown: dict[str, Any] = {"kind": link.kind, "likeness": link.likeness}
    if link.kind == "update":
        shown |= {"was": link.was, "becomes": link.becomes, "is_newer": is_newer}
    return shown


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
    found: dict[str, Any] = msgspec.to_builtins(made)
    return found


def _source(view: View, log: EventLog, id_: str) -> dict[str, Any]:
    """Return a source as it is now: a memory, or an event of a session."""
    if view.tail.find(id_) is not None:
        return _one(view, id_)
    told = log.events_for(id_)
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
    return [
        *said,
        *(_invalid_reason(one) for id_ in memory.source_ids if (one := _invalid_source(view, id_))),
    ]


def _invalid_source(view: View, id_: str) -> Memory | None:
    found = view.tail.find(id_)
    return found if found is not None and found.state in FALLEN else None


def _invalid_reason(source: Memory) -> str:
    by = f" by {source.superseded_by}" if source.state == SUPERSEDED else ""
    return f"its source {source.id} is {source.state}{by}"


# History: every value of a key, or what a memory replaced and what replaced it; newest first


def history_of_key(view: View, key: str, project: str | None) -> list[Memory]:
    """Return the values of a key, forgotten ones too; empty for a key nobody recorded.

    With a project, its values and those that belong to no project: two chains, as each has its
    own; without, those of every project.
    """
    found = view.select(view.snapshots.rows.with_key(key), lambda memory: memory.key == key)
    return _newest_first(one for one in found if project is None or one.project in (None, project))


def history_of_memory(view: View, id_: str) -> list[Memory]:
    """Return a memory, what took its place and what that of each, and whose place they took.

    Empty for an unknown id.
    """
    chain: dict[str, Memory] = {}
    newer = view.tail.find(id_)
    while newer is not None and newer.id not in chain:  # two may have replaced each other
        chain[newer.id] = newer
        newer = view.tail.find(newer.superseded_by) if newer.superseded_by else None
    replaced, waiting, seen_ids = Superseded(view), [id_], {id_}
    while waiting:
        for older in replaced.directly(waiting.pop()):
            if older.id not in seen_ids:
                seen_ids.add(older.id)
                chain[older.id] = older
                waiting.append(older.id)
    return _newest_first(chain.values())


def _newest_first(found: Iterable[Memory]) -> list[Memory]:
    return sorted(found, key=lambda one: (-one.created_at, -one.seq))


def history_fields(memory: Memory) -> dict[str, Any]:
    """Return a memory as history shows it: its value, and from when until when it held.

    `until` is null for what still holds, and no later than `from` for what never did.
    """
    ends = [one for one in (memory.ended_at, memory.expires_at) if one is not None]
    value = {} if memory.state == "forgotten" else {"key": memory.key, "value": memory.value}
    return (
        visible_json(memory)
        | {"state": memory.state}
        | {name: said for name, said in value.items() if said is not None}
        | {
            "from": isoformat(memory.created_at),
            "until": isoformat(min(ends)) if ends else None,
        }
    )
