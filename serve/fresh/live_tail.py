"""
LiveTail: where the events after a snapshot's watermark are gathered, and tails are taken from.
"""

from collections.abc import Iterable

import numpy as np

from serve.fresh.slots import LONGEST, Slots
from serve.fresh.tail import Tail
from serve.fresh.vectors import FreshVectors
from store.embedding import Embedder
from store.errors import LogError
from store.events import RECEIPTS, Event
from store.job_events import Undone
from store.log import EventLog
from store.plans.taken_back import take_back
from store.projections.memory.fold import Fold
from store.projections.memory.memory import UNSEEN, Edge, Memory
from store.projections.memory.rows import MemoryRows
from store.projections.postings import PostingsIndex
from store.vectors.rows import VectorRows

AT_ONCE = 32 << 10  # characters indexed in a step, some 80 ms: who asks waits for one at most
BEHIND = 16 << 10  # and behind the answers, which take turns with it
MOST = 2 << 20  # characters indexed before the next build: each takes some 40 bytes of memory


class LiveTail:
    """What changed since `rows` and `postings` were built. One thread extends it at a time.

    All events are applied at once, so what was forgotten is gone; texts are indexed in steps
    (`grow`), the newest first, up to `MOST`; of a long one the beginning. The tails it gave out
    stay as they were: they share its storage, which only grows.
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
        self._bytes = 0  # of the texts that were added
        self._indexed = 0  # characters
        self._cut = 0  # memories of which only the beginning was indexed
        self._waiting: dict[str, None] = {}  # ids of what is not indexed, the newest last

    def extend(self, events: Iterable[Event]) -> list[str]:
        """Apply events in order, indexing one step's texts; return what could not be, in words."""
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
        until = self._indexed + AT_ONCE
        for id_ in changed:
            memory = self._fold.rows[id_]
            self._bytes += len(memory.text.encode(errors="replace"))
            is_room = self._indexed + _size(memory) <= min(until, MOST)
            self._add(memory, is_indexed=is_room and memory.state not in UNSEEN)
        if len(self._fold.edges) != len(self._edges):
            self._edges = tuple(self._fold.edges)
        return damage

    def grow(self) -> bool:
        """Index one step of the texts that wait, the newest first; return whether others still may
        be: none once `MOST` are.
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
            _slots=self._slots,
            _vectors=self._vectors,
            _rows=self._rows,
            _postings=self._postings,
        )

    def embed_ahead(self) -> None:
        """Make vectors before anybody asks for them, where that is cheap."""
        self._vectors.embed_ahead()

    def _add(self, memory: Memory, *, is_indexed: bool) -> None:
        self._waiting.pop(memory.id, None)
        if is_indexed:
            self._indexed += _size(memory)
            self._cut += len(memory.text) > LONGEST
        elif memory.state not in UNSEEN:  # which nobody finds, indexed or not
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
    """Return how many characters of a memory are to be indexed."""
    return min(len(memory.text), LONGEST)
