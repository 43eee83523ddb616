"""A request sent again with its key is carried out once, whatever happened in between."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from api_client import NOW, TOKEN, Api, held

from serve.api.operation import Call, Nothing, Service
from serve.api.preconditions import derive_id
from serve.app import create_app
from serve.server.callers import Caller
from serve.server.open_tenants import OpenTenants
from store.home import tenant
from store.home.config import Settings
from store.log.event_log import EventLog

KEY = '"8e03978e-40d5-43e8-bc93-6894a57f9324"'
NOTE = {"content": "loginHandler rejects expired sessions", "metadata": {"pr": 12, "by": "eva"}}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for name in ("default", "work"):
        EventLog(tenant.tenant(tmp_path, name).log, create=True).close()
    return tmp_path


@pytest.fixture
def tenants(home: Path) -> Iterator[OpenTenants]:
    opened = OpenTenants(Settings(home))
    yield opened
    opened.close()


@pytest.fixture
def api(tenants: OpenTenants) -> Api:
    return Api(create_app(tenants, TOKEN, lambda: NOW).test_client())


@pytest.fixture
def log(tenants: OpenTenants) -> EventLog:
    return tenants.get("default").log


def test_a_retry_is_the_same_memory(api: Api, log: EventLog):
    first = api.post("/v1/memories", NOTE, Idempotency_Key=KEY)
    again = api.post("/v1/memories", NOTE, Idempotency_Key=KEY)
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json == first.json | {"new": False}
    assert "Idempotency-Replayed" not in first.headers
    assert again.headers["Idempotency-Replayed"] == "true"
    assert log.head() == 1


def test_a_retry_after_a_restart_of_the_server_is_the_same_memory(api: Api, home: Path):
    first = api.ok("POST", "/v1/memories", NOTE, Idempotency_Key=KEY)
    restarted = OpenTenants(Settings(home))
    later = Api(create_app(restarted, TOKEN, lambda: NOW + 86_400_000_000).test_client())
    again = later.ok("POST", "/v1/memories", NOTE, Idempotency_Key=KEY)
    assert again == first | {"new": False}
    restarted.close()


def test_json_formatting_does_not_make_another_request(api: Api):
    api.ok("POST", "/v1/memories", NOTE, Idempotency_Key=KEY)
    turned = {"metadata": {"by": "eva", "pr": 12}, "content": NOTE["content"], "kind": "fact"}
    spaced = json.dumps(turned, indent=4).encode()
    assert api.ok("POST", "/v1/memories", spaced, Idempotency_Key=KEY)["new"] is False


@pytest.mark.parametrize(
    "other",
    [
        {"content": "loginHandler accepts expired sessions"},
        NOTE | {"kind": "lesson"},
        NOTE | {"agent": "claude"},
        NOTE | {"trust": "web"},
        NOTE | {"session": "s1"},
    ],
)
def test_a_key_is_good_for_one_request(api: Api, log: EventLog, other: dict[str, object]):
    api.ok("POST", "/v1/memories", NOTE, Idempotency_Key=KEY)
    refused = api.problem("POST", "/v1/memories", other, Idempotency_Key=KEY)
    assert refused == (422, "idempotency_mismatch")
    assert log.head() == 1


def test_of_concurrent_requests_with_one_key_one_is_executed(api: Api, log: EventLog):
    """All wait for the log before any of them has written."""
    answers = []

    def record(content: str) -> None:
        client = Api(api.client.application.test_client())
        answers.append(client.post("/v1/memories", {"content": content}, Idempotency_Key=KEY))

    texts = [f"note {n // 2} about tides" for n in range(8)]  # each twice
    writers = [threading.Thread(target=record, args=(text,)) for text in texts]
    with held(log.path):
        for writer in writers:
            writer.start()
        writers[0].join(0.3)
    for writer in writers:
        writer.join()
    assert sorted(answer.status_code for answer in answers) == [200, 201] + [422] * 6
    assert log.head() == 1


def test_a_refused_request_does_not_use_up_its_key(api: Api):
    assert api.problem("POST", "/v1/memories", {"content": "todo"}, Idempotency_Key=KEY)[0] == 400
    assert api.ok("POST", "/v1/memories", NOTE, Idempotency_Key=KEY)["new"]


def test_a_batch_sent_again_adds_nothing(api: Api, log: EventLog):
    batch = {"memories": [NOTE, {"content": "the deploy runs at noon"}, {"id": "own"} | NOTE]}
    first = api.ok("POST", "/v1/memories/batch", batch, Idempotency_Key=KEY)
    again = api.post("/v1/memories/batch", batch, Idempotency_Key=KEY)
    assert again.headers["Idempotency-Replayed"] == "true"
    assert [memory | {"new": True} for memory in again.json["memories"]] == first["memories"]
    assert not any(memory["new"] for memory in again.json["memories"])
    assert log.head() == 3


def test_a_longer_or_shorter_batch_is_another_request(api: Api, log: EventLog):
    notes = [{"content": f"note {n} about tides"} for n in range(3)]
    api.ok("POST", "/v1/memories/batch", {"memories": notes[:2]}, Idempotency_Key=KEY)
    for other in (notes, notes[:1], notes[1::-1]):
        refused = api.problem(
            "POST", "/v1/memories/batch", {"memories": other}, Idempotency_Key=KEY
        )
        assert refused == (422, "idempotency_mismatch")
    assert log.head() == 2


def test_an_explicit_id_beats_the_key(api: Api, log: EventLog):
    own = {"id": "n1"} | NOTE
    assert api.ok("POST", "/v1/memories", own, Idempotency_Key=KEY)["id"] == "n1"
    assert api.ok("POST", "/v1/memories", own, Idempotency_Key=KEY)["new"] is False
    changed = own | {"content": "the deploy runs at noon"}
    refused = api.problem("POST", "/v1/memories", changed, Idempotency_Key=KEY)
    assert refused == (409, "id_conflict")


@pytest.mark.parametrize(
    ("path", "body", "other"),
    [
        ("/v1/rate", {"id": "n1", "verdict": 1}, {"id": "n1", "verdict": -1}),
        ("/v1/memories/n1/archive", {}, {"reason": "old"}),
        ("/v1/memories/n1/restore", {}, {"reason": "right"}),
        ("/v1/memories/n1/supersede", {"by": "n2"}, {"by": "n2", "reason": "newer"}),
        (
            "/v1/memories/n1/links",
            {"target": "n2", "relation": "cause"},
            {"target": "n2", "relation": "support"},
        ),
    ],
)
def test_whatever_a_post_writes_is_written_once(
    api: Api, log: EventLog, path: str, body: dict[str, object], other: dict[str, object]
):
    for id_ in ("n1", "n2"):
        api.ok("POST", "/v1/memories", {"id": id_, "content": f"{id_} is about tides"})
    first = api.post(path, body, Idempotency_Key=KEY)
    again = api.post(path, body, Idempotency_Key=KEY)
    assert first.status_code in (200, 201)
    assert again.headers["Idempotency-Replayed"] == "true"
    assert log.head() == 3
    assert api.problem("POST", path, other, Idempotency_Key=KEY) == (422, "idempotency_mismatch")


def test_a_retry_need_not_match_what_it_changed_itself(api: Api):
    tag = api.post("/v1/memories", {"id": "n1"} | NOTE).headers["ETag"]
    for _ in range(2):
        sent = {"Idempotency_Key": KEY, "If_Match": tag}
        assert api.ok("POST", "/v1/memories/n1/archive", {}, **sent)["state"] == "archived"


def test_a_key_is_scoped_to_its_memory(api: Api):
    for id_ in ("n1", "n2"):
        api.ok("POST", "/v1/memories", {"id": id_, "content": f"{id_} is about tides"})
    api.ok("POST", "/v1/memories/n1/archive", {}, Idempotency_Key=KEY)
    refused = api.problem("POST", "/v1/memories/n2/archive", {}, Idempotency_Key=KEY)
    assert refused == (422, "idempotency_mismatch")


@pytest.mark.parametrize(
    "key", ["a", "8e03978e-40d5", '"with space"', '"\\"quoted\\\\"', "x" * 255]
)
def test_a_key_may_be_quoted_or_bare(api: Api, key: str):
    assert api.ok("POST", "/v1/memories", NOTE, Idempotency_Key=key)["new"]
    assert not api.ok("POST", "/v1/memories", NOTE, Idempotency_Key=key)["new"]


def test_quotes_are_no_part_of_a_key(api: Api):
    assert api.ok("POST", "/v1/memories", NOTE, Idempotency_Key="k1")["new"]
    assert not api.ok("POST", "/v1/memories", NOTE, Idempotency_Key='"k1"')["new"]


@pytest.mark.parametrize(
    "key",
    ["", '""', '"open', "two words", "a,b", "x" * 256, "ключ".encode().decode("latin-1"), '"a\\b"'],
)
def test_an_invalid_key_is_refused(api: Api, log: EventLog, key: str):
    refused = api.problem("POST", "/v1/memories", NOTE, Idempotency_Key=key)
    assert refused == (400, "invalid_input")
    assert log.head() == 0


def test_ids_of_a_key_differ_by_caller_tenant_and_path(tenants: OpenTenants):
    service = Service(tenants, lambda: NOW)

    def id_of(who: str, named: str, place: str, key: str = KEY) -> str | None:
        caller = Caller(who, named, frozenset({"write"}), f"id-of-{who}")
        call = Call(service, caller, {}, Nothing(), Nothing(), lambda name: key)
        return derive_id(call, place)

    asked = [("eva", "default", "a"), ("tom", "default", "a"), ("eva", "work", "a")]
    asked += [("eva", "default", "b")]
    ids = {id_of(*request) for request in asked} | {id_of("eva", "default", "a", "other")}
    assert len(ids) == 5
    assert id_of("eva", "default", "a") == id_of("eva", "default", "a")
    assert len({id_[:16] for id_ in ids if id_}) == 5
