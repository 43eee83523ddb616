"""
A memory as JSON, and its role for the reader: a rule to follow, or background.

The user's lessons, antipatterns and preferences are rules, and insights of those types, recorded or
accepted by the user. An agent's are lessons, which advise and do not bind. Text from a tool or the
web may be quoted and is never more than a fact. The user's own words from a prompt are a quote
until a person accepts them.

Advice that is held back (`serve.reader.held`) is marked `held`; within `for_agents`, which covers
answers of MCP and of the command line in an agent's shell, its words are left out.
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
_STATED = ("tags", "trust", "pinned", "state", "agent", "superseded_by")  # even if empty
_WHOLE = [field for field in FIELDS if field.shown in ("list", "whole") or field.name in _STATED]


def role(memory: Memory) -> Role:
    """Return a memory's role for the reader; a memory that no longer holds is never a rule."""
    return "rule" if memory.trust == BINDING and is_lesson(memory) else "fact"


def is_lesson(memory: Memory) -> bool:
    """Return True if a memory gives instructions: as a rule, or as an agent's advice."""
    kind = memory.insight_type if memory.kind == "insight" else memory.kind
    return kind in RULE_KINDS and memory.trust in MAY_RULE and memory.state == ACTIVE


_is_agent: ContextVar[Callable[[], bool]] = ContextVar("is_agent", default=lambda: False)


@contextmanager
def for_agents(is_agent: Callable[[], bool] = lambda: True) -> Iterator[None]:
    """Withhold held advice within the block; `is_agent` is called only for held advice."""
    token = _is_agent.set(is_agent)
    try:
        yield
    finally:
        _is_agent.reset(token)


def is_withheld(memory: Memory) -> bool:
    """Return True if a memory's words are withheld from the current caller."""
    return hazard_of(memory) is not None and _is_agent.get()()


def shown_text(memory: Memory) -> str:
    """Return a memory's text, "" if it is withheld."""
    return "" if is_withheld(memory) else memory.content


def short_json(memory: Memory) -> dict[str, Any]:
    """Return the fields of a memory in a hit; missing ones are left out."""
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
    """Return the fields of a list beside `short_json`; missing ones are left out."""
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
    """Return a memory's metadata, {} if it has none."""
    payload: dict[str, Any] = msgspec.json.decode(memory.metadata)
    return payload


def whole_json(memory: Memory) -> dict[str, Any]:
    """Return all fields, with null for missing ones, except those that only a hit shows."""
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
    """Return a memory as `visible_json` does, with its state even if it is active."""
    return visible_json(memory) | {"state": memory.state}


def visible_json(memory: Memory) -> dict[str, Any]:
    """Return a memory as `short_json` does; a forgotten one as its tombstone, without its text."""
    payload = short_json(memory)
    if memory.state != FORGOTTEN:
        return payload
    return {name: payload[name] for name in ("id", "kind", "project", "at", "state")} | {"text": ""}
