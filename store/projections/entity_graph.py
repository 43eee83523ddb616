"""
Entities out of mentions: numbered, counted, called by their aliases, and joined by edges.

An entity is a (kind, name) of `store.mentions`; its number is its row. Edges join entities of one
memory: a memory that names m entities adds 1 / (m - 1) to each of its pairs, so that to each entity
it gives a weight of one in all, however long a list it is. A short alias (a file's basename or its
last folders, a symbol's last part) is kept while it stands for few entities.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

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


def tables_of(found: pa.Table) -> dict[str, pa.Table]:
    """Return the tables of SCHEMAS for all mentions."""
    if not found.num_rows:
        return {name: schema.empty_table() for name, schema in SCHEMAS.items()}
    import polars as pl  # jobs only

    frame = pl.DataFrame(found)
    entities = _entities(frame)
    where = _where(frame, entities)
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
    """Return what each entity may be called, in lower case, by alias and then by entity."""
    import polars as pl

    columns = ["alias", "entity"]
    names = entities.select("kind", "entity", alias=_casefold(entities["name"]))
    written = entities.select("entity", alias="aliases").explode("alias")
    written = written.with_columns(alias=_casefold(written["alias"]))
    short = _short_names(names).unique()
    shared = short.group_by("alias").agg(entities=pl.len())
    few = short.join(shared.filter(pl.col("entities") <= MAX_SHARED_ALIAS), on="alias")
    every = pl.concat([one.select(columns) for one in (names, written, few)])
    return every.unique().sort(columns)


def _casefold(texts: "pl.Series") -> "pl.Series":
    """Return `str.casefold` of texts, which of ASCII is the lower case."""
    folded = texts.str.to_lowercase()
    others = (texts.str.len_bytes() != texts.str.len_chars()).arg_true()
    return folded.scatter(others, [text.casefold() for text in texts.gather(others)])


def _short_names(names: "pl.DataFrame") -> "pl.DataFrame":
    """Return `short_names` of entities, for all of them at once."""
    import polars as pl

    alias, columns = pl.col("alias"), ["alias", "entity"]
    parts = names.filter(kind="file").with_columns(parts=alias.str.split("/"))
    files = [
        parts.filter(pl.col("parts").list.len() >= count).with_columns(
            alias=pl.col("parts").list.tail(count).list.join("/")
        )
        for count in range(1, MAX_SUFFIX_PARTS + 1)
    ]
    symbol = alias.str.replace_all("::", ".", literal=True).str.split(".").list.last()
    symbols = names.filter(kind="symbol").with_columns(alias=symbol)
    return pl.concat([one.select(columns) for one in (*files, symbols)])


def short_names(kind: str, name: str) -> list[str]:
    """Return what else an entity may be called: a path's last parts, a symbol's last part."""
    if kind == "file":
        parts = name.split("/")
        return ["/".join(parts[-n:]) for n in range(1, min(MAX_SUFFIX_PARTS, len(parts)) + 1)]
    if kind == "symbol":
        return [name.replace("::", ".").rpartition(".")[2]]
    return []
