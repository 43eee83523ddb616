"""
Speaking: whether what recall found is said unasked, and how much of it.

Nobody asked the memory, and a note beside the point costs the model's attention. So each of the
best few hits gets a probability that it helps with this prompt, by a logistic model over what the
prompt is and what of it stands where in the hit; the best is said where that is over a bar, and
others only where they are nearly as likely. Most prompts are orders ("add a discount field to
invoices"), which a confidence fitted to questions misjudges. The coefficients were fitted by `make
fit-speaking` on the stories in tests/data/stories; docs/prompts.md has what they let through on
others.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from serve.reader.view import View
from serve.recall.analysis import LEAST_IDF
from serve.recall.recall import Hit
from store.agents.prompt_classifier import Reading
from store.log.event_kinds import EPISODE, STATEMENT
from store.memories.memory import Memory
from store.text import tokenizer

LOOKED_AT = 3  # of the best hits
MOST = 2  # notes
SHARE = 0.8  # of the best one's probability that another must have
PASSIVE = 0.2  # more, where the router wants less said unasked
# Words that no memory holds: a prompt is said to be worth as much at least, so that a hit with both
# words of "run the tests" holds less than all of what a prompt usually asks.
WORTH = 3.0
# Among fewer memories, counts do not tell whether a word is common: the first four may all be about
# one thing. So the words are weighed as if there were this many, the others about something else.
FEWEST = 50

FEATURES = (
    # the share of the prompt's words, by weight, or of WORTH, that the hit holds
    "asked",  # in what was asked
    "said",  # ... in what was said at the end of the turn
    "done",  # ... in what was done
    "rarest",  # the weight of the rarest word that it holds
    "second",  # and of the next
    "lead",  # how much its score is above the next one's
    "told",  # how much the score of the best that the model has before it already is above its own
    "work",  # how likely the prompt is about work on the project
    "length",  # of the prompt, in different words, as a logarithm
    "episode",  # 1 where the hit is a turn as it happened
)


@dataclass(frozen=True, slots=True)
class Model:
    """Coefficients in the order of SIGNS; `bar` is the least probability to be said."""

    coefficients: tuple[float, ...]
    bias: float
    bar: float

    def chance(self, signs: Sequence[float]) -> float:
        odds = self.bias + sum(a * b for a, b in zip(self.coefficients, signs, strict=True))
        return 1.0 / (1.0 + math.exp(-max(-30.0, min(30.0, odds))))


LETTERS = Model(
    (0.408, 3.872, 5.373, -0.216, 0.14, 0.234, 0.203, 0.999, 0.763, 0.444), -5.489, 0.25
)
MEANING = Model(
    (0.377, 4.124, 3.847, -0.208, 0.119, -0.054, 0.061, 1.462, 0.679, 0.81), -5.452, 0.3
)


@dataclass(frozen=True, slots=True)
class HelpScores:
    """How likely each of the first LOOKED_AT `hits` is to help, `chances`, and the least that the
    best of them must have, `bar`.
    """

    hits: tuple[Hit, ...]
    chances: tuple[float, ...]
    bar: float

    @property
    def best(self) -> tuple[Hit, ...]:
        """The hits to be said, the likeliest to help first."""
        order = sorted(range(len(self.chances)), key=lambda at: -self.chances[at])
        if not order or self.chances[order[0]] < self.bar:
            return ()
        least = max(self.bar * SHARE, SHARE * self.chances[order[0]])
        return tuple(self.hits[at] for at in order[:MOST] if self.chances[at] >= least)


def score_hits(
    view: View,
    prompt: str,
    reading: Reading,
    hits: Sequence[Hit],
    told: Sequence[Hit] = (),
    *,
    is_passive: bool = False,
) -> HelpScores:
    """Return how likely hits are to help with a prompt; `told` the model knows already."""
    model = MEANING if view.snapshots.calibration.knows_meaning else LETTERS
    chances = tuple(model.chance(one) for one in features(view, prompt, reading, hits, told))
    return HelpScores(tuple(hits), chances, model.bar + (PASSIVE if is_passive else 0.0))


def features(
    view: View, prompt: str, reading: Reading, hits: Sequence[Hit], told: Sequence[Hit] = ()
) -> list[tuple[float, ...]]:
    """Return the signs of the best few hits, in the order of SIGNS; of each of `hits` in order."""
    words = list(dict.fromkeys(tokenizer.terms(prompt)))
    # counted where the words are: in the build, if there is one
    size = view.snapshots.postings.size or view.tail.size
    weights = {word: _weight(view, word, size) for word in words}
    unknown = _rarity(1, max(size, FEWEST))
    total = max(sum(weights.values()), WORTH * unknown)
    work = reading.wants.work if reading.wants else 0.0
    best_told = max((hit.score for hit in told), default=0.0)
    found = []
    for place, hit in enumerate(hits[:LOOKED_AT]):
        parts = [weights.keys() & set(tokenizer.terms(part)) for part in _parts(hit.memory)]
        held = sorted((weights[word] for word in set().union(*parts)), reverse=True)
        after = hits[place + 1].score if place + 1 < len(hits) else 0.0
        found.append(
            (
                *(sum(weights[word] for word in part) / total for part in parts),
                *(*held, 0.0, 0.0)[:2],
                hit.score - after,
                best_told - hit.score,
                work,
                math.log1p(len(words)),
                float(hit.memory.kind == EPISODE),
            )
        )
    return found


def _weight(view: View, word: str, size: int) -> float:
    """Return how much a word of a prompt says, by how few of `size` memories hold it."""
    if size < FEWEST:
        return _rarity(max(1, min(view.tail.frequency(word), size)), FEWEST)
    return max(view.tail.idf(word), LEAST_IDF)


def _rarity(held: int, size: int) -> float:
    return max(math.log((size - held + 0.5) / (held + 0.5)), LEAST_IDF)


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
