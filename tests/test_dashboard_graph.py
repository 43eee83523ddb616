"""The page Graph: tables for everybody, and a picture that a script draws and a hand moves."""

import struct
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import msgspec
import numpy as np
import pytest
from dashboard_page import CHROMIUM, NOW, PHONE, Browser, application, browser, tab
from flask import Flask

from serve.reports import graph_views
from serve.server.open_tenants import OpenTenants
from store.embedders.lexical import LexicalEmbedder
from store.home import tenant
from store.home.config import Settings
from store.log import commands
from store.log.commands import Draft
from store.log.event_log import EventLog
from store.maintenance import build

GRAPH = "/t/default/graph"
TEXTS = {
    "m1": "store/log.py and store/events.py keep what happened",
    "m2": "store/log.py calls store/events.py",
    "m3": "serve/app.py opens store/log.py",
    "m4": "serve/gate.py guards serve/app.py",
}

in_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: `apt-get install chromium`")


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EventLog]:
    with EventLog(tenant.tenant(tmp_path).log, create=True) as opened:
        for id_, text in TEXTS.items():
            commands.record(opened, Draft(id=id_, content=text), NOW)
        yield opened


@pytest.fixture
def app(tmp_path: Path, log: EventLog) -> Iterator[Flask]:
    build.rebuild(tenant.tenant(tmp_path), log, LexicalEmbedder(), NOW)
    tenants = OpenTenants(Settings(tmp_path))
    yield application(tenants)
    tenants.close()


@pytest.fixture
def owner(app: Flask) -> Browser:
    return browser(app)


def entity(name: str, **more: object) -> str:
    return f"{GRAPH}/entity?{urlencode({'kind': 'file', 'name': name, **more})}"


# The tables, which need no script


def test_the_most_mentioned_entities_are_a_table(owner: Browser):
    page = owner.get(GRAPH).text
    table = page[page.index("<table") :]
    assert table.index("store/log.py") < table.index("store/events.py") < table.index("gate.py")
    assert "4 of 4 entities" in page and "3 of 3 edges" in page


def test_a_name_is_looked_for_by_its_beginning_or_that_of_its_file(owner: Browser):
    for asked, found in (("STORE/", 2), ("gate", 1), ("nothing", 0)):
        page = owner.get(f"{GRAPH}?name={asked}").text
        assert page.count("<tr data-row") == found
    assert "No entity." in owner.get(f"{GRAPH}?kind=person").text


def test_an_entity_is_a_page_with_its_neighbours_and_memories(owner: Browser):
    page = owner.get(entity("store/log.py")).text
    assert "<h1" in page
    for said in (
        "store/events.py",
        "serve/app.py",
        *(TEXTS[id_] for id_ in ("m1", "m2", "m3")),
    ):
        assert said in page
    assert TEXTS["m4"] not in page


def test_what_was_forgotten_since_the_build_is_not_shown(owner: Browser, log: EventLog):
    commands.forget(log, "m3", NOW)
    page = owner.get(entity("store/log.py")).text
    assert TEXTS["m3"] not in page and TEXTS["m2"] in page
    assert "of which 1 no longer hold" in page


def test_the_part_for_the_pictures_side_has_no_frame(owner: Browser):
    part = owner.get(entity("store/log.py", part=1)).text
    assert "<html" not in part and "<h2" in part and TEXTS["m1"] in part


def test_an_unknown_entity_is_a_page_that_says_so(owner: Browser):
    for path in (entity("no/such.py"), f"{GRAPH}/entity", f"{GRAPH}/entity?kind=file"):
        assert owner.get(path).status_code == 404


def test_before_the_first_build_there_is_a_page_and_no_picture(tmp_path: Path):
    EventLog(tenant.tenant(tmp_path, "empty").log, create=True).close()
    tenants = OpenTenants(Settings(tmp_path))
    owner = browser(application(tenants))
    assert "run `mnemolog build`" in owner.get("/t/empty/graph").text
    assert owner.get("/t/empty/graph/picture").status_code == 404
    tenants.close()


def test_a_name_is_harmless(tmp_path: Path, log: EventLog):
    commands.record(log, Draft(content='see https://evil.example/<b>"x and store/log.py'), NOW)
    build.rebuild(tenant.tenant(tmp_path), log, LexicalEmbedder(), NOW)
    tenants = OpenTenants(Settings(tmp_path))
    assert "<b>" not in browser(application(tenants)).get(GRAPH).text
    tenants.close()


# The picture


def test_the_picture_holds_names_places_and_lines(owner: Browser):
    data = owner.get(f"{GRAPH}/picture").data
    (length,) = struct.unpack_from("<I", data)
    head = msgspec.json.decode(data[4 : 4 + length])
    nodes, lines = head["nodes"], head["lines"]
    assert (nodes, lines, length % 4) == (4, 3, 0)
    assert len(data) == 4 + length + 4 * (5 * nodes + 2 * lines)
    numbers = np.frombuffer(data, "<u4", offset=4 + length)
    mentions = dict(zip(head["names"], numbers[2 * nodes : 3 * nodes].tolist(), strict=True))
    assert mentions["store/log.py"] == 3 and mentions["serve/gate.py"] == 1
    source, target = numbers[5 * nodes :].reshape(2, lines).tolist()
    joined = {
        frozenset((head["names"][a], head["names"][b])) for a, b in zip(source, target, strict=True)
    }
    assert frozenset(("store/log.py", "store/events.py")) in joined


def test_a_picture_that_did_not_change_is_not_sent_again(
    owner: Browser, log: EventLog, tmp_path: Path
):
    first = owner.get(f"{GRAPH}/picture")
    assert first.headers["Cache-Control"] == "private, no-cache"
    again = owner.get(f"{GRAPH}/picture", **{"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.data) == (304, b"")
    other = owner.get(f"{GRAPH}/picture", **{"If-None-Match": '"other"'})
    assert other.data == first.data


def test_recall_keeps_nothing_of_the_picture(app: Flask, tmp_path: Path):
    tenants = OpenTenants(Settings(tmp_path))
    with tenants.get("default").reader.view() as view:
        manifest = view.snapshots.manifest
        opened = {*tenants.get("default").reader._files._parts}
    tenants.close()
    assert manifest is not None and opened
    layout = {file.path for file in manifest.projections["layout"].files}
    assert layout and not layout & opened


def test_entities_are_found_by_kind_and_name(app: Flask, tmp_path: Path):
    tenants = OpenTenants(Settings(tmp_path))
    with tenants.get("default").reader.view() as view:
        index = view.snapshots.entities
        assert index is not None
        for number in range(len(index)):
            assert index.find(index.kind(number), index.name(number)) == number
        assert index.find("file", "zzz") is None and index.find("", "") is None
        named = graph_views.most_mentioned(index, None, 2)
    tenants.close()
    assert [one.mentions for one in named] == [3, 2]


@in_browser
def test_a_script_draws_the_picture_and_a_search_chooses(app: Flask):
    with tab(app) as page:
        page.goto(GRAPH)
        page.locator("[data-graph-wait]").wait_for(state="hidden")
        page.wait_for_function(
            "() => { const c = document.querySelector('[data-graph-picture]');"
            "return c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some(Boolean) }"
        )
        page.get_by_placeholder("Find in the picture").fill("gate")
        page.get_by_role("button", name="Find").click()
        side = page.get_by_role("complementary", name="The chosen entity")
        side.get_by_role("heading", name="serve/gate.py").wait_for()
        side.get_by_role("link", name="serve/app.py", exact=True).click()
        side.get_by_role("heading", name="serve/app.py").wait_for()
        assert page.url.endswith(GRAPH)
        side.get_by_role("button", name="Close").click()
        side.wait_for(state="hidden")


@in_browser
def test_the_picture_is_moved_by_keys_buttons_wheel_and_a_hand(app: Flask):
    picture = (
        "() => { const c = document.querySelector('[data-graph-front]');"
        "return c.getContext('2d').getImageData(0, 0, c.width, c.height).data.join() }"
    )
    with tab(app) as page:
        page.goto(GRAPH)
        page.locator("[data-graph-wait]").wait_for(state="hidden")
        front = page.locator("[data-graph-front]")
        box = front.bounding_box()
        assert box is not None
        front.focus()
        before = page.evaluate(picture)

        def moves() -> None:
            nonlocal before
            page.wait_for_function(f"was => ({picture})() !== was", arg=before)
            page.wait_for_timeout(400)  # until it is drawn anew
            before = page.evaluate(picture)

        page.wait_for_function(f"({picture})().match(/[1-9]/)")
        before = page.evaluate(picture)
        page.keyboard.press("ArrowLeft")
        moves()
        page.keyboard.press("+")
        moves()
        page.get_by_role("button", name="Further").click()
        moves()
        page.mouse.move(box["x"] + 30, box["y"] + 30)
        page.mouse.down()
        page.mouse.move(box["x"] + 90, box["y"] + 60, steps=4)
        page.mouse.up()
        moves()
        page.mouse.wheel(0, 300)
        moves()


@in_browser
def test_without_scripts_the_table_is_all(app: Flask):
    with tab(app, scripts=False) as page:
        page.goto(GRAPH)
        assert not page.locator("canvas").first.is_visible()
        page.get_by_role("link", name="store/log.py").click()
        page.get_by_role("heading", name="store/log.py").wait_for()


@in_browser
def test_the_pages_fit_a_phone(app: Flask):
    with tab(app) as page:
        page.set_viewport_size(PHONE)  # type: ignore[arg-type]
        for path in (GRAPH, entity("store/log.py")):
            page.goto(path)
            assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
