"""
The UI, started for real: no access from another page or without a login; it lists the assets,
builds new events, writes no files elsewhere and ends all its processes.
"""

import json
import os
import socket
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import Message
from typing import Any
from urllib.parse import urlencode

import pytest
from dagster_page import Page, free_port, group_of, start, until
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

from pipelines import jobs
from pipelines.orchestration import dagster_home
from store.derived import catalog
from store.embedders.lexical import LexicalEmbedder
from store.home.errors import NoManifest
from store.home.http_access import owner_token, signer
from store.home.registry import dagster_ui
from store.plans import job_catalog
from store.snapshots import manifest as manifests

ASSETS = {
    *((projection.name,) for projection in catalog.all_projections(LexicalEmbedder())),
    *(("learning", name) for name in jobs.JOBS),
    ("event_log",),
    ("canaries",),
    ("recall_quality",),
    ("past_recalls",),
    ("published_manifest",),
    ("vector_table",),
}

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="looks at POSIX process groups")


class NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        """Return a redirect as the answer."""


def ask(page: Page, path: str, body: bytes | None = None, **headers: str) -> tuple[int, Message]:
    """Return the status and the headers of a response of the pages."""
    request = urllib.request.Request(f"{page.url}{path}", body, headers)
    try:
        with urllib.request.build_opener(NoRedirect).open(request, timeout=60) as answer:
            return answer.status, answer.headers
    except urllib.error.HTTPError as error:
        return error.code, error.headers


def logged_in(page: Page) -> str:
    """Return the cookie of a browser that followed a login link."""
    key = page.link().partition("?")[2].encode()
    status, headers = ask(page, "/login", key, Origin=page.url)
    assert status == 303
    assert "HttpOnly" in headers["Set-Cookie"]
    assert "SameSite=strict" in headers["Set-Cookie"]
    return str(headers["Set-Cookie"]).partition(";")[0]


@pytest.fixture
def page(dagster_page) -> Page:
    """The pages, after a run has built a tenant."""
    found: Page = dagster_page()
    until(lambda: found.good.head.exists() and runs(found), 400)
    return found


def runs(page: Page) -> list[str]:
    payload = page.ask("{runsOrError {... on Runs {results {runId}}}}")
    return [run["runId"] for run in payload.get("runsOrError", {}).get("results", ())]


def schedules_that_run(page: Page) -> set[str]:
    """Return the job schedules that Dagster's pages show as running."""
    payload = page.ask(
        """{workspaceOrError {... on Workspace {locationEntries {locationOrLoadError
        {... on RepositoryLocation {repositories {schedules {name scheduleState {status}}}}}}}}}"""
    )
    (entry,) = payload["workspaceOrError"]["locationEntries"]
    (repository,) = entry["locationOrLoadError"]["repositories"]
    return {
        schedule["name"]
        for schedule in repository["schedules"]
        if schedule["name"].startswith("learn") and schedule["scheduleState"]["status"] == "RUNNING"
    }


def test_a_schedule_is_on_while_a_tenant_has_its_job_on(page):
    assert schedules_that_run(page) == set()
    job_catalog.set_switches(page.leaky, ["judge"], on=True)
    until(lambda: schedules_that_run(page) == {"learn_judge_by_night"}, 400)
    job_catalog.set_switches(page.leaky, ["judge"], on=False)
    until(lambda: schedules_that_run(page) == set(), 400)


SAMPLE = "/graphql?query=%7BassetNodes%7BassetKey%7Bpath%7D%7D%7D"


def test_a_page_that_rebinds_its_name_reads_nothing(page):
    for shown in ({}, {"Cookie": logged_in(page)}, page.bearer):
        assert ask(page, SAMPLE, Host="evil.example", **shown)[0] == 421
        assert ask(page, "/", Host=f"127.0.0.1.evil.example:{page.port}", **shown)[0] == 421


def test_a_get_changes_nothing_whoever_sends_it(page):
    victim = runs(page)[0]
    mutation = f'mutation {{deleteRun(runId: "{victim}") {{__typename}}}}'
    path = f"/graphql?{urlencode({'query': mutation})}"
    foreign = {"Origin": "http://evil.example", "Sec-Fetch-Site": "cross-site"}
    cookie = {"Cookie": logged_in(page)}
    assert ask(page, path)[0] == 303
    assert ask(page, path, **foreign, **cookie)[0] == 403
    assert ask(page, path, **cookie)[0] == 405
    assert ask(page, path, **page.bearer)[0] == 405
    assert ask(page, path, Accept="text/html", **cookie)[0] == 200  # the playground page
    assert victim in runs(page)


def test_a_form_of_another_page_changes_nothing(page):
    victim = runs(page)[0]
    mutation = f'mutation {{deleteRun(runId: "{victim}") {{__typename}}}}'
    cookie, body = {"Cookie": logged_in(page)}, json.dumps({"query": mutation}).encode()
    sent_as = {"Content-Type": "application/json"}
    another_port = f"http://127.0.0.1:{page.port - 1}"
    assert ask(page, "/graphql", body, **sent_as)[0] == 401
    assert ask(page, "/graphql", body, Origin=another_port, **cookie, **sent_as)[0] == 403
    assert ask(page, "/graphql", body, **cookie, **sent_as)[0] == 403
    plain = {"Origin": page.url, "Content-Type": "text/plain"}
    assert ask(page, f"/graphql?{urlencode({'query': mutation})}", b"", **cookie, **plain)[0] == 415
    assert victim in runs(page)
    own = {"Origin": page.url, "Content-Type": "application/json"}
    assert ask(page, "/graphql", b'{"query": "{version}"}', **cookie, **own)[0] == 200


def test_a_link_lets_in_once(page):
    link = page.link().removeprefix(page.url)
    key = link.partition("?")[2].encode()
    status, headers = ask(page, link)
    assert (status, headers["X-Frame-Options"]) == (200, "DENY")
    assert ask(page, "/login", key, Origin="http://evil.example")[0] == 403
    assert ask(page, "/login", key, Origin=page.url)[0] == 303
    assert ask(page, "/login", key, Origin=page.url)[0] == 403


def test_two_headers_of_a_name_are_no_way_around(page):
    with socket.create_connection(("127.0.0.1", page.port), timeout=60) as connection:
        own = f"127.0.0.1:{page.port}"
        lines = ["GET /server_info HTTP/1.1", f"Host: {own}", "Host: evil.example"]
        lines += [f"{name}: {value}" for name, value in page.bearer.items()]
        connection.sendall("\r\n".join([*lines, "Connection: close", "", ""]).encode())
        assert connection.recv(1 << 16).split(b" ")[1] in (b"400", b"421")


@contextmanager
def subscribed(page: Page, **headers: str) -> Iterator[ClientConnection]:
    """Yield a WebSocket that subscribes to the events of a run, as one of Dagster's pages does."""
    with connect(
        f"ws://127.0.0.1:{page.port}/graphql",
        additional_headers=headers,
        subprotocols=[Subprotocol("graphql-ws")],
        open_timeout=60,
    ) as connection:
        subscribe(connection, runs(page)[0])
        yield connection


def subscribe(connection: ClientConnection, run: str) -> None:
    wanted = "... on PipelineRunLogsSubscriptionSuccess {messages {__typename}}"
    query = f'subscription {{pipelineRunLogs(runId: "{run}") {{{wanted}}}}}'
    for said in (
        {"type": "connection_init", "payload": {}},
        {"type": "start", "id": run, "payload": {"query": query}},
    ):
        connection.send(json.dumps(said))


def test_subscriptions_come_over_the_websocket_until_the_session_is_logged_out(page):
    cookie = logged_in(page)
    with subscribed(page, Origin=page.url, Cookie=cookie) as connection:
        kinds = [json.loads(connection.recv(10)) for _ in range(2)]
        assert [kind["type"] for kind in kinds] == ["connection_ack", "data"]
        assert kinds[1]["payload"]["data"]["pipelineRunLogs"]["messages"]
        sessions = signer(owner_token(page.settings), page.settings)
        now = time.time_ns() // 1_000
        session = sessions.session(cookie.partition("=")[2], now)
        assert session is not None
        sessions.end(session, now)  # like the dashboard
        connection.send(json.dumps({"type": "connection_init"}))
        with pytest.raises(ConnectionClosed):
            while True:
                connection.recv(10)
    assert ask(page, "/graphql", Cookie=cookie)[0] == 303


@pytest.mark.parametrize("case", ["foreign origin", "no origin", "no cookie", "rebound"])
def test_no_foreign_page_opens_the_websocket(page, case):
    headers = {"Origin": page.url, "Cookie": logged_in(page)}
    match case:
        case "foreign origin":
            headers["Origin"] = f"http://127.0.0.1:{page.port - 1}"
        case "no origin":
            del headers["Origin"]
        case "no cookie":
            del headers["Cookie"]
        case "rebound":
            headers |= {"Host": "evil.example", "Origin": "http://evil.example"}
    with pytest.raises(InvalidStatus) as refused, subscribed(page, **headers):
        pass
    # the client adds its own Host header, and two of them are invalid HTTP
    assert refused.value.response.status_code == (400 if case == "rebound" else 403)


def test_a_second_ui_prints_a_link_to_the_first(page):
    served = until(lambda: dagster_ui(page.settings), 400)
    lines: list[str] = []
    assert dagster_home.run_ui(page.settings, free_port(), lines.append) == 0
    assert lines[0].startswith(f"{served.url}/login?key=")


def test_ui_lists_assets_builds_what_is_new_and_ends_whole(dagster_page):
    page = dagster_page()
    until(lambda: assets_of(page.ask("{assetNodes {assetKey {path}}}")) == ASSETS, 400)
    assert until(lambda: published(page.good), 400) == 1
    children = group_of(page.process.pid)
    served = until(lambda: dagster_ui(page.settings), 400)
    assert served is not None and served.url == page.url
    output = page.end()
    assert dagster_ui(page.settings) is None
    assert page.url in output
    assert len(children) >= 4
    assert until(lambda: not alive(children), 60)
    assert [path for path in page.user.rglob("*") if path.is_file()] == []
    assert [path.name for path in page.stands_in.iterdir()] == ["store"]


def test_taken_port_is_one_line(tmp_path):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        process = start(other.getsockname()[1], tmp_path / "home", tmp_path, tmp_path)
        output, _ = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "is taken: choose another with --port" in output
    assert output.count("\n") == 1


def assets_of(data: dict[str, Any]) -> set[tuple[str, ...]]:
    return {tuple(node["assetKey"]["path"]) for node in data.get("assetNodes", ())}


def published(found: Any) -> int | None:
    try:
        return manifests.current(found).number
    except NoManifest:
        return None


def alive(pids: list[int]) -> list[int]:
    running = []
    for pid in pids:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            continue
        running.append(pid)
    return running
