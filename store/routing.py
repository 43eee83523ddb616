"""
Routing: what the router may choose, at which level and in which state, and what it serves before
it learned anything. A state is what the asker is at, the task mode, or none.

All defaults together are recall as it is without a router.
"""

from collections.abc import Mapping
from typing import Literal, get_args

from store.log.event_kinds import Actions

State = Literal["debug", "architecture", "coding", "review", "plan", "routine", "none"]
Level = Literal["search", "llm", "context", "proactivity"]
Policy = Mapping[str, Actions]  # an action for each level, by state

STATES: tuple[State, ...] = get_args(State)
LEVELS: Mapping[str, tuple[str, ...]] = {
    "search": ("high_threshold", "medium_threshold", "low_threshold"),
    "llm": ("cheap", "balanced", "expensive"),
    "context": ("raw", "summarize"),
    "proactivity": ("passive", "proactive"),
}
ALPHA = 0.1  # how far one reward moves what is held of an action
EPSILON = 0.15  # the `explore` that is recommended to whoever wants the router to learn

_USUAL = {
    "search": "medium_threshold",
    "llm": "cheap",
    "context": "raw",
    "proactivity": "proactive",
}
_THINKING = _USUAL | {"llm": "balanced"}  # where an answer weighs more than its price
DEFAULTS: Policy = {
    "debug": _THINKING,
    "architecture": _THINKING,
    "coding": _USUAL,
    "review": _USUAL,
    "plan": _USUAL,
    "routine": _USUAL,
    "none": _USUAL,
}


def state(mode: str | None) -> str:
    """Return the state of a task mode; one this version does not know is none."""
    return mode if mode in STATES else "none"


def whole(policy: Policy) -> dict[str, Actions]:
    """Return a policy for every state and level; what it does not say, or says of an action this
    version does not have, is the default.
    """
    return {
        one: {
            level: said if (said := policy.get(one, {}).get(level)) in actions else usual[level]
            for level, actions in LEVELS.items()
        }
        for one, usual in DEFAULTS.items()
    }
