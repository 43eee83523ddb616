"""
Slots: where the tail keeps its memories, one slot for each version of one.

A memory that changes takes a new slot; the old one stays as it is, for whoever still answers from
it. One thread adds; any number read the first `length` slots (`growing`).
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from serve.fresh.growing import Lists, Records
from store.projections import kin
from store.projections.entity_graph import short_names
from store.projections.memory.memory import ACTIVE, UNSEEN, Memory
from store.projections.memory.rows import Mask
from store.projections.memory.table import NEVER
from store.text import tokenizer
from store.text.mentions import Mention, mentions, speaker_name
from store.text.text_features import of_memory

LONGEST = 16 << 10  # characters of a memory that are looked at before the next build: some 40 ms

Places = npt.NDArray[np.int64]

_CODED = ("kind", "state", "project", "tier", "speaker")
_RECORD = np.dtype(
    [
        ("row", np.int32),  # the snapshot's, of an older version; -1: it has none
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
    """All slots there are. `newest` is by memory, `older` by slot: its memory's one before, or -1.

    `terms`, `tags`, `names` (of who and what is mentioned, in folded case) and `replaced` (by the
    id of what took a memory's place) list the slots that hold them.
    """

    def __init__(self) -> None:
        self.memories: list[Memory] = []
        self.newest: dict[str, int] = {}
        self.older: list[int] = []
        self.terms, self.tags, self.names, self.replaced = Lists(), Lists(), Lists(), Lists()
        self.beginnings: dict[str, list[str]] = {}  # of the terms in it
        self.people: frozenset[str] = frozenset()  # who said something
        self._records = Records(_RECORD)
        self._are_indexed: list[bool] = []
        self._codes: dict[str, dict[str, int]] = {name: {} for name in _CODED}

    def __len__(self) -> int:
        return len(self._records)

    def add(self, memory: Memory, row: int | None, *, is_indexed: bool = True) -> int:
        """Append a version of a memory that lies in the snapshot's `row`; return its slot.

        One that is not indexed costs next to nothing, and is found by no word of its text.
        """
        slot = len(self.memories)
        older = self.newest.get(memory.id, -1)
        if older >= 0 and self._are_indexed[older]:
            self.terms.drop(set(tokenizer.terms(self.memories[older].searched_text[:LONGEST])))
        terms = Counter(tokenizer.terms(memory.searched_text[:LONGEST]) if is_indexed else ())
        for term in self.terms.add(slot, terms):
            for beginning in kin.beginnings(term):
                self.beginnings.setdefault(beginning, []).append(term)
        self.tags.add(slot, dict.fromkeys(memory.tags, 1))
        mentioned = mentions(memory.text[:LONGEST]) if is_indexed else ()
        names = (name for one in mentioned for name in called(one))
        self.names.add(slot, dict.fromkeys(names, 1))
        if memory.superseded_by is not None:
            self.replaced.add(slot, {memory.superseded_by: 1})
        self._records.append(self._record(memory, row, terms.total()))
        self.memories.append(memory)
        self.older.append(older)
        self._are_indexed.append(is_indexed)
        self.newest[memory.id] = slot  # last: from here on it is found by its id
        return slot

    def find(self, id_: str, length: int) -> int:
        """Return the newest slot of a memory among the first `length`, or -1."""
        slot = self.newest.get(id_, -1)
        while slot >= length:
            slot = self.older[slot]
        return slot

    def row(self, slot: int) -> int | None:
        """Return the snapshot's row of a slot's memory, if it has one."""
        row = int(self._records.first(slot + 1)["row"][slot])
        return row if row >= 0 else None

    def columns(self, length: int) -> "Columns":
        return Columns(self._records.first(length), self._codes, self.tags)

    def _record(self, memory: Memory, row: int | None, length: int) -> tuple[object, ...]:
        speaker = speaker_name(memory.created_by) if memory.created_by else None
        if speaker and speaker not in self.people:
            self.people |= {speaker}
        coded = (memory.kind, memory.state, memory.project, memory.tier, speaker)
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


@dataclass(frozen=True, slots=True)
class Columns:
    """The first slots as columns, [slots] each; asked as the snapshot's rows are."""

    records: npt.NDArray[np.void]
    codes: dict[str, dict[str, int]]
    tags: Lists

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        column: npt.NDArray[Any] = self.records[name]
        return column

    @property
    def created_at(self) -> Places:
        return self["created_at"]

    def living(self, now: int) -> Mask:
        """Return which are active and not expired at a moment."""
        return self.equal("state", (ACTIVE,)) & (self["expires_at"] > now)

    def held(self, at: int) -> Mask:
        """Return which held at a moment; one that nobody finds never did."""
        ends = np.minimum(self["ended_at"], self["expires_at"])
        mask: Mask = (self.created_at <= at) & (ends > at) & ~self.equal("state", UNSEEN)
        return mask

    def equal(self, name: str, wanted: Sequence[str]) -> Mask:
        """Return where a column of codes stands for one of the values."""
        known = self.codes[name]
        return np.isin(self[name], [known[one] for one in wanted if one in known])

    def missing(self, name: str) -> Mask:
        """Return where a column of codes stands for nothing."""
        mask: Mask = self[name] < 0
        return mask

    def named(self, name: str, slots: Places) -> list[str | None]:
        """Return what the codes of some slots stand for."""
        values = [*self.codes[name], None]  # -1 stands for nothing
        return [values[code] for code in self[name][slots].tolist()]

    def tagged(self, tags: Sequence[str]) -> Mask:
        """Return which carry every tag."""
        mask = np.ones(len(self.records), np.bool_)
        for tag in dict.fromkeys(tags):
            has = np.zeros(len(mask), np.bool_)
            has[self.tags.first(tag, len(mask))[0]] = True
            mask &= has
            if not mask.any():
                break
        return mask


def called(mention: Mention) -> frozenset[str]:
    """Return all that a mentioned entity may be called, in folded case."""
    name = mention.name.casefold()
    return frozenset((name, mention.alias.casefold(), *short_names(mention.kind, name)))
