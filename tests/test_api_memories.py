"""A memory over HTTP: created once, changed only by the last reader, forgotten and restored."""

import threading
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest
from api_client import NOW, TOKEN, Api, code, held

from serve.app import MAX_BODY, create_app
from serve.server.open_tenants import OpenTenants
from store.log import log_file, log_queries
from store.log.event_kinds import Surfaced
from store.log.event_log import EventLog
from store.log.events import Event

NOTE = {"id": "n1", "content": "loginHandler rejects expired sessions", "kind": "lesson"}
OTHER = {"id": "n2", "content": "loginHandler renews expired sessions"}
ONE = "/v1/memories/n1"


@pytest.fixture
def api(tenants: OpenTenants) -> Api:
    return Api(create_app(tenants, TOKEN, lambda: NOW).test_client())


@pytest.fixture
def log(tenants: OpenTenants) -> EventLog:
    return tenants.get("default").log


@pytest.fixture
def note(api: Api) -> str:
    """The tag of an existing memory, n1."""
    tag = api.post("/v1/memories", NOTE).headers["ETag"]
    api.ok("POST", "/v1/memories", OTHER)
    return tag


# Changing a memory


def test_a_patch_is_a_revision_and_answers_with_the_memory(api: Api, note: str, log: EventLog):
    asked = {"content": "loginHandler answers 401", "tags": ["auth"], "reason": "measured"}
    payload = api.ok("PATCH", ONE, asked)
    assert (payload["text"], payload["tags"]) == ("loginHandler answers 401", ["auth"])
    assert [event["event"] for event in payload["history"]] == ["recorded", "revised"]
    assert log.events_for("n1")[1].body.reason == "measured"
    assert api.ok("GET", ONE) == payload


def test_a_patch_pins_too_in_one_transaction(api: Api, note: str):
    payload = api.ok("PATCH", ONE, {"importance": 0.9, "pinned": True})
    assert (payload["importance"], payload["pinned"]) == (0.9, True)
    assert [event["event"] for event in payload["history"]] == ["recorded", "revised", "pinned"]
    assert api.ok("PATCH", ONE, {"pinned": False})["pinned"] is False


@pytest.mark.parametrize("empty", [{}, {"reason": "none"}, {"tags": None, "pinned": None}])
def test_an_empty_patch_is_refused(api: Api, note: str, empty: dict[str, object]):
    assert api.problem("PATCH", ONE, empty) == (400, "invalid_input")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"content": "todo"}, (400, "junk_text")),
        ({"content": "a b " * 20_000}, (400, "invalid_input")),
        ({"importance": 2}, (400, "invalid_input")),
        ({"kind": "fact"}, (400, "invalid_input")),
        ({"state": "archived"}, (400, "invalid_input")),
        ({"reason": "x" * 2_001, "pinned": True}, (400, "invalid_input")),
        ({"metadata": {"x": "y" * 40_000}}, (400, "invalid_input")),
        ({"pinned": True, "tenant": "../x"}, (400, "invalid_name")),
        ({"pinned": True, "tenant": "nobody"}, (404, "not_found")),
        (b"{", (400, "invalid_input")),
        (b'{"metadata": {"x": ' + b"[" * 900 + b"]" * 900 + b"}}", (400, "invalid_input")),
        (b'{"metadata": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", (400, "invalid_input")),
        (b'{"content": "\\ud800 alone"}', (400, "invalid_input")),
        (b" " * (MAX_BODY + 1), (413, "too_large")),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_a_patch_that_cannot_be_used_changes_nothing(
    api: Api, note: str, log: EventLog, body: object, expected: tuple[int, str]
):
    assert api.problem("PATCH", ONE, body) == expected
    assert log.head() == 2


def test_a_patch_of_another_content_type_is_a_415(api: Api, note: str):
    sent = api.send("PATCH", ONE, b"pinned=true", Content_Type="application/x-www-form-urlencoded")
    assert code(sent) == (415, "not_json")


CHANGES = [
    ("PATCH", "", {"pinned": True}),
    ("DELETE", "", None),
    ("POST", "/restore", {}),
    ("POST", "/archive", {}),
    ("POST", "/supersede", {"by": "n2"}),
    ("POST", "/links", {"target": "n2", "relation": "support"}),
]


@pytest.mark.parametrize(("method", "path", "body"), CHANGES)
def test_changing_an_unknown_memory_is_not_found(
    api: Api, note: str, method: str, path: str, body: object
):
    assert api.problem(method, f"/v1/memories/unknown{path}", body) == (404, "not_found")


@pytest.mark.parametrize(("method", "path", "body"), CHANGES)
def test_if_match_refuses_a_change_of_a_newer_version(
    api: Api, note: str, log: EventLog, method: str, path: str, body: object
):
    etag = api.get(ONE).headers["ETag"]
    api.ok("PATCH", ONE, {"importance": 0.2})
    refused = api.problem(method, f"{ONE}{path}", body, If_Match=etag)
    assert refused == (412, "changed_since")
    assert log_queries.newest_change(log, "n1") == 3
    current = api.get(ONE).headers["ETag"]
    api.ok(method, f"{ONE}{path}", body, If_Match=f'"999", {current}')


@pytest.mark.parametrize("sent", ["12", '"12', 'W/"1", x', "", '"a" "b"'])
def test_a_malformed_if_match_is_refused(api: Api, note: str, sent: str):
    assert api.problem("PATCH", ONE, {"pinned": True}, If_Match=sent) == (400, "invalid_input")


@pytest.mark.parametrize("sent", ['"2"', 'W/"1"', '"x"', '"01"', '"1-zzzzzzzz"', '""'])
def test_an_unknown_etag_matches_nothing(api: Api, note: str, sent: str):
    assert api.problem("PATCH", ONE, {"pinned": True}, If_Match=sent) == (412, "changed_since")


def test_if_match_star_matches_any_version_that_exists(api: Api, note: str):
    assert api.ok("PATCH", ONE, {"pinned": True}, If_Match="*")["pinned"]
    assert api.problem("PATCH", "/v1/memories/x", {"pinned": True}, If_Match="*")[0] == 404


def test_the_etag_of_a_creation_allows_the_first_change(api: Api, note: str):
    assert note == '"1"'
    again = api.post("/v1/memories", NOTE)
    assert again.headers["ETag"] == note
    patched = api.send("PATCH", ONE, {"pinned": True}, If_Match=note)
    assert patched.headers["ETag"] == api.get(ONE).headers["ETag"]
    assert api.post("/v1/memories", NOTE).headers["ETag"] == '"3"'


def test_of_concurrent_writers_with_one_etag_one_wins(api: Api, note: str, log: EventLog):
    """Both wait for the log before either has written: an earlier check would admit both."""
    seen, answers = api.get(ONE).headers["ETag"], []

    def patch(importance: float) -> None:
        client = Api(api.client.application.test_client())
        answers.append(client.send("PATCH", ONE, {"importance": importance}, If_Match=seen))

    writers = [threading.Thread(target=patch, args=(n / 10,)) for n in range(8)]
    with held(log.path):
        for writer in writers:
            writer.start()
        writers[0].join(0.3)
    for writer in writers:
        writer.join()
    assert sorted(answer.status_code for answer in answers) == [200] + [412] * 7
    assert [event.kind for event in log.events_for("n1")] == ["recorded", "revised"]


def test_showing_and_rating_a_lesson_keeps_its_etag_valid(api: Api, note: str, log: EventLog):
    etag = api.get(ONE).headers["ETag"]
    log.append([Event("s1", NOW, Surfaced(place="prompt"), "n1", session="s")])
    api.ok("POST", "/v1/rate", {"id": "n1", "verdict": 1})
    assert api.get(ONE).headers["ETag"] != etag  # its history names it
    api.ok("PATCH", ONE, {"pinned": True}, If_Match=etag)


# Reading a memory


def test_if_none_match_answers_304_for_the_current_etag(api: Api, note: str):
    first = api.get(ONE)
    again = api.get(ONE, If_None_Match=first.headers["ETag"])
    assert (again.status_code, again.data) == (304, b"")
    assert again.headers["ETag"] == first.headers["ETag"]
    assert api.get(ONE, If_None_Match=f'"x", W/{first.headers["ETag"]}').status_code == 304
    assert api.get(ONE, If_None_Match='"1"').status_code == 200


def test_a_newer_value_of_the_key_changes_the_etag(api: Api):
    keyed = {"id": "k1", "content": "We deploy to us-east-1", "key": "deploy.region"}
    api.ok("POST", "/v1/memories", keyed)
    etag = api.get("/v1/memories/k1").headers["ETag"]
    newer = {"id": "k2", "content": "We deploy to eu-west-1", "key": "deploy.region"}
    api.ok("POST", "/v1/memories", newer)
    again = api.get("/v1/memories/k1", If_None_Match=etag)
    assert (again.status_code, again.json["state"]) == (200, "superseded")


# Forgetting and the like


def test_forgetting_twice_is_the_same(api: Api, note: str, log: EventLog):
    for _ in range(2):
        answer = api.send("DELETE", f"{ONE}?reason=wrong")
        assert (answer.status_code, answer.data, answer.content_type) == (204, b"", None)
    assert [event.kind for event in log.events_for("n1")] == ["recorded", "forgotten"]
    assert log.events_for("n1")[1].body.reason == "wrong"
    assert api.ok("GET", ONE)["state"] == "forgotten"
    assert api.problem("DELETE", ONE, If_Match=note) == (412, "changed_since")
    assert api.send("DELETE", ONE, If_Match=api.get(ONE).headers["ETag"]).status_code == 204


def test_a_forgotten_memory_can_be_restored(api: Api, note: str):
    api.send("DELETE", ONE)
    payload = api.ok("POST", f"{ONE}/restore", {"reason": "was right"})
    assert (payload["state"], payload["text"]) == ("active", NOTE["content"])


def test_a_memory_is_archived_and_superseded(api: Api, note: str):
    assert api.ok("POST", f"{ONE}/archive", {})["state"] == "archived"
    payload = api.ok("POST", f"{ONE}/supersede", {"by": "n2", "reason": "newer"})
    assert (payload["state"], payload["superseded_by"]) == ("superseded", "n2")
    history = api.ok("GET", "/v1/memories/n2/history")
    assert {memory["id"] for memory in history["memories"]} == {"n1", "n2"}


def test_a_link_is_drawn_and_shown_at_both_ends(api: Api, note: str):
    answer = api.post(f"{ONE}/links", {"target": "n2", "relation": "cause"})
    edge = {"source": "n1", "relation": "cause", "target": "n2"}
    assert (answer.status_code, answer.json) == (201, edge | {"seq": 3, "new": True})
    for id_ in ("n1", "n2"):
        assert api.ok("GET", f"/v1/memories/{id_}")["edges"] == [edge]


@pytest.mark.parametrize(
    ("path", "body", "expected"),
    [
        ("supersede", {"by": "unknown"}, (404, "not_found")),
        ("supersede", {"by": "n1"}, (400, "invalid_input")),
        ("supersede", {"by": "../x"}, (400, "invalid_input")),
        ("supersede", {}, (400, "invalid_input")),
        ("links", {"target": "unknown", "relation": "cause"}, (404, "not_found")),
        ("links", {"target": "n2", "relation": "rhymes"}, (400, "invalid_input")),
        ("links", {"target": "n2"}, (400, "invalid_input")),
        ("archive", {"by": "n2"}, (400, "invalid_input")),
        ("restore", {"reason": 5}, (400, "invalid_input")),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_a_change_that_cannot_be_made_is_refused(
    api: Api, note: str, path: str, body: object, expected: tuple[int, str]
):
    assert api.problem("POST", f"{ONE}/{path}", body) == expected


# A log that cannot be written

LONG = "the deploy runs at noon; " * 120
WRITES = [
    ("POST", "/v1/memories", {"content": LONG}),
    ("POST", "/v1/memories/batch", {"memories": [{"content": LONG}]}),
    ("POST", "/v1/rate", {"id": "n1", "verdict": 1, "reason": LONG[:1_999]}),
    ("PATCH", ONE, {"content": LONG}),
    ("DELETE", f"{ONE}?reason={LONG[:1_999]}", None),
    ("POST", f"{ONE}/archive", {"reason": LONG[:1_999]}),
    ("POST", f"{ONE}/supersede", {"by": "n2", "reason": LONG[:1_999]}),
]
SMALL = [
    ("POST", f"{ONE}/restore", {}),
    ("POST", f"{ONE}/links", {"target": "n2", "relation": "cause"}),
]


@pytest.fixture
def full(tenants: OpenTenants, monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    """The API of a server whose log may not grow by a page, and has no room left."""
    connect = log_file.connect

    def narrow(path: Path) -> apsw.Connection:
        connection = connect(path)
        connection.pragma("max_page_count", connection.pragma("page_count") + 8)
        return connection

    with monkeypatch.context() as patched:
        patched.setattr(log_file, "connect", narrow)
        opened = OpenTenants(tenants.settings)
        opened.get("default")
    client = Api(create_app(opened, TOKEN, lambda: NOW).test_client())
    for note in (LONG, LONG[:1_000], LONG[:500]):
        while client.post("/v1/memories", {"content": note}).status_code == 201:
            pass
    yield client
    opened.close()


@pytest.mark.parametrize(("method", "path", "body"), WRITES, ids=lambda value: str(value)[:24])
def test_a_full_disk_is_a_507_and_writes_nothing(
    note: str, full: Api, log: EventLog, method: str, path: str, body: object
):
    head = log.head()
    assert full.problem(method, path, body) == (507, "log_full")
    assert log.head() == head
    assert full.ok("GET", ONE)["text"] == NOTE["content"]


@pytest.mark.parametrize(
    ("method", "path", "body"), WRITES + SMALL, ids=lambda value: str(value)[:24]
)
def test_a_log_locked_by_another_process_is_a_503(
    api: Api,
    note: str,
    log: EventLog,
    tenants: OpenTenants,
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    path: str,
    body: object,
):
    monkeypatch.setattr(log_file, "BUSY_TIMEOUT_MS", 50)
    impatient = OpenTenants(tenants.settings)
    client = Api(create_app(impatient, TOKEN, lambda: NOW).test_client())
    with held(log.path):
        answer = client.send(method, path, body)
    assert code(answer) == (503, "log_busy")
    assert answer.headers["Retry-After"] == "1"
    assert log.head() == 2
    impatient.close()
