"""
Words: what the texts of some memories share, as they are written, and their telling sentences.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from store.memories.memory import Memory
from store.text import tokenizer

LONGEST = 200  # characters of a quoted sentence
OWN = 4
_SHORT = 4.0  # terms; among shorter sentences length says nothing
_LEAST = 12  # characters; shorter ones say nothing alone
_ALIKE = 0.6  # the share of terms from which two sentences say the same
_READ = 2_000  # characters of a memory that are read

# what stands below a commit's message, or below a note of one: names, and nothing that is said
_TRAILER = re.compile(r"(?:files|fixes|closes|refs|co-authored-by|signed-off-by)\b[: #]", re.I)
# a single line break within a sentence only wraps it
_SENTENCE = re.compile(
    r"(?<=[.!?])\s+|(?<=[。！？])\s*|\n(?=\s{0,20}(?:\n|[-*#>|]|\d+[.)]\s"
    r"|(?:files|fixes|closes|refs|co-authored-by|signed-off-by)\b[: #]))",
    re.IGNORECASE,
)
_RELEASE = re.compile(
    r"\b(?:releas(?:e|ed|ing)|tagg?(?:ed)?|bump(?:ed)?|shipped)\b[^.\n]{0,40}?\bv?\d+\.\d+",
    re.IGNORECASE,
)
_FAILURE = re.compile(
    r"\b(?:fail(?:s|ed|ing|ure)?|error|crash(?:es|ed)?|broke(?:n)?|exception|traceback|timed? ?out"
    r"|panic|killed|refused|hangs?|hung|exit code [1-9])\b|(?:Error|Exception)\b",
    re.IGNORECASE,
)
_EDGES = " \t.,;:!?()[]{}\"'`*<>"


@lru_cache(maxsize=32_768)
def terms(said: str) -> frozenset[str]:
    return frozenset(tokenizer.terms(said[:_READ]))


@dataclass(frozen=True)
class Usual:
    """In how many of `count` memories each term is."""

    count: int
    held: Mapping[str, int]

    @classmethod
    def of(cls, memories: Sequence[Memory]) -> "Usual":
        held: Counter[str] = Counter()
        for one in memories:
            held.update(terms(one.content))
        return cls(len(memories), held)

    def weight(self, term: str) -> float:
        """Return how much a term tells: its idf, 0 where nobody holds it."""
        held = self.held.get(term, 0)
        return math.log1p(self.count / held) if held else 0.0


def topic(memories: Sequence[Memory], usual: Usual, most: int) -> list[str]:
    """Return the words that some memories have in common and others have not, as written.

    Half of them hold each, two at least, and of all that hold it every OWN-th is one of them. The
    most telling come first; numbers alone are no topic.
    """
    held: Counter[str] = Counter()
    for one in memories:
        held.update(terms(one.content))
    least = max(2, -(-len(memories) // 2))
    found = [
        term
        for term, times in held.items()
        if times >= least and times * OWN >= usual.held.get(term, 0) and not term.isdigit()
    ]
    found.sort(key=lambda term: (-usual.weight(term) * held[term], term))
    written = _written(memories, set(found[:most]))
    return list(dict.fromkeys(written[term] for term in found[:most] if term in written))


def _written(memories: Sequence[Memory], wanted: set[str]) -> dict[str, str]:
    """Return how each of some terms is written most often, the shortest first of equals."""
    forms: dict[str, Counter[str]] = {term: Counter() for term in wanted}
    for one in memories:
        for chunk in one.content[:_READ].split():
            word = chunk.strip(_EDGES)
            for term in wanted.intersection(tokenizer.terms(word)):
                forms[term][word] += 1
    return {
        term: min(count, key=lambda word: (-count[word], len(word), word))
        for term, count in forms.items()
        if count
    }


def sentences(said: str) -> list[str]:
    """Return the sentences of a text that say something alone and are no longer than LONGEST."""
    found = (" ".join(one.split()).lstrip("-* ") for one in _SENTENCE.split(said[:_READ]))
    return [one for one in found if _LEAST <= len(one) <= LONGEST and not _TRAILER.match(one)]


def telling(memory: Memory, wanted: Mapping[str, float]) -> str:
    """Return the sentence of a memory that holds most of what is `wanted`, for its length; "" where
    none is short enough to be quoted whole.
    """
    found = sentences(memory.content)
    if not found and len(memory.content) <= LONGEST:
        found = [" ".join(memory.content.split())]

    def worth(sentence: str) -> float:
        held = terms(sentence)
        total = sum(wanted.get(term, 0.0) for term in held)
        return total / math.sqrt(_SHORT + len(held))

    return max(found, key=worth, default="")


def distinct(quoted: Iterable[tuple[Memory, str]], most: int) -> list[tuple[Memory, str]]:
    """Return the first few of some sentences that do not say what an earlier one said."""
    kept: list[tuple[Memory, str]] = []
    for memory, sentence in quoted:
        if not sentence:
            continue
        held = terms(sentence)
        near = (len(held & terms(one)) / max(1, len(held | terms(one))) for _, one in kept)
        if all(share < _ALIKE for share in near):
            kept.append((memory, sentence))
            if len(kept) == most:
                break
    return kept


def is_release(said: str) -> bool:
    """Return whether a text tells of a release: "Release 2.4.0", "tagged v1.0"."""
    return _RELEASE.search(said[:LONGEST]) is not None


def is_failure(said: str) -> bool:
    """Return whether a text tells of something that went wrong."""
    return _FAILURE.search(said[:_READ]) is not None
