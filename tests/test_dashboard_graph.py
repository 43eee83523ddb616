"""The page Graph: tables for everybody, and a picture drawn by a script and moved by hand."""

import html
import re
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import msgspec
import pytest
from dashboard_page import NOW, Browser, application, browser, needs_chromium, tab
from flask import Flask

from serve.dashboard.shell import FOLDER
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


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A built home; each test has a copy."""
    home = tmp_path_factory.mktemp("template")
    owner = tenant.tenant(home)
    with EventLog(owner.log, create=True) as opened:
        for id_, text in TEXTS.items():
            commands.record(opened, Draft(id=id_, content=text), NOW)
        build.rebuild(owner, opened, LexicalEmbedder(), NOW)
    return home


@pytest.fixture
def log(tmp_path: Path, template: Path) -> Iterator[EventLog]:
    shutil.copytree(template, tmp_path, dirs_exist_ok=True)
    with EventLog(tenant.tenant(tmp_path).log) as opened:
        yield opened


@pytest.fixture
def app(tmp_path: Path, log: EventLog) -> Iterator[Flask]:
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
    assert "4 most mentioned of 4 entities" in page


def test_entities_are_searched_by_the_beginning_of_a_name_or_file(owner: Browser):
    for name, count in (("STORE/", 2), ("gate", 1), ("nothing", 0)):
        page = owner.get(f"{GRAPH}?name={name}").text
        assert page.count("<tr data-row") == count
    assert "No entity." in owner.get(f"{GRAPH}?kind=person").text


def test_an_entity_is_a_page_with_its_neighbours_and_memories(owner: Browser):
    page = owner.get(entity("store/log.py")).text
    assert "<h1" in page
    for text in (
        "store/events.py",
        "serve/app.py",
        *(TEXTS[id_] for id_ in ("m1", "m2", "m3")),
    ):
        assert text in page
    assert TEXTS["m4"] not in page


def test_memories_forgotten_since_the_build_are_not_shown(owner: Browser, log: EventLog):
    commands.forget(log, "m3", NOW)
    page = owner.get(entity("store/log.py")).text
    assert TEXTS["m3"] not in page and TEXTS["m2"] in page
    assert "of which 1 no longer hold" in page


def test_the_part_for_the_pictures_side_has_no_frame(owner: Browser):
    part = owner.get(entity("store/log.py", part=1)).text
    assert "<html" not in part and "<h2" in part and TEXTS["m1"] in part


def test_an_unknown_entity_has_a_page_of_its_own(owner: Browser):
    for path in (entity("no/such.py"), f"{GRAPH}/entity", f"{GRAPH}/entity?kind=file"):
        assert owner.get(path).status_code == 404


def test_before_the_first_build_there_is_a_page_and_no_picture(tmp_path: Path):
    EventLog(tenant.tenant(tmp_path, "empty").log, create=True).close()
    tenants = OpenTenants(Settings(tmp_path))
    owner = browser(application(tenants))
    assert "run <code>mnemolog build</code>" in owner.get("/t/empty/graph").text
    assert owner.get("/t/empty/graph/around?of=file&name=a.py").status_code == 404
    tenants.close()


def test_names_are_escaped(tmp_path: Path, log: EventLog):
    commands.record(log, Draft(content='see https://evil.example/<b>"x and store/log.py'), NOW)
    build.rebuild(tenant.tenant(tmp_path), log, LexicalEmbedder(), NOW)
    tenants = OpenTenants(Settings(tmp_path))
    assert "<b>" not in browser(application(tenants)).get(GRAPH).text
    tenants.close()


# The picture


def drawn(page: str) -> dict[str, Any]:
    """Return the data of the picture on a page."""
    match = re.search(r'data-picture="([^"]*)"', page)
    assert match is not None
    picture: dict[str, Any] = msgspec.json.decode(html.unescape(match[1]))
    return picture


def joined(picture: dict[str, Any]) -> set[frozenset[str]]:
    names = [node["name"] for node in picture["nodes"]]
    return {frozenset((names[source], names[target])) for source, target, _ in picture["edges"]}


def test_the_picture_holds_the_most_mentioned_and_what_joins_them(owner: Browser):
    picture = drawn(owner.get(GRAPH).text)
    mentions = {node["name"]: node["memories"] for node in picture["nodes"]}
    assert next(iter(mentions)) == "store/log.py"
    assert (mentions["store/log.py"], mentions["serve/gate.py"]) == (3, 1)
    assert frozenset(("store/log.py", "store/events.py")) in joined(picture)
    assert picture["nodes"][0]["label"] == "log.py"


def test_kind_project_and_time_narrow_the_picture(owner: Browser, log: EventLog, tmp_path: Path):
    text = "Tom Christie says pkg/a.py needs pkg/b.py"
    old = datetime.fromtimestamp(NOW / 1e6 - 90 * 86_400, UTC)
    commands.record(
        log, Draft(id="p", content=text, project="other", created_by="Tom Christie"), NOW
    )
    commands.record(log, Draft(id="o", content="old/c.py asks old/d.py", created_at=old), NOW)
    build.rebuild(tenant.tenant(tmp_path), log, LexicalEmbedder(), NOW)
    tenants = OpenTenants(Settings(tmp_path))
    anew = browser(application(tenants))

    def names(query: str) -> set[str]:
        return {node["name"] for node in drawn(anew.get(f"{GRAPH}?{query}").text)["nodes"]}

    every = names("")
    assert {"pkg/a.py", "old/c.py", "store/log.py"} <= every and "tom christie" not in every
    assert "old/c.py" not in names("since=30d") and "pkg/a.py" in names("since=30d")
    assert names("project=other") >= {"pkg/a.py"}
    assert "pkg/a.py" not in names("project=third")
    assert "Nothing is mentioned together" in anew.get(f"{GRAPH}?kind=package").text
    assert "tom christie" in anew.get(f"{GRAPH}?kind=person").text
    assert anew.get(f"{GRAPH}?kind=nobody").status_code == 400
    tenants.close()


def test_the_picture_of_a_large_graph_is_bounded(tmp_path: Path, log: EventLog):
    texts = [f"src/m{n % 300}.py calls src/m{(n * 7 + 1) % 300}.py" for n in range(600)]
    commands.record_batch(log, [Draft(content=f"{text}, {n}") for n, text in enumerate(texts)], NOW)
    build.rebuild(tenant.tenant(tmp_path), log, LexicalEmbedder(), NOW)
    tenants = OpenTenants(Settings(tmp_path))
    page = browser(application(tenants)).get(GRAPH).text
    picture = drawn(page)
    assert len(picture["nodes"]) == graph_views.DRAWN
    assert len(picture["edges"]) <= graph_views.DRAWN * graph_views.LINES_EACH
    assert "80 most mentioned of" in page
    tenants.close()


def test_communities_are_lists_that_need_no_script(owner: Browser, log: EventLog, tmp_path: Path):
    teams = [[f"{team}/{name}.py" for name in "abcd"] for team in ("red", "blue")]
    texts = [
        f"{member} with {other}"
        for team in teams
        for member in team
        for other in team
        if member < other
    ]
    commands.record_batch(log, [Draft(content=text) for text in texts], NOW)
    build.rebuild(tenant.tenant(tmp_path), log, LexicalEmbedder(), NOW)
    tenants = OpenTenants(Settings(tmp_path))
    page = browser(application(tenants)).get(GRAPH).text
    payload = drawn(page)
    group = {node["name"]: node["group"] for node in payload["nodes"]}
    assert len({group[name] for name in teams[0]}) == len({group[name] for name in teams[1]}) == 1
    assert group["red/a.py"] != group["blue/a.py"]
    assert page.count('class="community"') == len(
        {community for community in group.values() if community is not None}
    )
    tenants.close()


def test_the_picture_around_an_entity_has_its_neighbours(owner: Browser):
    around = f"{GRAPH}/around?{urlencode({'of': 'file', 'name': 'serve/gate.py'})}"
    answer = owner.get(around)
    assert answer.mimetype == "application/json"
    picture: dict[str, Any] = msgspec.json.decode(answer.data)
    assert [node["name"] for node in picture["nodes"]] == ["serve/gate.py", "serve/app.py"]
    assert owner.get(f"{GRAPH}/around?of=file&name=no/such.py").status_code == 404


def test_a_picture_leaves_out_memories_forgotten_since(owner: Browser, log: EventLog):
    commands.forget(log, "m4", NOW)
    picture = drawn(owner.get(GRAPH).text)
    assert "serve/gate.py" not in [node["name"] for node in picture["nodes"]]


def test_scripts_of_others_are_what_their_table_says_and_have_their_licence():
    folder = FOLDER / "vendor"
    table = msgspec.json.decode((folder / "vendor.json").read_bytes(), type=list[dict[str, str]])
    for row in table:
        data = (folder / row["file"]).read_bytes()
        assert sha256(data).hexdigest() == row["sha256"], row["file"]
        assert "Copyright" in (folder / row["license"]).read_text(encoding="utf-8")
        assert row["package"] and row["version"]
    listed = {row[name] for row in table for name in ("file", "license")}
    assert {path.name for path in folder.iterdir()} == listed | {"vendor.json"}


def test_entities_are_found_by_kind_and_name(app: Flask, tmp_path: Path):
    tenants = OpenTenants(Settings(tmp_path))
    with tenants.get("default").reader.view() as view:
        index = view.snapshots.entities
        assert index is not None
        for number in range(len(index)):
            assert index.find(index.kind(number), index.name(number)) == number
        assert index.find("file", "zzz") is None and index.find("", "") is None
        named = graph_views.most_mentioned(index, ["file"], 2)
    tenants.close()
    assert [name.mentions for name in named] == [3, 2]


CY = "document.querySelector('[data-graph-view]')._cyreg.cy"
PLACES = f"{CY}.nodes().map(node => [node.id(), node.position('x'), node.position('y')]).join()"
VIEW = f"[{CY}.zoom(), {CY}.pan('x'), {CY}.pan('y')].join()"


@needs_chromium
def test_a_script_draws_the_picture_and_a_search_chooses(app: Flask):
    with tab(app) as page:
        page.goto(GRAPH)
        page.locator(".graph-view.drawn").wait_for()
        places = page.evaluate(PLACES)
        page.reload()
        page.locator(".graph-view.drawn").wait_for()
        assert page.evaluate(PLACES) == places  # the same picture of the same data
        page.get_by_placeholder("Find in the picture").fill("gate.py")
        page.get_by_role("button", name="Find").first.click()
        side = page.get_by_role("complementary", name="The chosen entity")
        side.get_by_role("heading", name="serve/gate.py").wait_for()
        assert page.evaluate(f"{CY}.nodes('.chosen').map(node => node.id())") == [
            "file:serve/gate.py"
        ]
        assert page.evaluate(f"{CY}.nodes('.far').length") == 2
        side.get_by_role("link", name="serve/app.py", exact=True).click()
        side.get_by_role("heading", name="serve/app.py").wait_for()
        assert page.url.endswith(GRAPH)
        side.get_by_role("button", name="Close").click()
        side.wait_for(state="hidden")
        assert page.evaluate(f"{CY}.nodes('.far').length") == 0


@needs_chromium
def test_a_click_draws_what_an_entity_is_named_with_though_it_was_not_in_the_picture(
    app: Flask, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(graph_views, "DRAWN", 2)
    with tab(app) as page:
        page.goto(GRAPH)
        page.locator(".graph-view.drawn").wait_for()
        assert page.evaluate(f"{CY}.nodes().length") == 2
        x, y = page.evaluate(
            f"(() => {{ const at = {CY}.getElementById('file:store/log.py').renderedPosition();"
            f"const box = {CY}.container().getBoundingClientRect();"
            "return [box.left + at.x, box.top + at.y] })()"
        )
        page.mouse.click(x, y)
        page.wait_for_function(f"{CY}.getElementById('file:serve/app.py').nonempty()")
        page.locator("[data-graph-view]").press("Escape")
        assert page.evaluate(f"{CY}.nodes().length") == 2


@needs_chromium
def test_the_picture_is_moved_by_keys_buttons_wheel_and_a_hand(app: Flask):
    with tab(app) as page:
        page.goto(GRAPH)
        page.locator(".graph-view.drawn").wait_for()
        area = page.locator("[data-graph-view]")
        area.scroll_into_view_if_needed()
        box = area.bounding_box()
        assert box is not None
        area.focus()
        before = page.evaluate(VIEW)

        def moves() -> None:
            nonlocal before
            page.wait_for_function(f"was => {VIEW} !== was", arg=before)
            before = page.evaluate(VIEW)

        page.keyboard.press("ArrowLeft")
        moves()
        page.keyboard.press("+")
        moves()
        page.get_by_role("button", name="Further").click()
        moves()
        page.mouse.move(box["x"] + 4, box["y"] + 4)
        page.mouse.down()
        page.mouse.move(box["x"] + 64, box["y"] + 34, steps=4)
        page.mouse.up()
        moves()
        page.mouse.wheel(0, 300)
        moves()


@needs_chromium
def test_without_scripts_the_table_is_all(app: Flask):
    with tab(app, scripts=False) as page:
        page.goto(GRAPH)
        assert not page.locator("[data-graph-view]").is_visible()
        page.get_by_role("link", name="store/log.py").click()
        page.get_by_role("heading", name="store/log.py").wait_for()
