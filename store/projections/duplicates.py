"""
duplicates: which memories say what another said before, and which say it with another value.

By strict evidence alone, so the texts of a few are compared and never all with
all: what says the same has the same number, what may be a correction the same frame. A memory is
linked to the first of those that say what it says. Of an `update` the later is linked to the one
before it; both are active. Forgotten memories have no links. Nothing is hidden or merged by a link:
`consolidate` proposes that.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from store.memories.memory import ACTIVE, STATES, Memory
from store.memories.table import read_memories
from store.projections.statements import STATEMENTS, as_written, read, said, scope
from store.snapshots.projection import (
    Inputs,
    Made,
    Previous,
    Projection,
    Tables,
    column_array,
    column_view,
    take_rows,
)
from store.text.corrections import correction
from store.text.strict_duplicates import statement

LinkKind = Literal["exact", "near", "update"]

MOST_VALUES = 3  # of one frame: more are a series of facts, and none corrects the other

# `likeness` is the share of their words that both have; `was` and `becomes` are the values of an
# update, empty otherwise
DUPLICATES = pa.schema(
    [
        ("document", pa.int32()),
        ("of", pa.int32()),
        ("kind", pa.string()),
        ("likeness", pa.float64()),
        ("was", pa.string()),
        ("becomes", pa.string()),
    ]
)

Rows = npt.NDArray[np.int64]


class Link(msgspec.Struct, frozen=True):
    """A row of DUPLICATES."""

    document: int
    of: int
    kind: LinkKind
    likeness: float = 1.0
    was: str = ""
    becomes: str = ""

    def holds(self, of: str, document: str) -> bool:
        """Return whether two texts are to each other what the link says."""
        older, newer = statement(of), statement(document)
        if self.kind == "update":
            return correction(older, newer) == (self.was, self.becomes)
        return older.says == newer.says


@dataclass(frozen=True, slots=True)
class _Told:
    """A memory that may be linked: its row, and the number of what it says."""

    row: int
    memory: Memory
    says: int
    is_relative: bool

    @property
    def scope(self) -> tuple[object, ...]:
        return scope(self.memory, is_relative=self.is_relative)


def build(inputs: Inputs, previous: Previous | None) -> Made:
    """Link the memories that are not forgotten."""
    statements = read(inputs, previous)
    of_memories = inputs.tables["memories"]
    links = [*_copies(of_memories, statements), *_updates(of_memories, statements)]
    links.sort(key=lambda one: (one.document, one.kind, one.of))
    columns = zip(*map(msgspec.structs.astuple, links), strict=True) if links else [()] * 6
    arrays = [pa.array(one, field.type) for one, field in zip(columns, DUPLICATES, strict=True)]
    return {"duplicates": pa.table(arrays, schema=DUPLICATES), "statements": statements}


def _copies(of_memories: Tables, statements: pa.Table) -> Iterator[Link]:
    """Yield a link for each memory that says what an earlier row says."""
    says = column_view(statements, "says")
    for group in _grouped(_told(of_memories, statements, _insight_mask(says, says != 0))):
        by_text: dict[str, int] = {}
        first = group[0]
        for one in group:
            of = by_text.setdefault(as_written(one.memory), one.row)
            if of != one.row:
                yield Link(one.row, of, "exact")
            elif one is not first:
                likeness = _likeness(said(first.memory), said(one.memory))
                yield Link(one.row, first.row, "near", likeness)


def _updates(of_memories: Tables, statements: pa.Table) -> Iterator[Link]:
    """Yield a link for each memory that says what the one before it said with another value."""
    says, columns = column_view(statements, "says"), of_memories["columns"]
    active = np.asarray(columns.column("state")) == STATES.index(ACTIVE)
    # by project: another project's port is another port
    projects = np.asarray(columns.column("project")).astype(np.uint64) + np.uint64(1)
    frames = column_view(statements, "frame") ^ (projects * np.uint64(0x9E3779B97F4A7C15))
    rows = _insight_mask(frames, active & (column_view(statements, "frame") != 0))
    for frame in _few_valued(rows, frames, says):
        for group in _grouped_by_scope(_told(of_memories, statements, frame)):
            ordered = sorted(group, key=lambda one: (one.memory.created_at, one.row))
            for older, newer in pairwise(ordered):
                if (link := _update(older, newer)) is not None:
                    yield link


def _update(older: _Told, newer: _Told) -> Link | None:
    if older.says == newer.says or older.memory.created_at == newer.memory.created_at:
        return None  # said at one moment, neither is the later word
    one, other = said(older.memory), said(newer.memory)
    found = correction(statement(one), statement(other))
    if found is None:
        return None
    return Link(newer.row, older.row, "update", _likeness(one, other), *found)


def _insight_mask(numbers: npt.NDArray[np.uint64], wanted: npt.NDArray[np.bool_]) -> Rows:
    """Return the rows under a mask whose number another such row has, by number, then by row."""
    rows = np.flatnonzero(wanted)
    rows = rows[np.argsort(numbers[rows], kind="stable")]
    found = numbers[rows]
    same = found[1:] == found[:-1]
    is_one = np.zeros(len(rows), np.bool_)
    is_one[1:] |= same
    is_one[:-1] |= same
    return rows[is_one]


def _few_valued(
    rows: Rows, frames: npt.NDArray[np.uint64], says: npt.NDArray[np.uint64]
) -> Iterator[Rows]:
    """Yield the rows of each frame that has two values or three, not more."""
    if not len(rows):
        return
    cuts = np.flatnonzero(np.diff(frames[rows])) + 1
    for some in np.split(rows, cuts):
        if 2 <= len(np.unique(says[some])) <= MOST_VALUES:
            yield np.sort(some)


def _told(of_memories: Tables, statements: pa.Table, rows: Rows) -> list[_Told]:
    """Return the memories of some rows, in order."""
    ascending = np.sort(rows)
    found = read_memories(take_rows(of_memories["memories"], ascending))
    numbers = take_rows(statements, ascending).to_pydict()
    return [
        _Told(row, memory, says, bool(relative))
        for row, memory, says, relative in zip(
            ascending.tolist(),
            found,
            numbers["says"],
            numbers["is_relative"],
            strict=True,
        )
    ]


def _grouped(told: Iterable[_Told]) -> Iterator[list[_Told]]:
    """Yield those that say the same within one scope, two or more, in the order of their rows."""
    groups: dict[tuple[object, ...], list[_Told]] = {}
    for one in told:
        groups.setdefault((one.says, *one.scope), []).append(one)
    yield from (group for group in groups.values() if len(group) > 1)


def _grouped_by_scope(told: Sequence[_Told]) -> Iterator[list[_Told]]:
    groups: dict[tuple[object, ...], list[_Told]] = {}
    for one in told:
        # "now" dates a correction, and does not part it from what it corrects
        groups.setdefault(scope(one.memory, is_relative=False), []).append(one)
    yield from groups.values()


def _likeness(one: str, other: str) -> float:
    """Return the share of the words of both that each has, 0 to 1."""
    a, b = frozenset(one.casefold().split()), frozenset(other.casefold().split())
    return round(len(a & b) / len(a | b), 3) if a | b else 1.0


DUPLICATES_PROJECTION = Projection(
    name="duplicates",
    version="3",  # with what `strict_duplicates` reads out of a text
    inputs=("memories",),
    schemas={"duplicates": DUPLICATES, "statements": STATEMENTS},
    build=build,
    for_builds=frozenset({"statements"}),
    grows=False,  # what a text says is known by the text
)


@dataclass(frozen=True)
class Duplicates:
    """The links of a build, opened; nothing is read before it is asked for."""

    table: pa.Table

    @classmethod
    def open(cls, tables: Tables) -> "Duplicates":
        return cls(tables["duplicates"])

    @property
    def links(self) -> list[Link]:
        """All links, by their documents."""
        return [Link(**row) for row in self.table.to_pylist()]

    def of(self, row: int) -> list[Link]:
        """Return the links from a row and to it."""
        ends = (np.asarray(column_array(self.table, name)) == row for name in ("document", "of"))
        found = np.flatnonzero(np.logical_or(*ends))
        return [Link(**one) for one in take_rows(self.table, found).to_pylist()]
