"""
The guard before Dagster's pages: it checks origin and access; Dagster sees only allowed requests.

Dagster's web server looks at neither Host nor Origin, knows no login, and carries out a mutation
that a GET sends. The guard runs in its process, around its application, so that there is no second
port behind it. It is the dashboard's: the same rules of Host and Origin, the same cookie, the same
one-time keys. Programs show the owner's token. A POST is JSON, a GET reaches GraphQL without a
query, and each message of a WebSocket needs a session that was not logged out meanwhile.
"""

import base64
import hashlib
import html
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import parse_qs, urlencode

import msgspec
from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from store.home.http_access import (
    SESSION_LIVES_S,
    Keys,
    Signer,
    is_own_host,
    is_own_origin,
    is_owner,
)
from store.home.instants import isoformat

GRAPHQL = "/graphql"
_READING = ("GET", "HEAD")
_LONGEST_FORM = 4_096  # bytes of the login form: its sender is not known yet
_CLOSED = 1008  # policy violation, RFC 6455, 7.4.1

_SEND_KEY = 'document.getElementById("login").requestSubmit();'
_SCRIPT_HASH = base64.b64encode(hashlib.sha256(_SEND_KEY.encode()).digest()).decode()
_OWN_POLICY = (
    f"default-src 'none'; script-src 'sha256-{_SCRIPT_HASH}'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'"
)
# Dagster's pages bring a policy of their own: a browser holds to both
_HEADERS = {
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # `no-referrer` would hide the Origin that we ask for
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_FRAMES_POLICY = "frame-ancestors 'none'; form-action 'self'; base-uri 'none'"


@dataclass(frozen=True, slots=True)
class Access:
    """Access to the pages: the owner's token, sessions, one-time keys; the clock in microseconds
    UTC.
    """

    token: str
    sessions: Signer
    clock: Callable[[], int]
    keys: Keys = field(default_factory=Keys)

    def login_path(self) -> tuple[str, int]:
        """Return a path that lets a browser in once, and its end, in microseconds UTC."""
        key, ends = self.keys.make(self.clock())
        return f"/login?{urlencode({'key': key})}", ends

    def has_token(self, connection: HTTPConnection) -> bool:
        scheme, _, sent = connection.headers.get("Authorization", "").partition(" ")
        return scheme.lower() == "bearer" and is_owner(sent, self.token)

    def has_session(self, connection: HTTPConnection) -> bool:
        cookie = connection.cookies.get(self.sessions.cookie)
        return self.sessions.session(cookie, self.clock()) is not None


def guard(app: ASGIApp, access: Access, know: Callable[[object], None]) -> ASGIApp:
    """Return an application that passes allowed requests to `app`, and answers the rest.

    `know` is called with the address of each client that passed.
    """

    async def guard(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await app(scope, receive, send)
            return
        connection = HTTPConnection(scope)
        refused = _from_here(connection)
        if scope["type"] == "websocket":
            await _subscribe(app, access, connection, refused, receive, send)
            return
        answer = (
            refused
            or await _entrance(access, connection, receive)
            or _access_refusal(access, connection)
        )
        if answer is None:
            know(scope.get("client"))
            await app(_harmless(scope), receive, _with_headers(send))
        else:
            await answer(scope, receive, send)

    return guard


def _from_here(connection: HTTPConnection) -> Response | None:
    """Return the refusal of a request from another site's page, or for another host name."""
    headers = connection.headers
    # each at most once, so that Dagster cannot read another value than the guard
    many = any(len(headers.getlist(name)) > 1 for name in ("host", "origin", "sec-fetch-site"))
    host = headers.get("host", "")
    if many or not is_own_host(host):
        return _refusal("this server is another", HTTPStatus.MISDIRECTED_REQUEST)
    if not is_own_origin(host, headers.get("origin"), headers.get("sec-fetch-site")):
        if connection.scope.get("method") == "GET" and headers.get("sec-fetch-mode") == "navigate":
            return _page(_FROM_ELSEWHERE, HTTPStatus.FORBIDDEN)
        return _refusal("ask from a program, or from this server's own pages", HTTPStatus.FORBIDDEN)
    return None


async def _entrance(
    access: Access, connection: HTTPConnection, receive: Receive
) -> Response | None:
    """Return the answer of a login route; None at every other address."""
    match connection.scope["method"], connection.scope["path"]:
        case "GET", "/login":
            key = connection.query_params.get("key", "")
            return _page(_LOGIN.format(html.escape(key)) if key else _NO_KEY)
        case "POST", "/login":
            return await _enter(access, connection, receive)
        case "POST", "/v1/logins" if access.has_token(connection) and _is_json(connection):
            path, ends = access.login_path()
            data = msgspec.json.encode({"path": path, "expires_at": isoformat(ends)})
            return Response(data, HTTPStatus.CREATED, media_type="application/json")
    return None


async def _enter(access: Access, connection: HTTPConnection, receive: Receive) -> Response:
    """Exchange a key for the cookie of a session."""
    form = parse_qs((await _body(receive, _LONGEST_FORM)).decode(errors="replace"))
    now = access.clock()
    if not access.keys.take(form.get("key", [""])[0], now):
        return _refusal(
            "the link was used or is too old: `mnemolog ui` makes another", HTTPStatus.FORBIDDEN
        )
    answer = RedirectResponse("/", HTTPStatus.SEE_OTHER)
    answer.set_cookie(
        access.sessions.cookie,
        access.sessions.value(now),
        max_age=SESSION_LIVES_S,
        httponly=True,
        samesite="strict",
    )
    return answer


async def _body(receive: Receive, most: int) -> bytes:
    """Return the beginning of a request's body, `most` bytes or a little more."""
    body = b""
    while len(body) < most:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    return body


def _access_refusal(access: Access, connection: HTTPConnection) -> Response | None:
    """Return the refusal of an unknown caller, or of a mutation that may come from a foreign page;
    None for a request that Dagster may answer.
    """
    method, path = connection.scope["method"], connection.scope["path"]
    is_program = access.has_token(connection)
    if not is_program and not access.has_session(connection):
        if method in _READING:
            return RedirectResponse("/login", HTTPStatus.SEE_OTHER)
        return _refusal("log in: `mnemolog ui` makes a link", HTTPStatus.UNAUTHORIZED)
    if method in _READING:
        wants_page = "text/html" in connection.headers.get("Accept", "")
        if _is_graphql(path) and connection.scope["query_string"] and not wants_page:
            return _refusal("send GraphQL by POST", HTTPStatus.METHOD_NOT_ALLOWED, Allow="POST")
        return None
    if method != "POST":
        return _refusal("send GET or POST", HTTPStatus.METHOD_NOT_ALLOWED, Allow="GET, HEAD, POST")
    if not _is_json(connection):
        return _refusal("send `Content-Type: application/json`", HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
    if not is_program and "origin" not in connection.headers:  # every browser sends one with a POST
        return _refusal("a page says where it comes from: send Origin", HTTPStatus.FORBIDDEN)
    return None


def _is_json(connection: HTTPConnection) -> bool:
    headers = connection.headers.getlist("content-type")
    types = [header.partition(";")[0].strip().lower() for header in headers]
    return types == ["application/json"]


def _is_graphql(path: str) -> bool:
    return path.rstrip("/") == GRAPHQL


def _harmless(scope: Scope) -> Scope:
    """Return the request without its query where GraphQL would execute it from a GET.

    The playground's page reads its query from the browser's address bar and sends it by POST.
    """
    if scope["method"] in _READING and _is_graphql(scope["path"]):
        return {**scope, "query_string": b""}
    return scope


async def _subscribe(
    app: ASGIApp,
    access: Access,
    connection: HTTPConnection,
    refused: Response | None,
    receive: Receive,
    send: Send,
) -> None:
    """Pass on a WebSocket while its session is valid, checked per message; else refuse: 403."""

    def is_known() -> bool:
        # a browser names the page's origin with every WebSocket, which was compared with ours
        return access.has_token(connection) or (
            "origin" in connection.headers and access.has_session(connection)
        )

    if refused is not None or not is_known():
        await send({"type": "websocket.close", "code": _CLOSED})
        return

    async def receive_known() -> Message:
        message = await receive()
        if message["type"] == "websocket.receive" and not is_known():
            return {"type": "websocket.disconnect", "code": _CLOSED}
        return message

    async def send_known(message: Message) -> None:
        if message["type"] == "websocket.send" and not is_known():
            message = {"type": "websocket.close", "code": _CLOSED}
        await send(message)

    await app(connection.scope, receive_known, send_known)


def _with_headers(send: Send) -> Callable[[Message], Awaitable[None]]:
    """Return a sender that adds the headers of our own pages to Dagster's answers."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers[name] = value
            headers.append("Content-Security-Policy", _FRAMES_POLICY)
        await send(message)

    return send_with_headers


def _refusal(text: str, status: HTTPStatus, **headers: str) -> Response:
    """Return a refusal; a 401 names the scheme (RFC 6750, 3)."""
    if status is HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = 'Bearer realm="mnemolog"'
    return PlainTextResponse(f"{text}\n", status, headers=_HEADERS | headers)


def _page(body: str, status: HTTPStatus = HTTPStatus.OK) -> Response:
    page = (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Dagster behind mnemolog'
        f"</title><h1>Dagster's pages of mnemolog</h1>{body}</html>"
    )
    own = {"Content-Security-Policy": _OWN_POLICY, "Cache-Control": "no-store"}
    return HTMLResponse(page, status, headers=_HEADERS | own)


_LOGIN = (
    "<p>This link lets you in once, within two minutes of its making.</p>"
    '<form id="login" method="post" action="/login"><input type="hidden" name="key" value="{}">'
    f"<button>Log in</button></form><script>{_SEND_KEY}</script>"
)
_NO_KEY = (
    "<p>To look at them in this browser, run <code>mnemolog ui</code> again: it prints a link "
    "that lets you in. Who is logged in at the dashboard is logged in here.</p>"
)
# a link on the dashboard, which is another port, is refused as cross-origin: its follower goes on
# to the first page, never to an address that the link chose
_FROM_ELSEWHERE = (
    '<meta http-equiv="refresh" content="0;url=/">'
    '<p>Another page sent you here. <a href="/">Go on to the first page</a></p>'
)
