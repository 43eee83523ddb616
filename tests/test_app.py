"""The routes and the request guard before them, asked through Flask's test client."""

import json
import threading
import time
from collections.abc import Iterator
from itertools import product
from typing import Any

import apsw
import msgspec
import pytest
from api_client import NOW, OURS, TOKEN, code
from flask.testing import FlaskClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from werkzeug.test import TestResponse

from serve.app import MAX_BODY, create_app
from serve.server.open_tenants import OpenTenants
from store.log import commands, log_file
from store.log.event_kinds import Revised

NOTE = {"id": "n1", "content": "loginHandler rejects expired sessions", "kind": "lesson"}


@pytest.fixture
def client(tenants: OpenTenants) -> FlaskClient:
    return create_app(tenants, TOKEN, lambda: NOW, hook_deadline_s=30.0).test_client()


def post(client: FlaskClient, path: str, body: object, **headers: str) -> TestResponse:
    """Post JSON as one of our callers would; bytes are sent unchanged."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return client.post(path, data=data, content_type="application/json", headers=OURS | headers)


def get(client: FlaskClient, path: str) -> TestResponse:
    return client.get(path, headers=OURS)


def recall(client: FlaskClient, query: str, **choices: object) -> Any:
    answer = post(client, "/v1/recall", {"query": query, **choices})
    assert answer.status_code == 200, answer.text
    return answer.json


# Accepted requests


def test_health_needs_no_token(client: FlaskClient):
    answer = client.get("/health", headers={"Host": "localhost"})
    assert answer.status_code == 200
    assert answer.json["status"] == "ok"


def test_requests_decode_with_prepared_decoders_only(client: FlaskClient, monkeypatch):
    """msgspec 0.22 crashes if two threads decode a new type at once: its type info is half made."""
    plain = msgspec.json.decode

    def decode(data: bytes, **options: object) -> Any:
        assert "type" not in options
        return plain(data, **options)

    monkeypatch.setattr("msgspec.json.decode", decode)
    assert post(client, "/v1/memories", NOTE).status_code == 201
    assert post(client, "/v1/memories/batch", {"memories": [NOTE]}).status_code == 201
    assert recall(client, "loginHandler")["hits"]


def test_a_memory_is_created_once(client: FlaskClient):
    first = post(client, "/v1/memories", NOTE)
    again = post(client, "/v1/memories", NOTE)
    assert (first.status_code, first.json) == (201, {"id": "n1", "seq": 1, "new": True})
    assert (again.status_code, again.json) == (200, {"id": "n1", "seq": 1, "new": False})


def test_an_id_used_for_another_text_is_a_conflict(client: FlaskClient):
    post(client, "/v1/memories", NOTE)
    other = post(client, "/v1/memories", NOTE | {"content": "something else entirely"})
    assert code(other) == (409, "id_conflict")
    assert get(client, "/v1/memories/n1").json["text"] == NOTE["content"]


def test_without_an_id_one_is_given(client: FlaskClient):
    id_ = post(client, "/v1/memories", {"content": "the deploy runs at noon"}).json["id"]
    assert get(client, f"/v1/memories/{id_}").json["text"] == "the deploy runs at noon"


def test_a_fresh_memory_is_recalled_by_the_next_request(client: FlaskClient):
    post(client, "/v1/memories", NOTE | {"project": "shop", "created_at": "2026-03-01T10:00:00Z"})
    answer = recall(client, "login handler")
    assert answer.keys() == {
        "hits",
        "below_bar",
        "degraded",
        "manifest",
        "watermark",
        "took_ms",
        "min_confidence",
        "recall",
    }
    hit = answer["hits"][0]
    assert hit["id"] == "n1"
    assert hit["text"] == NOTE["content"]
    assert hit["kind"] == "lesson"
    assert hit["project"] == "shop"
    assert hit["at"] == "2026-03-01T10:00:00Z"
    assert 0 < hit["confidence"] <= 1
    assert hit["score"] > 0
    assert (answer["below_bar"], answer["degraded"], answer["manifest"]) == (0, False, None)
    assert answer["took_ms"] > 0


def test_nothing_found_is_an_answer_and_no_error(client: FlaskClient):
    for query in ("zebra", "?!", "🙂", "x" * 100_000):
        assert recall(client, query)["hits"] == []


def test_a_batch_is_recorded_in_order(client: FlaskClient):
    notes = [{"id": f"b{n}", "content": f"note {n} about tides"} for n in range(3)]
    answer = post(client, "/v1/memories/batch", {"memories": notes})
    assert answer.status_code == 201
    assert [memory["id"] for memory in answer.json["memories"]] == ["b0", "b1", "b2"]
    assert [memory["seq"] for memory in answer.json["memories"]] == [1, 2, 3]


@pytest.mark.parametrize("wrong", [{"content": "todo"}, {"id": "b0", "content": "another text"}])
def test_a_batch_with_one_wrong_memory_records_none(client: FlaskClient, wrong: dict[str, str]):
    notes = [{"id": f"b{n}", "content": f"note {n} about tides"} for n in range(3)]
    answer = post(client, "/v1/memories/batch", {"memories": [*notes, wrong]})
    assert code(answer)[0] in (400, 409)
    assert get(client, "/v1/memories/b0").status_code == 404


def test_show_has_the_history_and_every_field(client: FlaskClient, tenants: OpenTenants):
    post(client, "/v1/memories", NOTE | {"tags": ["auth"], "metadata": {"pr": 12}})
    events = tenants.get("default").log
    commands.revise(events, "n1", Revised(content="loginHandler answers 401"), NOW)
    commands.pin(events, "n1", NOW)
    payload = get(client, "/v1/memories/n1").json
    assert [event["event"] for event in payload["history"]] == ["recorded", "revised", "pinned"]
    assert payload["history"][0]["content"] == NOTE["content"]
    assert payload["text"] == "loginHandler answers 401"
    assert (payload["metadata"], payload["tags"], payload["pinned"]) == ({"pr": 12}, ["auth"], True)


def test_a_forgotten_memory_shows_nothing_of_what_it_said(
    client: FlaskClient, tenants: OpenTenants
):
    said = {"context": "ctxword", "action": "actword", "result": "resword", "tags": ["tagword"]}
    post(client, "/v1/memories", NOTE | said)
    commands.forget(tenants.get("default").log, "n1", NOW)
    response = get(client, "/v1/memories/n1")
    assert response.json["state"] == "forgotten"
    assert not [word for word in ("login", *map(str, said.values())) if word in response.text]
    assert "word" not in response.text


def test_recall_keeps_a_receipt_unless_touch_is_false(client: FlaskClient, tenants: OpenTenants):
    recall(client, "login", touch=False)
    assert tenants.get("default").receipts == []
    recall(client, "login")
    assert [receipt.body.query for receipt in tenants.get("default").receipts] == ["login"]


def test_a_window_may_mix_moments_with_and_without_a_zone(client: FlaskClient):
    post(client, "/v1/memories", NOTE | {"created_at": "2026-03-01T10:00:00Z"})
    window = {"since": "2026-03-01T00:00:00", "until": "2026-03-02T00:00:00+02:00"}
    assert recall(client, "login", **window)["hits"]
    turned = {"query": "x", "since": window["until"], "until": window["since"]}
    assert code(post(client, "/v1/recall", turned)) == (400, "invalid_input")


@pytest.mark.parametrize("at", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"])
def test_the_first_and_the_last_moment_can_be_remembered(client: FlaskClient, at: str):
    post(client, "/v1/memories", NOTE | {"created_at": at})
    assert recall(client, "login handler")["hits"][0]["at"] == at[:19] + "Z"


def test_an_integer_of_any_size_in_metadata_comes_back(client: FlaskClient):
    assert post(client, "/v1/memories", NOTE | {"metadata": {"n": 10**30}}).status_code == 201
    assert get(client, "/v1/memories/n1").json["metadata"] == {"n": 10**30}


# Refused requests


@pytest.mark.parametrize(
    ("path", "body", "expected"),
    [
        ("recall", {}, "invalid_input"),
        ("recall", {"query": ""}, "invalid_input"),
        ("recall", {"query": 5}, "invalid_input"),
        ("recall", {"query": "x" * 100_001}, "invalid_input"),
        ("recall", {"query": "x", "top_k": 0}, "invalid_input"),
        ("recall", {"query": "x", "top_k": 10**30}, "invalid_input"),
        ("recall", {"query": "x", "mode": "magic"}, "invalid_input"),
        ("recall", {"query": "x", "kinds": ["poem"]}, "invalid_input"),
        ("recall", {"query": "x", "min_confidence": 2}, "invalid_input"),
        ("recall", {"query": "x", "since": "yesterday"}, "invalid_input"),
        ("recall", {"query": "x", "limit": 3}, "invalid_input"),
        ("recall", {"query": "x", "project": "../x"}, "invalid_name"),
        ("recall", {"query": "x", "tenant": "../x"}, "invalid_name"),
        ("memories", {"content": "todo"}, "junk_text"),
        ("memories", {"content": " \n"}, "junk_text"),
        ("memories", {"content": "aaaaaaaa"}, "junk_text"),
        ("memories", {"content": "12345 67"}, "junk_text"),
        ("memories", {"content": "a b " * 20_000}, "invalid_input"),
        ("memories", {"content": ["a list"]}, "invalid_input"),
        ("memories", {"content": "a good note", "colour": "red"}, "invalid_input"),
        ("memories", {"content": "a good note", "id": "../../etc"}, "invalid_input"),
        ("memories", {"content": "a good note", "project": "a/../b"}, "invalid_name"),
        ("memories", {"content": "a good note", "tenant": "../x"}, "invalid_name"),
        ("memories", {"content": "a good note", "ttl_s": -1}, "invalid_input"),
        (
            "memories",
            {"content": "a good note", "created_at": "0001-01-01T00:00:00+14:00"},
            "invalid_input",
        ),
        (
            "memories",
            {"content": "a good note", "created_at": "9999-12-31T23:59:59-14:00"},
            "invalid_input",
        ),
        ("memories", {"content": "a good note", "metadata": {"x": "y" * 40_000}}, "invalid_input"),
        ("memories/batch", {"memories": []}, "invalid_input"),
        ("memories/batch", {"memories": {}}, "invalid_input"),
        ("memories/batch", {"memories": [{"content": "x y"}] * 1_001}, "invalid_input"),
    ],
    ids=lambda value: json.dumps(value)[:40],
)
def test_invalid_fields_are_a_bad_request(
    client: FlaskClient, path: str, body: object, expected: str
):
    assert code(post(client, f"/v1/{path}", body)) == (400, expected)


DEEP = b"[" * 100_000 + b"]" * 100_000


@pytest.mark.parametrize("path", ["recall", "memories", "memories/batch"])
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"true",
        b'"text"',
        b"{",
        b'{"query": "\xff"}',
        b'{"content": "\xed\xa0\x80"}',
        b"\xff\xfe{\x00}\x00",
        b'{"content": "\\ud800 alone"}',
        b'{"metadata": NaN}',
        b'{"metadata": {"n": 1e999}}',
        DEEP,
        b'{"query": ' + DEEP + b"}",
        b'{"unknown": ' + DEEP + b"}",
        b'{"content": "a good note", "metadata": {"x": ' + DEEP + b"}}",
        b'{"content": "a good note", "metadata": {"x": ' + b"[" * 900 + b"]" * 900 + b"}}",
    ],
    ids=lambda body: f"{body[:24]!r}",
)
def test_malformed_json_is_a_bad_request(client: FlaskClient, path: str, body: bytes):
    assert code(post(client, f"/v1/{path}", body))[0] == 400


@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_no_bytes_make_a_server_error(client: FlaskClient, body: bytes):
    for path in ("/v1/recall", "/v1/memories"):
        assert post(client, path, body).status_code == 400


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(
    st.fixed_dictionaries({"content": JSON}, optional={"metadata": JSON, "tags": JSON, "id": JSON})
)
@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_no_value_makes_a_server_error(client: FlaskClient, body: dict[str, Any]):
    assert post(client, "/v1/memories", body).status_code in (200, 201, 400, 409)


def test_a_tenant_nobody_made_is_not_found(client: FlaskClient, tenants: OpenTenants):
    body = {"query": "x", "tenant": "nobody"}
    assert code(post(client, "/v1/recall", body)) == (404, "not_found")
    assert not (tenants.settings.home / "tenants" / "nobody").exists()


@pytest.mark.parametrize("path", ["/v1/memories/unknown", "/v1/nope", "/v1/memories/a/b"])
def test_unknown_paths_and_ids_are_not_found(client: FlaskClient, path: str):
    assert code(get(client, path)) == (404, "not_found")


def test_a_wrong_method_is_answered_with_the_allowed_ones(client: FlaskClient):
    answer = get(client, "/v1/recall")
    assert code(answer) == (405, "method_not_allowed")
    assert "POST" in answer.headers["Allow"]


def test_a_body_over_the_limit_is_too_large(client: FlaskClient):
    assert code(post(client, "/v1/memories", b" " * (MAX_BODY + 1))) == (413, "too_large")


def test_an_internal_error_reveals_no_details(tenants: OpenTenants):
    client = create_app(tenants, TOKEN, clock=lambda: 1 // 0, hook_deadline_s=30.0).test_client()
    answer = post(client, "/v1/memories", NOTE)
    assert code(answer) == (500, "internal")
    assert "division" not in answer.text


# The request guard

HOSTS = {
    "127.0.0.1:7437": True,
    "127.0.0.1": True,
    "localhost:7437": True,
    "LocalHost": True,
    "[::1]:7437": True,
    "": False,
    "evil.example": False,
    "127.0.0.1.evil.example": False,
    "localhost.evil.example:7437": False,
    "127.0.0.1@evil.example": False,
    "0.0.0.0:7437": False,
    "[::1": False,
}
ORIGINS = {
    None: True,
    "own": True,  # http:// and the Host that was sent
    "null": False,
    "http://evil.example": False,
    "https://127.0.0.1:7437": False,
    "http://127.0.0.1:9999": False,
}
SITES = {
    None: True,
    "none": True,
    "same-origin": True,
    "same-site": False,
    "cross-site": False,
}
TYPES = {
    "application/json": True,
    "application/json; charset=utf-8": True,
    "text/plain": False,
    None: False,
}
TOKENS = {
    f"Bearer {TOKEN}": True,
    None: False,
    "Bearer ": False,
    f"Bearer {TOKEN}x": False,
    TOKEN: False,
}


def expected_status(fine: tuple[bool, bool, bool, bool, bool]) -> int:
    """Return the status of the first guard that objects; 200 if none does."""
    host, origin, site, token, type_ = fine
    if not host:
        return 421
    if not (origin and site):
        return 403
    if not token:
        return 401
    return 200 if type_ else 415


def test_only_the_owner_on_this_machine_is_answered(client: FlaskClient):
    asked = accepted = 0
    for host, origin, site, token, type_ in product(HOSTS, ORIGINS, SITES, TOKENS, TYPES):
        own = f"http://{host}"
        headers = {
            "Host": host,
            "Origin": own if origin == "own" else origin,
            "Sec-Fetch-Site": site,
            "Authorization": token,
        }
        answer = client.post(
            "/v1/recall",
            data=b'{"query": "login", "touch": false}',
            content_type=type_,
            headers={name: value for name, value in headers.items() if value is not None},
        )
        fine = (HOSTS[host], ORIGINS[origin] or origin == own, SITES[site], TOKENS[token])
        assert answer.status_code == expected_status((*fine, TYPES[type_])), (headers, type_)
        assert not any("access-control" in name.lower() for name, _ in answer.headers)
        asked, accepted = asked + 1, accepted + (answer.status_code == 200)
    assert asked >= 1_000
    assert accepted == 5 * 2 * 3 * 1 * 2


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"Host": "evil.example"}, (421, "wrong_host")),
        ({"Origin": "http://evil.example"}, (403, "foreign_origin")),
        ({"Sec-Fetch-Site": "cross-site"}, (403, "foreign_origin")),
        ({"Authorization": "Bearer wrong"}, (401, "no_token")),
        ({"Authorization": "Bearer \xff\xfe"}, (401, "no_token")),
        ({"Content-Type": "text/plain"}, (415, "not_json")),
    ],
)
def test_each_guard_has_its_own_error_code(
    client: FlaskClient, change: dict[str, str], expected: tuple[int, str]
):
    answer = client.post("/v1/recall", data=b"{}", headers=OURS | change)
    assert code(answer) == expected


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD"])
@pytest.mark.parametrize("path", ["/v1/recall", "/v1/memories", "/v1/memories/n1", "/v1/nope"])
def test_every_method_and_path_is_guarded(client: FlaskClient, method: str, path: str):
    foreign = {"Host": "evil.example", "Origin": "http://evil.example"}
    assert client.open(path, method=method, headers=OURS | foreign).status_code == 421
    assert client.open(path, method=method, headers={"Host": "localhost"}).status_code == 401


def test_health_is_open_to_this_machine_only(client: FlaskClient):
    assert client.get("/health", headers={"Host": "evil.example"}).status_code == 421
    cross = {"Host": "localhost", "Sec-Fetch-Site": "cross-site"}
    assert client.get("/health", headers=cross).status_code == 403


def test_a_get_writes_nothing(client: FlaskClient, tenants: OpenTenants):
    post(client, "/v1/memories", NOTE)
    for path in ("/v1/memories/n1", "/health", "/v1/memories/x"):
        get(client, path)
    opened = tenants.get("default")
    assert opened.log.head() == 1
    assert opened.receipts == []


# A log locked by another process


@pytest.fixture
def hold(tenants: OpenTenants, monkeypatch: pytest.MonkeyPatch) -> Iterator[apsw.Connection]:
    """Hold the log's write lock in another connection; our own gives up after half a second."""
    monkeypatch.setattr(log_file, "BUSY_TIMEOUT_MS", 500)
    connection = apsw.Connection(str(tenants.get("default").log.path))
    connection.execute("BEGIN IMMEDIATE")
    yield connection
    if connection.in_transaction:
        connection.execute("ROLLBACK")
    connection.close()


def test_a_locked_log_is_a_503_and_a_retry_writes_once(
    client: FlaskClient, tenants: OpenTenants, hold: apsw.Connection
):
    assert code(post(client, "/v1/memories", NOTE)) == (503, "log_busy")
    hold.execute("ROLLBACK")
    assert post(client, "/v1/memories", NOTE).status_code == 201
    assert post(client, "/v1/memories", NOTE).status_code == 200
    assert [event.id for event in tenants.get("default").log.read()] == ["n1"]


def test_recall_waits_for_no_write(client: FlaskClient, hold: apsw.Connection):
    writing = threading.Thread(target=post, args=(client, "/v1/memories", NOTE))
    writing.start()
    time.sleep(0.1)  # by now the write waits for the lock
    recall(client, "login", touch=False)
    assert writing.is_alive()
    writing.join()
