"""
The dashboard as the tests open it: logged in through Flask's client, or in the system's Chromium on
a server of its own.
"""

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest
from flask import Flask
from flask.testing import FlaskClient
from werkzeug.serving import WSGIRequestHandler, make_server
from werkzeug.test import TestResponse

from serve.app import create_app
from serve.server.open_tenants import OpenTenant, OpenTenants
from store.home import config
from store.home.http_access import signer
from store.memories.memory import Memory

if TYPE_CHECKING:
    from playwright.sync_api import Browser as Chromium
    from playwright.sync_api import Page as Tab

NOW = 1_800_000_000_000_000
TOKEN = "the-owner's-token"
HOST = {"Host": "127.0.0.1:7437"}
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium: `apt-get install chromium`, as .ci/run does"
)
PHONE = {"width": 380, "height": 800}
DESK = {"width": 1280, "height": 900}


@dataclass(frozen=True)
class Browser:
    """A logged-in browser without scripts: Flask's client with the session's cookie."""

    client: FlaskClient
    csrf: str

    def get(self, path: str, **headers: str) -> TestResponse:
        return self.client.get(path, headers=HOST | headers)

    def post(self, path: str, csrf: str | None = None, **fields: object) -> TestResponse:
        """Send a form as a page of the dashboard would."""
        sent = {"csrf": self.csrf if csrf is None else csrf} | fields
        return self.client.post(path, data=sent, headers=HOST)

    def follow(self, answer: TestResponse) -> TestResponse:
        """Return the page to which a form's answer redirects."""
        assert answer.status_code == 303, answer.text
        return self.get(answer.headers["Location"])


def application(tenants: OpenTenants, clock: Callable[[], int] = lambda: NOW) -> Flask:
    return create_app(tenants, TOKEN, clock, hook_deadline_s=30.0)


def browser(app: Flask) -> Browser:
    """Return a browser with a session cookie; logging in by a link costs each test 0.5 s."""
    signing, client = signer(TOKEN, config.load()), app.test_client()
    cookie = signing.value(NOW)
    session = signing.session(cookie, NOW)
    assert session is not None
    client.set_cookie(signing.cookie, cookie, domain="127.0.0.1")
    return Browser(client, session.csrf)


def find_memory(opened: OpenTenant, id_: str) -> Memory:
    """Return a memory as recall currently sees it."""
    with opened.reader.view() as view:
        memory = view.tail.find(id_)
    assert memory is not None
    return memory


def key(client: FlaskClient) -> str:
    """Return a fresh one-time key."""
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    made = client.post("/v1/logins", json={}, headers=HOST | bearer)
    assert made.status_code == 201
    return str(made.json["path"].partition("=")[2])


def fields(html: str) -> dict[str, str]:
    """Return the inputs of a page by name; of two with one name, the last."""
    found = _Fields()
    found.feed(html)
    return found.found


class _Fields(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, str] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        if tag == "input" and named.get("name"):
            self.found[str(named["name"])] = named.get("value") or ""


class _Quiet(WSGIRequestHandler):
    def log(self, type: str, message: str, *args: object) -> None:
        """Do not log requests."""


@contextmanager
def served(app: Flask) -> Iterator[str]:
    """Serve an application on a free port of this machine; yield its address."""
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=_Quiet)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=5)


_running: list[tuple["Chromium", Callable[[], None]]] = []


def chromium() -> "Chromium":
    """Return the browser shared by this file's tests, started on first use in 1 to 2 s.

    Each tab has its own browser context, so tabs share neither cookies nor storage.
    """
    from playwright.sync_api import sync_playwright

    if not _running:
        playwright = sync_playwright().start()
        # no sandbox: a container's root cannot create one
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        _running.append((started, playwright.stop))
    return _running[0][0]


def end_chromium() -> None:
    """End the browser: while one runs, nothing else in this thread can run an event loop."""
    while _running:
        started, stop = _running.pop()
        started.close()
        stop()


@contextmanager
def tab(app: Flask, *, theme: str = "light", scripts: bool = True) -> Iterator["Tab"]:
    """Yield a logged-in tab of Chromium on the first page; `theme` is light or dark.

    The test that closes it fails on a script error, or on anything that the page's policy refuses.
    """
    with served(app) as address:
        context = chromium().new_context(
            base_url=address,
            viewport=DESK,  # type: ignore[arg-type]
            color_scheme=theme,  # type: ignore[arg-type]
            java_script_enabled=scripts,
        )
        try:
            opened = context.new_page()
            opened.set_default_timeout(60_000)
            wrong: list[str] = []
            opened.on("pageerror", lambda error: wrong.append(str(error)))
            opened.on(
                "console",
                lambda said: wrong.append(said.text) if "Content Security" in said.text else None,
            )
            opened.goto(f"/login?key={key(app.test_client())}")
            if not scripts:
                opened.get_by_role("button", name="Log in").click()
            opened.wait_for_url("**/t/**")
            yield opened
        finally:
            context.close()
        assert wrong == []
