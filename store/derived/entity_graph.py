"""
The entity graph: mentions numbered and counted as entities with aliases and edges, and kept up to
date.

An entity is a (kind, name) of `mentions`; its number is its row. Edges join entities of one memory:
a memory that names m entities adds 1 / (m - 1) to each of its pairs, so that each entity gets a
total weight of one from it, in a list of any length. A short alias (a file's basename or its last
folders, a symbol's last part) is kept while few entities share it.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from store.home.packages import is_installed
from store.snapshots.projection import Tables, column_array, column_view

if TYPE_CHECKING:
    import polars as pl


Numbers = npt.NDArray[np.int64]

MOST_ADDED = 20_000  # mentions; more are merged at once
MAX_SHARED_ALIAS = 8  # entities; a short alias of more is dropped
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


def entity_tables(found: pa.Table) -> dict[str, pa.Table]:
    """Return the tables of SCHEMAS for all mentions.

    Of many, polars makes the same tables in a quarter of the time; of few, importing it would take
    longer than the rest. An installation without it adds them one by one.
    """
    if found.num_rows > MOST_ADDED and is_installed("polars"):
        return merge_mentions(found)
    return add_mentions({name: schema.empty_table() for name, schema in SCHEMAS.items()}, found)


def merge_mentions(found: pa.Table) -> dict[str, pa.Table]:
    """Return the tables of SCHEMAS for all mentions; there is at least one."""
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
        "entities": count_from(entities.to_arrow()),
        "mentions": where.to_arrow().cast(SCHEMAS["mentions"]),
        "edges": _edges(where),
        "aliases": aliases.to_arrow().cast(SCHEMAS["aliases"]),
        "shared": shared.to_arrow().cast(SCHEMAS["shared"]),
    }


def count_from(entities: pa.Table) -> pa.Table:
    """Return entities in their order, numbered, and the start of each one's documents."""
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

    `entity` and `document` are the mentions. Arrays are used, as a self-join makes every pair twice
    and is 3 times slower.
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
    """Return each entity's aliases in lower case, by alias and then by entity.

    The second frame has the number of entities that share each short alias.
    """
    import polars as pl

    columns = ["alias", "entity"]
    names = entities.select("kind", "entity", alias=_casefold(entities["name"]))
    written = entities.select("entity", alias="aliases").explode("alias")
    written = written.with_columns(alias=_casefold(written["alias"]))
    short = _short_names(names).unique()
    shared = short.group_by("alias").agg(entities=pl.len())
    few = short.join(shared.filter(pl.col("entities") <= MAX_SHARED_ALIAS), on="alias")
    every = pl.concat([frame.select(columns) for frame in (names, written, few)])
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
    return pl.concat([frame.select(columns) for frame in (*files, symbols)])


def short_names(kind: str, name: str) -> list[str]:
    """Return an entity's short aliases: a path's last parts, a symbol's last part."""
    if kind == "file":
        parts = name.split("/")
        return ["/".join(parts[-n:]) for n in range(1, min(MAX_SUFFIX_PARTS, len(parts)) + 1)]
    if kind == "symbol":
        return [name.replace("::", ".").rpartition(".")[2]]
    return []


# The tables of entities with the mentions of more memories, at the cost of those alone.
#
# The result from the tables and the new mentions equals a build from all mentions to the last byte.
# Numbers move up where new entities sort between the old ones; all else stays.


@dataclass
class _Named:
    """An entity of the new mentions. `place` is its row among the old ones, or the next one's."""

    kind: str
    name: str
    place: int
    is_new: bool
    number: int = 0
    documents: list[int] = field(default_factory=list)
    written: set[str] = field(default_factory=set)  # by old and new mentions

    @property
    def certain(self) -> set[str]:
        """Its aliases but for short names."""
        return {written.casefold() for written in (self.name, *self.written)}


def add_mentions(before: Tables, found: pa.Table) -> dict[str, pa.Table]:
    """Return the tables of SCHEMAS with the mentions `found`, of memories that had none."""
    entities = before["entities"]
    named = _name_entities(entities, found)
    new = np.array([entity.place for entity in named if entity.is_new], np.int64)
    rows = np.arange(entities.num_rows)
    moved = rows + np.searchsorted(new, rows, side="right")
    ordinal = iter(range(len(new)))
    for entity in named:
        is_new, place = entity.is_new, entity.place
        entity.number = place + next(ordinal) if is_new else int(moved[place])
    mentions = [(entity.number, document) for entity in named for document in entity.documents]
    numbers, documents = np.array(mentions, np.int64).reshape(-1, 2).T
    aliases, shared = _more_aliases(before, named, moved)
    return {
        "entities": _entities(entities, named),
        "mentions": _mentions(before["mentions"], numbers, documents, moved),
        "edges": _more_edges(before["edges"], numbers, documents, moved),
        "aliases": aliases,
        "shared": shared,
    }


def _name_entities(entities: pa.Table, found: pa.Table) -> list[_Named]:
    """Return the entities that new mentions name, in order."""
    kinds, names = (column_array(entities, name) for name in ("kind", "name"))
    named: dict[tuple[str, str], _Named] = {}
    columns = (found.column(name).to_pylist() for name in ("document", "kind", "name", "alias"))
    for document, kind, name, alias in zip(*columns, strict=True):
        entity = named.get((kind, name))
        if entity is None:
            key = (kind, name)
            place = bisect_left(
                range(len(names)), key, key=lambda row: (kinds[row].as_py(), names[row].as_py())
            )
            is_new = place == len(names) or key != (kinds[place].as_py(), names[place].as_py())
            entity = named[key] = _Named(kind, name, place, is_new)
            if not is_new:
                entity.written.update(entities.column("aliases")[place].as_py())
        entity.documents.append(document)
        entity.written.add(alias)
    return [named[key] for key in sorted(named)]


def _entities(old: pa.Table, named: Sequence[_Named]) -> pa.Table:
    columns = ["kind", "name", "aliases", "documents"]
    counts = column_array(old, "documents")
    rows = {
        "kind": [entity.kind for entity in named],
        "name": [entity.name for entity in named],
        "aliases": [sorted(entity.written) for entity in named],
        "documents": [
            len(entity.documents) + (0 if entity.is_new else counts[entity.place].as_py())
            for entity in named
        ],
    }
    schema = pa.schema([SCHEMAS["entities"].field(name) for name in columns])
    table = pa.concat_tables([old.select(columns), pa.table(rows, schema=schema)])
    order = np.arange(old.num_rows)
    for number, entity in enumerate(named):
        if not entity.is_new:
            order[entity.place] = old.num_rows + number
    added = [number for number, entity in enumerate(named) if entity.is_new]
    places = [named[number].place for number in added]
    order = np.insert(order, places, old.num_rows + np.array(added, np.int64))
    return count_from(table.take(pa.array(order)))


def _mentions(old: pa.Table, entity: Numbers, document: Numbers, moved: Numbers) -> pa.Table:
    keys = moved[_numbers(old, "entity")] << 32 | _numbers(old, "document")
    new = np.sort(entity << 32 | document)
    keys = np.insert(keys, np.searchsorted(keys, new), new)
    columns = [pa.array(keys >> 32, pa.int32()), pa.array(keys & 0xFFFFFFFF, pa.int32())]
    return pa.table(columns, schema=SCHEMAS["mentions"])


def _more_edges(old: pa.Table, entity: Numbers, document: Numbers, moved: Numbers) -> pa.Table:
    keys = moved[_numbers(old, "source")] << 32 | moved[_numbers(old, "target")]
    units = _numbers(old, "units").copy()
    sums: Counter[int] = Counter()
    for keys_of_size, each in pairs(entity, document):
        distinct, counts = np.unique(keys_of_size, return_counts=True)
        for pair, count in zip(distinct.tolist(), counts.tolist(), strict=True):
            sums[pair] += count * each
    new = np.array(sorted(sums), np.int64)
    more = np.array([sums[pair] for pair in new.tolist()], np.int64)
    places = np.searchsorted(keys, new)
    is_old = np.zeros(len(new), np.bool_)
    inside = places < len(keys)
    is_old[inside] = keys[places[inside]] == new[inside]
    units[places[is_old]] += more[is_old]
    keys = np.insert(keys, places[~is_old], new[~is_old])
    return edge_table(keys, np.insert(units, places[~is_old], more[~is_old]))


def _more_aliases(
    before: Tables, named: Sequence[_Named], moved: Numbers
) -> tuple[pa.Table, pa.Table]:
    """Return the aliases, and the numbers of entities that share each short one."""
    short = [
        (alias, entity)
        for entity in named
        if entity.is_new
        for alias in dict.fromkeys(short_names(entity.kind, entity.name.casefold()))
    ]
    shared, counts = _count_alias_owners(before["shared"], Counter(alias for alias, _ in short))
    old = before["aliases"]
    texts, owners = column_array(old, "alias"), moved[_numbers(old, "entity")]
    wanted = {(alias, entity.number) for entity in named for alias in entity.certain}
    wanted |= {
        (alias, entity.number) for alias, entity in short if counts[alias][1] <= MAX_SHARED_ALIAS
    }
    certain = {entity.number: entity.certain for entity in named}
    dropped = [
        row
        for alias, (was, now) in counts.items()
        if was <= MAX_SHARED_ALIAS < now
        for row in _run(texts, alias)
        if alias not in _certain(certain, before["entities"], moved, int(owners[row]))
    ]
    rows: list[tuple[str, int]] = []
    places: list[int] = []
    for alias, number in sorted(wanted):
        run = _run(texts, alias)
        place = run.start + int(np.searchsorted(owners[run.start : run.stop], number))
        if place == run.stop or owners[place] != number:
            rows.append((alias, number))
            places.append(place)
    new = {"alias": [alias for alias, _ in rows], "entity": [number for _, number in rows]}
    stays = pa.table([texts, pa.array(owners, pa.int32())], schema=SCHEMAS["aliases"])
    order = np.insert(np.arange(len(owners)), places, len(owners) + np.arange(len(rows)))
    order = order[~np.isin(order, dropped)]
    table = pa.concat_tables([stays, pa.table(new, schema=SCHEMAS["aliases"])])
    return table.take(pa.array(order)), shared


def _certain(
    by_number: dict[int, set[str]], entities: pa.Table, moved: Numbers, number: int
) -> set[str]:
    """Return the aliases of an entity but for short names; old ones are looked up."""
    if number not in by_number:
        place = int(np.searchsorted(moved, number))
        (row,) = entities.select(["name", "aliases"]).slice(place, 1).to_pylist()
        by_number[number] = {alias.casefold() for alias in (row["name"], *row["aliases"])}
    return by_number[number]


def _count_alias_owners(
    old: pa.Table, more: Counter[str]
) -> tuple[pa.Table, dict[str, tuple[int, int]]]:
    """Return the numbers of entities that share each short alias, and those of `more` before and
    after.
    """
    texts, counts = column_array(old, "alias"), _numbers(old, "entities")
    changes: dict[str, tuple[int, int]] = {}
    added, places = [], []
    for alias in sorted(more):
        run = _run(texts, alias)
        was = int(counts[run.start]) if run else 0
        changes[alias] = was, was + more[alias]
        if run:
            counts[run.start] += more[alias]
        else:
            added.append(alias)
            places.append(run.start)
    new = np.array([more[alias] for alias in added], np.int64)
    order = np.insert(np.arange(len(counts)), places, len(counts) + np.arange(len(added)))
    every = pa.concat_arrays([texts, pa.array(added, pa.string())]).take(pa.array(order))
    numbers = np.concatenate([counts, new])[order]
    return pa.table([every, pa.array(numbers, pa.int32())], schema=SCHEMAS["shared"]), changes


def _run(texts: pa.Array, alias: str) -> range:
    """Return the rows of an alias in sorted texts; an empty range at its place if missing."""
    start = end = bisect_left(texts, alias, key=str)
    while end < len(texts) and texts[end].as_py() == alias:
        end += 1
    return range(start, end)


def _numbers(table: pa.Table, name: str) -> Numbers:
    numbers: Numbers = column_view(table, name).astype(np.int64)
    return numbers
