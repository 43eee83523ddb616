"""
The dashboard in a real browser: every page in light and dark, on desktop and phone, full of hostile
memories and checked by axe; then a person's actions, one after the other.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from conftest import TEXTS
from dashboard_page import (
    CHROMIUM,
    DESK,
    HOST,
    NOW,
    PHONE,
    TOKEN,
    application,
    end_chromium,
    find_memory,
    needs_chromium,
    served,
    tab,
)
from flask import Flask

from serve.dashboard.shell import PLACES
from serve.server.open_tenants import OpenTenants
from store.embedders.lexical import LexicalEmbedder
from store.home import failures, tokens
from store.home import tenant as tenants
from store.home.config import Settings
from store.log import commands
from store.log.commands import Draft
from store.log.event_kinds import Followed, LessonVerdict, Planned, Recorded, Surfaced
from store.log.event_log import EventLog
from store.log.events import Event
from store.maintenance import build
from store.memories.fold import Fold
from store.plans import plans, steps

if TYPE_CHECKING:
    from playwright.sync_api import Page as Tab

ROOT = Path(__file__).parents[1]
AXE = ROOT / ".node" / "node_modules" / "axe-core" / "axe.min.js"

# would run, load, move or hide something if a page took it for more than text
HOSTILE = (
    "<script>window.taken = 1</script>",
    "<img src=x onerror='window.taken = 2'>",
    "<svg/onload=window.taken=3>",
    "</textarea></title></style><script>window.taken = 4</script>",
    '"><a href=javascript:window.taken=5 autofocus onfocus=window.taken=5>look</a>',
    "{{ 7 * 7 }} {% for x in y %} ${window.taken = 6}",
    "<iframe srcdoc='<script>parent.taken = 7</script>'></iframe>",
    "<base href='http://evil.example/'><meta http-equiv=refresh content='0;url=http://evil.example/'>",
    "\x1b[31mred\x1b]0;title\x07 and \u202egnirts desrever\u202c \u2066isolated\u2069 \u200bhidden",
    "<style>body { display: none }</style><link rel=stylesheet href=http://evil.example/x.css>",
    "W" * 3_000,
    "<form action=http://evil.example/><input name=csrf><button>send",
)

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenTenants]:
    """A home of two tenants; the first has an example of everything to show, much of it hostile."""
    home = tmp_path_factory.mktemp("dashboard")
    EventLog(tenants.tenant(home, "second").log, create=True).close()
    tenant = tenants.tenant(home)
    with EventLog(tenant.log, create=True) as log:
        _fill(log)
        build.rebuild(tenant, log, LexicalEmbedder(), NOW)
    failures.keep(tenant.root, "facts", NOW, f"it failed on {HOSTILE[0]}")
    open_tenants = OpenTenants(Settings(home))
    yield open_tenants
    open_tenants.close()


def _fill(log: EventLog) -> None:
    drafts = [Draft(id=f"t{number}", content=text) for number, text in enumerate(TEXTS)]
    drafts += [
        Draft(id=f"h{number}", content=f"the deploy note {number}: {text}", tags=(text[:90],))
        for number, text in enumerate(HOSTILE)
    ]
    drafts += [
        Draft(id="g1", kind="goal", content="Ship the dashboard", status="open", progress=0.4),
        Draft(id="g2", kind="goal", content=f"A goal {HOSTILE[1]}", status="open"),
        Draft(id="g3", kind="goal", content="Move to uv", metadata={"due": "2020-01-31"}),
        Draft(id="step", kind="milestone", content="The queue is gone", chain="way"),
        Draft(id="l1", kind="lesson", content="Never deploy on Friday afternoon"),
        Draft(id="l2", kind="lesson", content=f"A lesson {HOSTILE[2]}"),
        Draft(id="k1", content="The port is 5432", key="db.port", value="5432"),
        Draft(id="k2", content="The port is 5433", key="db.port", value="5433"),
        Draft(id="twin", content="We release every second Tuesday"),
        Draft(id="twin2", content="We release every second Tuesday."),
        Draft(id="edit", content="The staging server is called heron"),
        Draft(id="away", content="The old wiki lived on a Raspberry Pi"),
    ]
    for draft in drafts:
        commands.record_batch(log, [draft], NOW)
    commands.link(log, "t1", "t2", "support", NOW)
    stated = Recorded(
        content="Always use pnpm", kind="statement", insight_type="rule", source="prompt"
    )
    log.append([Event("stated", NOW, stated, "stated", "acme/shop", "session-7", trust="user")])
    for number in range(12):
        verdict: LessonVerdict = "followed" if number % 2 else "ignored"
        followed = Followed(verdict=verdict, stood={"test": bool(number % 2)})
        log.append(
            [
                Event(f"shown{number}", NOW, Surfaced(place="prompt"), "l1"),
                Event(f"followed{number}", NOW, followed, "l1"),
            ]
        )
    _propose(log, *((f"h{number}", "h0", HOSTILE[3]) for number in range(1, len(HOSTILE))))
    _propose(log, ("twin2", "twin", "the same words"))
    _propose(log, ("h1", "h0", f"because {HOSTILE[0]}"))


def _propose(log: EventLog, *pairs: tuple[str, str, str]) -> None:
    """Propose the replacement of one memory by another for each pair, with a reason."""
    fold = Fold()
    for event in log.effective_events(0, log.head()):
        fold.apply(event)
    found = tuple(
        steps.supersede(fold.rows[gone], by, why, by_says=fold.rows[by].content)
        for gone, by, why in pairs
    )
    body = Planned(job="consolidate", watermark=log.head(), steps=found, looked_at=9)
    plans.propose(log, body, NOW)


@pytest.fixture(scope="module")
def app(opened: OpenTenants) -> Flask:
    return application(opened)


@pytest.fixture(scope="module")
def paths(app: Flask, opened: OpenTenants) -> dict[str, str]:
    """Every page by name; the recall lab and the search with a question asked."""
    client = app.test_client()
    bearer = HOST | {"Authorization": f"Bearer {TOKEN}"}
    for query in ("what is the port", "zanzibar", "the deploy note"):
        answer = client.post("/v1/recall", json={"query": query}, headers=bearer)
        assert answer.status_code == 200
    recall = answer.json["recall"]
    event = {"hook_event_name": "UserPromptSubmit", "session_id": "s1", "prompt": HOSTILE[1]}
    assert client.post("/v1/hooks/claude-code", json=event, headers=bearer).status_code < 300
    opened.get("default").notes.write()
    made = plans.every(opened.get("default").log)
    one = {len(plan.body.steps): plan.id for plan in made if plan.body.steps[0].subject != "h1"}
    long = {len(plan.body.steps): plan.id for plan in made}
    found = {place.name: f"/t/default/{place.name}" for place in PLACES}
    return found | {
        "search": "/t/default/memories?q=deploy+note",
        "new memory": "/t/default/memories/new",
        "memory": "/t/default/memory/h0",
        "replaced memory": "/t/default/memory/k1",
        "edit": "/t/default/memory/h3/edit",
        "proposal": f"/t/default/proposals/{one[1]}",
        "long proposal": f"/t/default/proposals/{long[len(HOSTILE) - 1]}",
        "asked": "/t/default/lab?q=deploy+note",
        "entity": "/t/default/graph/entity?kind=file&name=store/log.py",
        "session": "/t/default/session?session=s1",
        "recall": f"/t/default/recall/{recall}",
        "no such page": "/t/default/nothing",
        "no such tenant": "/t/nobody/memories",
    }


@contextmanager
def watched(app: Flask, **options: Any) -> Iterator["Tab"]:
    """Yield a tab; the test fails if a page contacts another host or a memory opens a dialog."""
    wrong: list[str] = []
    with tab(app, **options) as shown:
        ours = shown.url[: shown.url.index("/t/")]
        shown.on(
            "request",
            lambda asked: (
                None if asked.url.startswith((ours, "data:")) else wrong.append(asked.url)
            ),
        )
        shown.on("dialog", lambda dialog: (wrong.append(dialog.message), dialog.dismiss()))
        yield shown
    assert wrong == []


def open_page(shown: "Tab", path: str) -> None:
    answer = shown.goto(path)
    assert answer is not None and answer.status < 500, path
    shown.wait_for_timeout(50)  # for requests made after loading: half a second would add up


@pytest.mark.parametrize(
    ("theme", "size"), [("light", DESK), ("dark", PHONE)], ids=["at a desk", "on a phone"]
)
def test_every_page_is_harmless_and_fits_whatever_memories_say(app, paths, theme: str, size):
    """A theme is colours alone, so each theme is tested at one of the sizes."""
    with watched(app, theme=theme) as shown:
        shown.set_viewport_size(size)
        for name, path in paths.items():
            open_page(shown, path)
            found = shown.evaluate(
                """() => ({
                    taken: window.taken,
                    planted: document.querySelectorAll(
                        "iframe, base, meta[http-equiv], img[src='x'], [onerror], [onload], "
                        + "[onfocus], style, a[href^='javascript']").length,
                    wider: document.documentElement.scrollWidth - window.innerWidth,
                    main: document.querySelector("main h1")?.textContent.trim() ?? "",
                })"""
            )
            assert found["taken"] is None and found["planted"] == 0, (name, found)
            assert found["wider"] <= 0, (name, size, found)
            assert found["main"], (name, "has no heading")


@pytest.mark.skipif(not AXE.exists(), reason="no axe-core in .node: run `make node-tools`")
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_no_serious_fault_on_any_page(app, paths, theme: str):
    axe = AXE.read_text(encoding="utf-8")
    serious: dict[str, list[str]] = {}
    with watched(app, theme=theme) as shown:
        for name, path in paths.items():
            open_page(shown, path)
            shown.evaluate(axe + "; undefined")
            found = shown.evaluate("axe.run(document, {resultTypes: ['violations']})")
            told = [
                f"{violation['id']}: {node['target']} {node.get('failureSummary', '')[:300]}"
                for violation in found["violations"]
                if violation["impact"] in ("serious", "critical")
                for node in violation["nodes"][:3]
            ]
            if told:
                serious[name] = told
    assert not serious, json.dumps(serious, indent=1)


def test_every_page_says_what_it_has_to_say_without_scripts(app, paths):
    with watched(app, scripts=False) as shown:
        for name, path in paths.items():
            open_page(shown, path)
            assert (shown.locator("main h1").text_content() or "").strip(), name


def test_keys_lead_through_the_pages(app, paths):
    with watched(app) as shown:
        open_page(shown, paths["memories"])
        for place in PLACES:
            shown.keyboard.press("g")
            with shown.expect_navigation():
                shown.keyboard.press(place.key)
            heading = shown.locator("main h1").text_content() or ""
            assert place.title.split()[0].lower() in heading.lower(), place
        shown.keyboard.press("/")
        assert shown.evaluate("document.activeElement.id") == "search"
        shown.keyboard.type("staging server")
        shown.keyboard.press("Enter")
        shown.wait_for_url("**/memories?q=staging*")
        assert "heron" in (shown.locator("main").text_content() or "")
        shown.keyboard.press("?")
        assert shown.get_by_role("dialog").is_visible()


def state(opened: OpenTenants, id_: str) -> str:
    return find_memory(opened.get("default"), id_).state


def test_a_memory_is_searched_edited_archived_and_taken_back(app, paths, opened):
    with watched(app) as shown:
        open_page(shown, paths["memories"])
        shown.get_by_role("searchbox", name="Search the memories").fill("what is staging called")
        shown.keyboard.press("Enter")
        shown.get_by_role("link", name="The staging server is called heron").first.click()
        shown.get_by_role("link", name="Edit").click()
        shown.get_by_label("Text", exact=True).fill("The staging server is called egret")
        shown.get_by_role("button", name="Save").click()
        shown.get_by_role("status").wait_for()
        text = shown.locator("main").text_content() or ""
        assert "egret" in text and "heron" in text  # the old text stays in its history
        open_page(shown, "/t/default/memories?q=Raspberry+Pi+wiki")
        shown.get_by_label("Choose The old wiki").check()
        shown.get_by_role("button", name="Archive").click()
        shown.get_by_role("status").wait_for()
        assert state(opened, "away") == "archived"
        with shown.expect_navigation():  # the page already shows a status before
            shown.get_by_role("status").get_by_role("button", name="Undo").click()
        assert state(opened, "away") == "active"


def test_memories_are_found_while_one_types(app, paths):
    with watched(app) as shown:
        open_page(shown, paths["memories"])
        with shown.expect_response("**/memories?q=afternoon"):
            shown.get_by_role("searchbox").press_sequentially("afternoon")
        shown.locator("mark", has_text="afternoon").first.wait_for()
        assert shown.url.endswith("?q=afternoon")  # the address may be kept or sent
        assert "found" in (shown.locator("[data-found-said]").text_content() or "")
        shown.get_by_role("searchbox").press("Enter")
        assert "afternoon" in shown.evaluate("document.activeElement.textContent")
        shown.keyboard.press("x")
        assert shown.locator("[data-chosen]").text_content() == "1"


def test_the_palette_leads_to_pages_and_memories_by_typing(app, paths):
    with watched(app) as shown:
        open_page(shown, paths["jobs"])
        shown.keyboard.press("Control+k")
        shown.keyboard.type("less")
        with shown.expect_navigation():
            shown.keyboard.press("Enter")
        assert shown.url.endswith("/lessons")
        shown.keyboard.press("Control+k")
        shown.keyboard.type("friday afternoon")
        option = shown.get_by_role("option", name="Never deploy on Friday afternoon")
        option.first.wait_for()
        if AXE.exists():
            shown.evaluate(AXE.read_text(encoding="utf-8") + "; undefined")
            found = shown.evaluate("axe.run('#palette', {resultTypes: ['violations']})")
            assert [violation["id"] for violation in found["violations"]] == []
        while option.first.get_attribute("aria-selected") != "true":
            shown.keyboard.press("ArrowUp")
        with shown.expect_navigation():
            shown.keyboard.press("Enter")
        assert "Never deploy on Friday" in (shown.locator("main").text_content() or "")
        shown.keyboard.press("Control+k")
        shown.keyboard.press("Escape")
        assert not shown.get_by_role("combobox").first.is_visible()


def test_two_settings_are_compared_by_what_comes_back(app, paths):
    with watched(app) as shown:
        open_page(shown, paths["lab"])
        shown.get_by_role("textbox", name="Question").fill("which port does the recall server have")
        shown.get_by_text("Compare with another setting").click()
        shown.get_by_label("ask this too").check()
        shown.locator("[name=b_mode]").select_option("vector")
        shown.get_by_role("button", name="Recall").click()
        shown.get_by_role("heading", name="Setting B").wait_for()
        assert "b_mode=vector" in shown.url  # the address holds the experiment
        sides = shown.locator("section.answer")
        assert sides.count() == 2
        assert "7437" in (sides.first.text_content() or "")


def test_a_proposal_is_accepted_and_taken_back(app, paths, opened):
    with watched(app) as shown:
        open_page(shown, paths["proposal"])
        shown.get_by_role("button", name="Accept").click()
        shown.get_by_text("Accepted: it is done.").wait_for()
        assert state(opened, "twin2") == "superseded"
        shown.get_by_role("status").get_by_role("button", name="Undo").click()
        shown.get_by_text("Taken back.").wait_for()
        assert state(opened, "twin2") == "active"


def test_changes_of_a_proposal_are_chosen_by_keys_and_none_is_lost_from_sight(app, paths, opened):
    with watched(app) as shown:
        for size in (DESK, PHONE):
            shown.set_viewport_size(size)
            open_page(shown, paths["long proposal"])
            assert shown.evaluate("document.documentElement.scrollHeight") < 4_000
        shown.keyboard.press("j")
        shown.keyboard.press("x")
        shown.get_by_text("1 chosen").wait_for()
        shown.get_by_role("button", name="Accept chosen").click()
        shown.get_by_text("1 change accepted.").wait_for()
        assert state(opened, "h1") == "superseded"
        shown.get_by_role("status").get_by_role("button", name="Undo").click()
        shown.get_by_text("Taken back.").wait_for()
        assert state(opened, "h1") == "active"


def test_a_token_is_made_shown_once_and_revoked(app, paths, opened):
    home = opened.settings.home
    with watched(app) as shown:
        open_page(shown, paths["access"])
        shown.get_by_label("Name", exact=True).fill("nightly build")
        shown.get_by_role("button", name="Make the token").click()
        secret = shown.get_by_label("The token").text_content() or ""
        (made,) = tokens.every(home, "default")
        assert tokens.find_active(secret.strip(), [made], NOW) == made
        open_page(shown, paths["access"])
        assert secret not in shown.content()  # shown only once
        shown.get_by_text("Revoke", exact=True).first.click()
        shown.get_by_role("button", name="Revoke").click()
        shown.get_by_text("is revoked").wait_for()
        (ended,) = tokens.every(home, "default")
        assert ended.state(NOW) == "revoked"


class _Evil(BaseHTTPRequestHandler):
    """A page on another port of this machine, which is the same site to a browser's cookies."""

    page = b""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(self.page)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def evil(page: str) -> Iterator[str]:
    handler = type("Evil", (_Evil,), {"page": page.encode()})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()


def test_another_page_of_the_browser_can_neither_post_nor_frame_nor_read(app, paths, opened):
    head = opened.get("default").log.head()
    with tab(app) as first:
        ours = first.url[: first.url.index("/t/")]
        shown = first.context.new_page()  # of the same browser, so with the same cookies
        attack = f"""<form id=f method=post action="{ours}/t/default/memories">
            <input name=text value=planted><input name=csrf value=guess></form>
            <iframe id=frame src="{ours}/t/default/memories"></iframe>
            <script>
              window.read = fetch("{ours}/t/default/memories", {{credentials: "include"}})
                .then(a => a.text()).catch(() => "refused");
              window.sent = fetch("{ours}/v1/memories", {{method: "POST", body: "{{}}",
                credentials: "include", mode: "no-cors"}}).then(() => "sent").catch(() => "no");
            </script>"""
        with evil(attack) as address:
            shown.goto(address)
            assert shown.evaluate("window.read") == "refused"
            shown.evaluate("window.sent")
            framed = shown.frames[-1]
            assert "Memories" not in (framed.content() if framed != shown.main_frame else "")
            with shown.expect_navigation():
                shown.evaluate("document.getElementById('f').submit()")
            assert "other sites are refused" in shown.content().lower()
    assert opened.get("default").log.head() == head


def test_a_name_that_was_rebound_to_this_machine_is_not_answered(app):
    from playwright.sync_api import sync_playwright

    end_chromium()  # the shared browser does not have this rule
    with served(app) as address, sync_playwright() as playwright:
        rules = "--host-resolver-rules=MAP evil.test 127.0.0.1"
        chromium = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", rules]
        )
        shown = chromium.new_page()
        answer = shown.goto(f"http://evil.test:{address.rpartition(':')[2]}/t/default/memories")
        assert answer is not None and answer.status == 421
        chromium.close()
