"""
Held memories: hazardous advice that agents are not shown until a person accepts it.

It is held whoever wrote it, since the author of a text can be mistaken. Memories that a person
recorded or accepted are shown. Of a turn only the prompt and the agent's last words are checked:
the commands are a record of what ran, not advice.
"""

from store.log.event_kinds import EPISODE, STATEMENT
from store.memories.memory import Memory
from store.plans.lesson_proposals import ACCEPTED, DRAFTED
from store.text.hazards import Hazard, hazard


def is_accepted(memory: Memory) -> bool:
    """Return True if a person recorded or accepted a memory, and no job, hook or import."""
    is_own = memory.source in (None, ACCEPTED, DRAFTED)
    is_quote = memory.kind in (EPISODE, STATEMENT)
    return memory.trust == "user" and memory.job is None and is_own and not is_quote


def hazard_of(memory: Memory) -> Hazard | None:
    """Return the hazard that holds a memory back; None if agents may be shown it."""
    if is_accepted(memory):
        return None
    beside = () if memory.kind == EPISODE else (memory.context, memory.action)
    texts = (memory.content, memory.result, *beside)
    return next((kind for text in texts if text and (kind := hazard(text))), None)


def is_held(memory: Memory) -> bool:
    """Return True if a memory is held back until a person accepts it."""
    return hazard_of(memory) is not None
