"""
Audited: a candidate's projection, and what it is held against; Found: what an audit says of it.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from store.log.event_log import EventLog
from store.memories.parts import fields_of, parts_of
from store.snapshots.projection import Built, Part, Tables

_NAMED = 3  # memories named in a sentence


class Found(NamedTuple):
    """What an audit found, in one sentence; `rows` are the ids of the memories it fails on.

    It `isolates` them where each of them fails by itself, and all others pass; it only `warns`
    where it could not look.
    """

    passed: bool
    detail: str
    rows: Sequence[str] = ()
    isolates: bool = False
    warns: bool = False

    @property
    def sentence(self) -> str:
        """The detail, and the first of the memories it fails on."""
        if not self.rows:
            return self.detail
        more = ", ..." if len(self.rows) > _NAMED else ""
        return f"{self.detail}: memory {', '.join(self.rows[:_NAMED])}{more}"


@dataclass(frozen=True, slots=True)
class Audited:
    """`of_memories` are the candidate's memories; of a projection that is not made of them, its own
    tables. `published` is what is served now of the same projection, None where nothing is; or
    where it cannot be read, as `unread` says then.
    """

    log: EventLog
    watermark: int
    tables: Tables
    of_memories: Tables
    published: Tables | None
    published_watermark: int
    unread: str = ""

    @property
    def memories(self) -> pa.Table:
        """The memories themselves; asking opens all their parts."""
        return self.of_memories["memories"]

    @property
    def count(self) -> int:
        """How many memories there are."""
        return sum(part.rows for part in parts_of(self.of_memories, "memories"))

    def ids(self, rows: Iterable[int]) -> list[str]:
        """Return the ids of the memories of some rows, in order; none of rows there are not."""
        there = sorted({int(row) for row in rows if 0 <= row < self.count})
        table = fields_of(self.of_memories, np.array(there, np.int64), ("id",))
        found: list[str] = table.column("id").to_pylist()
        return found

    def fresh(self, name: str) -> Iterator[tuple[int, Part]]:
        """Yield a table's parts that are not the published ones, and each one's first row.

        What is in the same file at the same place was audited when it was published.
        """
        before = self.published.parts[name] if isinstance(self.published, Built) else ()
        start = 0
        for number, part in enumerate(parts_of(self.tables, name)):
            there = before[number].file if number < len(before) else None
            if there is None or part.file is None or there.path != part.file.path:
                yield start, part
            start += part.rows
