"""
Held memories: hazardous advice that nobody accepted, and that no agent is shown therefore.

Whoever wrote it: the author of a text can be mistaken. What a person recorded or accepted as such
is shown. A turn is a record of what happened; of it the prompt and the agent's last words are read,
and none of the commands that ran.
"""

from store.log.event_kinds import EPISODE, STATEMENT
from store.memories.memory import Memory
from store.plans.lesson_proposals import ACCEPTED, DRAFTED
from store.text.hazards import Hazard, hazard


def is_accepted(memory: Memory) -> bool:
    """Return whether a person recorded or accepted a memory; no job, hook or import did."""
    is_own = memory.source in (None, ACCEPTED, DRAFTED)
    is_quote = memory.kind in (EPISODE, STATEMENT)
    return memory.trust == "user" and memory.job is None and is_own and not is_quote


def hazard_of(memory: Memory) -> Hazard | None:
    """Return for what a memory is held; None where agents may be shown it."""
    if is_accepted(memory):
        return None
    beside = () if memory.kind == EPISODE else (memory.context, memory.action)
    texts = (memory.content, memory.result, *beside)
    return next((kind for text in texts if text and (kind := hazard(text))), None)


def is_held(memory: Memory) -> bool:
    """Return whether no agent is shown a memory before a person accepted it."""
    return hazard_of(memory) is not None
