"""
Storage of the tail: its memories by slot, and their terms, columns and vectors.

Each version of a memory has a slot: one that changes takes a new slot, and the old one stays for
readers that still answer from it. One thread appends while any number of readers use the earlier
slots: a reader keeps its length and never looks beyond it, and nothing before that length changes
or moves. So neither side waits for the other.
"""

import threading
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from store.derived.entity_graph import short_names
from store.embedders.embedder import Embedder
from store.home.errors import EmbedderError
from store.index import similar_terms
from store.index.vector_scan import VectorRows
from store.memories.memory import ACTIVE, FILTERS, UNSEEN, Memory
from store.memories.rows import Mask, MemoryRows
from store.memories.table import NEVER
from store.text import tokenizer
from store.text.mentions import Mention, mentions, speaker_name
from store.text.text_features import of_memory

SlotNumbers = npt.NDArray[np.int64]
Counts = npt.NDArray[np.float64]
Vectors = npt.NDArray[np.float32]

_BLOCK = 1_024  # vectors


_NO_SLOTS, _NO_COUNTS = np.empty(0, np.int64), np.empty(0)


class Records:
    """Records of one structured type, in the order of insertion."""

    def __init__(self, dtype: np.dtype[np.void]) -> None:
        self._array = np.zeros(64, dtype)
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def append(self, values: tuple[object, ...]) -> None:
        if self._length == len(self._array):
            grown = np.zeros(2 * self._length, self._array.dtype)
            grown[: self._length] = self._array
            self._array = grown  # readers of the old array keep it
        self._array[self._length] = values
        self._length += 1

    def first(self, length: int) -> npt.NDArray[np.void]:
        """Return the first records, [length]; read-only."""
        return self._array[:length]


class Lists:
    """The slots of each key, ascending, with a count for each slot.

    `once` is the number of keys with only one slot that was not dropped.
    """

    def __init__(self) -> None:
        self.once = 0
        self._lists: dict[str, array[int]] = {}
        self._dropped: dict[str, int] = {}

    def add(self, slot: int, counts: Mapping[str, int]) -> list[str]:
        """Append a slot, greater than those before, to some keys; return the new keys."""
        lists, new, packed = self._lists, [], slot << 32
        for key, count in counts.items():
            slots = lists.get(key)
            if slots is None:
                slots = lists[key] = array("Q")
                new.append(key)
            size = len(slots) - self._dropped.get(key, 0)
            self.once += (size == 0) - (size == 1)
            slots.append(packed | count)
        return new

    def drop(self, keys: Iterable[str]) -> None:
        """Decrease the slot count of some keys; their lists stay as they are."""
        for key in keys:
            dropped = self._dropped[key] = self._dropped.get(key, 0) + 1
            size = len(self._lists[key]) - dropped
            self.once += (size == 1) - (size == 0)

    def first(self, key: str, length: int) -> tuple[SlotNumbers, Counts]:
        """Return a key's slots below `length`, and their counts."""
        numbers = self._lists.get(key)
        if numbers is None:
            return _NO_SLOTS, _NO_COUNTS
        # copied in one step: a buffer given out would keep the writer from appending
        packed = np.frombuffer(numbers.tobytes(), np.uint64)
        slots = (packed >> np.uint64(32)).astype(np.int64)
        until = int(np.searchsorted(slots, length))
        return slots[:until], (packed[:until] & np.uint64(0xFFFFFFFF)).astype(np.float64)


class Matrix:
    """Vectors of one width by number, zero until they are put."""

    def __init__(self, width: int) -> None:
        self.width = width
        self._blocks: list[Vectors] = []

    def put(self, number: int, vector: Vectors) -> None:
        while number >= len(self._blocks) * _BLOCK:
            self._blocks.append(np.zeros((_BLOCK, self.width), np.float32))
        self._blocks[number // _BLOCK][number % _BLOCK] = vector

    def dots(self, query: Vectors, out: Vectors) -> None:
        """Write the dot products of the first vectors with one into `out`, [n]."""
        blocks = self._blocks[: -(-len(out) // _BLOCK)]
        for number, block in enumerate(blocks):
            part = out[number * _BLOCK : (number + 1) * _BLOCK]
            np.dot(block[: len(part)], query, out=part)
        out[len(blocks) * _BLOCK :] = 0.0


LONGEST = 16 << 10  # characters of a memory that are indexed before the next build: some 40 ms

Places = npt.NDArray[np.int64]

_WORDS = ("state", "project", *(name for name in FILTERS.values() if name != "tags"))
_CODED = (*_WORDS, "speaker")
_coded_values = attrgetter(*_WORDS)
_RECORD = np.dtype(
    [
        ("row", np.int32),  # the snapshot's, of an older version; -1 for none
        ("seq", np.int64),  # of the event that recorded it
        ("length", np.int32),  # in terms
        ("created_at", np.int64),
        ("updated_at", np.int64),
        ("expires_at", np.int64),
        ("ended_at", np.int64),
        ("importance", np.float64),
        ("pinned", np.bool_),
        *((name, np.int32) for name in _CODED),
        ("asks", np.bool_),
        ("dated", np.bool_),
        ("personal", np.bool_),
        ("rule", np.bool_),
    ]
)


class Slots:
    """All slots. `newest` is by memory, `older` by slot: its memory's slot before, or -1.

    `terms`, `tags`, `names` (of mentioned entities, in folded case) and `replaced` (by the id of
    the replacing memory) list the slots for each key.
    """

    def __init__(self) -> None:
        self.memories: list[Memory] = []
        self.newest: dict[str, int] = {}
        self.older: list[int] = []
        self.terms, self.tags, self.names, self.replaced = Lists(), Lists(), Lists(), Lists()
        self.words: list[str] = []  # different terms, by number
        self._trigrams: dict[int, array[int]] = {}  # the numbers of the words with each
        self._trigram_counts = array("B")  # the number of different trigrams of each word
        self.people: frozenset[str] = frozenset()  # the speakers
        self._records = Records(_RECORD)
        self._are_indexed: list[bool] = []
        self._codes: dict[str, dict[str, int]] = {name: {} for name in _CODED}

    def __len__(self) -> int:
        return len(self._records)

    def add(self, memory: Memory, row: int | None, *, is_indexed: bool = True) -> int:
        """Append a version of a memory, in the snapshot's `row` if any; return its slot.

        A memory that is not indexed costs next to nothing, and is found by no word of its text.
        """
        slot = len(self.memories)
        older = self.newest.get(memory.id, -1)
        if older >= 0 and self._are_indexed[older]:
            self.terms.drop(set(tokenizer.terms(self.memories[older].searched_text[:LONGEST])))
        terms = Counter(tokenizer.terms(memory.searched_text[:LONGEST]) if is_indexed else ())
        for term in self.terms.add(slot, terms):
            trigrams = similar_terms.trigrams(term).tolist()
            number = len(self.words)
            self.words.append(term)  # before it is filed: others may read
            self._trigram_counts.append(len(trigrams))
            for trigram in trigrams:
                self._trigrams.setdefault(trigram, array("I")).append(number)
        self.tags.add(slot, dict.fromkeys(memory.tags, 1))
        mentioned = mentions(memory.text[:LONGEST]) if is_indexed else ()
        names = (name for mention in mentioned for name in aliases(mention))
        self.names.add(slot, dict.fromkeys(names, 1))
        if memory.superseded_by is not None:
            self.replaced.add(slot, {memory.superseded_by: 1})
        self._records.append(self._record(memory, row, terms.total()))
        self.memories.append(memory)
        self.older.append(older)
        self._are_indexed.append(is_indexed)
        self.newest[memory.id] = slot  # last: from now on it is found by its id
        return slot

    def similar(self, trigrams: similar_terms.Codes) -> tuple[SlotNumbers, similar_terms.Shares]:
        """Return the numbers of the words similar to one, ascending, and their shares.

        The word with these `trigrams` is itself among them, with 1.
        """
        filed = map(self._trigrams.get, trigrams.tolist())
        # copied in one step: a buffer given out would keep the writer from appending
        holders = b"".join([numbers.tobytes() for numbers in filed if numbers is not None])
        shared = np.bincount(np.frombuffer(holders, np.uint32))
        words = np.flatnonzero(3 * shared >= len(trigrams))  # the least that counts as similar
        counts = np.frombuffer(self._trigram_counts.tobytes(), np.uint8)[words]
        shares = similar_terms.similarity(shared[words], len(trigrams), counts)
        is_similar = shares >= similar_terms.LEAST
        return words[is_similar], shares[is_similar]

    def find(self, id_: str, length: int) -> int:
        """Return the newest slot of a memory among the first `length`, or -1."""
        slot = self.newest.get(id_, -1)
        while slot >= length:
            slot = self.older[slot]
        return slot

    def row(self, slot: int) -> int | None:
        """Return the snapshot's row of a slot's memory, None if it has none."""
        row = int(self._records.first(slot + 1)["row"][slot])
        return row if row >= 0 else None

    def columns(self, length: int) -> "Columns":
        return Columns(self._records.first(length), self._codes, self.tags)

    def _record(self, memory: Memory, row: int | None, length: int) -> tuple[object, ...]:
        speaker = speaker_name(memory.created_by) if memory.created_by else None
        if speaker and speaker not in self.people:
            self.people |= {speaker}
        coded = (*_coded_values(memory), speaker)
        return (
            -1 if row is None else row,
            memory.seq,
            length,
            memory.created_at,
            memory.updated_at,
            NEVER if memory.expires_at is None else memory.expires_at,
            NEVER if memory.ended_at is None else memory.ended_at,
            memory.importance,
            memory.pinned,
            *(self._code(name, value) for name, value in zip(_CODED, coded, strict=True)),
            *of_memory(memory.content[:LONGEST], memory.kind, memory.trust),
        )

    def _code(self, name: str, value: str | None) -> int:
        codes = self._codes[name]
        return -1 if value is None else codes.setdefault(value, len(codes))


class Columns(msgspec.Struct, frozen=True):
    """The first slots as columns, [slots] each, with the interface of the snapshot's rows."""

    records: npt.NDArray[np.void]
    codes: dict[str, dict[str, int]]
    tags: Lists

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        column: npt.NDArray[Any] = self.records[name]
        return column

    @property
    def created_at(self) -> Places:
        return self["created_at"]

    def active_at(self, now: int) -> Mask:
        """Return a mask of the slots active and not expired at a moment."""
        return self.equal("state", (ACTIVE,)) & (self["expires_at"] > now)

    def holds_at(self, at: int) -> Mask:
        """Return a mask of the slots that held at a moment; hidden memories never did."""
        ends = np.minimum(self["ended_at"], self["expires_at"])
        mask: Mask = (self.created_at <= at) & (ends > at) & ~self.equal("state", UNSEEN)
        return mask

    def equal(self, name: str, wanted: Sequence[str]) -> Mask:
        """Return a mask of the slots whose column has one of the values."""
        codes = self.codes[name]
        return np.isin(self[name], [codes[value] for value in wanted if value in codes])

    def values_with(self, name: str, part: str) -> list[str]:
        """Return the values of a column that contain a text."""
        return [value for value in list(self.codes[name]) if part in value]

    def lacks(self, name: str) -> Mask:
        """Return a mask of the slots without a value in a column."""
        mask: Mask = self[name] < 0
        return mask

    def column_values(self, name: str, slots: Places) -> list[str | None]:
        """Return the values of a column for some slots."""
        values = [*self.codes[name], None]  # -1 is None
        return [values[code] for code in self[name][slots].tolist()]

    def with_tags(self, tags: Sequence[str]) -> Mask:
        """Return a mask of the slots with every tag."""
        mask = np.ones(len(self.records), np.bool_)
        for tag in dict.fromkeys(tags):
            has = np.zeros(len(mask), np.bool_)
            has[self.tags.first(tag, len(mask))[0]] = True
            mask &= has
            if not mask.any():
                break
        return mask


def aliases(mention: Mention) -> frozenset[str]:
    """Return all names of a mentioned entity, in folded case."""
    name = mention.name.casefold()
    return frozenset((name, mention.alias.casefold(), *short_names(mention.kind, name)))


# Changed memories that a local model embeds before the next build, the first ones: at some 10 ms
# each, and 60 for a long one, the first recall after a start may wait for all of them.
MOST_EMBEDDED = 32
_BATCH = 256  # texts per call of a cheap model


class TailVectors:
    """Vectors by slot, made when the first query needs them.

    So writing costs no embedding. With a model that takes milliseconds per text, only the first few
    changed memories are embedded before the next build; with a remote one, none. One thread adds,
    any number query.
    """

    def __init__(
        self, slots: Slots, rows: MemoryRows, built: VectorRows | None, embedder: Embedder
    ) -> None:
        self._slots, self._rows, self._built, self._embedder = slots, rows, built, embedder
        self._whole = Matrix(embedder.dimension)
        self._numbers: dict[str, int] = {}  # by memory, in the order of their first change
        self._waiting: list[int] = []  # slots
        self._embedding = threading.Lock()  # other queries meanwhile wait for the same vectors

    @property
    def width(self) -> int:
        return self._whole.width

    def add(self, slot: int, memory: Memory, row: int | None) -> None:
        """Add the slot of a memory, in the snapshot's `row` if any."""
        if self._embedder.is_cheap:
            self._waiting.append(slot)
            return
        number = self._numbers.setdefault(memory.id, len(self._numbers))
        if (built := self._snapshot_vector(memory, row)) is not None:
            self._whole.put(slot, built)
        elif self._embedder.is_local and number < MOST_EMBEDDED:
            self._waiting.append(slot)
        # else it is found by its words until the next build

    def cosines(self, query: Vectors, out: Vectors) -> None:
        """Write the cosine of a unit query with the first slots, [n]; zero without a vector."""
        self.embed()
        if len(query) != self._whole.width:  # it was not known when the tail began
            out[:] = 0.0
        else:
            self._whole.dots(query, out)

    def embed(self) -> None:
        """Embed the waiting slots; if the model fails, the rest keep waiting."""
        if not self._waiting or self._embedder.dimension != self._whole.width:
            return
        many = _BATCH if self._embedder.is_cheap else 1
        with self._embedding, suppress(EmbedderError):
            while batch := self._waiting[:many]:
                memories, newest = self._slots.memories, self._slots.newest
                slots = [slot for slot in batch if newest.get(memories[slot].id) == slot]
                texts = [memories[slot].text[:LONGEST] for slot in slots]
                if texts:
                    for slot, vector in zip(slots, self._embedder.embed(texts), strict=True):
                        self._whole.put(slot, vector)
                del self._waiting[: len(batch)]

    def embed_ahead(self) -> None:
        """Embed before the first query, if that is cheap."""
        if self._embedder.is_cheap:
            self.embed()

    def _snapshot_vector(self, memory: Memory, row: int | None) -> Vectors | None:
        """Return a memory's vector in the snapshot, None if its text has changed."""
        if self._built is None or row is None or self._rows.text_hash(row) != memory.text_hash:
            return None
        vector = self._built.floats(row)
        return vector if vector.any() and len(vector) == self._whole.width else None
