"""The list of memories over HTTP: its parameters, its cursors, and the errors for bad ones."""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from api_client import NOW, TOKEN, Api

from serve.app import create_app
from serve.server.open_tenants import OpenTenants
from store.home import tenant
from store.home.config import Settings
from store.log.event_log import EventLog

LIST = "/v1/memories"


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    """The API over seven memories of a tenant, and none of another."""
    for name in ("default", "work"):
        EventLog(tenant.tenant(tmp_path, name).log, create=True).close()
    opened = OpenTenants(Settings(tmp_path))
    client = Api(create_app(opened, TOKEN, lambda: NOW).test_client())
    notes = [
        {
            "id": f"n{number}",
            "content": f"note {number} about tides",
            "kind": ("fact", "lesson", "decision")[number % 3],
            "tags": ["sea", "moon"][: number % 3],
            "created_at": f"2026-11-{10 + number}T00:00:00Z",
            "importance": number / 10,
        }
        for number in range(7)
    ]
    client.ok("POST", "/v1/memories/batch", {"memories": notes})
    yield client
    opened.close()


def ids(answer: Any) -> list[str]:
    return [memory["id"] for memory in answer["memories"]]


def test_a_list_continues_at_its_cursor(api: Api):
    first = api.ok("GET", f"{LIST}?limit=3")
    assert (ids(first), first["total"]) == (["n6", "n5", "n4"], 7)
    second = api.ok("GET", f"{LIST}?limit=3&cursor={first['next']}")
    assert (ids(second), second["total"]) == (["n3", "n2", "n1"], 7)
    last = api.ok("GET", f"{LIST}?limit=200&cursor={second['next']}")
    assert (ids(last), last["next"]) == (["n0"], None)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("kind=lesson", "41"),
        ("kind=lesson&kind=decision", "5421"),
        ("tag=sea&tag=moon", "52"),
        ("tier=working", ""),
        ("since=2026-11-12&until=2026-11-15T00:00:00Z", "432"),
        ("sort=created_at&limit=2", "01"),
        ("sort=-importance&limit=2", "65"),
        ("pinned=true", ""),
        ("pinned=false&limit=1", "6"),
        ("state=archived", ""),
        ("key=a.b", ""),
        ("project=acme/web&limit=1", "6"),
        ("text=NOTE+tides&limit=1", "6"),
        ("text=%20&limit=1", "6"),
    ],
)
def test_a_list_is_narrowed_by_its_parameters(api: Api, query: str, expected: str):
    assert ids(api.ok("GET", f"{LIST}?{query}")) == [f"n{number}" for number in expected]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("kind=poem", "invalid_input"),
        ("state=gone", "invalid_input"),
        ("sort=text", "invalid_input"),
        ("sort=importance", "invalid_input"),
        ("limit=0", "invalid_input"),
        ("limit=201", "invalid_input"),
        ("limit=ten", "invalid_input"),
        ("limit=1&limit=2", "invalid_input"),
        ("pinned=maybe", "invalid_input"),
        ("key=nodot", "invalid_input"),
        ("since=lately", "invalid_input"),
        ("since=2026-11-20&until=2026-11-10", "invalid_input"),
        ("colour=red", "invalid_input"),
        ("text=" + "x" * 1_001, "invalid_input"),
        ("project=../x", "invalid_name"),
        ("tenant=../x", "invalid_name"),
    ],
)
def test_an_invalid_parameter_is_refused(api: Api, query: str, expected: str):
    assert api.problem("GET", f"{LIST}?{query}") == (400, expected)


def test_the_list_of_a_tenant_nobody_made_is_not_found(api: Api):
    assert api.problem("GET", f"{LIST}?tenant=nobody") == (404, "not_found")


def made(value: object) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(value)).rstrip(b"=").decode()


@pytest.mark.parametrize(
    "cursor",
    [
        "",
        "x",
        "garbage",
        "%00",
        "%F0%9F%99%82",
        "=",
        "a+b",
        made([1, 2]),
        made([1, 2, 3]),
        made(["1", 2, "x"]),
        made([10**30, 2, "x"]),
        made([1, 10**30, "x"]),
        made({"a": 1}),
        made([1, 2, "otherdigest0"]),
    ],
)
def test_an_invalid_cursor_is_refused(api: Api, cursor: str):
    assert api.problem("GET", f"{LIST}?cursor={cursor}") == (400, "invalid_cursor")


@pytest.mark.parametrize("other", ["kind=fact", "sort=created_at", "state=any", "tenant=work"])
def test_a_cursor_is_valid_for_its_own_list_only(api: Api, other: str):
    cursor = api.ok("GET", f"{LIST}?limit=3")["next"]
    refused = api.problem("GET", f"{LIST}?limit=3&{other}&cursor={cursor}")
    assert refused == (400, "invalid_cursor")


def test_a_cursor_survives_the_loss_of_its_memory(api: Api):
    cursor = api.ok("GET", f"{LIST}?limit=3")["next"]
    for id_ in ("n4", "n3"):
        api.send("DELETE", f"{LIST}/{id_}")
    assert ids(api.ok("GET", f"{LIST}?limit=3&cursor={cursor}")) == ["n2", "n1", "n0"]


def test_a_forgotten_memory_is_listed_as_a_tombstone_where_asked_for(api: Api):
    api.send("DELETE", f"{LIST}/n2")
    assert "n2" not in ids(api.ok("GET", LIST))
    [gone] = api.ok("GET", f"{LIST}?state=forgotten")["memories"]
    assert gone.keys() == {"id", "kind", "project", "at", "state", "text"}
    assert (gone["id"], gone["text"]) == ("n2", "")
    assert api.ok("GET", f"{LIST}?state=any&text=tides")["total"] == 6
