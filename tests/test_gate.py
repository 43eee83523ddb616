"""
The gate as a whole: Host x Origin x Sec-Fetch-Site x content type x method x what is shown, for
programs and for pages; nothing outside the allowlist reaches a route.
"""

import http.client
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pytest
import waitress
from flask import Flask, Request
from flask.testing import FlaskClient

from serve import gate
from serve.access.caller import OWNER, Caller
from serve.access.callers import Callers
from serve.access.owner import hook_key
from store import tokens
from store.config import Settings
from store.tokens import Wanted

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
BEARERS = ("owner", "tenant")  # what opens an address of programs


@dataclass(frozen=True)
class Login:
    caller: Caller
    csrf: str


@dataclass(frozen=True)
class Door:
    """An application that counts what got in, and what may be shown to it."""

    app: Flask
    reached: list[str]
    bearers: dict[str, str]

    def headers(self, shown: str) -> dict[str, str]:
        if shown in self.bearers:
            return {"Authorization": f"Bearer {self.bearers[shown]}"}
        cookie = {"cookie": COOKIE, "spent cookie": "session=spent"}.get(shown.split(" and ")[0])
        return {"Cookie": cookie} if cookie else {}


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Door:
    home: Path = tmp_path_factory.mktemp("home")
    texts = {}
    for name in ("tenant", "revoked", "expired"):
        ttl_s = 60 if name == "expired" else None
        at = NOW - 3_600_000_000
        made, texts[name] = tokens.make(home, "team", Wanted(scopes=("admin",), ttl_s=ttl_s), at)
        if name == "revoked":
            tokens.revoke(home, made.id, NOW)
    callers = Callers(Settings(home), OWNERS, lambda: NOW)
    app, reached = Flask("door"), list[str]()

    def login_of(asked: Request) -> Login | None:
        return Login(OWNER, CSRF) if asked.cookies.get("session") == "good" else None

    gate.guard(app, lambda asked, sent: callers.of(sent, asked.path, None), login_of)

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
    """Return what an address of programs answers to who comes from here."""
    if shown not in BEARERS:
        return 401
    return 200 if method in ("GET", "DELETE") or type_ == "application/json" else 415


def for_pages(method: str, type_: str | None, shown: str) -> int:
    """Return what a page answers to who comes from here."""
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


@pytest.mark.parametrize(
    ("path", "expected"), [("/v1/memories", for_programs), ("/t/team/memories", for_pages)]
)
def test_nothing_but_what_is_allowed_gets_in(door: Door, path: str, expected):
    client, asked, allowed = door.app.test_client(use_cookies=False), 0, 0
    door.reached.clear()
    for host, origin, site, type_, method, shown in product(
        HOSTS, ORIGINS, SITES, TYPES, METHODS, SHOWN
    ):
        answer = sent(client, door, path, host, origin, site, type_, method, shown)
        status = expected(method, type_, shown)
        if not (ORIGINS[origin] and SITES[site]):
            status = 403
        if not HOSTS[host]:
            status = 421
        assert answer.status_code == status, (host, origin, site, type_, method, shown)
        assert not [name for name in answer.headers.keys() if "access-control" in name.lower()]
        assert ("WWW-Authenticate" in answer.headers) == (status == 401)
        asked, allowed = asked + 1, allowed + (status == 200)
    assert asked > 10_000
    assert len(door.reached) == allowed
    here = 3 * 2 * 3
    if expected is for_programs:
        assert allowed == here * len(BEARERS) * (2 * len(TYPES) + 1)
    else:
        assert allowed == here * (3 * len(TYPES) + 2)


def sent(
    client: FlaskClient,
    door: Door,
    path: str,
    host: str,
    origin: str | None,
    site: str | None,
    type_: str | None,
    method: str,
    shown: str,
):
    headers = {
        "Host": host,
        "Origin": f"http://{host}" if origin == "own" else origin,
        "Sec-Fetch-Site": site,
        "Content-Type": type_,
    } | door.headers(shown)
    given = {name: value for name, value in headers.items() if value is not None}
    return client.open(path, method=method, data=body_of(shown), headers=given)


@pytest.mark.parametrize("method", ["PUT", "PATCH", "OPTIONS", "HEAD", "TRACE", "PROPFIND"])
@pytest.mark.parametrize("path", ["/v1/memories", "/mcp", "/t/team/memories", "/", "//v1/memories"])
def test_no_method_gets_around_it(door: Door, method: str, path: str):
    client = door.app.test_client()
    door.reached.clear()
    for headers in ({"Host": "evil.example"}, {"Host": "localhost", "Origin": "null"}):
        assert client.open(path, method=method, headers=headers).status_code in (421, 403)
    bare = client.open(path, method=method, headers={"Host": "localhost"})
    assert bare.status_code in (401, 303)
    assert door.reached == []


def test_a_token_opens_no_page_and_a_cookie_no_address_of_programs(door: Door):
    client = door.app.test_client(use_cookies=False)
    here = {"Host": "localhost"}
    bearer = here | door.headers("owner")
    assert client.get("/t/team/memories", headers=bearer).headers["Location"] == "/login"
    for path in ("/v1/memories", "/mcp"):
        answer = client.get(path, headers=here | {"Cookie": COOKIE})
        assert answer.status_code == 401


def test_only_the_login_itself_is_open(door: Door):
    client = door.app.test_client(use_cookies=False)
    here = {"Host": "localhost"}
    assert client.get("/login", headers=here).status_code == 200
    assert client.get("/login-as", headers=here).status_code == 303
    assert client.post("/login-as", headers=here).status_code == 401
    assert client.post("/login", headers=here | {"Origin": "null"}).status_code == 403


def test_an_empty_csrf_token_is_none():
    app = Flask("empty")
    gate.guard(app, lambda asked, sent: None, lambda asked: Login(OWNER, ""))
    app.add_url_rule("/page", "page", lambda: "in", methods=["POST"])
    answer = app.test_client().post(
        "/page", data="csrf=", content_type=FORM, headers={"Host": "localhost"}
    )
    assert (answer.status_code, answer.json["code"]) == (403, "no_csrf")


@pytest.mark.parametrize(
    "sent",
    [
        "Basic dXNlcjpwYXNz",
        "Bearer",
        "Bearer ",
        "bearer  ",
        OWNERS,
        f"Token {OWNERS}",
        f"Bearer {OWNERS} {OWNERS}",
        f"Bearer {OWNERS}\xe9",
        f"Bearer, Bearer {OWNERS}",
    ],
)
def test_what_is_no_bearer_token_is_a_401(door: Door, sent: str):
    headers = {"Host": "localhost", "Authorization": sent}
    answer = door.app.test_client().get("/v1/memories", headers=headers)
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"].startswith("Bearer")


# The same over a socket, where no test client mends a header


@pytest.fixture(scope="module")
def port(door: Door) -> Iterator[int]:
    server = waitress.create_server(door.app, host="127.0.0.1", port=0)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    yield int(server.effective_port)
    server.close()
    server.task_dispatcher.shutdown()
    thread.join(5)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Host": "localhost:{port}", "Origin": "http://localhost:{port}"}, 200),
        ({"Host": "[::1]:{port}"}, 200),
        ({"Host": "evil.example"}, 421),
        ({"Host": "evil.example:{port}"}, 421),
        ({"Host": "127.0.0.1.nip.io:{port}"}, 421),
        ({"Host": "0.0.0.0:{port}"}, 421),
        ({"Host": "127.0.0.1@evil.example"}, 421),
        ({"Host": "evil.example", "X-Forwarded-Host": "127.0.0.1"}, 421),
        ({"X-Forwarded-Host": "evil.example"}, 200),
        ({"Forwarded": "host=evil.example", "X-Forwarded-For": "1.2.3.4"}, 200),
        ({"Origin": "http://127.0.0.1:1"}, 403),
        ({"Origin": "https://127.0.0.1:{port}"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "anything"}, 403),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Authorization": ""}, 401),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "multipart/form-data; boundary=x"}, 415),
        ({"Content-Type": "application/json; charset=utf-8"}, 200),
    ],
    ids=str,
)
def test_over_a_socket_it_is_the_same(door: Door, port: int, headers: dict[str, str], status: int):
    door.reached.clear()
    own = {
        "Host": "127.0.0.1:{port}",
        "Authorization": f"Bearer {OWNERS}",
        "Content-Type": "application/json",
    }
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.putrequest("POST", "/v1/memories", skip_host=True)
    for name, value in ({"Content-Length": "2"} | own | headers).items():
        connection.putheader(name, value.format(port=port))
    connection.endheaders(b"{}")
    answer = connection.getresponse()
    connection.close()
    assert answer.status == status
    assert len(door.reached) == (status == 200)
    assert (answer.getheader("WWW-Authenticate") is not None) == (status == 401)


@pytest.mark.parametrize("line", [b"POST /v1/memories HTTP/1.0", b"GET / HTTP/1.0"])
def test_without_a_host_nobody_gets_in(door: Door, port: int, line: bytes):
    door.reached.clear()
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(line + b"\r\n\r\n")
        said = connection.recv(1 << 16)
    assert said.split(b" ")[1] in (b"421", b"401", b"303")
    assert door.reached == []
