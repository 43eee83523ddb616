"""The copy of the entity graph and the facts in Neo4j: written by builds; nothing else needs it.

The contract runs against ArcadeDB, which speaks Bolt and Cypher and which `make bolt` installs, and
against the Neo4j server that MNEMOLOG_TEST_NEO4J names (`bolt://neo4j:PASSWORD@HOST:7687`), where
the nodes of the tests' own tenants are deleted.
"""

import json
import os
import random
import re
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import bolt_server
import pytest
from command_line import answer, run, succeed

from pipelines.jobs import runner
from store.derived.entities import ENTITIES_PROJECTION, EntityIndex
from store.embedders.lexical import LexicalEmbedder
from store.home import failures
from store.home.config import Choices, Neo4j, Settings, change_choices
from store.home.errors import ConfigError, MirrorError
from store.log import commands
from store.log.commands import Draft
from store.log.event_kinds import Revised
from store.log.event_log import EventLog
from store.maintenance import build, graph_copy
from store.snapshots import manifest as manifests

NOW = 1_790_000_000_000_000
PLAIN = LexicalEmbedder()
ROOT = Path(__file__).parents[1]
BOLT_PYTHON = ROOT / ".bolt/bin/python"
REAL = os.environ.get("MNEMOLOG_TEST_NEO4J", "")
DRAFTS = [
    Draft(id="a", content="`store/log/event_log.py` raises LogError when the file is locked"),
    Draft(id="b", content="`store/log/event_log.py` calls fold_events()"),
    Draft(id="c", content="eu-west-1", key="deploy.region"),
]


class Gate:
    """A port of loopback that leads to a server while it is open."""

    def __init__(self, port: int) -> None:
        self._to = port
        self.port = 0
        self._open: list[socket.socket] = []
        self.open()

    def open(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", self.port))
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, args=(self._listening,), daemon=True).start()

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        for socket_ in (self._listening, *self._open):
            socket_.close()
        self._open.clear()

    def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                near, _ = listening.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self._to))
            self._open += [near, far]
            for pair in ((near, far), (far, near)):
                threading.Thread(target=_carry, args=pair, daemon=True).start()


def _carry(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65_536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def free_ports() -> int:
    """Return a free port whose successor is free, too."""
    for port in range(20_000 + os.getpid() % 20_000, 60_000, 2):
        with closing(socket.socket()) as one, closing(socket.socket()) as other:
            try:
                one.bind(("127.0.0.1", port))
                other.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            return port
    raise AssertionError("no port is free")


@pytest.fixture(scope="module")
def arcadedb(tmp_path_factory) -> Iterator[int]:
    """The port of a running server."""
    if not BOLT_PYTHON.exists():
        pytest.skip("no server that speaks Bolt: `make bolt` installs one")
    port, folder = free_ports(), tmp_path_factory.mktemp("bolt")
    output = folder / "output.txt"
    with output.open("wb") as file:
        process = subprocess.Popen(
            [BOLT_PYTHON, bolt_server.__file__, folder / "databases", str(port)],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=file,
            stderr=file,
        )
    until = time.monotonic() + 120
    while b"ready" not in output.read_bytes():
        assert process.poll() is None and time.monotonic() < until, output.read_text()
        time.sleep(0.1)
    yield port
    process.stdin.close()
    process.wait(60)


@pytest.fixture(params=["arcadedb", "neo4j"])
def server(request, tenant, monkeypatch) -> Iterator[Gate]:
    """A gate to each server that the contract is tested against."""
    pytest.importorskip("neo4j", reason="the extra `neo4j` is not installed")
    if request.param == "neo4j":
        if not REAL:
            pytest.skip("no Neo4j server: name one in MNEMOLOG_TEST_NEO4J")
        port, user, password = urlsplit(REAL).port, urlsplit(REAL).username, urlsplit(REAL).password
    else:
        port = request.getfixturevalue("arcadedb")
        user, password = bolt_server.USER, bolt_server.PASSWORD
    monkeypatch.setenv("NEO4J_PASSWORD", password)
    gate = Gate(port)
    gate.user = user
    yield gate
    try:
        graph_copy.drop(tenant, chosen_of(gate))
    finally:
        gate.close()


def chosen_of(gate: Gate) -> Neo4j:
    return Neo4j(url=f"bolt://127.0.0.1:{gate.port}", user=gate.user)


@pytest.fixture
def chosen(server) -> Neo4j:
    return chosen_of(server)


@pytest.fixture
def built(tenant, log):
    commands.record_batch(log, DRAFTS, NOW)
    return lambda: build.rebuild(tenant, log, PLAIN, NOW)


def ask(chosen: Neo4j, query: str, **parameters):
    with graph_copy._Server.open(chosen) as server:
        return [tuple(record.values()) for record in server._run(query, **parameters)]


def digests(chosen: Neo4j, tenant) -> dict:
    with graph_copy._Server.open(chosen) as server:
        return server.digests(graph_copy._space(tenant))


MENTIONS = "MATCH (m:MnemologMemory)-[:MENTIONS]->(e:MnemologEntity) RETURN m.id, e.kind, e.name"
FILE = ("file", "store/log/event_log.py")


# the contract


def test_cypher_walks_from_memories_to_entities_and_facts(chosen, tenant, built):
    built()
    assert graph_copy.sync(tenant, chosen) == 9  # three memories, five entities, one fact
    assert sorted(ask(chosen, MENTIONS)) == [
        ("a", "error", "LogError"),
        ("a", *FILE),
        ("b", *FILE),
        ("b", "symbol", "fold_events"),
        ("c", "host", "eu-west-1"),
    ]
    assert ask(
        chosen,
        "MATCH (:MnemologEntity {name: 'LogError'})-[r:SEEN_WITH]-(e) RETURN e.name, r.weight",
    ) == [(FILE[1], 1.0)]
    [(memory, relation, value, valid_to, entity)] = ask(
        chosen,
        "MATCH (m)-[:STATES]->(f:MnemologFact)-[:ABOUT]->(e) "
        "RETURN m.id, f.relation, f.value, f.valid_to, e.name",
    )
    assert (memory, entity, relation, value) == ("c", "deploy", "region", "eu-west-1")
    assert valid_to is None


def test_neighbours_in_cypher_are_those_of_our_own_graph(chosen, tenant, log):
    made = random.Random(7)
    files = [f"src/part{n}/file{n}.py" for n in range(40)]
    drafts = [
        Draft(id=f"m{n}", content=" and ".join(f"`{one}`" for one in made.sample(files, 3)))
        for n in range(120)
    ]
    commands.record_batch(log, [*drafts, Draft(id="long", content=f"see `{'x' * 9_000}()`")], NOW)
    build.rebuild(tenant, log, PLAIN, NOW)
    graph_copy.sync(tenant, chosen)
    manifest = manifests.current(tenant)
    index = EntityIndex.open(graph_copy._read(tenant, manifest, ENTITIES_PROJECTION))
    found = ask(
        chosen,
        "MATCH (a:MnemologEntity)-[r:SEEN_WITH]-(b:MnemologEntity) RETURN a.name, b.name, r.weight",
    )
    ours = [
        (index.name(entity), index.name(other), weight)
        for entity in range(len(index))
        for other, weight in index.neighbours(entity, limit=100)
    ]
    assert len(ours) > 400 and sorted(found) == sorted(ours)


def test_no_text_of_a_memory_is_copied(chosen, tenant, built):
    built()
    graph_copy.sync(tenant, chosen)
    [[properties]] = ask(chosen, "MATCH (m:MnemologMemory {id: 'a'}) RETURN properties(m)")
    assert properties.keys() <= {"uid", "tenant", "digest", "id", "kind", "project", "at"}
    assert "is locked" not in repr(ask(chosen, "MATCH (n) RETURN properties(n)"))


def test_only_what_changed_is_written_again(chosen, tenant, log, built):
    built()
    graph_copy.sync(tenant, chosen)
    assert graph_copy.sync(tenant, chosen) == 0
    before = digests(chosen, tenant)
    commands.revise(log, "b", Revised(content="`store/home/files.py` calls fold_events()"), NOW)
    commands.record(log, Draft(id="d", content="us-east-1", key="deploy.region"), NOW + 1)
    commands.forget(log, "a", NOW)
    built()
    graph_copy.sync(tenant, chosen)
    assert sorted(ask(chosen, MENTIONS)) == [
        ("b", "file", "store/home/files.py"),
        ("b", "symbol", "fold_events"),
        ("c", "host", "eu-west-1"),
        ("d", "host", "us-east-1"),
    ]
    facts = "MATCH (f:MnemologFact) RETURN f.value, f.valid_to IS NULL"
    assert sorted(ask(chosen, facts)) == [("eu-west-1", False), ("us-east-1", True)]
    after = digests(chosen, tenant)
    graph_copy.drop(tenant, chosen)
    graph_copy.sync(tenant, chosen)
    assert digests(chosen, tenant) == after != before  # equal to a copy written from nothing


def test_what_was_lost_or_half_written_there_is_written_again(chosen, tenant, built):
    built()
    graph_copy.sync(tenant, chosen)
    before = digests(chosen, tenant)
    ask(chosen, "MATCH (e:MnemologEntity {name: $name}) DETACH DELETE e", name=FILE[1])
    ask(chosen, "MATCH (f:MnemologFact)-[r:ABOUT]->() REMOVE f.digest DELETE r")
    graph_copy.sync(tenant, chosen)
    assert digests(chosen, tenant) == before
    assert len(ask(chosen, MENTIONS)) == 5
    assert len(ask(chosen, "MATCH (:MnemologFact)-[:ABOUT]->() RETURN 1")) == 1
    ask(chosen, "MATCH (n) DETACH DELETE n")
    assert graph_copy.sync(tenant, chosen) == 9 and digests(chosen, tenant) == before


def test_tenants_and_other_programs_nodes_stay_apart(chosen, home, tenant, built):
    from store.home import tenant as tenants

    built()
    graph_copy.sync(tenant, chosen)
    ask(chosen, "CREATE (:Person {name: 'Ana'})")
    other = tenants.tenant(home, "other")
    with EventLog(other.log, create=True) as log:
        commands.record_batch(log, DRAFTS[:1], NOW)
        build.rebuild(other, log, PLAIN, NOW)
    graph_copy.sync(other, chosen)
    count = "MATCH (m:MnemologMemory {tenant: $tenant}) RETURN count(m)"
    assert ask(chosen, count, tenant="other") == [(1,)]
    graph_copy.drop(tenant, chosen)
    assert ask(chosen, count, tenant=tenant.name) == [(0,)]
    assert ask(chosen, count, tenant="other") == [(1,)]
    graph_copy.drop(other, chosen)
    assert ask(chosen, "MATCH (p:Person) RETURN p.name") == [("Ana",)]
    ask(chosen, "MATCH (p:Person) DETACH DELETE p")


def test_the_documented_queries_answer(chosen, tenant, log, built):
    built()
    commands.record(log, Draft(id="d", content="us-east-1", key="deploy.region"), NOW + 1)
    built()
    graph_copy.sync(tenant, chosen)
    page = (ROOT / "docs/neo4j.md").read_text(encoding="utf-8")
    [block] = re.findall(r"```cypher\n(.*?)```", page, re.DOTALL)
    queries = [part for part in block.split(";") if part.strip()]
    assert len(queries) >= 3
    for query in queries:
        assert ask(chosen, query), query


# down for a while


def test_a_build_that_it_missed_is_caught_up_by_the_next(server, chosen, home, tenant, log, built):
    settings = Settings(home, Choices(neo4j=chosen))
    (home / "config.toml").write_text(f'[neo4j]\nurl = "{chosen.url}"\nuser = "{chosen.user}"\n')
    built()
    runner.build(settings, tenant.name, lambda event: None)
    assert graph_copy.is_in_step(tenant, chosen) and not says_behind()
    server.close()
    commands.record(log, Draft(id="new", content="`store/home/files.py` is new"), NOW)
    runner.build(settings, tenant.name, lambda event: None)
    assert not graph_copy.is_in_step(tenant, chosen) and says_behind()
    assert [chosen.url in failure.said for failure in failures.every(tenant.root)] == [True]
    server.open()
    runner.build(settings, tenant.name, lambda event: None)
    assert graph_copy.is_in_step(tenant, chosen) and not says_behind()
    assert list(failures.every(tenant.root)) == []
    assert ("new", "file", "store/home/files.py") in ask(chosen, MENTIONS)


def says_behind() -> bool:
    """Return True if `status` and `doctor` report that the copy is behind."""
    shown = answer("status")["behind"]
    findings = json.loads(run("doctor", "--json").output)["findings"]
    [found] = [
        finding
        for finding in findings
        if finding["what"].startswith("the copy of the entity graph")
    ]
    assert bool(shown) == (found["severity"] == "warn")
    return bool(shown)


def test_what_is_erased_is_gone_from_it_too(server, chosen, home, tenant, built):
    (home / "config.toml").write_text(f'[neo4j]\nurl = "{chosen.url}"\nuser = "{chosen.user}"\n')
    built()
    graph_copy.sync(tenant, chosen)
    succeed("erase", "c", "--yes")
    assert ask(chosen, "MATCH (f:MnemologFact) RETURN f.value") == []
    assert len(ask(chosen, MENTIONS)) == 4
    server.close()
    result = run("erase", "a", "--yes")
    assert result.exit_code == 1 and "in Neo4j still holds what was erased" in result.output
    server.open()
    graph_copy.sync(tenant, chosen)
    assert {id_ for id_, *_ in ask(chosen, MENTIONS)} == {"b"}


def test_a_wrong_password_is_named(chosen, tenant, built, monkeypatch):
    built()
    with monkeypatch.context() as changed:
        changed.setenv("NEO4J_PASSWORD", "wrong-one")
        with pytest.raises(MirrorError, match="NEO4J_PASSWORD") as caught:
            graph_copy.sync(tenant, chosen)
    assert chosen.url in str(caught.value)


# without a server


def test_nobody_waits_for_one_that_does_not_answer(tenant, built, monkeypatch):
    pytest.importorskip("neo4j", reason="the extra `neo4j` is not installed")
    monkeypatch.setattr(graph_copy, "_CALL_S", 0.2)
    built()
    with socket.create_server(("127.0.0.1", 0)) as mute:
        chosen = Neo4j(url=f"bolt://127.0.0.1:{mute.getsockname()[1]}")
        with pytest.raises(MirrorError, match=r"no answer within 0\.2 s"):
            graph_copy.sync(tenant, chosen)


def test_a_web_address_is_no_address_of_bolt():
    with pytest.raises(ConfigError, match="bolt://"):
        change_choices(Choices(), {"neo4j.url": "http://127.0.0.1:7474"})
