"""
A memory as JSON, and its role for the reader: a rule to follow, or background.

Lessons, antipatterns and preferences are rules, and insights of those types. Only a user or an
agent makes one: text that a tool or the web brought may be quoted and is never more than a fact,
whatever it says. The user's own words are a quote until somebody accepts them.
"""

from typing import Any, Literal

from store.home.instants import isoformat
from store.memories.memory import ACTIVE, FORGOTTEN, Memory
from store.text.text_features import MAY_RULE, RULE_KINDS

Role = Literal["rule", "fact"]


def role(memory: Memory) -> Role:
    """Return what a memory is to the one who reads it; one that holds no longer binds nobody."""
    kind = memory.insight_type if memory.kind == "insight" else memory.kind
    binds = kind in RULE_KINDS and memory.trust in MAY_RULE and memory.state == ACTIVE
    return "rule" if binds else "fact"


def short_json(memory: Memory) -> dict[str, Any]:
    """Return a memory as a hit shows it; what it does not have is left out."""
    shown = {
        "id": memory.id,
        "text": memory.content,
        "kind": memory.kind,
        "project": memory.project,
        "at": isoformat(memory.created_at),
        "context": memory.context,
        "action": memory.action,
        "result": memory.result,
        "tags": list(memory.tags),
        "source": memory.source,
        "created_by": memory.created_by,
        "agent": memory.agent,
        "session": memory.session,
        "trust": memory.trust,
        "pinned": memory.pinned,
        "state": memory.state,
        "superseded_by": memory.superseded_by,
        "ended_at": isoformat(memory.ended_at) if memory.ended_at is not None else None,
    }
    always = ("id", "text", "kind", "project", "at")
    unsaid = {"state": "active"}
    return {
        name: value
        for name, value in shown.items()
        if name in always or (value and unsaid.get(name) != value)
    }


def visible_json(memory: Memory) -> dict[str, Any]:
    """Return a memory as `short` does; a forgotten one as its tombstone, without what it said."""
    found = short_json(memory)
    if memory.state != FORGOTTEN:
        return found
    return {name: found[name] for name in ("id", "kind", "project", "at", "state")} | {"text": ""}
