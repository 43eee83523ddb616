"""
Scoring: how much a memory matters and what it is kept as, where nobody said so.

Told by what is known when it is written and does not change, so that a replay gives the same. Mild
on purpose: importance may move a memory among those that answer nearly as well, no further
(docs/recall.md). The job `importance` revises it later, by what became of the memory.
"""

from collections.abc import Mapping

TOOLS = ("tool", "web")  # trusts of what no person and no agent said
_LESS = 0.05  # what is taken off there
_MORE = 0.05  # what the value of a key gains: it is looked up

# a half says nothing; what binds what is done next is above it, what merely happened below
BY_KIND: Mapping[str, float] = {
    "antipattern": 0.7,
    "preference": 0.7,
    "decision": 0.65,
    "lesson": 0.65,
    "bugfix": 0.6,
    "goal": 0.6,
    "milestone": 0.6,
    "pattern": 0.6,
    "fact": 0.5,
    "insight": 0.5,  # rests on others, and is not to pass them
    "summary": 0.5,
    "context": 0.5,
    "raw_turn": 0.5,
    "observation": 0.45,
    "activity": 0.4,
    "statement": 0.6,
    "episode": 0.5,
}
_HAPPENED = frozenset(
    "raw_turn activity observation context milestone bugfix summary episode".split()
)
_OF_ITS_SESSION = frozenset(("activity", "context"))


def importance(kind: str, trust: str, key: str | None) -> float:
    """Return how much a memory matters, 0 to 1, by its kind, who said it, and whether it has a
    key.
    """
    found = BY_KIND.get(kind, 0.5)
    found += _MORE if key is not None else 0.0
    found -= _LESS if trust in TOOLS else 0.0
    return round(found, 2)


def tier(kind: str, session: str | None, key: str | None, *, pinned: bool) -> str:
    """Return what a memory is kept as.

    "working" is what is at hand: goals, and what was going on in a session; "episodic" what
    happened; "semantic" what holds. What is pinned or has a key holds.
    """
    if pinned or key is not None:
        return "semantic"
    if kind == "goal" or (kind in _OF_ITS_SESSION and session is not None):
        return "working"
    return "episodic" if kind in _HAPPENED else "semantic"
