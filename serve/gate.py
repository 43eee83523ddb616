"""
The gate before every route: who asks, from where, with what; most of it against the browser on this
machine.

A Host that is not ours is answered 421, a foreign Origin or a cross-site fetch 403, a missing or
wrong token 401, a token that asks too often 429, a body that is not JSON 415. No CORS header is
ever sent and a GET changes nothing. Programs show a token, on `PROGRAMS`; pages, which are all
other addresses, are asked with the cookie of a login, and their forms carry a CSRF token.
"""

from collections.abc import Callable
from http import HTTPStatus
from typing import Protocol
from urllib.parse import urlsplit

from flask import Flask, Request, Response, g, redirect, request

from serve.access.caller import Caller
from serve.problem import problem

_NAMES = frozenset({"127.0.0.1", "localhost", "::1"})
_OPEN = frozenset({"/health", "/ready", "/v1/openapi.json"})
_OPEN_PAGES = ("/login", "/static/", "/favicon.ico")
_WRITING = ("POST", "PUT", "PATCH", "DELETE")
_FORM = "application/x-www-form-urlencoded"


class Login(Protocol):
    """Who is logged in at a browser, and what its forms must carry."""

    @property
    def caller(self) -> Caller: ...

    @property
    def csrf(self) -> str: ...


CallerOf = Callable[[Request, str], Caller | None]  # what was sent as a bearer token
LoginOf = Callable[[Request], Login | None]


def guard(app: Flask, caller_of: CallerOf, login_of: LoginOf) -> None:
    """Put the gate before every route; `g.caller` and, on pages, `g.login` say who asks."""
    app.before_request(lambda: _from_here(request) or _known(request, caller_of, login_of))


def is_for_programs(path: str) -> bool:
    """Return whether an address is the API's, MCP's or a probe's, and no page."""
    return path.startswith("/v1/") or path in ("/mcp", "/health", "/ready", "/metrics")


def _from_here(asked: Request) -> Response | None:
    if _hostname(asked.host) not in _NAMES:
        return problem("wrong_host", f"this server is not {asked.host!r}")
    origin = asked.headers.get("Origin")
    cross_site = asked.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin")
    if cross_site or (origin is not None and origin != f"http://{asked.host}"):
        return problem("foreign_origin", "ask from a program, or from this server's own pages")
    return None


def _known(asked: Request, caller_of: CallerOf, login_of: LoginOf) -> Response | None:
    if asked.path in _OPEN:
        return None
    return _program(asked, caller_of) if is_for_programs(asked.path) else _page(asked, login_of)


def _program(asked: Request, caller_of: CallerOf) -> Response | None:
    scheme, _, sent = asked.headers.get("Authorization", "").partition(" ")
    caller = caller_of(asked, sent) if scheme.lower() == "bearer" else None
    if caller is None:
        answer = problem(
            "no_token",
            "send `Authorization: Bearer TOKEN`; the owner's is in the file `token` of the home",
        )
        answer.headers["WWW-Authenticate"] = "Bearer"
        return answer
    g.caller = caller
    if asked.method in ("POST", "PUT", "PATCH") and asked.mimetype != "application/json":
        return problem("not_json", "send `Content-Type: application/json`")
    return None


def _page(asked: Request, login_of: LoginOf) -> Response | None:
    login = login_of(asked)
    if login is not None:
        g.login, g.caller = login, login.caller
    if asked.path.startswith(_OPEN_PAGES):
        return None
    if login is None:
        if asked.method in ("GET", "HEAD"):
            answer = redirect("/login", HTTPStatus.SEE_OTHER)
            assert isinstance(answer, Response)
            return answer
        return problem("no_token", "log in: `mnemolog dashboard` makes a link")
    if asked.method in _WRITING:
        if asked.mimetype != _FORM:
            return problem(
                "not_json",
                f"a form is sent as `{_FORM}`",
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            )
        if not _same(asked.form.get("csrf", ""), login.csrf):
            return problem("no_csrf", "load the page again and send its form")
    return None


def _same(sent: str, expected: str) -> bool:
    import hmac

    return hmac.compare_digest(sent.encode(), expected.encode())


def _hostname(host: str) -> str | None:
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:  # an IPv6 address without its bracket
        return None
