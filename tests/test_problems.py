"""Every error code is provoked by a request and answered as the document declares."""

import errno
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from serve.api.blueprint import OPERATIONS
from serve.app import MAX_BODY, create_app
from serve.server import request_guard
from serve.server.open_tenants import OpenTenants
from serve.server.problems import MIMETYPE, TITLES, Problem
from store.home import tenant as tenants
from store.home import tokens
from store.home.config import Settings
from store.home.errors import BuildBusy, LogClosed, LogFull, LogReadOnly
from store.home.tokens import Wanted
from store.log import commands
from store.log.commands import Draft
from store.log.event_kinds import PlanCheck, Planned, Revised, Step
from store.log.event_log import EventLog
from store.plans import plans

NOW = 1_790_000_000_000_000
HOST = "127.0.0.1:7437"
OURS = {"Host": HOST, "Authorization": "Bearer owner"}
NOTE = {"content": "The staging cluster runs in eu-central-1"}


@dataclass
class Server:
    """A server of one memory, its log and a test client."""

    client: FlaskClient
    opened: OpenTenants
    log: EventLog
    home: Path
    monkeypatch: pytest.MonkeyPatch
    headers: dict[str, str] = field(default_factory=lambda: dict(OURS))

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> TestResponse:
        sent: dict[str, Any] = {}
        if body is not None:
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            sent = {"data": data, "content_type": "application/json"}
        wanted = self.headers | {name.replace("_", "-"): value for name, value in headers.items()}
        return self.client.open(path, method=method, headers=wanted, **sent)

    def failing(self, error: Exception) -> None:
        def fail(*args: Any, **kwargs: Any) -> Any:
            raise error

        self.monkeypatch.setattr(EventLog, "append", fail)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with EventLog(tenants.tenant(tmp_path).log, create=True) as log:
        commands.record(log, Draft(id="n1", content="Redis holds the sessions"), NOW)
        opened = OpenTenants(Settings(tmp_path))
        client = create_app(opened, "owner", lambda: NOW).test_client()
        yield Server(client, opened, log, tmp_path, monkeypatch)
        opened.close()


def a_plan(server: Server, *checks: PlanCheck) -> str:
    step = Step(event="archived", subject="n1", why="unused")
    planned = Planned(job="archive", watermark=server.log.head(), steps=(step,), checks=checks)
    return plans.propose(server.log, planned, NOW).id


def changed_since(server: Server) -> TestResponse:
    return server.ask("PATCH", "/v1/memories/n1", {"pinned": True}, If_Match='"99999-00000000"')


def plan_stale(server: Server) -> TestResponse:
    id_ = a_plan(server)
    commands.revise(server.log, "n1", Revised(content="Postgres holds them"), NOW)
    return server.ask("POST", f"/v1/proposals/{id_}/accept", {})


def plan_refused(server: Server) -> TestResponse:
    id_ = a_plan(server, PlanCheck("silence", False, "9 of 9 recalls bring nothing"))
    return server.ask("POST", f"/v1/proposals/{id_}/accept", {})


def id_conflict(server: Server) -> TestResponse:
    return server.ask("POST", "/v1/memories", {"id": "n1", **NOTE})


def idempotency_mismatch(server: Server) -> TestResponse:
    server.ask("POST", "/v1/memories", NOTE, Idempotency_Key="k1")
    other = {"content": "Production runs in eu-west-1"}
    return server.ask("POST", "/v1/memories", other, Idempotency_Key="k1")


def log_busy(server: Server) -> TestResponse:
    server.monkeypatch.setattr("store.log.log_file.BUSY_TIMEOUT_MS", 1)
    holder = apsw.Connection(str(server.log.path))
    holder.execute("BEGIN IMMEDIATE")
    for tenant in server.opened._open.values():
        tenant.log._connections.writer.set_busy_timeout(1)
    server.opened.get("default").log._connections.writer.set_busy_timeout(1)
    try:
        return server.ask("POST", "/v1/memories", NOTE)
    finally:
        holder.close()


def log_full(server: Server) -> TestResponse:
    server.failing(LogFull("the disk is full"))
    return server.ask("POST", "/v1/memories", NOTE)


def log_read_only(server: Server) -> TestResponse:
    server.failing(LogReadOnly("the disk is read-only"))
    return server.ask("POST", "/v1/memories", NOTE)


def log_error(server: Server) -> TestResponse:
    server.failing(OSError(errno.EMFILE, "too many open files"))
    return server.ask("POST", "/v1/memories", NOTE)


def log_closed(server: Server) -> TestResponse:
    server.failing(LogClosed("the log was closed"))
    return server.ask("POST", "/v1/memories", NOTE)


def internal(server: Server) -> TestResponse:
    server.failing(RuntimeError("a secret of ours"))
    return server.ask("POST", "/v1/memories", NOTE)


def with_token(server: Server, **wanted: Any) -> str:
    """Return a bearer header of a tenant's token."""
    _, text = tokens.make(server.home, "default", Wanted(name="t", **wanted), NOW)
    return f"Bearer {text}"


def out_of_scope(server: Server) -> TestResponse:
    bearer = with_token(server, scopes=("read",))
    return server.ask("POST", "/v1/memories", NOTE, Authorization=bearer)


def too_many_requests(server: Server) -> TestResponse:
    bearer = with_token(server, scopes=("read",), per_minute=1)
    server.ask("GET", "/v1/goals", Authorization=bearer)
    return server.ask("GET", "/v1/goals", Authorization=bearer)


def logged_in(server: Server) -> None:
    path = server.ask("POST", "/v1/logins", {}).json["path"]
    form(server, "/login", key=path.partition("key=")[2])


def form(server: Server, path: str, **fields: str) -> TestResponse:
    return server.client.post(path, data=fields, headers={"Host": HOST})


def no_csrf(server: Server) -> TestResponse:
    logged_in(server)
    return form(server, "/logout", csrf="guessed")


def queue_full(server: Server) -> TestResponse:
    server.monkeypatch.setattr("store.ingest.job_queue.MOST_JOBS", 0)
    return server.ask("POST", "/v1/ingest", {"memories": [NOTE]})


def build_busy(server: Server) -> TestResponse:
    server.failing(BuildBusy("another build of default is running"))
    return server.ask("POST", "/v1/memories", NOTE)


def overloaded(server: Server) -> TestResponse:
    app = create_app(server.opened, "owner", lambda: NOW)
    request_guard.reject_late_requests(app, lambda: True)
    return app.test_client().get("/v1/goals", headers=OURS)


def asks(
    method: str, path: str, body: Any = None, **headers: str
) -> Callable[[Server], TestResponse]:
    return lambda server: server.ask(method, path, body, **headers)


PROVOKED: dict[str, Callable[[Server], TestResponse]] = {
    "invalid_input": asks("POST", "/v1/memories", {"contents": "?"}),
    "invalid_name": asks("GET", "/v1/goals?tenant=../x"),
    "junk_text": asks("POST", "/v1/memories", {"content": "todo"}),
    "invalid_cursor": asks("GET", "/v1/receipts?cursor=abc"),
    "no_token": asks("GET", "/v1/goals", Authorization="Bearer wrong"),
    "foreign_origin": asks("GET", "/v1/goals", Origin="http://evil.example"),
    "wrong_host": asks("GET", "/v1/goals", Host="evil.example"),
    "not_found": asks("GET", "/v1/memories/nobody"),
    "method_not_allowed": asks("PUT", "/v1/memories", {}),
    "id_conflict": id_conflict,
    "plan_stale": plan_stale,
    "plan_refused": plan_refused,
    "conflict": lambda server: server.ask("POST", f"/v1/proposals/{a_plan(server)}/undo", {}),
    "changed_since": changed_since,
    "too_large": asks("POST", "/v1/memories", b'"' + b"a" * (MAX_BODY + 1) + b'"'),
    "not_json": lambda server: server.client.post("/v1/memories", data="a=1", headers=OURS),
    "idempotency_mismatch": idempotency_mismatch,
    "internal": internal,
    "log_busy": log_busy,
    "log_read_only": log_read_only,
    "log_full": log_full,
    "log_error": log_error,
    "log_closed": log_closed,
    "out_of_scope": out_of_scope,
    "too_many_requests": too_many_requests,
    "link_spent": lambda server: form(server, "/login", key="used"),
    "no_csrf": no_csrf,
    "queue_full": queue_full,
    "build_busy": build_busy,
    "overloaded": overloaded,
    "not_ready": asks("GET", "/ready"),  # its threads were never started
}


@pytest.mark.parametrize("code", TITLES)
def test_every_problem_code_is_provoked_and_well_formed(server: Server, code: str):
    answer = PROVOKED[code](server)
    status, title = TITLES[code]
    if code in ("link_spent", "no_csrf"):  # only pages have these codes: the error is a page
        assert answer.status_code == status and title in answer.text
        return
    assert (answer.status_code, answer.content_type) == (status, MIMETYPE)
    problem = msgspec.json.decode(answer.data, type=Problem)
    assert (problem.code, problem.title, problem.status) == (code, title, status)
    assert problem.type.endswith(f"#/x-problems/{code}") and problem.detail
    assert "a secret of ours" not in answer.text
    assert ("Retry-After" in answer.headers) == (status in (429, 503))


def test_every_way_to_fail_that_is_told_of_an_operation_has_a_title():
    named = {code for operation in OPERATIONS for code in operation.problems}
    assert named <= TITLES.keys()
