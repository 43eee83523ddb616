"""
Query analysis: a question's words and their weight, its people, identifiers, times and vector.

A person's name selects a speaker, not a topic: as a word it would find every turn in which that
person is greeted. So names are removed from the topic, and so are times: no memory contains "last
week".
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import inf
from typing import Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from serve.reader.filters import Filter
from serve.reader.view import View
from serve.recall.classification import (
    Account,
    AnswerType,
    TaskMode,
    account_asked,
    answer_type,
    asking_terms,
    asks_for_all,
    kinds_named,
    language,
    removal_asked,
    task_mode,
)
from serve.recall.query_embedder import QueryEmbedder
from store.derived.routing import Router
from store.derived.sessions import by_part
from store.embedders.embedder import Embedder
from store.home.config import Choices, Profile, Profiles
from store.home.errors import EmbedderError
from store.home.instants import isoformat
from store.index.similar_terms import joined_words
from store.text import tokenizer
from store.text.dates import Interval, interval
from store.text.mentions import Mention, mentions

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
    named = [mention.alias for mention in mentions if mention.kind in _KINDS]
    return tuple(dict.fromkeys([*named, *_MORE.findall(text)]))[:MAX_IDENTIFIERS]


Mode = Literal["auto", "lexical", "vector", "entity"]

MAX_QUERY = 2_000  # characters looked at
MAX_TERMS = 128  # different ones: bounds the work a pasted log can ask for
TITLE = 2  # times more that the words of a first line count where others follow it
# In a memory of a few notes BM25Okapi's idf may be zero or less; there every word must still count.
LEAST_IDF = 0.1
# A model that cannot read it has learned from English; one of several languages can.
_CYRILLIC = "что это такое"
_CHANNELS: dict[str, tuple[str, ...]] = {
    "auto": ("lexical", "vector"),
    "lexical": ("lexical",),
    "vector": ("vector",),
    "entity": ("entity",),
}


class Question(msgspec.Struct, frozen=True):
    """A query and its settings."""

    text: str
    filter: Filter
    top_k: int
    mode: Mode = "auto"
    fusion: Literal["rrf", "weighted"] = "rrf"
    profile: Profile = "balanced"
    profiles: Profiles = msgspec.field(default_factory=Profiles)
    min_confidence: float = 0.0
    min_score: float = 0.0
    explain: bool = False
    router: Router | None = None  # None: not routed
    vector_by: float = inf  # on the monotonic clock: a later vector is done without

    def wants(self, channel: str) -> bool:
        return channel in _CHANNELS[self.mode]


def default_question(text: str, conditions: Filter, choices: Choices) -> Question:
    """Return a question as the settings want it asked."""
    return Question(
        text=text,
        filter=conditions,
        top_k=choices.top_k,
        fusion=choices.fusion,
        profile=choices.profile,
        profiles=choices.profiles,
        min_confidence=choices.min_confidence,
    )


class Analysis(msgspec.Struct, frozen=True):
    """A question taken apart; `names` are people's, and their words are no part of its topic."""

    topic: list[str]  # terms, with repeats: a title's count more often; and words written as one
    has_title: bool  # the text has a first line and more below it
    names: list[str]  # terms of the names
    weights: dict[str, float]  # idf of each different term of the topic
    people: frozenset[str]
    mentions: tuple[Mention, ...]  # with its plain words if the question is by entities
    entities: list[int]  # those known to the snapshot, if they are used
    vector: npt.NDArray[np.float32] | None
    is_foreign: bool  # to the model: it has read little of the question's language
    language: str | None  # ISO 639-1
    identifiers: tuple[str, ...]
    issues: tuple[str, ...]  # numbers of issues and pull requests
    interval: Interval | None  # the time it mentions
    lists_time: bool  # True if it asks for all memories of that time
    kinds: frozenset[str]  # of memories named by its words, if it lists a time
    account: Account | None  # the part of a thing's history it asks for
    removal: frozenset[str]  # terms that ask when or why something was removed; may be empty
    answer_type: AnswerType | None
    task_mode: TaskMode | None  # the caller's task

    def to_json(self) -> dict[str, Any]:
        """Return the findings from the words as plain values, without empty ones."""
        when = self.interval
        payload: dict[str, Any] = {
            "language": self.language,
            "identifiers": list(self.identifiers),
            "answer_type": self.answer_type,
            "task_mode": self.task_mode,
        }
        if when is not None:
            payload["interval"] = {
                "since": isoformat(when.since),
                "until": isoformat(when.until),
                "words": when.words,
                "use": "filter" if self.lists_time else "boost",
            }
        return {name: value for name, value in payload.items() if value}


def analyse(view: View, question: Question, notices: list[str]) -> Analysis:
    """Analyse a question, up to `MAX_QUERY` characters; add failures to `notices`."""
    asked = question.text[:MAX_QUERY]
    spoken = language(asked)
    when = interval(asked, question.filter.now, spoken)
    timeless = when.cut(asked) if when else asked
    who, about = split_names(timeless, _people_by_name(view))
    terms, said = tokenizer.terms(timeless), tokenizer.terms(about)
    lists_time = (
        when is not None
        and question.mode == "auto"
        and terms == said
        and asks_for_all(timeless, spoken)
    )
    kinds = kinds_named(said) if lists_time else frozenset()
    if when is not None and not lists_time and (when.is_date or not _has_any(view, question, when)):
        # texts may contain these words too (a date, or "last year" of another day), but need not
        who, about = split_names(asked, _people_by_name(view))
        dates = {t for t in tokenizer.terms(when.words) if not view.tail.frequency(t)}
        terms, said = (
            [t for t in tokenizer.terms(text) if t not in dates] for text in (asked, about)
        )
    if not (asking := asking_terms(spoken)).issuperset(terms):
        terms, said = ([t for t in some if t not in asking] for some in (terms, said))
    if lists_time:
        said = [term for term in said if kinds_named([term])]
    elif not said:
        # nothing but names and question words: the names are the topic
        about, said = timeless, terms
    written_as_one = [] if lists_time else joined_words(about)
    view.snapshots.postings.look_up((*said, *terms, *written_as_one))
    topic = _rarest(view, said)
    title = _title(about)
    joined = [term for term in written_as_one if view.tail.has(term)]
    removal = frozenset() if title else removal_asked(topic, asked)  # a pasted text asks nothing
    about_it = [term for term in topic if term not in removal]
    names = list((Counter(terms) - Counter(said)).elements())
    index = view.snapshots.entities
    found = mentions(asked)
    named = (*found, *_plain_names(asked, found)) if question.mode == "entity" else found
    wants_entities = question.mode == "entity" or question.explain
    return Analysis(
        topic=[*(about_it or topic), *_title_terms(title, topic), *joined],
        has_title=bool(title),
        names=names,
        weights={term: max(view.tail.idf(term), LEAST_IDF) for term in dict.fromkeys(topic)},
        people=who,
        mentions=named,
        entities=index.lookup(named) if index and wants_entities else [],
        vector=None if lists_time else _embed(about, question, view.embedder, notices),
        is_foreign=spoken not in (None, "en") and not view.embedder.knows(_CYRILLIC),
        language=spoken,
        identifiers=identifiers(asked, found),
        issues=() if title else issue_numbers(asked),
        interval=when,
        lists_time=lists_time,
        kinds=kinds,
        account=None if title else account_asked(asked, of_removal=bool(removal)),
        removal=removal,
        answer_type=answer_type(asked, spoken),
        task_mode=task_mode(topic, names_error=any(mention.kind == "error" for mention in found)),
    )


def _plain_names(asked: str, found: Sequence[Mention]) -> list[Mention]:
    """Return the words of a question, and each two in a row: `priya` may be a known name."""
    words = _WORD.findall(asked.casefold())[:MAX_TERMS]
    names = dict.fromkeys((*words, *map(" ".join, pairwise(words))))
    known = {name.casefold() for mention in found for name in (mention.name, mention.alias)}
    return [Mention("name", name, name) for name in names if name not in known]


def _has_any(view: View, question: Question, when: Interval) -> bool:
    """Return True if a memory that passes the filter was made in a time."""
    conditions = replace(question.filter, since=when.since, until=when.until)
    return bool(view.masks.of(conditions).any())


def _people_by_name(view: View) -> dict[str, set[str]]:
    sessions = view.snapshots.sessions
    if not view.tail.people:
        return sessions.people if sessions else {}
    return by_part((*(sessions.names if sessions else ()), *view.tail.people))


def _rarest(view: View, terms: list[str]) -> list[str]:
    """Return the search terms of a long question: first those in memories, by rarity."""
    different = dict.fromkeys(terms)  # in their order, so that equals fall alike in every process
    if len(different) <= MAX_TERMS:
        return terms

    def worth(term: str) -> tuple[bool, float]:
        return view.tail.frequency(term) > 0, view.tail.idf(term)

    rarest = set(sorted(different, key=worth, reverse=True)[:MAX_TERMS])
    return [term for term in terms if term in rarest]


def _title(asked: str) -> str:
    """Return the first line of a text of several lines, empty for a single line.

    An issue, a mail or a report begins with its topic, which its code and logs outnumber.
    """
    title, _, others = asked.strip().partition("\n")
    return title if others.strip() else ""


def _title_terms(title: str, topic: list[str]) -> list[str]:
    """Return the terms that a title adds to a topic that has its terms already."""
    held = frozenset(topic)
    return [term for term in dict.fromkeys(tokenizer.terms(title)) if term in held] * TITLE


def _embed(
    asked: str, question: Question, embedder: Embedder, notices: list[str]
) -> npt.NDArray[np.float32] | None:
    """Return the question's vector; None if not needed, or if the model lacks its script."""
    if not question.wants("vector") or (question.mode == "auto" and not embedder.knows(asked)):
        return None
    try:
        if isinstance(embedder, QueryEmbedder):
            return embedder.query_vector(asked, question.vector_by)
        vector: npt.NDArray[np.float32] = embedder.embed_queries([asked])[0]
    except EmbedderError as error:
        notices.append(f"no vectors: {error}")
        return None
    return vector
