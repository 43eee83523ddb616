"""
The projection `duplicates`: memories that repeat an earlier one, or give another value for it.

Only strict evidence counts, so few texts are compared and never all with all: equal statements have
the same number, possible corrections the same frame. A memory is linked to the first of those with
its statement. An `update` is linked to the memory before it; both are active. Forgotten memories
have no links. A link hides or merges nothing: `consolidate` proposes that.
"""

import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from store.derived.changed_texts import read_changed_texts
from store.home.instants import DAY, SECOND
from store.log.event_kinds import EPISODE, MEMORY_KINDS
from store.memories.memory import ACTIVE, STATES, Memory, indexed_text
from store.memories.table import read_memories, text_fingerprints
from store.snapshots.parallel import pack_table, unpack_table
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
from store.text.mentions import speaker_name
from store.text.strict_duplicates import statement
from store.text.text_features import traits

# Each memory's statement as two numbers: duplicates are found by equal numbers.
#
# Reading a text costs some 30 us, so only changed texts are read again, and many of them on all
# processors.

# by document; all 0 for a forgotten one. `mark`: of the text that was read; `says`: of its
# statement; `frame`: of the statement with a gap for each value
STATEMENTS = pa.schema(
    [
        ("mark", pa.uint64()),
        ("says", pa.uint64()),
        ("frame", pa.uint64()),
        ("is_relative", pa.uint8()),  # its words mean another day if written on another
    ]
)
# kinds of events: the same words at another time are another event
HAPPENED = frozenset({"raw_turn", "activity", "observation", "milestone", "summary", "bugfix"})

# the fields with a memory's statement
TEXTS = ["content", "context", "action", "result"]

Numbers = npt.NDArray[np.uint64]


def statement_text(memory: Memory) -> str:
    """Return the text of a memory without its tags, which only file it."""
    return indexed_text(memory.content, memory.context, memory.action, memory.result, ())


def scope(memory: Memory, *, is_relative: bool) -> tuple[object, ...]:
    """Return the scope in which two memories with equal statements are duplicates.

    The project and the person; of an episode its moment; of words that mean a day, the day; of
    words about oneself, their speaker.
    """
    day = memory.created_at // DAY if is_relative else None
    speaker = speaker_name(memory.created_by) if memory.created_by else None
    if memory.kind in HAPPENED:
        moment = (memory.kind, memory.session, memory.created_at // SECOND)
        return memory.project, speaker, day, memory.trust, moment
    own = memory.trust if traits(statement_text(memory)).personal else None
    return memory.project, speaker, day, own, None


def read(inputs: Inputs, previous: Previous | None) -> pa.Table:
    """Return the rows of STATEMENTS of all memories; of unchanged texts those of `previous`."""
    memories = inputs.tables["memories"]
    marks = text_fingerprints(memories["columns"])
    # each event has its own words: an episode repeats nothing
    marks[column_view(memories["columns"], "kind") == MEMORY_KINDS.index(EPISODE)] = 0
    table = pa.table(
        [pa.array(marks), *([np.zeros(len(marks), np.uint64)] * 2), np.zeros(len(marks), np.uint8)],
        schema=STATEMENTS,
    )
    columns = {name: table.column(name).to_numpy().copy() for name in STATEMENTS.names}
    differs = marks != 0
    if previous is not None:
        before = previous.tables["statements"]
        both = min(len(marks), before.num_rows)
        is_same = before.column("mark").to_numpy()[:both] == marks[:both]
        for name in STATEMENTS.names:
            columns[name][:both][is_same] = before.column(name).to_numpy()[:both][is_same]
        differs[:both] &= ~is_same
    for _, documents, new in read_changed_texts(inputs, differs, TEXTS, _read):
        for name in new.column_names:
            columns[name][documents] = new.column(name).to_numpy()
    return pa.table([pa.array(columns[name]) for name in STATEMENTS.names], schema=STATEMENTS)


def _read(data: pa.Buffer) -> pa.Buffer:
    """Return the rows of STATEMENTS of packed texts, without their marks."""
    texts = zip(*(column.to_pylist() for column in unpack_table(data).columns), strict=True)
    rows = []
    for content, context, action, result in texts:
        read = statement(indexed_text(content, context, action, result, ()))
        rows.append((read.key, read.frame, int(read.is_relative)))
    fields = [STATEMENTS.field(name) for name in ("says", "frame", "is_relative")]
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, fields, strict=True)]
    return pack_table(pa.table(arrays, schema=pa.schema(fields)))


def as_written(memory: Memory) -> str:
    """Return the text of a memory to the letter, its white space aside."""
    return " ".join(unicodedata.normalize("NFC", statement_text(memory)).split())


LinkKind = Literal["exact", "near", "update"]

MOST_VALUES = 3  # values of one frame: more are a series of facts, without corrections

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
        """Return True if the link is true of two texts."""
        older, newer = statement(of), statement(document)
        if self.kind == "update":
            return correction(older, newer) == (self.was, self.becomes)
        return older.says == newer.says


class _Candidate(msgspec.Struct, frozen=True):
    """A memory that may be linked: its row, and the number of its statement."""

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
    links.sort(key=lambda link: (link.document, link.kind, link.of))
    columns = zip(*map(msgspec.structs.astuple, links), strict=True) if links else [()] * 6
    pairs = zip(columns, DUPLICATES, strict=True)
    arrays = [pa.array(column, field.type) for column, field in pairs]
    return {"duplicates": pa.table(arrays, schema=DUPLICATES), "statements": statements}


def _copies(of_memories: Tables, statements: pa.Table) -> Iterator[Link]:
    """Yield a link for each memory that repeats an earlier row of its scope."""
    says = column_view(statements, "says")
    candidates = _load_rows(of_memories, statements, _repeated_rows(says, says != 0))
    for group in _groups(candidates, lambda each: (each.says, *each.scope)):
        if len(group) == 1:
            continue
        by_text: dict[str, int] = {}
        first = group[0]
        for candidate in group:
            of = by_text.setdefault(as_written(candidate.memory), candidate.row)
            if of != candidate.row:
                yield Link(candidate.row, of, "exact")
            elif candidate is not first:
                likeness = _likeness(statement_text(first.memory), statement_text(candidate.memory))
                yield Link(candidate.row, first.row, "near", likeness)


def _updates(of_memories: Tables, statements: pa.Table) -> Iterator[Link]:
    """Yield a link for each memory that repeats the one before it with another value."""
    says, columns = column_view(statements, "says"), of_memories["columns"]
    active = np.asarray(columns.column("state")) == STATES.index(ACTIVE)
    # by project: another project's port is another port
    projects = np.asarray(columns.column("project")).astype(np.uint64) + np.uint64(1)
    frames = column_view(statements, "frame") ^ (projects * np.uint64(0x9E3779B97F4A7C15))
    rows = _repeated_rows(frames, active & (column_view(statements, "frame") != 0))
    for frame in _few_valued(rows, frames, says):
        candidates = _load_rows(of_memories, statements, frame)
        # "now" dates a correction, and does not part it from the corrected memory
        for group in _groups(candidates, lambda each: scope(each.memory, is_relative=False)):
            ordered = sorted(group, key=lambda each: (each.memory.created_at, each.row))
            for older, newer in pairwise(ordered):
                if (link := _update(older, newer)) is not None:
                    yield link


def _update(older: _Candidate, newer: _Candidate) -> Link | None:
    if older.says == newer.says or older.memory.created_at == newer.memory.created_at:
        return None  # written at one moment, neither is the later one
    was, becomes = statement_text(older.memory), statement_text(newer.memory)
    values = correction(statement(was), statement(becomes))
    if values is None:
        return None
    return Link(newer.row, older.row, "update", _likeness(was, becomes), *values)


def _repeated_rows(numbers: npt.NDArray[np.uint64], wanted: npt.NDArray[np.bool_]) -> Rows:
    """Return the rows under a mask that share their number with another, by number, then by row."""
    rows = np.flatnonzero(wanted)
    rows = rows[np.argsort(numbers[rows], kind="stable")]
    same = numbers[rows[1:]] == numbers[rows[:-1]]
    is_repeated = np.zeros(len(rows), np.bool_)
    is_repeated[1:] |= same
    is_repeated[:-1] |= same
    return rows[is_repeated]


def _few_valued(
    rows: Rows, frames: npt.NDArray[np.uint64], says: npt.NDArray[np.uint64]
) -> Iterator[Rows]:
    """Yield the rows of each frame that has two values or three, not more."""
    if not len(rows):
        return
    cuts = np.flatnonzero(np.diff(frames[rows])) + 1
    for part in np.split(rows, cuts):
        if 2 <= len(np.unique(says[part])) <= MOST_VALUES:
            yield np.sort(part)


def _load_rows(of_memories: Tables, statements: pa.Table, rows: Rows) -> list[_Candidate]:
    """Return the memories of some rows, in order."""
    ascending = np.sort(rows)
    memories = read_memories(take_rows(of_memories["memories"], ascending))
    numbers = take_rows(statements, ascending).to_pydict()
    return [
        _Candidate(row, memory, says, bool(relative))
        for row, memory, says, relative in zip(
            ascending.tolist(),
            memories,
            numbers["says"],
            numbers["is_relative"],
            strict=True,
        )
    ]


def _groups(
    candidates: Iterable[_Candidate], key: Callable[[_Candidate], tuple[object, ...]]
) -> list[list[_Candidate]]:
    """Return candidates of one key together, in their order."""
    groups: dict[tuple[object, ...], list[_Candidate]] = {}
    for candidate in candidates:
        groups.setdefault(key(candidate), []).append(candidate)
    return list(groups.values())


def _likeness(text: str, other: str) -> float:
    """Return the share of common words among the words of both, 0 to 1."""
    a, b = frozenset(text.casefold().split()), frozenset(other.casefold().split())
    return round(len(a & b) / len(a | b), 3) if a | b else 1.0


DUPLICATES_PROJECTION = Projection(
    name="duplicates",
    version="4",  # with the rules of `strict_duplicates`
    inputs=("memories",),
    schemas={"duplicates": DUPLICATES, "statements": STATEMENTS},
    build=build,
    for_builds=frozenset({"statements"}),
    grows=False,  # a statement depends on the text alone
)


@dataclass(frozen=True)
class Duplicates:
    """The links of a build, opened; rows are read on first use."""

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
        links = take_rows(self.table, np.flatnonzero(np.logical_or(*ends)))
        return [Link(**row) for row in links.to_pylist()]
