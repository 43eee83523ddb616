"""Blocks: a reader of a model's context that knows only the frame, and the forbidden characters."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from store.log.event_kinds import EPISODE, TRUSTS
from store.memories.memory import Memory
from store.text.frame import CLOSING, OPENING

HIDDEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u2028-\u202e\u2066-\u2069<>]")


def items(text: str) -> list[dict[str, Any]]:
    """Return the notes of all blocks in a text, found by the frame's two lines alone."""
    problems = []
    for part in text.split(OPENING)[1:]:
        for line in part.partition(CLOSING)[0].split("\n"):
            if line.startswith("{"):
                problems.append(msgspec.json.decode(line))
    return problems


def is_turn(note: Mapping[str, Any]) -> bool:
    """Return True if a note of a block is an episode, which names its speakers."""
    return "user_asked" in note and "rule" not in note


def rises(made: Memory, memories: Mapping[str, Memory]) -> bool:
    """Return True if a job's memory has more trust than its least trusted source.

    Episodes are ignored: an episode's id stands for its prompt, and tool outputs have their own
    ids.
    """
    memories_ = [memories[id_] for id_ in made.source_ids if id_ in memories]
    sources = [memory for memory in memories_ if memory.kind != EPISODE]
    least = max((TRUSTS.index(source.trust) for source in sources), default=0)
    return TRUSTS.index(made.trust) < least
