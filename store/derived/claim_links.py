"""
Links between the claims of one project: which earlier claim a later one replaces, ends or repeats.

Each claim is compared with those before it that share its rarer words, and a short one also with
the last of its session. A claim's repetitions are outdated with it, and a conclusion drawn from it
rests on an outdated claim.
"""

import re
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from itertools import takewhile
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from store.text.claim_pairs import (
    RELATIONS,
    SURE,
    UNSURE,
    Around,
    Relation,
    features,
    has_same_body,
    likelihood,
    may_be_over,
    may_repeat,
    most_likely,
    rarity_of,
    relations,
    restates,
)
from store.text.claims import Claim, announces, parse

State = Literal[Relation, "rests"]
NAMES: tuple[State, ...] = (*RELATIONS, "rests")
_REPLACES, _ENDS, _REPEATS = map(RELATIONS.index, ("replaces", "ends", "repeats"))
_RESTS = len(RELATIONS)

_FEWEST = 0.45  # of the summed rarity of the words that candidates share
_SHARED = 0.2  # of the words of the shorter one
_HOLDERS = 48  # the newest claims that hold a word
_CANDIDATES = 6
_NEAR = 8  # claims of a session
_SHORT = 6  # words that a claim is about
_SAME = 0.7  # the least probability of a repetition that is outdated with its claim
_TOGETHER = 16
_CONCLUSION = re.compile(
    r"\s*(?:so:|therefore|thus|hence|conclusion|consequently|that leaves|which leaves|derived\b"
    r"|daher|folglich|donc|par conséquent|por lo tanto|así que|portanto|quindi|dus\b|поэтому|所以"
    r"|因此|だから)",
    re.IGNORECASE,
)
_BASIS = 2  # turns before a conclusion
TERM_BYTES = 4  # of the number of a word


class Said(NamedTuple):
    """A claim, its owner, its moment in microseconds UTC, and its words (`pack_terms`)."""

    id: str
    mark: int
    project: str
    session: str
    at: int
    text: str
    terms: bytes
    is_note: bool
    is_own: bool = True


class Link(NamedTuple):
    """A claim's relation to an earlier one; both by their places in their project."""

    older: int
    newer: int
    relation: int
    probability: float
    is_void: bool = False


class _Holders:
    """The claims that hold each word, by their places, ascending.

    Claims added before the first query are sorted at that query, all at once: most of a build is
    known.
    """

    def __init__(self) -> None:
        self.sizes = array("H")  # words of each claim
        self._waiting = array("I")  # words of all claims in a row, until they are put in order
        self._terms: npt.NDArray[np.uint32] | None = None  # different ones, once in order
        self._starts = np.zeros(1, np.int64)  # of each in the places, and where they end
        self._places = np.empty(0, np.int32)
        self._added: defaultdict[int, array[int]] = defaultdict(lambda: array("i"))

    def add(self, terms: bytes) -> None:
        """Add the words of the next claim."""
        if self._terms is None:
            self._waiting.frombytes(terms)
        else:
            for term in unpack_terms(terms):
                self._added[term].append(len(self.sizes))
        self.sizes.append(len(terms) // TERM_BYTES)

    def count(self, term: int) -> int:
        """Return the number of claims that hold a word."""
        terms, count = self._in_order(), len(self._added.get(term, ()))
        at = int(terms.searchsorted(np.uint32(term))) if len(terms) else 0
        if at < len(terms) and int(terms[at]) == term:
            count += int(self._starts[at + 1] - self._starts[at])
        return count

    def newest(self, terms: Sequence[int]) -> tuple["array[int]", list[int], list[int]]:
        """Return the newest places of each known word, at most _HOLDERS.

        Also the number of places of each word, and the number returned.
        """
        newest, counts, lengths = array("i"), list[int](), list[int]()
        for term, (start, end) in zip(terms, self._span(terms), strict=True):
            added = self._added.get(term, ())
            if count := end - start + len(added):
                few = min(count, _HOLDERS)
                first = end - max(0, few - len(added))
                newest.frombytes(self._places[first:end].tobytes())
                newest.extend(added[-few:])
                counts.append(count)
                lengths.append(few)
        return newest, counts, lengths

    def _span(self, terms: Sequence[int]) -> list[tuple[int, int]]:
        """Return the start and the end of each word's places in `_places`."""
        in_order = self._in_order()
        if not len(in_order):
            return [(0, 0)] * len(terms)
        wanted = np.array(terms, np.uint32)
        at = in_order.searchsorted(wanted)
        starts = self._starts[at]
        is_there = in_order.take(at, mode="clip") == wanted
        ends = np.where(is_there, self._starts.take(at + 1, mode="clip"), starts)
        return list(zip(starts.tolist(), ends.tolist(), strict=True))

    def _in_order(self) -> npt.NDArray[np.uint32]:
        """Return the different words added first, after sorting the pending ones."""
        if self._terms is None:
            flat = np.frombuffer(self._waiting, np.uint32).astype(np.uint64)
            places = np.repeat(np.arange(len(self.sizes), dtype=np.uint64), self.sizes)
            # numbers of word and place are sorted many times as fast as words with their order
            pairs = np.sort((flat << np.uint64(32)) | places)
            words = (pairs >> np.uint64(32)).astype(np.uint32)
            is_first = np.ones(len(words), np.bool_)
            np.not_equal(words[1:], words[:-1], out=is_first[1:])
            starts = np.flatnonzero(is_first)
            self._terms, self._starts = words[starts], np.append(starts, len(words))
            self._places = (pairs & np.uint64(0xFFFF_FFFF)).astype(np.int32)
            self._waiting = array("I")
        return self._terms


@dataclass(slots=True)
class Claims:
    """The claims of one project, in order, and the queries on them."""

    said: list[Said] = field(default_factory=list)
    turns: list[int] = field(default_factory=list)  # of each claim, counted in its session
    links: list[Link] = field(default_factory=list)
    _holders: _Holders = field(default_factory=_Holders)
    _sessions: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    _texts: dict[str, int] = field(default_factory=dict)  # the first claim of a text
    _root: list[int] = field(default_factory=list)  # the first claim that each repeats
    _alike: defaultdict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    _resting: defaultdict[int, list[int]] = field(default_factory=lambda: defaultdict(list))

    def add(self, statement: Said, known: Sequence[Link] | None = None) -> None:
        """Add the next claim and find its links; or take over the `known` ones."""
        place = self._append(statement)
        for link in self._find(place) if known is None else known:
            self.links.append(link)
            if link.relation == _REPEATS and link.probability >= _SAME:
                self._join(place, link.older)
        self._file(place)

    def is_repeated_since(self, place: int, newer: int) -> bool:
        """Return True if a claim was made again, by then or since, and so is valid."""
        at, own = self.said[newer].at, self.said[place].id
        since = takewhile(
            lambda other: self.said[other].at >= at,
            (other for other in reversed(self._alike[self._root[place]]) if other != newer),
        )
        return any(self.said[other].id != own for other in since)

    def marked_links(self) -> Iterator[Link]:
        """Yield the links, void if their older claim was made again since."""
        again = {
            (link.older, self.said[link.newer].id)
            for link in self.links
            if link.relation == _REPEATS
        }
        for link in self.links:
            is_again = (link.older, self.said[link.newer].id) in again
            yield link._replace(
                is_void=is_change(link)
                and (is_again or self.is_repeated_since(link.older, link.newer))
            )

    def _append(self, statement: Said) -> int:
        place = len(self.said)
        before = self._sessions[statement.session] if statement.session else ()
        turn = 0
        if before:
            last = before[-1]
            turn = self.turns[last] + (self.said[last].at != statement.at)
        self.said.append(statement)
        self.turns.append(turn)
        self._root.append(place)
        first = self._texts.setdefault(_plain(statement.text), place)
        if first != place:
            self._root[place] = self._root[first]
        self._alike[self._root[place]].append(place)
        return place

    def _join(self, place: int, older: int) -> None:
        """Make a claim outdated together with an older one."""
        if self._root[place] == place:
            self._alike[place].remove(place)
            self._root[place] = self._root[older]
            self._alike[self._root[place]].append(place)

    def _file(self, place: int) -> None:
        statement = self.said[place]
        self._holders.add(statement.terms)
        if not statement.session:
            return
        if _CONCLUSION.match(statement.text):
            for base in self._sessions[statement.session][-_NEAR:]:
                if self.turns[place] - self.turns[base] in range(1, _BASIS + 1):
                    self._resting[self._root[base]].append(place)
        self._sessions[statement.session].append(place)

    def pairs(self, place: int) -> dict[int, tuple[Claim, Around, list[float]]]:
        """Return the earlier claims that a claim may change, by their places: each parsed, its
        distance, and the features of both.
        """
        claim = parse(self.said[place].text)

        def rarity(term: str) -> float:
            return rarity_of(self._holders.count(term_number(term)), place)

        pairs = dict[int, tuple[Claim, Around, list[float]]]()
        for older in self._candidates(place, claim):
            other, around = parse(self.said[older].text), self._around(older, place, claim)
            if most_likely(other, claim, around) or may_repeat(other, claim):
                pairs[older] = other, around, features(other, claim, rarity, around)
        return pairs

    def _find(self, place: int) -> Iterator[Link]:
        claim = parse(self.said[place].text)
        if not self.said[place].is_own:
            for older in self._candidates(place, claim):
                if has_same_body(parse(self.said[older].text), claim):
                    yield Link(older, place, _REPEATS, 1.0)
            return
        pairs = self.pairs(place)
        if not pairs:
            return
        over: dict[int, tuple[int, float]] = {}
        judged = relations([row for *_, row in pairs.values()])
        for (older, (other, around, _)), chances in zip(pairs.items(), judged, strict=True):
            repeats = float(chances[_REPEATS])
            if has_same_body(other, claim) or (around.is_beside and restates(other, claim)):
                repeats = 1.0
            ended = float(chances[_REPLACES] + chances[_ENDS])
            chance = likelihood(other, claim, around, ended)
            if repeats < 1.0 and chance >= UNSURE and may_be_over(other, claim):
                relation = _ENDS if chances[_ENDS] > chances[_REPLACES] else _REPLACES
                # requests of different days are alike: a doubt about each says nothing
                if chance >= (SURE if self._is_far(older, place) else UNSURE):
                    over[older] = relation, chance
            elif repeats >= UNSURE and repeats >= chances.max():
                yield Link(older, place, _REPEATS, round(repeats, 3))
        yield from self._spread(place, self._nearest(place, over))

    def _is_far(self, older: int, place: int) -> bool:
        """Return True if a claim was typed in another session."""
        other = self.said[older]
        return not other.is_note and other.session != self.said[place].session

    def _nearest(
        self, place: int, over: dict[int, tuple[int, float]]
    ) -> dict[int, tuple[int, float]]:
        """Return those that share words with the claim, else the last it points at."""
        terms = set(unpack_terms(self.said[place].terms))
        named = {
            older: change
            for older, change in over.items()
            if not terms.isdisjoint(unpack_terms(self.said[older].terms))
        }
        last = max(over, key=lambda older: (self.turns[older], older), default=None)
        return named if named or last is None else {last: over[last]}

    def _spread(self, place: int, over: dict[int, tuple[int, float]]) -> Iterator[Link]:
        """Yield links to the outdated claims, their repetitions and their conclusions."""
        spread: dict[int, tuple[int, float]] = dict(over)
        terms = set(unpack_terms(self.said[place].terms))
        for older, (relation, chance) in over.items():
            about = terms.intersection(unpack_terms(self.said[older].terms))
            together = [
                other
                for other in self._alike[self._root[older]][-_TOGETHER:]
                if not about or not about.isdisjoint(unpack_terms(self.said[other].terms))
            ]
            resting = list(self._resting.get(self._root[older], ())[-_TOGETHER:])
            resting += [n for base in resting for n in self._alike[self._root[base]][-_TOGETHER:]]
            for other, state in (
                *((n, relation) for n in together),
                *((n, _RESTS) for n in resting),
            ):
                if other != place and self._root[other] != self._root[place]:
                    if chance < SURE and self._is_far(other, place):
                        continue
                    if spread.get(other, (0, 0.0))[1] < chance:
                        spread[other] = state, chance
        for older, (relation, chance) in sorted(spread.items()):
            yield Link(older, place, relation, round(chance, 3))

    def _candidates(self, place: int, claim: Claim) -> list[int]:
        """Return the claims that a claim may change, in order: the nearest in words, and for a
        short claim the last of its session.
        """
        statement = self.said[place]
        near = self._nearest_in_words(unpack_terms(statement.terms), place)
        if statement.session and (len(claim.terms) <= _SHORT or announces(claim)):
            near.update(self._sessions.get(statement.session, ())[-_NEAR:])
        plain = _plain(statement.text)
        return sorted(
            older
            for older in near
            if (other := self.said[older]).id != statement.id
            and not (other.at == statement.at and other.session == statement.session)
            and _plain(other.text) != plain
        )

    def _nearest_in_words(self, terms: Sequence[int], place: int) -> set[int]:
        """Return the claims that share the rarest of some words, at most _CANDIDATES."""
        newest, counts, lengths = self._holders.newest(terms)
        if not lengths:
            return set()
        rarities = [rarity_of(count, place) for count in counts]
        held_by = np.frombuffer(newest, np.int32)
        order = held_by.argsort(kind="stable")
        held_by = held_by[order]
        is_first = np.ones(len(held_by), np.bool_)
        np.not_equal(held_by[1:], held_by[:-1], out=is_first[1:])
        olders, row = held_by[is_first], is_first.cumsum() - 1
        shared = np.bincount(row)
        weights = np.bincount(row, np.repeat(rarities, lengths)[order])
        near = np.flatnonzero(weights >= _FEWEST)
        sizes = np.frombuffer(self._holders.sizes, np.uint16)[olders[near]]
        fewest = _SHARED * np.minimum(sizes, len(terms))
        near = near[shared[near] >= fewest]
        best = near[np.lexsort((-olders[near], -weights[near]))[:_CANDIDATES]]
        return set(olders[best].tolist())

    def _around(self, older: int, place: int, claim: Claim) -> Around:
        statement, other = self.said[place], self.said[older]
        if not statement.session or statement.session != other.session:
            return Around(is_note=other.is_note)
        kinds = {kind for kind, *_ in claim.values}
        between = (n for n in self._sessions[statement.session][-2 * _NEAR :] if older < n < place)
        nearer = sum(
            any(kind in kinds for kind, *_ in parse(self.said[n].text).values)
            for n in between
            if self._root[n] != self._root[older] and self.said[n].at != other.at
        )
        return Around(self.turns[place] - self.turns[older], False, min(3, nearer), other.is_note)


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).strip(" .!,;:")


def pack_terms(terms: Iterable[int]) -> bytes:
    """Return the numbers of words, ascending, as one value: a home has millions of them."""
    return array("I", sorted(terms)).tobytes()


def unpack_terms(terms: bytes) -> Sequence[int]:
    """Return the numbers of words in `terms`."""
    return memoryview(terms).cast("I")


@lru_cache(maxsize=1 << 15)  # words are Zipfian
def term_number(term: str) -> int:
    return int.from_bytes(blake2b(term.encode(), digest_size=4).digest(), "little")


def is_change(link: Link) -> bool:
    """Return True if the older claim may be outdated."""
    return link.relation in (_REPLACES, _ENDS, _RESTS)
