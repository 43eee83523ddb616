"""
The copy of the vectors in Qdrant: written by builds, searched by recall, never required.

MNEMOLOG_TEST_QDRANT names a real server, whose collections of the tests' own tenants are deleted.
"""

import json
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner

from pipelines.jobs import runner
from pipelines.orchestration import in_process
from serve.cli import main
from serve.reader.filters import Filter
from serve.reader.reader import Reader
from serve.recall.recall import Question, recall
from store.embedders.lexical import LexicalEmbedder
from store.home.config import Choices, Qdrant, Settings, change_choices
from store.home.errors import ConfigError, VectorStoreError
from store.index import qdrant
from store.index.qdrant import QdrantSearch
from store.index.vector_scan import VectorRows
from store.log import commands
from store.log.commands import Draft
from store.log.event_kinds import Revised
from store.maintenance import build, vector_copy
from store.text.tokenizer import text_hash

if TYPE_CHECKING:
    from qdrant_server import QdrantServer

NOW = 1_790_000_000_000_000
PLAIN = LexicalEmbedder()
TEXTS = ["we use SQLite", "deploy at noon", "the cache is cold", "retry twice", "a fan was noisy"]
REAL = os.environ.get("MNEMOLOG_TEST_QDRANT", "")


@pytest.fixture
def server() -> Iterator["QdrantServer"]:
    pytest.importorskip("qdrant_client", reason="the extra `qdrant` is not installed")
    from qdrant_server import QdrantServer

    server = QdrantServer()
    yield server
    server.stop()


@pytest.fixture(params=["local mode", "server"])
def chosen(request, server, tenant) -> Iterator[Qdrant]:
    """Each kind of store that the contract is tested on."""
    if request.param == "server" and not REAL:
        pytest.skip("no Qdrant server: name one in MNEMOLOG_TEST_QDRANT")
    settings = Qdrant(
        url=REAL if request.param == "server" else server.url, recall=True, timeout_s=2
    )
    yield settings
    if request.param == "server":
        vector_copy.drop(tenant, settings)


@pytest.fixture
def ours(server) -> Qdrant:
    return Qdrant(url=server.url, recall=True, timeout_s=2)


@pytest.fixture
def said(tenant, log):
    commands.record_batch(log, [Draft(id=text, content=text) for text in TEXTS], NOW)
    return lambda: build.rebuild(tenant, log, PLAIN, NOW)


def points(chosen: Qdrant, tenant) -> dict[int, str]:
    return {number: payload["memory"] for number, payload in payloads(chosen, tenant).items()}


def payloads(chosen: Qdrant, tenant) -> dict[int, dict[str, str]]:
    client = qdrant.connect(chosen, 5)
    try:
        points, _ = client.scroll(qdrant.load_copy(tenant).collection, limit=100)
        return {point.id: point.payload for point in points}
    finally:
        client.close()


def searching(tenant, chosen: Qdrant, clock=lambda: 0.0) -> QdrantSearch:
    search = QdrantSearch(chosen, tenant, clock)
    search.connect().result(60)
    return search


# the contract


def test_a_point_names_its_memory_and_the_hash_of_its_text(chosen, tenant, said):
    said()
    assert vector_copy.sync(tenant, chosen) == len(TEXTS)
    assert points(chosen, tenant) == dict(enumerate(TEXTS))
    assert payloads(chosen, tenant)[2] == {
        "memory": TEXTS[2],
        "text_hash": text_hash(TEXTS[2]).hex(),
    }


def test_only_what_changed_is_written_again(chosen, tenant, log, said):
    said()
    vector_copy.sync(tenant, chosen)
    assert vector_copy.sync(tenant, chosen) == 0
    commands.revise(log, TEXTS[2], Revised(content="the cache is warm"), NOW)
    commands.forget(log, TEXTS[1], NOW)
    said()
    assert vector_copy.sync(tenant, chosen) == 2
    assert sorted(points(chosen, tenant)) == [0, 2, 3, 4]


def test_another_models_vectors_take_the_place_of_all(chosen, tenant, log, said):
    class Other(LexicalEmbedder):
        model = "other-1"

    said()
    vector_copy.sync(tenant, chosen)
    before = qdrant.load_copy(tenant).collection
    build.rebuild(tenant, log, Other(), NOW)
    assert vector_copy.sync(tenant, chosen) == len(TEXTS)
    client = qdrant.connect(chosen, 5)
    assert before not in [collection.name for collection in client.get_collections().collections]
    client.close()


@pytest.mark.parametrize(("share", "is_searched"), [(1.0, True), (0.9, True), (0.3, False)])
def test_the_nearest_are_those_of_our_own_scan(
    chosen, tenant, log, share: float, is_searched: bool
):
    rng = np.random.default_rng(7)
    vectors = rng.normal(size=(6_000, 16)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    rows, mask = VectorRows.of(vectors), rng.random(len(vectors)) < share
    name = qdrant.collection_prefix(tenant) + "contract"
    client = qdrant.connect(chosen, 30)
    vector_copy._open_collection(client, tenant, name, 16)
    for start in range(0, len(vectors), 2_000):
        some = np.arange(start, start + 2_000)
        labels = dict.fromkeys(some.tolist(), ("", ""))
        batch = vector_copy._point_structs(vectors.astype(np.float16), some, 0, labels)
        client.upsert(name, batch, wait=True)
    client.close()
    copy = qdrant.Copy(chosen.url, name, ("a",))
    qdrant.copy_file(tenant).write_bytes(msgspec.json.encode(copy))
    search = searching(tenant, chosen)
    agreed = []
    for query in vectors[:20]:
        scan = rows.scan(query)
        best = search.best(scan, ["a"], mask, 10, above=0.0)
        assert (best is not None) == is_searched  # our own scan handles few documents alone
        if best is not None:
            assert mask[best[0]].all()
            agreed.append(len(set(best[0].tolist()) & set(scan.best(mask, 10)[0].tolist())) / 10)
    assert not is_searched or np.mean(agreed) >= 0.95


# outages


@pytest.fixture
def many(tenant, log) -> None:
    """More memories than our own scan handles alone."""
    drafts = [Draft(id=f"m{n}", content=f"note {n} says {n * n}") for n in range(4_200)]
    commands.record_batch(log, [*drafts, Draft(id="a", content="the cache is cold")], NOW)
    build.rebuild(tenant, log, PLAIN, NOW)


def ask(tenant, log, search: QdrantSearch):
    with Reader(tenant, log, PLAIN, qdrant=search).view() as view:
        return recall(view, Question("is the cache cold", Filter(now=NOW), 5))


def test_recall_goes_on_and_says_so_while_it_is_down_and_asks_it_again(
    server, ours, tenant, log, many
):
    vector_copy.sync(tenant, ours)
    now = [0.0]
    search = searching(tenant, ours, lambda: now[0])
    well = ask(tenant, log, search)
    assert server.queries == 1 and not well.is_degraded and well.hits[0].memory.id == "a"
    server.stop()
    for _ in range(2):  # the second is in the pause and sends nothing
        down = ask(tenant, log, search)
        assert [hit.memory.id for hit in down.hits] == [hit.memory.id for hit in well.hits]
        assert down.is_degraded and server.url in down.notices[0]
    server.start()
    now[0] += qdrant.PAUSE_S
    again = ask(tenant, log, search)
    assert again.notices == () and server.queries == 2


def test_nobody_waits_for_one_that_does_not_answer(server, ours, tenant, log, many):
    vector_copy.sync(tenant, ours)
    server.is_mute = True
    search = searching(tenant, msgspec.structs.replace(ours, timeout_s=0.01))
    answer = ask(tenant, log, search)
    assert "no answer within 0.01 s" in answer.notices[0] and answer.hits[0].memory.id == "a"


def test_dagsters_build_writes_it_as_well(server, tenant, said, ours):
    settings = Settings(tenant.root.parents[1], Choices(qdrant=ours))
    said()
    in_process.build(settings, tenant.name, lambda event: None)
    assert points(ours, tenant) == dict(enumerate(TEXTS))


def test_a_build_that_it_missed_is_caught_up_by_the_next(server, home, tenant, log, said, ours):
    settings = Settings(tenant.root.parents[1], Choices(qdrant=ours))
    said()
    runner.build(settings, tenant.name, lambda event: None)
    assert points(ours, tenant) == dict(enumerate(TEXTS))
    server.stop()
    commands.record(log, Draft(id="new", content="the fan is quiet now"), NOW)
    runner.build(settings, tenant.name, lambda event: None)
    assert not vector_copy.is_in_step(tenant, ours)
    notices = ask(tenant, log, searching(tenant, ours)).notices
    assert [notice for notice in notices if "another build: `mnemolog build`" in notice]
    assert said_behind(home, server.url) == (True, True)
    server.start()
    runner.build(settings, tenant.name, lambda event: None)
    assert vector_copy.is_in_step(tenant, ours) and points(ours, tenant)[5] == "new"
    assert said_behind(home, server.url) == (False, False)


def said_behind(home, url: str) -> tuple[bool, bool]:
    """Return two flags: `status` and `doctor` report that the copy is behind."""
    (home / "config.toml").write_text(f'[qdrant]\nurl = "{url}"\n')
    result = CliRunner().invoke(main, ["status"])
    assert result.exit_code == 0
    findings = json.loads(CliRunner().invoke(main, ["doctor", "--json"]).output)["findings"]
    [problem] = [
        finding for finding in findings if finding["what"].startswith("the copy of the vectors")
    ]
    is_behind = problem["severity"] == "warn"
    assert ("mnemolog build" in problem["cure"]) == is_behind
    return "behind    the copy of the vectors in Qdrant" in result.output, is_behind


def test_one_that_lost_its_disk_gets_all_again(server, ours, tenant, said):
    said()
    vector_copy.sync(tenant, ours)
    server.held.delete_collection(server.collections[0])
    assert vector_copy.sync(tenant, ours) == len(TEXTS)


# erasing


def test_an_erasing_drops_the_collection_once_it_can(server, ours, tenant, said):
    said()
    vector_copy.sync(tenant, ours)
    server.stop()
    with pytest.raises(VectorStoreError, match=server.url):
        vector_copy.drop(tenant, ours)
    assert qdrant.load_copy(tenant).is_unwanted
    server.start()
    from qdrant_client.models import Distance, VectorParams

    params = VectorParams(size=2, distance=Distance.DOT)
    server.held.create_collection("another's", params)
    assert vector_copy.sync(tenant, ours) == len(TEXTS)  # written anew
    vector_copy.drop(tenant, ours)
    assert server.collections == ["another's"] and qdrant.load_copy(tenant) is None


@pytest.mark.usefixtures("jobs_here")
def test_what_is_erased_is_gone_from_it_too(server, ours, home, tenant, log, said, monkeypatch):
    (home / "config.toml").write_text(f'[qdrant]\nurl = "{server.url}"\n')
    said()
    vector_copy.sync(tenant, ours)
    dropped = server.held.delete_collection
    names: list[str] = []
    monkeypatch.setattr(
        server.held, "delete_collection", lambda name: names.append(name) or dropped(name)
    )
    result = CliRunner().invoke(main, ["erase", TEXTS[1], "--yes"])
    assert result.exit_code == 0, result.output
    assert names and sorted(points(ours, tenant)) == [0, 2, 3, 4]
    server.stop()
    result = CliRunner().invoke(main, ["erase", TEXTS[3], "--yes"])
    assert result.exit_code == 1 and "in Qdrant still holds what was erased" in " ".join(
        result.output.split()
    )
    assert qdrant.load_copy(tenant).is_unwanted
    server.start()


def test_a_folder_is_no_address():
    with pytest.raises(ConfigError, match="local mode is not taken"):
        change_choices(Choices(), {"qdrant.url": "/var/lib/qdrant"})
