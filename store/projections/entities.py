"""
entities: what the memories name, where, and what is named together.

An entity is a (kind, name) of `store.mentions`; its number is its row. Edges join entities of one
memory: a memory that names m entities adds 1 / (m - 1) to each of its pairs, so that to each entity
it gives a weight of one in all, however long a list it is. A short alias (a file's basename or its
last folders, a symbol's last part) is kept while it stands for few entities.

Aliases are sorted text, not hashes: a lookup is some 17 comparisons in a mapped file, opening
builds nothing, and hashes would only add a column and collisions.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from store.mentions import Mention, mentions
from store.projection import Inputs, Previous, Projection, Tables
from store.projections.memories import FORGOTTEN, indexed_text

if TYPE_CHECKING:
    import polars as pl

MAX_SHARED_ALIAS = 8  # entities; a short alias of more says nothing
MAX_SUFFIX_PARTS = 3
PAIRS_AT_ONCE = 4_000_000  # bounds the memory of a build
UNIT = 1 << 32  # edge weights are summed in whole 2^-32ths: exact, so the order cannot matter

SCHEMAS = {
    "entities": pa.schema(
        [
            ("entity", pa.int32()),
            ("kind", pa.string()),
            ("name", pa.string()),
            ("aliases", pa.list_(pa.string())),
            ("documents", pa.int32()),
            ("offset", pa.int64()),
        ]
    ),
    "mentions": pa.schema([("entity", pa.int32()), ("document", pa.int32())]),
    "edges": pa.schema([("source", pa.int32()), ("target", pa.int32()), ("weight", pa.float32())]),
    "aliases": pa.schema([("alias", pa.string()), ("entity", pa.int32())]),
}


def build(inputs: Inputs, previous: Previous | None) -> Tables:
    """Return the tables for the memories that are not forgotten; `previous` is not needed."""
    found = _found(inputs.tables["memories"]["memories"])
    entities = _entities(found)
    where = _where(found, entities)
    frames = {
        "entities": entities,
        "mentions": where,
        "edges": _edges(where),
        "aliases": _aliases(entities),
    }
    return {
        name: frame.select(SCHEMAS[name].names).to_arrow().cast(SCHEMAS[name])
        for name, frame in frames.items()
    }


def _found(memories: pa.Table) -> "pl.DataFrame":
    """Return every mention: document, kind, name, alias."""
    import polars as pl  # jobs only

    documents: list[int] = []
    kinds: list[str] = []
    names: list[str] = []
    aliases: list[str] = []
    for document, text, speaker in _texts(memories):
        for mention in mentions(text, speaker=speaker):
            documents.append(document)
            kinds.append(mention.kind)
            names.append(mention.name)
            aliases.append(mention.alias)
    return pl.DataFrame(
        {
            "document": pl.Series(documents, dtype=pl.Int32),
            "kind": pl.Series(kinds, dtype=pl.String),
            "name": pl.Series(names, dtype=pl.String),
            "alias": pl.Series(aliases, dtype=pl.String),
        }
    )


def _texts(memories: pa.Table) -> Iterator[tuple[int, str, str | None]]:
    columns = ["content", "context", "action", "result", "created_by", "state"]
    document = 0
    for batch in memories.select(columns).to_batches(max_chunksize=10_000):
        rows = zip(*(column.to_pylist() for column in batch.columns), strict=True)
        for content, context, action, result, created_by, state in rows:
            if state != FORGOTTEN:
                yield document, indexed_text(content, context, action, result, ()), created_by
            document += 1


def _entities(found: "pl.DataFrame") -> "pl.DataFrame":
    import polars as pl

    documents = pl.len().cast(pl.Int32)  # a memory has a mention once
    return (
        found.group_by("kind", "name")
        .agg(aliases=pl.col("alias").unique().sort(), documents=documents)
        .sort("kind", "name")
        .with_columns(
            entity=pl.int_range(pl.len(), dtype=pl.Int32),
            offset=pl.col("documents").cast(pl.Int64).cum_sum() - pl.col("documents"),
        )
    )


def _where(found: "pl.DataFrame", entities: "pl.DataFrame") -> "pl.DataFrame":
    numbers = entities.select("kind", "name", "entity")
    joined = found.join(numbers, on=["kind", "name"])
    return joined.select("entity", "document").sort("entity", "document")


def _edges(where: "pl.DataFrame") -> "pl.DataFrame":
    """Return the pairs of entities that share memories and their weights."""
    import polars as pl

    none = pl.DataFrame(schema={"pair": pl.Int64, "units": pl.Int64})
    sums = [
        pl.DataFrame({"pair": pairs}).group_by("pair").agg(units=pl.len().cast(pl.Int64) * units)
        for pairs, units in _pairs(where)
    ]
    return (
        pl.concat([none, *sums])
        .group_by("pair")
        .agg(pl.col("units").sum())
        .sort("pair")
        .select(
            source=(pl.col("pair") // (1 << 32)).cast(pl.Int32),
            target=(pl.col("pair") % (1 << 32)).cast(pl.Int32),
            weight=(pl.col("units") / UNIT).cast(pl.Float32),
        )
    )


def _pairs(where: "pl.DataFrame") -> Iterator[tuple[npt.NDArray[np.int64], int]]:
    """Yield source << 32 | target for memories of the same number of entities, and their units.

    Arrays rather than a join with itself: that makes every pair twice, and 3 times as slowly.
    """
    ordered = where.sort("document", "entity")
    entities = ordered["entity"].to_numpy().astype(np.int64)
    _, starts, sizes = np.unique(
        ordered["document"].to_numpy(), return_index=True, return_counts=True
    )
    for m in np.unique(sizes[sizes > 1]).tolist():
        first, second = np.triu_indices(m, 1)
        same = starts[sizes == m]
        step = max(1, PAIRS_AT_ONCE // len(first))
        for at in range(0, len(same), step):
            rows = entities[same[at : at + step, None] + np.arange(m)]
            yield (rows[:, first] << 32 | rows[:, second]).ravel(), UNIT // (m - 1)


def _aliases(entities: "pl.DataFrame") -> "pl.DataFrame":
    import polars as pl

    certain: set[tuple[str, int]] = set()
    short: set[tuple[str, int]] = set()
    columns = (entities[name].to_list() for name in ("entity", "kind", "name", "aliases"))
    for entity, kind, name, written in zip(*columns, strict=True):
        certain.update((alias.casefold(), entity) for alias in (name, *written))
        short.update((alias, entity) for alias in short_names(kind, name.casefold()))
    shared = Counter(alias for alias, _ in short)
    certain.update(pair for pair in short if shared[pair[0]] <= MAX_SHARED_ALIAS)
    rows = sorted(certain)
    return pl.DataFrame(
        {
            "alias": pl.Series([alias for alias, _ in rows], dtype=pl.String),
            "entity": pl.Series([entity for _, entity in rows], dtype=pl.Int32),
        }
    )


def short_names(kind: str, name: str) -> list[str]:
    """Return what else an entity may be called: a path's last parts, a symbol's last part."""
    if kind == "file":
        parts = name.split("/")
        return ["/".join(parts[-n:]) for n in range(1, min(MAX_SUFFIX_PARTS, len(parts)) + 1)]
    if kind == "symbol":
        return [name.replace("::", ".").rpartition(".")[2]]
    return []


ENTITIES_PROJECTION = Projection(
    name="entities",
    version="1",
    inputs=("memories",),
    schemas=SCHEMAS,
    build=build,
)


@dataclass(frozen=True)
class EntityIndex:
    """The tables as a reader holds them: all columns lie in the mapped files."""

    _kinds: pa.Array
    _names: pa.Array
    _written: pa.Array
    _counts: npt.NDArray[np.int32]
    _offsets: npt.NDArray[np.int64]
    _documents: npt.NDArray[np.int32]
    _aliases: pa.Array
    _alias_entities: npt.NDArray[np.int32]
    sources: npt.NDArray[np.int32]  # edges, sorted by source, then target; source < target
    targets: npt.NDArray[np.int32]
    weights: npt.NDArray[np.float32]

    @classmethod
    def open(cls, tables: Tables) -> "EntityIndex":
        """Return the index over the tables of ENTITIES_PROJECTION; nothing is copied."""
        entities, aliases, edges = tables["entities"], tables["aliases"], tables["edges"]
        return cls(
            _array(entities["kind"]),
            _array(entities["name"]),
            _array(entities["aliases"]),
            _array(entities["documents"]).to_numpy(),
            _array(entities["offset"]).to_numpy(),
            _array(tables["mentions"]["document"]).to_numpy(),
            _array(aliases["alias"]),
            _array(aliases["entity"]).to_numpy(),
            _array(edges["source"]).to_numpy(),
            _array(edges["target"]).to_numpy(),
            _array(edges["weight"]).to_numpy(),
        )

    def __len__(self) -> int:
        return len(self._counts)

    def kind(self, entity: int) -> str:
        return str(self._kinds[entity])

    def name(self, entity: int) -> str:
        return str(self._names[entity])

    def aliases(self, entity: int) -> list[str]:
        """Return how texts write the entity, sorted."""
        return [str(alias) for alias in self._written[entity]]

    def documents(self, entity: int) -> npt.NDArray[np.int32]:
        """Return the numbers of the memories that mention an entity, ascending."""
        start = self._offsets[entity]
        return self._documents[start : start + self._counts[entity]]

    @property
    def mentioned(
        self,
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """Return where each entity's documents begin, how many it has, and all documents' run."""
        return self._offsets, self._counts, self._documents

    def lookup(self, found: Sequence[Mention]) -> list[int]:
        """Return the entities that mentions stand for, in their order, each once.

        An entity is found by its name or an alias, whatever its kind; a path longer than any known
        one by the longest end of it, of two parts or more, that is known.
        """
        return list(dict.fromkeys(entity for mention in found for entity in self._meant(mention)))

    def scores(
        self,
        entities: Sequence[int],
        documents: int,
        *,
        out: npt.NDArray[np.float32] | None = None,
    ) -> npt.NDArray[np.float32]:
        """Return for each of `documents` the sum of its entities' log(1 + N / df), [documents].

        They are written into `out` where it is given.
        """
        total = np.empty(documents, np.float32) if out is None else out
        total.fill(0.0)
        for entity in dict.fromkeys(entities):
            total[self.documents(entity)] += np.log1p(documents / self._counts[entity])
        return total

    def neighbours(self, entity: int, limit: int = 10) -> list[tuple[int, float]]:
        """Return the entities most strongly mentioned with one, and the edges' weights.

        Strongest first; equal ones keep the smaller number first.
        """
        start, end = np.searchsorted(self.sources, [entity, entity + 1])
        before = np.flatnonzero(self.targets == entity)
        others = np.concatenate([self.sources[before], self.targets[start:end]])
        weights = np.concatenate([self.weights[before], self.weights[start:end]])
        best = np.argsort(-weights, kind="stable")[:limit]
        return [(int(others[row]), float(weights[row])) for row in best]

    def _meant(self, mention: Mention) -> list[int]:
        entities = self._called(mention.name) + self._called(mention.alias)
        parts = mention.name.split("/") if mention.kind == "file" and not entities else []
        for start in range(1, len(parts) - 1):
            if ending := self._called("/".join(parts[start:])):
                return ending
        return entities

    def _called(self, written: str) -> list[int]:
        alias, entities = written.casefold(), []
        row = bisect_left(self._aliases, alias, key=str)
        while row < len(self._aliases) and str(self._aliases[row]) == alias:
            entities.append(int(self._alias_entities[row]))
            row += 1
        return entities


def _array(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array; a snapshot's has one chunk and is not copied."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
