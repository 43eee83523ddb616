"""
LiveTail: where the events after a snapshot's watermark are gathered, and tails are taken from.
"""

from collections.abc import Iterable

import numpy as np

from serve.fresh.slots import Slots
from serve.fresh.tail import Tail
from serve.fresh.vectors import FreshVectors
from store.embedding import Embedder
from store.errors import LogError
from store.events import RECEIPTS, Event
from store.job_events import Undone
from store.log import EventLog
from store.plans.taken_back import take_back
from store.projections.memories import Edge, Fold, Memory
from store.projections.memory.rows import MemoryRows
from store.projections.postings import PostingsIndex
from store.vectors.rows import VectorRows


class LiveTail:
    """What changed since `rows` and `postings` were built. One thread extends it at a time.

    The tails it gave out stay as they were: they share its storage, which only grows.
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
        """`log` is asked what counts of the memories that a plan touched which was undone."""
        self.watermark = watermark
        self._log = log
        self._changes = 0  # events applied that were no receipts
        self._rows, self._postings = rows, postings
        self._fold = Fold(beneath=rows)
        self._slots = Slots()
        self._vectors = FreshVectors(self._slots, rows, vectors, embedder)
        self._live = np.zeros(64, np.bool_)
        self._edges: tuple[Edge, ...] = ()

    def extend(self, events: Iterable[Event]) -> list[str]:
        """Apply events in order; return what could not be, in words."""
        changed: dict[str, None] = {}
        damage: list[str] = []
        for event in events:
            changed |= dict.fromkeys(self._fold.apply(event))
            if isinstance(event.body, Undone) and self._log is not None:
                self._edges = ()  # some may go
                try:
                    changed |= dict.fromkeys(take_back(self._log, event, self._fold))
                except LogError as error:
                    damage.append(f"plan {event.subject} is undone at the next build: {error}")
            self._changes += event.kind not in RECEIPTS
            self.watermark = event.seq
        for id_ in changed:
            self._add(self._fold.rows[id_])
        if len(self._fold.edges) != len(self._edges):
            self._edges = tuple(self._fold.edges)
        return damage

    def now(self) -> Tail:
        """Return the tail as it is now."""
        return Tail(
            watermark=self.watermark,
            changes=self._changes,
            live=self._live[: len(self._slots)].copy(),
            edges=self._edges,
            people=self._slots.people,
            terms_once=self._slots.terms.once,
            _slots=self._slots,
            _vectors=self._vectors,
            _rows=self._rows,
            _postings=self._postings,
        )

    def embed_ahead(self) -> None:
        """Make vectors before anybody asks for them, where that is cheap."""
        self._vectors.embed_ahead()

    def _add(self, memory: Memory) -> None:
        older = self._slots.newest.get(memory.id)
        if older is None:
            row = self._rows.row(memory.id)
        else:
            row = self._slots.row(older)
            self._live[older] = False
        slot = self._slots.add(memory, row)
        if slot == len(self._live):
            self._live = np.concatenate([self._live, np.zeros(slot, np.bool_)])
        self._live[slot] = True
        self._vectors.add(slot, memory, row)
