"""The overview: every figure, the errors, and counters that update while somebody watches."""

import pytest
from command_line import answer, succeed
from conftest import NOW, Built
from dashboard_page import (
    HOST,
    PHONE,
    Browser,
    application,
    browser,
    find_memory,
    needs_chromium,
    tab,
)
from drafts import draft
from flask import Flask
from test_hazards import SKIPS

from serve.reports.tenant_statistics import timeline
from serve.server.open_tenants import OpenTenants
from store.home import failures
from store.home.instants import DAY, moment
from store.log import commands
from store.log.commands import Draft
from store.log.event_kinds import Hit, Planned, Quarantined, Recalled
from store.log.events import Event
from store.plans import plans, steps
from store.snapshots import manifest as manifests
from store.snapshots.manifest import CheckResult, Refusal

PAGE, LIVE = "/t/default/overview", "/t/default/overview/live"
HOSTILE = "<script>alert(1)</script>\u202e\x1b[31m"


@pytest.fixture
def tenants(built_tenants: OpenTenants) -> OpenTenants:
    return built_tenants


@pytest.fixture
def app(tenants: OpenTenants) -> Flask:
    return application(tenants, lambda: NOW)


@pytest.fixture
def owner(app: Flask) -> Browser:
    return browser(app)


def recall(built: Built, number: int, *confidences: float) -> None:
    hits = tuple(Hit(f"m0{place}", 1.0, sure) for place, sure in enumerate(confidences))
    body = Recalled(
        query="q", mode="auto", manifest=1, watermark=1, hits=hits, dropped={}, took_us=4_000
    )
    built.log.append([Event(f"r{number}", NOW - number * 60_000_000, body, f"r{number}")])


def test_the_first_page_of_a_tenant_is_the_overview(owner: Browser):
    answer = owner.get("/t/default/")
    assert (answer.status_code, answer.headers["Location"]) == (303, PAGE)


def test_it_shows_what_there_is(owner: Browser, built: Built):
    recall(built, 2, 0.5)
    recall(built, 3)
    page = owner.get(PAGE)
    assert page.status_code == 200
    for text in ("36</a>", "39 held", "50 %", "4.0 ms", " passed</span>", "No model was called"):
        assert text in page.text
    assert page.text.count('role="img"') == 7  # a sparkline and six pictures
    assert "style=" not in page.text and "<script>" not in page.text


def test_a_tenant_of_nothing_has_an_overview(owner: Browser, tenants: OpenTenants, built: Built):
    from store.home import tenant as of
    from store.log.event_log import EventLog

    EventLog(of.tenant(tenants.settings.home, "empty").log, create=True).close()
    page = owner.get("/t/empty/overview")
    assert page.status_code == 200
    assert "Nothing has been built yet" in page.text and "nothing yet" in page.text
    assert "Start here" in page.text and "mnemolog connect" in page.text


def test_a_refused_build_and_a_failure_are_said_first_and_harmless(owner: Browser, built: Built):
    text = f"a key in {HOSTILE}"
    manifests.refuse(built.tenant, Refusal(NOW, 9, (CheckResult("secrets", False, text),)))
    failures.keep(built.tenant.root, "judge", NOW, text)
    page = owner.get(PAGE).text
    assert page.index("was not published") < page.index("Recalls a minute")
    assert "secrets</strong>: a key in" in page and "judge</strong> failed" in page
    assert "<script>alert" not in page and "\u202e" not in page and "\x1b" not in page


def test_a_refused_build_leads_to_the_memory_and_the_cure(owner: Browser, built: Built):
    cure = "`mnemolog build --full` builds it anew"
    check = CheckResult("secrets", False, "a key", memories=("m01",), cure=cure)
    manifests.refuse(built.tenant, Refusal(NOW, 9, (check,)))
    for page in ("overview", "jobs", "errors"):
        text = owner.get(f"/t/default/{page}").text
        assert 'href="/t/default/memory/m01"' in text, page
        assert "<code>mnemolog build --full</code> builds it anew" in text, page


def test_what_needs_attention_comes_first_then_use_then_figures(owner: Browser, built: Built):
    page = owner.get(PAGE).text
    places = [page.index(f"{name}</h2>") for name in ("Needs your attention", "Use", "The memory")]
    assert places == sorted(places)
    assert "nothing waits for your decision" in page and "Nothing was asked yet" in page


def test_status_overview_lessons_and_plans_count_the_same_things(
    owner: Browser, built: Built, tenants: OpenTenants
):
    assert "waiting   nothing" in succeed("status").stdout
    stated = ("We never deploy on Fridays", "Uploads are tried five times", "Anna reviews SQL")
    drafts = [Draft(kind="statement", content=text) for text in stated]
    drafts.append(Draft(content=SKIPS, trust="agent"))
    drafts.append(Draft(kind="lesson", content="Use pnpm, never npm", trust="agent"))
    commands.record_batch(built.log, drafts, NOW)
    built.log.append([draft("Retry uploads", "lesson", NOW)])
    step = steps.archive(find_memory(tenants.get("default"), "m01"), "nobody asks for it")
    body = Planned(job="archive", watermark=built.log.head(), steps=(step,))
    plans.propose(built.log, body, NOW)
    quarantined = Quarantined(check="no_secrets", reason="a key")
    built.log.append([Event("q", NOW, quarantined, "m02")])

    output = succeed("status").stdout
    assert (
        "waiting   3 statements, 1 lesson of an agent, 1 note held back from agents, 1 draft: "
        "`mnemolog lessons`; 1 plan: `mnemolog plans`; 1 memory in quarantine: "
        "`mnemolog quarantine`" in output
    )
    counts = answer("status")["waiting"]
    assert sum(counts.values()) == 8 == answer("stats")["waiting"]
    assert len(answer("lessons")["drafts"]) == 6
    (plan,) = answer("plans")["plans"]
    assert plan["state"] == "waiting"
    page = owner.get(PAGE).text
    assert "nothing waits for your decision" not in page
    for words, place in (("3 statements", "lessons"), ("1 plan", "proposals")):
        assert f'<a href="/t/default/{place}"><strong>{words}</strong></a>' in page


def test_a_figure_leads_to_its_rows(owner: Browser, built: Built):
    page = owner.get(PAGE).text
    for label, place in (("Episodes", "memories?kind=episode"), ("Time of a recall", "recalls")):
        tile = page.partition(f"<dt>{label}</dt>")[2].partition("</div>")[0]
        assert f'href="/t/default/{place}"' in tile


def test_what_waits_is_decided_on_the_overview_itself(owner: Browser, built: Built):
    stated = ("We never deploy on Fridays", "Uploads are tried five times", "Anna reviews SQL")
    drafts = [Draft(kind="statement", content=text) for text in (*stated, "Ports end in 7")]
    ids = [result.event.id for result in commands.record_batch(built.log, drafts, NOW)]
    page = owner.get(PAGE).text
    assert "4 statements" in page and "the newest:" in page
    inbox = page.partition("For your decision")[2].partition("</section>")[0]
    assert sum(text in inbox for text in (*stated, "Ports end in 7")) == 3
    shown = next(id_ for id_ in ids if f'action="/t/default/lessons/{id_}"' in inbox)
    assert f'href="/t/default/memory/{shown}/edit"' in page
    after = owner.follow(owner.post(f"/t/default/lessons/{shown}", answer="accept", back=PAGE))
    assert "Accepted: it is now a rule." in after.text and "3 statements" in after.text
    assert f'action="/t/default/lessons/{shown}"' not in after.text


def test_memories_are_drawn_by_when_they_happened(built: Built, tenants: OpenTenants):
    at = moment(NOW - 3 * 365 * DAY)
    commands.record(built.log, Draft(content="The oak was planted", created_at=at), NOW)
    found = tenants.get("default").reader.answer(lambda view: timeline(view, NOW))
    assert found.counts[0] == 1 and sum(found.counts) == 37
    assert found.starts[0] <= NOW - 3 * 365 * DAY < found.starts[1]
    assert found.starts[-1] <= NOW < found.starts[-1] + found.step


def test_another_tenant_is_not_found(owner: Browser):
    for path in ("/t/other/overview", "/t/other/overview/live", "/t/UP/overview"):
        assert owner.get(path).status_code == 404


def test_the_counters_are_for_who_is_logged_in(app: Flask):
    answer = app.test_client().get(LIVE, headers=HOST)
    assert (answer.status_code, answer.headers["Location"]) == (303, "/login")


def test_the_counters_are_written_as_on_the_page(owner: Browser, built: Built):
    recall(built, 2, 0.5)
    page, found = owner.get(PAGE).text, owner.get(LIVE).json
    assert found is not None
    for name, value in found.items():
        assert value in page, name


def test_looking_writes_nothing(owner: Browser, built: Built):
    before = built.log.version()
    owner.get(PAGE)
    owner.get(LIVE)
    assert built.log.version() == before


def test_it_counts_what_was_written_a_moment_ago(owner: Browser, built: Built):
    owner.get(PAGE)
    commands.record(built.log, Draft(content="Caches are warmed at start"), NOW)
    assert owner.get(LIVE).json["memories"] == "37"


@needs_chromium
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_in_a_browser_the_counters_move(app: Flask, built: Built, theme: str):
    with tab(app, theme=theme) as page:
        assert page.locator("[data-live=memories]").inner_text() == "36"
        commands.record(built.log, Draft(content="Caches are warmed at start"), NOW)
        page.locator("[data-live=memories]", has_text="37").wait_for()
        assert page.locator("[data-live-state]").inner_text() == "live"


@needs_chromium
def test_on_a_phone_and_without_scripts_all_is_there(app: Flask):
    with tab(app, scripts=False) as page:
        page.set_viewport_size(PHONE)
        page.goto(PAGE)
        assert page.locator("figure.plot").count() == 6
        assert page.locator("[data-live-state]").is_hidden()
        assert page.locator("main").bounding_box()["width"] <= PHONE["width"]
        page.get_by_text("Figures").first.click()
        assert page.locator(".plot-data table").first.is_visible()
