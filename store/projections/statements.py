"""
What each memory says, as two numbers: equal numbers are what duplicates are found by.

Reading a text costs some 30 us, so it is done again only where the text is another than before, and
on all processors where there is much to read.
"""

import unicodedata
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from store.events import EPISODE, MEMORY_KINDS
from store.memories.memory import Memory, indexed_text
from store.memories.parts import parts_of
from store.memories.table import text_fingerprints
from store.snapshots.parallel import packed, unpacked
from store.snapshots.projection import Inputs, Mapper, Part, Previous, column_view
from store.text.mentions import speaker_name
from store.text.strict_duplicates import statement
from store.text.text_features import traits

# by document; all 0 for a forgotten one. `mark`: what its text was when it was read; `says`: of
# what it says; `frame`: of that with a gap for each value
STATEMENTS = pa.schema(
    [
        ("mark", pa.uint64()),
        ("says", pa.uint64()),
        ("frame", pa.uint64()),
        ("is_relative", pa.uint8()),  # its words mean another day when said on another
    ]
)
FEW = 10_000  # texts that are read before other processes have started
# what happened: said in the same words another time, it happened another time
HAPPENED = frozenset({"raw_turn", "activity", "observation", "milestone", "summary", "bugfix"})

# the fields that a memory says something in
TEXTS = ["content", "context", "action", "result"]
_DAY, _SECOND = 86_400_000_000, 1_000_000  # microseconds

Numbers = npt.NDArray[np.uint64]


def said(memory: Memory) -> str:
    """Return what a memory says; its tags only say where it is filed."""
    return indexed_text(memory.content, memory.context, memory.action, memory.result, ())


def scope(memory: Memory, *, is_relative: bool) -> tuple[object, ...]:
    """Return what two memories that say the same must share to be one thing said twice.

    The project and the person; of an episode its moment; of words that mean a day, the day; of
    words about oneself, whose they are.
    """
    day = memory.created_at // _DAY if is_relative else None
    speaker = speaker_name(memory.created_by) if memory.created_by else None
    if memory.kind in HAPPENED:
        moment = (memory.kind, memory.session, memory.created_at // _SECOND)
        return memory.project, speaker, day, memory.trust, moment
    own = memory.trust if traits(said(memory)).personal else None
    return memory.project, speaker, day, own, None


def read(inputs: Inputs, previous: Previous | None) -> pa.Table:
    """Return the rows of STATEMENTS of all memories; of unchanged texts those of `previous`."""
    memories = inputs.tables["memories"]
    marks = text_fingerprints(memories["columns"])
    # what happened is said in other words each time: an episode repeats nothing
    marks[column_view(memories["columns"], "kind") == MEMORY_KINDS.index(EPISODE)] = 0
    table = pa.table(
        [pa.array(marks), *([np.zeros(len(marks), np.uint64)] * 2), np.zeros(len(marks), np.uint8)],
        schema=STATEMENTS,
    )
    found = {name: table.column(name).to_numpy().copy() for name in STATEMENTS.names}
    differs = marks != 0
    if previous is not None:
        before = previous.tables["statements"]
        both = min(len(marks), before.num_rows)
        known = before.column("mark").to_numpy()[:both] == marks[:both]
        for name in STATEMENTS.names:
            found[name][:both][known] = before.column(name).to_numpy()[:both][known]
        differs[:both] &= ~known
    of = parts_of(memories, "memories")
    starts = np.cumsum([0, *(part.rows for part in of)])
    rows = [np.flatnonzero(differs[start:end]) for start, end in pairwise(starts)]
    changed = [number for number, some in enumerate(rows) if len(some)]
    apply: Mapper = inputs.map if differs.sum() > FEW else map
    for number, data in zip(
        changed, apply(_read, (_texts(of[number], rows[number]) for number in changed)), strict=True
    ):
        new = unpacked(data)
        for name in new.column_names:
            found[name][rows[number] + starts[number]] = new.column(name).to_numpy()
    return pa.table([pa.array(found[name]) for name in STATEMENTS.names], schema=STATEMENTS)


def _texts(part: Part, rows: npt.NDArray[np.int64]) -> pa.Buffer:
    table = part.table.select(TEXTS)
    return packed(table if len(rows) == part.rows else table.take(pa.array(rows)))


def _read(data: pa.Buffer) -> pa.Buffer:
    """Return what packed texts say, without their marks."""
    columns = list(zip(*_numbers(unpacked(data)), strict=True))
    fields = [STATEMENTS.field(name) for name in ("says", "frame", "is_relative")]
    arrays = [pa.array(one, field.type) for one, field in zip(columns, fields, strict=True)]
    return packed(pa.table(arrays, schema=pa.schema(fields)))


def _numbers(table: pa.Table) -> Iterator[tuple[int, int, int]]:
    for content, context, action, result in zip(
        *(column.to_pylist() for column in table.columns), strict=True
    ):
        one = statement(indexed_text(content, context, action, result, ()))
        yield one.key, one.frame, int(one.is_relative)


def as_written(memory: Memory) -> str:
    """Return what a memory says to the letter, its white space aside."""
    return " ".join(unicodedata.normalize("NFC", said(memory)).split())
