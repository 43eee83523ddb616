"""
The request guard on single requests, through a client and over a socket; `torture/gate.py` tries
every combination.
"""

import http.client
import socket
from collections.abc import Iterator

import gate_door
import pytest
from background import served
from flask import Flask
from gate_door import COOKIE, FORM, OWNERS, Door, Login

from serve.server import request_guard


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Door:
    return gate_door.door(tmp_path_factory.mktemp("home"))


@pytest.mark.parametrize("method", ["PUT", "PATCH", "OPTIONS", "HEAD", "TRACE", "PROPFIND"])
@pytest.mark.parametrize("path", ["/v1/memories", "/mcp", "/t/team/memories", "/", "//v1/memories"])
def test_every_method_is_guarded(door: Door, method: str, path: str):
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
    request_guard.guard(app, lambda request, sent: None, lambda request: Login(""))
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
def test_an_invalid_bearer_token_is_a_401(door: Door, sent: str):
    headers = {"Host": "localhost", "Authorization": sent}
    answer = door.app.test_client().get("/v1/memories", headers=headers)
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"].startswith("Bearer")


# The same over a socket, where no test client corrects a header


@pytest.fixture(scope="module")
def port(door: Door) -> Iterator[int]:
    with served(door.app) as found:
        yield found


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
def test_the_gate_answers_the_same_over_a_socket(
    door: Door, port: int, headers: dict[str, str], status: int
):
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
        data = connection.recv(1 << 16)
    assert data.split(b" ")[1] in (b"421", b"401", b"303")
    assert door.reached == []
