"""The history of a key and of a memory: every value with its start and end, newest first."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from command_line import answer, run

from serve.app import create_app
from serve.server.open_tenants import OpenTenants
from store.embedders.lexical import LexicalEmbedder
from store.home.config import Settings
from store.home.tenant import tenant
from store.log.event_log import EventLog
from store.maintenance import build

VALUES = ((1, "us"), (3, "eu"), (5, "ap"))
DRAFTS = [
    {
        "id": region,
        "content": f"We deploy to {region}",
        "key": "deploy.region",
        "value": region,
        "created_at": f"2024-0{month}-01T00:00:00Z",
        "session": f"s-{region}",
        "source": "chat",
    }
    for month, region in VALUES
] + [
    {"id": "shop", "content": "We deploy to mars", "key": "deploy.region", "project": "acme/shop"},
    {"id": "a", "content": "The first plan was Redis"},
    {"id": "b", "content": "The second plan was Kafka"},
    {"id": "c", "content": "The third plan was Postgres"},
]


def ids(payload: dict) -> list[str]:
    return [memory["id"] for memory in payload["memories"]]


@pytest.fixture(params=["tail", "built"], autouse=True)
def memory(request: pytest.FixtureRequest, home: Path, tmp_path: Path, monkeypatch) -> None:
    """A key with three values, another project's value of it, and a chain of three plans."""
    monkeypatch.chdir(tmp_path)
    assert run("record", "--batch", stdin="\n".join(map(json.dumps, DRAFTS))).exit_code == 0
    run("supersede", "a", "--by", "b")
    if request.param == "built":
        with EventLog(tenant(home).log) as log:
            build.rebuild(tenant(home), log, LexicalEmbedder(), time.time_ns() // 1000)
    run("supersede", "b", "--by", "c")


def test_a_key_has_all_its_values_newest_first():
    payload = answer("history", "deploy.region", "--project", "acme/web")
    assert ids(payload) == ["ap", "eu", "us"]
    fields = [
        [memory[name] for name in ("value", "from", "until", "source", "session")]
        for memory in payload["memories"][:2]
    ]
    assert fields == [
        ["ap", "2024-05-01T00:00:00Z", None, "chat", "s-ap"],
        ["eu", "2024-03-01T00:00:00Z", "2024-05-01T00:00:00Z", "chat", "s-eu"],
    ]


def test_a_project_has_a_history_of_its_own():
    assert ids(answer("history", "deploy.region", "--project", "acme/shop"))[0] == "shop"
    assert len(ids(answer("history", "deploy.region", "--all-projects"))) == 4


def test_people_read_it_as_a_table():
    lines = [line.split() for line in run("history", "deploy.region").stdout.splitlines()]
    source = ["chat", "s-eu", "We", "deploy", "to", "eu"]
    ended = ["2024-03-01", "00:00", "2024-05-01", "00:00", "eu", "superseded", "eu", *source]
    assert ended in lines
    assert any(line[:5] == ["2024-05-01", "00:00", "now", "ap", "active"] for line in lines)


@pytest.mark.parametrize(("of", "chain"), [("a", "cba"), ("b", "cba"), ("c", "cba"), ("us", None)])
def test_the_history_of_a_memory_has_its_predecessors_and_successors(of: str, chain: str | None):
    payload = answer("history", of)
    assert payload["id"] == of
    assert sorted(ids(payload)) == sorted(chain or ["us", "eu", "ap"])


def test_a_forgotten_value_is_listed_without_its_text():
    run("forget", "eu")
    memories = answer("history", "deploy.region")["memories"]
    assert [memory["text"] for memory in memories if memory["id"] == "eu"] == [""]
    assert "(forgotten)" in (output := run("history", "deploy.region").stdout)
    assert "We deploy to eu" not in output


def test_memories_that_replaced_each_other_end_the_walk():
    run("supersede", "c", "--by", "a")
    assert sorted(ids(answer("history", "b"))) == ["a", "b", "c"]


def test_a_name_nobody_used_is_not_found():
    result = run("history", "no.such")
    assert result.exit_code == 3
    assert "no key or memory 'no.such' here" in result.stderr


def test_http_returns_the_same_history(home: Path):
    opened = OpenTenants(Settings(home))
    client = create_app(opened, "token").test_client()

    def get(path: str) -> Any:
        return client.get(path, headers={"Host": "localhost", "Authorization": "Bearer token"})

    assert get("/v1/keys/deploy.region/history?project=acme/web").json == answer(
        "history", "deploy.region", "--project", "acme/web"
    )
    assert get("/v1/memories/b/history").json == answer("history", "b")
    missing = ("/v1/keys/no.such/history", "/v1/memories/nobody/history")
    assert [get(path).status_code for path in missing] == [404, 404]
    opened.close()
