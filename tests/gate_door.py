"""An application behind the request guard: the allowed callers, origins and credentials."""

from dataclasses import dataclass
from pathlib import Path

from flask import Flask, Request
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from serve.server import request_guard
from serve.server.callers import Callers, hook_key
from store.home import tokens
from store.home.config import Settings
from store.home.tokens import Wanted

NOW = 1_800_000_000_000_000
OWNERS = "the-owner's-token"
CSRF = "the-csrf-token"
COOKIE = "session=good"
FORM = "application/x-www-form-urlencoded"

HOSTS = {
    "127.0.0.1:7437": True,
    "localhost": True,
    "[::1]:7437": True,
    "": False,
    "evil.example": False,
    "127.0.0.1.evil.example:7437": False,
    "0.0.0.0:7437": False,
    "user@127.0.0.1:7437": False,
}
ORIGINS = {None: True, "own": True, "null": False, "http://evil.example": False}
SITES = {None: True, "none": True, "same-origin": True, "same-site": False, "cross-site": False}
TYPES = ("application/json", FORM, "text/plain", None)
METHODS = ("GET", "POST", "DELETE")
SHOWN = (
    *("owner", "tenant", "revoked", "expired", "hook key", "nothing", "wrong"),
    *("cookie", "cookie and csrf", "cookie and wrong csrf", "csrf", "spent cookie and csrf"),
)
BEARERS = ("owner", "tenant")  # credentials accepted at addresses for programs


@dataclass(frozen=True)
class Login:
    csrf: str


@dataclass(frozen=True)
class Asked:
    """A request: its origin and its credentials."""

    host: str
    origin: str | None
    site: str | None
    type_: str | None
    method: str
    shown: str


@dataclass(frozen=True)
class Door:
    """An application that counts the admitted requests, and the credentials to try on it."""

    app: Flask
    reached: list[str]
    bearers: dict[str, str]

    def headers(self, shown: str) -> dict[str, str]:
        if shown in self.bearers:
            return {"Authorization": f"Bearer {self.bearers[shown]}"}
        cookie = {"cookie": COOKIE, "spent cookie": "session=spent"}.get(shown.split(" and ")[0])
        return {"Cookie": cookie} if cookie else {}

    def sent(self, client: FlaskClient, path: str, one: Asked) -> TestResponse:
        """Send a request and return the answer."""
        headers = {
            "Host": one.host,
            "Origin": f"http://{one.host}" if one.origin == "own" else one.origin,
            "Sec-Fetch-Site": one.site,
            "Content-Type": one.type_,
        } | self.headers(one.shown)
        given = {name: value for name, value in headers.items() if value is not None}
        return client.open(path, method=one.method, data=body_of(one.shown), headers=given)


def door(home: Path) -> Door:
    """Return a door whose tenant's tokens are kept in a home; one is valid, two are not."""
    texts = {}
    for name in ("tenant", "revoked", "expired"):
        ttl_s = 60 if name == "expired" else None
        at = NOW - 3_600_000_000
        made, texts[name] = tokens.make(home, "team", Wanted(scopes=("admin",), ttl_s=ttl_s), at)
        if name == "revoked":
            tokens.revoke(home, made.id, NOW)
    callers = Callers(Settings(home), OWNERS, lambda: NOW)
    app, reached = Flask("door"), list[str]()

    def login_of(request: Request) -> Login | None:
        return Login(CSRF) if request.cookies.get("session") == "good" else None

    request_guard.guard(app, lambda request, sent: callers.of(sent, request.path, None), login_of)

    @app.route("/v1/memories", methods=["GET", "POST", "PUT", "PATCH", "DELETE"])
    @app.route("/mcp", methods=["GET", "POST"])
    @app.route("/t/team/memories", methods=["GET", "POST", "PUT", "DELETE"])
    @app.route("/login", methods=["GET", "POST"])
    @app.route("/login-as", methods=["GET", "POST"])
    def inside() -> str:
        reached.append("in")
        return "in"

    bearers = texts | {"owner": OWNERS, "wrong": f"{OWNERS}x"}
    return Door(app, reached, bearers | {"hook key": hook_key(OWNERS, "codex")})


def for_programs(method: str, type_: str | None, shown: str) -> int:
    """Return the expected status of an address for programs, for a request of this machine."""
    if shown not in BEARERS:
        return 401
    return 200 if method in ("GET", "DELETE") or type_ == "application/json" else 415


def for_pages(method: str, type_: str | None, shown: str) -> int:
    """Return the expected status of a page, for a request of this machine."""
    if not shown.startswith("cookie"):
        return 303 if method == "GET" else 401
    if method == "GET":
        return 200
    if type_ != FORM:
        return 415
    return 200 if shown == "cookie and csrf" else 403


def body_of(shown: str) -> bytes:
    said = {"and csrf": CSRF, "csrf": CSRF, "and wrong csrf": CSRF[:-1]}
    csrf = next((said[end] for end in said if shown.endswith(end)), None)
    if shown.endswith("wrong csrf"):
        csrf = CSRF[:-1]
    return b"" if csrf is None else f"csrf={csrf}&text=x".encode()
