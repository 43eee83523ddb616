"""
Past: what happened to a memory, event by event, each revision as what it replaced by what.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from serve.dashboard.wording import pretty
from store.events import Event, Linked, Pinned, Rated, Recorded, Revised, Superseded

FIELDS = tuple(name for name in Revised.__struct_fields__ if name not in ("reason", "ttl_s"))
_TEXTS = ("content", "context", "action", "result")
_WORDS = {  # where the event's kind does not say it well
    "revised": "changed",
    "superseded": "replaced",
    "staled": "stale",
    "surfaced": "shown to an agent",
}


@dataclass(frozen=True, slots=True)
class Change:
    """A field, and what it said before and after."""

    field: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Step:
    """One event. `counts` is false where the plan it belongs to was undone."""

    seq: int
    at: int
    what: str
    by: str
    reason: str
    changes: tuple[Change, ...]
    other: str | None
    counts: bool


def past(events: Sequence[Event], undone: frozenset[str]) -> list[Step]:
    """Return the steps of a memory, the newest first; `events` are those about it, in order."""
    return [_step(event, held, undone) for event, held in _each(events, undone)][::-1]


def before(events: Sequence[Event], seq: int, undone: frozenset[str]) -> Revised | None:
    """Return the revision that puts back what the one with a seq replaced; None: nothing does.

    A field that had no value is emptied where it holds a text, and stays as it is otherwise.
    """
    for event, held in _each(events, undone):
        if event.seq == seq and isinstance(event.body, Revised):
            found = {
                name: "" if held[name] is None and name in _TEXTS else held[name]
                for name in FIELDS
                if getattr(event.body, name) is not None
            }
            given: dict[str, Any] = {name: one for name, one in found.items() if one is not None}
            return Revised(**given, reason="put back") if given else None
    return None


def _each(events: Sequence[Event], undone: frozenset[str]) -> list[tuple[Event, dict[str, Any]]]:
    """Return each event with the fields as they were before it."""
    held: dict[str, Any] = dict.fromkeys(FIELDS)
    found = []
    for event in events:
        found.append((event, dict(held)))
        if isinstance(event.body, Recorded | Revised) and event.id not in undone:
            values = {name: getattr(event.body, name) for name in FIELDS}
            held |= {name: value for name, value in values.items() if value is not None}
    return found


def _step(event: Event, held: dict[str, Any], undone: frozenset[str]) -> Step:
    body = event.body
    what, other = _WORDS.get(event.kind, event.kind), None
    changes: tuple[Change, ...] = ()
    match body:
        case Revised():
            changes = tuple(
                Change(name, _text(held[name]), _text(value))
                for name in FIELDS
                if (value := getattr(body, name)) is not None and value != held[name]
            )
        case Superseded(by=by):
            other = by
        case Linked(target=target, relation=relation):
            what, other = f"linked: {relation}", target
        case Pinned(pinned=pinned):
            what = "pinned" if pinned else "unpinned"
        case Rated(verdict=verdict):
            what = f"rated {verdict:+g}"
    reason = getattr(body, "reason", None) or ""
    by_whom = event.agent or ("" if event.trust == "user" else event.trust)
    return Step(event.seq, event.at, what, by_whom, reason, changes, other, event.id not in undone)


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, tuple):
        return ", ".join(value)
    if isinstance(value, dict):
        return pretty(value)
    return f"{value:g}"
