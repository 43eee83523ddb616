"""
The copy of the entity graph and the facts in a Neo4j server, brought in step after each build.

    (:MnemologMemory)-[:MENTIONS]->(:MnemologEntity)-[:SEEN_WITH {weight}]->(:MnemologEntity)
    (:MnemologMemory)-[:STATES]->(:MnemologFact)-[:ABOUT]->(:MnemologEntity)

A memory's text is not copied; names of entities and values of facts are. Each node has the
`tenant`, a `uid` that no other home's node has, and a `digest` of its properties and of the
relationships that begin at it. The server's digests are compared with those of the published
snapshot, so a server that was down, or lost its disk, gets the missing nodes.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from store.derived.entities import ENTITIES_PROJECTION, EntityIndex
from store.derived.facts import FACTS_PROJECTION, entity_name
from store.home import config
from store.home.config import Neo4j
from store.home.errors import MirrorError
from store.home.files import remove_files, replace_file
from store.home.tenant import Tenant
from store.memories.memories_projection import MEMORIES_PROJECTION
from store.memories.parts import fields_of
from store.memories.table import NEVER
from store.snapshots import manifest as manifests
from store.snapshots import snapshot
from store.snapshots.manifest import Manifest
from store.snapshots.projection import Projection, Tables

_CONNECT_S, _RETRY_S = 5.0, 5.0
_CALL_S = 120.0  # of one call: the driver itself has no timeout for an answer
_BATCH = 1_000  # nodes that one call writes or deletes
_EDGES = 5_000  # relationships that one call writes
_LONGEST_NAME = 2_000  # characters: Neo4j's index takes 8,167 bytes
_OF = ("memories", "entities", "facts")  # the copied projections

MEMORY, ENTITY, FACT = LABELS = "MnemologMemory", "MnemologEntity", "MnemologFact"
# each kind of relationship with the labels that it joins; it is written with its start node
_KINDS = {
    "MENTIONS": (MEMORY, ENTITY),
    "SEEN_WITH": (ENTITY, ENTITY),
    "STATES": (MEMORY, FACT),
    "ABOUT": (FACT, ENTITY),
}
_SUBJECT = "subject"  # the kind of an entity that facts are about and no text mentions


Edge = tuple[str, str, float | None]  # its kind, the other node's uid, its weight


class _Mark(msgspec.Struct, frozen=True):
    """The server's state: the projections with these digests, in the order of `_OF`.

    If it `is_unwanted`, an erasing requires that all be deleted before more is written.
    """

    url: str
    database: str
    digests: tuple[str, ...]
    is_unwanted: bool = False


@dataclass(frozen=True)
class Node:
    """A node and the relationships that begin at it."""

    label: str
    uid: str
    properties: dict[str, Any]
    edges: list[Edge]

    @cached_property
    def digest(self) -> str:
        whole = msgspec.msgpack.encode((self.label, self.properties, self.edges))
        return sha256(whole).hexdigest()[:16]


def is_in_step(tenant: Tenant, chosen: Neo4j) -> bool:
    """Return True if the copy is up to date; raise NoManifest or SnapshotDamaged."""
    return _load_mark(tenant) == _mark_of(chosen, manifests.current(tenant))


def sync(tenant: Tenant, chosen: Neo4j) -> int:
    """Bring the copy in step with the published snapshot; return the number of changed nodes.

    Call it while holding the tenant's build lock. Raise MirrorError, NoManifest or SnapshotDamaged;
    the next call then resumes.
    """
    manifest = manifests.current(tenant)
    before = _load_mark(tenant)
    if before is not None and before.is_unwanted:
        drop(tenant, chosen)
    with _Server.open(chosen) as server:
        server.prepare()
        nodes = {node.uid: node for node in nodes_of(tenant, manifest)}
        on_server = server.digests(_space(tenant))
        surplus = [uid for uid in on_server if uid not in nodes]
        missing = nodes.keys() - on_server.keys()
        stale = [
            node
            for uid, node in nodes.items()
            if uid in missing
            or on_server[uid][1] != node.digest
            or any(to in missing for _, to, _ in node.edges)
        ]
        if surplus or stale:
            remove_files([_mark_file(tenant)])  # a half-written copy is in step with nothing
        server.delete([(uid, on_server[uid][0]) for uid in surplus])
        server.write(stale)
    replace_file(_mark_file(tenant), msgspec.json.encode(_mark_of(chosen, manifest)))
    return len(surplus) + len(stale)


def drop(tenant: Tenant, chosen: Neo4j) -> None:
    """Delete all nodes of a tenant, on the server that its copy was last written to.

    Call it while holding the tenant's build lock. Raise MirrorError; the next `sync` then deletes
    them first.
    """
    before = _load_mark(tenant)
    url, database = (before.url, before.database) if before else (chosen.url, chosen.database)
    if not url:
        return  # nothing was ever written
    unwanted = _Mark(url, database, (), is_unwanted=True)
    replace_file(_mark_file(tenant), msgspec.json.encode(unwanted))
    with _Server.open(msgspec.structs.replace(chosen, url=url, database=database)) as server:
        on_server = server.digests(_space(tenant))
        server.delete([(uid, label) for uid, (label, _) in on_server.items()])
    remove_files([_mark_file(tenant)])


def _mark_file(tenant: Tenant) -> Path:
    return tenant.root / "neo4j.json"


def _load_mark(tenant: Tenant) -> _Mark | None:
    """Return the mark of the last sync; None if there was none, or it did not finish."""
    try:
        return msgspec.json.decode(_mark_file(tenant).read_bytes(), type=_Mark)
    except (OSError, msgspec.MsgspecError):
        return None


def _mark_of(chosen: Neo4j, manifest: Manifest) -> _Mark:
    digests = tuple(manifest.projections[name].digest for name in _OF)
    return _Mark(chosen.url, chosen.database, digests)


def _space(tenant: Tenant) -> str:
    """Return the prefix of a tenant's uids, unique to its home."""
    return f"{tenant.name}-{sha256(str(tenant.root.resolve()).encode()).hexdigest()[:12]}:"


# The published snapshot as nodes


def nodes_of(tenant: Tenant, manifest: Manifest) -> Iterator[Node]:
    """Yield the nodes of the published snapshot: entities, then facts, then the memories of both.

    Raise SnapshotDamaged.
    """
    maker = _NodeMaker(tenant.name, _space(tenant))
    memories = _read(tenant, manifest, MEMORIES_PROJECTION)
    tables = _read(tenant, manifest, ENTITIES_PROJECTION)
    index = EntityIndex.open(tables)
    facts = _read(tenant, manifest, FACTS_PROJECTION)["facts"].to_pylist()
    entities = [maker.uid(index.kind(row), index.name(row)) for row in range(len(index))]
    yield from maker.entities(index, entities)

    about: dict[str, list[str]] = {}  # by the name as facts write it
    aliases = tables["aliases"]
    for alias, entity in zip(
        aliases.column("alias").to_pylist(), aliases.column("entity").to_pylist(), strict=True
    ):
        about.setdefault(entity_name(alias), []).append(entities[entity])
    for name in dict.fromkeys(fact["entity"] for fact in facts):
        if name not in about:
            about[name] = [maker.uid(_SUBJECT, name)]
            yield maker.subject(name)

    edges: dict[int, list[Edge]] = {}  # of each document
    offsets, counts, documents = index.mention_runs
    for entity, (start, count) in enumerate(zip(offsets.tolist(), counts.tolist(), strict=True)):
        for document in documents[start : start + count].tolist():
            edges.setdefault(document, []).append(("MENTIONS", entities[entity], None))
    for fact in facts:
        edges.setdefault(fact["document"], [])
    wanted = np.array(sorted(edges), np.int64)
    names = ["id", "kind", "project", "created_at"]
    rows = fields_of(memories, wanted, names).to_pylist() if len(wanted) else []
    ids = dict(zip(wanted.tolist(), (row["id"] for row in rows), strict=True))
    for fact in facts:
        node = maker.fact(fact, ids[fact["document"]], about[fact["entity"]])
        edges[fact["document"]].append(("STATES", node.uid, None))
        yield node
    for document, row in zip(wanted.tolist(), rows, strict=True):
        yield maker.memory(row, edges[document])


@dataclass(frozen=True)
class _NodeMaker:
    """Makes the nodes of one tenant."""

    tenant: str
    space: str

    def uid(self, *names: str) -> str:
        """Return the uid of the node with these names; names may be longer than an index takes."""
        return self.space + sha256("\0".join(names).encode()).hexdigest()[:24]

    def entities(self, index: EntityIndex, uids: Sequence[str]) -> Iterator[Node]:
        edges: dict[int, list[Edge]] = {}
        for source, target, weight in zip(
            index.sources.tolist(), index.targets.tolist(), index.weights.tolist(), strict=True
        ):
            edges.setdefault(source, []).append(("SEEN_WITH", uids[target], weight))
        for row, uid in enumerate(uids):
            properties = {
                "kind": index.kind(row),
                "name": index.name(row)[:_LONGEST_NAME],
                "aliases": index.aliases(row),
                "memories": len(index.documents(row)),
            }
            yield self._node(ENTITY, uid, properties, edges.get(row, []))

    def subject(self, name: str) -> Node:
        properties = {
            "kind": _SUBJECT,
            "name": name[:_LONGEST_NAME],
            "aliases": [],
            "memories": 0,
        }
        return self._node(ENTITY, self.uid(_SUBJECT, name), properties, [])

    def fact(self, row: dict[str, Any], memory: str, about: Iterable[str]) -> Node:
        names = ("entity", "relation", "value", "project")
        properties = {name: row[name] for name in names} | {
            "valid_from": _instant(row["valid_from"]),
            "valid_to": None if row["valid_to"] == NEVER else _instant(row["valid_to"]),
        }
        edges: list[Edge] = [("ABOUT", uid, None) for uid in about]
        return self._node(FACT, self.uid("fact", memory), properties, edges)

    def memory(self, row: dict[str, Any], edges: list[Edge]) -> Node:
        properties = {name: row[name] for name in ("id", "kind", "project")}
        properties["at"] = _instant(row["created_at"])
        return self._node(MEMORY, self.uid("memory", row["id"]), properties, edges)

    def _node(self, label: str, uid: str, properties: dict[str, Any], edges: list[Edge]) -> Node:
        return Node(label, uid, {"uid": uid, "tenant": self.tenant, **properties}, edges)


def _read(tenant: Tenant, manifest: Manifest, projection: Projection) -> Tables:
    ref = manifest.projections[projection.name]
    snapshot.glance(tenant.snapshots, ref)
    return snapshot.read(tenant.snapshots, ref, projection, check=False, validate=False)


def _instant(at: int) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=at)


# The server


class _Server:
    """A Neo4j server, or another that speaks Bolt and Cypher; its methods raise MirrorError."""

    def __init__(self, driver: Any, chosen: Neo4j) -> None:
        self._driver, self._chosen = driver, chosen

    @classmethod
    @contextmanager
    def open(cls, chosen: Neo4j) -> Iterator["_Server"]:
        try:
            from neo4j import GraphDatabase
            from neo4j.exceptions import AuthError, DriverError, Neo4jError
        except ImportError:
            raise MirrorError(
                "Neo4j needs the package neo4j: `pip install 'mnemolog-core[neo4j]'`"
            ) from None
        # a server's remarks on a query, such as an unknown label
        logging.getLogger("neo4j.notifications").setLevel(logging.ERROR)
        password = config.neo4j_password()
        try:
            with GraphDatabase.driver(
                chosen.url,
                auth=(chosen.user, password) if password else None,
                connection_timeout=_CONNECT_S,
                connection_acquisition_timeout=2 * _CONNECT_S,
                max_transaction_retry_time=_RETRY_S,
                telemetry_disabled=True,
            ) as driver:
                server = cls(driver, chosen)
                server._within(driver.verify_connectivity)  # a refusal is not tried again
                yield server
        except AuthError as error:
            raise MirrorError(
                f"Neo4j at {chosen.url} does not know {chosen.user} by this password: set "
                "NEO4J_PASSWORD, then run `mnemolog build`"
            ) from error
        except (DriverError, Neo4jError, OSError, ValueError) as error:
            raise _failure(chosen, getattr(error, "message", None) or str(error)) from error

    def prepare(self) -> None:
        """Make each label's uids unique, which also indexes them, and index the entities' names."""
        for label in LABELS:
            self._run(
                f"CREATE CONSTRAINT mnemolog_{label.removeprefix('Mnemolog').lower()} "
                f"IF NOT EXISTS FOR (n:{label}) REQUIRE n.uid IS UNIQUE"
            )
        self._run(f"CREATE INDEX mnemolog_name IF NOT EXISTS FOR (n:{ENTITY}) ON (n.name)")

    def digests(self, space: str) -> dict[str, tuple[str, str | None]]:
        """Return the label and the digest of each node whose uid begins with `space`."""
        digests: dict[str, tuple[str, str | None]] = {}
        for label in LABELS:
            records = self._run(
                f"MATCH (n:{label}) WHERE n.uid STARTS WITH $space "
                "RETURN n.uid AS uid, n.digest AS digest",
                space=space,
            )
            digests |= {record["uid"]: (label, record["digest"]) for record in records}
        return digests

    def delete(self, nodes: Sequence[tuple[str, str]]) -> None:
        """Delete nodes, given by uid and label, and the relationships they are in."""
        for label in LABELS:
            uids = [uid for uid, of in nodes if of == label]
            for batch in _batches(uids, _BATCH):
                self._run(f"MATCH (n:{label}) WHERE n.uid IN $uids DETACH DELETE n", uids=batch)

    def write(self, nodes: Sequence[Node]) -> None:
        """Write nodes and the relationships that begin at them, replacing existing ones.

        Digests come last: a node without one is written again.
        """
        by_label = {label: [node for node in nodes if node.label == label] for label in LABELS}
        for label, some in by_label.items():
            for batch in _batches(some, _BATCH):
                rows = [{"uid": node.uid, "properties": node.properties} for node in batch]
                self._run(
                    f"UNWIND $rows AS row MERGE (n:{label} {{uid: row.uid}}) "
                    "SET n = row.properties WITH n MATCH (n)-[r]->() DELETE r",
                    rows=rows,
                )
        for kind, (label, other) in _KINDS.items():
            edges = [
                {"uid": node.uid, "to": to, "weight": weight}
                for node in by_label[label]
                for of, to, weight in node.edges
                if of == kind
            ]
            weighed = "SET r.weight = row.weight" if kind == "SEEN_WITH" else ""
            for batch in _batches(edges, _EDGES):
                self._run(
                    f"UNWIND $rows AS row MATCH (a:{label} {{uid: row.uid}}) "
                    f"MATCH (b:{other} {{uid: row.to}}) MERGE (a)-[r:{kind}]->(b) {weighed}",
                    rows=batch,
                )
        for label, some in by_label.items():
            for batch in _batches(some, _BATCH):
                self._run(
                    f"UNWIND $rows AS row MATCH (n:{label} {{uid: row.uid}}) "
                    "SET n.digest = row.digest",
                    rows=[{"uid": node.uid, "digest": node.digest} for node in batch],
                )

    def _run(self, query: str, **parameters: Any) -> list[Any]:
        """Return the records of a query, which must be safe to run twice: drivers retry."""

        def run() -> list[Any]:
            answer = self._driver.execute_query(
                query, parameters, database_=self._chosen.database or None
            )
            return list(answer.records)

        records: list[Any] = self._within(run)
        return records

    def _within(self, call: Callable[[], Any]) -> Any:
        """Run a call and return its value; raise MirrorError if it takes longer than `_CALL_S`."""
        answer: Future[Any] = Future()

        def settle() -> None:
            try:
                answer.set_result(call())
            except BaseException as error:
                answer.set_exception(error)

        threading.Thread(target=settle, daemon=True).start()
        try:
            return answer.result(_CALL_S)
        except TimeoutError:
            raise _failure(self._chosen, f"no answer within {_CALL_S:g} s") from None


def _failure(chosen: Neo4j, text: str) -> MirrorError:
    reason = text.partition("\n")[0] or "it hung up"
    return MirrorError(f"Neo4j at {chosen.url}: {reason}; once it answers, run `mnemolog build`")


def _batches(rows: Sequence[Any], size: int) -> Iterator[list[Any]]:
    for start in range(0, len(rows), size):
        yield list(rows[start : start + size])
