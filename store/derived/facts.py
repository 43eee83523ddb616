"""
facts: the memories' statements about entities, and the period in which each value was valid.

A keyed memory is one: `deploy.region` gives the region of deploy. So is a memory with a fact in its
metadata, `{"fact": {"entity": ..., "relation": ..., "value": ..., "singleton": ...}}`, as written
by the job that reads facts out of turns. A fact is valid while its memory is (`Memory.held`). In a
relation with one value at a time a newer value closes the older: `valid_to` of the older is
`valid_from` of the newer. A keyed relation is always of this kind, and its memories replace each
other by themselves. A tool's or the web's value closes no value of a user or an agent.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec.structs import replace

from store.memories.memory import FORGOTTEN, Memory
from store.memories.parts import MemoryParts, fields_of, parts_of
from store.memories.table import NEVER
from store.snapshots.projection import Inputs, Made, Previous, Projection, Tables
from store.text.text_features import MAY_RULE

FACTS = pa.schema(
    [
        ("document", pa.int32()),
        ("project", pa.string()),
        ("entity", pa.string()),
        ("relation", pa.string()),
        ("value", pa.string()),
        ("valid_from", pa.int64()),
        ("valid_to", pa.int64()),  # NEVER while it is valid; `valid_from` if it never was
        ("is_singleton", pa.bool_()),
    ]
)
_FIELDS = (
    "seq trust state content project key value created_at expires_at ended_at metadata".split()
)
_MARK = '"fact":{'  # in the metadata of a memory with a fact


class Told(msgspec.Struct, frozen=True):
    """A fact in a memory's metadata."""

    entity: str
    relation: str
    value: str
    singleton: bool = False


class _Bearing(msgspec.Struct, frozen=True):
    fact: Told


class Fact(msgspec.Struct, frozen=True):
    """One fact of a memory; `document` is its row, or its place among those given.

    `valid_to` is NEVER while it is valid, and `valid_from` if it never was. Microseconds UTC.
    """

    document: int
    seq: int
    project: str | None
    entity: str
    relation: str
    value: str
    valid_from: int
    valid_to: int
    is_singleton: bool
    trust: str

    def holds_at(self, at: int) -> bool:
        return self.valid_from <= at < self.valid_to

    @property
    def key(self) -> str:
        """The key for recording it by hand."""
        return f"{self.entity}.{self.relation}"


def entity_name(written: str) -> str:
    """Return the normalized name of an entity or a relation: "api-server"."""
    return "-".join(written.casefold().split())


def facts_of(memories: Sequence[Memory]) -> list[Fact]:
    """Return the facts of memories; each one's `document` is its place among them."""
    rows = ({name: getattr(memory, name) for name in _FIELDS} for memory in memories)
    return close_intervals(_bear(enumerate(rows)))


def may_bear(memory: Memory) -> bool:
    """Return True if a memory may have a fact: the build's test before reading any."""
    return memory.key is not None or _MARK in memory.metadata


def close_intervals(facts: Iterable[Fact]) -> list[Fact]:
    """Return facts with the older values of each singleton relation closed, in order of entity,
    relation, start and recording.
    """
    ordered = sorted(facts, key=attrgetter("entity", "relation", "valid_from", "seq"))
    newer: dict[tuple[str | None, str, str, bool], int] = {}  # by whether a tool's are closed too
    for place in reversed(range(len(ordered))):
        fact = ordered[place]
        if not fact.is_singleton:
            continue
        is_tools = fact.trust not in MAY_RULE
        about = fact.project, fact.entity, fact.relation
        ends = min(fact.valid_to, max(fact.valid_from, newer.get((*about, is_tools), NEVER)))
        ordered[place] = replace(fact, valid_to=ends)
        if fact.valid_from < fact.valid_to:  # a never valid fact closes nothing
            for is_closed in (True,) if is_tools else (True, False):
                newer[*about, is_closed] = fact.valid_from
    return ordered


def build(inputs: Inputs, previous: Previous | None) -> Made:
    """Gather the facts of the memories; few enough that `previous` would save nothing."""
    memories = inputs.tables["memories"]
    documents = _documents(memories)
    rows = fields_of(memories, documents, _FIELDS).to_pylist() if len(documents) else []
    facts = close_intervals(_bear(zip(documents.tolist(), rows, strict=True)))
    columns: dict[str, list[Any]] = defaultdict(list)
    for fact in facts:
        for name in FACTS.names:
            columns[name].append(getattr(fact, name))
    return {"facts": pa.table({name: columns[name] for name in FACTS.names}, schema=FACTS)}


def _documents(memories: Tables) -> npt.NDArray[np.int64]:
    """Return the rows of the memories that may have a fact, ascending."""
    import pyarrow.compute as pc

    marked, start = [MemoryParts.open(memories).keys.documents.astype(np.int64)], 0
    for part in parts_of(memories, "memories"):
        has = pc.match_substring(part.table.column("metadata"), _MARK).to_numpy()
        marked.append(start + np.flatnonzero(has))
        start += part.rows
    return np.unique(np.concatenate(marked))


def _bear(rows: Iterable[tuple[int, dict[str, Any]]]) -> Iterator[Fact]:
    """Yield the facts of memories, given by number and fields; forgotten ones have none."""
    for document, row in rows:
        fact = None if row["state"] == FORGOTTEN else _parse_fact(row)
        if fact is None:
            continue
        begins = row["created_at"]
        ends = (end for end in (row["ended_at"], row["expires_at"]) if end is not None)
        yield Fact(
            document,
            row["seq"],
            row["project"],
            entity_name(fact.entity),
            entity_name(fact.relation),
            fact.value,
            begins,
            max(begins, min(ends, default=NEVER)),
            fact.singleton,
            row["trust"],
        )


def _parse_fact(row: dict[str, Any]) -> Told | None:
    if row["key"] is not None:
        entity, _, relation = row["key"].rpartition(".")
        value = row["content"] if row["value"] is None else row["value"]
        return Told(entity, relation, value, singleton=True)
    if _MARK not in row["metadata"]:
        return None
    try:
        fact = msgspec.json.decode(row["metadata"], type=_Bearing).fact
    except msgspec.MsgspecError:
        return None  # a caller's own metadata, of another shape
    return fact if fact.entity.strip() and fact.relation.strip() else None


@dataclass(frozen=True)
class Facts:
    """The table as a reader holds it."""

    table: pa.Table

    @classmethod
    def open(cls, tables: Tables) -> "Facts":
        return cls(tables["facts"])

    @property
    def documents(self) -> npt.NDArray[np.int64]:
        """The rows of the memories with facts, ascending, each once."""
        return np.unique(self.table.column("document").to_numpy()).astype(np.int64)


FACTS_PROJECTION = Projection(
    name="facts",
    version="2",
    inputs=("memories",),
    schemas={"facts": FACTS},
    build=build,
)
