"""
Query analysis: a question's words and their weight, its people, identifiers, times and vector.

A person's name says whose words are wanted, not what they are about: as a word it would find every
turn in which somebody is greeted by it. So names are taken out of the topic.

Two optional layers read more of it. A compound question is split only into what surely stands
alone: whole questions in a row, a question after "and", the two sides of a comparison in time. And
words are looked up as entity names though nothing marks them as one: "why do we use redis" names a
package once a memory imported it.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from serve.reader.filters import Filter
from serve.reader.view import View
from serve.recall.classification import AnswerType, TaskMode, answer_type, language, task_mode
from store.derived.routing import Router
from store.derived.sessions import by_part
from store.embedders.embedder import Embedder
from store.home.config import Choices, Layer, Profile, Profiles
from store.home.errors import EmbedderError
from store.home.instants import isoformat
from store.text import tokenizer
from store.text.dates import Interval, interval
from store.text.mentions import Mention, mentions
from store.text.tokenizer import STOP_WORDS, terms

_WORD = re.compile(r"@?[^\W\d_][\w-]*")
_POSSESSIVE = r"(?:['\u2019]s)?(?!\w)"


def split_names(asked: str, known: Mapping[str, set[str]]) -> tuple[frozenset[str], str]:
    """Return the names a question mentions, and the question without them.

    Only words with a capital or an @ are names: `mark it` is not Mark.
    """
    names: set[str] = set()
    written: list[str] = []
    for word in dict.fromkeys(_WORD.findall(asked)):
        if (word[0] == "@" or word[0].isupper()) and (
            owners := known.get(word.removeprefix("@").casefold())
        ):
            names |= owners
            written.append(re.escape(word))
    if not written:
        return frozenset(), asked
    rest = re.sub(rf"(?<!\w)(?:{'|'.join(written)}){_POSSESSIVE}", " ", asked)
    return frozenset(names), rest


MAX_IDENTIFIERS = 32
_KINDS = frozenset(("file", "symbol", "package", "error", "command", "url"))
_MORE = re.compile(
    r"(?<![\w-])--?[A-Za-z][\w-]*(?![\w.])"  # flags
    r"|(?<![\w.])v?[0-9]+(?:\.[0-9]+)+(?:[-+.]?[A-Za-z][\w.]*)?(?!\w)"  # versions
    r"|(?<!\w)#[0-9]+(?!\w)"  # issues
    r"|(?<![\w-])[A-Z][A-Z0-9]+-[0-9]+(?!\w)"  # tickets
    r"|(?<![\w-])(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}(?!\w)"  # commits
)


_NUMBERED = re.compile(
    r"(?:(?<!\w)#|\b(?:issue|bug|ticket|pr|mr|(?:pull|merge) request) [#!]?)([0-9]{1,9})(?!\w)",
    re.IGNORECASE,
)


def issue_numbers(text: str) -> tuple[str, ...]:
    """Return the numbers of the issues and pull requests that a text names, each once."""
    return tuple(dict.fromkeys(_NUMBERED.findall(text)))[:MAX_IDENTIFIERS]


def identifiers(text: str, mentions: Sequence[Mention]) -> tuple[str, ...]:
    """Return them as written, each once: the mentioned ones, then flags, versions and numbers."""
    named = [one.alias for one in mentions if one.kind in _KINDS]
    return tuple(dict.fromkeys([*named, *_MORE.findall(text)]))[:MAX_IDENTIFIERS]


MAX_PARTS = 4
_ASKS = "|".join(
    """who whom whose what when where why which how wer was wann wo warum wie qui quand où pourquoi
    comment quién qué cuándo dónde cómo""".split()
)
_SENTENCE = re.compile(r"(?<=[?？]) ")
_AND_ASKS = re.compile(
    rf"(?:[,;]? (?:and|und|et|y|as well as) (?:also )?|; )(?=(?:{_ASKS})\b)",
    re.IGNORECASE,
)
_FIRST_WORD = re.compile(rf"(?:[^?]*, )?(?:{_ASKS})\b", re.IGNORECASE)
_VERB = re.compile(
    r"\b(?:is|are|was|were|do|does|did|has|have|had|can|could|should|would|will|ist|sind|war|haben|"
    r"hat|wurde|est|sont|avons|a|es|son|fue|hemos)\b",
    re.IGNORECASE,
)
_POINTS_BACK = re.compile(
    r"\b(?:it|its|he|him|his|she|her|hers|they|them|their|theirs|this|that|those|these|er|ihm|ihr|"
    r"dies\w*|elle|ils|elles|ello)\b",
    re.IGNORECASE,
)
# what begins a comparison in time, and the word between its two sides
_COMPARISONS = (
    (re.compile(r"\bbetween (.+)", re.IGNORECASE), re.compile(r",? and ")),
    (
        re.compile(r"\b(?:first|last|earlier|later|sooner)[,:] (.+)", re.IGNORECASE),
        re.compile(r",? or "),
    ),
)
_ANOTHER = re.compile(r" (?:and|or) ")


def split_question(question: str) -> Sequence[str]:
    """Return the questions of a question, at most four; a simple one comes back alone."""
    whole = " ".join(question.split())
    for split in (_sentence_parts, _comparison_parts, _conjunction_parts):
        found = split(whole)
        if 1 < len(found) <= MAX_PARTS and all(map(_says_enough, found)):
            return found
    return (question,)


def _sentence_parts(text: str) -> Sequence[str]:
    found = [one for one in _SENTENCE.split(text) if one]
    each_asks = all(one.endswith(("?", "？")) for one in found)
    return found if each_asks and not any(map(_POINTS_BACK.search, found[1:])) else ()


def _conjunction_parts(text: str) -> Sequence[str]:
    found = _AND_ASKS.split(text)
    stand_alone = all(_FIRST_WORD.match(one) and _VERB.search(one) for one in found)
    return found if stand_alone and not any(map(_POINTS_BACK.search, found[1:])) else ()


def _comparison_parts(text: str) -> Sequence[str]:
    for begins, joint in _COMPARISONS:
        if match := begins.search(text):
            sides = joint.split(match[1].rstrip(" ?.!"))
            # of three things, which two are compared is a guess
            return () if len(sides) > 2 or any(map(_ANOTHER.search, sides)) else sides
    return ()


def _says_enough(part: str) -> bool:
    return sum(not term.isdigit() for term in terms(part)) > 1


MAX_HINTS = 24
_HINT = re.compile(r"[^\W\d_][\w-]{2,63}")


def entity_hints(text: str) -> tuple[Mention, ...]:
    """Return the words of three letters and more that are no stop words, in order, each once.

    Their kind is a guess; entities are looked up by name whatever their kind.
    """
    words = dict.fromkeys(word.rstrip("-").casefold() for word in _HINT.findall(text))
    chosen = [word for word in words if word not in STOP_WORDS][:MAX_HINTS]
    return tuple(Mention("symbol", word, word) for word in chosen)


Mode = Literal["auto", "lexical", "vector", "entity"]

MAX_QUERY = 2_000  # characters looked at
MAX_TERMS = 128  # different ones: bounds the work a pasted log can ask for
TITLE = 2  # times more that the words of a first line count where others follow it
# In a memory of a few notes BM25Okapi's idf may be zero or less; there every word must still count.
LEAST_IDF = 0.1
_CHANNELS: dict[str, tuple[str, ...]] = {
    "auto": ("lexical", "vector", "entity"),
    "lexical": ("lexical",),
    "vector": ("vector",),
    "entity": ("entity",),
}


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, and under which settings."""

    text: str
    filter: Filter
    top_k: int
    mode: Mode = "auto"
    fusion: Literal["rrf", "weighted"] = "rrf"
    profile: Profile = "balanced"
    profiles: Profiles = field(default_factory=Profiles)
    min_confidence: float = 0.0
    min_score: float = 0.0
    explain: bool = False
    layers: tuple[Layer, ...] = ()
    router: Router | None = None  # None: asked as it stands

    def wants(self, channel: str) -> bool:
        return channel in _CHANNELS[self.mode]

    @property
    def uses_fields(self) -> bool:
        """Whether a document's nearest field may raise what its vector says."""
        is_fused = self.mode == "auto" and self.fusion == "weighted"
        return is_fused and "fields" in self.layers


def default_question(text: str, asked: Filter, choices: Choices) -> Question:
    """Return a question as the settings want it asked."""
    return Question(
        text=text,
        filter=asked,
        top_k=choices.top_k,
        fusion=choices.fusion,
        profile=choices.profile,
        profiles=choices.profiles,
        min_confidence=choices.min_confidence,
        layers=choices.layers,
    )


@dataclass(frozen=True, slots=True)
class Analysis:
    """A question taken apart; `names` are people's, and their words are no part of its topic."""

    topic: list[str]  # terms, with repeats: a title's count more often
    has_title: bool  # the text has a first line and more below it
    names: list[str]  # terms of the names
    weights: dict[str, float]  # idf of each different term of the topic
    people: frozenset[str]
    mentions: tuple[Mention, ...]
    entities: list[int]  # those of the mentions that the snapshot knows
    vector: npt.NDArray[np.float32] | None
    language: str | None  # ISO 639-1
    identifiers: tuple[str, ...]
    issues: tuple[str, ...]  # numbers of issues and pull requests
    interval: Interval | None  # the time it speaks of
    answer_type: AnswerType | None
    task_mode: TaskMode | None  # what the asker is at

    def to_json(self) -> dict[str, Any]:
        """The findings from the words, as plain values; what was not found is left out."""
        when = self.interval
        found: dict[str, Any] = {
            "language": self.language,
            "identifiers": list(self.identifiers),
            "answer_type": self.answer_type,
            "task_mode": self.task_mode,
        }
        if when is not None:
            found["interval"] = {
                "since": isoformat(when.since),
                "until": isoformat(when.until),
                "words": when.words,
            }
        return {name: value for name, value in found.items() if value}


def analyse(view: View, question: Question, embedder: Embedder, notices: list[str]) -> Analysis:
    """Analyse a question, up to `MAX_QUERY` characters; add failures to `notices`."""
    asked = question.text[:MAX_QUERY]
    who, about = split_names(asked, _people_by_name(view))
    terms, said = tokenizer.terms(asked), tokenizer.terms(about)
    if not said:
        about, said = asked, terms  # nothing but names and question words: the names are the topic
    view.snapshots.postings.look_up((*said, *terms))
    topic = _rarest(view, said)
    title = _title(about)
    names = list((Counter(terms) - Counter(said)).elements())
    index = view.snapshots.entities
    found = mentions(asked)
    spoken = language(asked)
    return Analysis(
        topic=[*topic, *_title_terms(title, topic)],
        has_title=bool(title),
        names=names,
        weights={term: max(view.tail.idf(term), LEAST_IDF) for term in dict.fromkeys(topic)},
        people=who,
        mentions=found,
        entities=index.lookup(found) if index else [],
        vector=_embed(about, embedder, notices) if question.wants("vector") else None,
        language=spoken,
        identifiers=identifiers(asked, found),
        issues=() if title else issue_numbers(asked),
        interval=interval(asked, question.filter.now, spoken),
        answer_type=answer_type(asked, spoken),
        task_mode=task_mode(topic, names_error=any(one.kind == "error" for one in found)),
    )


def _people_by_name(view: View) -> dict[str, set[str]]:
    sessions = view.snapshots.sessions
    if not view.tail.people:
        return sessions.people if sessions else {}
    return by_part((*(sessions.names if sessions else ()), *view.tail.people))


def _rarest(view: View, terms: list[str]) -> list[str]:
    """Return the terms a long question is asked by: those that memories hold first, by rarity."""
    different = dict.fromkeys(terms)  # in their order, so that equals fall alike in every process
    if len(different) <= MAX_TERMS:
        return terms

    def worth(term: str) -> tuple[bool, float]:
        return view.tail.frequency(term) > 0, view.tail.idf(term)

    rarest = set(sorted(different, key=worth, reverse=True)[:MAX_TERMS])
    return [term for term in terms if term in rarest]


def _title(asked: str) -> str:
    """Return the first line of a text that has more lines, empty where it is the only one.

    An issue, a mail or a report says first what it is about, and its code and logs outnumber that.
    """
    title, _, others = asked.strip().partition("\n")
    return title if others.strip() else ""


def _title_terms(title: str, topic: list[str]) -> list[str]:
    """The terms that a title adds to a topic that holds its terms already."""
    held = frozenset(topic)
    return [term for term in dict.fromkeys(tokenizer.terms(title)) if term in held] * TITLE


def _embed(asked: str, embedder: Embedder, notices: list[str]) -> npt.NDArray[np.float32] | None:
    try:
        vector: npt.NDArray[np.float32] = embedder.embed([asked])[0]
    except EmbedderError as error:
        notices.append(f"no vectors: {error}")
        return None
    return vector
