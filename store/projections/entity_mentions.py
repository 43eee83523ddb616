"""
What the memories name, one row for each mention, in parts by document.

Reading a text for its mentions costs some 40 us, so it is done again only where the text is another
than before, and on all processors where there is much to read.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from store.memories.memory import UNSEEN, indexed_text
from store.memories.parts import parts_of
from store.memories.table import insight_mask, text_fingerprints
from store.snapshots.parallel import packed, unpacked
from store.snapshots.projection import Inputs, Mapper, Part, Previous
from store.text.mentions import mentions

FOUND = pa.schema(
    [
        ("document", pa.int32()),
        ("kind", pa.string()),
        ("name", pa.string()),
        ("alias", pa.string()),
    ]
)
READ = pa.schema([("mark", pa.uint64())])  # by document: what its text was when it was read

FEW = 10_000  # texts that are read before other processes have started

_TEXT = ["content", "context", "action", "result", "created_by", "state"]
_OF_WHOM = ["kind", "job"]

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Found:
    """All mentions, in the parts of the memories, and what is new of them.

    `read` are the documents' marks. `is_more`: no mention of an earlier build went away.
    """

    read: pa.Table
    parts: list[Part]
    new: pa.Table
    is_more: bool


def found_in(inputs: Inputs, previous: Previous | None) -> Found:
    """Return the mentions of all memories; of unchanged texts those that `previous` found."""
    memories = inputs.tables["memories"]
    marks = text_fingerprints(memories["columns"])
    known = np.empty(0, np.uint64)
    parts: list[Part] = []
    if previous is not None:
        parts += previous.tables.parts["found"]
        known = previous.tables["read"].column("mark").to_numpy()
    differs = np.ones(len(marks), np.bool_)
    differs[: len(known)] = marks[: len(known)] != known
    of = parts_of(memories, "memories")
    starts = np.cumsum([0, *(part.rows for part in of)])
    rows = [np.flatnonzero(differs[start:end]) for start, end in pairwise(starts)]
    changed = [number for number, some in enumerate(rows) if len(some)]
    apply: Mapper = inputs.map if differs.sum() > FEW else map
    read = apply(_read, (_texts(of[number], rows[number]) for number in changed))
    news, is_more = [FOUND.empty_table()], previous is not None
    for number, data in zip(changed, read, strict=True):
        new, documents = unpacked(data), rows[number] + starts[number]
        places = documents[new.column("document").to_numpy()]
        new = new.set_column(0, FOUND.field(0), pa.array(places, pa.int32()))
        if previous is not None:
            news.append(new)
        if number == len(parts):
            parts.append(inputs.keep("found", new))
            continue
        old = parts[number].table
        stays = ~np.isin(old.column("document").to_numpy(), documents)
        is_more &= bool(stays.all())
        parts[number] = inputs.keep("found", _merged(old.filter(pa.array(stays)), new))
    table = pa.table([pa.array(marks)], schema=READ)
    return Found(table, parts, pa.concat_tables(news), is_more)


def _texts(part: Part, rows: Rows) -> pa.Buffer:
    table = part.table.select([*_TEXT, *_OF_WHOM])
    return packed(table if len(rows) == part.rows else table.take(pa.array(rows)))


def _merged(old: pa.Table, new: pa.Table) -> pa.Table:
    """Return the mentions of both, by document."""
    table = pa.concat_tables([old, new])
    order = np.argsort(table.column("document").to_numpy(), kind="stable")
    return table.take(pa.array(order))


def _read(data: pa.Buffer) -> pa.Buffer:
    """Return the mentions of packed texts, by their row.

    A memory that nobody finds has none, nor has an insight of a job: it names what others name.
    """
    rows: list[int] = []
    found: list[tuple[str, str, str]] = []
    for row, text, speaker in _rows(unpacked(data)):
        for mention in mentions(text, speaker=speaker):
            rows.append(row)
            found.append((mention.kind, mention.name, mention.alias))
    columns = zip(*found, strict=True) if found else ((), (), ())
    arrays = [pa.array(rows, pa.int32()), *(pa.array(one, pa.string()) for one in columns)]
    return packed(pa.table(arrays, schema=FOUND))


def _rows(table: pa.Table) -> Iterator[tuple[int, str, str | None]]:
    rows = zip(*(table.column(name).to_pylist() for name in _TEXT), strict=True)
    left_out = insight_mask(table)
    for row, (content, context, action, result, created_by, state) in enumerate(rows):
        if state not in UNSEEN and not left_out[row]:
            yield row, indexed_text(content, context, action, result, ()), created_by
