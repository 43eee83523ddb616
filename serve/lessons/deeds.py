"""
Deeds: the user's rules and statements that apply to a planned action, by meaning.

A rule shares few words with its deed ("amounts in cents" with "add a discount"), and a recall ranks
it behind every turn that does. So the user's rules and statements are scored apart: by the words
they share with the deed, each weighed by its rarity among them, and by topics likewise (`topics`).

Before a tool fewer are shown: sentences of them that are orders, and either name the tool
(`matching`) or share with it a name of the file, or two words of the command, that is rare among
the statements and in the whole memory: a word that a project is about points to no deed.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import msgspec
import numpy as np
from msgspec.structs import replace

from serve.lessons.matching import MAX_ABOUT, RuleMatch, Rules
from serve.lessons.rule_index import rests, rules, unjudged_tellings
from serve.lessons.topics import topics, words
from serve.reader.filters import Filter
from serve.reader.held import is_held
from serve.reader.memory_json import role
from serve.reader.snapshots import Snapshots
from serve.reader.view import View
from store.agents.prompt_classifier import Said
from store.derived.statement_weights import lasting, lasting_sentences
from store.log.event_kinds import STATEMENT
from store.memories.memory import Memory
from store.text import tokenizer
from store.text.text_features import MAY_RULE

MOST = 400  # statements, the newest


class Bearing(msgspec.Struct, frozen=True):
    """The bearing of one of `among` rules and statements on a deed.

    `words` and `topics` are the weights of those it shares, `share` the part of its own topics that
    it shares, `before` the number with a larger bearing, `lead` its lead over the next.
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
        """The probability that its words last; 1 for a rule the user accepted."""
        return _lasting(self.memory) if self.memory.kind == STATEMENT else 1.0


def is_laid_down(memory: Memory) -> bool:
    """Return True if a memory is the user's own word: a statement, or a rule that binds."""
    return memory.kind == STATEMENT or role(memory) == "rule"


def bearings(view: View, conditions: Filter, deed: str) -> dict[str, Bearing]:
    """Return the bearing of each rule and statement on a deed, by its id, the largest first.

    `deed` is a prompt's text.
    """
    binding = [memory for memory in rules(view, conditions) if role(memory) == "rule"]
    laid_down = _laid_down(view, [*binding, *statements(view, conditions)])
    deed_words, deed_topics = _words_and_topics(deed)
    by_word = {word: laid_down.weight(laid_down.words[word]) for word in deed_words}
    by_topic = {topic: laid_down.weight(laid_down.topics[topic]) for topic in deed_topics}
    scored = []
    for memory, (its_words, its_topics), whole in laid_down.memories:
        of_words = sum(by_word[word] for word in deed_words & its_words)
        of_topics = sum(by_topic[topic] for topic in deed_topics & its_topics)
        share = of_topics / whole if whole else 0.0
        scored.append((of_words + of_topics, memory, of_words, of_topics, share))
    scored.sort(key=lambda bearing: -bearing[0])
    scores = [score for score, *_ in scored]
    return {
        memory.id: Bearing(
            memory,
            of_words,
            of_topics,
            share,
            scores.index(score),
            score - (scores[place + 1] if place + 1 < len(scores) else 0.0),
            len(scored),
        )
        for place, (score, memory, of_words, of_topics, share) in enumerate(scored)
    }


class LaidDown:
    """Some rules and statements, and the counts of each word and topic. Threads may share it.

    `memories` has each with its words and topics, and the weight of all its topics.
    """

    def __init__(self, memories: Sequence[Memory]) -> None:
        features = [_words_and_topics(memory.content) for memory in memories]
        self.size = len(features)
        self.words = Counter(word for its_words, _ in features for word in its_words)
        self.topics = Counter(topic for _, its_topics in features for topic in its_topics)
        self.memories = [
            (memory, both, sum(self.weight(self.topics[topic]) for topic in both[1]))
            for memory, both in zip(memories, features, strict=True)
        ]

    def weight(self, count: int) -> float:
        """Return the weight of a word or topic that `count` of them have."""
        return math.log(1.0 + (self.size - count + 0.5) / (count + 0.5))

    @cached_property
    def orders(self) -> list[Memory]:
        """The sentences that are lasting orders, each as its memory with this text alone."""
        return [
            replace(memory, content=sentence.text)
            for memory, *_ in self.memories
            for sentence in _sure_sentences(memory)
            if _ORDERS.search(sentence.text) and len(sentence.text.split()) <= _LONGEST_ORDER
        ]

    @cached_property
    def rules(self) -> Rules:
        return Rules(self.orders)

    @cached_property
    def named(self) -> list[tuple[Memory, frozenset[str]]]:
        """The orders, each with the words that may name a file or a command."""
        return [(order, frozenset(words(order.content))) for order in self.orders]

    @cached_property
    def names(self) -> Counter[str]:
        """The number of memories with each word that may name a file or a command."""
        return Counter(
            name for memory, *_ in self.memories for name in frozenset(words(memory.content))
        )


_CACHED = 16  # sets of statements whose counts are cached


@dataclass(frozen=True)
class RowStatements:
    """The statements of one snapshot by project, with their rows. Threads may share it.

    Use `snapshots.once(RowStatements)`.
    """

    snapshots: Snapshots
    by_project: dict[str | None, list[tuple[int, Memory]]] = field(default_factory=dict)
    laid_down: dict[tuple[str, ...], LaidDown] = field(default_factory=dict)  # by the ids

    def in_project(self, conditions: Filter) -> list[tuple[int, Memory]]:
        """Return the newest statements of a project, and of none, that the user made."""
        if conditions.project not in self.by_project:
            rows = self.snapshots.rows
            mask = Filter(conditions.now, conditions.project, kinds=(STATEMENT,)).mask(rows)
            stated = np.flatnonzero(mask & rows.equal("trust", tuple(sorted(MAY_RULE))))
            newest = stated[np.argsort(-rows.created_at[stated], kind="stable")][:MOST].tolist()
            self.by_project[conditions.project] = list(zip(newest, rows.take(newest), strict=True))
        return self.by_project[conditions.project]


def _laid_down(view: View, memories: Sequence[Memory]) -> LaidDown:
    """Return the counts of some memories; they are cached as long as the snapshot is served."""
    cache = view.snapshots.once(RowStatements).laid_down
    ids = tuple(memory.id for memory in memories)
    laid_down = cache.get(ids)
    if laid_down is None:
        if len(cache) >= _CACHED:
            cache.clear()
        laid_down = cache[ids] = LaidDown(memories)
    return laid_down


def statements(view: View, conditions: Filter) -> list[Memory]:
    """Return the user's own statements that are valid here."""
    tail = view.tail
    memories = [
        memory
        for row, memory in view.snapshots.once(RowStatements).in_project(conditions)
        if not tail.is_hidden(row)
        and (memory.expires_at is None or memory.expires_at > conditions.now)
    ]
    slots = np.flatnonzero(tail.live & tail.columns.equal("kind", (STATEMENT,)))
    return [
        *memories,
        *(
            memory
            for memory in tail.take(slots.tolist())
            if memory.trust in MAY_RULE and conditions.accepts(memory)
        ),
    ]


_SURE = 0.6  # the least probability that a sentence lasts, to be shown before a tool
_LONGEST_ORDER = 40  # words
_RARE = 2  # statements with a name at most, for it to count
_RARE_HERE = 0.02  # memories with it at most, as a share of all,
_FEW = 4  # or this number: the statement, its turn, and two more
_IN_VAIN = 3  # times shown without a verdict, after which a statement rests
_IN_COMMAND = 2  # words of a command line
_LONGEST = 200  # characters of a command line whose words are compared
# a quoted text names nothing
_TEXT = re.compile(r"""(['"])(?:(?!\1).)*\s(?:(?!\1).)*(?:\1|$)""", re.DOTALL)
# words of an order
_ORDERS = re.compile(
    r"n't\b|\b(?:never|not|no|only|always|must|without|nothing|nobody|instead|by hand|before|ask"
    r"|nie|niemals|nicht|kein\w*|nur|immer|ohne|jamais|pas|toujours|aucun\w*|seul\w*|nunca|s[oó]lo"
    r"|siempre|ni un|sin|não|nem|só|sempre|mai|niet|geen|nooit|altijd|alleen)\b",
    re.IGNORECASE,
)
# names that every project has
_COMMON = frozenset(
    """src lib libs app apps main test tests index git python node file dev new old com serve server
    core common utils java resources public config templates services service controllers models
    views components pages packages scripts cat echo grep run make use set get all not the and for
    with""".split()
)


def statements_for_tool(
    view: View, conditions: Filter, command: str | None = None, files: Sequence[str] = ()
) -> list[RuleMatch]:
    """Return the user's statements that apply to a command line or files before the tool runs;
    those at rest or held are left out.
    """
    memories = statements(view, conditions)
    if not memories:
        return []
    stated = _laid_down(view, memories)
    matches = {
        match.memory.id: match for match in (stated.rules.of_command(command) if command else ())
    }
    matches |= {match.memory.id: match for path in files for match in stated.rules.of_file(path)}
    for about, names, least in _names(command, files):
        for order, its_names in stated.named:
            shared = names & its_names
            if len(shared) >= least and any(
                stated.names[name] <= _RARE and _is_rare(view, name) for name in shared
            ):
                matches.setdefault(order.id, RuleMatch(order, about[:MAX_ABOUT], False))
    whole = {memory.id: memory for memory in memories}
    return [
        match
        for id_, match in matches.items()
        if not rests(view, whole[id_])
        and (whole[id_].pinned or unjudged_tellings(view, whole[id_]) < _IN_VAIN)
        and not is_held(whole[id_])
    ]


def _is_rare(view: View, name: str) -> bool:
    """Return True if hardly any memory contains a name."""
    most = max(_FEW, _RARE_HERE * view.tail.size)
    return all(view.tail.frequency(term) <= most for term in tokenizer.terms(name))


def _names(command: str | None, files: Sequence[str]) -> Iterator[tuple[str, frozenset[str], int]]:
    """Yield the command and files, each with its names and the number a statement must share."""
    if command and len(command) <= _LONGEST:
        yield command, frozenset(words(_TEXT.sub(" ", command))) - _COMMON, _IN_COMMAND
    for path in files:
        *folders, name = path.lower().split("/")
        stem, _, ending = name.rpartition(".")
        yield path, frozenset((*folders, name, stem or name, ending)) - _COMMON, 1


@lru_cache(maxsize=8_192)  # the same statements are read at every prompt
def _words_and_topics(text: str) -> tuple[frozenset[str], frozenset[str]]:
    return frozenset(tokenizer.terms(text)), topics(text)


def _lasting(memory: Memory) -> float:
    return lasting(memory.content, memory.importance, memory.trust)


def _sure_sentences(memory: Memory) -> list[Said]:
    """Return the sentences that surely last; of a statement that does, the likeliest at least."""
    sentences = lasting_sentences(memory.content, _SURE)
    if memory.kind == STATEMENT:
        return sentences if _lasting(memory) >= _SURE else []
    return [sentence for sentence in sentences if sentence.lasts >= _SURE]
