"""
Graph views: the neighbourhood of an entity, and the entity graph as it is drawn.

Read from the graph of the last build; of what was written since only the memories that mention an
entity itself are added.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from serve.reader.filters import Filter
from serve.reader.memory_json import short_json
from serve.reader.view import View
from store.derived import constraints
from store.derived.entities import EntityIndex
from store.derived.layout import LAYOUT_PROJECTION
from store.home.errors import NotFound
from store.home.tenant import Tenant
from store.memories.memory import ACTIVE, Memory
from store.snapshots import snapshot
from store.snapshots.manifest import Manifest
from store.snapshots.projection import column_view as column
from store.text.mentions import Mention

MOST_NEIGHBOURS = 20  # that mention the entity, the newest
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
    centre = _entity_by_name(index, mention)[:limit] if index is not None else []
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


def entities_with_prefix(view: View, prefix: str, limit: int) -> list[dict[str, Any]]:
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


def neighbourhood_payload(view: View, found: Neighbourhood) -> dict[str, Any]:
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


def _entity_by_name(index: EntityIndex, mention: Mention) -> list[int]:
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
    return sorted(active, key=lambda one: (-one.created_at, -one.seq))[:MOST_NEIGHBOURS]


# The entity graph as people look at it: its picture, its most mentioned entities, and one entity
# with
# what it is named with and the memories that name it.
#
# All of it is of the last build. What was forgotten since is not shown; what was written since is
# not
# in it yet.

NEIGHBOURS = 40
MOST_DRAWN = 50


@dataclass(frozen=True, slots=True)
class EntityName:
    """An entity, and how many memories name it; `weight` of the edge that leads to it, if one."""

    kind: str
    name: str
    mentions: int
    weight: float = 0.0


@dataclass(frozen=True, slots=True)
class Entity:
    """One entity: how it is written, its strongest neighbours, the newest memories that name it.

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


@dataclass(frozen=True, slots=True)
class GraphDrawing:
    """How much of the graph its picture shows."""

    entities: int
    edges: int
    all_entities: int
    all_edges: int


class _Head(msgspec.Struct, frozen=True):
    """What stands before the columns of a picture."""

    nodes: int
    lines: int
    kinds: list[str]
    names: list[str]


def find_entities(index: EntityIndex, entity: int, weight: float = 0.0) -> EntityName:
    return EntityName(index.kind(entity), index.name(entity), len(index.documents(entity)), weight)


def most_mentioned(index: EntityIndex, kind: str | None, limit: int) -> list[EntityName]:
    """Return the entities that most memories name, of one kind or of all."""
    counts = index.mention_runs[1]
    order = np.argsort(-counts, kind="stable")
    of_kind = (int(one) for one in order if kind is None or index.kind(int(one)) == kind)
    return [find_entities(index, one) for one, _ in zip(of_kind, range(limit), strict=False)]


def entity_of(view: View, index: EntityIndex, entity: int, now: int) -> Entity:
    """Return all there is to say of an entity."""
    documents = index.documents(entity)
    mask = view.masks.of(Filter(now=now))[: len(view.snapshots.rows)]
    living = documents[mask[documents]]
    newest = living[np.argsort(-view.snapshots.rows.created_at[living], kind="stable")]
    return Entity(
        find_entities(index, entity),
        tuple(index.aliases(entity)),
        tuple(find_entities(index, *one) for one in index.neighbours(entity, NEIGHBOURS)),
        tuple(view.snapshots.rows.take(newest[:MOST_DRAWN].tolist())),
        len(living),
    )


def mark(manifest: Manifest) -> str | None:
    """Return what names the picture of a manifest; None where it has none that this can read."""
    ref = manifest.projections.get(LAYOUT_PROJECTION.name)
    entities = manifest.projections.get("entities")
    if ref is None or entities is None or ref.version != LAYOUT_PROJECTION.version:
        return None
    if not (
        {"nodes", "lines"} <= ref.parts.keys() and {"entities", "edges"} <= entities.parts.keys()
    ):
        return None  # no build writes such
    return f"{ref.digest[:16]}{entities.digest[:16]}"


def draw_graph(manifest: Manifest) -> GraphDrawing | None:
    """Return how much is drawn; None where there is no picture."""
    if mark(manifest) is None:
        return None
    shown, of = (manifest.projections[name].rows for name in (LAYOUT_PROJECTION.name, "entities"))
    return GraphDrawing(shown["nodes"], shown["lines"], of["entities"], of["edges"])


def picture(tenant: Tenant, manifest: Manifest, index: EntityIndex) -> bytes:
    """Return the picture for a script: a head in JSON, then columns, all little-endian.

    The head's length comes first, in four bytes; it is padded with spaces to a multiple of four.
    The columns are x, y (float32), mentions, community, kind (its place in `kinds`) of the nodes,
    source and target of the lines (rows of the nodes; uint32). Raise SnapshotDamaged where the
    files are not what was built: they are opened for this answer alone, and recall keeps none.
    """
    ref = manifest.projections[LAYOUT_PROJECTION.name]
    tables = snapshot.read(tenant.snapshots, ref, LAYOUT_PROJECTION)
    constraints.check(tenant.snapshots, manifest, LAYOUT_PROJECTION, LAYOUT_PROJECTION.for_builds)
    nodes, lines = tables["nodes"], tables["lines"]
    entities = column(nodes, "entity")
    of = [index.kind(one) for one in entities.tolist()]
    kinds = sorted({*of})
    place = {kind: number for number, kind in enumerate(kinds)}
    names = [index.name(one) for one in entities.tolist()]
    head = msgspec.json.encode(_Head(len(nodes), len(lines), kinds, names))
    head += b" " * (-len(head) % 4)
    columns: tuple[tuple[npt.ArrayLike, str], ...] = (
        (column(nodes, "x"), "<f4"),
        (column(nodes, "y"), "<f4"),
        (index.mention_runs[1][entities], "<u4"),
        (column(nodes, "community"), "<u4"),
        ([place[kind] for kind in of], "<u4"),
        (column(lines, "source"), "<u4"),
        (column(lines, "target"), "<u4"),
    )
    parts = [np.asarray(values).astype(kind).tobytes() for values, kind in columns]
    return b"".join([len(head).to_bytes(4, "little"), head, *parts])
