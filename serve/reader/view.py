"""
View: one state of the memory to answer from, and its reads that need no question.

Documents are numbered consecutively: first the snapshot's rows, then the tail's slots.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from serve.reader.filters import Filter, Masks
from serve.reader.memory_json import role
from serve.reader.snapshots import Snapshots
from serve.reader.state import Change, StateIndex, change_of, holding_text, retraction_of
from serve.reader.tail import Tail
from store.derived.routing import Policy
from store.embedders.embedder import Embedder
from store.home.projects import holds_in
from store.index.qdrant import QdrantSearch
from store.log.event_kinds import EPISODE
from store.memories.memory import ACTIVE, SUPERSEDED, Memory
from store.memories.rows import Mask
from store.text.claim_pairs import SURE

Docs = npt.NDArray[np.int64]

_NO_INSIGHTS = np.empty(0, np.int64)


@dataclass(frozen=True)
class CurrentInsights:
    """The insights of one view: `docs` ascend. Threads may share it."""

    docs: Docs
    snapshots: Snapshots
    tail: Tail

    @classmethod
    def of(cls, snapshots: Snapshots, tail: Tail) -> "CurrentInsights":
        """Return the current insights; the tail's version of those that changed since the build."""
        built = snapshots.insights.documents if snapshots.insights else _NO_INSIGHTS
        if len(built) and len(tail.hidden_rows):
            built = built[~np.isin(built, tail.hidden_rows)]
        slots = np.flatnonzero(tail.columns.equal("kind", ("insight",)) & tail.live)
        made = [memory.job is not None for memory in tail.take(slots.tolist())]
        fresh = slots[np.array(made, np.bool_)] + len(snapshots.rows)
        return cls(np.concatenate([built, fresh]), snapshots, tail)

    def apart(self, passing: Mask) -> tuple[Mask, Docs]:
        """Return a mask without the insights, and the insights that it passes, ascending."""
        if not len(self.docs):
            return passing, _NO_INSIGHTS
        mask = passing.copy()
        mask[self.docs] = False
        return mask, self.docs[passing[self.docs]]

    def among(self, docs: Docs) -> Mask:
        """Return a mask of the insights among some documents, [docs]."""
        if not len(self.docs):
            return np.zeros(len(docs), np.bool_)
        return np.isin(docs, self.docs)

    def sources(self, doc: int) -> list[int]:
        """Return the documents of an insight's sources: the row, or the slot if it has no row.

        A source that changed since the build is still named by its row.
        """
        rows, of = self.snapshots.rows, self.snapshots.insights
        if doc < len(rows):
            return of.sources(doc).tolist() if of else []
        (memory,) = self.tail.take([doc - len(rows)])
        return [place for id_ in memory.source_ids if (place := self._place(id_)) is not None]

    def _place(self, id_: str) -> int | None:
        row = self.snapshots.rows.row(id_)
        if row is not None:
            return row
        slot = self.tail.slot(id_)
        return None if slot is None else slot + len(self.snapshots.rows)


@dataclass(frozen=True)
class View:
    """One state of the memory to answer from: snapshots, and the tail over them. Never changes."""

    snapshots: Snapshots
    tail: Tail
    damage: tuple[str, ...] = ()  # the unreadable parts of the log, in words
    qdrant: QdrantSearch | None = None  # searches a copy of the vectors, if configured
    past_moment: int | None = None  # of a receipt whose recall is repeated

    @property
    def moment(self) -> int:
        """The reference time for the ages of memories, microseconds UTC, not from a clock.

        The time of the last build; before the first build, of the tail's newest change.
        """
        if self.past_moment is not None:
            return self.past_moment
        if (manifest := self.snapshots.manifest) is not None:
            return manifest.age_reference
        return int(self.tail.columns["updated_at"].max(initial=0))

    @property
    def embedder(self) -> Embedder:
        """The model that made the stored vectors, and makes those of questions."""
        return self.snapshots.embedder

    @property
    def notices(self) -> tuple[str, ...]:
        """The unusable parts of the memory, in words."""
        return (*self.snapshots.notices, *self.damage, *self._tail_notices)

    @property
    def _tail_notices(self) -> Iterator[str]:
        """The unindexed parts of the tail, in words."""
        if many := self.tail.waiting:
            yield (
                f"{many} new memories are not found by their words yet: they are indexed behind "
                "the answers, and all of them by `mnemolog build`"
            )
        if many := self.tail.cut:
            yield f"{many} new long memories are found by their beginning until `mnemolog build`"

    @property
    def size(self) -> int:
        """The number of documents: rows and slots."""
        return len(self.snapshots.rows) + len(self.tail)

    @cached_property
    def masks(self) -> Masks:
        return Masks(self.snapshots.masks, self.tail)

    @cached_property
    def insights(self) -> CurrentInsights:
        return CurrentInsights.of(self.snapshots, self.tail)

    @cached_property
    def _state(self) -> StateIndex:
        index = self.snapshots.once(StateIndex)
        index.extend(self.tail)
        return index

    def read_changes(self) -> None:
        """Compare the tail's claims with the earlier ones, before the first question has to."""
        self._state.extend(self.tail)

    def change_of(self, memory: Memory, until: int | None = None) -> Change | None:
        """Return a memory's change by later claims, up to a moment; None if it holds."""
        return change_of(self._state, self.tail, memory, until)

    def is_over(self, memory: Memory) -> bool:
        """Return True if most of a memory's text is surely over; never for a rule, which only its
        user ends.
        """
        change = self.change_of(memory) if role(memory) != "rule" else None
        return change is not None and change.is_sure and change.is_whole

    def holding_text(self, memory: Memory) -> str:
        """Return a memory's text without the sentences that are surely over."""
        return holding_text(self._state, self.tail, memory)

    def ends_others(self, memory: Memory) -> bool:
        """Return True if this memory surely ends an earlier one."""
        return any(chance >= SURE for *_, chance in self._state.changes(memory, made=True))

    def retraction_of(self, memory: Memory) -> str | None:
        """Return the sentence that a memory quotes only to end it."""
        return retraction_of(self._state, memory)

    def policy(self, at: int | None = None) -> Policy:
        """Return the router's policy, now or at a moment in microseconds: the last one adopted,
        built or not, and not undone.
        """
        return self.snapshots.policy(at, self.tail.adopted, self.tail.undone)

    def select(self, mask: Mask, accepts: Callable[[Memory], bool]) -> list[Memory]:
        """Return the snapshot's memories under a mask, [rows], and the tail's accepted ones."""
        rows = np.setdiff1d(np.flatnonzero(mask), self.tail.hidden_rows)
        return [*self.snapshots.rows.take(rows.tolist()), *filter(accepts, self.tail.current())]


MOST_SUPERSEDED = 5  # memories


class Superseded(msgspec.Struct, frozen=True):
    """The superseded memories of one view."""

    view: View

    def by(self, id_: str, conditions: Filter) -> tuple[Memory, ...]:
        """Return the nearest few memories that a memory replaced, no forgotten or archived ones."""
        memories: dict[str, Memory] = {}
        waiting = deque([id_])
        while waiting and len(memories) < MOST_SUPERSEDED:
            for memory in self.directly(waiting.popleft()):
                if memory.id not in memories and memory.id != id_ and _may_show(memory, conditions):
                    memories[memory.id] = memory
                    waiting.append(memory.id)
        return tuple(list(memories.values())[:MOST_SUPERSEDED])

    def directly(self, id_: str) -> list[Memory]:
        """Return the memories that a memory directly replaced, in any state, newest first."""
        tail, built = self.view.tail, self.view.snapshots.rows
        rows = [row for row in built.predecessor_rows(id_) if not tail.is_hidden(row)]
        found = [*tail.predecessors(id_), *(built.take(rows) if rows else ())]
        if not found:
            return found
        return sorted(found, key=lambda memory: (memory.created_at, memory.seq), reverse=True)


def _may_show(memory: Memory, conditions: Filter) -> bool:
    return (
        memory.state == SUPERSEDED
        and holds_in(memory.project, conditions.project)
        and (memory.expires_at is None or memory.expires_at > conditions.now)
    )


def newest(view: View, conditions: Filter, limit: int, state: str = ACTIVE) -> list[Memory]:
    """Return the newest passing memories in a state, of the snapshot and the tail together.

    Newest first by `created_at`, then by the order of recording. Episodes are included only if the
    conditions name kinds.
    """
    rows = view.snapshots.rows
    mask = conditions.mask(rows) if state == ACTIVE else rows.equal("state", (state,))
    if not conditions.kinds:
        mask &= ~rows.equal("kind", (EPISODE,))
    mask[view.tail.hidden_rows] = False
    documents = np.flatnonzero(mask)
    if state == ACTIVE and 0 < limit < len(documents):  # sort no more than may come back
        made = rows.created_at[documents]
        documents = documents[made >= np.partition(made, -limit)[-limit]]
    order = np.lexsort((-documents, -rows.created_at[documents]))
    first = documents[order[: limit if state == ACTIVE else None]]
    memories = rows.take([int(document) for document in first])
    memories += view.tail.current()
    passed = [memory for memory in memories if _is_wanted(memory, conditions, state)]
    return sorted(passed, key=lambda memory: (-memory.created_at, -memory.seq))[:limit]


def _is_wanted(memory: Memory, conditions: Filter, state: str) -> bool:
    if memory.kind == EPISODE and not conditions.kinds:
        return False
    if state == ACTIVE:
        return conditions.accepts(memory)
    # `Filter` never lets a forgotten memory pass; here its other conditions apply to any state
    active = replace(memory, state=ACTIVE, ended_at=None, expires_at=None)
    return memory.state == state and conditions.accepts(active)
