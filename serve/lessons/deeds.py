"""
Deeds: which of the user's rules and statements bear on what is about to be done, by meaning.

A rule shares few words with its deed ("amounts in cents" with "add a discount"), and a recall ranks
it behind every turn that does. So all that the user laid down here is looked at apart: by the words
it shares, each weighed by how few of the others hold it, and by its topics likewise (`topics`).
"""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from serve.lessons.rule_index import rules
from serve.lessons.topics import topics
from serve.reader.filters import Filter
from serve.reader.memory_json import role
from serve.reader.view import View, newest
from store.agents.prompt_classifier import read
from store.log.event_kinds import STATEMENT
from store.memories.memory import Memory
from store.text import tokenizer
from store.text.text_features import MAY_RULE

MOST = 400  # statements, the newest


@dataclass(frozen=True, slots=True)
class Bearing:
    """How a rule or statement bears on a deed, of `among` that were laid down.

    `words` and `topics` are the weights of those it shares, `share` how much of its own topics that
    is, `before` how many bear more than it, `lead` how much more it bears than the next.
    """

    memory: Memory
    words: float
    topics: float
    share: float
    before: int
    lead: float
    among: int

    @property
    def lasts(self) -> float:
        """How likely its words last; what the user accepted does."""
        return _lasts(self.memory.content) if self.memory.kind == STATEMENT else 1.0


def is_laid_down(memory: Memory) -> bool:
    """Return whether a memory is the user's own word: a statement, or a rule that binds."""
    return memory.kind == STATEMENT or role(memory) == "rule"


def bearings(view: View, asked: Filter, deed: str) -> dict[str, Bearing]:
    """Return what bears on a deed by its id, what bears most first; `deed` is a prompt's text."""
    those = list(_laid_down(view, asked))
    if not those:
        return {}
    held = [_words_and_topics(one.content) for one in those]
    words, about = _words_and_topics(deed)
    by_word = _weights(words, [one[0] for one in held])
    by_topic = _weights(None, [one[1] for one in held])
    found = []
    for memory, (its_words, its_topics) in zip(those, held, strict=True):
        shared = sum(by_word[word] for word in words & its_words)
        same = sum(by_topic[topic] for topic in about & its_topics)
        whole = sum(by_topic[topic] for topic in its_topics)
        found.append((shared + same, memory, shared, same, same / whole if whole else 0.0))
    found.sort(key=lambda one: -one[0])
    scores = [one[0] for one in found]
    return {
        memory.id: Bearing(
            memory,
            shared,
            same,
            share,
            scores.index(score),
            score - (scores[place + 1] if place + 1 < len(scores) else 0.0),
            len(those),
        )
        for place, (score, memory, shared, same, share) in enumerate(found)
    }


def _weights(wanted: frozenset[str] | None, held: list[frozenset[str]]) -> dict[str, float]:
    """Return how much each word or topic tells, by how few hold it."""
    counts = Counter(one for some in held for one in (some if wanted is None else some & wanted))
    if wanted is not None:
        counts.update(dict.fromkeys(wanted, 0))
    size = len(held)
    return {
        one: math.log(1.0 + (size - count + 0.5) / (count + 0.5)) for one, count in counts.items()
    }


def _laid_down(view: View, asked: Filter) -> Iterator[Memory]:
    yield from (one for one in rules(view, asked) if role(one) == "rule")
    those = replace(asked, kinds=(STATEMENT,))
    yield from (one for one in newest(view, those, MOST) if one.trust in MAY_RULE)


@lru_cache(maxsize=8_192)  # the same statements are read at every prompt
def _words_and_topics(text: str) -> tuple[frozenset[str], frozenset[str]]:
    return frozenset(tokenizer.terms(text)), topics(text)


@lru_cache(maxsize=8_192)
def _lasts(text: str) -> float:
    return max((one.lasts for one in read(text)), default=0.0)
