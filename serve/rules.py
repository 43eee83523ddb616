"""
Rules apart from background: what of the recalled is to be followed, what is only good to know.

Lessons, antipatterns and preferences are rules, and insights of those types. Only a user or an
agent makes one: text that a tool or the web brought may be quoted and is never more than a fact,
whatever it says. The user's own words are a quote until somebody accepts them.
"""

from typing import Literal

from store.memories.memory import ACTIVE, Memory
from store.text.text_features import MAY_RULE, RULE_KINDS

Role = Literal["rule", "fact"]


def role(memory: Memory) -> Role:
    """Return what a memory is to the one who reads it; one that holds no longer binds nobody."""
    kind = memory.insight_type if memory.kind == "insight" else memory.kind
    binds = kind in RULE_KINDS and memory.trust in MAY_RULE and memory.state == ACTIVE
    return "rule" if binds else "fact"
