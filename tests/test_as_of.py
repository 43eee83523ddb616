"""Time travel: recall, why and list answer from the state at a moment, over the CLI and HTTP."""

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

DRAFTS = [
    {
        "id": f"p{month}",
        "content": f"The database port is {port}",
        "key": "db.port",
        "value": port,
        "created_at": f"2024-0{month}-01T00:00:00Z",
    }
    for month, port in ((1, "5432"), (3, "5433"), (5, "5434"))
] + [
    {
        "id": "note",
        "content": "The database port is firewalled",
        "created_at": "2024-02-01T00:00:00Z",
    },
    {"id": "gone", "content": "The database port is secret", "created_at": "2024-01-01T00:00:00Z"},
]


def ids(found: dict) -> list[str]:
    return sorted(hit["id"] for hit in found["hits"])


@pytest.fixture(params=["tail", "built"], autouse=True)
def memory(request: pytest.FixtureRequest, home: Path, tmp_path: Path, monkeypatch) -> None:
    """Five memories of one spring, one forgotten; in the log's tail, and built."""
    monkeypatch.chdir(tmp_path)
    answer("record", "--batch", stdin="\n".join(map(json.dumps, DRAFTS)))
    run("forget", "gone")
    if request.param == "built":
        with EventLog(tenant(home).log) as log:
            build.rebuild(tenant(home), log, LexicalEmbedder(), time.time_ns() // 1000)


@pytest.mark.parametrize(
    ("moment", "wanted"),
    [
        ("2023-12-31", []),
        ("2024-01-01", ["p1"]),
        ("2024-02-15", ["note", "p1"]),
        ("2024-03-01", ["note", "p3"]),
        ("2024-06-01", ["note", "p5"]),
        ("1m", ["note", "p5"]),
        ("@1", ["note", "p5"]),
    ],
)
def test_recall_as_of_answers_from_that_moment(moment: str, wanted: list[str]):
    assert ids(answer("recall", "database port", "--as-of", moment)) == wanted
    assert (
        sorted(memory["id"] for memory in answer("list", "--as-of", moment)["memories"]) == wanted
    )


def test_what_held_then_and_ended_since_says_until_when():
    output = run("recall", "database port", "--as-of", "2024-02-15").stdout
    assert "fact  2024-01-01 until 2024-03-01" in output
    hits = answer("recall", "database port", "--as-of", "2024-02-15")["hits"]
    found = {hit["id"]: (hit.get("state"), hit.get("superseded_by")) for hit in hits}
    assert found == {"p1": ("superseded", "p3"), "note": (None, None)}


def test_the_archive_of_then_holds_nothing_that_came_later():
    payload = answer("recall", "database port", "--as-of", "2024-03-15", "--include-archived")
    assert ids(payload) == ["note", "p1", "p3"]


@pytest.mark.parametrize(
    ("id_", "reason"),
    [
        ("p5", "it dates from 2024-05-01T00:00:00Z, after --as-of"),
        ("p1", "it is superseded by p3 since 2024-03-01T00:00:00Z"),
        ("p3", "returned as number"),
        ("gone", "it was forgotten"),
    ],
)
def test_why_as_of_explains_that_moment(id_: str, reason: str):
    assert reason in run("why", "database port", id_, "--as-of", "2024-04-01").stdout


def test_an_unreadable_moment_is_named():
    result = run("recall", "port", "--as-of", "tuesday")
    assert result.exit_code == 2
    assert "'tuesday' is no moment: write 2026-11-20, 7d for a week ago, or @1234" in result.stderr
    result = run("list", "--as-of", "@99")
    assert (result.exit_code, result.stderr.strip()) == (
        2,
        "mnemolog: the log has no event 99: its newest is 6",
    )
    assert run("list", "--as-of", "1d", "--state", "archived").exit_code == 2


def test_http_asks_by_moment_and_by_place_in_the_log(home: Path):
    opened = OpenTenants(Settings(home))
    client = create_app(opened, "token").test_client()
    headers = {"Host": "localhost", "Authorization": "Bearer token"}

    def asked(as_of: object) -> Any:
        body = {"query": "database port", "as_of": as_of}
        return client.post("/v1/recall", json=body, headers=headers)

    assert ids(asked("2024-03-15T00:00:00Z").json) == ["note", "p3"]
    assert ids(asked(2).json) == ["note", "p5"]
    assert [asked(wrong).status_code for wrong in (99, 0, 10**30, "tuesday")] == [400] * 4
    opened.close()
