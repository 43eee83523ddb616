"""
Graph views: the neighbourhood of an entity, and the entity graph as it is drawn.

They are read from the graph of the last build; of later memories only those that mention an entity
itself are added.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from serve.formatting import sanitize
from serve.reader.filters import Filter
from serve.reader.memory_json import short_json
from serve.reader.view import View
from serve.reports.communities import Floats, Graph, Ints, largest_communities
from store.derived.entities import EntityIndex
from store.derived.entity_graph import UNIT, pairs, short_names
from store.home.errors import NotFound
from store.memories.memory import ACTIVE, Memory
from store.text.mentions import EntityKind, Mention

MOST_NEIGHBOURS = 20  # that mention the entity, the newest
_LOOKED_AT = 200  # of those, in any state


class Neighbourhood(msgspec.Struct, frozen=True):
    """The neighbourhood of a name: `centre` are its entities, which may be several.

    `entities` begins with them, then the strongest; `mentioned` is the number of their memories.
    """

    centre: tuple[int, ...]
    entities: tuple[int, ...]
    edges: tuple[tuple[int, int, float], ...]
    memories: tuple[Memory, ...]
    mentioned: int


def neighbourhood(view: View, name: str, hops: int, limit: int) -> Neighbourhood:
    """Return up to `limit` entities within some hops of those with a name or alias.

    Each hop takes the strongest edges of the entities found before it. Raise NotFound.
    """
    index = view.snapshots.entities
    mention = Mention("file", name, name)  # of a path the longest end that is known
    if index is None or not (matches := index.lookup([mention])):
        raise NotFound(f"no entity {name!r}: `GET /v1/entities?prefix=` lists those of a build")
    centre = sorted(
        matches,
        key=lambda entity: (index.name(entity) != name, -len(index.documents(entity)), entity),
    )[:limit]
    entities = _within(index, centre, hops, limit)
    documents = np.unique(np.concatenate([index.documents(entity) for entity in centre]))
    return Neighbourhood(
        tuple(centre),
        tuple(entities),
        tuple(index.between(entities)),
        tuple(_memories(view, documents.tolist(), mention)),
        len(documents),
    )


def entities_with_prefix(view: View, prefix: str, limit: int) -> list[dict[str, Any]]:
    """Return the entities with a name or alias that begins so, the most mentioned first."""
    index = view.snapshots.entities
    if index is None:
        return []
    return [node(index, entity) for entity in index.with_prefix(prefix, limit)]


def node(index: EntityIndex, entity: int) -> dict[str, Any]:
    """Return an entity as JSON. Its id stays the same from build to build."""
    kind, name = index.kind(entity), index.name(entity)
    return {
        "id": f"{kind}:{name}",
        "kind": kind,
        "name": name,
        "aliases": index.aliases(entity),
        "memories": len(index.documents(entity)),
    }


def neighbourhood_payload(view: View, around: Neighbourhood) -> dict[str, Any]:
    """Return a neighbourhood as JSON."""
    index = view.snapshots.entities
    assert index is not None  # the neighbourhood came from it
    nodes = {entity: node(index, entity) for entity in around.entities}
    return {
        "centre": [nodes[entity]["id"] for entity in around.centre],
        "nodes": list(nodes.values()),
        "edges": [
            {"source": nodes[source]["id"], "target": nodes[target]["id"], "weight": weight}
            for source, target, weight in around.edges
        ],
        "memories": [short_json(memory) for memory in around.memories],
        "mentioned": around.mentioned,
    }


def _within(index: EntityIndex, centre: Sequence[int], hops: int, limit: int) -> list[int]:
    """Return the centre and the entities joined to it, nearer ones first, then the stronger."""
    reached, rim = list(centre), list(centre)
    for _ in range(hops):
        weights: dict[int, float] = {}
        for entity in rim:
            for other, weight in index.neighbours(entity, limit):
                if other not in reached:
                    weights[other] = max(weight, weights.get(other, 0.0))
        nearest = sorted(weights, key=lambda entity: (-weights[entity], entity))
        rim = nearest[: limit - len(reached)]
        reached += rim
    return reached


def _memories(view: View, documents: Sequence[int], mention: Mention) -> list[Memory]:
    """Return the newest active memories that mention an entity, those of the tail too."""
    last = np.setdiff1d(documents[-_LOOKED_AT:], view.tail.hidden_rows)
    slots = np.flatnonzero((view.tail.entity_scores([mention]) > 0) & view.tail.live)
    memories = [*view.snapshots.rows.take(last.tolist()), *view.tail.take(slots.tolist())]
    active = [memory for memory in memories if memory.state == ACTIVE]
    return sorted(active, key=lambda memory: (-memory.created_at, -memory.seq))[:MOST_NEIGHBOURS]


# The entity graph for people: a picture of a part of it, its most mentioned entities, and
# one entity with its neighbours and the memories that name it.
#
# All of it is of the last build, without the memories that were forgotten since; later ones are not
# in it yet.

AUTHOR: EntityKind = "person"
NEIGHBOURS = 40
MOST_DRAWN = 50


class EntityName(msgspec.Struct, frozen=True):
    """An entity, and the number of memories that name it; `weight` of the edge to it, if any."""

    kind: str
    name: str
    mentions: int
    weight: float = 0.0


class Entity(msgspec.Struct, frozen=True):
    """One entity: its spellings, its strongest neighbours, the newest memories that name it.

    `hidden` counts the memories among its mentions that are no longer active.
    """

    named: EntityName
    aliases: tuple[str, ...]
    neighbours: tuple[EntityName, ...]
    memories: tuple[Memory, ...]
    active: int

    @property
    def hidden(self) -> int:
        return self.named.mentions - self.active


def describe_entity(index: EntityIndex, entity: int, weight: float = 0.0) -> EntityName:
    return EntityName(index.kind(entity), index.name(entity), len(index.documents(entity)), weight)


def most_mentioned(index: EntityIndex, kinds: Sequence[str], limit: int) -> list[EntityName]:
    """Return the most mentioned entities of some kinds."""
    counts = np.where(index.is_of(kinds), index.mention_runs[1], 0)
    order = np.argsort(-counts, kind="stable")[:limit]
    return [describe_entity(index, int(entity)) for entity in order if counts[entity]]


def entity_of(view: View, index: EntityIndex, entity: int, now: int) -> Entity:
    """Return an entity with its neighbours. Authors are neighbours only of authors, since they are
    named with everything.
    """
    documents = index.documents(entity)
    mask = view.masks.of(Filter(now=now))[: len(view.snapshots.rows)]
    living = documents[mask[documents]]
    newest = living[np.argsort(-view.snapshots.rows.created_at[living], kind="stable")]
    is_author = index.kind(entity) == AUTHOR
    neighbours = [
        describe_entity(index, other, weight)
        for other, weight in index.neighbours(entity, 3 * NEIGHBOURS)
        if is_author or index.kind(other) != AUTHOR
    ]
    return Entity(
        describe_entity(index, entity),
        tuple(index.aliases(entity)),
        tuple(neighbours[:NEIGHBOURS]),
        tuple(view.snapshots.rows.take(newest[:MOST_DRAWN].tolist())),
        len(living),
    )


# The picture: the entities most mentioned in the memories that pass a filter, or around one entity,
# and the strongest edges between them: a readable number, not all of them.

DRAWN = 80  # entities
AROUND = 24  # of them, around one
LINES_EACH = 3  # the strongest edges of an entity are drawn, and those it is the strongest of
LEAST_GROUP = 3  # entities of a community that has a name and a colour
GROUPS = 6
_LABEL = 26  # characters


class Drawn(msgspec.Struct, frozen=True):
    """An entity of a picture; `group` is the number of its community, None for the small ones."""

    named: EntityName
    label: str
    group: int | None


class Picture(msgspec.Struct, frozen=True):
    """The most mentioned first; an edge joins two places in `entities`, the strongest first.

    `groups` are the entities of each community, the largest community first; `matching` counts the
    entities that the filter lets through, drawn or not.
    """

    entities: tuple[Drawn, ...]
    edges: tuple[tuple[int, int, float], ...]
    groups: tuple[tuple[Drawn, ...], ...]
    matching: int


def draw(
    view: View,
    index: EntityIndex,
    conditions: Filter,
    kinds: Sequence[EntityKind],
    around: int | None = None,
) -> Picture:
    """Return the picture of the entities of some kinds in the memories that pass a filter.

    With `around`, an entity of any kind, it shows that entity and its strongest neighbours.
    """
    offsets, counts, documents = index.mention_runs
    lives = view.masks.of(conditions)[: len(view.snapshots.rows)][documents]
    entity = np.repeat(np.arange(len(index)), counts)
    mentions = np.bincount(entity[lives], minlength=len(index))
    fits = index.is_of(kinds) & (mentions > 0)
    matching = int(np.count_nonzero(fits))
    worth = np.where(fits, mentions, 0).astype(np.float64)
    if around is not None:
        fits[around] = True
        near = np.zeros(len(view.snapshots.rows), np.bool_)
        start = offsets[around]
        near[documents[start : start + counts[around]]] = True
        beside = lives & near[documents] & fits[entity]
        named = np.bincount(documents[beside], minlength=len(near))
        shares = 1 / np.maximum(named[documents[beside]] - 1, 1)
        worth = np.bincount(entity[beside], shares, len(index)).astype(np.float64, copy=False)
        worth[around] = np.inf
    most = DRAWN if around is None else AROUND + 1
    chosen = np.argsort(-worth, kind="stable")[: 2 * most]
    chosen = chosen[worth[chosen] > 0]
    place = np.full(len(index), -1)
    place[chosen] = np.arange(len(chosen))
    drawn = lives & (place[entity] >= 0)
    source, target, weight = _edges(place[entity[drawn]], documents[drawn].astype(np.int64))
    is_joined = np.zeros(len(chosen), np.bool_)
    is_joined[source], is_joined[target] = True, True
    shown = np.flatnonzero(is_joined)[:most] if len(source) else np.arange(len(chosen))[:most]
    row = np.full(len(chosen), -1)
    row[shown] = np.arange(len(shown))
    within = (row[source] >= 0) & (row[target] >= 0)
    source, target, weight = row[source[within]], row[target[within]], weight[within]
    community = largest_communities(Graph(source, target, weight, np.zeros(len(shown))))
    lines = _strongest(source, target, weight, len(shown))
    entities = _drawn(index, chosen[shown], mentions, community)
    groups = [
        tuple(other for other in entities if other.group == group)
        for group in sorted({other.group for other in entities if other.group is not None})
    ]
    edges = zip(source[lines].tolist(), target[lines].tolist(), weight[lines].tolist(), strict=True)
    return Picture(tuple(entities), tuple(edges), tuple(groups), matching)


def picture_payload(picture: Picture) -> dict[str, Any]:
    """Return a picture as JSON for a script."""
    return {
        "nodes": [
            {
                "kind": drawn.named.kind,
                "name": drawn.named.name,
                "label": drawn.label,
                "memories": drawn.named.mentions,
                "group": drawn.group,
            }
            for drawn in picture.entities
        ],
        "edges": [list(edge) for edge in picture.edges],
    }


def _edges(entity: Ints, document: Ints) -> tuple[Ints, Ints, Floats]:
    """Return the pairs of entities that share memories, and their weights, ordered by pair."""
    parts, sums = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for part, units in pairs(entity, document):
        keys, times = np.unique(part, return_counts=True)
        parts.append(keys)
        sums.append(times * units)
    keys, which = np.unique(np.concatenate(parts), return_inverse=True)
    total = np.bincount(which, np.concatenate(sums) / UNIT, len(keys))
    return keys >> 32, keys & 0xFFFFFFFF, total.astype(np.float64, copy=False)


def _strongest(source: Ints, target: Ints, weight: Floats, count: int) -> Ints:
    """Return the edges that are among the LINES_EACH strongest of an end, the strongest first."""
    lines = [0] * count
    chosen = []
    for edge in np.argsort(-weight, kind="stable").tolist():
        ends = int(source[edge]), int(target[edge])
        if min(lines[end] for end in ends) < LINES_EACH:
            chosen.append(edge)
            for end in ends:
                lines[end] += 1
    return np.array(chosen, np.int64)


def _drawn(index: EntityIndex, entities: Ints, mentions: Ints, community: Ints) -> list[Drawn]:
    """Return entities, each with its group and a unique short label."""
    sizes = np.bincount(community, minlength=1)
    groups = min(GROUPS, int(np.count_nonzero(sizes >= LEAST_GROUP)))
    named = [(index.kind(entity), index.name(entity)) for entity in entities.tolist()]
    short = [[*(short_names(kind, name) or []), name] for kind, name in named]
    times = Counter(label for labels in short for label in {*labels})
    return [
        Drawn(
            EntityName(kind, name, int(mentions[entity])),
            _cut(next((label for label in labels if times[label] == 1), name)),
            int(group) if group < groups else None,
        )
        for entity, group, (kind, name), labels in zip(
            entities.tolist(), community.tolist(), named, short, strict=True
        )
    ]


def _cut(label: str) -> str:
    """Return a label for a picture: a long one's end, the informative part of a path."""
    clean = sanitize(label.removeprefix("https://"))
    return clean if len(clean) <= _LABEL else "…" + clean[1 - _LABEL :]
