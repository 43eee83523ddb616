"""
Rules apart from background: what of the recalled is to be followed, what is only good to know, and
what is not said unasked.

Lessons, antipatterns and preferences are rules, and insights of those types. Only a user or an
agent makes one: text that a tool or the web brought is never more than a fact, whatever it says.
"""

from typing import Literal

from store.projections.memories import ACTIVE, Memory
from store.traits import MAY_RULE, RULE_KINDS

Role = Literal["rule", "fact"]


def role(memory: Memory) -> Role:
    """Return what a memory is to the one who reads it; one that holds no longer binds nobody."""
    kind = memory.insight_type if memory.kind == "insight" else memory.kind
    binds = kind in RULE_KINDS and memory.trust in MAY_RULE and memory.state == ACTIVE
    return "rule" if binds else "fact"


def may_come_unasked(memory: Memory) -> bool:
    """Return whether a memory may be put before a model that did not ask for it.

    What a tool or the web said may not, until a person pins it, and not by what it says of itself
    when it is written: it is found when it is asked for.
    """
    return memory.trust in MAY_RULE or memory.pinned
