"""The recall lab: every stage's work, two settings side by side, an address that asks again."""

from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
from conftest import NOW, Built
from dashboard_page import PHONE, Browser, application, browser, needs_chromium, tab
from flask import Flask
from hook_session import speaks_where_recall_is_sure
from werkzeug.datastructures import MultiDict

from serve.evaluation import lab as asking
from serve.evaluation.lab import (
    HookPreview,
    SideAnswer,
    answer_side,
    compare_hits,
    preview_prompt_hook,
)
from serve.hooks.answer import Hooks
from serve.hosts.event import HookEvent
from serve.hosts.host import Host
from serve.recall.request import answer
from serve.server.open_tenants import OpenTenants
from store.home.config import Choices
from store.home.errors import InvalidInput
from store.home.instants import isoformat
from store.log import commands
from store.log.commands import Draft

PAGE = "/t/default/lab"
QUESTION = "where do database migrations live"
HOSTILE = "<script>alert(1)</script> <svg onload=alert(1)> \u202edeploy\x1b[31m"
USUAL = Choices()


@pytest.fixture
def tenants(built_tenants: OpenTenants) -> OpenTenants:
    return built_tenants


@pytest.fixture
def app(tenants: OpenTenants) -> Flask:
    return application(tenants, lambda: NOW)


@pytest.fixture
def owner(app: Flask) -> Browser:
    return browser(app)


def read(*pairs: tuple[str, str]) -> asking.LabQuestion:
    return asking.parse_parameters(MultiDict(pairs), USUAL)


def lab(tenants: OpenTenants, *pairs: tuple[str, str]) -> list[SideAnswer]:
    question, reader = read(*pairs), tenants.get("default").reader
    sides = [side for side in (question.a, question.b) if side is not None]
    return [answer_side(reader, question, side, USUAL, NOW) for side in sides]


# Questions


def test_an_address_under_default_settings_has_the_question_only():
    question = read(("q", QUESTION), ("mode", "auto"), ("fusion", "weighted"), ("top_k", "8"))
    assert asking.link(question, USUAL) == [("q", QUESTION)]


def test_an_address_has_every_difference_and_reads_back_the_same():
    question = read(
        ("q", QUESTION),
        ("project", "acme/web"),
        ("kind", "fact"),
        ("kind", "lesson"),
        ("tier", "semantic"),
        ("tags", "team, web"),
        ("since", "2026-01-01"),
        ("as_of", "2026-09-01"),
        ("min_score", "0.5"),
        ("states", "all"),
        ("top_k", "3"),
        ("compare", "1"),
        ("b_mode", "lexical"),
        ("b_min_confidence", "0.1"),
    )
    assert question.b is not None and question.b.choices.min_confidence == 0.1
    assert asking.parse_parameters(MultiDict(asking.link(question, USUAL)), USUAL) == question


@pytest.mark.parametrize(
    "wrong",
    [
        ("mode", "psychic"),
        ("profile", "x"),
        ("fusion", "x"),
        ("top_k", "0"),
        ("top_k", "many"),
        ("min_confidence", "2"),
        ("kind", "x"),
        ("tier", "x"),
        ("states", "x"),
    ],
    ids="=".join,
)
def test_an_unknown_choice_is_named(owner: Browser, wrong: tuple[str, str]):
    with pytest.raises(InvalidInput):
        read(("q", "x"), wrong)
    answered_ = owner.get(f"{PAGE}?{urlencode([('q', 'x'), wrong])}")
    assert answered_.status_code == 400 and answered_.mimetype == "text/html"


@pytest.mark.parametrize(
    "query",
    [
        "q=x&since=soon",
        "q=x&as_of=2026-99-99",
        "q=x&min_score=high",
        "q=x&min_score=-1",
        "q=x&since=2026-02-02&until=2026-01-01",
        f"q={'x' * 100_001}",
    ],
    ids=range(6),
)
def test_a_question_that_recall_refuses_is_a_bad_request(owner: Browser, query: str):
    assert owner.get(f"{PAGE}?{query}").status_code == 400


# Answers


def test_the_slider_asks_the_memory_as_known_then(tenants: OpenTenants):
    log, day = tenants.get("default").log, 86_400_000_000
    known_until = log.head()
    commands.forget(log, "m10", NOW + 2 * day)
    head = log.head()
    asking_later = browser(application(tenants, lambda: NOW + 3 * day))

    def page(**query: str) -> str:
        found = asking_later.get(f"{PAGE}?{urlencode({'q': QUESTION} | query)}")
        assert found.status_code == 200
        return found.text

    then = page(as_of=isoformat(NOW + day)[:10], known="1")
    assert f"As known after event {known_until}." in then and "known=1" in then
    assert "checked> by what was known then" in then
    text = "Database migrations live in db/migrations"
    assert text in then and text not in page()
    assert "As known after event 1." in page(as_of=isoformat(NOW)[:10], known="1")
    assert log.head() == head


def test_the_lab_answers_as_recall_does(tenants: OpenTenants):
    (side,) = lab(tenants, ("q", QUESTION))
    request = asking.request(read(("q", QUESTION)), read(("q", QUESTION)).a, USUAL, NOW)
    reader = tenants.get("default").reader
    plain, receipt = answer(reader, request, USUAL, NOW)
    assert receipt is None
    assert [hit["id"] for hit in side.hits] == [hit["id"] for hit in plain["hits"]]
    assert side.hits[0]["id"] == "m10"


def test_stages_lose_memories_and_never_gain_any(tenants: OpenTenants):
    (side,) = lab(tenants, ("q", QUESTION), ("top_k", "1"), ("min_confidence", "0.2"))
    counts = [stage.left for stage in side.stages]
    assert counts == sorted(counts, reverse=True)
    assert (counts[0], counts[-1]) == (40, len(side.hits)) == (40, 1)
    assert set(side.why["took_us"]) == {"analysis", "candidates", "weighing", "selection"}


def test_the_block_is_what_a_hook_writes(tenants: OpenTenants):
    (side,) = lab(tenants, ("q", QUESTION))
    assert set(side.block.ids) == {hit["id"] for hit in side.hits}


def test_an_explicit_min_confidence_is_applied(tenants: OpenTenants):
    (side,) = lab(tenants, ("q", QUESTION), ("min_confidence", "0.99"))
    assert side.hits == [] and side.payload["min_confidence"] == 0.99
    assert not side.block.text


def said(tenants: OpenTenants, prompt: str, project: str = "") -> HookPreview:
    return preview_prompt_hook(tenants.get("default"), prompt, project, USUAL, NOW)


def hook_says(tenants: OpenTenants, prompt: str) -> str:
    event = HookEvent("plain", "prompt", "s1", prompt=prompt)
    host = Host("plain", lambda _: event, lambda _, reply: {"says": reply.context})
    hooks = Hooks(tenants, lambda: NOW, 30.0)
    answer = hooks.answer(host, {})
    hooks.close()
    return answer["says"] if answer else ""


@pytest.mark.parametrize(
    "prompt",
    [QUESTION, "thanks", "zzyzx", "what did we leave open?", "add lodash with `npm install`"],
)
def test_the_preview_equals_the_answer_of_the_hook(tenants: OpenTenants, prompt: str):
    commands.record(
        tenants.get("default").log, Draft(content="Use pnpm, never npm", kind="lesson"), NOW
    )
    tenants.get("default").reader.poll()
    would = said(tenants, prompt).block.text
    assert would == hook_says(tenants, prompt)
    assert bool(would) == (prompt not in ("thanks", "zzyzx"))


def test_hits_with_a_chance_over_the_threshold_are_in_the_block(
    tenants: OpenTenants, monkeypatch: pytest.MonkeyPatch
):
    speaks_where_recall_is_sure(monkeypatch)
    preview = said(tenants, QUESTION)
    assert 0 < len(preview.weighed) <= 3
    assert preview.weighed[0].chance >= preview.weighed[0].bar == 0.5
    assert preview.weighed[0].hit.memory.id in preview.block.ids
    quiet = said(tenants, "please paint the fence of the garden in green")
    assert not quiet.block.text and all(hit.chance < hit.bar for hit in quiet.weighed)


def test_the_preview_shows_statements_and_records_none(owner: Browser, built: Built):
    words = "From now on always use pnpm in this repository, never npm."
    page = owner.get(f"{PAGE}?{urlencode({'q': words})}").text
    assert "It would keep as your words" in page
    assert words in page[page.index("It would keep") :]
    assert not built.log.ids_with_prefix("01", kinds=("prompted",))


def test_filters_apply(tenants: OpenTenants):
    (side,) = lab(tenants, ("q", "web client"), ("project", "acme/web"), ("min_confidence", "0"))
    assert "p1" in {hit["id"] for hit in side.hits}
    (side,) = lab(tenants, ("q", "web client"), ("project", "-"), ("min_confidence", "0"))
    assert "p1" not in {hit["id"] for hit in side.hits}
    (side,) = lab(tenants, ("q", QUESTION), ("kind", "goal"), ("min_confidence", "0"))
    assert {hit["kind"] for hit in side.hits} <= {"goal"}
    (side,) = lab(tenants, ("q", QUESTION), ("min_score", "99"))
    assert side.hits == [] and side.stages[3].left == 0 < side.stages[2].left
    (side,) = lab(tenants, ("q", QUESTION), ("as_of", "2020-01-01"))
    assert side.why["passed_filter"] == 0


def test_two_settings_are_compared(tenants: OpenTenants):
    a, b = lab(tenants, ("q", QUESTION), ("compare", "1"), ("b_mode", "lexical"), ("b_top_k", "1"))
    comparison = compare_hits(a.hits, b.hits)
    assert list(a.why["candidates"]) != list(b.why["candidates"])
    assert comparison.count("B") == 0
    assert comparison.count("") + comparison.count("A") == len(a.hits)


def hits(*ids: str) -> list[dict[str, object]]:
    return [{"id": id_, "confidence": 0.5} for id_ in ids]


def test_moves_are_places_won_and_lost():
    comparison = compare_hits(hits("a", "b", "c"), hits("b", "d", "a"))
    rows = {row.hit["id"]: row for row in comparison.rows}
    assert list(rows) == ["a", "b", "d", "c"]
    assert (rows["b"].move, rows["a"].move) == (1, -2)
    assert (rows["c"].is_only, rows["d"].is_only, rows["a"].is_only) == ("A", "B", "")
    assert (
        comparison.count("A"),
        comparison.count("B"),
        comparison.count(""),
        comparison.moves,
    ) == (1, 1, 2, 2)


def test_comparing_empty_results_gives_no_rows():
    assert compare_hits([], []).rows == ()


# The page


def test_the_page_without_a_question_has_the_form_only(owner: Browser):
    page = owner.get(PAGE)
    assert page.status_code == 200 and 'name="q"' in page.text
    assert "What came back" not in page.text


def test_the_page_shows_every_stage(owner: Browser):
    page = owner.get(f"{PAGE}?{urlencode({'q': QUESTION})}").text
    for text in ("Passed the filter", "Sure enough", "Features of each hit", "What was heard"):
        assert text in page
    assert "Notes recalled from local memory" in page
    hook = page[page.index("What the prompt hook would say now") :]
    assert "outside any repository" in hook and "Likely to help" in hook
    assert "style=" not in page and "onload" not in page


def test_the_page_links_to_itself(owner: Browser):
    query = {"q": QUESTION, "compare": "1", "b_fusion": "rrf", "top_k": "3"}
    page = owner.get(f"{PAGE}?{urlencode(query)}").text
    link = page.partition('<a class="button" href="')[2].partition('"')[0].replace("&amp;", "&")
    assert dict(parse_qsl(urlsplit(link).query)) == query
    assert "Side by side" in owner.get(link).text


def test_small_talk_and_searches_without_hits_are_explained(owner: Browser):
    assert "which asks for no memory" in owner.get(f"{PAGE}?q=thanks").text
    page = owner.get(f"{PAGE}?q=zzyzx&mode=lexical").text
    assert "Use words that the memory would contain, or mode auto" in page


@pytest.mark.parametrize("asked", ["", "&compare=1&b_mode=lexical&b_min_confidence=0"])
def test_texts_of_memories_and_questions_are_escaped(owner: Browser, built: Built, asked: str):
    commands.record(built.log, Draft(content=HOSTILE, tags=("<b>",)), NOW)
    page = owner.get(f"{PAGE}?{urlencode({'q': HOSTILE, 'tags': HOSTILE})}{asked}").text
    page += owner.get(f"{PAGE}?{urlencode({'q': HOSTILE, 'min_confidence': '0'})}{asked}").text
    assert "&lt;script&gt;" in page
    for bad in ("<script>alert", "<svg onload", "\u202e", "\x1b"):
        assert bad not in page


def test_asking_writes_nothing(owner: Browser, built: Built):
    before = built.log.version()
    owner.get(f"{PAGE}?{urlencode({'q': QUESTION, 'compare': '1'})}")
    assert built.log.version() == before


@needs_chromium
def test_in_a_browser_two_settings_are_compared_and_the_slider_goes_back(app: Flask):
    with tab(app) as page:
        page.goto(PAGE)
        page.locator("#f-q").fill(QUESTION)
        page.get_by_text("Compare with another setting").click()
        page.locator("#f-b_mode").select_option("lexical")
        page.get_by_role("button", name="Recall").click()
        page.get_by_role("heading", name="Side by side").wait_for()
        assert "compare=1" in page.url and "b_mode=lexical" in page.url
        page.locator("#f-slide").focus()
        page.keyboard.press("Home")
        page.keyboard.press("Tab")
        page.wait_for_url("**as_of=**")


@needs_chromium
def test_on_a_phone_and_without_scripts_it_asks_and_answers(app: Flask):
    with tab(app, scripts=False) as page:
        page.set_viewport_size(PHONE)
        page.goto(PAGE)
        assert page.locator("#f-slide").is_hidden()
        page.locator("#f-q").fill(QUESTION)
        page.get_by_role("button", name="Recall").click()
        page.get_by_text("What a model would see").wait_for()
        page.wait_for_load_state()  # its width is set in the stylesheets
        assert page.locator("main").bounding_box()["width"] <= PHONE["width"]
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
