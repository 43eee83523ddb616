"""
The projection `state`: which earlier claim a later one replaces, ends or repeats.

A claim (`store.text.claims`) is a sentence of what the user typed, of a statement, or of a note. In
the order in which they were made, each is compared with those before it in its project that share
its rarer words, and a short one also with the last of its session: "Make that 150" is about the
turn before. So what a claim changes depends on the earlier ones alone, and a build goes on from
where the last one was. What repeats a claim is over with it, and a conclusion drawn from it rests
on what is over. Nothing here changes a memory: recall marks what is over, history keeps it, and
`mnemolog restore ID` says that a memory holds all the same.
"""

import re
from array import array
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from itertools import groupby, takewhile
from operator import itemgetter
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from store.agents.authorship import read_authors
from store.log.event_kinds import EPISODE, MEMORY_KINDS, Restored
from store.memories.memory import ACTIVE, OPEN, STATES, Memory
from store.memories.parts import fields_of
from store.snapshots.projection import Inputs, Made, Previous, Projection, Tables, column_view
from store.text.claim_pairs import (
    RELATIONS,
    SURE,
    UNSURE,
    Around,
    Relation,
    choices,
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
from store.text.claims import Claim, announces, claim_spans, parse
from store.text.text_features import MAY_RULE

CLAIMS = pa.schema(
    [
        ("id", pa.string()),  # of the memory
        ("mark", pa.uint64()),  # of its text
        ("project", pa.string()),
        ("session", pa.string()),
        ("at", pa.int64()),
        ("text", pa.string()),
        ("terms", pa.list_(pa.uint32())),
        ("is_note", pa.bool_()),
        ("is_own", pa.bool_()),  # else only passed on: it may be over, and changes nothing
    ]
)
# of rows of `claims`; `relation` is the place in NAMES
LINKS = pa.schema(
    [
        ("older", pa.int32()),
        ("newer", pa.int32()),
        ("relation", pa.int8()),
        ("probability", pa.float32()),
        ("is_void", pa.bool_()),  # the older claim was made again since
    ]
)
RESTORED = pa.schema([("id", pa.string()), ("at", pa.int64())])

State = Literal[Relation, "rests"]
NAMES: tuple[State, ...] = (*RELATIONS, "rests")
_REPLACES, _ENDS, _REPEATS = map(RELATIONS.index, ("replaces", "ends", "repeats"))
_RESTS = len(RELATIONS)

# what happened is not made untrue by what happened later; what a job wrote follows its sources
KINDS = frozenset(MEMORY_KINDS) - {
    *("raw_turn", "activity", "observation", "milestone", "summary", "bugfix", "insight", "goal")
}
_BORNE_BY = "kind state trust job author".split()
_FIELDS = "created_at seq id content project session".split()
_FEWEST = 0.45  # of the summed rarity of the words that candidates share
_SHARED = 0.2  # of the words of the shorter one
_HOLDERS = 48  # the newest claims that hold a word
_CANDIDATES = 6
_NEAR = 8  # claims of a session
_SHORT = 6  # words that a claim is about
_SAME = 0.7  # how likely claims repeat each other that are over together
_TOGETHER = 16
_CONCLUSION = re.compile(
    r"\s*(?:so:|therefore|thus|hence|conclusion|consequently|that leaves|which leaves|derived\b"
    r"|daher|folglich|donc|par conséquent|por lo tanto|así que|portanto|quindi|dus\b|поэтому|所以"
    r"|因此|だから)",
    re.IGNORECASE,
)
_REPORTED = re.compile(
    r"\b(?:from|by|via|says?|said|wrote|writes|according|per|von|laut|sagt|schreibt|según|dice"
    r"|selon|dit|segundo|diz|secondo|volgens|zegt|от|пишет)\b",
    re.IGNORECASE,
)
_BASIS = 2  # turns before a conclusion


class Said(NamedTuple):
    """A claim, whose it is and when it was made, microseconds UTC."""

    id: str
    mark: int
    project: str
    session: str
    at: int
    text: str
    terms: tuple[int, ...]
    is_note: bool
    is_own: bool = True


class Link(NamedTuple):
    """What a claim is to an earlier one; both by their places in their project."""

    older: int
    newer: int
    relation: int
    probability: float
    is_void: bool = False


class _Holders:
    """The claims that hold each word, by their places, ascending.

    What is added before anybody asks is put in order then, all at once: most of a build is known.
    """

    def __init__(self) -> None:
        self._sizes, self._waiting = array("I"), array("I")  # words of a claim; of all, in a row
        self._terms: npt.NDArray[np.uint32] | None = None  # different ones, once in order
        self._starts = np.zeros(1, np.int64)  # of each in the places, and where they end
        self._places = np.empty(0, np.int32)
        self._added: defaultdict[int, array[int]] = defaultdict(lambda: array("i"))
        self._size = 0

    def add(self, terms: Sequence[int]) -> None:
        """Let the next claim hold some words."""
        if self._terms is None:
            self._sizes.append(len(terms))
            self._waiting.extend(terms)
        else:
            for term in terms:
                self._added[term].append(self._size)
        self._size += 1

    def count(self, term: int) -> int:
        """Return how many claims hold a word."""
        terms, count = self._in_order(), len(self._added.get(term, ()))
        at = int(terms.searchsorted(np.uint32(term))) if len(terms) else 0
        if at < len(terms) and int(terms[at]) == term:
            count += int(self._starts[at + 1] - self._starts[at])
        return count

    def newest(self, terms: Sequence[int]) -> tuple["array[int]", list[int], list[int]]:
        """Return the newest places of each word that is held, at most _HOLDERS; how many there are
        of each, and how many are returned.
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
        """Return where in `_places` those of each word begin and end."""
        known = self._in_order()
        if not len(known):
            return [(0, 0)] * len(terms)
        asked = np.array(terms, np.uint32)
        at = known.searchsorted(asked)
        starts = self._starts[at]
        is_known = known.take(at, mode="clip") == asked
        ends = np.where(is_known, self._starts.take(at + 1, mode="clip"), starts)
        return list(zip(starts.tolist(), ends.tolist(), strict=True))

    def _in_order(self) -> npt.NDArray[np.uint32]:
        """Return the different words that were added first, with what waits put in order."""
        if self._terms is None:
            flat = np.frombuffer(self._waiting, np.uint32)
            of_each = np.repeat(np.arange(self._size, dtype=np.int32), self._sizes)
            order = flat.argsort(kind="stable")
            self._terms, starts = np.unique(flat[order], return_index=True)
            self._starts, self._places = np.append(starts, len(flat)), of_each[order]
            self._waiting, self._sizes = array("I"), array("I")
        return self._terms


@dataclass(slots=True)
class Claims:
    """The claims of one project, in order, and what is asked of them."""

    said: list[Said] = field(default_factory=list)
    turns: list[int] = field(default_factory=list)  # of each claim, counted in its session
    links: list[Link] = field(default_factory=list)
    _holders: _Holders = field(default_factory=_Holders)
    _sizes: "array[int]" = field(default_factory=lambda: array("H"))  # words of each claim
    _sessions: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    _texts: dict[str, int] = field(default_factory=dict)  # the first claim of a text
    _root: list[int] = field(default_factory=list)  # the first claim that each repeats
    _alike: defaultdict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    _resting: defaultdict[int, list[int]] = field(default_factory=lambda: defaultdict(list))

    def add(self, statement: Said, known: Sequence[Link] | None = None) -> None:
        """Add the next claim and find what it changes; or take over the links that are `known`."""
        place = self._append(statement)
        for link in self._find(place) if known is None else known:
            self.links.append(link)
            if link.relation == _REPEATS and link.probability >= _SAME:
                self._join(place, link.older)
        self._file(place)

    def is_repeated_since(self, place: int, newer: int) -> bool:
        """Return whether a claim was made again, by then or since, and so holds."""
        at, own = self.said[newer].at, self.said[place].id
        since = takewhile(
            lambda other: self.said[other].at >= at,
            (other for other in reversed(self._alike[self._root[place]]) if other != newer),
        )
        return any(self.said[other].id != own for other in since)

    def marked_links(self) -> Iterator[Link]:
        """Yield the links, those void whose older claim was made again since."""
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
        self._sizes.append(len(statement.terms))
        self._root.append(place)
        first = self._texts.setdefault(_plain(statement.text), place)
        if first != place:
            self._root[place] = self._root[first]
        self._alike[self._root[place]].append(place)
        return place

    def _join(self, place: int, older: int) -> None:
        """Let a claim be over with an older one."""
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

    def _find(self, place: int) -> Iterator[Link]:
        statement = self.said[place]
        claim = parse(statement.text)
        candidates = self._candidates(place, claim)
        if not statement.is_own:
            for older in candidates:
                if has_same_body(parse(self.said[older].text), claim):
                    yield Link(older, place, _REPEATS, 1.0)
            return
        if not candidates:
            return

        def rarity(term: str) -> float:
            return rarity_of(self._holders.count(_number(term)), place)

        pairs = dict[int, tuple[Claim, Around, list[float]]]()
        for older in candidates:
            other, around = parse(self.said[older].text), self._around(older, place, claim)
            if most_likely(other, claim, around) or may_repeat(other, claim):
                pairs[older] = other, around, features(other, claim, rarity, around)
        over: dict[int, tuple[int, float]] = {}
        judged = relations([row for *_, row in pairs.values()]) if pairs else ()
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
        """Return whether a claim was typed in another session."""
        other = self.said[older]
        return not other.is_note and other.session != self.said[place].session

    def _nearest(
        self, place: int, over: dict[int, tuple[int, float]]
    ) -> dict[int, tuple[int, float]]:
        """Return what is over: what shares words with the claim, else the last it points at."""
        terms = set(self.said[place].terms)
        named = {
            older: found
            for older, found in over.items()
            if not terms.isdisjoint(self.said[older].terms)
        }
        last = max(over, key=lambda older: (self.turns[older], older), default=None)
        return named if named or last is None else {last: over[last]}

    def _spread(self, place: int, over: dict[int, tuple[int, float]]) -> Iterator[Link]:
        """Yield what is over, with what repeats it and what was concluded from it."""
        told: dict[int, tuple[int, float]] = dict(over)
        terms = set(self.said[place].terms)
        for older, (relation, chance) in over.items():
            about = terms.intersection(self.said[older].terms)
            together = [
                other
                for other in self._alike[self._root[older]][-_TOGETHER:]
                if not about or not about.isdisjoint(self.said[other].terms)
            ]
            resting = list(self._resting.get(self._root[older], ())[-_TOGETHER:])
            resting += [n for one in resting for n in self._alike[self._root[one]][-_TOGETHER:]]
            for other, state in (
                *((n, relation) for n in together),
                *((n, _RESTS) for n in resting),
            ):
                if other != place and self._root[other] != self._root[place]:
                    if chance < SURE and self._is_far(other, place):
                        continue
                    if told.get(other, (0, 0.0))[1] < chance:
                        told[other] = state, chance
        for older, (relation, chance) in sorted(told.items()):
            yield Link(older, place, relation, round(chance, 3))

    def _candidates(self, place: int, claim: Claim) -> list[int]:
        """Return the claims that one may change, in order: those nearest in words, and the last of
        its session where it is short.
        """
        statement = self.said[place]
        found = self._nearest_in_words(statement.terms, place)
        if statement.session and (len(claim.terms) <= _SHORT or announces(claim)):
            found.update(self._sessions.get(statement.session, ())[-_NEAR:])
        plain = _plain(statement.text)
        return sorted(
            older
            for older in found
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
        sizes = np.frombuffer(self._sizes, np.uint16)[olders[near]]
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


@lru_cache(maxsize=1 << 15)  # words are Zipfian
def _number(term: str) -> int:
    return int.from_bytes(blake2b(term.encode(), digest_size=4).digest(), "little")


def text_mark(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


def bears_claims(memory: Memory) -> bool:
    """Return whether a memory's claims may hold or be over."""
    return _bears(memory.kind, memory.state, memory.trust, memory.job, memory.author)


def _bears(kind: str, state: str, trust: str, job: str | None, author: str | None) -> bool:
    if kind == EPISODE:  # its prompt; one of which nothing came may correct something all the same
        return state in (ACTIVE, OPEN) and author in (None, "typed")
    return kind in KINDS and state == ACTIVE and trust in MAY_RULE and job is None


def claims_of(
    id_: str, kind: str, content: str, project: str | None, session: str | None, at: int
) -> Iterator[Said]:
    """Yield the claims of a memory's content."""
    mark = text_mark(content)
    is_note = kind != EPISODE and session is None
    typed, passed = _parts(content) if kind == EPISODE else (content, "")
    for text, is_own in ((typed, True), (passed, False)):
        for start, end in claim_spans(text):
            claim = parse(content[start:end])
            # a choice is found by its kind, too: "we moved to pnpm" by "we use npm"
            about_what = claim.terms.union(f"={kind}" for kind in choices(claim))
            terms = tuple(sorted(map(_number, about_what)))
            about = project or "", session or "", at, content[start:end], terms
            yield Said(id_, mark, *about, is_note, is_own)


def _parts(prompt: str) -> tuple[str, str]:
    """
    Return a prompt of the same length without what was pasted into it, and one with nothing but
    what was passed on in a line after a colon. Quotations stay, and of such a line what its writer
    calls a change: "Change of plans: ..."
    """
    typed, passed = list(prompt), list(re.sub(r"[^\n]", " ", prompt))
    before = ""
    for part in read_authors(prompt).parts:
        text = prompt[part.start : part.end]
        is_line = part.place == "after" and "\n" not in text
        is_own = part.author == "typed" or part.place == "quotation"
        if not is_own and not (is_line and _announces_own(before)):
            typed[part.start : part.end] = re.sub(r"[^\n]", " ", text)
            if is_line:
                passed[part.start : part.end] = text
        before = text if part.place == "before" else ""
    return "".join(typed), "".join(passed)


def _announces_own(label: str) -> bool:
    """Return whether what stands before a colon announces a change that nobody else reports."""
    return announces(parse(label.strip())) and _REPORTED.search(label) is None


def build(inputs: Inputs, previous: Previous | None) -> Made:
    """Return the claims, project by project, and their links."""
    old = _Known.of(previous)
    rows: list[Said] = []
    links: list[Link] = []
    every = _all_claims(inputs.tables["memories"], old)
    # each is added as soon as it is made, for what it says was just taken apart
    for project, its in groupby(every, lambda statement: statement.project):
        start = len(rows)
        before, known = old.project(project)
        is_known = True
        claims = Claims()
        for place, statement in enumerate(its):
            is_known = is_known and place < len(before) and statement == before[place]
            claims.add(statement, known.get(place, ()) if is_known else None)
        rows += claims.said
        links += (
            link._replace(older=link.older + start, newer=link.newer + start)
            for link in claims.marked_links()
        )
    return {
        "claims": _table(rows, CLAIMS),
        "links": _table(links, LINKS),
        "restored": _restored(inputs, previous),
    }


def _table(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    arrays = [pa.array(column, one.type) for column, one in zip(columns, schema, strict=True)]
    return pa.table(arrays, schema=schema)


def _restored(inputs: Inputs, previous: Previous | None) -> pa.Table:
    """Return when memories were last said to hold, by `mnemolog restore`."""
    found: dict[str, int] = {}
    if previous is not None:
        found = {row["id"]: row["at"] for row in previous.tables["restored"].to_pylist()}
    for event in inputs.read(0 if previous is None else previous.watermark):
        if isinstance(event.body, Restored):
            found.pop(event.subject, None)
            found[event.subject] = event.at
    return _table(list(found.items()), RESTORED)


@dataclass(frozen=True)
class _Known:
    """What an earlier build found: claims by memory, and the links of each project."""

    by_memory: dict[tuple[str, int], list[Said]]
    projects: dict[str, tuple[list[Said], dict[int, list[Link]]]]

    @classmethod
    def of(cls, previous: Previous | None) -> "_Known":
        if previous is None:
            return cls({}, {})
        statements, links = read_claims(previous.tables), read_links(previous.tables)
        by_memory: defaultdict[tuple[str, int], list[Said]] = defaultdict(list)
        for statement in statements:
            by_memory[statement.id, statement.mark].append(statement)
        newer: defaultdict[int, list[Link]] = defaultdict(list)
        for link in links:
            newer[link.newer].append(link)
        projects = {}
        for project, rows in rows_by_project(previous.tables).items():
            own = {
                row - rows.start: [
                    link._replace(older=link.older - rows.start, newer=row - rows.start)
                    for link in newer[row]
                ]
                for row in rows
                if row in newer
            }
            projects[project] = statements[rows.start : rows.stop], own
        return cls(dict(by_memory), projects)

    def project(self, name: str) -> tuple[list[Said], dict[int, list[Link]]]:
        return self.projects.get(name, ([], {}))


def is_change(link: Link) -> bool:
    """Return whether the older claim may be over."""
    return link.relation in (_REPLACES, _ENDS, _RESTS)


def rows_by_project(tables: Tables) -> dict[str, range]:
    """Return the rows of CLAIMS by their project, which stand together."""
    rows: dict[str, range] = {}
    start = 0
    for project, some in groupby(tables["claims"].column("project").to_pylist()):
        rows[project] = range(start, start := start + sum(1 for _ in some))
    return rows


def read_claims(tables: Tables, rows: range | None = None) -> list[Said]:
    """Return rows of CLAIMS, by default all."""
    table = tables["claims"] if rows is None else tables["claims"].slice(rows.start, len(rows))
    columns = [table.column(name).to_pylist() for name in CLAIMS.names]
    return [Said._make((*row[:6], tuple(row[6]), *row[7:])) for row in zip(*columns, strict=True)]


def read_links(tables: Tables, newer: range | None = None) -> list[Link]:
    """Return rows of LINKS, by default all, else those whose newer claim is one of some rows."""
    table = tables["links"]
    if newer is not None:
        places = column_view(table, "newer")
        start, stop = np.searchsorted(places, (newer.start, newer.stop))
        table = table.slice(start, stop - start)
    columns = [table.column(name).to_pylist() for name in LINKS.names]
    return [Link._make((*row[:3], round(row[3], 3), row[4])) for row in zip(*columns, strict=True)]


def _all_claims(memories: Tables, old: _Known) -> Iterator[Said]:
    """Yield all claims, by project and there in the order in which they were made."""
    kinds, states = (column_view(memories["columns"], name) for name in ("kind", "state"))
    wanted = np.isin(kinds, [MEMORY_KINDS.index(kind) for kind in KINDS])
    wanted &= np.isin(states, [STATES.index(ACTIVE), STATES.index(OPEN)])
    table = fields_of(memories, np.flatnonzero(wanted), (*_BORNE_BY, *_FIELDS))
    columns = [table.column(name).to_pylist() for name in table.column_names]
    rows = [
        (project or "", at, seq, id_, kind, content, project, session)
        for kind, *borne_by, at, seq, id_, content, project, session in zip(*columns, strict=True)
        if _bears(kind, *borne_by)
    ]
    rows.sort(key=itemgetter(slice(3)))
    for _, at, _, id_, kind, content, project, session in rows:
        known = old.by_memory.get((id_, text_mark(content)))
        if known is not None and known[0].at == at:
            yield from known
        else:
            yield from claims_of(id_, kind, content, project, session, at)


STATE_PROJECTION = Projection(
    name="state",
    version="2",
    inputs=("log", "memories"),
    schemas={"claims": CLAIMS, "links": LINKS, "restored": RESTORED},
    build=build,
)
