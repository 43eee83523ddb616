"""
The projection `statement_weights`: the weight of each statement of the user, by its text.

The classifier gives the probability that a statement lasts beyond its prompt; an importance that a
person, an agent or a job set raises or lowers it. A statement that the user repeated in another
session, in any words, matters more. The counts of followed statements are those of
`lessons`; readers add them (`weigh`). A statement that is not in the table yet is read by
`lasting`, so the tail's weigh as much.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from zlib import crc32

import msgspec
import numpy as np
import pyarrow as pa

from store.agents import prompt_classifier
from store.agents.prompt_classifier import Said
from store.log.event_kinds import MEMORY_KINDS, STATEMENT
from store.memories.memory import ACTIVE, STATES, default_importance
from store.memories.parts import fields_of
from store.snapshots.projection import Inputs, Previous, Projection, Tables, column_view
from store.text import tokenizer

WEIGHTS = pa.schema(
    [
        ("document", pa.int32()),
        ("lasting", pa.float64()),  # probability that the text holds beyond its prompt
        ("restated", pa.int32()),  # other sessions with the same statement
        ("routine", pa.int32()),  # other sessions with a text of the same form about other things
    ]
)

SAME = 0.6  # cosine of the words of two equal statements, rare ones counting more
RAREST = 6  # words of a statement by which others are looked up
FORM = 0.35  # of the words of two statements that have one form
MOST = 50  # statements of one word, or pair of words, that another is compared with: the newest
RESTATED, FOLLOWED, DECLINED, ROUTINE = 0.2, 0.5, 0.5, 1.5  # log-odds for each doubling
_SUREST = 0.99  # of the classifier: its odds beyond that are no evidence


def build_statement_weights(inputs: Inputs, previous: Previous | None) -> Tables:
    """Weigh the active statements; few enough that `previous` would save little."""
    memories = inputs.tables["memories"]
    kinds, states = (column_view(memories["columns"], name) for name in ("kind", "state"))
    is_statement = kinds == MEMORY_KINDS.index(STATEMENT)
    documents = np.flatnonzero(is_statement & (states == STATES.index(ACTIVE)))
    names = ["content", "importance", "trust", "project", "session"]
    rows = fields_of(memories, documents, names).to_pylist()
    texts = [row["content"] for row in rows]
    scopes = [(row["project"], row["session"]) for row in rows]
    columns = [
        pa.array(documents, pa.int32()),
        pa.array(
            [lasting(row["content"], row["importance"], row["trust"]) for row in rows],
            pa.float64(),
        ),
        *(pa.array(counts, pa.int32()) for counts in _count_alike(texts, scopes)),
    ]
    return {"statement_weights": pa.table(columns, schema=WEIGHTS)}


def lasting(content: str, importance: float, trust: str) -> float:
    """Return the probability that a statement lasts: the classifier's, of its likeliest sentence;
    no less than a raised importance, and no more than a lowered one.
    """
    usual = default_importance(STATEMENT, trust, None)
    read = _read_lasting(content)
    if importance == usual:
        return read
    return max(read, importance) if importance > usual else min(read, importance)


@lru_cache(maxsize=8_192)  # the same statements are read at every prompt
def _read_lasting(text: str) -> float:
    return max((sentence.lasts for sentence in prompt_classifier.read(text)), default=0.0)


def lasting_sentences(text: str, least: float) -> list[Said]:
    """Return the lasting sentences of a statement, in order; the likeliest if there are none."""
    sentences = prompt_classifier.read(text)
    likely = [sentence for sentence in sentences if sentence.lasts >= least]
    return likely or sorted(sentences, key=lambda sentence: -sentence.lasts)[:1]


Scope = tuple[str | None, str | None]  # project and session


def _count_alike(texts: Sequence[str], scopes: Sequence[Scope]) -> tuple[list[int], list[int]]:
    """Return the numbers of other sessions of its project with the same statement, and with one of
    the same form about other things, [texts] each.

    A weekly "Comments on the PR: rename X, split Y" is a chore, even if it sounds like a rule.
    """
    terms = [frozenset(tokenizer.terms(text)) for text in texts]
    frequency = Counter(term for some in terms for term in some)
    rarity = {term: math.log(1 + len(texts) / count) for term, count in frequency.items()}
    lengths = [sum(rarity[term] ** 2 for term in some) for some in terms]
    rarest = [sorted(some, key=lambda term: (frequency[term], term))[:RAREST] for some in terms]
    words = [text.casefold().split() for text in texts]
    forms = [frozenset(word) for word in words]
    pairs = [[*map(" ".join, pairwise(word))] for word in words]

    def is_same(a: int, b: int) -> bool:
        shared = sum(rarity[term] ** 2 for term in terms[a] & terms[b])
        return shared >= SAME * math.sqrt(lengths[a] * lengths[b])

    def has_form(a: int, b: int) -> bool:
        shared = len(forms[a] & forms[b])
        return shared >= FORM * len(forms[a] | forms[b]) and not is_same(a, b)

    restated = _count_sessions(scopes, rarest, terms, is_same)
    return restated, _count_sessions(scopes, pairs, pairs, has_form)


def _count_sessions(
    scopes: Sequence[Scope],
    keys: Sequence[Iterable[str]],
    filed: Sequence[Iterable[str]],
    is_alike: Callable[[int, int], bool],
) -> list[int]:
    """Return the number of other sessions of its project with a similar text, [texts]; only texts
    `filed` under one of its `keys` are compared.
    """
    places: dict[str, list[int]] = defaultdict(list)
    for place, some in enumerate(filed):
        for key in some:
            places[key].append(place)
    counts = []
    for place, (project, session) in enumerate(scopes):
        near = {other for key in keys[place] for other in places[key][-MOST:]} - {place}
        sessions = {
            scopes[other][1]
            for other in near
            if scopes[other][0] == project and is_alike(place, other)
        }
        counts.append(len(sessions - {session}))
    return counts


class Scores(msgspec.Struct, frozen=True):
    """A row of WEIGHTS; a statement without one was made once."""

    lasting: float
    restated: int = 0
    routine: int = 0


def weigh(scores: Scores, counts: Mapping[str, int]) -> float:
    """Return the weight of a statement, as log-odds; `counts` are those of `lessons`."""
    sure = min(max(scores.lasting, 1 - _SUREST), _SUREST)
    return (
        math.log(sure / (1 - sure))
        + RESTATED * math.log2(1 + scores.restated)
        - ROUTINE * math.log2(max(1, scores.routine))  # two rules of one form are no habit
        + FOLLOWED * math.log2(1 + counts["followed"])
        - DECLINED * math.log2(1 + counts["ignored"])
    )


class StatementWeights(msgspec.Struct, frozen=True):
    """The weights of a snapshot's statements by row."""

    rows: Mapping[int, Scores]

    @classmethod
    def open(cls, tables: Tables) -> "StatementWeights":
        table = tables["statement_weights"]
        documents, *columns = (column_view(table, name).tolist() for name in WEIGHTS.names)
        return cls(dict(zip(documents, map(Scores, *columns), strict=True)))


STATEMENT_WEIGHTS_PROJECTION = Projection(
    name="statement_weights",
    version=f"2-{crc32(prompt_classifier.WEIGHTS.read_bytes()):08x}",
    inputs=("memories",),
    schemas={"statement_weights": WEIGHTS},
    build=build_statement_weights,
)
