"""
The neighbourhood of an entity: what is mentioned with it, how strongly, and in which memories.

Read from the graph of the last build; of what was written since only the memories that mention the
entity itself are added.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from serve.reader.memory_json import short_json
from serve.reader.view import View
from store.derived.entities import EntityIndex
from store.home.errors import NotFound
from store.memories.memory import ACTIVE, Memory
from store.text.mentions import Mention

MEMORIES = 20  # that mention the entity, the newest
_LOOKED_AT = 200  # of those, in any state


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """`centre` are the entities meant: a name may stand for several. `entities` have
    them first, then the strongest; `mentioned` counts the memories of the centre.
    """

    centre: tuple[int, ...]
    entities: tuple[int, ...]
    edges: tuple[tuple[int, int, float], ...]
    memories: tuple[Memory, ...]
    mentioned: int


def neighbourhood(view: View, name: str, hops: int, limit: int) -> Neighbourhood:
    """Return up to `limit` entities within some hops of those that a name or alias stands for.

    Each hop takes the strongest edges of the entities found before it. Raise NotFound.
    """
    index = view.snapshots.entities
    mention = Mention("file", name, name)  # of a path the longest end that is known
    centre = _meant(index, mention)[:limit] if index is not None else []
    if index is None or not centre:
        raise NotFound(f"no entity {name!r}: `GET /v1/entities?prefix=` lists those of a build")
    entities = _within(index, centre, hops, limit)
    documents = np.unique(np.concatenate([index.documents(one) for one in centre]))
    return Neighbourhood(
        tuple(centre),
        tuple(entities),
        tuple(index.between(entities)),
        tuple(_memories(view, documents.tolist(), mention)),
        len(documents),
    )


def beginning(view: View, prefix: str, limit: int) -> list[dict[str, Any]]:
    """Return the entities whose name or alias begins so, the most mentioned first."""
    index = view.snapshots.entities
    if index is None:
        return []
    return [node(index, one) for one in index.with_prefix(prefix, limit)]


def node(index: EntityIndex, entity: int) -> dict[str, Any]:
    """Return an entity as it is sent. Its id stays the same from build to build."""
    kind, name = index.kind(entity), index.name(entity)
    return {
        "id": f"{kind}:{name}",
        "kind": kind,
        "name": name,
        "aliases": index.aliases(entity),
        "memories": len(index.documents(entity)),
    }


def shown(view: View, found: Neighbourhood) -> dict[str, Any]:
    """Return a neighbourhood as it is sent."""
    index = view.snapshots.entities
    assert index is not None  # it was found in one
    nodes = {one: node(index, one) for one in found.entities}
    return {
        "centre": [nodes[one]["id"] for one in found.centre],
        "nodes": list(nodes.values()),
        "edges": [
            {"source": nodes[source]["id"], "target": nodes[target]["id"], "weight": weight}
            for source, target, weight in found.edges
        ],
        "memories": [short_json(one) for one in found.memories],
        "mentioned": found.mentioned,
    }


def _meant(index: EntityIndex, mention: Mention) -> list[int]:
    """Return the entities of a name: the one that is called just so, then the most mentioned."""
    found = index.lookup([mention])
    return sorted(
        found, key=lambda one: (index.name(one) != mention.name, -len(index.documents(one)), one)
    )


def _within(index: EntityIndex, centre: Sequence[int], hops: int, limit: int) -> list[int]:
    """Return the centre and what is joined to it, nearer ones first, then the stronger."""
    found, edge = list(centre), list(centre)
    for _ in range(hops):
        weights: dict[int, float] = {}
        for one in edge:
            for other, weight in index.neighbours(one, limit):
                if other not in found:
                    weights[other] = max(weight, weights.get(other, 0.0))
        edge = sorted(weights, key=lambda one: (-weights[one], one))[: limit - len(found)]
        found += edge
    return found


def _memories(view: View, documents: Sequence[int], mention: Mention) -> list[Memory]:
    """Return the newest active memories that mention an entity, those of the tail too."""
    last = np.setdiff1d(documents[-_LOOKED_AT:], view.tail.hidden_rows)
    slots = np.flatnonzero((view.tail.entity_scores([mention]) > 0) & view.tail.live)
    found = [*view.snapshots.rows.take(last.tolist()), *view.tail.take(slots.tolist())]
    active = [one for one in found if one.state == ACTIVE]
    return sorted(active, key=lambda one: (-one.created_at, -one.seq))[:MEMORIES]
