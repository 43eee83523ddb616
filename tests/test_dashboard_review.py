"""The pages Proposals, Jobs & snapshots and Errors: their contents and their forms."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from dashboard_page import Browser, application, browser, find_memory

from serve.reports.proposal_rendering import differing_words
from serve.server.open_tenants import OpenTenant, OpenTenants
from store.embedders.lexical import LexicalEmbedder
from store.home import failures, tenant, tokens
from store.home.config import Settings
from store.home.registry import register_ui
from store.log import commands
from store.log.commands import Draft
from store.log.event_kinds import (
    ChangedAnswer,
    PlanCheck,
    Planned,
    Proposed,
    Quarantined,
    Recalled,
    ReplayDiff,
)
from store.log.event_log import EventLog
from store.log.events import Event
from store.maintenance import build
from store.plans import job_catalog, plans, recommendations, steps
from store.plans.recommendations import Change
from store.plans.setting_changes import configure_steps
from store.snapshots import manifest as manifests
from store.snapshots.manifest import CheckResult, Refusal

NOW = 1_800_000_000_000_000
HOSTILE = "<script>alert(1)</script>"
PROPOSALS = "/t/default/proposals"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home of one build and three notes, one of them hostile; each test has a copy."""
    folder = tmp_path_factory.mktemp("template")
    texts = ("We deploy on Monday", "We deploy on Monday.", f"Redis holds {HOSTILE}")
    drafts = [Draft(id=f"n{number}", content=text) for number, text in enumerate(texts)]
    one = tenant.tenant(folder)
    with EventLog(one.log, create=True) as log:
        commands.record_batch(log, drafts, NOW)
        build.rebuild(one, log, LexicalEmbedder(), NOW)
    return folder


@pytest.fixture
def opened(home: Path, template: Path) -> Iterator[OpenTenant]:
    shutil.copytree(template, home)
    tenants = OpenTenants(Settings(home))
    yield tenants.get("default")
    tenants.close()


@pytest.fixture
def owner(opened) -> Iterator[Browser]:
    tenants = OpenTenants(Settings(opened.tenant.root.parents[1]))
    yield browser(application(tenants))
    tenants.close()


def proposed(opened: OpenTenant) -> str:
    """Propose that one of two equal notes replaces the other; return the plan's id."""
    step = steps.supersede(
        find_memory(opened, "n1"), "n0", "the same words", by_says="We deploy on Monday"
    )
    body = Planned(job="consolidate", watermark=opened.log.head(), steps=(step,), looked_at=3)
    return plans.propose(opened.log, body, NOW).id


def state_of(opened: OpenTenant, id_: str) -> str:
    return find_memory(opened, id_).state


def test_a_proposal_is_a_diff_that_is_accepted_and_taken_back(owner, opened):
    plan = proposed(opened)
    page = f"/t/default/proposals/{plan}"
    assert plan in owner.get("/t/default/proposals").text
    shown = owner.get(page).text
    assert "<del>Monday.</del>" in shown and "the same words" in shown and "Accept" in shown
    done = owner.follow(owner.post(page, answer="accept"))
    assert "Accepted" in done.text and "Undo" in done.text
    assert state_of(opened, "n1") == "superseded"
    assert plan not in owner.get("/t/default/proposals").text  # it is no longer pending
    assert plan in owner.get("/t/default/proposals?state=accepted").text
    owner.follow(owner.post(page, answer="undo"))
    assert state_of(opened, "n1") == "active"


def test_a_rejected_proposal_does_nothing(owner, opened):
    page = f"/t/default/proposals/{proposed(opened)}"
    assert "will not be proposed again" in owner.follow(owner.post(page, answer="reject")).text
    assert state_of(opened, "n1") == "active"
    assert owner.post(page, answer="accept").status_code == 409


def test_a_stale_proposal_says_what_changed_and_cannot_be_accepted(owner, opened):
    page = f"/t/default/proposals/{proposed(opened)}"
    commands.forget(opened.log, "n1", NOW)
    shown = owner.get(page).text
    assert "no longer be applied" in shown and "forgotten" in shown and "Accept<" not in shown
    assert owner.post(page, answer="accept").status_code == 409


@pytest.mark.parametrize("word", ["", "apply", "accept "])
def test_an_invalid_answer_changes_nothing(owner, opened, word):
    page = f"/t/default/proposals/{proposed(opened)}"
    assert owner.post(page, answer=word).status_code == 400
    assert owner.get("/t/default/proposals/nope").status_code == 404
    assert owner.get("/t/default/proposals?state=nope").status_code == 400


def several(opened: OpenTenant) -> str:
    """Propose to replace one note by another, and to archive a third; return the plan's id."""
    notes = [find_memory(opened, f"n{number}") for number in range(3)]
    found = (
        steps.supersede(notes[1], "n0", "the same words"),
        steps.archive(notes[2], "nobody asks"),
    )
    body = Planned(job="consolidate", watermark=opened.log.head(), steps=found, looked_at=3)
    return plans.propose(opened.log, body, NOW).id


def test_both_sides_are_shown_with_the_words_that_differ(owner: Browser, opened: OpenTenant):
    page = owner.get(f"{PROPOSALS}/{proposed(opened)}").text
    assert "We deploy on <del>Monday.</del>" in page and "We deploy on <ins>Monday</ins>" in page
    assert page.index("Goes") < page.index("Stays")
    assert all(f'href="/t/default/memory/{id_}"' in page for id_ in ("n0", "n1"))
    assert "stays: We deploy on Monday" in owner.get(PROPOSALS).text


def test_a_merge_that_is_recommended_shows_what_stays(owner: Browser, opened: OpenTenant):
    merge = steps.supersede(find_memory(opened, "n1"), "n0", "alike", kept="We deploy on Monday")
    notes, change = [find_memory(opened, "n1")], Change(opened.log.head(), (merge,))
    event = recommendations.proposal("merge", notes, change, "alike", NOW)
    id_ = opened.log.append([event])[0].event.id
    assert "<ins>Monday</ins>" in owner.get(f"{PROPOSALS}/{id_}").text
    assert "stays: We deploy on Monday" in owner.get(PROPOSALS).text


def test_a_plan_is_answered_change_by_change(owner: Browser, opened: OpenTenant):
    page = f"{PROPOSALS}/{several(opened)}"
    assert owner.get(page).text.count('name="step"') == 2
    done = owner.follow(owner.post(page, answer="accept", of="chosen", step="1"))
    assert "1 change accepted" in done.text and "1 of 2" in done.text
    assert (state_of(opened, "n1"), state_of(opened, "n2")) == ("active", "archived")
    assert "1 answered" in owner.get(PROPOSALS).text
    owner.follow(owner.post(page, answer="reject", of="chosen", step="0"))
    assert "accepted" in owner.get(page).text and state_of(opened, "n1") == "active"
    owner.follow(owner.post(page, answer="undo"))
    assert state_of(opened, "n2") == "active"
    for step in ("7", "x", ""):
        assert owner.post(page, answer="accept", of="chosen", step=step).status_code in (400, 409)


def test_of_a_stale_plan_the_changes_that_still_hold_can_be_chosen(
    owner: Browser, opened: OpenTenant
):
    page = f"{PROPOSALS}/{several(opened)}"
    commands.forget(opened.log, "n1", NOW)
    shown = owner.get(page).text
    assert "Can no longer be applied: n1 was forgotten since" in shown
    assert shown.count('name="step"') == 1 and "Accept all<" not in shown
    owner.follow(owner.post(page, answer="accept", of="chosen", step="1"))
    assert state_of(opened, "n2") == "archived"
    assert owner.post(page, answer="accept", of="chosen", step="0").status_code == 409


def test_proposals_are_answered_together_and_failures_are_reported(
    owner: Browser, opened: OpenTenant
):
    one, other = proposed(opened), several(opened)
    commands.forget(opened.log, "n2", NOW)
    page = owner.follow(owner.post(PROPOSALS, answer="accept", id=[one, other]))
    assert (
        "1 proposal accepted. 1 left as they were" in page.text and "n2 was forgotten" in page.text
    )
    assert state_of(opened, "n1") == "superseded"
    undone = owner.follow(owner.post(PROPOSALS, answer="undo", id=one))
    assert "1 proposal taken back" in undone.text and state_of(opened, "n1") == "active"
    assert owner.post(PROPOSALS, answer="accept").status_code == 400


def test_what_a_job_applied_by_itself_says_so(owner: Browser, opened: OpenTenant):
    plan = proposed(opened)
    plans.apply(opened.log, plan, NOW)
    assert plan in owner.get(f"{PROPOSALS}?state=applied").text
    assert plan not in owner.get(f"{PROPOSALS}?state=accepted").text
    page = owner.get(f"{PROPOSALS}/{plan}").text
    assert "Nobody accepted this" in page and "Undo" in page


@pytest.mark.parametrize(
    ("before", "after", "marked"),
    [
        ("a b c", "a x c", (["b"], ["x"])),
        ("a b", "a b", ([], [])),
        ("", "a", ([], ["a"])),
        ("one two three", "four five six", ([], [])),  # nothing in common: no marks
        ("a " * 300, "a " * 301, ([], [])),  # one word very often
    ],
)
def test_the_words_that_differ_are_found_and_no_text_is_lost(
    before: str, after: str, marked: tuple[list[str], list[str]]
):
    found = differing_words(before, after)
    assert tuple([piece.text for piece in side if piece.differs] for side in found) == marked
    assert tuple("".join(piece.text for piece in side) for side in found) == (before, after)


def test_what_a_job_says_of_a_hostile_memory_is_harmless(owner, opened):
    step = steps.archive(find_memory(opened, "n2"), f"nobody asks {HOSTILE}")
    body = Planned(job="archive", watermark=opened.log.head(), steps=(step,), looked_at=3)
    plan = plans.propose(opened.log, body, NOW).id
    for path in ("/t/default/proposals", f"/t/default/proposals/{plan}"):
        assert HOSTILE not in owner.get(path).text
    assert "&lt;script&gt;" in owner.get(f"/t/default/proposals/{plan}").text


def test_snapshots_and_their_checks_are_shown(owner, opened):
    page = owner.get("/t/default/jobs").text
    manifest = manifests.current(opened.tenant)
    assert all(name in page for name in manifest.projections)
    assert all(check.name in page for check in manifest.checks)
    assert "mnemolog ui" in page


def test_a_refused_build_says_which_check_and_why(owner, opened):
    check = CheckResult("no_secrets", False, "1 secret in n2")
    manifests.refuse(opened.tenant, Refusal(NOW, 9, (check,)))
    for path in ("/t/default/jobs", "/t/default/errors"):
        page = owner.get(path).text
        assert "no_secrets" in page and "1 secret in n2" in page


def test_memories_that_builds_leave_out_are_shown_with_the_command_that_ends_it(owner, opened):
    body = Quarantined(check="no_secrets", reason="1 secrets (github-token)")
    opened.log.append([Event("q", NOW, body, "n2")])
    page = owner.get("/t/default/errors").text
    assert "n2" in page and "1 secrets (github-token)" in page
    assert "mnemolog quarantine --release ID" in page
    assert "builds leave out 1 memory" in owner.get("/t/default/overview").text


def test_dagsters_pages_are_linked_while_they_are_served(owner, opened, monkeypatch):
    monkeypatch.setattr("store.home.registry.listens", lambda port: port == 3456)
    with register_ui(Settings(opened.tenant.root.parents[1]), 3456):
        assert 'href="http://127.0.0.1:3456"' in owner.get("/t/default/jobs").text
    assert "3456" not in owner.get("/t/default/jobs").text


def test_a_job_is_switched_on_and_off(owner, opened):
    switch = "/t/default/jobs/switch"
    owner.follow(owner.post(switch, job="distill", on="1"))
    assert job_catalog.load_switches(opened.tenant).on == {"distill"}
    owner.follow(owner.post(switch, job="distill", on="0"))
    assert job_catalog.load_switches(opened.tenant).on == set()
    assert owner.post(switch, job="nothing", on="1").status_code == 400
    assert owner.post("/t/default/jobs/run", job="rm").status_code == 400


def test_a_failure_is_listed_until_the_job_succeeds(owner, opened):
    assert "Nothing is wrong" in owner.get("/t/default/errors").text
    failures.keep(opened.tenant.root, "facts", NOW, f"it broke on {HOSTILE}", run="0123456789")
    page = owner.get("/t/default/errors").text
    assert "it broke on" in page and "01234567" in page and HOSTILE not in page
    failures.forget(opened.tenant.root, "facts")
    assert "Nothing is wrong" in owner.get("/t/default/errors").text


def test_a_damaged_head_is_named_with_its_cure(owner, opened):
    opened.tenant.head.write_bytes(b"{}")
    page = owner.get("/t/default/errors").text
    assert "A snapshot is damaged" in page and "mnemolog build" in page


def test_a_token_is_shown_once_and_revoked(owner, opened):
    home, page = opened.tenant.root.parents[1], "/t/default/access"
    shown = owner.post(f"{page}/tokens", name="ci", scope=["read", "write"], days="30")
    (made,) = tokens.every(home, "default")
    assert (made.name, made.scopes) == ("ci", ("read", "write"))
    assert made.expires_at == NOW + 30 * 86_400_000_000
    match = re.search(r"mnemo_\w+_[\w-]+", shown.text)
    assert match is not None and tokens.find_active(match[0], [made], NOW) == made
    assert shown.headers["Cache-Control"] == "no-store"
    assert match[0] not in owner.get(page).text
    assert "is revoked" in owner.follow(owner.post(f"{page}/tokens/{made.id}/revoke")).text
    assert tokens.every(home, "default")[0].state(NOW) == "revoked"


@pytest.mark.parametrize(
    "form",
    [{}, {"scope": "all"}, {"scope": "read", "days": "x"}, {"scope": "read", "name": "\x00"}],
)
def test_a_token_that_cannot_be_made_says_why(owner, opened, form):
    shown = owner.post("/t/default/access/tokens", **form)
    assert shown.status_code == 400 and "text/html" in shown.content_type
    assert tokens.every(opened.tenant.root.parents[1]) == ()


def test_a_tenant_is_made_and_put_away(owner, opened):
    home = opened.tenant.root.parents[1]
    page = owner.follow(owner.post("/t/default/access/tenants", name="team"))
    assert "team was created" in page.text and "/t/team/access" in page.text
    assert owner.post("/t/default/access/tenants", name="../x").status_code == 400
    assert owner.post("/t/team/access/delete", name="tea").status_code == 400
    assert tenant.find_tenant(home, "team")
    done = owner.follow(owner.post("/t/team/access/delete", name="team"))
    assert "nothing is destroyed" in done.text
    assert not tenant.tenant(home, "team").exists
    assert owner.get("/t/team/access").status_code == 404
    assert owner.post("/t/default/access/delete", name="default").status_code == 409


def test_a_long_plan_is_shown_part_by_part(owner: Browser, opened: OpenTenant):
    note = find_memory(opened, "n0")
    many = tuple(steps.archive(note, f"reason {number}") for number in range(150))
    body = Planned(job="archive", watermark=opened.log.head(), steps=many)
    page = f"/t/default/proposals/{plans.propose(opened.log, body, NOW).id}"
    first, rest = owner.get(page).text, owner.get(f"{page}?from=144").text
    assert "150 changes" in first and "reason 7" in first and "reason 8" not in first
    assert "reason 143" not in rest and "reason 149" in rest
    assert f'href="{page}?from=8"' in first and 'rel="next"' not in rest


def test_many_proposals_are_shown_part_by_part(owner: Browser, opened: OpenTenant):
    drafts = ({"content": f"Run step {number} first", "kind": "lesson"} for number in range(120))
    bodies = [Proposed(what="lesson", draft=draft) for draft in drafts]
    opened.log.append([Event(f"d{at:03}", NOW, one, f"d{at:03}") for at, one in enumerate(bodies)])
    first, rest = owner.get(PROPOSALS).text, owner.get(f"{PROPOSALS}?state=waiting&from=80").text
    assert (first.count("<tr data-row>"), rest.count("<tr data-row>")) == (40, 40)
    assert 'rel="next"' in first and 'rel="next"' not in rest


class Started:
    """A stand-in for a started process."""

    def __init__(self) -> None:
        self.code: int | None = None

    def poll(self) -> int | None:
        return self.code


def test_a_build_and_a_job_are_begun_once_at_a_time(opened, monkeypatch):
    builds: list[Started] = []
    learns: list[tuple[str, ...]] = []

    def built(of: object) -> Started:
        builds.append(Started())
        return builds[-1]

    def started(settings: Settings, *words: str, **output: object) -> Started:
        learns.append(words)
        return Started()

    monkeypatch.setattr("serve.server.open_tenants.processes.start_job", started)
    tenants = OpenTenants(Settings(opened.tenant.root.parents[1]), built)
    owner = browser(application(tenants))
    assert "A build has started" in owner.follow(owner.post("/t/default/jobs/build")).text
    assert "already running" in owner.follow(owner.post("/t/default/jobs/build")).text
    assert tenants.idle_s() == 0.0  # the server does not end meanwhile
    builds[0].code = 0
    assert "A build has started" in owner.follow(owner.post("/t/default/jobs/build")).text
    run = "/t/default/jobs/run"
    assert "distill has started" in owner.follow(owner.post(run, job="distill")).text
    assert "already running" in owner.follow(owner.post(run, job="judge")).text
    assert learns == [("learn", "distill", "--tenant", "default")]
    tenants.close()


def test_a_plan_of_settings_shows_what_it_does_to_past_recalls(opened, owner):
    """Its answers before and after, and its checks; with a failed check, no button accepts it."""
    said = Recalled(
        query=f"deploy {HOSTILE}",
        mode="auto",
        manifest=1,
        watermark=3,
        hits=(),
        dropped={},
        took_us=1,
    )
    opened.log.append([Event("r1", NOW, said, "r1")])
    settings = Settings(opened.tenant.root.parents[1])
    replay = ReplayDiff(
        asked=1, changed=1, spoke=1, silenced=1, answers=(ChangedAnswer("r1", ("n2",), ()),)
    )
    body = Planned(
        job="settings",
        watermark=opened.log.head(),
        steps=configure_steps(settings, {"top_k": "3"}),
        replay=replay,
        checks=(PlanCheck("silence", False, "1 of 1 recalls bring nothing"),),
    )
    id_ = plans.propose(opened.log, body, NOW).id
    page = owner.get(f"{PROPOSALS}/{id_}").text
    assert "Its checks failed: silence" in page and "--force" in page
    assert "1 of 1 recalls bring nothing" in page and "No longer comes back" in page
    assert "Redis holds &lt;script&gt;" in page and HOSTILE not in page
    assert 'value="accept"' not in page
    refused = owner.post(f"{PROPOSALS}/{id_}", answer="accept")
    assert refused.status_code == 409 and "fails its checks" in refused.text
    assert not settings.user_file.exists()
