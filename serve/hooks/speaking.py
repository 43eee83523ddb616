"""
Speaking: which recalled hits are said unasked, and how many.

The user did not ask the memory, and a note beside the point costs the model's attention. So each of
the best few hits, and each of the user's rules and statements that bears on the prompt
(`serve.lessons.deeds`), gets a probability that it helps, by a logistic model for its kind over
features of the prompt and the places of its words in the memory. A turn, a statement and a note
each have a bar: a user's rule or note is short and meant to be said, a commit or a turn is not. The
coefficients were fitted by `make fit-speaking`; docs/prompts.md has the results.
"""

import math
from collections import Counter
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
from store.text.excerpt import reports
from store.text.text_features import MAY_RULE

LOOKED_AT = 3  # of the best hits; all statements are scored
BEARING = 4  # statements that no recall found
MOST = 2  # notes
SHARE = 0.8  # of the best one's odds that another of its kind must have
ALSO = 1.3  # bars that one of another kind must have
PASSIVE = 0.2  # more, if the router wants less said unasked
# The least worth of a prompt, in words that no memory holds: so a hit with both words of "run the
# tests" does not cover all of a usual prompt.
WORTH = 3.0
# Among fewer memories, counts do not show how common a word is: the first four may all have one
# topic. So the words are weighed as if there were this many, the others about something else.
FEWEST = 50
# A turn with a low confidence and few of the prompt's words shares two rare words with it, and no
# more: among few memories that is chance.
NEAR, HELD = 0.08, 0.25
# Two turns and more among the hits that asked the prompt's very words: a standing text that is sent
# again and again, of which the earlier answers tell nothing.
SAME, COPIES = 0.8, 2
_PLACES, _RANKS = 8, 6  # places of a recall, and ranks of a statement, that differ
_UNSURE = 0.003  # confidence is clipped to this and 1 minus this

Kind = Literal["turn", "statement", "note", "quote"]

FEATURES = (
    "confidence",  # of the recall, as log-odds
    "place",  # in the recall
    # the share of the prompt's words, by weight, or of WORTH, in the hit
    "asked",  # in the prompt of the turn
    "said",  # ... in the last message of the turn
    "done",  # ... in its actions
    "rarest",  # the weight of the rarest word in it
    "second",  # and of the next
    "work",  # how likely the prompt is about work on the project
    "general",  # ... or about something no project helps with
    "small_talk",  # ... or nothing
    "question",  # 1 if it has a question mark
    "length",  # of the prompt, in different words, as a logarithm
    "size",  # of the memory, in memories, as a logarithm
    # of the user's rules and statements (`serve.lessons.deeds.Bearing`)
    "found",  # 1 if a recall found it
    "words",
    "topics",
    "share",
    "before",
    "lead",
    "among",  # as a logarithm
    "lasts",
    "near",  # of a turn: the cosine of the prompt's words and those of its last message
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
        1.762,
        0.36,
        confidence=0.122,
        place=-0.36,
        asked=-0.244,
        done=2.122,
        rarest=0.239,
        second=0.343,
        work=-1.158,
        general=-3.081,
        small_talk=-4.898,
        length=-0.35,
        size=-0.529,
        near=2.49,
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
    """Return the chance that each of the first hits, and each statement among them, helps a prompt;
    `bearing` is how the user's rules and statements bear on it.
    """
    weighed = []
    copies = _copies(prompt, hits)
    for hit, signs in features(view, prompt, reading, hits, bearing):
        kind = kind_of(hit.memory)
        model = MODELS[kind]
        bar = model.bar + (PASSIVE if is_passive else 0.0)
        is_beside = kind == "turn" and (
            (hit.confidence < NEAR and max(signs[_SHARES]) < HELD)
            or hit.memory.id in copies
            or not _tells(hit.memory)
        )
        weighed.append(Weighed(hit, kind, 0.0 if is_beside else model.chance(signs), bar))
    return tuple(weighed)


def _copies(prompt: str, hits: Sequence[Hit]) -> frozenset[str]:
    """Return the ids of the hits that asked the same, if several turns did."""
    words = frozenset(tokenizer.terms(prompt))
    same, turns = [], 0
    for hit in hits:
        if hit.memory.kind == EPISODE:
            theirs = frozenset(tokenizer.terms(hit.memory.content))
            if len(words & theirs) > SAME * len(words | theirs):
                same.append(hit.memory.id)
                turns += 1 + len(hit.copies)
    return frozenset(same) if turns >= COPIES else frozenset()


def _tells(turn: Memory) -> bool:
    """Return True if a turn did anything, or its end reports anything."""
    return bool(turn.action) or bool(reports(turn.result or ""))


def kind_of(memory: Memory) -> Kind:
    """Return the model for a memory; a `quote` is text without a user's word behind it."""
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
    """Return the hits to score, each with its signs in the order of FEATURES."""
    words = Counter(tokenizer.terms(prompt))
    # counted in the index with the words: the build, if there is one
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
        terms = [tokenizer.terms(part) for part in _parts(hit.memory)]
        parts = [weights.keys() & set(part) for part in terms]
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
            _cosine(words, Counter(terms[1])) if hit.memory.kind == EPISODE else 0.0,
        )
        signs_of_hits.append((hit, signs))
    return signs_of_hits


def _cosine(counts: Counter[str], others: Counter[str]) -> float:
    """Return the cosine of two texts' words, each counted as 1 + the logarithm of its count."""
    shared = sum(_log(counts[word]) * _log(others[word]) for word in counts.keys() & others.keys())
    lengths = [sum(_log(count) ** 2 for count in some.values()) for some in (counts, others)]
    return shared / math.sqrt(math.prod(lengths)) if shared else 0.0


def _log(count: int) -> float:
    return 1.0 + math.log(count)


def _bearing_signs(match: Bearing) -> tuple[float, ...]:
    before = float(min(match.before, _RANKS))
    among = math.log1p(match.among)
    return match.words, match.topics, match.share, before, match.lead, among, match.lasts


def _weight(view: View, word: str, size: int) -> float:
    """Return the weight of a prompt's word, by how few of `size` memories contain it."""
    if size < FEWEST:
        return _rarity(max(1, min(view.tail.frequency(word), size)), FEWEST)
    return max(view.tail.idf(word), LEAST_IDF)


def _rarity(frequency: int, size: int) -> float:
    return max(math.log((size - frequency + 0.5) / (frequency + 0.5)), LEAST_IDF)


def _parts(memory: Memory) -> tuple[str, str, str]:
    """Return a memory's prompt, result and actions; a note counts as a result, like the last
    message of a turn.
    """
    if memory.kind == EPISODE:
        return memory.content, memory.result or "", memory.action or ""
    beside = memory.action or memory.context or ""
    if memory.kind == STATEMENT:
        return memory.content, memory.result or "", beside
    return "", f"{memory.content} {memory.result or ''}", beside
