"""
Found: a change that a person may want, the memories it is about and the figures behind it.
"""

from dataclasses import dataclass

from store.log.event_kinds import Step, What
from store.memories.memory import Memory


@dataclass(frozen=True, slots=True)
class Found:
    what: What
    memories: tuple[Memory, ...]
    steps: tuple[Step, ...]
    because: str
