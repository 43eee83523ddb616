"""
Speaking: whether what recall found is said unasked, and how much of it.

Nobody asked the memory, and a note beside the point costs the model's attention. So each of the
best few hits, and each of the user's rules and statements that bears on the prompt
(`serve.lessons.deeds`), gets a probability that it helps, by a logistic model for its kind over
what the prompt is and what of it stands where in the memory. A turn, a statement and a note each
have a bar: what the user laid down or recorded is short and meant to be said, a commit or a turn is
not. The coefficients were fitted by `make fit-speaking`; docs/prompts.md has what they let through.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec
from msgspec.structs import replace

from serve.lessons.deeds import Bearing, is_laid_down
from serve.reader.view import View
from serve.recall.analysis import LEAST_IDF
from serve.recall.recall import Hit
from store.agents.prompt_classifier import Reading
from store.log.event_kinds import EPISODE, STATEMENT
from store.memories.memory import Memory
from store.text import tokenizer
from store.text.text_features import MAY_RULE

LOOKED_AT = 3  # of the best hits; statements are all looked at
BEARING = 4  # statements that no recall found
MOST = 2  # notes
SHARE = 0.8  # of the best one's odds that another of its kind must have
ALSO = 1.3  # bars that one of another kind must have
PASSIVE = 0.2  # more, where the router wants less said unasked
# Words that no memory holds: a prompt is said to be worth as much at least, so that a hit with both
# words of "run the tests" holds less than all of what a prompt usually asks.
WORTH = 3.0
# Among fewer memories, counts do not tell whether a word is common: the first four may all be about
# one thing. So the words are weighed as if there were this many, the others about something else.
FEWEST = 50
# A turn that a recall hardly found and that holds little of the prompt shares two rare words with
# it, and no more: among few memories that is chance.
NEAR, HELD = 0.08, 0.25
_PLACES, _RANKS = 8, 6  # places of a recall, and ranks of a statement, that differ
_UNSURE = 0.003  # a confidence no less than this, and no more than what is left of 1

Kind = Literal["turn", "statement", "note", "quote"]

FEATURES = (
    "confidence",  # of the recall, as log-odds
    "place",  # in the recall
    # the share of the prompt's words, by weight, or of WORTH, that the hit holds
    "asked",  # in what was asked
    "said",  # ... in what was said at the end of the turn
    "done",  # ... in what was done
    "rarest",  # the weight of the rarest word that it holds
    "second",  # and of the next
    "work",  # how likely the prompt is about work on the project
    "general",  # ... or about something no project helps with
    "small_talk",  # ... or nothing
    "question",  # 1 where it asks
    "length",  # of the prompt, in different words, as a logarithm
    "size",  # of the memory, in memories, as a logarithm
    # of what the user laid down (`serve.lessons.deeds.Bearing`)
    "found",  # 1 where a recall found it
    "words",
    "topics",
    "share",
    "before",
    "lead",
    "among",  # as a logarithm
    "lasts",
)


_SHARES = slice(FEATURES.index("asked"), FEATURES.index("done") + 1)


class Model(msgspec.Struct, frozen=True):
    """Coefficients in the order of FEATURES; `bar` is the least probability to be said."""

    coefficients: tuple[float, ...]
    bias: float
    bar: float

    def chance(self, signs: Sequence[float]) -> float:
        odds = self.bias + sum(a * b for a, b in zip(self.coefficients, signs, strict=True))
        return 1.0 / (1.0 + math.exp(-max(-30.0, min(30.0, odds))))


def _model(bias: float, bar: float, **weights: float) -> Model:
    return Model(tuple(weights.get(name, 0.0) for name in FEATURES), bias, bar)


_NOTE = _model(
    -2.401,
    0.25,
    confidence=0.437,
    place=-0.675,
    said=4.715,
    rarest=0.2,
    second=-0.006,
    work=-0.658,
    general=1.058,
    question=2.908,
    length=-0.1,
    size=-0.438,
)
MODELS: dict[Kind, Model] = {
    "turn": _model(
        0.541,
        0.45,
        confidence=0.224,
        place=-0.478,
        asked=2.084,
        said=0.495,
        done=0.824,
        rarest=0.2,
        second=0.302,
        work=0.939,
        general=-2.3,
        small_talk=-2.0,
        length=-0.115,
        size=-0.652,
    ),
    "statement": _model(
        -2.05,
        0.25,
        confidence=0.021,
        place=-0.121,
        work=0.597,
        general=-1.325,
        question=0.064,
        length=-0.911,
        found=-0.406,
        words=-0.001,
        topics=0.185,
        share=1.004,
        before=-0.182,
        lead=-0.046,
        among=-0.465,
        lasts=3.291,
    ),
    "note": _NOTE,
    "quote": replace(_NOTE, bar=0.4),
}


class Weighed(msgspec.Struct, frozen=True):
    """A memory that might be said: how likely it helps, and the least that it must."""

    hit: Hit
    kind: Kind
    chance: float
    bar: float

    @property
    def excess(self) -> float:
        return self.chance / self.bar if self.bar > 0.0 else 1.0 + self.chance


def best(weighed: Sequence[Weighed]) -> tuple[Hit, ...]:
    """Return the hits to be said, the likeliest to help first."""
    order = sorted(weighed, key=lambda item: -item.excess)
    if not order or order[0].chance < order[0].bar:
        return ()
    first = order[0]
    least = max(SHARE, SHARE * first.excess)
    more = (
        item for item in order[1:] if item.excess >= (least if item.kind == first.kind else ALSO)
    )
    return tuple(item.hit for item in (first, *more))[:MOST]


def score_hits(
    view: View,
    prompt: str,
    reading: Reading,
    hits: Sequence[Hit],
    bearing: Mapping[str, Bearing],
    *,
    is_passive: bool = False,
) -> tuple[Weighed, ...]:
    """Return how likely each of the first hits, and each statement among them, helps a prompt;
    `bearing` is how what the user laid down bears on it.
    """
    weighed = []
    for hit, signs in features(view, prompt, reading, hits, bearing):
        kind = kind_of(hit.memory)
        model = MODELS[kind]
        bar = model.bar + (PASSIVE if is_passive else 0.0)
        is_beside = kind == "turn" and hit.confidence < NEAR and max(signs[_SHARES]) < HELD
        weighed.append(Weighed(hit, kind, 0.0 if is_beside else model.chance(signs), bar))
    return tuple(weighed)


def kind_of(memory: Memory) -> Kind:
    """Return which model a memory is weighed by; a `quote` is what no user's word stands behind."""
    if memory.kind == EPISODE:
        return "turn"
    if is_laid_down(memory):
        return "statement"
    return "note" if memory.trust in MAY_RULE else "quote"


def features(
    view: View,
    prompt: str,
    reading: Reading,
    hits: Sequence[Hit],
    bearing: Mapping[str, Bearing],
) -> list[tuple[Hit, tuple[float, ...]]]:
    """Return those of the hits that are looked at, each with its signs in the order of FEATURES."""
    words = list(dict.fromkeys(tokenizer.terms(prompt)))
    # counted where the words are: in the build, if there is one
    size = view.snapshots.postings.size or view.tail.size
    weights = {word: _weight(view, word, size) for word in words}
    unknown = _rarity(1, max(size, FEWEST))
    total = max(sum(weights.values()), WORTH * unknown)
    wants = reading.wants
    of_prompt = (
        wants.work if wants else 0.0,
        wants.general if wants else 0.0,
        wants.small_talk if wants else 0.0,
        float("?" in prompt),
        math.log1p(len(words)),
        math.log(max(size, FEWEST)),
    )
    signs_of_hits = []
    for place, hit in enumerate(hits):
        laid_down = bearing.get(hit.memory.id)
        if place >= LOOKED_AT and laid_down is None:
            continue
        parts = [weights.keys() & set(tokenizer.terms(part)) for part in _parts(hit.memory)]
        rarest = sorted((weights[word] for word in set().union(*parts)), reverse=True)
        sure = min(max(hit.confidence, _UNSURE), 1.0 - _UNSURE)
        is_found = hit.score > 0.0
        signs = (
            math.log(sure / (1.0 - sure)),
            float(min(place, _PLACES) if is_found else _PLACES),
            *(sum(weights[word] for word in part) / total for part in parts),
            *(*rarest, 0.0, 0.0)[:2],
            *of_prompt,
            float(is_found),
            *(_bearing_signs(laid_down) if laid_down else (0.0,) * 7),
        )
        signs_of_hits.append((hit, signs))
    return signs_of_hits


def _bearing_signs(match: Bearing) -> tuple[float, ...]:
    before = float(min(match.before, _RANKS))
    among = math.log1p(match.among)
    return match.words, match.topics, match.share, before, match.lead, among, match.lasts


def _weight(view: View, word: str, size: int) -> float:
    """Return how much a word of a prompt says, by how few of `size` memories hold it."""
    if size < FEWEST:
        return _rarity(max(1, min(view.tail.frequency(word), size)), FEWEST)
    return max(view.tail.idf(word), LEAST_IDF)


def _rarity(frequency: int, size: int) -> float:
    return max(math.log((size - frequency + 0.5) / (frequency + 0.5)), LEAST_IDF)


def _parts(memory: Memory) -> tuple[str, str, str]:
    """Return what was asked, said and done: what somebody noted down is an answer, as what was said
    at the end of a turn is.
    """
    if memory.kind == EPISODE:
        return memory.content, memory.result or "", memory.action or ""
    beside = memory.action or memory.context or ""
    if memory.kind == STATEMENT:
        return memory.content, memory.result or "", beside
    return "", f"{memory.content} {memory.result or ''}", beside
