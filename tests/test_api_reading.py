"""Goals, facts, conflicts and the graph over HTTP, in their declared shapes."""

from typing import Any

import msgspec
import pytest
from flask.testing import FlaskClient

from serve.api.blueprint import OPERATIONS
from serve.app import create_app
from serve.server.open_tenants import OpenTenants
from store.log import commands
from store.log.commands import Draft
from store.log.event_kinds import Revised

NOW = 1_790_000_000_000_000
OURS = {"Host": "127.0.0.1", "Authorization": "Bearer owner"}
SHAPES = {operation.id: operation.answers[min(operation.answers)] for operation in OPERATIONS}


@pytest.fixture
def client(built, built_tenants: OpenTenants) -> FlaskClient:
    drafts = [
        Draft(id="e1", content="store/log.py opens the log with apsw in src/store/log.py"),
        Draft(
            id="e2",
            content="store/log.py and store/errors.py raise LogBusy",
            project="acme/web",
        ),
        Draft(id="e3", content="store/errors.py holds LogBusy and PlanStale"),
        Draft(id="g3", kind="goal", content="Ship it", metadata={"due": "2026-01-02"}),
        Draft(id="g4", kind="goal", content="Wait for legal", status="blocked"),
        Draft(id="k3", key="deploy.region", value="ap", content="Now in ap", created_by="bo"),
    ]
    commands.record_batch(built.log, drafts, NOW)
    commands.link(built.log, "m00", "m01", "conflict", NOW)
    built.rebuild()
    return create_app(built_tenants, "owner", lambda: NOW + 60_000_000).test_client()


def get(client: FlaskClient, path: str, operation: str | None = None) -> Any:
    """Return an answer, checked against the shape that its operation declares."""
    answer = client.get(path, headers=OURS)
    assert answer.status_code == 200, answer.json
    if operation:
        msgspec.convert(answer.json, SHAPES[operation])
    return answer.json


def test_goals_are_those_not_yet_reached_unless_others_are_asked_for(client: FlaskClient):
    def ids(query: str = "") -> list[str]:
        return [goal["id"] for goal in get(client, f"/v1/goals{query}", "listGoals")["goals"]]

    assert ids() == ["g3", "g4", "g1"]
    assert ids("?state=done") == ["g2"]
    assert sorted(ids("?state=all")) == ["g1", "g2", "g3", "g4"]
    payload = get(client, "/v1/goals")
    assert payload["goals"][0]["overdue"] is True
    assert [milestone["id"] for milestone in payload["chains"]["queue"]] == ["s1", "s2"]


def test_facts_are_those_that_hold_or_held(client: FlaskClient):
    def values(query: str = "") -> list[str]:
        return [fact["value"] for fact in get(client, f"/v1/facts{query}", "listFacts")["facts"]]

    assert values("?entity=deploy") == ["ap"]
    assert sorted(values("?entity=deploy&all=true")) == ["ap", "eu", "us"]
    assert values("?as_of=2020-01-01") == []
    assert get(client, "/v1/facts?all=true&limit=1")["more"] == 2
    refused = client.get(
        "/v1/facts?all=true&as_of=soon", headers=OURS
    )  # checked even if `all` makes it irrelevant
    assert (refused.status_code, refused.json["code"]) == (400, "invalid_input")


def test_conflicts_tell_both_sides_and_what_settles_them(client: FlaskClient):
    payload = get(client, "/v1/conflicts", "listConflicts")
    (linked,) = [conflict for conflict in payload["conflicts"] if conflict["what"] == "linked"]
    assert {side["id"] for side in linked["sides"]} == {"m00", "m01"} and linked["settle"]
    assert payload["compared_all"] is True


def test_a_neighbourhood_has_what_is_mentioned_with_an_entity(client: FlaskClient):
    payload = get(client, "/v1/graph?entity=store/log.py", "getNeighbourhood")
    assert payload["centre"][0] == "file:store/log.py"
    names = {node["name"] for node in payload["nodes"]}
    assert "store/errors.py" in names and "LogBusy" in names
    assert all({edge["source"], edge["target"]} <= {n["id"] for n in payload["nodes"]}
               for edge in payload["edges"])  # fmt: skip
    assert {"e1", "e2"} <= {memory["id"] for memory in payload["memories"]}


def test_a_second_hop_reaches_further_and_the_limit_holds(client: FlaskClient):
    one = get(client, "/v1/graph?entity=store/log.py&hops=1")
    two = get(client, "/v1/graph?entity=store/log.py&hops=2")
    assert "PlanStale" not in {node["name"] for node in one["nodes"]}
    assert "PlanStale" in {node["name"] for node in two["nodes"]}
    assert len(get(client, "/v1/graph?entity=store/log.py&hops=2&limit=3")["nodes"]) == 3


def test_an_entity_is_found_by_an_alias_and_by_how_it_begins(client: FlaskClient):
    assert "file:store/errors.py" in get(client, "/v1/graph?entity=errors.py")["centre"]
    found = get(client, "/v1/entities?prefix=store/", "listEntities")["entities"]
    assert {"store/log.py", "store/errors.py"} <= {entity["name"] for entity in found}
    assert get(client, "/v1/entities?prefix=STORE/L")["entities"][0]["name"] == "store/log.py"
    assert len(get(client, "/v1/entities?limit=5")["entities"]) == 5
    assert get(client, "/v1/entities?prefix=nobody-is-called-so")["entities"] == []


def test_what_was_just_written_is_among_the_memories_of_an_entity(built, client: FlaskClient):
    commands.record(built.log, Draft(id="new", content="store/log.py is read anew"), NOW + 1)
    commands.forget(built.log, "e1", NOW + 2)
    commands.revise(built.log, "e2", Revised(content="Nothing of a file any more"), NOW + 3)
    ids = [memory["id"] for memory in get(client, "/v1/graph?entity=store/log.py")["memories"]]
    assert "new" in ids and not {"e1", "e2"} & set(ids)


def test_an_unknown_entity_is_not_found(client: FlaskClient):
    answer = client.get("/v1/graph?entity=nobody", headers=OURS)
    assert (answer.status_code, answer.json["code"]) == (404, "not_found")


@pytest.mark.parametrize(
    ("path", "operation"),
    [
        ("/v1/overview?topic=deploy", "getOverview"),
        ("/v1/digest?since=2026-01-01", "getDigest"),
        ("/v1/digest?since=7d", "getDigest"),
        ("/v1/lessons", "listLessons"),
    ],
)
def test_summaries_are_of_the_shapes_that_are_declared(
    client: FlaskClient, path: str, operation: str
):
    get(client, path, operation)


@pytest.mark.parametrize(
    "query", ["since=2026-13-01", "until=soon", "since=2026-02-01&until=2026-01-01"]
)
def test_an_invalid_period_is_refused(client: FlaskClient, query: str):
    answer = client.get(f"/v1/digest?{query}", headers=OURS)
    assert (answer.status_code, answer.json["code"]) == (400, "invalid_input")
