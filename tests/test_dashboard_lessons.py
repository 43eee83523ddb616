"""The pages Lessons and Goals: the results of rules, the goals, and changing them by a form."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from dashboard_page import NOW, Browser, application, browser, needs_chromium, tab
from flask import Flask

from serve.server.open_tenants import OpenTenants
from store.home import tenant
from store.home.config import Settings
from store.log import commands
from store.log.commands import Draft
from store.log.event_kinds import Followed, LessonVerdict, Proposed, Recorded, Surfaced
from store.log.event_log import EventLog
from store.log.events import Event

LESSONS, GOALS = "/t/default/lessons", "/t/default/goals"


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EventLog]:
    with EventLog(tenant.tenant(tmp_path).log, create=True) as opened:
        yield opened


@pytest.fixture
def app(tmp_path: Path, log: EventLog) -> Iterator[Flask]:
    tenants = OpenTenants(Settings(tmp_path))
    yield application(tenants)
    tenants.close()


@pytest.fixture
def owner(app: Flask) -> Browser:
    return browser(app)


def lesson(log: EventLog, id_: str, text: str, **more: object) -> None:
    draft = Draft(id=id_, content=text, kind="lesson", **more)  # type: ignore[arg-type]
    commands.record(log, draft, NOW - 9_000_000)


def told(
    log: EventLog, id_: str, verdict: LessonVerdict, count: int, well: bool | None = None
) -> None:
    """Show and judge a lesson; `well` is the test result of its turns, None if none ran tests."""
    stood = {} if well is None else {"test": well}
    for number in range(count):
        name, at = f"{id_}-{verdict}-{well}-{number}", NOW - 5_000_000 + number
        log.append(
            [
                Event(f"s-{name}", at, Surfaced(place="prompt"), id_),
                Event(f"f-{name}", at, Followed(verdict=verdict, stood=stood), id_),  # type: ignore[arg-type]
            ]
        )


def seed_lessons(log: EventLog) -> None:
    lesson(log, "works", "Run the linter before every commit.")
    lesson(log, "dead", "Never use tabs.")
    lesson(log, "unseen", "Use pnpm, not npm.", source_ids=("works",))
    told(log, "works", "followed", 9, well=True)
    told(log, "works", "ignored", 6, well=False)
    told(log, "dead", "ignored", 12)


def seed_goals(log: EventLog) -> None:
    goals = (
        ("late", "open", 0.4, {"due": "2020-01-31"}),
        ("stuck", "blocked", None, {}),
        ("over", "done", 1.0, {}),
    )
    for id_, status, progress, metadata in goals:
        draft = Draft(
            id=id_, content=f"goal {id_}", kind="goal", status=status, progress=progress,
            metadata=metadata,
        )  # fmt: skip
        commands.record(log, draft, NOW)
    for number in range(3):
        draft = Draft(id=f"step{number}", content=f"step {number}", kind="milestone", chain="way")
        commands.record(log, draft, NOW + number)


# Lessons


def test_a_lesson_is_shown_with_what_became_of_it(owner: Browser, log: EventLog):
    seed_lessons(log)
    page = owner.get(LESSONS).text
    row = page[page.index("Run the linter") :].partition("</tr>")[0]
    assert ">15<" in row and ">9<" in row and ">6<" in row
    assert "+100" in row and "9 well, 0 badly" in row and "0 well, 6 badly" in row


def test_a_lesson_that_nobody_follows_is_marked_as_demoted(owner: Browser, log: EventLog):
    seed_lessons(log)
    page = owner.get(LESSONS).text
    assert "demoted" in page[page.index("Never use tabs") :].partition("</tr>")[0]
    assert page.count("demoted: not followed") == 1
    commands.pin(log, "dead", NOW)
    assert "demoted: not followed" not in owner.get(LESSONS).text


def test_lessons_that_were_never_shown_are_listed(owner: Browser, log: EventLog):
    seed_lessons(log)
    page = owner.get(LESSONS).text
    assert "Use pnpm" in page[page.index("Never shown") :]


@pytest.mark.parametrize(
    ("sort", "first"), [("shown", "works"), ("followed", "works"), ("impact", "works"),
                        ("ignored", "dead")]
)  # fmt: skip
def test_lessons_are_sorted_by_a_column(owner: Browser, log: EventLog, sort: str, first: str):
    seed_lessons(log)
    page = owner.get(f"{LESSONS}?sort={sort}").text
    others = {"works", "dead"} - {first}
    assert all(page.index(f"memory/{first}") < page.index(f"memory/{id_}") for id_ in others)
    assert page.count("aria-sort") == 1


def test_an_unknown_order_is_an_error_page(owner: Browser):
    assert owner.get(f"{LESSONS}?sort=size").status_code == 400


def test_an_impact_of_few_turns_is_not_told(owner: Browser, log: EventLog):
    lesson(log, "new", "Write tests.")
    told(log, "new", "followed", 2, well=True)
    assert "too few turns" in owner.get(LESSONS).text


def test_nothing_recorded_makes_pages_too(owner: Browser):
    assert "No lesson was shown yet" in owner.get(LESSONS).text
    assert "No open goal" in owner.get(GOALS).text


# Statements


STATED = "From now on always use pnpm in this repository, never npm."


def statement(log: EventLog, id_: str = "said", text: str = STATED) -> None:
    body = Recorded(content=text, kind="statement", insight_type="rule", source="prompt")
    log.append([Event(id_, NOW - 60_000_000, body, id_, "acme/shop", "session-7", trust="user")])


def waiting(owner: Browser) -> str:
    """Return the part of the page that lists the pending items."""
    page = owner.get(LESSONS).text
    _, found, part = page.partition('aria-labelledby="waiting"')
    return part.partition("</section>")[0] if found else ""


def test_statements_wait_with_their_words_day_session_and_project(owner: Browser, log: EventLog):
    assert waiting(owner) == ""
    statement(log)
    part = waiting(owner)
    assert STATED in part and "session session-7" in part and "acme/shop" in part
    assert 'data-kind="lesson"' in part and "<time datetime=" in part


def test_an_accepted_statement_is_a_rule_and_waits_no_more(owner: Browser, log: EventLog):
    statement(log)
    page = owner.follow(owner.post(f"{LESSONS}/said", answer="accept")).text
    assert "Accepted: it is now a rule." in page and waiting(owner) == ""
    assert STATED in page[page.index("Never shown") :]


def test_a_forgotten_statement_is_brought_back_by_the_flash(owner: Browser, log: EventLog):
    statement(log)
    page = owner.follow(owner.post(f"{LESSONS}/said", answer="forget")).text
    assert "Forgotten: it is no longer recalled." in page and waiting(owner) == ""
    flash = page[page.index('class="flash') :].partition("</div>")[0]
    assert 'action="/t/default/memories/' in flash
    owner.post(flash.partition('action="')[2].partition('"')[0], do="restore", id="said")
    assert STATED in waiting(owner)


def test_a_draft_of_an_earlier_version_waits_beside_statements(owner: Browser, log: EventLog):
    statement(log)
    body = Proposed(what="lesson", draft={"content": "Write tests.", "kind": "lesson"})
    log.append([Event("old", NOW, body, "old")])
    assert "Write tests." in waiting(owner)
    page = owner.follow(owner.post(f"{LESSONS}/old", answer="forget")).text
    assert "Rejected: it will not be proposed again." in page
    assert "Write tests." not in waiting(owner)


def test_an_answer_that_is_none_or_not_of_this_session_changes_nothing(
    owner: Browser, log: EventLog
):
    statement(log)
    lesson(log, "rule", "Never use tabs.")
    head = log.head()
    assert owner.post(f"{LESSONS}/said", answer="maybe").status_code == 400
    assert owner.post(f"{LESSONS}/said", csrf="wrong", answer="accept").status_code == 403
    assert owner.post(f"{LESSONS}/rule", answer="forget").status_code == 404
    assert owner.post(f"{LESSONS}/none", answer="accept").status_code == 404
    assert log.head() == head


def test_what_a_statement_says_is_harmless(owner: Browser, log: EventLog):
    statement(log, text="Always <script>alert(1)</script> \u202e\x1b[31m use pnpm.")
    part = waiting(owner)
    assert "&lt;script&gt;" in part and "<script>alert" not in part
    assert "\u202e" not in part and "\x1b" not in part


@needs_chromium
def test_a_statement_is_accepted_in_a_browser_without_scripts(app: Flask, log: EventLog):
    statement(log)
    with tab(app, scripts=False) as page:
        page.goto(LESSONS)
        page.get_by_role("button", name="Accept").click()
        page.get_by_text("Accepted: it is now a rule.").wait_for()
        assert page.get_by_role("button", name="Accept").count() == 0


# Goals


def test_goals_are_told_by_how_they_stand(owner: Browser, log: EventLog):
    seed_goals(log)
    page = owner.get(GOALS).text
    places = [page.index(f"goal {id_}") for id_ in ("late", "stuck", "over")]
    assert places == sorted(places)
    assert "overdue since 2020-01-31" in page and "40 %" in page


def test_milestones_are_told_by_chain_in_their_order(owner: Browser, log: EventLog):
    seed_goals(log)
    page = owner.get(GOALS).text
    places = [page.index(text) for text in ("way", "step 0", "step 1", "step 2")]
    assert places == sorted(places)


def test_a_form_changes_a_goal_and_takes_it_back(owner: Browser, log: EventLog):
    seed_goals(log)
    changed = owner.post(f"{GOALS}/late", status="done", percent="100", due="2027-01-01")
    assert "The goal was changed." in owner.follow(changed).text
    body = log.events_for("late")[-1].body
    assert (body.status, body.progress) == ("done", 1.0)
    assert body.metadata == {"due": "2027-01-01"}
    owner.post(f"{GOALS}/late", status="open", percent="40")
    body = log.events_for("late")[-1].body
    assert (body.status, body.progress, body.metadata) == ("open", 0.4, None)


def test_what_a_flash_undoes_is_what_stood_before(owner: Browser, log: EventLog):
    seed_goals(log)
    page = owner.follow(owner.post(f"{GOALS}/late", status="done", percent="100")).text
    undo = page[page.index('class="flash') :].partition("</div>")[0]
    assert 'name="status" value="open"' in undo and 'name="percent" value="40"' in undo


@pytest.mark.parametrize(
    "sent", [{"status": "maybe"}, {"percent": "101"}, {"percent": "nan"}, {"due": "soon"}]
)
def test_a_form_that_says_something_else_changes_nothing(
    owner: Browser, log: EventLog, sent: dict[str, str]
):
    seed_goals(log)
    head = log.head()
    assert owner.post(f"{GOALS}/late", **sent).status_code == 400
    assert log.head() == head


def test_only_goals_are_changed_and_only_with_the_sessions_token(owner: Browser, log: EventLog):
    seed_goals(log)
    head = log.head()
    assert owner.post(f"{GOALS}/step0", status="done").status_code == 400
    assert owner.post(f"{GOALS}/none", status="done").status_code == 404
    assert owner.post(f"{GOALS}/late", csrf="wrong", status="done").status_code == 403
    assert log.head() == head


def test_texts_are_harmless(owner: Browser, log: EventLog):
    bad = "<script>alert(1)</script>\x1b[31m \u202e evil"
    log.append([Event("x", NOW, Recorded(content=bad, kind="goal", status="open", chain=bad), "x")])
    log.append([Event("y", NOW, Recorded(content=bad, kind="milestone", chain=bad), "y")])
    log.append([Event("z", NOW, Recorded(content=bad, kind="lesson"), "z")])
    for path in (GOALS, LESSONS):
        page = owner.get(path).text
        assert "&lt;script&gt;" in page and "<script>alert" not in page
        assert "\x1b" not in page and "\u202e" not in page


@needs_chromium
def test_a_goal_is_changed_in_a_browser_without_scripts(app: Flask, log: EventLog):
    seed_goals(log)
    with tab(app, scripts=False) as page:
        page.goto(GOALS)
        page.get_by_text("Change", exact=True).first.click()
        page.get_by_label("Progress, %").first.fill("75")
        page.get_by_role("button", name="Save").first.click()
        page.get_by_text("The goal was changed.").wait_for()
        assert page.get_by_text("75 %").count() == 1
