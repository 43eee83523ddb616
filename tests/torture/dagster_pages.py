"""
dagster_pages: the gate's table (Host x Origin x Sec-Fetch-Site x content type x method x
credential) for Dagster's pages, by request and by WebSocket: Dagster sees nothing outside the
allowlist, and no query of a GET.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice, product
from pathlib import Path
from unittest.mock import patch

from gate_door import HOSTS, METHODS, NOW, ORIGINS, OWNERS, SHOWN, SITES, TYPES, Asked
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from torture.outcome import Outcome, Scale

from pipelines.orchestration import webserver_guard
from pipelines.orchestration.webserver_guard import Access, guard
from serve.server.callers import hook_key
from store.home.config import Settings
from store.home.http_access import signer

PATHS = ("/graphql", "/report_asset_materialization/memories", "/overview/activity")
EVERY = 89  # the step of a sample, if all are too many; shares no factor with the table's sides
DELETE_A_RUN = b"query=mutation%7BdeleteRun(runId:%22x%22)%7B__typename%7D%7D"


@dataclass(frozen=True)
class Pages:
    """Dagster's pages behind the guard, and the credentials for it."""

    app: ASGIApp
    cookies: dict[str, str]
    reached: list[Scope] = field(default_factory=list)

    def headers(self, request: Asked) -> list[tuple[bytes, bytes]]:
        bearers = {"owner": OWNERS, "wrong": f"{OWNERS}x", "hook key": hook_key(OWNERS, "codex")}
        values = {
            "Host": request.host,
            "Origin": f"http://{request.host}" if request.origin == "own" else request.origin,
            "Sec-Fetch-Site": request.site,
            "Content-Type": request.type_,
            "Cookie": self.cookies.get(request.shown.split(" and ")[0]),
            "Authorization": f"Bearer {bearers[request.shown]}"
            if request.shown in bearers
            else None,
        }
        return [
            (name.lower().encode(), value.encode())
            for name, value in values.items()
            if value is not None
        ]


def pages(home: Path) -> Pages:
    """Return pages that record their requests; one cookie is good, one was logged out."""
    sessions = signer(OWNERS, Settings(home))
    good, spent = sessions.value(NOW), sessions.value(NOW)
    ended = sessions.session(spent, NOW)
    assert ended is not None
    sessions.end(ended, NOW)
    reached: list[Scope] = []

    async def inside(scope: Scope, receive: Receive, send: Send) -> None:
        reached.append(scope)
        if scope["type"] == "websocket":
            await send({"type": "websocket.accept"})
        else:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"in"})

    app = guard(inside, Access(OWNERS, sessions, lambda: NOW), lambda client: None)
    name = sessions.cookie
    return Pages(app, {"cookie": f"{name}={good}", "spent cookie": f"{name}={spent}"}, reached)


def attack(folder: Path, scale: Scale) -> Iterator[Outcome]:
    """Yield the outcome of every combination, and of guards without a check of origin or query."""
    step = scale.of(EVERY, 1)
    there = pages(folder / "whole")
    for path in PATHS:
        yield _walked(there, path, step, f"the guard of Dagster's {path}", floor=23_040)
    yield _walked(there, "websocket", step, "the guard of Dagster's WebSocket", floor=23_040)
    with patch.object(webserver_guard, "_from_here", lambda request: None):
        half = pages(folder / "half")
        yield _walked(half, PATHS[0], EVERY, "a guard that asks nobody where from", control=True)
    with patch.object(webserver_guard, "_harmless", lambda scope: scope):
        open_ = pages(folder / "open")
        yield _walked(open_, PATHS[0], EVERY, "a guard that hands on a GET's query", control=True)


def _walked(
    there: Pages, path: str, step: int, tried: str, *, control: bool = False, floor: int = 0
) -> Outcome:
    requests = allowed = 0
    wrong = []
    for combination in islice(product(HOSTS, ORIGINS, SITES, TYPES, METHODS, SHOWN), 0, None, step):
        request = Asked(*combination)
        requests += 1
        there.reached.clear()
        status = _expected(request, path)
        allowed += status == 200
        if fault := _fault(there, request, path, status):
            wrong.append(f"{request}: {fault}")
    if not allowed:
        wrong.append("nobody got in: then nothing was tried")
    note = f"{allowed:,} allowed"
    return Outcome(tried, requests, "combinations", wrong, note, is_control=control, floor=floor)


def _expected(request: Asked, path: str) -> int:
    """Return the expected status; for a WebSocket 200 or 403."""
    is_here = HOSTS[request.host] and ORIGINS[request.origin] and SITES[request.site]
    has_cookie = request.shown.startswith("cookie")
    is_known = request.shown == "owner" or has_cookie
    names_origin = request.shown == "owner" or request.origin is not None
    if path == "websocket":
        return 200 if is_here and is_known and names_origin else 403
    if not is_here:
        return 403 if HOSTS[request.host] else 421
    if not is_known:
        return 303 if request.method == "GET" else 401
    if request.method == "GET":
        return 200
    if request.method == "DELETE":
        return 405
    if request.type_ != "application/json":
        return 415
    return 200 if names_origin else 403


def _fault(there: Pages, request: Asked, path: str, status: int) -> str:
    headers = there.headers(request)
    if path == "websocket":
        scope: Scope = {"type": "websocket", "path": "/graphql", "headers": headers}
    else:
        # as a browser follows a link: a program's GET with a query is refused anyway
        html = [(b"accept", b"text/html")]
        scope = {"type": "http", "method": request.method, "path": path, "headers": headers + html}
    answered, names = sent(there.app, scope | {"query_string": DELETE_A_RUN})
    if answered != status:
        return f"{answered}, not {status}"
    if len(there.reached) != (status == 200):
        return f"{len(there.reached)} reached Dagster"
    if any(b"access-control" in name for name in names):
        return "a CORS header"
    if path == "/graphql" and request.method == "GET" and status == 200:
        return "its query reached Dagster" if there.reached[0]["query_string"] else ""
    return ""


def sent(app: ASGIApp, scope: Scope) -> tuple[int, list[bytes]]:
    """Return the status of an answer and its header names; for a WebSocket 200 or 403."""
    messages: list[Message] = []

    async def receive() -> Message:
        kind = "websocket.connect" if scope["type"] == "websocket" else "http.request"
        return {"type": kind, "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        messages.append(message)

    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:  # leaves litellm its loop
        runner.run(app(scope, receive, send))
    first = messages[0]
    if scope["type"] == "websocket":
        return (200 if first["type"] == "websocket.accept" else 403), []
    return first["status"], [name.lower() for name, _ in first["headers"]]
