"""
The projection `memories`: one row for each memory and each turn of an agent, at a watermark.

A fold over the log (`fold`), as tables (`table`). Rows keep the order in which
memories were recorded, so a row's number is the document number in every other projection. Whether
a ttl has run out depends on the clock and is checked at recall, by `expires_at`.
"""

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter

import numpy as np
import pyarrow as pa

from store.log.event_kinds import EPISODE, Prompted, Recorded
from store.memories import table as memory_table
from store.memories.fold import Fold
from store.memories.memory import ERASED, VERSION, Edge, Memory
from store.memories.parts import PLACES, Documents, MemoryParts, Places, key_name
from store.memories.table import (
    COLUMNS,
    EDGES,
    MEMORIES,
    PROJECTS,
    columns_of,
    concat_tables,
    edge_table,
    table_of,
    with_rows,
)
from store.redaction import redact
from store.snapshots.projection import Built, Inputs, Keep, Made, Part, Previous, Projection

SCHEMAS = {
    "memories": MEMORIES,  # in parts
    "columns": COLUMNS,
    "projects": PROJECTS,
    "ids": PLACES,
    "keys": PLACES,  # of a project and a key
    "episodes": PLACES,  # of the session
    "replaced": PLACES,  # of the id that a row's `superseded_by` names
    "made_of": PLACES,  # of each source of a row that a job made
    "edges": EDGES,  # in parts
}
MOST_CHANGED = 16_384  # rows of earlier parts kept until their parts are made again


def build_memories(inputs: Inputs, previous: Previous | None) -> Made:
    """Fold the log up to the watermark, from `previous` on if there is one.

    If older events of other homes arrived since `previous`, all is built from nothing, and the
    memories that they are about are folded anew at the end.
    """
    growth = Growth(inputs.keep, previous.tables if previous else None)
    fold = Fold(beneath=growth)
    late = inputs.late(previous.watermark if previous else 0)
    if late and previous:
        return build_memories(inputs, None)
    made: dict[str, None] = {}
    room = growth.room
    for event in inputs.read(previous.watermark if previous else 0):
        fold.apply(event)
        if isinstance(event.body, (Recorded, Prompted)):
            made[event.id] = None
            if len(made) == room:
                growth.add(fold.settle(made))
                made.clear()
                room = growth.room
        elif len(fold.rows) - len(made) > MOST_CHANGED:
            growth.change(fold.settle(fold.rows.keys() - made.keys()))
    changed = fold.settle(fold.rows.keys() - made.keys())
    growth.change(changed)  # first: the last part, which may yet grow, may be among theirs
    growth.add(fold.settle(made))
    if late:
        ids = fold.dependents(late)
        growth.change(fold.settle(fold.anew(ids, inputs.about(ids))))
    growth.link(fold.edges)
    return growth.tables()


MEMORIES_PROJECTION = Projection(
    name="memories",
    version=f"{VERSION}.{redact.VERSION}",
    inputs=("log",),
    schemas=SCHEMAS,
    build=build_memories,
)


# Growth: the tables of memories while a build adds rows to them and changes some.
#
# Only parts with an added or changed row are made again; their other rows stay as they are. A build
# from nothing grows by the same steps, a part at a time.


class Growth:
    """The tables so far; a fold reads their memories as those beneath it."""

    def __init__(self, keep: Keep, before: Built | None) -> None:
        self._keep = keep
        self._memories = MemoryParts([], Places.none(), Places.none(), Places.none())
        self._columns: list[pa.Table] = []  # by part
        self._projects: dict[str, int] = {}
        self._replaced, self._made_of = Places.none(), Places.none()
        self._edges: tuple[Part, ...] = ()
        if before is not None:
            self._memories = MemoryParts.open(before)
            rows = memory_table.ROWS
            numbers = range(len(self._memories.parts))
            self._columns = [before["columns"].slice(n * rows, rows) for n in numbers]
            names = before["projects"].column("name").to_pylist()
            self._projects = {name: code for code, name in enumerate(names)}
            self._replaced = Places.open(before["replaced"])
            self._made_of = Places.open(before["made_of"])
            self._edges = before.parts["edges"]

    @property
    def room(self) -> int:
        """The number of rows that fit in the last part, or in a new one if it is full."""
        return memory_table.ROWS - len(self._memories) % memory_table.ROWS

    def find(self, id_: str) -> Memory | None:
        return self._memories.find(id_)

    def holder(self, project: str | None, key: str) -> str | None:
        return self._memories.holder(project, key)

    def values(self, project: str | None, key: str) -> list[str]:
        return self._memories.values(project, key)

    def made_of(self, id_: str) -> list[str]:
        return self._memories.made_of(self._made_of, id_)

    def episode(self, session: str) -> str | None:
        return self._memories.episode(session)

    def add(self, rows: Sequence[Memory]) -> None:
        """Add memories, in the order of their recording, as many as there is room for."""
        if not rows:
            return
        start, parts = len(self._memories), list(self._memories.parts)
        table = table_of(rows)
        if start % memory_table.ROWS:
            table = concat_tables([parts.pop().table, table])
            self._columns.pop()
        parts.append(self._part("memories", table))
        self._columns.append(columns_of(table, self._projects))
        documents = np.arange(start, start + len(rows), dtype=np.int32)
        ids = self._memories.ids.with_names([row.id for row in rows], documents)
        keyed = [row.key is not None for row in rows]
        names = [key_name(row.project, row.key) for row in rows if row.key is not None]
        keys = (
            self._memories.keys.with_names(names, documents[keyed])
            if names
            else self._memories.keys
        )
        turns = [row.kind == EPISODE and row.session is not None for row in rows]
        sessions = [row.session or "" for row, is_one in zip(rows, turns, strict=True) if is_one]
        episodes = self._memories.episodes
        if sessions:
            episodes = episodes.with_names(sessions, documents[turns])
        self._memories = MemoryParts(parts, ids, keys, episodes)
        self._note_replaced(rows, documents)
        self._note_sources(rows, documents)

    def change(self, rows: Sequence[Memory]) -> None:
        """Put memories in the place of those of the same ids."""
        if not rows:
            return
        placed = sorted(((self._row(row.id), row) for row in rows), key=itemgetter(0))
        parts = list(self._memories.parts)
        for number, some in groupby(placed, lambda pair: self._memories.part_of(pair[0])[0]):
            in_part = list(some)
            places = [self._memories.part_of(row)[1] for row, _ in in_part]
            table = with_rows(parts[number].table, places, [memory for _, memory in in_part])
            parts[number] = self._part("memories", table)
            self._columns[number] = columns_of(table, self._projects)
        episodes = self._memories.episodes
        self._memories = MemoryParts(parts, self._memories.ids, self._memories.keys, episodes)
        documents = np.array([row for row, _ in placed], np.int32)
        if any(memory.text_hash == ERASED for _, memory in placed):
            unkeyed = np.array([row for row, memory in placed if memory.key is None], np.int32)
            keys = self._memories.keys.without(unkeyed)
            self._memories = MemoryParts(parts, self._memories.ids, keys, episodes)
        self._replaced = self._replaced.without(documents)
        self._note_replaced([memory for _, memory in placed], documents)

    def link(self, edges: Sequence[Edge]) -> None:
        """Add edges, in order."""
        if not edges:
            return
        rows, table, parts = memory_table.ROWS, edge_table(edges), list(self._edges)
        if parts and parts[-1].rows < rows:
            table = concat_tables([parts.pop().table, table])
        starts = range(0, table.num_rows, rows)
        parts += (self._part("edges", table.slice(start, rows)) for start in starts)
        self._edges = tuple(parts)

    def tables(self) -> Made:
        """Return the tables as they are now."""
        return {
            "memories": self._memories.parts,
            "columns": concat_tables([COLUMNS.empty_table(), *self._columns]),
            "projects": pa.table([pa.array([*self._projects], pa.string())], schema=PROJECTS),
            "ids": self._memories.ids.table,
            "keys": self._memories.keys.table,
            "episodes": self._memories.episodes.table,
            "replaced": self._replaced.table,
            "made_of": self._made_of.table,
            "edges": self._edges,
        }

    def _row(self, id_: str) -> int:
        row = self._memories.row(id_)
        if row is None:
            raise KeyError(id_)
        return row

    def _part(self, name: str, table: pa.Table) -> Part:
        """Return a part, kept at once if it is full; the last one may still grow."""
        return self._keep(name, table) if table.num_rows == memory_table.ROWS else Part.of(table)

    def _note_replaced(self, rows: Sequence[Memory], documents: Documents) -> None:
        numbers = [number for number, row in enumerate(rows) if row.superseded_by is not None]
        if numbers:
            names = (str(rows[number].superseded_by) for number in numbers)
            self._replaced = self._replaced.with_names(names, documents[numbers]).in_order()

    def _note_sources(self, rows: Sequence[Memory], documents: Documents) -> None:
        sources = [
            (source, number)
            for number, row in enumerate(rows)
            if row.job is not None
            for source in dict.fromkeys(row.source_ids)
        ]
        if sources:
            places = documents[[number for _, number in sources]]
            self._made_of = self._made_of.with_names((source for source, _ in sources), places)
