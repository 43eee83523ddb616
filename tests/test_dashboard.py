"""The dashboard's shell: logins, the protection of its pages, and its error pages."""

import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import pytest
from background import end, mnemolog, said
from dashboard_page import (
    HOST,
    NOW,
    PHONE,
    TOKEN,
    Browser,
    application,
    browser,
    fields,
    key,
    needs_chromium,
    tab,
)
from flask import Flask

from serve.dashboard.shell import FOLDER, PLACES, assets
from serve.server.open_tenants import OpenTenants
from store.home import config, tenant
from store.home.config import Settings
from store.home.errors import InvalidInput, LogBusy, LogFull
from store.home.http_access import KEY_LIVES_US, SESSION_LIVES_S, signer
from store.log import commands
from store.log.commands import Draft
from store.log.event_log import EventLog

FORM = "application/x-www-form-urlencoded"
TEMPLATES = FOLDER.parent / "templates"
PAGE = "/t/default/memories"


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def tenants(tmp_path: Path) -> Iterator[OpenTenants]:
    for name in ("default", "other"):
        EventLog(tenant.tenant(tmp_path, name).log, create=True).close()
    opened = OpenTenants(Settings(tmp_path))
    yield opened
    opened.close()


@pytest.fixture
def app(tenants: OpenTenants, clock: Clock) -> Flask:
    return application(tenants, clock)


@pytest.fixture
def owner(app: Flask) -> Browser:
    return browser(app)


# Login


def test_a_link_leads_to_a_form_and_the_form_lets_in(app: Flask):
    client = app.test_client()
    sent = key(client)
    shown = client.get(f"/login?key={sent}", headers=HOST)
    assert shown.status_code == 200 and sent in shown.text
    assert "Set-Cookie" not in shown.headers
    entered = client.post("/login", data={"key": sent}, headers=HOST)
    assert entered.status_code == 303 and entered.headers["Location"] == "/"
    assert client.get(PAGE, headers=HOST).status_code == 200


def test_looking_at_a_link_does_not_use_it_up(app: Flask):
    client = app.test_client()
    sent = key(client)
    for _ in range(3):
        client.get(f"/login?key={sent}", headers=HOST)
    assert client.post("/login", data={"key": sent}, headers=HOST).status_code == 303


def test_the_cookie_is_for_this_site_and_no_script(app: Flask):
    client = app.test_client()
    entered = client.post("/login", data={"key": key(client)}, headers=HOST)
    parts = entered.headers["Set-Cookie"].split("; ")
    assert {"HttpOnly", "SameSite=Strict", "Path=/", f"Max-Age={SESSION_LIVES_S}"} <= {*parts}
    assert not [part for part in parts if part.startswith("Domain")]


@pytest.mark.parametrize("how", ["wrong", "used", "late", "none"])
def test_a_link_that_does_not_work_says_how_to_make_another(app: Flask, clock: Clock, how: str):
    client = app.test_client()
    sent = {"wrong": "x" * 43, "none": ""}.get(how) or key(client)
    if how == "none":
        sent = ""
    if how == "used":
        app.test_client().post("/login", data={"key": sent}, headers=HOST)
    if how == "late":
        clock.now += KEY_LIVES_US
    refused = client.post("/login", data={"key": sent}, headers=HOST)
    assert refused.status_code == 403
    assert refused.mimetype == "text/html" and "mnemolog dashboard" in refused.text
    assert "Set-Cookie" not in refused.headers


def test_only_the_owners_token_makes_a_link(app: Flask):
    client = app.test_client()
    for headers in ({}, {"Authorization": "Bearer wrong"}):
        assert client.post("/v1/logins", json={}, headers=HOST | headers).status_code == 401
    asked = client.get("/v1/logins", headers=HOST | {"Authorization": f"Bearer {TOKEN}"})
    assert asked.status_code == 405


def test_who_is_not_logged_in_is_sent_to_the_login(app: Flask):
    answer = app.test_client().get(PAGE, headers=HOST)
    assert (answer.status_code, answer.headers["Location"]) == (303, "/login")
    page = app.test_client().get("/login", headers=HOST)
    assert "mnemolog dashboard" in page.text and "<nav" not in page.text


def test_a_session_outlives_the_server_and_ends_after_its_hours(
    app: Flask, tenants: OpenTenants, clock: Clock
):
    client = app.test_client()
    cookie = client.post("/login", data={"key": key(client)}, headers=HOST).headers["Set-Cookie"]
    shown = HOST | {"Cookie": cookie.partition(";")[0]}
    again = application(tenants, clock).test_client(use_cookies=False)
    assert again.get(PAGE, headers=shown).status_code == 200
    clock.now += SESSION_LIVES_S * 1_000_000
    assert again.get(PAGE, headers=shown).status_code == 303


def test_the_cookie_opens_no_address_of_programs(owner: Browser):
    assert owner.get("/v1/memories/x").status_code == 401
    assert owner.client.post("/v1/logins", json={}, headers=HOST).status_code == 401


def test_logging_out_forgets_the_cookie(owner: Browser):
    assert owner.post("/logout").headers["Location"] == "/login"
    assert owner.get(PAGE).status_code == 303


def test_a_copy_of_the_cookie_is_worth_nothing_after_logging_out(
    owner: Browser, app: Flask, tenants: OpenTenants
):
    copied = owner.client.get_cookie(signer(TOKEN, config.load()).cookie, "127.0.0.1")
    assert copied is not None
    shown = HOST | {"Cookie": f"{copied.key}={copied.value}"}
    thief = app.test_client(use_cookies=False)
    assert thief.get(PAGE, headers=shown).status_code == 200
    owner.post("/logout")
    assert thief.get(PAGE, headers=shown).status_code == 303
    restarted = application(tenants).test_client(use_cookies=False)
    assert restarted.get(PAGE, headers=shown).status_code == 303


def test_a_large_form_of_nobody_is_not_taken_apart(app: Flask):
    large = app.test_client().post("/login", data="a&" * 4_000, headers=HOST, content_type=FORM)
    assert large.status_code == 413


@pytest.mark.parametrize(
    "back",
    [
        *("//evil.example/t/default/", "http://evil.example/t/default/", "javascript:alert(1)"),
        *("//[", "/t/default/../..//evil.example", "/t/default/\\evil.example", "/t/other/goals"),
    ],
)
def test_a_form_leads_back_into_its_own_tenant_alone(owner: Browser, back: str):
    sent = owner.post("/t/default/jobs/switch", job="reflect", on="1", back=back)
    assert sent.headers["Location"].startswith("/t/default/jobs?flash=")


def test_a_form_without_the_sessions_token_is_refused(owner: Browser, app: Flask):
    for csrf in ("", "wrong", browser(app).csrf):
        refused = owner.post("/logout", csrf=csrf)
        assert (refused.status_code, refused.mimetype) == (403, "text/html")
    assert owner.get(PAGE).status_code == 200


def test_another_site_cannot_use_the_login_or_a_form(app: Flask, owner: Browser):
    for headers in ({"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
        sent = {"key": key(app.test_client()), "csrf": owner.csrf}
        for path in ("/login", "/logout"):
            refused = owner.client.post(path, data=sent, headers=HOST | headers)
            assert (refused.status_code, refused.mimetype) == (403, "text/html")


def test_the_command_starts_the_server_and_prints_a_link_that_lets_in(home: Path):
    try:
        first, second = (said("dashboard") for _ in range(2))
        assert first["url"] != second["url"]
        address = urlsplit(first["url"])
        assert (address.hostname, address.path) == ("127.0.0.1", "/login")
        with urllib.request.urlopen(first["url"]) as page:
            sent = fields(page.read().decode())
        data = urlencode({"key": sent["key"]}).encode()
        entering = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        with entering.open(f"http://{address.netloc}/login", data) as page:
            assert "/t/default/" in page.url
        plain = mnemolog("dashboard", "--no-open")
        assert plain.stdout.startswith(f"http://{address.netloc}/login?key=")
    finally:
        end(home)


# Protection of a page

ADDRESSES = ("/login", "/", PAGE, "/t/none/", "/nothing", "/static/0/none.js")


@pytest.mark.parametrize("path", ADDRESSES)
def test_every_answer_carries_the_headers_that_protect_it(app: Flask, owner: Browser, path: str):
    for client in (app.test_client(), owner.client):
        answer = client.get(path, headers=HOST)
        policy = dict(
            part.strip().split(" ", 1)
            for part in answer.headers["Content-Security-Policy"].split(";")
        )
        assert policy == {
            "default-src": "'none'",
            "script-src": "'self'",
            "style-src": "'self'",
            "img-src": "'self' data:",
            "connect-src": "'self'",
            "form-action": "'self'",
            "frame-ancestors": "'none'",
            "base-uri": "'none'",
        }
        assert answer.headers["X-Frame-Options"] == "DENY"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Referrer-Policy"] == "same-origin"
        assert answer.headers["Cross-Origin-Opener-Policy"] == "same-origin"
        assert answer.headers["Permissions-Policy"]
        assert answer.headers["Cache-Control"] == "no-store"
        assert not [name for name, _ in answer.headers if name.startswith("Access-Control")]


def test_a_refusal_of_the_gate_is_a_page_too(owner: Browser):
    refused = owner.client.get(PAGE, headers={"Host": "evil.example"})
    assert (refused.status_code, refused.mimetype) == (421, "text/html")
    assert refused.headers["X-Frame-Options"] == "DENY"


def test_static_files_are_kept_for_ever_under_their_hash(owner: Browser):
    page = owner.get(PAGE).text
    named = re.findall(r'(?:src|href)="(/static/[^"]+)"', page)
    assert len(named) >= 4
    for path in named:
        answer = owner.get(path)
        assert answer.status_code == 200
        assert answer.headers["Cache-Control"] == "public, max-age=31536000, immutable"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert owner.get("/static/000000000000/keys.js").status_code == 404
    assert owner.get("/static/../shell.py").status_code == 404


def test_every_static_file_has_a_type_that_browsers_run():
    kinds = {Path(name).suffix: asset.mimetype for name, asset in assets().items()}
    assert kinds.items() >= {".js": "text/javascript", ".css": "text/css"}.items()


def test_no_template_holds_what_the_policy_forbids():
    inline = re.compile(
        r"\sstyle\s*=|<style|\son[a-z]+\s*=|javascript:|<script(?![^>]*\ssrc=)", re.I
    )
    for path in TEMPLATES.glob("*.html"):
        assert not inline.findall(path.read_text(encoding="utf-8")), path.name
        assert "|safe" not in path.read_text(encoding="utf-8").replace(" ", ""), path.name


def test_nothing_is_fetched_from_another_host():
    for path in (*TEMPLATES.glob("*"), *filter(Path.is_file, FOLDER.glob("*"))):  # of our own
        text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert not re.findall(r"(?:https?:)?//[a-z0-9.-]+\.[a-z]{2,}", text), path.name


# The frame


@pytest.mark.parametrize(
    ("path", "status"),
    [("/nothing", 404), ("/t/none/memories", 404), ("/t/NO%20NAME/memories", 404)],
)
def test_an_error_is_a_page(owner: Browser, path: str, status: int):
    answer = owner.get(path)
    assert (answer.status_code, answer.mimetype) == (status, "text/html")
    assert "<h1>" in answer.text


@pytest.mark.parametrize(
    ("failure", "status"),
    [(LogBusy("held"), 503), (LogFull("full"), 507), (InvalidInput("x"), 400)],
)
def test_an_error_of_ours_is_a_page_with_its_status(app: Flask, failure: Exception, status: int):
    def fail(tenant: str) -> str:
        raise failure

    app.view_functions["memories.index"] = fail
    answer = browser(app).get(PAGE)
    assert (answer.status_code, answer.mimetype) == (status, "text/html")
    assert ("Retry-After" in answer.headers) == (status == 503)


def test_a_defect_is_a_page_that_tells_no_inside(app: Flask, monkeypatch, caplog):
    app.view_functions["memories.index"] = lambda tenant: 1 / 0
    answer = browser(app).get(PAGE)
    assert (answer.status_code, answer.mimetype) == (500, "text/html")
    assert "ZeroDivisionError" not in answer.text
    assert "ZeroDivisionError" in caplog.text


def test_an_error_of_a_program_stays_for_programs(owner: Browser):
    answer = owner.get("/v1/nothing")
    assert answer.mimetype == "application/problem+json"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_the_first_page_is_the_default_tenants(owner: Browser):
    first = owner.follow(owner.get("/"))
    assert owner.follow(first).status_code == 200


def test_the_bar_names_every_tenant_and_marks_the_present_one(owner: Browser):
    page = owner.get("/t/other/memories").text
    assert re.search(r'href="/t/default/memories"\s*>default<', page)
    assert re.search(r'href="/t/other/memories" aria-current="true">other<', page)


def test_a_page_has_its_landmarks_and_a_way_past_them(owner: Browser):
    page = owner.get(PAGE).text
    assert page.startswith('<!doctype html>\n<html lang="en">')
    assert 'href="#main"' in page and '<main id="main"' in page
    assert page.count("<main") == page.count("<h1") == 1
    assert re.search(r'<nav[^>]*aria-label="Pages"', page) and 'role="search"' in page
    assert "manifest" in page or "nothing built yet" in page


def test_no_two_pages_share_a_key():
    assert len({place.key for place in PLACES}) == len(PLACES)


def test_no_page_shows_the_token_or_the_cookie(owner: Browser):
    cookie = owner.client.get_cookie(app_cookie(owner), domain="127.0.0.1")
    for path in ADDRESSES:
        text = owner.get(path).text
        assert TOKEN not in text
        assert cookie is None or cookie.value not in text


def app_cookie(owner: Browser) -> str:
    return next(iter(owner.client._cookies.values())).key  # type: ignore[union-attr]


# In a browser


@needs_chromium
@pytest.mark.parametrize("scripts", [True, False])
def test_a_browser_gets_in_and_out(app: Flask, scripts: bool):
    with tab(app, scripts=scripts) as shown:
        shown.goto(PAGE)
        assert shown.get_by_role("heading", level=1).text_content() == "Memories"
        shown.get_by_role("button", name="Log out").click()
        shown.wait_for_url("**/login")


@needs_chromium
def test_keys_search_go_through_a_list_and_to_pages(app: Flask, tenants: OpenTenants):
    log = tenants.get("default").log
    for number in range(3):
        commands.record(
            log, Draft(id=f"m{number}", content=f"memory number {number}"), NOW + number
        )
    with tab(app) as shown:
        shown.goto(PAGE)
        for key_, link in (("j", "m2"), ("j", "m1"), ("k", "m2"), ("k", "m2")):
            shown.keyboard.press(key_)
            assert shown.evaluate("document.activeElement.getAttribute('href')").endswith(link)
        shown.keyboard.press("x")
        assert shown.locator("[data-chosen]").text_content() == "1"
        shown.keyboard.press("Enter")
        shown.wait_for_url("**/memory/m2")
        shown.keyboard.press("g")
        shown.keyboard.press("m")
        shown.wait_for_url("**/memories")
        shown.keyboard.press("/")
        shown.keyboard.type("number gj?")
        shown.keyboard.press("Enter")
        shown.wait_for_url("**/memories?q=number+gj%3F")
        shown.keyboard.press("?")
        assert shown.get_by_role("dialog", name="Keys").is_visible()


@needs_chromium
def test_single_keys_can_be_turned_off(app: Flask):
    with tab(app) as shown:
        shown.goto(PAGE)
        shown.get_by_role("button", name="Keys").click()
        shown.get_by_label("Single keys work").uncheck()
        shown.get_by_role("button", name="Close").click()
        shown.keyboard.press("?")
        assert not shown.get_by_role("dialog", name="Keys").is_visible()


@needs_chromium
def test_the_theme_is_the_systems_until_one_is_chosen(app: Flask):
    def page_colour() -> str:
        return str(shown.evaluate("getComputedStyle(document.documentElement).backgroundColor"))

    with tab(app, theme="dark") as shown:
        shown.goto(PAGE)
        dark = page_colour()
        switch = shown.locator("[data-theme-switch]")
        switch.click()
        assert (switch.get_attribute("aria-label"), page_colour()) == ("Theme: dark", dark)
        switch.click()
        assert page_colour() != dark
        shown.reload()
        assert page_colour() != dark


@needs_chromium
def test_on_a_phone_the_pages_are_behind_a_button(app: Flask):
    with tab(app, scripts=False) as shown:
        shown.set_viewport_size(PHONE)
        shown.goto(PAGE)
        link = shown.get_by_role("navigation", name="Pages").get_by_role("link", name="Memories")
        assert not link.is_visible()
        shown.get_by_role("button", name="Pages").click()
        assert link.is_visible()
        assert shown.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
