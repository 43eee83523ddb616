"""
entities: what the memories name, where, and what is named together.

Mentions are found memory by memory (`entity_mentions`) and drawn together (`entity_graph`).
Aliases are sorted text, not hashes: a lookup is some 17 comparisons in a mapped file, opening
builds nothing, and hashes would only add a column and collisions.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from store.projections import entity_graph, entity_growth
from store.projections.entity_mentions import FOUND, READ, found_in
from store.snapshots.projection import (
    Inputs,
    Made,
    Previous,
    Projection,
    Tables,
    column_array,
    column_view,
)
from store.text.mentions import Mention

SCHEMAS = {"found": FOUND, "read": READ, **entity_graph.SCHEMAS}


MOST_LOOKED_AT = 2_000  # aliases that begin alike
MOST_ADDED = 20_000  # mentions; with more, all are drawn together again


def build(inputs: Inputs, previous: Previous | None) -> Made:
    """Return the tables for the memories that are not forgotten."""
    found = found_in(inputs, previous)
    made: Made
    if previous is not None and found.is_more and found.new.num_rows <= MOST_ADDED:
        names = entity_graph.SCHEMAS
        made = {name: previous.tables.parts[name] for name in names}
        if found.new.num_rows:
            made = entity_growth.grown(previous.tables, found.new)
    else:
        parts = [FOUND.empty_table(), *(part.table for part in found.parts)]
        made = entity_graph.tables_of(pa.concat_tables(parts))
    return {"found": found.parts, "read": found.read, **made}


ENTITIES_PROJECTION = Projection(
    name="entities",
    version="3",
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

    def find(self, kind: str, name: str) -> int | None:
        """Return the entity of a kind and a name, None where no memory names it."""
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

    def beginning(self, prefix: str, limit: int = 10) -> list[int]:
        """Return the entities of which a name or an alias begins so, the most mentioned first.

        Of a beginning that more than MOST_LOOKED_AT of them share, only the first are looked at; an
        empty one is that of all.
        """
        if not prefix:
            found = np.argsort(-self._counts, kind="stable")[:limit]
            return [int(one) for one in found]
        alias = prefix.casefold()
        row = bisect_left(self._aliases, alias, key=str)
        entities: dict[int, None] = {}
        for at in range(row, min(row + MOST_LOOKED_AT, len(self._aliases))):
            if not str(self._aliases[at]).startswith(alias):
                break
            entities[int(self._alias_entities[at])] = None
        return sorted(entities, key=lambda one: (-int(self._counts[one]), one))[:limit]

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
