"""
Blocks: how whoever knows only the frame reads what is put before a model, and what it may not hold.
"""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from store.log.event_kinds import EPISODE, TRUSTS
from store.memories.memory import Memory
from store.text.frame import CLOSING, OPENING

HIDDEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u2028-\u202e\u2066-\u2069<>]")


def items(text: str) -> list[dict[str, Any]]:
    """Return the notes of all blocks in a text, read by who knows only the frame's two lines."""
    problems = []
    for part in text.split(OPENING)[1:]:
        for line in part.partition(CLOSING)[0].split("\n"):
            if line.startswith("{"):
                problems.append(msgspec.json.decode(line))
    return problems


def is_turn(note: Mapping[str, Any]) -> bool:
    """Return true if a note of a block is an episode, which names its speakers."""
    return "user_asked" in note and "rule" not in note


def rises(made: Memory, memories: Mapping[str, Memory]) -> bool:
    """Return whether what a job made is trusted more than the least of its sources.

    An episode has the id of its prompt, and that is meant: what tools wrote has ids of its own.
    """
    memories_ = [memories[id_] for id_ in made.source_ids if id_ in memories]
    sources = [memory for memory in memories_ if memory.kind != EPISODE]
    least = max((TRUSTS.index(source.trust) for source in sources), default=0)
    return TRUSTS.index(made.trust) < least
