"""
A memory as JSON, and its role for the reader: a rule to follow, or background.

Lessons, antipatterns and preferences of the user are rules, and insights of those types: what the
user recorded and what the user accepted. An agent's are lessons, which advise and do not bind. Text
that a tool or the web brought may be quoted and is never more than a fact, whatever it says. The
user's own words from a prompt are a quote until somebody accepts them.

Advice that is held back (`serve.reader.held`) is marked `held`; within `for_agents`, where MCP
answers and the command line in an agent's shell, nothing else is told of it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from operator import attrgetter
from typing import Any, Literal

import msgspec

from serve.reader.held import hazard_of
from store.home.instants import isoformat
from store.memories.memory import ACTIVE, FIELDS, FORGOTTEN, Field, Memory
from store.text.text_features import BINDING, MAY_RULE, RULE_KINDS

Role = Literal["rule", "fact"]

_IN_HITS = [field for field in FIELDS if field.shown == "hit"]
_HIT_NAMES = [field.shown_as or field.name for field in _IN_HITS]
_hit_values = attrgetter(*(field.name for field in _IN_HITS))
_IN_LISTS = [field for field in FIELDS if field.shown == "list"]
_STATED = ("tags", "trust", "pinned", "state", "agent", "superseded_by")  # even where they are none
_WHOLE = [field for field in FIELDS if field.shown in ("list", "whole") or field.name in _STATED]


def role(memory: Memory) -> Role:
    """Return what a memory is to the one who reads it; one that holds no longer binds nobody."""
    return "rule" if memory.trust == BINDING and is_lesson(memory) else "fact"


def is_lesson(memory: Memory) -> bool:
    """Return whether a memory says what to do: as a rule, or as an agent's advice."""
    kind = memory.insight_type if memory.kind == "insight" else memory.kind
    return kind in RULE_KINDS and memory.trust in MAY_RULE and memory.state == ACTIVE


_is_agent: ContextVar[Callable[[], bool]] = ContextVar("is_agent", default=lambda: False)


@contextmanager
def for_agents(is_agent: Callable[[], bool] = lambda: True) -> Iterator[None]:
    """Withhold held advice from what is told of memories within; `is_agent` is asked once one is
    met.
    """
    token = _is_agent.set(is_agent)
    try:
        yield
    finally:
        _is_agent.reset(token)


def is_withheld(memory: Memory) -> bool:
    """Return whether a memory's words are kept from whoever is answered."""
    return hazard_of(memory) is not None and _is_agent.get()()


def shown_text(memory: Memory) -> str:
    """Return a memory's text; "" where it is withheld."""
    return "" if is_withheld(memory) else memory.content


def short_json(memory: Memory) -> dict[str, Any]:
    """Return a memory as a hit shows it; what it does not have is left out."""
    payload: dict[str, Any] = {}
    if (hazard := hazard_of(memory)) is not None:
        payload["held"] = hazard
        if _is_agent.get()():
            names = ("id", "kind", "project", "trust", "state")
            payload |= {name: getattr(memory, name) for name in names}
            return payload | {"at": isoformat(memory.created_at), "text": ""}
    for field, name, value in zip(_IN_HITS, _HIT_NAMES, _hit_values(memory), strict=True):
        has_value = value is not None if field.is_moment else value
        if field.always or (has_value and not (value == ACTIVE and name == "state")):
            is_plain = isinstance(value, str) and field.name != "metadata"
            payload[name] = value if is_plain else _json_value(field, value)
    return payload


def listed_json(memory: Memory) -> dict[str, Any]:
    """Return what a list shows beside `short_json`; what the memory does not have is left out."""
    if is_withheld(memory):
        return {}
    values = ((field, getattr(memory, field.name)) for field in _IN_LISTS)
    payload = {
        field.name: _json_value(field, value) for field, value in values if value is not None
    }
    if not payload["metadata"]:
        del payload["metadata"]
    return payload


def metadata_json(memory: Memory) -> dict[str, Any]:
    """Return a memory's metadata, {} where it has none."""
    payload: dict[str, Any] = msgspec.json.decode(memory.metadata)
    return payload


def whole_json(memory: Memory) -> dict[str, Any]:
    """Return all fields, with null for what the memory does not have but what a hit would show."""
    if is_withheld(memory):
        return short_json(memory)
    always = {field.name: _json_value(field, getattr(memory, field.name)) for field in _WHOLE}
    return short_json(memory) | always


def _json_value(field: Field, value: Any) -> Any:
    if field.is_moment:
        return None if value is None else isoformat(value)
    if field.name == "metadata":
        return msgspec.json.decode(value)
    return list(value) if isinstance(value, tuple) else value


def line_json(memory: Memory) -> dict[str, Any]:
    """Return a memory as `visible_json` does, its state even where it is active."""
    return visible_json(memory) | {"state": memory.state}


def visible_json(memory: Memory) -> dict[str, Any]:
    """Return a memory as `short` does; a forgotten one as its tombstone, without what it said."""
    payload = short_json(memory)
    if memory.state != FORGOTTEN:
        return payload
    return {name: payload[name] for name in ("id", "kind", "project", "at", "state")} | {"text": ""}
