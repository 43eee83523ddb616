"""POST /v1/memories/search: every option of a recall, at the address of the searched memories."""

import pytest
from api_client import TOKEN, Api
from conftest import NOW

from serve.app import create_app
from serve.server.open_tenants import OpenTenants

SEARCH = "/v1/memories/search"


@pytest.fixture
def api(built_tenants: OpenTenants) -> Api:
    return Api(create_app(built_tenants, TOKEN, lambda: NOW + 1_000_000).test_client())


def ids(api: Api, query: str, **asked: object) -> list[str]:
    body = {"query": query, "min_confidence": 0, "top_k": 50, "touch": False, **asked}
    return [hit["id"] for hit in api.ok("POST", SEARCH, body)["hits"]]


ASKED = [
    {},
    {"top_k": 2},
    {"mode": "lexical"},
    {"mode": "vector"},
    {"mode": "entity"},
    {"profile": "match"},
    {"profile": "wal"},
    {"kinds": ["goal"]},
    {"tiers": ["semantic"]},
    {"tags": ["team"]},
    {"project": "acme/web"},
    {"since": "2026-01-01T00:00:00Z", "until": "2027-01-01T00:00:00Z"},
    {"active_only": False},
    {"cold": True},
    {"as_of": "2026-09-21T00:00:00Z"},
    {"min_confidence": 0.4},
    {"min_score": 0.1},
    {"explain": True},
]


@pytest.mark.parametrize("asked", ASKED, ids=str)
def test_a_search_answers_what_a_recall_answers(api: Api, asked: dict[str, object]):
    body = {"query": "where do we deploy the queue", "touch": False, **asked}
    found, recalled = (api.ok("POST", path, body) for path in (SEARCH, "/v1/recall"))
    for answer in (found, recalled):  # all but the time taken
        del answer["took_ms"]
        answer.get("why", {}).pop("took_us", None)
    assert found == recalled


def test_each_filter_of_a_search_filters(api: Api):
    assert ids(api, "queue", kinds=["goal"]) == ["g2"]
    assert ids(api, "we deploy", tags=["team"], kinds=["goal"]) == []
    assert "p1" in ids(api, "web client", project="acme/web")
    assert "p1" not in ids(api, "web client", project="acme/api")
    assert ids(api, "queue", until="2020-01-01T00:00:00Z") == []
    assert "m19" in ids(api, "Redis queue Postgres", cold=True)
    assert "m19" not in ids(api, "Redis queue Postgres")
    assert "k1" in ids(api, "deploy us-east-1", active_only=False)


@pytest.mark.parametrize(
    ("asked", "hint"),
    [
        ({"query": "zzyzx", "mode": "lexical"}, "shares a word with the question"),
        ({"query": "queue", "project": "acme/none", "tags": ["none"]}, "(project, tags)"),
        ({"query": "queue", "until": "2020-01-01T00:00:00Z"}, "(until). Leave one out"),
        ({"query": "queue", "min_confidence": 1.0}, "below min_confidence 1.00, the nearest at"),
        ({"query": "queue", "min_score": 99}, "below min_score. Lower it."),
    ],
)
def test_an_answer_without_hits_says_why(api: Api, asked: dict[str, object], hint: str):
    payload = api.ok("POST", SEARCH, asked)
    assert payload["hits"] == [] and hint in payload["hint"] and not payload["degraded"]


def test_a_floor_under_the_score_keeps_hits_back(api: Api):
    body = {"query": "queue", "min_confidence": 0, "touch": False}
    scores = [hit["score"] for hit in api.ok("POST", SEARCH, body)["hits"]]
    hits = api.ok("POST", SEARCH, body | {"min_score": scores[1]})["hits"]
    assert [hit["score"] for hit in hits] == [score for score in scores if score >= scores[1]]
    assert api.problem("POST", SEARCH, body | {"min_score": -1}) == (400, "invalid_input")


def test_a_search_can_be_explained_and_leaves_a_receipt(api: Api):
    payload = api.ok("POST", SEARCH, {"query": "deploy region", "explain": True})
    assert payload["why"]["dropped"].keys() <= {"below_bar", "below_score", "folded", "over_top_k"}
    assert payload["hits"][0]["why"]["channels"]
    assert api.ok("POST", "/v1/rate", {"id": payload["recall"], "verdict": 1})["id"]
