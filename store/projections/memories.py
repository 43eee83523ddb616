"""
memories: one row for each memory ever recorded, as it stands at the watermark.

A fold over the log: every event changes the row of its subject. Rows keep the order in which
memories were recorded, so a row's number is the document number in every other projection.
A keyed fact that a newer one of the same key and project replaced is `superseded` here; the log
need not say so. Whether a ttl has run out depends on the clock and is asked at recall, by
`expires_at`.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Protocol

import msgspec
import numpy as np
import pyarrow as pa

from store.events import (
    Archived,
    Event,
    Forgotten,
    Linked,
    Pinned,
    Recorded,
    Restored,
    Revised,
    Superseded,
    micros,
)
from store.mentions import speaker_name
from store.projection import Inputs, Previous, Projection, Tables
from store.text import text_hash

ACTIVE, ARCHIVED, SUPERSEDED, FORGOTTEN = "active", "archived", "superseded", "forgotten"
STATES = (ACTIVE, ARCHIVED, SUPERSEDED, FORGOTTEN)
DEFAULT_IMPORTANCE = 0.5
DEFAULT_SCORE = 0.5


@dataclass(frozen=True, slots=True)
class Memory:
    """One memory as it is now. Times are microseconds UTC; `metadata` is JSON text."""

    id: str
    seq: int
    kind: str
    state: str
    content: str
    context: str | None
    action: str | None
    result: str | None
    tags: tuple[str, ...]
    project: str | None
    session: str | None
    agent: str | None
    trust: str
    source: str | None
    created_by: str | None
    importance: float
    score: float
    pinned: bool
    tier: str
    parent_id: str | None
    source_ids: tuple[str, ...]
    insight_type: str | None
    superseded_by: str | None
    key: str | None
    value: str | None
    chain: str | None
    status: str | None
    progress: float | None
    created_at: int
    updated_at: int
    expires_at: int | None
    metadata: str
    text_hash: bytes

    @property
    def text(self) -> str:
        """What is embedded, and what makes two memories the same: the content and its company."""
        return indexed_text(self.content, self.context, self.action, self.result, self.tags)

    @property
    def searched_text(self) -> str:
        """What is indexed by its words: the text, who said it, and on which day."""
        return searched_text(self.text, self.created_by, self.created_at)


_TYPES: Mapping[str, pa.DataType] = {
    "seq": pa.int64(),
    "kind": pa.dictionary(pa.int16(), pa.string()),
    "state": pa.dictionary(pa.int8(), pa.string()),
    "tags": pa.list_(pa.string()),
    "project": pa.dictionary(pa.int32(), pa.string()),
    "trust": pa.dictionary(pa.int8(), pa.string()),
    "tier": pa.dictionary(pa.int8(), pa.string()),
    "source_ids": pa.list_(pa.string()),
    "importance": pa.float64(),
    "score": pa.float64(),
    "pinned": pa.bool_(),
    "progress": pa.float64(),
    "created_at": pa.int64(),
    "updated_at": pa.int64(),
    "expires_at": pa.int64(),
    "text_hash": pa.binary(16),
}
MEMORIES = pa.schema(
    [(field.name, _TYPES.get(field.name, pa.string())) for field in fields(Memory)]
)
# where to find an id without reading all of them: sorted by hash
IDS = pa.schema([("hash", pa.uint64()), ("document", pa.int32())])
EDGES = pa.schema(
    [
        ("source", pa.string()),
        ("target", pa.string()),
        ("relation", pa.string()),
        ("seq", pa.int64()),
    ]
)


def indexed_text(
    content: str,
    context: str | None,
    action: str | None,
    result: str | None,
    tags: Iterable[str],
) -> str:
    """Return the text under which a memory is found: its fields, one a line, tags last."""
    return "\n".join(part for part in (content, context, action, result, " ".join(tags)) if part)


def searched_text(text: str, created_by: str | None, created_at: int) -> str:
    """Return a text with the person who said it before it and the day, in words, after it.

    A role ("user", "assistant") says nothing about one memory and is left out.
    """
    speaker = created_by if created_by and speaker_name(created_by) else ""
    return f"{speaker}\n{text}\n{_day(created_at // _DAY)}".strip()


_DAY = 86_400 * 1_000_000  # microseconds
_MONTHS = """January February March April May June July August September October November
    December""".split()


@lru_cache(maxsize=4_096)
def _day(number: int) -> str:
    """Return a day, counted from 1970, as a person writes it: 7 May 2023."""
    day = datetime.fromordinal(_EPOCH + number)
    return f"{day.day} {_MONTHS[day.month - 1]} {day.year}"


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC).toordinal()


@dataclass(frozen=True, slots=True)
class Edge:
    """A reasoning edge: `source` is the memory the link was drawn from."""

    source: str
    target: str
    relation: str
    seq: int


class Rows(Protocol):
    """Where a fold finds the memories it did not make itself."""

    def find(self, id_: str) -> Memory | None:
        """Return the memory with this id."""

    def holder(self, project: str | None, key: str) -> str | None:
        """Return the id of the current memory of a key in a project."""


class Fold:
    """The memories a run of events leaves behind: give it rows, `apply` events in order.

    `rows` holds what it was given and what it made or changed. With `beneath`, it lies over a
    larger set of memories that it reads from and never changes: the log's tail over a snapshot.
    """

    def __init__(
        self, rows: Iterable[Memory] = (), edges: Iterable[Edge] = (), beneath: Rows | None = None
    ) -> None:
        self.rows = {memory.id: memory for memory in rows}
        self.edges = list(edges)
        self._beneath = beneath
        self._holders = {
            (memory.project, memory.key): memory.id
            for memory in self.rows.values()
            if memory.key is not None and memory.state == ACTIVE
        }

    def find(self, id_: str) -> Memory | None:
        found = self.rows.get(id_)
        return self._beneath.find(id_) if found is None and self._beneath else found

    def holder(self, project: str | None, key: str) -> str | None:
        found = self._holders.get((project, key))
        return self._beneath.holder(project, key) if found is None and self._beneath else found

    def apply(self, event: Event) -> tuple[str, ...]:
        """Apply one event; return the ids of the memories it made or changed."""
        body = event.body
        if isinstance(body, Recorded):
            return self._put(_recorded(event, body), event.at)
        before = self.find(event.subject)
        if before is None:
            return ()
        if isinstance(body, Linked):
            self.edges.append(Edge(event.subject, body.target, body.relation, event.seq))
            return ()
        changes = _changes(event)
        if not changes:
            return ()
        after = replace(before, updated_at=event.at, **changes)
        if not changes.keys().isdisjoint(_INDEXED):
            after = replace(after, text_hash=text_hash(after.text))
        return self._put(after, event.at)

    def _put(self, memory: Memory, at: int) -> tuple[str, ...]:
        """Keep a row; where it is the newest of its key, the one that was steps back."""
        self.rows[memory.id] = memory
        if memory.key is None or memory.state != ACTIVE:
            return (memory.id,)
        older = self.holder(memory.project, memory.key)
        self._holders[memory.project, memory.key] = memory.id
        there = self.find(older) if older is not None and older != memory.id else None
        if there is None or there.state != ACTIVE:
            return (memory.id,)
        self.rows[there.id] = replace(
            there, state=SUPERSEDED, superseded_by=memory.id, updated_at=at
        )
        return memory.id, there.id


def _recorded(event: Event, body: Recorded) -> Memory:
    created = micros(body.created_at) if body.created_at else event.at
    tags = tuple(dict.fromkeys(body.tags))
    text = indexed_text(body.content, body.context, body.action, body.result, tags)
    return Memory(
        id=event.id,
        seq=event.seq,
        kind=body.kind,
        state=ACTIVE,
        content=body.content,
        context=body.context,
        action=body.action,
        result=body.result,
        tags=tags,
        project=event.project,
        session=event.session,
        agent=event.agent,
        trust=event.trust,
        source=body.source,
        created_by=body.created_by,
        importance=DEFAULT_IMPORTANCE if body.importance is None else body.importance,
        score=DEFAULT_SCORE if body.score is None else body.score,
        pinned=body.pinned,
        tier=body.tier,
        parent_id=body.parent_id,
        source_ids=body.source_ids,
        insight_type=body.insight_type,
        superseded_by=None,
        key=body.key,
        value=body.value,
        chain=body.chain,
        status=body.status or ("open" if body.kind == "goal" else None),
        progress=body.progress,
        created_at=created,
        updated_at=event.at,
        # a ttl runs from the moment of writing: an import of old notes would expire at once
        expires_at=event.at + body.ttl_s * 1_000_000 if body.ttl_s else None,
        metadata=msgspec.json.encode(body.metadata).decode(),
        text_hash=text_hash(text),
    )


_INDEXED = frozenset({"content", "context", "action", "result", "tags"})
_REVISABLE = ("content", "context", "action", "result", "importance", "tier", "status", "progress")


def _changes(event: Event) -> dict[str, Any]:
    """Return the columns an event sets on the row of its subject."""
    match event.body:
        case Revised() as body:
            changes = {
                name: value for name in _REVISABLE if (value := getattr(body, name)) is not None
            }
            if body.tags is not None:
                changes["tags"] = tuple(dict.fromkeys(body.tags))
            if body.metadata is not None:
                changes["metadata"] = msgspec.json.encode(body.metadata).decode()
            if body.ttl_s is not None:
                changes["expires_at"] = event.at + body.ttl_s * 1_000_000
            return changes
        case Superseded(by=by):
            return {"state": SUPERSEDED, "superseded_by": by}
        case Archived():
            return {"state": ARCHIVED}
        case Forgotten():
            return {"state": FORGOTTEN}
        case Restored():
            return {"state": ACTIVE, "superseded_by": None, "expires_at": None}
        case Pinned(pinned=pinned):
            return {"pinned": pinned}
        case _:
            return {}


def build(inputs: Inputs, previous: Previous | None) -> Tables:
    """Fold the log up to the watermark; from `previous` on where there is one."""
    if previous is None:
        fold, after = Fold(), 0
    else:
        fold, after = _unfolded(previous.tables), previous.watermark
    for event in inputs.read(after):
        fold.apply(event)
    rows = sorted(fold.rows.values(), key=lambda memory: memory.seq)
    return {"memories": _table(rows), "ids": _ids(rows), "edges": _edges(fold.edges)}


def _unfolded(tables: Tables) -> Fold:
    edges = (Edge(**row) for row in tables["edges"].to_pylist())
    return Fold(memories(tables["memories"]), edges)


def _table(rows: list[Memory]) -> pa.Table:
    columns = {
        field.name: pa.array([getattr(row, field.name) for row in rows], field.type)
        for field in MEMORIES
    }
    return pa.table(columns, schema=MEMORIES)


def _ids(rows: list[Memory]) -> pa.Table:
    hashes = np.fromiter((id_hash(memory.id) for memory in rows), np.uint64, len(rows))
    order = np.argsort(hashes, kind="stable").astype(np.int32)
    return pa.table([pa.array(hashes[order]), pa.array(order)], schema=IDS)


def id_hash(id_: str) -> int:
    """Return the 64 bits an id is filed under; two ids may share them."""
    return int.from_bytes(blake2b(id_.encode(), digest_size=8).digest(), "little")


def _edges(edges: list[Edge]) -> pa.Table:
    rows = [{name: getattr(edge, name) for name in EDGES.names} for edge in edges]
    return pa.Table.from_pylist(rows, schema=EDGES)


def memories(table: pa.Table) -> Iterator[Memory]:
    """Yield the rows of a memories table, or of a slice of it, in order."""
    names = [field.name for field in fields(Memory)]
    lists = {"tags", "source_ids"}
    for batch in table.select(names).to_batches(max_chunksize=10_000):
        columns = [
            [tuple(value) for value in column.to_pylist()] if name in lists else column.to_pylist()
            for name, column in zip(names, batch.columns, strict=True)
        ]
        yield from map(Memory, *columns)


def texts(table: pa.Table) -> Iterator[str]:
    """Yield the text under which each row is indexed, in order."""
    names = ("content", "context", "action", "result", "tags")
    for batch in table.select(names).to_batches(max_chunksize=10_000):
        for values in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            yield indexed_text(*values)


def searched_texts(table: pa.Table) -> Iterator[str]:
    """Yield the text under whose words each row is indexed, in order."""
    speakers = table.column("created_by").to_pylist()
    days = table.column("created_at").to_pylist()
    for text, speaker, at in zip(texts(table), speakers, days, strict=True):
        yield searched_text(text, speaker, at)


def states(table: pa.Table) -> list[str]:
    """Return the state of each row, in order."""
    column = table.column("state").combine_chunks()
    array = column.chunk(0) if isinstance(column, pa.ChunkedArray) else column
    values = np.asarray(array.dictionary.to_pylist(), object)
    found: list[str] = values[array.indices.to_numpy()].tolist()
    return found


MEMORIES_PROJECTION = Projection(
    name="memories",
    version="1",
    inputs=("log",),
    schemas={"memories": MEMORIES, "ids": IDS, "edges": EDGES},
    build=build,
)
