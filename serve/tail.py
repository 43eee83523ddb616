"""
Tail: the events after a snapshot's watermark, laid over it in memory.

Every memory that an event made or changed since is taken out of the snapshot's results (`hidden`)
and, as it is now, scored here with the same weights: the snapshot's idf and average length. So a
fresh memory is found at once, a forgotten one is gone at once, and the next build changes neither.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

import numpy as np
import numpy.typing as npt

from store import text
from store.embedding import Embedder
from store.errors import EmbedderError
from store.events import RECEIPTS, Event
from store.mentions import Mention, mentions, speaker_name
from store.projections import kin
from store.projections.entities import short_names
from store.projections.memories import Edge, Fold, Memory
from store.projections.memory_rows import MemoryRows
from store.projections.postings import K1, KIN_SHARE, B, PostingsIndex, sample_coverage
from store.traits import Traits, of_memory
from store.vectors.rows import VectorRows

Scores = npt.NDArray[np.float32]

# Changed memories that a local model embeds before the next build, the first ones: at some 10 ms
# each, and 60 for a long one, the first recall after a start may wait for all of them.
MOST_EMBEDDED = 32


class Tail:
    """What changed since `rows` and `postings` were built. Not thread-safe: its reader locks it.

    Each version of a memory takes a slot; only the newest version's slot is live.
    """

    def __init__(
        self,
        rows: MemoryRows,
        postings: PostingsIndex,
        embedder: Embedder,
        vectors: VectorRows | None = None,
    ) -> None:
        self.watermark = 0
        self.changes = 0  # events applied that were no receipts
        self.memories: list[Memory] = []
        self.hidden: set[int] = set()
        self._rows, self._postings, self._embedder = rows, postings, embedder
        self._built = vectors
        self._fold = Fold(beneath=rows)
        self._slots: dict[str, int] = {}
        self._counts: dict[str, dict[int, int]] = {}  # term -> slot -> occurrences
        self._beginnings: dict[str, list[str]] = {}  # of the terms in it
        self._terms: list[Counter[str]] = []
        self._lengths: list[int] = []
        self._mentioned: list[frozenset[str]] = []  # by slot
        self.speakers: list[str | None] = []  # by slot: the person who said it
        self.people: set[str] = set()
        self.traits: list[Traits] = []  # by slot
        self._vectors = np.zeros((0, embedder.dimension), np.float32)
        self._fields: list[tuple[list[int], Scores]] = []  # slots and their fields' vectors
        self._numbers: dict[str, int] = {}  # by memory, in the order of their first change
        self._waiting: list[int] = []  # slots to embed when a vector is asked about

    def __len__(self) -> int:
        return len(self.memories)

    def extend(self, events: Iterable[Event]) -> None:
        """Apply events in order."""
        changed: dict[str, None] = {}
        for event in events:
            changed |= dict.fromkeys(self._fold.apply(event))
            self.changes += event.kind not in RECEIPTS
            self.watermark = event.seq
        if changed:
            self._index([self._fold.rows[id_] for id_ in changed])

    def find(self, id_: str) -> Memory | None:
        """Return a memory as it is now, wherever it lies."""
        return self._fold.find(id_)

    def edges_of(self, id_: str) -> list[Edge]:
        """Return the reasoning edges from a memory and to it, oldest first."""
        fresh = [edge for edge in self._fold.edges if id_ in (edge.source, edge.target)]
        return [*self._rows.edges_of(id_), *fresh]

    def current(self) -> list[Memory]:
        """Return the memories that were made or changed since the snapshot, as they are now."""
        return [memory for slot, memory in enumerate(self.memories) if self.live(slot)]

    def live(self, slot: int) -> bool:
        return self._slots.get(self.memories[slot].id) == slot

    def idf(self, term: str) -> float:
        """Return the snapshot's idf; for a word it does not know, what the tail says of it."""
        known = self._postings.idf(term)
        if known is not None:
            return known
        # a word nobody holds is as rare as can be; an empty memory counts as one of a single note
        frequency = max(1, len(self._found(term)[0]))
        documents = max(1, self.size)
        return math.log(documents - frequency + 0.5) - math.log(frequency + 0.5)

    @property
    def size(self) -> int:
        """How many memories there are, the snapshot's and the tail's."""
        return self._postings.size + len(self._slots)

    def frequency(self, term: str) -> int:
        """Return in how many memories a term occurs; a changed one may count twice."""
        return self._postings.frequency(term) + len(self._found(term)[0])

    @property
    def sample_coverage(self) -> float:
        """Return the share of all language like the memory's that its words have been met in."""
        if self._postings.size:
            return self._postings.sample_coverage
        live = [self._terms[slot] for slot in self._slots.values()]
        return sample_coverage(
            sum(len(found) == 1 for found in self._counts.values()), sum(map(Counter.total, live))
        )

    def scores(self, query: Sequence[str], *, least_idf: float) -> Scores:
        """Return the BM25 score of every slot, [slots]; slots that are not live score zero."""
        scores = np.zeros(len(self), np.float32)
        average = self._postings.average_length or (
            sum(self._lengths) / len(self._lengths) if self._lengths else 1.0
        )
        every_length = np.asarray(self._lengths, np.float64)
        for term, repeats in Counter(query).items():
            found, share = self._found(term)
            if not found:
                continue
            slots = np.fromiter(found.keys(), np.int64, len(found))
            counts = np.fromiter(found.values(), np.float64, len(found))
            lengths = every_length[slots]
            impacts = counts * (K1 + 1) / (counts + K1 * (1 - B + B * lengths / (average or 1.0)))
            weight = share * repeats * max(self.idf(term), least_idf)
            scores[slots] += (weight * impacts).astype(np.float32)
        return scores

    def cosines(self, query: npt.NDArray[np.float32]) -> Scores:
        """Return the cosine of a unit query with every slot, [slots]; zero without a vector."""
        self._embed_waiting()
        if len(query) != self._vectors.shape[1]:  # it was not known when the tail began
            return np.zeros(len(self), np.float32)
        cosines: Scores = self._vectors[: len(self)] @ query
        return cosines

    def field_cosines(self, query: npt.NDArray[np.float32]) -> Scores:
        """Return the best cosine of a unit query with the fields of every slot, [slots].

        -1 where no field was embedded: only a cheap model embeds them before the next build.
        """
        best = np.full(len(self), -1.0, np.float32)
        for slots, vectors in self._fields:
            np.maximum.at(best, slots, vectors @ query)
        return best

    def mentioning(self, asked: Sequence[Mention]) -> Scores:
        """Return the weight of the asked entities that every slot names, [slots].

        Each weighs what an entity of one memory weighs in the snapshot: the tail is short.
        """
        weight = math.log1p(max(1, self.size))
        names = [frozenset((one.name.casefold(), one.alias.casefold())) for one in asked]
        counts = [sum(not one.isdisjoint(slot) for one in names) for slot in self._mentioned]
        return np.asarray(counts, np.float32) * np.float32(weight)

    def holds(self, slot: int, term: str) -> bool:
        """Return whether a slot holds a term, or its kin where nobody holds it."""
        return term in self._terms[slot] or slot in self._found(term)[0]

    def _found(self, term: str) -> tuple[Mapping[int, int], float]:
        """Return how often the slots hold a term, else its kin, and what that is a share of."""
        found = self._counts.get(term)
        if found or self._postings.find(term) is not None:
            return found or {}, 1.0
        merged: dict[int, int] = {}
        for word in self._kin(term):
            for slot, count in self._counts[word].items():
                merged[slot] = max(count, merged.get(slot, 0))
        return merged, KIN_SHARE

    def _kin(self, term: str) -> list[str]:
        for beginning in kin.beginnings(term):
            words = [
                word
                for word in self._beginnings.get(beginning, ())
                if len(word) <= len(beginning) + kin.ENDING and self._counts[word]
            ]
            if words:
                return sorted(words)[: kin.MOST]
        return []

    def _index(self, memories: Sequence[Memory]) -> None:
        for memory in memories:
            self._retire(memory.id)
            slot = len(self.memories)
            self.memories.append(memory)
            self._slots[memory.id] = slot
            terms = Counter(text.terms(memory.searched_text))
            self._terms.append(terms)
            self._lengths.append(terms.total())
            speaker = speaker_name(memory.created_by) if memory.created_by else None
            self.speakers.append(speaker)
            self.people |= {speaker} if speaker else set()
            self.traits.append(of_memory(memory.content, memory.kind, memory.trust))
            found = mentions(memory.text)
            self._mentioned.append(frozenset().union(*(_names(one) for one in found)))
            for term, count in terms.items():
                if term not in self._counts:
                    self._counts[term] = {}
                    for beginning in kin.beginnings(term):
                        self._beginnings.setdefault(beginning, []).append(term)
                self._counts[term][slot] = count
        self._embed(memories)

    def _retire(self, id_: str) -> None:
        """Take a memory's older version out of the tail, or hide it in the snapshot."""
        old = self._slots.pop(id_, None)
        if old is not None:
            for term in self._terms[old]:
                del self._counts[term][old]
        elif (row := self._rows.row(id_)) is not None:
            self.hidden.add(row)

    def _embed(self, memories: Sequence[Memory]) -> None:
        start, end = len(self.memories) - len(memories), len(self.memories)
        if end > len(self._vectors):
            grown = np.zeros((max(64, 2 * end), self._embedder.dimension), np.float32)
            grown[:start] = self._vectors[:start]
            self._vectors = grown
        if self._embedder.is_cheap:
            with suppress(EmbedderError):
                texts = [memory.text for memory in memories]
                self._vectors[start:end] = self._embedder.embed(texts)
                slots = [slot for slot, one in enumerate(memories, start) for _ in one.fields]
                if slots:
                    fields = [text for one in memories for text in one.fields]
                    self._fields.append((slots, self._embedder.embed(fields)))
            return
        for slot, memory in enumerate(memories, start):
            number = self._numbers.setdefault(memory.id, len(self._numbers))
            if (built := self._built_vector(memory)) is not None:
                self._vectors[slot] = built
            elif self._embedder.is_local and number < MOST_EMBEDDED:
                self._waiting.append(slot)
            # else it is found by its words until the next build

    def _built_vector(self, memory: Memory) -> Scores | None:
        """Return the vector a memory has in the snapshot, where its text is still the same."""
        row = self._rows.row(memory.id)
        if self._built is None or row is None or self._rows.text_hash(row) != memory.text_hash:
            return None
        found = self._built.floats(row)
        return found if found.any() and len(found) == self._vectors.shape[1] else None

    def _embed_waiting(self) -> None:
        """Embed what waits, one by one; what a failing model leaves waits on."""
        with suppress(EmbedderError):
            while self._waiting:
                slot = self._waiting[0]
                if self.live(slot):
                    self._vectors[slot] = self._embedder.embed([self.memories[slot].text])[0]
                self._waiting.pop(0)


def _names(mention: Mention) -> frozenset[str]:
    """Return all that a mentioned entity may be called, in folded case."""
    name = mention.name.casefold()
    return frozenset((name, mention.alias.casefold(), *short_names(mention.kind, name)))
