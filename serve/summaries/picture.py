"""
The entity graph as people look at it: its picture, its most mentioned entities, and one entity with
what it is named with and the memories that name it.

All of it is of the last build. What was forgotten since is not shown; what was written since is not
in it yet.
"""

from dataclasses import dataclass

import msgspec
import numpy as np
import numpy.typing as npt

from serve.reader.filters import Filter
from serve.reader.view import View
from store.derived import constraints
from store.derived.entities import EntityIndex
from store.derived.layout import LAYOUT_PROJECTION
from store.home.tenant import Tenant
from store.memories.memory import Memory
from store.snapshots import snapshot
from store.snapshots.manifest import Manifest
from store.snapshots.projection import column_view as column

NEIGHBOURS = 40
MEMORIES = 50


@dataclass(frozen=True, slots=True)
class Named:
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

    named: Named
    aliases: tuple[str, ...]
    neighbours: tuple[Named, ...]
    memories: tuple[Memory, ...]
    active: int

    @property
    def hidden(self) -> int:
        return self.named.mentions - self.active


@dataclass(frozen=True, slots=True)
class Drawn:
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


def named(index: EntityIndex, entity: int, weight: float = 0.0) -> Named:
    return Named(index.kind(entity), index.name(entity), len(index.documents(entity)), weight)


def most_mentioned(index: EntityIndex, kind: str | None, limit: int) -> list[Named]:
    """Return the entities that most memories name, of one kind or of all."""
    counts = index.mention_runs[1]
    order = np.argsort(-counts, kind="stable")
    of_kind = (int(one) for one in order if kind is None or index.kind(int(one)) == kind)
    return [named(index, one) for one, _ in zip(of_kind, range(limit), strict=False)]


def entity_of(view: View, index: EntityIndex, entity: int, now: int) -> Entity:
    """Return all there is to say of an entity."""
    documents = index.documents(entity)
    mask = view.masks.of(Filter(now=now))[: len(view.snapshots.rows)]
    living = documents[mask[documents]]
    newest = living[np.argsort(-view.snapshots.rows.created_at[living], kind="stable")]
    return Entity(
        named(index, entity),
        tuple(index.aliases(entity)),
        tuple(named(index, *one) for one in index.neighbours(entity, NEIGHBOURS)),
        tuple(view.snapshots.rows.take(newest[:MEMORIES].tolist())),
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


def drawn(manifest: Manifest) -> Drawn | None:
    """Return how much is drawn; None where there is no picture."""
    if mark(manifest) is None:
        return None
    shown, of = (manifest.projections[name].rows for name in (LAYOUT_PROJECTION.name, "entities"))
    return Drawn(shown["nodes"], shown["lines"], of["entities"], of["edges"])


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
