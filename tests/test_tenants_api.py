"""Tenants and tokens over HTTP: made, listed, counted, revoked, and deleted under load."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import filelock
import msgspec
import pytest
from flask.testing import FlaskClient
from new_tenants import new_tenants
from werkzeug.test import TestResponse

from serve.api import administration as routes
from serve.app import create_app
from serve.server.open_tenants import OpenTenants
from store.embedders.lexical import LexicalEmbedder
from store.home import tenant as tenants
from store.home import tokens
from store.home.config import Choices, Settings
from store.home.tokens import Wanted
from store.log import commands, integrity
from store.log.commands import Draft
from store.log.event_log import EventLog
from store.maintenance import build

NOW = 1_800_000_000_000_000
OWNERS = "the-owner's-token"


@pytest.fixture
def opened(home: Path) -> Iterator[OpenTenants]:
    with new_tenants(home, "default", "team", "other") as opened:
        yield opened


@pytest.fixture
def client(opened: OpenTenants) -> FlaskClient:
    return create_app(opened, OWNERS, lambda: NOW, hook_deadline_s=30.0).test_client()


def ask(
    client: FlaskClient, method: str, path: str, body: object = None, token: str = OWNERS
) -> TestResponse:
    return client.open(
        path,
        method=method,
        data=None if body is None else json.dumps(body),
        headers={"Host": "127.0.0.1", "Authorization": f"Bearer {token}"},
        content_type="application/json",
    )


def code(answer: TestResponse) -> tuple[int, str]:
    return answer.status_code, answer.json["code"]


def token_of(client: FlaskClient, tenant: str, *scopes: str, **wanted: Any) -> Any:
    body = {"scopes": scopes or ("admin",), **wanted}
    answer = ask(client, "POST", f"/v1/tenants/{tenant}/tokens", body)
    assert answer.status_code == 201, answer.text
    return answer.json


# Tenants


def test_a_tenant_is_made_once(client: FlaskClient, home: Path):
    first = ask(client, "POST", "/v1/tenants", {"tenant": "fresh"})
    again = ask(client, "POST", "/v1/tenants", {"tenant": "fresh"})
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json["tenant"] == "fresh"
    assert tenants.tenant(home, "fresh").exists
    names = [tenant["tenant"] for tenant in ask(client, "GET", "/v1/tenants").json["tenants"]]
    assert names == ["default", "fresh", "other", "team"]


@pytest.mark.parametrize("name", ["", "../x", "A", "x" * 64, "a/b", "."])
def test_a_tenants_name_cannot_leave_its_folder(client: FlaskClient, name: str):
    assert code(ask(client, "POST", "/v1/tenants", {"tenant": name})) == (400, "invalid_name")


def test_a_token_knows_its_own_tenant_alone(client: FlaskClient):
    token = token_of(client, "team", "read")["token"]
    listed = ask(client, "GET", "/v1/tenants", token=token).json["tenants"]
    assert [token["tenant"] for token in listed] == ["team"]
    assert ask(client, "GET", "/v1/tenants/team", token=token).json == listed[0]
    statuses = set()
    for name in ("other", "default", "never", "a%20b", "X" * 99):
        answer = ask(client, "GET", f"/v1/tenants/{name}", token=token)
        assert code(answer) == (404, "not_found")
        statuses.add(answer.text.replace(unquote(name), ""))
    assert len(statuses) == 1
    assert code(ask(client, "POST", "/v1/tenants", {"tenant": "x"}, token)) == (403, "out_of_scope")
    for name in ("team", "other", "never"):
        answer = ask(client, "DELETE", f"/v1/tenants/{name}", token=token)
        assert code(answer) == (403, "out_of_scope")


def test_stats_count_what_there_is_built_and_fresh(client: FlaskClient, opened: OpenTenants):
    tenant = opened.get("team")
    drafts = [
        *(Draft(id=f"f{n}", content=f"the tide comes at {n}") for n in range(5)),
        Draft(id="d1", kind="decision", content="we sail with the tide"),
    ]
    commands.record_batch(tenant.log, drafts, NOW - 60_000_000)
    commands.forget(tenant.log, "f0", NOW - 60_000_000)
    build.rebuild(tenant.tenant, tenant.log, LexicalEmbedder(), NOW - 30_000_000)
    assert tenant.reader.poll()
    commands.archive(tenant.log, "f1", NOW)
    commands.record(tenant.log, Draft(id="d2", kind="decision", content="we anchor at dusk"), NOW)
    for query in ("when does the tide come", "zebra crossing"):
        ask(client, "POST", "/v1/recall", {"query": query, "tenant": "team"})
    stats = ask(client, "GET", "/v1/tenants/team/stats").json
    assert stats["memories"] == {
        "fact": {"active": 3, "archived": 1, "forgotten": 1},
        "decision": {"active": 2},
    }
    assert (stats["active"], stats["events"], stats["tail"]) == (5, 11, 4)
    assert stats["manifest"]["number"] == 1 and stats["manifest"]["age_s"] == 30
    assert stats["snapshot_bytes"] > 0 and stats["log_bytes"] > 0
    assert (stats["recalls_of_day"], stats["silence_rate"]) == (2, 0.5)


def test_stats_of_an_empty_tenant_are_zeros(client: FlaskClient):
    stats = ask(client, "GET", "/v1/tenants/team/stats").json
    assert (stats["memories"], stats["active"], stats["tail"]) == ({}, 0, 0)
    assert (stats["manifest"], stats["silence_rate"]) == (None, None)


# Tokens


def test_a_token_is_made_shown_once_listed_and_revoked(client: FlaskClient):
    token = token_of(client, "team", "write", "read", name="ci", ttl_s=60, per_minute=5)
    assert (token["scopes"], token["per_minute"], token["made_by"]) == (["read", "write"], 5, None)
    assert (token["created_at"], token["expires_at"]) == (
        "2027-01-15T08:00:00Z",
        "2027-01-15T08:01:00Z",
    )
    listed = ask(client, "GET", "/v1/tenants/team/tokens")
    assert token["token"] not in listed.text and "sha256" not in listed.text
    assert listed.json["tokens"] == [{name: token[name] for name in token if name != "token"}]
    path = f"/v1/tenants/team/tokens/{token['id']}"
    first, again = (ask(client, "DELETE", path) for _ in range(2))
    assert first.status_code == again.status_code == 200
    assert first.json == again.json and first.json["state"] == "revoked"
    recall = ask(client, "POST", "/v1/recall", {"query": "tide"}, token["token"])
    assert code(recall) == (401, "no_token")


def test_what_opens_a_tenant_is_kept_by_nobody_on_the_way(client: FlaskClient):
    body = {"scopes": ["read"]}
    answer = ask(client, "POST", "/v1/tenants/team/tokens", body)
    assert answer.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"scopes": []},
        {"scopes": ["root"]},
        {"scopes": ["read"], "ttl_s": 0},
        {"scopes": ["read"], "ttl_s": 10**18},
        {"scopes": ["read"], "per_minute": 0},
        {"scopes": ["read"], "name": "x" * 101},
        {"scopes": ["read"], "name": "a\nb"},
        {"scopes": ["read"], "tenant": "other"},
    ],
)
def test_what_is_no_token_is_a_bad_request(client: FlaskClient, body: object):
    answer = ask(client, "POST", "/v1/tenants/team/tokens", body)
    assert code(answer) == (400, "invalid_input")


def test_an_admin_makes_tokens_of_its_own_tenant_alone(client: FlaskClient):
    admin = token_of(client, "team", "admin", per_minute=100)
    others = token_of(client, "other", "read")
    own = ask(client, "POST", "/v1/tenants/team/tokens", {"scopes": ["admin"]}, admin["token"])
    assert own.status_code == 201
    assert (own.json["tenant"], own.json["made_by"]) == ("team", admin["id"])
    assert own.json["per_minute"] == 100
    faster = {"scopes": ["read"], "per_minute": 101}
    answer = ask(client, "POST", "/v1/tenants/team/tokens", faster, admin["token"])
    assert code(answer) == (400, "invalid_input")
    for name in ("other", "never"):
        for method, path, body in (
            ("GET", f"/v1/tenants/{name}/tokens", None),
            ("POST", f"/v1/tenants/{name}/tokens", {"scopes": ["read"]}),
            ("DELETE", f"/v1/tenants/{name}/tokens/{others['id']}", None),
        ):
            answer = ask(client, method, path, body, admin["token"])
            assert code(answer) == (404, "not_found")
            assert answer.json["detail"] == f"no tenant {name!r}"
    missing = f"/v1/tenants/team/tokens/{others['id']}"
    assert code(ask(client, "DELETE", missing, token=admin["token"])) == (404, "not_found")
    recall = {"query": "tide"}
    assert ask(client, "POST", "/v1/recall", recall, others["token"]).status_code == 200


@pytest.mark.parametrize("scope", ["read", "write"])
def test_only_an_admin_sees_or_makes_tokens(client: FlaskClient, scope: str):
    token = token_of(client, "team", scope)["token"]
    for method, body in (("GET", None), ("POST", {"scopes": ["read"]})):
        answer = ask(client, method, "/v1/tenants/team/tokens", body, token)
        assert code(answer) == (403, "out_of_scope")


# Deleting


def test_a_deleted_tenant_is_put_away_whole_and_can_be_brought_back(
    client: FlaskClient, opened: OpenTenants, home: Path
):
    token = token_of(client, "team")["token"]
    note = {"id": "n1", "content": "the tide comes at noon", "tenant": "team"}
    assert ask(client, "POST", "/v1/memories", note).status_code == 201
    ask(client, "POST", "/v1/recall", {"query": "tide", "tenant": "team"})  # one receipt is pending
    deleted = ask(client, "DELETE", "/v1/tenants/team")
    assert deleted.status_code == 200
    assert (deleted.json["tenant"], deleted.json["tokens"]) == ("team", 1)
    kept_in = Path(deleted.json["kept_in"])
    assert kept_in.parent == home / "deleted" and kept_in.name.startswith("team-")
    assert sorted(path.name for path in kept_in.glob("log.sqlite*")) == ["log.sqlite"]
    assert not tenants.tenant(home, "team").root.exists()
    assert code(ask(client, "DELETE", "/v1/tenants/team")) == (404, "not_found")
    assert code(ask(client, "POST", "/v1/recall", {"query": "x"}, token)) == (401, "no_token")
    request = {"query": "tide", "tenant": "team"}
    assert code(ask(client, "POST", "/v1/recall", request)) == (404, "not_found")
    kept_in.rename(home / "tenants" / "team")
    assert ask(client, "POST", "/v1/recall", request).json["hits"][0]["id"] == "n1"
    assert [event.kind for event in opened.get("team").log.read()] == ["recorded", "recalled"]
    assert code(ask(client, "POST", "/v1/recall", {"query": "x"}, token)) == (401, "no_token")


def test_a_new_tenant_of_the_name_knows_nothing_of_the_old(client: FlaskClient, opened: Any):
    note = {"id": "n1", "content": "the tide comes at noon", "tenant": "team"}
    ask(client, "POST", "/v1/memories", note)
    ask(client, "DELETE", "/v1/tenants/team")
    assert ask(client, "POST", "/v1/tenants", {"tenant": "team"}).status_code == 201
    assert code(ask(client, "GET", "/v1/memories/n1?tenant=team")) == (404, "not_found")
    assert ask(client, "POST", "/v1/memories", note).json["seq"] == 1


def test_the_default_tenant_stays(client: FlaskClient):
    assert code(ask(client, "DELETE", "/v1/tenants/default")) == (409, "conflict")


@pytest.mark.parametrize("lock", ["build.lock", "jobs.lock"])
def test_one_that_is_being_built_stays(client: FlaskClient, home: Path, lock: str):
    tenant = tenants.tenant(home, "team")
    token = token_of(client, "team")["token"]
    with filelock.FileLock(tenant.root / lock):
        assert code(ask(client, "DELETE", "/v1/tenants/team")) == (409, "build_busy")
    assert ask(client, "POST", "/v1/recall", {"query": "x"}, token).status_code == 200
    assert ask(client, "DELETE", "/v1/tenants/team").status_code == 200


def test_a_tenant_is_deleted_under_those_who_ask(
    opened: OpenTenants, client: FlaskClient, home: Path, monkeypatch: pytest.MonkeyPatch
):
    """No request gets a 5xx, no acknowledged write is lost, and no file comes back."""
    monkeypatch.setattr("serve.server.open_tenants.TICK_S", 0.01)
    opened.start()
    answers: list[int] = []
    folders_kept: set[str] = set()
    ends = threading.Event()
    app = client.application

    def work(number: int) -> None:
        mine, count = app.test_client(), 0
        while not ends.is_set():
            count += 1
            id_ = f"w{number}-{count}"
            note = {"id": id_, "content": f"the tide {id_} comes", "tenant": "team"}
            written = ask(mine, "POST", "/v1/memories", note)
            if written.status_code == 201:
                folders_kept.add(id_)
            response = ask(mine, "POST", "/v1/recall", {"query": "the tide", "tenant": "team"})
            event = {"hook_event_name": "UserPromptSubmit", "session_id": id_, "prompt": "the tide"}
            hook = ask(mine, "POST", "/v1/hooks/claude-code?tenant=team", event)
            memory = ask(mine, "GET", f"/v1/memories/{id_}?tenant=team")
            counted = ask(mine, "GET", "/v1/tenants/team/stats")
            batch = {"memories": [{"content": note["content"]}], "tenant": "team"}
            queued = ask(mine, "POST", "/v1/ingest", batch)
            answers.extend(
                answer.status_code for answer in (written, response, hook, memory, counted, queued)
            )

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    folders = []
    for _ in range(3):
        until_busy(lambda: len(answers), 60)
        deleted = ask(client, "DELETE", "/v1/tenants/team")
        assert deleted.status_code == 200, deleted.text
        folders.append(Path(deleted.json["kept_in"]))
        time.sleep(0.05)
        assert not tenants.tenant(home, "team").root.exists()
        assert ask(client, "POST", "/v1/tenants", {"tenant": "team"}).status_code == 201
    ends.set()
    for thread in threads:
        thread.join()
    assert set(answers) <= {200, 201, 202, 204, 404}
    assert {404, 201} <= set(answers)
    ids: set[str] = set()
    for folder in folders:
        with EventLog(folder / "log.sqlite") as log:
            assert integrity.problems(log) == []
            ids |= {event.id for event in log.read()}
    ids |= {event.id for event in opened.get("team").log.read()}
    assert folders_kept <= ids


def until_busy(count: Callable[[], int], more: int) -> None:
    wanted = count() + more
    while count() < wanted:
        time.sleep(0.005)


def test_two_deletions_do_not_wait_for_each_other(
    opened: OpenTenants, client: FlaskClient, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("serve.server.open_tenants.FINISH_S", 600.0)
    statuses: list[int] = []

    def delete(name: str) -> None:
        mine = client.application.test_client()
        statuses.append(ask(mine, "DELETE", f"/v1/tenants/{name}").status_code)

    threads = [threading.Thread(target=delete, args=(name,)) for name in ("team", "other")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert statuses == [200, 200]


# The declared shapes


def test_answers_have_the_shapes_that_are_declared(client: FlaskClient):
    token = token_of(client, "team")
    paths = {"tenant": "team", "id": token["id"]}
    bodies = {"createTenant": {"tenant": "fresh"}, "createToken": {"scopes": ["read"]}}
    for operation in sorted(
        routes.OPERATIONS, key=lambda operation: operation.id == "deleteTenant"
    ):
        path = operation.path.format(**paths)
        answer = ask(client, operation.method, path, bodies.get(operation.id))
        shape = operation.answers[answer.status_code]
        decoded = msgspec.json.decode(answer.data, type=shape, strict=True)
        assert json.loads(msgspec.json.encode(decoded)) == answer.json, operation.id


def test_functions_for_pages_know_the_default(home: Path):
    EventLog(tenants.tenant(home, "team").log, create=True).close()
    tokens.make(home, "team", Wanted(scopes=("read",)), NOW)
    from serve.server.callers import OWNER
    from serve.server.tenant_admin import list_tenants

    shown_tenants = list_tenants(Settings(home, Choices(tenant="team")), OWNER, NOW)
    assert [(tenant.tenant, tenant.is_default, tenant.tokens) for tenant in shown_tenants] == [
        ("team", True, 1)
    ]
