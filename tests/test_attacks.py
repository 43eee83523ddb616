"""
Attacks on the whole service: odd requests on the wire, and hostile texts on every page.

The odd requests are those of request smuggling and of routing around a gate: RFC 9112, sections 6.1
and 11.2, https://www.rfc-editor.org/rfc/rfc9112.
"""

import json
import socket
import threading
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import pytest
import waitress
from dashboard_page import HOST, NOW, TOKEN, Browser, application, browser

from serve.server.open_tenants import OpenTenants
from store.home import failures, tenant, tokens
from store.home.config import Settings
from store.home.tokens import Wanted
from store.log import commands
from store.log.commands import Draft
from store.log.event_log import EventLog

OURS = f"Host: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\nConnection: close\r\n".encode()
JSON = b"Content-Type: application/json\r\n"
BODY = b'{"tenant": "made"}'  # makes a tenant, if it gets through
SIZED = b"Content-Length: %d\r\n" % len(BODY)
HOSTILE = "\"'><xss-a onx=1>{{7*7}}</script></textarea></title>javascript:alert(1)"
PAGES = 80  # to visit
ALIKE = 3  # pages that differ only in ids and queries


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenTenants]:
    home: Path = tmp_path_factory.mktemp("home")
    for name in ("default", "other"):
        EventLog(tenant.tenant(home, name).log, create=True).close()
    opened = OpenTenants(Settings(home))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def port(opened: OpenTenants) -> Iterator[int]:
    server = waitress.create_server(application(opened), host="127.0.0.1", port=0, threads=2)
    ending = threading.Event()

    def answer() -> None:
        while not ending.is_set():
            server.asyncore.loop(timeout=0.05, map=server._map, count=1)

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    yield server.effective_port
    ending.set()
    thread.join(timeout=10)
    server.close()
    server.task_dispatcher.shutdown()


def asked(port: int, request: bytes) -> int:
    """Return the status of the first answer to some bytes; 0 if there is none."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        answer = connection.makefile("rb").readline()
    return int(answer.split()[1]) if answer else 0


def make(headers: bytes, body: bytes = BODY, path: bytes = b"/v1/tenants") -> bytes:
    return b"POST " + path + b" HTTP/1.1\r\n" + headers + b"\r\n" + body


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (make(OURS + b"Host: evil.example\r\n" + JSON + SIZED), 421),
        (make(OURS.replace(b"127.0.0.1", b"127.0.0.1:7437@evil") + JSON + SIZED), 421),
        (make(OURS.replace(b"127.0.0.1", b"evil@127.0.0.1") + JSON + SIZED), 421),
        (make(OURS.replace(b"127.0.0.1", b"localhost.") + JSON + SIZED), 421),
        (make(OURS + b"Authorization: Bearer x\r\n" + JSON + SIZED), 401),
        (make(OURS.replace(b"Authorization", b"HTTP_AUTHORIZATION") + JSON + SIZED), 401),
        (make(OURS + b"Content-Type: text/plain\r\n" + JSON + SIZED), 415),
        (make(OURS + b"Content-Type: text/plain; application/json\r\n" + SIZED), 415),
        (make(OURS + JSON + SIZED + b"Content-Length: 3\r\n"), 400),
        (make(OURS + JSON + b"Content-Length: +18\r\n"), 400),
        (make(OURS + JSON + SIZED + b"Transfer-Encoding: identity\r\n"), 501),
        (make(OURS + JSON + b"Transfer-Encoding: xchunked\r\n"), 501),
        (make(OURS + JSON + b"Transfer-Encoding : chunked\r\n", b"0\r\n\r\n"), 400),
        (make(OURS + JSON + SIZED, path=b"/V1/tenants"), 401),
        (make(OURS + JSON + SIZED, path=b"/static/../v1/tenants"), 404),
        (make(OURS + JSON + SIZED, path=b"/login/../v1/tenants"), 401),
        (make(OURS + JSON + SIZED, path=b"/v1/tenants;x"), 404),
        (make(OURS + JSON + SIZED, path=b"/v1/openapi.json/../tenants"), 404),
        (b"TRACE /v1/tenants HTTP/1.1\r\n" + OURS + b"\r\n", 405),
        (b"GET /v1/tenants HTTP/1.1\r\nX: y\r\n Authorization: Bearer x\r\n\r\n", 421),
    ],
)
def test_a_malformed_request_is_refused_and_creates_nothing(
    port: int, opened: OpenTenants, request_: bytes, status: int
):
    assert asked(port, request_) == status
    assert not tenant.tenant(opened.settings.home, "made").exists


def test_a_body_in_chunks_is_one_request_whatever_its_length_says(port: int, opened: OpenTenants):
    inner = make(OURS + JSON + SIZED)  # a second request, if the server believes the length
    both = OURS.replace(b"close", b"keep-alive") + JSON + b"Transfer-Encoding: chunked\r\n"
    framed = b"%x\r\n" % len(inner) + inner + b"\r\n0\r\n\r\n"
    assert asked(port, make(both + b"Content-Length: 0\r\n", framed)) == 400
    assert not tenant.tenant(opened.settings.home, "made").exists


class _Seen(HTMLParser):
    """The markup of a page that a memory's text must not have created, and the page's links."""

    def __init__(self) -> None:
        super().__init__()
        self.bad: list[object] = []
        self.links: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        handles = [name for name in named if name.startswith("on") or name == "style"]
        if tag.startswith("xss") or handles or (tag == "script" and "src" not in named):
            self.bad.append((tag, attrs))
        for name in ("href", "src", "action", "formaction"):
            url = named.get(name)
            if url and not url.startswith("#") and (url[0] != "/" or url.startswith("//")):
                self.bad.append((tag, name, url))
        if tag == "a":
            self.links.add((named.get("href") or "").partition("#")[0])


def test_no_text_makes_an_element_an_attribute_or_a_foreign_address(opened: OpenTenants):
    owner = browser(application(opened))
    _hostile(opened, owner)
    every = ("overview", "memories", "lab", "graph", "lessons", "goals", "proposals", "jobs")
    asked_for = urlencode(dict.fromkeys(("q", "session", "tag", "asked", "state"), HOSTILE))
    waiting = [f"/t/default/{name}" for name in (*every, "access", "errors", "recalls")]
    waiting += [f"/t/default/{name}?{asked_for}" for name in (*every, "recalls", "graph/entity")]
    seen: dict[str, int] = {}
    looked_at: set[str] = set()
    while waiting and len(looked_at) < PAGES:
        path = waiting.pop(0)
        kind = "/".join(urlsplit(path).path.split("/")[:4])
        if path in looked_at or seen.get(kind, 0) >= ALIKE or not path.startswith("/t/default/"):
            continue
        seen[kind] = seen.get(kind, 0) + 1
        looked_at.add(path)
        answer = owner.get(path)
        assert answer.status_code < 500, path
        if answer.mimetype == "text/html":
            page = _Seen()
            page.feed(answer.text)
            assert page.bad == [], path
            assert answer.headers["Cache-Control"] == "no-store" or answer.status_code >= 300
            waiting += sorted(page.links)
    assert len(looked_at) > 20


def _hostile(opened: OpenTenants, owner: Browser) -> None:
    """Fill every field that comes from outside with hostile text."""
    log, home = opened.get("default").log, opened.settings.home
    for kind in ("fact", "goal", "milestone", "lesson", "preference", "decision"):
        more = {"chain": HOSTILE} if kind == "milestone" else {}
        draft = Draft(
            content=f"{HOSTILE} `src/{HOSTILE}.py` of {kind}",
            kind=kind,
            tags=(HOSTILE,),
            context=HOSTILE,
            metadata={HOSTILE: HOSTILE},
            **more,
        )
        commands.record(log, draft, NOW)
    tokens.make(home, "default", Wanted(scopes=("read",), name=HOSTILE), NOW)
    failures.keep(opened.get("default").tenant.root, "facts", NOW, HOSTILE)
    bearer = HOST | {"Authorization": f"Bearer {TOKEN}"}
    body = json.dumps({"query": HOSTILE, "min_confidence": 0.0})
    told = owner.client.post(
        "/v1/recall", data=body, headers=bearer, content_type="application/json"
    )
    assert told.status_code == 200
