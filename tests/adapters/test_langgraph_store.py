"""LangGraph's store over a live server: the tests of LangGraph's own stores, then ours."""

import asyncio
import inspect
import time
from contextlib import nullcontext
from types import ModuleType

import pytest
from langgraph.store.base import PutOp
from mnemolog import Client
from mnemolog.adapters.langgraph import MemoryStore
from sources import load

# tests that do not apply to another kind of store
LEFT_OUT = {
    "test_vector_store_initialization": "its own index",
    "test_nonnull_migrations": "its tables",
    "test_escape_glob_literal": "its SQL",
    "test_namespace_match_pattern": "its SQL",
    "test_list_namespaces_prefix_uses_indexable_condition": "its SQL",
    "test_sql_injection_vulnerability": "it expects an error of SQLite's keys",
    "test_embed_with_path": "it compares distances of its embeddings",
    "test_embed_with_path_operation_config": "it compares distances of its embeddings",
    "test_vector_search_scores_every_item": "distances of its embeddings",
    "test_vector_search_with_filters": "a query brings what bears on it, not every item",
    "test_scores": "distances of its embeddings",
    "test_dedupe_ops_maps_repeated_reads_and_puts_to_one_op": "no store",
    "test_get_text_at_path": "no store",
    "test_validate_op_namespace_allows_empty_prefix_and_wildcards": "no store",
}


def _theirs() -> list[object]:
    cases = []
    for package in ("langgraph_checkpoint", "langgraph_checkpoint_sqlite"):
        module = load(package, "tests/test_store.py")
        for name, test in inspect.getmembers(module, inspect.isfunction):
            takes = set(inspect.signature(test).parameters)
            if name.startswith("test_") and takes <= {"store", "fake_embeddings"}:
                if name in LEFT_OUT or inspect.iscoroutinefunction(test):
                    continue
                cases.append(pytest.param(module, name, id=f"{package}-{name}"))
    return cases


@pytest.fixture
def store(client: Client) -> MemoryStore:
    return MemoryStore(client)


@pytest.mark.parametrize(("module", "name"), _theirs())
def test_what_langgraph_tests_of_its_stores_holds(
    module: ModuleType, name: str, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "InMemoryStore", lambda **of: store, raising=False)
    monkeypatch.setattr(module, "create_vector_store", lambda *of, **by: nullcontext(store), False)
    test = getattr(module, name)
    takes = inspect.signature(test).parameters
    values = {"store": store, "fake_embeddings": module.CharacterEmbeddings(500)}
    test(**{name: values[name] for name in takes})


def test_a_deleted_key_is_put_again(store: MemoryStore):
    store.put(("users", "ana"), "city", {"city": "Oslo"})
    first = store.get(("users", "ana"), "city")
    store.put(("users", "ana"), "city", {"city": "Bergen"})
    changed = store.get(("users", "ana"), "city")
    assert (changed.value, changed.created_at) == ({"city": "Bergen"}, first.created_at)
    assert changed.updated_at >= first.updated_at
    store.delete(("users", "ana"), "city")
    assert store.get(("users", "ana"), "city") is None
    store.put(("users", "ana"), "city", {"city": "Oslo"})
    assert store.get(("users", "ana"), "city").value == {"city": "Oslo"}
    assert [item.key for item in store.search(("users",))] == ["city"]


def test_a_query_finds_what_it_means_within_its_namespace(store: MemoryStore):
    store.put(("users", "ana"), "food", {"memory": "Ana likes pizza with olives"})
    store.put(("users", "ana"), "same", {"memory": "Ana likes pizza with olives"})
    store.put(("users", "bob"), "food", {"memory": "Bob likes pizza with ham"})
    store.put(("users", "ana"), "hidden", {"memory": "Ana hates pizza"}, index=False)
    items = store.search(("users", "ana"), query="which pizza does Ana like")
    assert {item.key for item in items} == {"food", "same"}
    assert all(item.score for item in items)
    some = store.search(
        ("users",), query="pizza", filter={"memory": {"$ne": "Ana likes pizza with olives"}}
    )
    assert [item.namespace for item in some] == [("users", "bob")]


def test_an_item_expires_unless_it_is_read(client: Client):
    store = MemoryStore(client, ttl={"default_ttl": 2 / 60, "refresh_on_read": False})
    store.put(("cache",), "gone", {"value": "soon over"})
    store.put(("cache",), "kept", {"value": "not over"}, ttl=None)
    [newer, older] = sorted(store.search(("cache",)), key=lambda item: item.key, reverse=True)
    assert (newer.key, older.key) == ("kept", "gone")
    [stored] = client.memories.list(text="soon over")
    assert store.get(("cache",), "gone", refresh_ttl=True)
    assert client.memories.get(stored.id).history[-1]["ttl_s"] == 2
    while store.get(("cache",), "gone"):
        time.sleep(0.1)
    assert [item.key for item in store.search(("cache",))] == ["kept"]


def test_projects_and_agents_share_what_they_may(client: Client):
    ours, theirs = MemoryStore(client, project="acme/web"), MemoryStore(client)
    ours.put(("notes",), "a", {"note": "Deploys go out from eu-west-1"})
    assert theirs.get(("notes",), "a") is None
    assert theirs.list_namespaces() == []
    [hit] = client.recall("where do deploys go out from", project="acme/web").hits
    assert hit.metadata["langgraph"]["key"] == "a"


def test_it_is_awaited(store: MemoryStore):
    async def talk() -> None:
        await store.abatch([PutOp(("a", str(number)), "k", {"n": number}) for number in range(5)])
        await asyncio.gather(*(store.aput(("b",), f"k{number}", {"n": 1}) for number in range(5)))
        assert len(await store.asearch(("a",), filter={"n": {"$gte": 2}})) == 3
        assert await store.alist_namespaces(prefix=("b",)) == [("b",)]

    asyncio.run(talk())
