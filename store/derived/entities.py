"""
The projection `entities`: the names in the memories, their places, and their co-occurrences.

Mentions are found memory by memory and merged (`entity_graph`). Aliases are sorted text, not
hashes: a lookup is some 17 comparisons in a mapped file, opening builds nothing, and hashes would
only add a column and collisions.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from store.derived import entity_graph
from store.derived.changed_texts import read_changed_texts
from store.memories.memory import UNSEEN, indexed_text
from store.memories.table import insight_mask, text_fingerprints
from store.snapshots.parallel import pack_table, unpack_table
from store.snapshots.projection import (
    Inputs,
    Made,
    Part,
    Previous,
    Projection,
    Tables,
    column_array,
    column_view,
)
from store.text.mentions import Mention, guesses, mentions

# The mentions in the memories, one row each, in parts by document.
#
# Reading a text for its mentions costs some 40 us, so only changed texts are read again, and many
# of them on all processors.

FOUND = pa.schema(
    [
        ("document", pa.int32()),
        ("kind", pa.string()),
        ("name", pa.string()),
        ("alias", pa.string()),
    ]
)
READ = pa.schema([("mark", pa.uint64())])  # by document: the mark of the text that was read

# Names and guesses at names are settled over all memories.
#
# A guess is a name if more than a few of its places are sure ones; a name that is a person's
# elsewhere, as the author of a memory or of a quoted statement, is that person.

GUESS = "guess"
GUESSES_EACH = 4  # for one sure place: a word that mostly begins sentences is no name

_TEXT = ["content", "context", "action", "result", "created_by", "state"]
_OF_WHOM = ["kind", "job"]


class Found(msgspec.Struct, frozen=True):
    """All mentions, in the parts of the memories, and the new ones.

    `read` are the documents' marks. `is_more`: no mention of an earlier build was removed.
    """

    read: pa.Table
    parts: list[Part]
    new: pa.Table
    is_more: bool


def find_mentions(inputs: Inputs, previous: Previous | None) -> Found:
    """Return the mentions of all memories; of unchanged texts those that `previous` found."""
    memories = inputs.tables["memories"]
    marks = text_fingerprints(memories["columns"])
    marks_before = np.empty(0, np.uint64)
    parts: list[Part] = []
    if previous is not None:
        parts += previous.tables.parts["found"]
        marks_before = previous.tables["read"].column("mark").to_numpy()
    differs = np.ones(len(marks), np.bool_)
    differs[: len(marks_before)] = marks[: len(marks_before)] != marks_before
    news, is_more = [FOUND.empty_table()], previous is not None
    changed = read_changed_texts(inputs, differs, [*_TEXT, *_OF_WHOM], _read)
    for number, documents, new in changed:
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
        merged = pa.concat_tables([old.filter(pa.array(stays)), new])
        order = np.argsort(merged.column("document").to_numpy(), kind="stable")
        parts[number] = inputs.keep("found", merged.take(pa.array(order)))
    table = pa.table([pa.array(marks)], schema=READ)
    return Found(table, parts, pa.concat_tables(news), is_more)


def _read(data: pa.Buffer) -> pa.Buffer:
    """Return the mentions of packed texts, by their row.

    A hidden memory has none, nor has a job's insight: it repeats its sources' names.
    """
    rows: list[int] = []
    named: list[tuple[str, str, str]] = []
    table = unpack_table(data)
    texts = zip(*(table.column(name).to_pylist() for name in _TEXT), strict=True)
    left_out = insight_mask(table)
    for row, (content, context, action, result, speaker, state) in enumerate(texts):
        if state in UNSEEN or left_out[row]:
            continue
        text = indexed_text(content, context, action, result, ())
        for mention in mentions(text, speaker=speaker):
            rows.append(row)
            named.append((mention.kind, mention.name, mention.alias))
        for guess in guesses(text):
            rows.append(row)
            named.append((GUESS, guess.name, guess.alias))
    columns = zip(*named, strict=True) if named else ((), (), ())
    arrays = [pa.array(rows, pa.int32()), *(pa.array(column, pa.string()) for column in columns)]
    return pack_table(pa.table(arrays, schema=FOUND))


def settle_names(found: pa.Table) -> pa.Table:
    """Return mentions in their order without guesses: those that are names become mentions."""
    kinds = found.column("kind").to_pylist()
    unsettled = [row for row, kind in enumerate(kinds) if kind in (GUESS, "name")]
    if not unsettled:
        return found
    of = found.column("name").to_pylist()
    people = {name for kind, name in zip(kinds, of, strict=True) if kind == "person"}
    counts = Counter((kinds[row], of[row]) for row in unsettled)
    for row in unsettled:
        sure, guessed = counts["name", of[row]], counts[GUESS, of[row]]
        if of[row] in people:
            kinds[row] = "person"
        elif sure * GUESSES_EACH >= guessed:
            kinds[row] = "name"
        else:
            kinds[row] = GUESS
    documents = found.column("document").to_pylist()
    earlier: set[tuple[int, str, str]] = set()
    stays = np.zeros(len(kinds), np.bool_)
    for row, mention in enumerate(zip(documents, kinds, of, strict=True)):
        stays[row] = mention[1] != GUESS and mention not in earlier
        earlier.add(mention)
    settled = found.set_column(1, FOUND.field(1), pa.array(kinds, pa.string()))
    return settled.filter(pa.array(stays))


SCHEMAS = {"found": FOUND, "read": READ, **entity_graph.SCHEMAS}


MOST_LOOKED_AT = 2_000  # aliases that begin alike


def build(inputs: Inputs, previous: Previous | None) -> Made:
    """Return the tables for the memories that are not forgotten."""
    all_mentions = find_mentions(inputs, previous)
    graph: Made
    new = settled_addition(all_mentions) if previous is not None and all_mentions.is_more else None
    if previous is not None and new is not None:
        names = entity_graph.SCHEMAS
        graph = {name: previous.tables.parts[name] for name in names}
        if new.num_rows:
            graph = entity_graph.add_mentions(previous.tables, new)
    else:
        graph = entity_graph.entity_tables(settle_names(_all(all_mentions)))
    return {"found": all_mentions.parts, "read": all_mentions.read, **graph}


def _all(found: Found) -> pa.Table:
    return pa.concat_tables([FOUND.empty_table(), *(part.table for part in found.parts)])


def settled_addition(found: Found) -> pa.Table | None:
    """Return the new mentions, settled; None if they are many or change older ones."""
    import pyarrow.compute as pc  # jobs only

    if found.new.num_rows > entity_graph.MOST_ADDED:
        return None
    new = found.new
    unsettled = pc.is_in(new.column("kind"), pa.array([GUESS, "name", "person"]))
    if not (touched := new.column("name").filter(unsettled)):
        return new
    every = _all(found)
    related = every.filter(
        pc.and_(
            pc.is_in(every.column("name"), touched.combine_chunks().unique()),
            pc.is_in(every.column("kind"), pa.array([GUESS, "name", "person"])),
        )
    )
    is_new = pc.is_in(related.column("document"), new.column("document").combine_chunks())
    before, after = settle_names(related.filter(pc.invert(is_new))), settle_names(related)
    is_new = pc.is_in(after.column("document"), new.column("document").combine_chunks())
    if not after.filter(pc.invert(is_new)).equals(before):
        return None
    settled = pa.concat_tables([new.filter(pc.invert(unsettled)), after.filter(is_new)])
    return settled.sort_by("document")


ENTITIES_PROJECTION = Projection(
    name="entities",
    version="4",
    inputs=("memories",),
    schemas=SCHEMAS,
    build=build,
    for_builds=frozenset({"found", "read", "shared"}),
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
            column_array(entities, "kind"),
            column_array(entities, "name"),
            column_array(entities, "aliases"),
            column_view(entities, "documents"),
            column_view(entities, "offset"),
            column_view(tables["mentions"], "document"),
            column_array(aliases, "alias"),
            column_view(aliases, "entity"),
            column_view(edges, "source"),
            column_view(edges, "target"),
            column_view(edges, "weight"),
        )

    def __len__(self) -> int:
        return len(self._counts)

    def kind(self, entity: int) -> str:
        return str(self._kinds[entity])

    def name(self, entity: int) -> str:
        return str(self._names[entity])

    def is_of(self, kinds: Sequence[str]) -> npt.NDArray[np.bool_]:
        """Return a mask of the entities that are of some kinds, [n]."""
        mask = np.zeros(len(self), np.bool_)
        for kind in kinds:  # each a run: entities are sorted by kind, then name
            start = bisect_left(range(len(self)), kind, key=self.kind)
            mask[start : bisect_right(range(len(self)), kind, key=self.kind)] = True
        return mask

    def aliases(self, entity: int) -> list[str]:
        """Return the aliases by which texts name the entity, sorted."""
        return [str(alias) for alias in self._written[entity]]

    def documents(self, entity: int) -> npt.NDArray[np.int32]:
        """Return the numbers of the memories that mention an entity, ascending."""
        start = self._offsets[entity]
        return self._documents[start : start + self._counts[entity]]

    @property
    def mention_runs(
        self,
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """The start and number of each entity's documents, and all documents in a run."""
        return self._offsets, self._counts, self._documents

    def lookup(self, mentions: Sequence[Mention]) -> list[int]:
        """Return the entities of some mentions, in their order, each once.

        An entity is found by its name or an alias, of any kind; a path longer than any known one by
        its longest known end of two parts or more.
        """
        return list(
            dict.fromkeys(entity for mention in mentions for entity in self._resolve(mention))
        )

    def scores(
        self,
        entities: Sequence[int],
        documents: int,
        *,
        out: npt.NDArray[np.float32] | None = None,
    ) -> npt.NDArray[np.float32]:
        """Return for each of `documents` the sum of its entities' log(1 + N / df), [documents].

        They are written into `out` if given.
        """
        total = np.empty(documents, np.float32) if out is None else out
        total.fill(0.0)
        for entity in dict.fromkeys(entities):
            total[self.documents(entity)] += np.log1p(documents / self._counts[entity])
        return total

    def find(self, kind: str, name: str) -> int | None:
        """Return the entity of a kind and a name, None if no memory names it."""
        row = bisect_left(range(len(self)), (kind, name), key=self._key)
        return row if row < len(self) and self._key(row) == (kind, name) else None

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

    def with_prefix(self, prefix: str, limit: int = 10) -> list[int]:
        """Return the entities with a name or an alias of this prefix, the most mentioned first.

        Of more than MOST_LOOKED_AT matching aliases only the first are read; an empty prefix
        matches all.
        """
        if not prefix:
            return [int(entity) for entity in np.argsort(-self._counts, kind="stable")[:limit]]
        alias = prefix.casefold()
        row = bisect_left(self._aliases, alias, key=str)
        entities: dict[int, None] = {}
        for at in range(row, min(row + MOST_LOOKED_AT, len(self._aliases))):
            if not str(self._aliases[at]).startswith(alias):
                break
            entities[int(self._alias_entities[at])] = None
        return sorted(entities, key=lambda entity: (-int(self._counts[entity]), entity))[:limit]

    def between(self, entities: Sequence[int]) -> list[tuple[int, int, float]]:
        """Return the edges between some entities and their weights, by source, then target."""
        if not len(self.sources):
            return []
        chosen = np.zeros(len(self), np.bool_)
        chosen[list(entities)] = True
        rows = np.flatnonzero(chosen[self.sources] & chosen[self.targets])
        return [
            (int(self.sources[row]), int(self.targets[row]), float(self.weights[row]))
            for row in rows
        ]

    def _key(self, entity: int) -> tuple[str, str]:
        return self.kind(entity), self.name(entity)

    def _resolve(self, mention: Mention) -> list[int]:
        entities = self._by_name(mention.name) + self._by_name(mention.alias)
        parts = mention.name.split("/") if mention.kind == "file" and not entities else []
        for start in range(1, len(parts) - 1):
            if ending := self._by_name("/".join(parts[start:])):
                return ending
        return entities

    def _by_name(self, written: str) -> list[int]:
        alias, entities = written.casefold(), []
        row = bisect_left(self._aliases, alias, key=str)
        while row < len(self._aliases) and str(self._aliases[row]) == alias:
            entities.append(int(self._alias_entities[row]))
            row += 1
        return entities
