"""
The text of an insight: its topic, its sources' key sentences, or a model's text they support.

A sentence by a model is kept if every number, name and identifier in it is in a source, most of its
words are, it contains no negation that no source contains, and it is not too long. If none is left,
the text is put together from the sources' own sentences.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import msgspec

from pipelines.jobs.reflect.inputs import Finding, date
from pipelines.llm.model_client import Answer, LanguageModel
from store.memories.memory import Memory
from store.text import tokenizer
from store.text.mentions import mentions

QUOTED = 4  # sentences
_OF_CHAIN = 8


def headline(finding: Finding) -> str:
    """Return an insight's topic and pattern: "deadlock, orders: 4 notes, ...\""""
    return f"{', '.join(finding.topic)}: {finding.says}"


def extractive_text(finding: Finding) -> str:
    """Return the text of an insight without a model: its headline, then its key sentences."""
    topic_terms = terms(" ".join(finding.topic))
    quoted = ((memory, key_sentence(memory, topic_terms)) for memory in finding.sources)
    most = _OF_CHAIN if finding.is_in_order else QUOTED
    chosen = distinct_sentences(quoted, most)
    lines = [f"- {sentence} ({date(memory)})" for memory, sentence in chosen]
    return "\n".join([headline(finding), *lines])


# Terms, topics and key sentences.

LONGEST = 200  # characters of a quoted sentence
OWN = 4
_SHORT = 4.0  # terms; among shorter sentences length is no evidence
_LEAST = 12  # characters; shorter sentences mean nothing alone
_ALIKE = 0.6  # the least share of common terms of two equivalent sentences
_READ = 2_000  # characters of a memory that are read

# trailers of a commit message, or of a note of a commit: names, no sentences
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
def terms(text: str) -> frozenset[str]:
    return frozenset(tokenizer.terms(text[:_READ]))


@dataclass(frozen=True)
class DocumentFrequencies:
    """The number of memories, of `count`, that contain each term."""

    count: int
    frequencies: Counter[str]

    @classmethod
    def of(cls, memories: Sequence[Memory]) -> "DocumentFrequencies":
        every = (term for memory in memories for term in terms(memory.content))
        return cls(len(memories), Counter(every))

    def weight(self, term: str) -> float:
        """Return a term's inverse document frequency, 0 where no memory contains it."""
        frequency = self.frequencies[term]
        return math.log1p(self.count / frequency) if frequency else 0.0


def topic(memories: Sequence[Memory], usual: DocumentFrequencies, most: int) -> list[str]:
    """Return the words common to some memories and rare in others, as written.

    Each is in half of the memories, two at least, which are at least one in OWN of all memories
    with it. The most informative come first; numbers alone are no topic.
    """
    own = DocumentFrequencies.of(memories).frequencies
    least = max(2, -(-len(memories) // 2))
    common = [
        term
        for term, times in own.items()
        if times >= least and times * OWN >= usual.frequencies[term] and not term.isdigit()
    ]
    common.sort(key=lambda term: (-usual.weight(term) * own[term], term))
    written = _spellings(memories, set(common[:most]))
    return list(dict.fromkeys(written[term] for term in common[:most] if term in written))


def _spellings(memories: Sequence[Memory], wanted: set[str]) -> dict[str, str]:
    """Return the most frequent spelling of each of some terms, the shortest of equals."""
    forms: dict[str, Counter[str]] = {term: Counter() for term in wanted}
    for memory in memories:
        for chunk in memory.content[:_READ].split():
            word = chunk.strip(_EDGES)
            for term in wanted.intersection(tokenizer.terms(word)):
                forms[term][word] += 1
    return {
        term: min(count, key=lambda word: (-count[word], len(word), word))
        for term, count in forms.items()
        if count
    }


def sentences(text: str) -> list[str]:
    """Return the sentences of a text that can be quoted alone and are no longer than LONGEST."""
    parts = (" ".join(part.split()).lstrip("-* ") for part in _SENTENCE.split(text[:_READ]))
    return [part for part in parts if _LEAST <= len(part) <= LONGEST and not _TRAILER.match(part)]


def key_sentence(memory: Memory, topic_terms: frozenset[str]) -> str:
    """Return the sentence of a memory with the most topic terms for its length; "" where none is
    short enough to be quoted whole.
    """
    quotable = sentences(memory.content)
    if not quotable and len(memory.content) <= LONGEST:
        quotable = [" ".join(memory.content.split())]

    def worth(sentence: str) -> float:
        own = terms(sentence)
        return len(own & topic_terms) / math.sqrt(_SHORT + len(own))

    return max(quotable, key=worth, default="")


def distinct_sentences(quoted: Iterable[tuple[Memory, str]], most: int) -> list[tuple[Memory, str]]:
    """Return the first few of some sentences that are unlike every earlier one."""
    distinct: list[tuple[Memory, str]] = []
    for memory, sentence in quoted:
        if not sentence:
            continue
        own = terms(sentence)
        earlier = [terms(text) for _, text in distinct]
        if all(len(own & other) / max(1, len(own | other)) < _ALIKE for other in earlier):
            distinct.append((memory, sentence))
            if len(distinct) == most:
                break
    return distinct


def is_release(text: str) -> bool:
    """Return True if a text reports a release: "Release 2.4.0", "tagged v1.0"."""
    return _RELEASE.search(text[:LONGEST]) is not None


def is_failure(text: str) -> bool:
    """Return True if a text reports a failure."""
    return _FAILURE.search(text[:_READ]) is not None


PURPOSE = "reflect"
INSTRUCTIONS = """You are given notes of one project that belong together, each with its date.
Say in one to three plain sentences what they say together that none of them says alone: the
pattern, the cause, or what to expect. Use only what the notes say. Repeat numbers, names, paths
and commands exactly as they are written there. No advice, no opinion, no introduction."""
_LONGEST = 1_200  # characters of a note shown to a model
_BORNE = 0.6  # the share of a sentence's words that must be in a source
_MOST = 5  # sentences
_LONGEST_SAID = 600  # characters of a sentence

_SIGN = r"[\w./:\\@#%$€£+-]"
_VALUE = re.compile(  # each from the start of a run, so that a long run is scanned once
    rf"(?<!{_SIGN}){_SIGN}*\d{_SIGN}*"
    r"|(?<!\w)(?:\w+(?:[_./:\\@#]+\w+)+|\w*[a-z][A-Z]\w*)"
)
_NAME = re.compile(r"(?<=[^.!?\n] )[A-Z][\w-]+")
_NOT = re.compile(r"\b(?:not|never|no|none|cannot|without|neither|nor)\b|n't\b", re.IGNORECASE)


class Written(msgspec.Struct, frozen=True):
    """What the notes say together."""

    sentences: tuple[str, ...]


def ask_for_text(model: LanguageModel, finding: Finding) -> Answer[Written]:
    """Return a model's text for a finding; raise ModelError or BudgetSpent."""
    return model.ask(PURPOSE, INSTRUCTIONS, model_input(finding), Written, tier="balanced")


def model_input(finding: Finding) -> str:
    """Return a finding as the data of a model's prompt."""
    notes = (
        f"{date(memory)}: {' '.join(_memory_text(memory)[:_LONGEST].split())}"
        for memory in finding.sources
    )
    return "\n".join([f"Seen: {headline(finding)}", *(f"- {note}" for note in notes)])


def supported_text(finding: Finding, written: Written) -> str | None:
    """Return the text of an insight with the sentences that its sources support, None for none."""
    text = "\n".join([headline(finding), *map(_memory_text, finding.sources)])
    dates = " ".join(map(date, finding.sources))
    supported = [
        line
        for line in (" ".join(sentence.split()) for sentence in written.sentences[:_MOST])
        if 0 < len(line) <= _LONGEST_SAID and is_supported(line, f"{text}\n{dates}")
    ]
    return "\n".join([headline(finding), *supported]) if supported else None


def is_supported(sentence: str, text: str) -> bool:
    """Return True if the sources' text has a sentence's marks, any negation and most words."""
    folded = " ".join(text.casefold().split())
    for mark in _marks(sentence):
        if re.search(rf"(?<!\w){re.escape(mark)}(?!\w)", folded) is None:  # 43 is not in 5432
            return False
    if _NOT.search(sentence) and not _NOT.search(text):
        return False
    words = terms(sentence)
    source_words = terms(folded).union(*map(terms, text.splitlines()))
    return bool(words) and len(words & source_words) >= _BORNE * len(words)


def _marks(sentence: str) -> Sequence[str]:
    """Return the numbers, names and identifiers of a sentence, in folded case."""
    marks = [match[0].strip(".:,/-+") for match in _VALUE.finditer(sentence)]
    marks += [match[0] for match in _NAME.finditer(sentence)]
    marks += [mention.alias for mention in mentions(sentence)]
    return [mark.casefold() for mark in dict.fromkeys(marks) if mark]


def _memory_text(memory: Memory) -> str:
    parts = (memory.content, memory.context, memory.action, memory.result)
    return "\n".join(part for part in parts if part)
