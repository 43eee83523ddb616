"""
Mirrors: copies of published projections in another program's server, by the settings.

Each is brought in step after a build and never queried by one. Its server may be down: the build is
published all the same, `status` and `doctor` report that the copy is behind, and the next build
brings it in step.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from store.home import failures
from store.home.config import Choices
from store.home.errors import MirrorError, SnapshotError
from store.home.tenant import Tenant
from store.maintenance import graph_copy, vector_copy


@dataclass(frozen=True)
class Mirror:
    """One copy. `url` is empty if the settings name no server.

    `sync` and `drop` are called while holding the tenant's build lock and raise MirrorError; `sync`
    returns the number of nodes or points it wrote or deleted. `rows` names the copied projection
    and table.
    """

    asset: str  # its name in Dagster
    kind: str
    what: str
    url: str
    rows: tuple[str, str]
    sync: Callable[[Tenant], int]
    drop: Callable[[Tenant], None]
    is_in_step: Callable[[Tenant], bool]

    def __str__(self) -> str:
        return f"the copy of {self.what} at {self.url}"


def every_mirror(choices: Choices) -> tuple[Mirror, ...]:
    """Return all mirrors, also those without a server: one may have been written before."""
    qdrant, neo4j = choices.qdrant, choices.neo4j
    return (
        Mirror(
            "vectors_in_qdrant",
            "qdrant",
            "the vectors in Qdrant",
            qdrant.url,
            ("vectors", "rows"),
            lambda tenant: vector_copy.sync(tenant, qdrant),
            lambda tenant: vector_copy.drop(tenant, qdrant),
            lambda tenant: vector_copy.is_in_step(tenant, qdrant),
        ),
        Mirror(
            "graph_in_neo4j",
            "neo4j",
            "the entity graph in Neo4j",
            neo4j.url,
            ("entities", "entities"),
            lambda tenant: graph_copy.sync(tenant, neo4j),
            lambda tenant: graph_copy.drop(tenant, neo4j),
            lambda tenant: graph_copy.is_in_step(tenant, neo4j),
        ),
    )


def chosen_mirrors(choices: Choices) -> tuple[Mirror, ...]:
    """Return the mirrors that the settings name a server for."""
    return tuple(mirror for mirror in every_mirror(choices) if mirror.url)


def sync_mirror(mirror: Mirror, tenant: Tenant) -> int:
    """Bring a mirror in step; return the number of nodes or points it wrote or deleted.

    Call it while holding the tenant's build lock. An error is stored until the next success, and
    MirrorError raised.
    """
    try:
        changed = mirror.sync(tenant)
    except MirrorError as error:
        failures.keep(tenant.root, mirror.kind, time.time_ns() // 1_000, str(error))
        raise
    failures.forget(tenant.root, mirror.kind)
    return changed


def mirrors_behind(tenant: Tenant, choices: Choices) -> Iterator[Mirror]:
    """Yield the chosen mirrors that are out of date; none if nothing is published.

    Does not contact a server: the tenant's folder has a note of the last write.
    """
    with suppress(SnapshotError):
        for mirror in chosen_mirrors(choices):
            if not mirror.is_in_step(tenant):
                yield mirror
