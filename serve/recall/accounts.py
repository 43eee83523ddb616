"""
One account of a thing: its last change, or its beginning, placed first among the hits.

"Is the old exporter still around?", "who has the pager now?", "when did we add it?" are answered
by one memory of a thing, while others have more of its words. Of the hits that are about the thing
as much as the best, the newest that announces a change takes the first place, else the newest
record; or the oldest if its beginning is asked for. This adds no hits.
"""

import re
from collections.abc import Mapping, Sequence

from serve.recall.classification import Account
from store.log.event_kinds import EPISODE
from store.memories.memory import Memory
from store.text import tokenizer
from store.text.claims import Claim, claims

_ABOUT = 0.6  # of the best coverage of the question's terms
_BEGUN = 0.8
_ENDS = ("ends", "no_longer", "instead", "moved", "now", "back")
_OVER = re.compile(
    r"\b(?:closed|lifted|retired|(?:switched|turned) off|shut down|gone|over|out|no more)\b",
    re.IGNORECASE,
)
_READ = 600  # characters of a memory


def place_first(
    account: Account, weights: Mapping[str, float], memories: Sequence[Memory]
) -> int | None:
    """Return the place of the memory that answers for a thing's last change or its beginning, by
    the `weights` of the terms that name it; None if none of them does.
    """
    # turns of conversations often mention a time, but are no accounts of a thing
    parts = [
        [] if memory.kind == "raw_turn" else [*map(_terms, _claims(memory))] for memory in memories
    ]
    shares = [
        sum(weights[term] for term in frozenset().union(*terms) & weights.keys()) for terms in parts
    ]
    best = max(shares, default=0.0)
    if best <= 0.0:
        return None
    if account == "beginning":
        early = [place for place, share in enumerate(shares) if share >= _BEGUN * best]
        return min(early, key=lambda place: memories[place].created_at)
    changes = [
        place
        for place, memory in enumerate(memories)
        if shares[place] >= _ABOUT * best and _announces_change(memory, weights)
    ]
    if not changes:
        changes = [
            place
            for place, memory in enumerate(memories)
            if shares[place] >= best and memory.kind != EPISODE
        ]
    return max(changes, key=lambda place: memories[place].created_at, default=None)


def _announces_change(memory: Memory, weights: Mapping[str, float]) -> bool:
    """Return True if a sentence about the thing, or one beside it, announces a change."""
    read = _claims(memory)
    return any(
        any(claim.has(cue) for cue in _ENDS) or _OVER.search(claim.text) is not None
        for place, claim in enumerate(read)
        if any(
            not weights.keys().isdisjoint(_terms(beside))
            for beside in read[max(0, place - 1) : place + 2]
        )
    )


def _claims(memory: Memory) -> list[Claim]:
    return claims(memory.content[:_READ])


def _terms(claim: Claim) -> frozenset[str]:
    return frozenset(tokenizer.terms(claim.text))
