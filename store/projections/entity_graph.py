"""
Entities out of mentions: numbered, counted, called by their aliases, and joined by edges.

An entity is a (kind, name) of `mentions`; its number is its row. Edges join entities of one
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

Numbers = npt.NDArray[np.int64]

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
    "edges": pa.schema(
        [
            ("source", pa.int32()),
            ("target", pa.int32()),
            ("weight", pa.float32()),
            ("units", pa.int64()),  # the weight, exactly
        ]
    ),
    "aliases": pa.schema([("alias", pa.string()), ("entity", pa.int32())]),
    "shared": pa.schema([("alias", pa.string()), ("entities", pa.int32())]),  # short aliases
}


def tables_of(found: pa.Table) -> dict[str, pa.Table]:
    """Return the tables of SCHEMAS for all mentions."""
    if not found.num_rows:
        return {name: schema.empty_table() for name, schema in SCHEMAS.items()}
    import polars as pl  # jobs only

    frame = pl.DataFrame(found)
    entities = (
        frame.group_by("kind", "name")
        .agg(
            aliases=pl.col("alias").unique().sort(),
            documents=pl.len().cast(pl.Int32),  # a memory has a mention once
        )
        .sort("kind", "name")
        .with_columns(entity=pl.int_range(pl.len(), dtype=pl.Int32))
    )
    numbers = entities.select("kind", "name", "entity")
    where = frame.join(numbers, on=["kind", "name"]).select("entity", "document")
    where = where.sort("entity", "document")
    aliases, shared = _aliases(entities)
    return {
        "entities": counted_from(entities.to_arrow()),
        "mentions": where.to_arrow().cast(SCHEMAS["mentions"]),
        "edges": _edges(where),
        "aliases": aliases.to_arrow().cast(SCHEMAS["aliases"]),
        "shared": shared.to_arrow().cast(SCHEMAS["shared"]),
    }


def counted_from(entities: pa.Table) -> pa.Table:
    """Return entities in their order, numbered, and where the documents of each begin."""
    counts = entities.column("documents").to_numpy()
    columns = {name: entities.column(name) for name in ("kind", "name", "aliases", "documents")}
    columns["entity"] = pa.array(np.arange(len(counts)), pa.int32())
    columns["offset"] = pa.array(np.cumsum(counts, dtype=np.int64) - counts, pa.int64())
    schema = SCHEMAS["entities"]
    return pa.table(columns).select(schema.names).cast(schema)


def edge_table(keys: Numbers, units: Numbers) -> pa.Table:
    """Return edges by source << 32 | target, ascending, and their units."""
    columns = [
        pa.array(keys >> 32, pa.int32()),
        pa.array(keys & 0xFFFFFFFF, pa.int32()),
        pa.array((units / UNIT).astype(np.float32)),
        pa.array(units, pa.int64()),
    ]
    return pa.table(columns, schema=SCHEMAS["edges"])


def _edges(where: "pl.DataFrame") -> pa.Table:
    """Return the pairs of entities that share memories and their weights."""
    import polars as pl

    none = pl.DataFrame(schema={"pair": pl.Int64, "units": pl.Int64})
    entity, document = (where[name].to_numpy().astype(np.int64) for name in where.columns)
    sums = [
        pl.DataFrame({"pair": some}).group_by("pair").agg(units=pl.len().cast(pl.Int64) * units)
        for some, units in pairs(entity, document)
    ]
    edges = pl.concat([none, *sums]).group_by("pair").agg(pl.col("units").sum()).sort("pair")
    return edge_table(edges["pair"].to_numpy(), edges["units"].to_numpy())


def pairs(entity: Numbers, document: Numbers) -> Iterator[tuple[Numbers, int]]:
    """Yield source << 32 | target for memories of the same number of entities, and their units.

    `entity` and `document` are the mentions. Arrays rather than a join with itself: that makes
    every pair twice, and 3 times as slowly.
    """
    order = np.lexsort((entity, document))
    entities = entity[order]
    _, starts, sizes = np.unique(document[order], return_index=True, return_counts=True)
    for m in np.unique(sizes[sizes > 1]).tolist():
        first, second = np.triu_indices(m, 1)
        same = starts[sizes == m]
        step = max(1, PAIRS_AT_ONCE // len(first))
        for at in range(0, len(same), step):
            rows = entities[same[at : at + step, None] + np.arange(m)]
            yield (rows[:, first] << 32 | rows[:, second]).ravel(), UNIT // (m - 1)


def _aliases(entities: "pl.DataFrame") -> tuple["pl.DataFrame", "pl.DataFrame"]:
    """Return what each entity may be called, in lower case, by alias and then by entity.

    The second frame is how many entities share each short alias.
    """
    import polars as pl

    columns = ["alias", "entity"]
    names = entities.select("kind", "entity", alias=_casefold(entities["name"]))
    written = entities.select("entity", alias="aliases").explode("alias")
    written = written.with_columns(alias=_casefold(written["alias"]))
    short = _short_names(names).unique()
    shared = short.group_by("alias").agg(entities=pl.len())
    few = short.join(shared.filter(pl.col("entities") <= MAX_SHARED_ALIAS), on="alias")
    every = pl.concat([one.select(columns) for one in (names, written, few)])
    return every.unique().sort(columns), shared.sort("alias")


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
