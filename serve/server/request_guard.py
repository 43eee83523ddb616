"""
The gate before every route: it checks the caller, the origin and the body of a request; most of it
protects against the browser on this machine.

A Host that is not ours is answered 421, a foreign Origin or a cross-site fetch 403, a missing or
wrong token 401, a token over its rate limit 429, a body that is not JSON 415. No CORS header is
ever sent and a GET changes nothing. Programs send a token, where `is_for_programs`; pages, which
are all other addresses, need the cookie of a login, and their forms carry a CSRF token.
"""

import hmac
import math
from collections.abc import Callable
from http import HTTPStatus
from typing import Protocol

from flask import Flask, Request, Response, g, redirect, request

from serve.server.callers import OWNER, Caller
from serve.server.problems import problem
from store.home.http_access import is_own_host, is_own_origin

MAX_BODY = 4 << 20  # bytes of a request
_OPEN = frozenset({"/health", "/ready", "/v1/openapi.json"})
_OPEN_PAGES = frozenset({"/login", "/favicon.ico"})
_READING = ("GET", "HEAD", "OPTIONS")
_WITH_BODY = ("POST", "PUT", "PATCH")
_FORM = "application/x-www-form-urlencoded"


class Login(Protocol):
    """A browser in which the owner is logged in, and the CSRF token its forms must carry."""

    @property
    def csrf(self) -> str: ...


CallerOf = Callable[[Request, str], Caller | None]  # of the bearer token that was sent
LoginOf = Callable[[Request], Login | None]
WaitOf = Callable[[Caller], float]  # seconds until the next request is allowed, 0: now


def guard(
    app: Flask, caller_of: CallerOf, login_of: LoginOf, wait_of: WaitOf = lambda caller: 0.0
) -> None:
    """Put the gate before every route; it sets `g.caller` and, on pages, `g.login`."""

    def gate() -> Response | None:
        refusal = _check_origin(request)
        if refusal is not None or request.path in _OPEN:
            return refusal
        if is_for_programs(request.path):
            return _check_program(request, caller_of, wait_of)
        return _check_page(request, login_of)

    app.before_request(gate)


def reject_late_requests(app: Flask, is_late: Callable[[], bool]) -> None:
    """Answer 503 to requests that passed the gate but waited too long."""

    def late() -> Response | None:
        if not is_late():
            return None
        return problem("overloaded", "too much is asked at once: ask again in a second")

    app.before_request(late)


def notify_known_callers(app: Flask, tell: Callable[[], None]) -> None:
    """Call `tell` for each request that passed the gate with a token or a login."""

    def tell_if_known() -> None:
        if "caller" in g:
            tell()

    app.before_request(tell_if_known)


def owner_only() -> Response | None:
    """Return the refusal of a caller that passed the gate and is not the owner; else None."""
    if g.caller.is_owner:
        return None
    return problem("out_of_scope", "only the owner's token may do this")


def is_for_programs(path: str) -> bool:
    """Return True if an address belongs to the API, MCP or a probe, rather than to a page."""
    return path.startswith("/v1/") or path in ("/mcp", "/health", "/ready", "/metrics")


def _check_origin(incoming: Request) -> Response | None:
    if not is_own_host(incoming.host):
        return problem("wrong_host", f"this server is not {incoming.host!r}")
    origin, site = incoming.headers.get("Origin"), incoming.headers.get("Sec-Fetch-Site")
    if not is_own_origin(incoming.host, origin, site):
        return problem("foreign_origin", "ask from a program, or from this server's own pages")
    return None


def _check_program(incoming: Request, caller_of: CallerOf, wait_of: WaitOf) -> Response | None:
    scheme, _, sent = incoming.headers.get("Authorization", "").partition(" ")
    caller = caller_of(incoming, sent) if scheme.lower() == "bearer" else None
    if caller is None:
        return _unauthorized(
            "send `Authorization: Bearer TOKEN`; the owner's is in the file `token` of the home",
            was_sent=bool(sent),
        )
    g.caller = caller
    if (wait_s := wait_of(caller)) > 0:
        text = f"this token may ask {caller.per_minute:,} times a minute: wait a little"
        return problem("too_many_requests", text, retry_after_s=math.ceil(wait_s))
    is_there = incoming.routing_exception is None  # else 404 or 405, for any body
    if is_there and incoming.method in _WITH_BODY and incoming.mimetype != "application/json":
        return problem("not_json", "send `Content-Type: application/json`")
    return None


def _unauthorized(cure: str, *, was_sent: bool = False) -> Response:
    """Return a 401 that says how to authenticate; `was_sent` marks a wrong token (RFC 6750, 3)."""
    answer = problem("no_token", cure)
    wrong = ', error="invalid_token"' if was_sent else ""
    answer.headers["WWW-Authenticate"] = f'Bearer realm="mnemolog"{wrong}'
    return answer


def _check_page(incoming: Request, login_of: LoginOf) -> Response | None:
    login = login_of(incoming)
    if login is not None:
        g.login, g.caller = login, OWNER
    if incoming.path in _OPEN_PAGES or incoming.path.startswith("/static/"):
        return None
    if login is None:
        if incoming.method in ("GET", "HEAD"):
            answer = redirect("/login", HTTPStatus.SEE_OTHER)
            assert isinstance(answer, Response)
            return answer
        return _unauthorized("log in: `mnemolog dashboard` makes a link")
    if incoming.method not in _READING:
        if incoming.mimetype != _FORM:
            return problem(
                "not_json",
                f"a form is sent as `{_FORM}`",
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            )
        if not _is_same(incoming.form.get("csrf", ""), login.csrf):
            return problem("no_csrf", "load the page again and send its form")
    return None


def _is_same(sent: str, expected: str) -> bool:
    return bool(expected) and hmac.compare_digest(sent.encode(), expected.encode())
