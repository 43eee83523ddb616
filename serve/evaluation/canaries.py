"""
Canaries: memories queried by their own rarest words. If one is not found, recall itself is broken,
since the question is easy.

A few dozen are chosen over all kinds and ages by the hashes of their ids: the same memory gives the
same canaries, and a growing one keeps most of them. Only memories whose words distinguish them from
every other are chosen.
"""

from collections.abc import Iterator, Sequence
from functools import reduce
from math import comb

import msgspec
import numpy as np
import numpy.typing as npt

from serve.reader.filters import Filter
from serve.reader.reader import open_view
from serve.reader.snapshots import Snapshots
from serve.reader.view import View
from serve.recall.recall import Mode, Question, recall
from store.embedders.embedder import Embedder
from store.home.config import Choices
from store.home.tenant import Tenant
from store.log.event_kinds import EPISODE
from store.snapshots.manifest import CANARIES, CheckResult, Manifest
from store.text import tokenizer

MOST = 30  # canaries
A_FEW = 10  # of a quick build
WORDS = 4  # of a question
WITHIN = 5  # ranks: a canary among them is found
AGES = 4  # parts of the memory, from the oldest to the newest
# With fewer canaries nothing is concluded; below the first share a build is refused, below the
# second it is published with a warning.
FEWEST, REFUSED_BELOW, DOUBTED_BELOW = 10, 0.5, 0.9

_TRIES = 4  # memories tried for each: many may be duplicates
_LONGEST = 8  # terms of a word; more are a sentence without spaces, or data

TREND = 100  # builds
_CHANCE = 0.01  # of so few hits without a change: below it, something changed

Point = tuple[int, int, int]
Docs = npt.NDArray[np.int64]


class Canary(msgspec.Struct, frozen=True):
    id: str
    question: str


class Outcome(msgspec.Struct, frozen=True):
    """The number of canaries asked for, and those not found."""

    asked: int
    missed: tuple[Canary, ...]

    @property
    def hits(self) -> int:
        return self.asked - len(self.missed)

    @property
    def share(self) -> float:
        """The share found; 1 if none was asked for."""
        return self.hits / self.asked if self.asked else 1.0

    @property
    def is_refused(self) -> bool:
        return self.asked >= FEWEST and self.share < REFUSED_BELOW

    @property
    def is_doubted(self) -> bool:
        return self.asked >= FEWEST and self.share < DOUBTED_BELOW


def over(
    tenant: Tenant,
    manifest: Manifest,
    embedder: Embedder,
    choices: Choices,
    now: int,
    *,
    most: int = MOST,
) -> Outcome:
    """Ask for `most` canaries of a manifest; it need not be published.

    Raise SnapshotDamaged if its snapshots cannot be read.
    """
    view = open_view(tenant, manifest, embedder)
    return ask(view, choose(view.snapshots, now, most), choices, now)


def result(outcome: Outcome, now: int, earlier: Manifest | None, unread: str = "") -> CheckResult:
    """Return an outcome as the check a manifest keeps, after the trend of the one before it.

    `unread` is the reason why that one cannot be read.
    """
    before = earlier and check_of(earlier)
    points = [*(trend(before) if before else ()), (now, outcome.hits, outcome.asked)][-TREND:]
    detail = f"{outcome.hits} of {outcome.asked} canaries came back"
    if outcome.missed:
        detail += f"; missed: {', '.join(canary.id for canary in outcome.missed[:3])}"
    if unread:
        detail += f"; compared with no earlier build: {unread}"
    metadata = {
        "is_doubted": outcome.is_doubted,
        "has_fallen": has_fallen(outcome, points[:-1]),
        "missed": outcome.missed,
        "trend": points,
    }
    return CheckResult(
        CANARIES, not outcome.is_refused, detail, CANARIES, msgspec.to_builtins(metadata)
    )


def check_of(manifest: Manifest, name: str = CANARIES) -> CheckResult | None:
    """Return a check as it came out when a manifest was built; None if it was not made."""
    return next((result for result in manifest.checks if result.name == name), None)


def trend(check: CheckResult) -> tuple[Point, ...]:
    """Return the points of earlier builds: microseconds UTC, canaries found, canaries asked for."""
    return msgspec.convert(check.metadata["trend"], tuple[Point, ...])


def total(points: Sequence[Point]) -> tuple[int, int]:
    """Return the numbers of canaries found and asked for in some builds together."""
    return sum(hits for _, hits, _ in points), sum(asked for _, _, asked in points)


def has_fallen(outcome: Outcome, before: Sequence[Point]) -> bool:
    """Return True if fewer canaries were found than the earlier builds make likely.

    The test is the binomial chance of so few hits at the earlier share; one more hit and one more
    miss are added to the earlier builds, so that a perfect past is no certainty.
    """
    back, asked = total(before)
    if min(outcome.asked, asked) < FEWEST:
        return False
    share = (back + 1) / (asked + 2)
    chance = sum(
        comb(outcome.asked, hits) * share**hits * (1 - share) ** (outcome.asked - hits)
        for hits in range(outcome.hits + 1)
    )
    return chance < _CHANCE


def choose(snapshots: Snapshots, now: int, most: int = MOST) -> tuple[Canary, ...]:
    """Return the canaries of a manifest: `most`, or as many as there are.

    Insights of jobs and episodes are excluded: their sources or lessons are returned in their
    place.
    """
    living = snapshots.rows.active_at(now)
    living &= ~snapshots.rows.equal("kind", (EPISODE,))
    if snapshots.insights is not None:
        living[snapshots.insights.documents] = False
    chosen: list[Canary] = []
    for doc in _in_turn(snapshots, living)[: _TRIES * most]:
        memory = snapshots.rows.take([int(doc)])[0]
        if question := _question(snapshots, living, memory.text):
            chosen.append(Canary(memory.id, question))
        if len(chosen) == most:
            break
    return tuple(chosen)


def ask(view: View, canaries: Sequence[Canary], choices: Choices, now: int) -> Outcome:
    """Ask for every canary as a user would, but without a bar: no setting can hide one."""
    missed: list[Canary] = []
    mode: Mode = "auto"
    for canary in canaries:
        question = Question(
            text=canary.question,
            filter=Filter(now=now),
            top_k=WITHIN,
            mode=mode,
            fusion=choices.fusion,
        )
        answer = recall(view, question)
        if canary.id not in [hit.memory.id for hit in answer.hits]:
            missed.append(canary)
        if answer.is_degraded:
            mode = "lexical"  # a model that is away is waited for once
    return Outcome(len(canaries), tuple(missed))


def _in_turn(snapshots: Snapshots, living: npt.NDArray[np.bool_]) -> Docs:
    """Return the living documents, one of each kind and age in turn, by the hash of their ids."""
    rows = snapshots.rows
    by_hash = rows.by_hash.astype(np.int64)
    docs = by_hash[living[by_hash]]
    if not len(docs):
        return docs
    kinds = rows.codes("kind")[docs].astype(np.int64)
    strata = kinds * AGES + docs * AGES // len(rows)
    order = np.argsort(strata, kind="stable")
    _, starts, sizes = np.unique(strata[order], return_index=True, return_counts=True)
    turns = np.empty(len(docs), np.int64)
    turns[order] = np.arange(len(docs)) - np.repeat(starts, sizes)
    return docs[np.lexsort((strata, turns))]


def _question(snapshots: Snapshots, living: npt.NDArray[np.bool_], text: str) -> str | None:
    """Return a memory's rarest words in another order; None if other memories have them all too."""

    def rarity(word_and_terms: tuple[str, Sequence[str]]) -> tuple[int, str]:
        word, terms = word_and_terms
        return min(map(snapshots.postings.frequency, terms)), word

    words: list[str] = []
    used_terms: set[str] = set()
    for word, terms in sorted(_words(text), key=rarity):
        if len(words) < WORDS and used_terms.isdisjoint(terms):
            words.append(word)
            used_terms |= set(terms)
    if len(words) < 2:
        return None
    lists = (snapshots.postings.posting_list(term)[0] for term in sorted(used_terms))
    holding = reduce(lambda a, b: np.intersect1d(a, b, assume_unique=True), lists)
    return " ".join(sorted(words)) if living[holding].sum() == 1 else None


def _words(text: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the words of a text, each with its terms; a run without spaces gives its terms."""
    for chunk in dict.fromkeys(text.split()):
        terms = tuple(tokenizer.terms(chunk))
        if len(terms) > _LONGEST:
            yield from ((term, (term,)) for term in terms)
        elif terms:
            yield chunk, terms
