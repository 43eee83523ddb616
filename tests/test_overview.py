"""The overview of a topic and the timeline, over the CLI and HTTP; no model takes part."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from serve.app import create_app
from serve.cli import main
from serve.server.open_tenants import OpenTenants
from store.embedders.lexical import LexicalEmbedder
from store.home.config import Settings
from store.home.tenant import tenant
from store.log.event_log import EventLog
from store.maintenance import build


def draft(id_: str, day: int, content: str, kind: str = "fact", **fields: str) -> dict[str, str]:
    at = f"2024-03-{day:02}T09:00:00Z"
    return {"id": id_, "content": content, "kind": kind, "created_at": at, **fields}


DRAFTS = [
    draft("us", 1, "We deploy to us", key="deploy.region", value="us"),
    draft("eu", 9, "We deploy to eu", key="deploy.region", value="eu"),
    draft("rule", 5, "Never deploy on fridays", "lesson", created_by="Anna Smith"),
    draft("page", 5, "Always deploy on fridays", "lesson", trust="web"),
    draft("goal", 3, "Deploy with `store/log.py` in one step", "goal"),
    draft("done", 2, "Deploy without downtime", "goal", status="done"),
    draft("two", 4, "A deploy needs two approvals", "decision"),
    draft("long", 8, "Anna Smith timed a deploy: " + "long " * 200, created_by="Anna Smith"),
    draft("cat", 6, "The office cat sleeps on the printer"),
]


def run(*words: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(main, words, input=stdin)


def answer(*words: str) -> Any:
    result = run(*words, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def ids(memories: list[dict]) -> list[str]:
    return sorted(memory["id"] for memory in memories)


def record(*drafts: dict[str, str]) -> None:
    assert run("record", "--batch", stdin="\n".join(map(json.dumps, drafts))).exit_code == 0


@pytest.fixture(params=["tail", "built"], autouse=True)
def memory(request: pytest.FixtureRequest, home: Path, tmp_path: Path, monkeypatch) -> None:
    """A team's memories of its deploys, and one about something else."""
    monkeypatch.chdir(tmp_path)
    record(*DRAFTS)
    if request.param == "built":
        with EventLog(tenant(home).log) as log:
            build.rebuild(tenant(home), log, LexicalEmbedder(), time.time_ns() // 1000)


def test_each_memory_is_in_the_group_it_belongs_to():
    overview = answer("overview", "deploy")
    groups = {name: ids(overview[name]) for name in ("now", "rules", "goals", "background")}
    assert groups == {
        "now": ["eu", "two"],
        "rules": ["rule"],
        "goals": ["goal"],
        "background": ["done", "long", "page"],
    }
    assert [memory["id"] for memory in overview["replaced"]] == ["us"]
    assert overview["found"] == 7


def test_the_timeline_of_a_topic_is_oldest_first():
    days = [memory["at"][8:10] for memory in answer("overview", "deploy")["timeline"]]
    assert days == ["02", "03", "04", "05", "05", "08", "09"]


def test_the_most_mentioned_entities_come_first():
    names = answer("overview", "deploy")["names"]
    assert names[0] == {"kind": "person", "name": "anna smith", "memories": 2}
    assert {"kind": "file", "name": "store/log.py", "memories": 1} in names


def test_an_overview_is_bounded():
    record(*(draft(f"n{n:02}", 7, f"Deploy number {n} went to eu") for n in range(80)))
    overview = answer("overview", "deploy")
    assert overview["found"] == 50
    assert (len(overview["background"]), len(overview["timeline"])) == (10, 20)
    assert (
        max(len(memory["text"]) for memory in overview["background"] + overview["timeline"]) <= 300
    )


def test_the_same_topic_gives_the_same_overview():
    first = run("overview", "deploy", "--json").stdout
    run("recall", "deploy")
    assert run("overview", "deploy", "--json").stdout == first


def test_people_read_the_rules_apart():
    output = run("overview", "deploy").stdout
    rules, _, rest = output.partition("\nCurrent")
    assert "Never deploy on fridays" in rules and "Always deploy on fridays" not in rules
    assert "2024-03-01 until 2024-03-09" in rest.partition("\nReplaced")[2]


def test_an_unknown_topic_has_an_empty_overview():
    overview = answer("overview", "zeppelin", "hangar")
    assert overview["found"] == 0 and not overview["timeline"] and not overview["names"]
    assert run("overview", "zeppelin").stdout == "zeppelin: 0 memories\n"


def test_the_timeline_takes_a_topic_or_a_period_or_both():
    assert [memory["id"] for memory in answer("timeline", "--until", "2024-03-04")["memories"]] == [
        "done",
        "goal",
    ]
    assert ids(answer("timeline", "--limit", "2")["memories"]) == ["eu", "long"]
    assert ids(answer("timeline", "deploy", "--since", "2024-03-06")["memories"]) == ["eu", "long"]
    lines = run("timeline", "office cat").stdout.splitlines()
    assert lines[0] == "2024-03-06" and lines[1].split()[:3] == ["09:00", "fact", "cat"]
    assert run("timeline", "--since", "1d").stdout == "no matching memories\n"


def test_http_returns_the_same_overview(home: Path):
    opened = OpenTenants(Settings(home))
    client = create_app(opened, "token").test_client()
    headers = {"Host": "localhost", "Authorization": "Bearer token"}
    response = client.get("/v1/overview?topic=deploy", headers=headers)
    assert response.json == answer("overview", "deploy")
    assert client.get("/v1/overview", headers=headers).status_code == 400
    opened.close()
