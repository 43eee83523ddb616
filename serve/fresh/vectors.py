"""
FreshVectors: the vectors of the tail's slots, made when a vector is first asked about.

So writing costs no embedding, and a memory that is only asked by words never embeds its tail. Of a
model that costs milliseconds a text, only the first few changed memories are embedded before the
next build; of one that is elsewhere, none.
"""

import threading
from contextlib import suppress

import numpy as np

from serve.fresh.growing import Matrix, Records, Vectors
from serve.fresh.slots import LONGEST, Slots
from store.embedding import Embedder
from store.errors import EmbedderError
from store.projections.memory.memory import Memory
from store.projections.memory.rows import MemoryRows
from store.vectors.rows import VectorRows

# Changed memories that a local model embeds before the next build, the first ones: at some 10 ms
# each, and 60 for a long one, the first recall after a start may wait for all of them.
MOST_EMBEDDED = 32
_BATCH = 256  # texts a call of a cheap model
_SLOT = np.dtype([("slot", np.int64)])


class FreshVectors:
    """Vectors by slot, and by field of a slot. One thread adds, any number ask."""

    def __init__(
        self, slots: Slots, rows: MemoryRows, built: VectorRows | None, embedder: Embedder
    ) -> None:
        self._slots, self._rows, self._built, self._embedder = slots, rows, built, embedder
        self._whole, self._fields = Matrix(embedder.dimension), Matrix(embedder.dimension)
        self._of_field = Records(_SLOT)
        self._numbers: dict[str, int] = {}  # by memory, in the order of their first change
        self._waiting: list[int] = []  # slots
        self._embedding = threading.Lock()  # who asks meanwhile waits for the same vectors

    def add(self, slot: int, memory: Memory, row: int | None) -> None:
        """Take in the slot of a memory that lies in the snapshot's `row`."""
        if self._embedder.is_cheap:
            self._waiting.append(slot)
            return
        number = self._numbers.setdefault(memory.id, len(self._numbers))
        if (built := self._built_vector(memory, row)) is not None:
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

    def field_cosines(self, query: Vectors, length: int) -> Vectors:
        """Return the best cosine of a unit query with the fields of the first slots, [length].

        -1 where no field was embedded: only a cheap model embeds them before the next build.
        """
        self.embed()
        best = np.full(length, -1.0, np.float32)
        slots = self._of_field.first(len(self._of_field))["slot"]
        if len(slots) and len(query) == self._fields.width:
            cosines = np.empty(len(slots), np.float32)
            self._fields.dots(query, cosines)
            within = slots < length
            np.maximum.at(best, slots[within], cosines[within])
        return best

    def embed(self) -> None:
        """Embed what waits; what a failing model leaves waits on."""
        if not self._waiting or self._embedder.dimension != self._whole.width:
            return
        many = _BATCH if self._embedder.is_cheap else 1
        with self._embedding, suppress(EmbedderError):
            while batch := self._waiting[:many]:
                self._put([slot for slot in batch if self._is_newest(slot)])
                del self._waiting[: len(batch)]

    def embed_ahead(self) -> None:
        """Embed before anybody asks, where that is cheap."""
        if self._embedder.is_cheap:
            self.embed()

    def _is_newest(self, slot: int) -> bool:
        return self._slots.newest.get(self._slots.memories[slot].id) == slot

    def _put(self, slots: list[int]) -> None:
        memories = [self._slots.memories[slot] for slot in slots]
        if not memories:
            return
        found = self._embedder.embed([memory.text[:LONGEST] for memory in memories])
        for slot, vector in zip(slots, found, strict=True):
            self._whole.put(slot, vector)
        fields = [
            (slot, text[:LONGEST])
            for slot, one in zip(slots, memories, strict=True)
            for text in one.fields
        ]
        if fields and self._embedder.is_cheap:
            found = self._embedder.embed([text for _, text in fields])
            for (slot, _), vector in zip(fields, found, strict=True):
                self._fields.put(len(self._of_field), vector)
                self._of_field.append((slot,))

    def _built_vector(self, memory: Memory, row: int | None) -> Vectors | None:
        """Return the vector a memory has in the snapshot, where its text is still the same."""
        if self._built is None or row is None or self._rows.text_hash(row) != memory.text_hash:
            return None
        found = self._built.floats(row)
        return found if found.any() and len(found) == self._whole.width else None
