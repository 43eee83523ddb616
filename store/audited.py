"""
Audited: a candidate's projection, and what it is held against.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from store.log import EventLog
from store.projection import Built, Part, Tables
from store.projections.memory_parts import parts_of


@dataclass(frozen=True, slots=True)
class Audited:
    """`published` is what is served now of the same projection; None where nothing is."""

    log: EventLog
    watermark: int
    tables: Tables
    memories: pa.Table
    published: Tables | None
    published_watermark: int

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
