"""
Tail: the events after a snapshot's watermark, laid over it in memory, as they stood at one moment.

Every memory that an event made or changed since is taken out of the snapshot's results
(`hidden_rows`) and its current version scored here with the same weights: the snapshot's idf and
average length. So a new memory is found at once, a forgotten one is gone at once, and the next
build changes neither.

A tail never changes: later events are in the next tail of `LiveTail`, which shares its storage.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from serve.reader.tail_storage import LONGEST, Columns, Counts, Slots, TailVectors
from serve.reader.tail_storage import SlotNumbers as Places
from store.embedders.embedder import Embedder
from store.home.errors import LogError
from store.index import similar_terms
from store.index.bm25 import K1, Formula, norms, sample_coverage
from store.index.postings import PostingsIndex
from store.index.vector_scan import VectorRows
from store.log import merging
from store.log.event_kinds import Adopted, Restored, Undone
from store.log.event_log import EventLog
from store.log.events import RECEIPTS, Event
from store.memories.fold import Fold
from store.memories.memory import UNSEEN, Edge, Memory
from store.memories.rows import Mask, MemoryRows
from store.plans.staleness import unapply_plan
from store.text.mentions import Mention

Scores = npt.NDArray[np.float32]
# slots ascending, their impacts, and the similarity of the term in each
Listed = tuple[Places, Scores, Scores]


class TermStats(NamedTuple):
    """A term's statistics in the memory."""

    idf: float
    frequency: int  # memories with it, else with a similar one; a changed one may count twice
    known_share: float  # 1 if a memory contains it, else the similarity of the most similar term
    slots: Places  # live, ascending: those with it or a similar one
    impacts: Scores  # [slots]
    shares: Scores  # [slots], 1 or the similarity of the term in each


_NOTHING = np.empty(0, np.int64), np.empty(0, np.float32), np.empty(0, np.float32)
_LEAST_RARITY = 0.1  # idf: in a memory of a few notes it may be zero or less
_KEPT = 1_024  # cached terms: one recall asks for each some ten times


@dataclass(frozen=True)
class Tail:
    """The changes since `rows` and `postings` were built, up to `watermark`.

    Each version of a memory takes a slot; only the newest version's slot is live, [slots]. Other
    slots score nothing, but may be listed if that costs less than leaving them out.
    """

    watermark: int
    changes: int  # events applied that were no receipts
    bytes: int  # of the texts they made or changed
    waiting: int  # memories whose texts are not indexed yet
    cut: int  # versions of long memories of which only the beginning is indexed
    live: Mask
    edges: Sequence[Edge]
    people: frozenset[str]
    terms_once: int  # terms in only one live slot
    adopted: tuple[Event, ...]  # policies of the router, oldest first
    undone: frozenset[str]  # events that no longer count
    restored: Mapping[str, int]  # when memories were restored, by id
    _slots: Slots
    _vectors: TailVectors
    _rows: MemoryRows
    _postings: PostingsIndex
    _at_hand: dict[str, TermStats] = field(default_factory=dict)  # follows from the rest

    def __len__(self) -> int:
        return len(self.live)

    def find(self, id_: str) -> Memory | None:
        """Return a memory's version in this tail, else in the snapshot."""
        slot = self.slot(id_)
        return self._rows.find(id_) if slot is None else self._slots.memories[slot]

    @property
    def source(self) -> object:
        """An object shared by the tails of one storage."""
        return self._slots

    def slot(self, id_: str) -> int | None:
        """Return the live slot of a memory; None if it did not change since the snapshot."""
        slot = self._slots.find(id_, len(self))
        return slot if slot >= 0 else None

    def take(self, slots: Sequence[int]) -> list[Memory]:
        """Return the memories of some slots, in the given order."""
        return [self._slots.memories[slot] for slot in slots]

    def edges_of(self, id_: str) -> list[Edge]:
        """Return the reasoning edges from a memory and to it, oldest first."""
        fresh = [edge for edge in self.edges if id_ in (edge.source, edge.target)]
        return [*self._rows.edges_of(id_), *fresh]

    def derivatives(self, id_: str) -> list[str]:
        """Return the ids of the memories that jobs made of this one, oldest first."""
        fresh = (
            memory
            for memory in self.current()
            if memory.job is not None and id_ in memory.source_ids
        )
        return list(dict.fromkeys([*self._rows.made_of(id_), *(memory.id for memory in fresh)]))

    def current(self) -> list[Memory]:
        """Return the memories that were made or changed since the snapshot, as they are now."""
        return self.take(np.flatnonzero(self.live).tolist())

    def predecessors(self, id_: str) -> list[Memory]:
        """Return the current memories that a memory replaced."""
        slots, counts = self._slots.replaced.first(id_, len(self))
        return self.take(self._live(slots, counts)[0].tolist()) if len(slots) else []

    @cached_property
    def columns(self) -> Columns:
        """The columns of the slots, for filters and weights."""
        return self._slots.columns(len(self))

    @cached_property
    def hidden_rows(self) -> Places:
        """The snapshot's rows that no longer count, ascending."""
        rows: Places = np.unique(self.columns["row"]).astype(np.int64)
        return rows[rows >= 0]

    def is_hidden(self, row: int) -> bool:
        place = int(np.searchsorted(self.hidden_rows, row))
        return place < len(self.hidden_rows) and int(self.hidden_rows[place]) == row

    @cached_property
    def _count(self) -> int:
        return int(np.count_nonzero(self.live))

    @property
    def size(self) -> int:
        """The number of memories; one that changed since the snapshot counts twice."""
        return self._postings.size + self._count

    def term(self, term: str) -> TermStats:
        """Return a term's statistics in the snapshot and the tail.

        The idf is the snapshot's; for a word it does not know, the tail's.
        """
        try:
            return self._at_hand[term]
        except KeyError:
            pass
        slots, impacts, shares = self._find_slots(term) if self._count else _NOTHING
        known = self._postings.known(term)
        if known is not None:
            idf, frequency, known_share = known.idf, known.documents + len(slots), known.share
        else:
            # a word in no memory is as rare as can be; an empty memory counts as one of a single
            # note
            holders, documents = max(1, len(slots)), max(1, self.size)
            idf = math.log(documents - holders + 0.5) - math.log(holders + 0.5)
            frequency, known_share = len(slots), 0.0
        if len(slots):
            known_share = max(known_share, float(shares.max()))
        if len(self._at_hand) >= _KEPT:
            self._at_hand.clear()
        stats = TermStats(idf, frequency, known_share, slots, impacts, shares)
        self._at_hand[term] = stats
        return stats

    def idf(self, term: str) -> float:
        """Return a term's idf."""
        return self.term(term).idf

    def frequency(self, term: str) -> int:
        """Return the number of memories with a term, else with a similar one; a changed memory may
        count twice.
        """
        return self.term(term).frequency

    def has(self, term: str) -> bool:
        """Return True if a memory contains the term itself."""
        return self._postings.has(term) or bool(len(self._slots_with(term)[0]))

    def holders(self, term: str) -> Places:
        """Return the live slots that contain the term itself, ascending."""
        return self._slots_with(term)[0]

    @cached_property
    def sample_coverage(self) -> float:
        """The estimated share of running words in texts like the memory's that it contains."""
        if self._postings.size:
            return self._postings.sample_coverage
        return sample_coverage(self.terms_once, int(self.columns["length"][self.live].sum()))

    def scores(
        self, query: Sequence[str], *, least_idf: float, out: Scores | None = None
    ) -> Scores:
        """Return the BM25 score of every slot, [slots], written into `out` if it is given.

        Slots that are not live score zero.
        """
        scores = np.empty(len(self), np.float32) if out is None else out
        scores[:] = 0.0
        for term, repeats in Counter(query).items():
            stats = self.term(term)
            if len(stats.slots):
                weight = np.float32(repeats * max(stats.idf, least_idf))
                scores[stats.slots] += weight * stats.impacts
        return scores

    def contains(self, terms: Collection[str], slots: Places) -> Scores:
        """Return the share of each term in some slots, [terms, slots]: 1, or the similarity of the
        most similar term there.
        """
        matrix = np.zeros((len(terms), len(self)), np.float32)
        for row, term in zip(matrix, terms, strict=True):
            stats = self.term(term)
            row[stats.slots] = stats.shares
        return matrix[:, slots]

    def cosines(self, query: Scores) -> Scores:
        """Return the cosine of a unit query with every slot, [slots]; zero without a vector."""
        cosines = np.empty(len(self), np.float32)
        self._vectors.cosines(query, cosines)
        return cosines

    def entity_scores(self, mentions: Sequence[Mention]) -> Scores:
        """Return the weight of the given entities named in every slot, [slots].

        Each weighs as much as an entity of one memory in the snapshot: the tail is short.
        """
        weight = np.float32(math.log1p(max(1, self.size)))
        scores = np.zeros(len(self), np.float32)
        for mention in mentions:
            names = {mention.name.casefold(), mention.alias.casefold()}
            slots = [self._slots.names.first(name, len(self))[0] for name in names]
            scores[np.unique(np.concatenate(slots))] += weight
        return scores

    def _find_slots(self, term: str) -> Listed:
        slots, counts = self._slots_with(term)
        similar = self._similar(term) if self._postings.expands(term) else []
        if not similar:
            if not len(slots):
                return _NOTHING
            return slots, self._impacts(slots, counts), np.ones(len(slots), np.float32)
        impacts, shares = np.zeros((2, len(self)), np.float32)
        self._postings.look_up([term, *(word for word, _ in similar)])
        rarity = self._rarity(term)
        lists = [self._slots_with(word) for word, _ in similar]
        sizes = [len(near) for near, _ in lists]
        near, times = map(np.concatenate, zip(*lists, strict=True))
        weights = [share * min(1.0, self._rarity(word) / rarity) for word, share in similar]
        gains = np.repeat(np.array(weights, np.float32), sizes) * self._impacts(near, times)
        np.maximum.at(impacts, near, gains)
        of_each = np.array([share for _, share in similar], np.float32)
        np.maximum.at(shares, near, np.repeat(of_each, sizes))
        impacts[slots], shares[slots] = self._impacts(slots, counts), 1.0
        holding = np.flatnonzero(shares)
        return holding, impacts[holding], shares[holding]

    def _similar(self, term: str) -> list[tuple[str, float]]:
        """Return the tail's words similar to a term with their similarity, most similar first."""
        trigrams, words = similar_terms.trigrams(term), self._slots.words
        if not len(trigrams):
            return []
        numbers, shares = self._slots.similar(trigrams)
        pairs = [
            (words[number], share)
            for number, share in zip(numbers.tolist(), shares.tolist(), strict=True)
            if words[number] != term
        ]
        return sorted(pairs, key=lambda similar: (-similar[1], similar[0]))[: similar_terms.MOST]

    def _rarity(self, term: str) -> float:
        """Return the snapshot's idf of the term itself, else that of a term in no memory."""
        idf = self._postings.own_idf(term)
        return max(_LEAST_RARITY, math.log(2 * self.size + 1) if idf is None else idf)

    def _slots_with(self, term: str) -> tuple[Places, Counts]:
        return self._live(*self._slots.terms.first(term, len(self.live)))

    def _live(self, slots: Places, counts: Counts) -> tuple[Places, Counts]:
        if self._count == len(self.live):
            return slots, counts
        is_live = self.live[slots]
        return slots[is_live], counts[is_live]

    def _impacts(self, slots: Places, counts: Counts) -> Scores:
        damped = norms(self.columns["length"][slots], self._average_length, Formula())
        impacts: Scores = (counts * (K1 + 1) / (counts + damped)).astype(np.float32)
        return impacts

    @cached_property
    def _average_length(self) -> float:
        """The reference for lengths: the snapshot's average, else the tail's own."""
        lengths = self.columns["length"][self.live]
        return self._postings.average_length or float(lengths.sum()) / max(1, self._count) or 1.0


AT_ONCE = 32 << 10  # characters indexed in a step, some 80 ms: a question waits for one at most
BEHIND = 16 << 10  # and behind the answers, which take turns with it
MOST = 2 << 20  # characters indexed before the next build: each takes some 40 bytes of memory


class LiveTail:
    """The changes since `rows` and `postings` were built. One thread extends it at a time.

    All events are applied at once, so forgotten memories are gone; texts are indexed in steps
    (`grow`), the newest first, up to `MOST`; of a long text only the beginning. Earlier tails stay
    as they were: they share its storage, which only grows.
    """

    def __init__(
        self,
        rows: MemoryRows,
        postings: PostingsIndex,
        embedder: Embedder,
        vectors: VectorRows | None = None,
        watermark: int = 0,
        log: EventLog | None = None,
    ) -> None:
        """`log` has the events that still count for memories touched by an undone plan."""
        self.watermark = self._since = watermark
        self._log = log
        self._newest: int | None = None  # of the clocks so far; read if other homes' events are in
        self._changes = 0  # events applied that were no receipts
        self._rows, self._postings = rows, postings
        self._fold = Fold(beneath=rows)
        self._slots = Slots()
        self._vectors = TailVectors(self._slots, rows, vectors, embedder)
        self._live = np.zeros(64, np.bool_)
        self._edges: tuple[Edge, ...] = ()
        self._bytes = 0  # of the texts that were added
        self._indexed = 0  # characters
        self._cut = 0  # memories of which only the beginning was indexed
        self._waiting: dict[str, None] = {}  # ids of the unindexed memories, the newest last
        self._adopted: tuple[Event, ...] = ()
        self._undone: frozenset[str] = frozenset()
        self._restored: dict[str, int] = {}

    @property
    def width(self) -> int:
        """The width of the vectors; 0 if their model had not answered when this tail was begun."""
        return self._vectors.width

    def extend(self, events: Iterable[Event]) -> list[str]:
        """Apply events in order, indexing one step's texts; return the failures, in words."""
        changed: dict[str, None] = {}
        damage: list[str] = []
        before, late = self.watermark, False
        is_merged = self._log is not None and self._log.is_merged()
        for event in events:
            late = (is_merged and self._is_late(event)) or late
            changed |= dict.fromkeys(self._fold.apply(event))
            if isinstance(event.body, Adopted):
                self._adopted += (event,)
            if isinstance(event.body, Undone):
                self._undone |= frozenset(event.body.events)
            if isinstance(event.body, Restored):
                self._restored = self._restored | {event.subject: event.at}
            if isinstance(event.body, Undone) and self._log is not None:
                self._edges = ()  # some may go
                try:
                    changed |= dict.fromkeys(
                        unapply_plan(self._log, event, self._fold, self._since)
                    )
                except LogError as error:
                    damage.append(f"plan {event.subject} is undone at the next build: {error}")
            self._changes += event.kind not in RECEIPTS
            self.watermark = event.seq
        if late:
            try:
                changed |= dict.fromkeys(self._fold_late(before))
            except LogError as error:
                damage.append(f"what other homes wrote counts from the next build on: {error}")
        until = self._indexed + AT_ONCE
        for id_ in changed:
            memory = self._fold.rows[id_]
            self._bytes += len(memory.text.encode(errors="replace"))
            is_room = self._indexed + _size(memory) <= min(until, MOST)
            self._add(memory, is_indexed=is_room and memory.state not in UNSEEN)
        if len(self._fold.edges) != len(self._edges):
            self._edges = tuple(self._fold.edges)
        return damage

    def _is_late(self, event: Event) -> bool:
        """Return True if an event was written before others that arrived earlier."""
        if not merging.is_folded(event):
            return False
        assert self._log is not None
        if self._newest is None:
            self._newest = merging.newest_place(self._log, self.watermark)
        clock, _ = merging.place(event)
        late, self._newest = clock <= self._newest, max(self._newest, clock)
        return late or merging.is_overtaken(self._log, event)

    def _fold_late(self, after: int) -> list[str]:
        """Refold the subjects of late events after a seq; return the changed memories' ids."""
        assert self._log is not None
        self._edges = ()
        ids = merging.late_subjects(self._log, after, self.watermark)
        ids = self._fold.dependents(ids)
        events = merging.events_about(self._log, ids, self.watermark)
        return self._fold.anew(ids, events, self._since)

    def grow(self) -> bool:
        """Index one step of the waiting texts, newest first; return True if more may be indexed:
        none once `MOST` characters are.
        """
        until = self._indexed + BEHIND
        while self._waiting and self._indexed < until:
            memory = self._fold.rows[next(reversed(self._waiting))]
            if self._indexed + _size(memory) > MOST:
                return False
            self._add(memory, is_indexed=True)
        return bool(self._waiting)

    def now(self) -> Tail:
        """Return the tail as it is now."""
        return Tail(
            watermark=self.watermark,
            changes=self._changes,
            bytes=self._bytes,
            waiting=len(self._waiting),
            cut=self._cut,
            live=self._live[: len(self._slots)].copy(),
            edges=self._edges,
            people=self._slots.people,
            terms_once=self._slots.terms.once,
            adopted=self._adopted,
            undone=self._undone,
            restored=self._restored,
            _slots=self._slots,
            _vectors=self._vectors,
            _rows=self._rows,
            _postings=self._postings,
        )

    def embed_ahead(self) -> None:
        """Make vectors before the first query, if that is cheap."""
        self._vectors.embed_ahead()

    def _add(self, memory: Memory, *, is_indexed: bool) -> None:
        self._waiting.pop(memory.id, None)
        if is_indexed:
            self._indexed += _size(memory)
            self._cut += len(memory.text) > LONGEST
        elif memory.state not in UNSEEN:  # never found, indexed or not
            self._waiting[memory.id] = None
        older = self._slots.newest.get(memory.id)
        if older is None:
            row = self._rows.row(memory.id)
        else:
            row = self._slots.row(older)
            self._live[older] = False
        slot = self._slots.add(memory, row, is_indexed=is_indexed)
        if slot == len(self._live):
            self._live = np.concatenate([self._live, np.zeros(slot, np.bool_)])
        self._live[slot] = True
        if is_indexed:
            self._vectors.add(slot, memory, row)


def _size(memory: Memory) -> int:
    """Return the number of a memory's characters to index."""
    return min(len(memory.text), LONGEST)
