"""The pages of memories: search, lists, edits, undo; and hostile texts."""

import html
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from dashboard_page import HOST, NOW, TOKEN, Browser, application, browser, fields, find_memory
from werkzeug.test import TestResponse

from serve.dashboard.forms import FOUND
from serve.dashboard.memory_list_page import SHOWN
from serve.dashboard.recall_pages import SHOWN as RECALLS
from serve.dashboard.rendering import clean, differences, line
from serve.recall.request import RecallRequest, answer
from serve.server.open_tenants import OpenTenants
from store.home import tenant
from store.home.config import Settings
from store.log import commands, log_queries
from store.log.commands import Draft
from store.log.event_kinds import Acted, Prompted, Revised, SessionTold
from store.log.event_log import EventLog
from store.log.events import Event

LIST = "/t/default/memories"
BREAKS_OUT = (
    "<script>alert(1)</script>\"><img src=x onerror=alert(1)><svg/onload=alert(1)>'--></textarea>"
)
HOSTILE = (
    BREAKS_OUT,
    "{{ 7 * 7 }}{% raw %} deploy ${7*7} #{7*7}",
    "\x1b[31mred\x1b[0m \x07bell deploy",
    "file \u202egnp.exe\u202c \u2066isolated\u2069 \u200b\u200einvisible\ufeff \U000e0041tag",
    "deploy " + "W" * 60_000,
    "deploy line\r\n" * 5_000,
)


@pytest.fixture
def tenants(tmp_path: Path) -> Iterator[OpenTenants]:
    for name in ("default", "other"):
        EventLog(tenant.tenant(tmp_path, name).log, create=True).close()
    opened = OpenTenants(Settings(tmp_path))
    yield opened
    opened.close()


@pytest.fixture
def log(tenants: OpenTenants) -> EventLog:
    return tenants.get("default").log


@pytest.fixture
def owner(tenants: OpenTenants) -> Browser:
    return browser(application(tenants))


@pytest.fixture
def remember(log: EventLog) -> Callable[..., str]:
    """Record a memory and return its id."""

    def record(content: str, **more: object) -> str:
        draft = Draft(content=content, **more)  # type: ignore[arg-type]
        return commands.record(log, draft, NOW).event.id

    return record


def change(owner: Browser, does: str, *ids: str, **more: str) -> TestResponse:
    sent = {"do": does, "id": list(ids), "back": LIST} | more
    return owner.follow(owner.post(f"{LIST}/change", **sent))


def undo(owner: Browser, page: TestResponse) -> TestResponse:
    """Send the undo form of a page's flash message."""
    form = re.search(
        r'<div class="flash.*?<form[^>]*action="([^"]+)">(.*?)</form>', page.text, re.S
    )
    assert form is not None, page.text
    sent: dict[str, list[str]] = {}
    for name, value in re.findall(r'name="(\w[\w-]*)" value="([^"]*)"', form[2]):
        sent.setdefault(name, []).append(value.replace("&#34;", '"'))
    sent.pop("csrf")
    return owner.follow(owner.post(form[1], **sent))


def state(tenants: OpenTenants, id_: str) -> str:
    return find_memory(tenants.get("default"), id_).state


# The list


def test_the_newest_memories_are_listed_and_lead_to_their_pages(owner, remember):
    id_ = remember("Deploys go out from eu-west-1", tags=("deploy",))
    page = owner.get(LIST)
    assert f'href="/t/default/memory/{id_}"' in page.text
    assert "Deploys go out from eu-west-1" in owner.get(f"/t/default/memory/{id_}").text


def test_an_empty_memory_says_how_it_fills(owner):
    assert "No memories yet" in owner.get(LIST).text
    assert "No such memories" in owner.get(f"{LIST}?kind=goal").text


def facets(page: str) -> dict[str, str]:
    """Return the addresses of a page's facets by their label and count."""
    found = re.findall(r'<li><a href="([^"]+)"[^>]*>\s*<span class="said"[^>]*>(.*?)</span> '
                       r'<span class="num">(.*?)</span>', page)  # fmt: skip
    return {f"{label} {count}": html.unescape(url) for url, label, count in found}


def test_facets_count_what_was_found_and_narrow_it(owner, remember):
    remember("the deploy runs at noon", kind="decision", project="acme/web", session="s1")
    remember("the deploy is signed", project="acme/web", trust="tool")
    remember("the deploy has a bell", project="shop", created_at=datetime(2020, 1, 1, tzinfo=UTC))
    for asked in ("", "?q=the+deploy"):
        found = facets(owner.get(LIST + asked).text)
        assert {"fact 2", "decision 1", "acme/web 2", "shop 1", "tool 1", "user 2"} <= set(found)
        assert {"last 24 hours 2", "s1 1"} <= set(found)
        narrowed = owner.get(found["tool 1"]).text
        assert "is signed" in narrowed and "at noon" not in narrowed
        again = facets(narrowed)
        assert "at noon" in owner.get(again["tool 1"]).text  # a second click removes it
        assert "has a bell" not in owner.get(found["last 24 hours 2"]).text


def test_a_search_marks_its_words_and_shows_where_they_are(owner, remember):
    remember("first " + "some words " * 60 + "then the deployments are <b>signed</b>")
    page = owner.get(f"{LIST}?q=deployment").text
    assert "<mark>deployments</mark> are &lt;b&gt;signed" in page
    assert "<mark>" not in owner.get(LIST).text


def test_a_turn_is_told_part_by_part_with_the_sentences_that_match(owner, log):
    asked = "Look at the mail of today. " * 20 + "Why do the cookies expire too soon?"
    bodies = (
        Prompted(prompt=asked),
        Acted(tool="Bash", doing="run", command="pytest tests/cookies", output="1 passed"),
        SessionTold(stage="stopped", said="The session cookies had no max age. Bye."),
    )
    ids = [f"01TURN{number}" for number in range(len(bodies))]
    log.append(
        [
            Event(id_, NOW - 10 + at, body, id_, None, "s1", "plain", "agent")
            for at, (id_, body) in enumerate(zip(ids, bodies, strict=True))
        ]
    )
    page = re.sub("</?mark>", "", owner.get(f"{LIST}?q=why+do+cookies+expire").text)
    for words in ("... Why do the cookies expire too soon?", "pytest tests/cookies", "no max age"):
        assert words in page
    for who in ("asked", "ran, said by tool:", "agent"):
        assert f'<span class="who">{who}</span>' in page
    assert page.count("said by tool") == 1  # not for a hit on the user's question


def test_a_memory_of_many_tags_names_three(owner, remember):
    remember("the harbour lamp is lit at dusk", tags=tuple(f"file{n}" for n in range(21)))
    page = owner.get(f"{LIST}?q=harbour+lamp").text
    assert "and 18 more tags" in page and page.count('class="badge" href=') == 3


def test_a_search_that_finds_nothing_says_which_filter_hides_what(owner, remember):
    remember("the deploy runs at noon", kind="decision", project="acme/web")
    page = owner.get(f"{LIST}?q=the+deploy&kind=goal").text
    assert "Nothing found" in page
    [(url, count)] = re.findall(
        r'href="([^"]+)">without kind goal: <strong>(\d+)</strong>', html.unescape(page)
    )
    assert count == "1" and "at noon" in owner.get(url).text
    assert "without from 2030-01-01" in owner.get(f"{LIST}?since=2030-01-01").text


def test_scripts_get_the_results_without_the_page(owner, remember):
    remember("the deploy runs at noon")
    whole = owner.get(f"{LIST}?q=deploy").text
    part = owner.get(f"{LIST}?q=deploy", **{"Mnemolog-Part": "1"}).text
    assert "<html" not in part and part.strip() in whole
    wrong = owner.get(f"{LIST}?since=never", **{"Mnemolog-Part": "1"})
    assert wrong.status_code == 400 and "is not a date" in html.unescape(wrong.text)


def test_projects_are_offered_by_name(owner, remember):
    remember("a plain fact", project="acme/web")
    assert '<option value="acme/web">' in owner.get(LIST).text


def hook(owner: Browser, prompt: str, session: str) -> None:
    event = {"hook_event_name": "UserPromptSubmit", "session_id": session, "prompt": prompt}
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    answer = owner.client.post("/v1/hooks/claude-code", json=event, headers=HOST | bearer)
    assert answer.status_code in (200, 204)


def test_recalls_and_sessions_show_what_was_injected(owner, remember, tenants):
    remember("Never deploy on Friday afternoon", kind="preference")
    hook(owner, "please deploy the shop this Friday afternoon", "s1")
    tenants.get("default").notes.write()
    whole = owner.get("/t/default/recalls").text
    part = owner.get("/t/default/recalls", **{"Mnemolog-Part": "1"}).text
    assert "<html" not in part and part.strip() in whole
    timeline = owner.get("/t/default/session?session=s1").text
    for page in (part, timeline):
        assert "1 note injected" in page
        assert "Never deploy on Friday afternoon" in re.sub("</?mark>", "", page)
    listed = owner.get("/t/default/sessions").text
    assert "please deploy the shop" in listed and "/t/default/session?session=s1" in listed
    assert "No sessions yet" in owner.get("/t/other/sessions").text
    assert owner.get("/t/other/session?session=s1").status_code == 404
    assert "Nothing was asked yet" in owner.get("/t/other/recalls").text


def test_pages_of_the_list_show_each_memory_once(owner, log):
    count = 2 * SHOWN + 3
    drafts = [Draft(id=f"m{n}", content=f"memory number {n}") for n in range(count)]
    commands.record_batch(log, drafts, NOW)
    seen, address = [], LIST
    while address:
        page = owner.get(address).text
        seen += re.findall(r'name="id" value="(m\d+)"', page)
        match = re.search(r'rel="next" href="([^"]+)"', page)
        address = match[1].replace("&amp;", "&") if match else ""
    assert sorted(seen) == sorted(draft.id for draft in drafts)
    assert len(seen) == count


def test_filters_narrow_the_list(owner, remember):
    remember("a goal of the team", kind="goal", tags=("team",), pinned=True)
    remember("a plain fact", project="acme/web")
    for asked, shown in (
        ("kind=goal", {"a goal of the team"}),
        ("project=acme/web&kind=fact", {"a plain fact"}),
        ("tag=team", {"a goal of the team"}),
        ("pinned=1", {"a goal of the team"}),
        ("state=archived", set()),
        ("since=2030-01-01", set()),
        ("until=2030-01-01", {"a goal of the team", "a plain fact"}),
    ):
        page = owner.get(f"{LIST}?{asked}").text
        assert {one for one in ("a goal of the team", "a plain fact") if one in page} == shown, (
            asked
        )


@pytest.mark.parametrize(
    "asked",
    ["kind=nonsense", "state=<b>", "sort=drop", "since=tomorrowish", "project=../x", "after=zzz"],
)
def test_an_invalid_filter_is_reported_on_the_page(owner, asked: str):
    page = owner.get(f"{LIST}?{asked}")
    assert page.status_code == 400
    assert 'role="alert"' in page.text and "<b>" not in page.text


def test_a_search_includes_hits_below_the_threshold(owner, remember, log):
    remember("The deploy of the web client goes out from eu-west-1")
    remember("Anna prefers tea")
    page = owner.get(f"{LIST}?q=where+does+the+deploy+go+out+from").text
    assert "eu-west-1" in page and "Confidence" in page
    assert not [event for event in log.read() if event.kind == "recalled"]
    assert FOUND <= 200


def test_a_search_finds_archived_memories_on_request(owner, remember, log):
    commands.archive(log, remember("Redis ran on port 6379"), NOW)
    assert "6379" not in owner.get(f"{LIST}?q=redis").text
    assert "6379" in owner.get(f"{LIST}?q=redis&state=archived").text


def test_get_requests_write_nothing(owner, remember, log):
    id_ = remember("nothing is written by looking")
    head = log.head()
    for path in (LIST, f"{LIST}?q=written", f"{LIST}/new", f"/t/default/memory/{id_}/edit"):
        assert owner.get(path).status_code == 200
    assert owner.get(f"/t/default/memory/{id_}").status_code == 200
    for path in (f"{LIST}/change", f"/t/default/memory/{id_}/link"):
        assert owner.get(path).status_code in (404, 405)
    assert log.head() == head


def test_a_tenants_pages_show_no_other_tenants_memories(owner, remember):
    id_ = remember("only of the default tenant")
    assert "only of the default" not in owner.get("/t/other/memories").text
    assert owner.get(f"/t/other/memory/{id_}").status_code == 404
    answer = owner.post("/t/other/memories/change", do="forget", id=id_)
    assert answer.status_code == 404


# Bulk changes


@pytest.mark.parametrize("does", ["archive", "forget"])
def test_archived_and_forgotten_memories_are_restored_by_one_undo(
    owner, tenants, remember, does: str
):
    ids = [remember(f"memory number {n}") for n in range(3)]
    page = change(owner, does, *ids)
    after = {"archive": "archived", "forget": "forgotten"}[does]
    assert {state(tenants, id_) for id_ in ids} == {after}
    assert "3 memories" in page.text and "Undo" in page.text
    assert "taken back" in undo(owner, page).text
    assert {state(tenants, id_) for id_ in ids} == {"active"}


def test_many_at_once_show_what_past_answers_lose_and_are_undone_whole(owner, tenants, remember):
    names = "gate door bell lamp roof wall stair attic cellar porch hedge".split()
    ids = [remember(f"The {name} of the house is painted {name}-green") for name in names]
    for name in names:
        recalled(tenants, f"how is the {name} of the house painted?")
    page = change(owner, "forget", *ids)
    assert "forgotten: 11 memories; of past answers" in page.text and "fall silent" in page.text
    assert "cellar-green" in page.text  # the former answer is shown beside the present one
    assert "Taken back" in undo(owner, page).text
    assert {state(tenants, id_) for id_ in ids} == {"active"}
    quiet = change(owner, "tag", *ids, tag="house")
    assert "past answers" not in quiet.text and "Undo" in quiet.text
    undo(owner, quiet)
    assert {find_memory(tenants.get("default"), id_).tags for id_ in ids} == {()}


def test_undo_brings_back_each_state_as_it_was(owner, tenants, remember, log):
    kept, away, old = (remember(f"memory {name}") for name in ("kept", "away", "old"))
    commands.archive(log, away, NOW)
    commands.supersede(log, old, kept, NOW)
    page = change(owner, "forget", kept, away, old)
    undo(owner, page)
    assert [state(tenants, id_) for id_ in (kept, away, old)] == [
        "active",
        "archived",
        "superseded",
    ]


def test_no_undo_is_offered_for_a_former_value_that_was_forgotten(owner, tenants, remember):
    former, present = (remember(f"the gate is {n} wide", key="gate.width") for n in (1, 2))
    assert "Undo" not in change(owner, "forget", former).text
    assert (state(tenants, former), state(tenants, present)) == ("forgotten", "active")


def test_undo_of_a_restore_keeps_the_day_it_expires(owner, tenants, remember):
    id_ = remember("short lived", ttl_s=86_400)
    undo(owner, change(owner, "archive", id_))
    assert find_memory(tenants.get("default"), id_).expires_at == NOW + 86_400_000_000


def test_undo_is_refused_once_somebody_changed_the_memory(owner, tenants, remember, log):
    id_ = remember("changed meanwhile")
    page = change(owner, "archive", id_)
    commands.pin(log, id_, NOW)
    assert "not taken back" in undo(owner, page).text
    assert state(tenants, id_) == "archived"


def test_tags_and_pins_are_put_on_many(owner, remember, log, tenants):
    ids = [remember(f"memory number {n}") for n in range(2)]
    page = change(owner, "tag", *ids, tag="deploy")
    change(owner, "pin", *ids)
    memories = [find_memory(tenants.get("default"), id_) for id_ in ids]
    assert [(memory.tags, memory.pinned) for memory in memories] == [(("deploy",), True)] * 2
    assert "left as they were" in change(owner, "tag", *ids, tag="deploy").text
    assert "not taken back" in undo(owner, page).text  # they were pinned since


def test_nothing_is_changed_where_one_is_unknown_or_none_is_chosen(owner, tenants, remember, log):
    id_ = remember("stays as it is")
    head = log.head()
    assert owner.post(f"{LIST}/change", do="forget", id=[id_, "nobody"]).status_code == 404
    assert "choose" in change(owner, "forget").text
    assert "name the tag" in change(owner, "tag", id_).text
    assert owner.post(f"{LIST}/change", do="drop", id=id_).status_code == 400
    assert log.head() == head


def test_a_change_of_another_in_between_is_not_overwritten(owner, tenants, remember, monkeypatch):
    id_ = remember("a memory with tags", tags=("first",))
    opened, told = tenants.get("default"), commands.change_event

    def meanwhile(log: EventLog, *about: Any) -> Event:
        event = told(log, *about)
        monkeypatch.undo()
        commands.revise(log, id_, Revised(tags=("first", "theirs")), NOW)
        return event

    monkeypatch.setattr(commands, "change_event", meanwhile)
    assert "has changed" in change(owner, "tag", id_, tag="ours").text
    assert find_memory(opened, id_).tags == ("first", "theirs")


@pytest.mark.parametrize(
    "sent", ["", "{}", '["x",1,"active"]', '["nobody",1,"active",null,null,false,[]]', "[" * 9_000]
)
def test_an_invalid_undo_is_refused(owner, log, sent: str):
    assert owner.post(f"{LIST}/undo", was=sent).status_code in (400, 404)
    assert log.head() == 0


@pytest.mark.parametrize(
    "to", ["https://evil.example/", "//evil.example/", "/t/other/memories", "/v1/x"]
)
def test_a_form_leads_back_to_this_tenant_alone(owner, remember, to: str):
    answer = owner.post(f"{LIST}/change", do="pin", id=remember("a memory"), back=to)
    assert answer.headers["Location"].startswith(f"{LIST}?flash=")


def test_a_forged_flash_parameter_shows_nothing(owner):
    page = owner.get(f"{LIST}?flash=you+were+hacked&done=x").text
    assert "hacked" not in page and 'role="status"' not in page


# One memory


def test_a_memory_is_made_by_a_form(owner, log):
    sent = {"content": "We deploy on Tuesdays\r\nonly", "kind": "decision", "tags": "deploy, team"}
    page = owner.follow(owner.post(f"{LIST}/new", pinned="1", importance="0.7", **sent))
    assert "remembered" in page.text
    [event] = log.read()
    assert event.body.content == "We deploy on Tuesdays\nonly"
    assert (event.body.kind, event.body.tags) == ("decision", ("deploy", "team"))
    assert (event.body.pinned, event.body.importance, event.trust) == (True, 0.7, "user")
    assert "forgotten" in undo(owner, page).text


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        ({"content": ""}, "the text is empty"),
        ({"content": "todo"}, "placeholder"),
        ({"content": "a text", "importance": "much"}, "importance"),
        ({"content": "a text", "importance": "7"}, "importance"),
        ({"content": "a text", "kind": "nonsense"}, "kind"),
        ({"content": "a text", "value": "eu"}, "needs a key"),
        ({"content": "a text", "key": "nodots"}, "key"),
        ({"content": "a text", "ttl": "soon"}, "duration"),
        ({"content": "a text", "project": "../x"}, "project"),
        ({"content": "a text", "metadata": "[1]"}, "object"),
        ({"content": "a text", "metadata": "{"}, "JSON"),
    ],
)
def test_a_form_that_cannot_be_used_comes_back_as_it_was(owner, log, sent, said: str):
    page = owner.post(f"{LIST}/new", **sent)
    assert page.status_code == 400
    assert re.search(rf'role="alert">[^<]*{said}', page.text), page.text
    assert sent["content"] in page.text
    assert log.head() == 0


def test_a_form_sent_twice_is_remembered_once(owner, log):
    sent = {"id": fields(owner.get(f"{LIST}/new").text)["id"], "content": "We deploy on Tuesdays"}
    first, second = (owner.post(f"{LIST}/new", **sent) for _ in range(2))
    assert first.status_code == second.status_code == 303
    assert log.head() == 1
    other = owner.post(f"{LIST}/new", **(sent | {"content": "We deploy on Fridays"}))
    assert other.status_code == 409 and "Fridays" in other.text
    again = owner.post(f"{LIST}/new", id=fields(other.text)["id"], content="We deploy on Fridays")
    assert again.status_code == 303


def test_a_form_reports_a_redacted_secret(owner, log):
    token = "ghp_" + "a1B2c3D4e5F6" * 3
    page = owner.follow(owner.post(f"{LIST}/new", content=f"the token is {token}"))
    assert "secret was redacted" in page.text and token not in page.text


def edit(owner: Browser, id_: str, **changed: str) -> TestResponse:
    """Send a memory's form with some fields edited."""
    path = f"/t/default/memory/{id_}/edit"
    page = owner.get(path).text
    texts = dict(re.findall(r'<textarea[^>]*name="(\w+)"[^>]*>\n(.*?)</textarea>', page, re.S))
    chosen = {"tier": "auto"}
    sent = {k: v for k, v in fields(page).items() if k not in ("csrf", "q")} | texts | chosen
    return owner.post(path, **(sent | changed))


def test_a_revision_holds_only_what_was_changed(owner, remember, log):
    id_ = remember("We deploy on Tuesdays", context="asked by ops", tags=("team",))
    page = owner.follow(edit(owner, id_, content="We deploy on Fridays", reason="moved"))
    assert "We deploy on Fridays" in page.text
    body = list(log.read())[-1].body
    assert isinstance(body, Revised)
    payload = {
        name: one for name in body.__struct_fields__ if (one := getattr(body, name)) is not None
    }
    payload.pop("tier", None)
    assert payload == {"content": "We deploy on Fridays", "reason": "moved"}


def test_a_revision_can_empty_a_field_and_is_put_back(owner, remember, tenants):
    id_ = remember("We deploy on Tuesdays", context="asked by ops")
    page = owner.follow(edit(owner, id_, context=""))
    assert find_memory(tenants.get("default"), id_).context == ""
    undo(owner, page)
    assert find_memory(tenants.get("default"), id_).context == "asked by ops"


def test_an_edit_of_an_outdated_version_is_refused(owner, remember, log, tenants):
    id_ = remember("We deploy on Tuesdays")
    path = f"/t/default/memory/{id_}/edit"
    seen = fields(owner.get(path).text)["seen"]
    commands.revise(log, id_, Revised(content="We deploy on Mondays"), NOW)
    refused = owner.post(path, content="We deploy on Fridays", seen=seen)
    assert refused.status_code == 412
    assert "Mondays" in refused.text and "Fridays" in refused.text
    assert find_memory(tenants.get("default"), id_).content == "We deploy on Mondays"
    newest = fields(refused.text)["seen"]
    again = owner.post(path, content="We deploy on Fridays", seen=newest)
    assert again.status_code == 303


def test_nothing_is_written_where_nothing_was_changed(owner, remember, log):
    id_ = remember("a text\n\nwith lines", context="and\rmore", importance=0.7, tier="working")
    head = log.head()
    answer = edit(owner, id_, tier="working")
    assert answer.status_code == 400 and "nothing was changed" in answer.text
    assert log.head() == head


def test_the_history_shows_each_revision_and_puts_one_back(owner, remember, log, tenants):
    id_ = remember("We deploy on Tuesdays")
    for day in ("Mondays", "Fridays"):
        commands.revise(log, id_, Revised(content=f"We deploy on {day}"), NOW)
    page = owner.get(f"/t/default/memory/{id_}").text
    assert re.search(r"<del[^>]*>We deploy on Mondays</del>", page)
    assert re.search(r"<ins[^>]*>We deploy on Fridays</ins>", page)
    first = next(event.seq for event in log.events_for(id_) if isinstance(event.body, Revised))
    newest = str(log_queries.newest_change(log, id_))
    owner.post(f"/t/default/memory/{id_}/put-back", step=str(first), seen=newest)
    assert find_memory(tenants.get("default"), id_).content == "We deploy on Tuesdays"


def test_a_memory_is_linked_and_replaced_by_another(owner, remember, tenants):
    old, new = remember("We deploy to us-east-1"), remember("We deploy to eu-west-1")
    path = f"/t/default/memory/{old}"
    page = owner.follow(owner.post(f"{path}/link", target=new, relation="support"))
    assert "We deploy to eu-west-1" in page.text and "support" in page.text
    assert owner.post(f"{path}/link", target=new, relation="nonsense").status_code == 400
    unknown = owner.follow(owner.post(f"{path}/link", target="nobody", relation="cause"))
    assert "no memory" in unknown.text
    page = owner.follow(owner.post(f"{path}/supersede", by=new))
    assert state(tenants, old) == "superseded"
    undo(owner, page)
    assert state(tenants, old) == "active"


def test_a_forgotten_memory_shows_nothing_it_said(owner, remember, tenants):
    id_ = remember("what nobody should read again", tags=("private-tag",))
    change(owner, "forget", id_)
    for path in (f"/t/default/memory/{id_}", f"{LIST}?state=forgotten"):
        page = owner.get(path).text
        assert id_ in page and "nobody should read" not in page and "private-tag" not in page
    assert owner.get(f"/t/default/memory/{id_}/edit").status_code == 400
    change(owner, "restore", id_)
    assert state(tenants, id_) == "active"


# Recalls


def recalled(tenants: OpenTenants, query: str) -> str:
    """Ask as an agent does, and return the receipt's id."""
    opened, now = tenants.get("default"), NOW
    request = RecallRequest(query=query, min_confidence=0.0)
    _, receipt = answer(opened.reader, request, tenants.settings.choices, now)
    assert receipt is not None
    opened.log.append([receipt])
    return receipt.id


def test_a_memory_shows_the_recalls_that_brought_it_and_each_its_hits(owner, remember, tenants):
    id_ = remember("The deploy of the web client goes out from eu-west-1")
    receipt = recalled(tenants, "where does the <b>deploy</b> go out from")
    page = owner.get(f"/t/default/memory/{id_}").text
    assert f'href="/t/default/recall/{receipt}"' in page
    page = owner.get(f"/t/default/recall/{receipt}").text
    assert "eu-west-1" in page and "&lt;b&gt;deploy" in page
    assert receipt in owner.get(f"/t/default/recalls?memory={id_}").text
    assert receipt not in owner.get("/t/default/recalls?silent=silent").text
    assert receipt not in owner.get("/t/other/recalls").text
    assert owner.get(f"/t/other/recall/{receipt}").status_code == 404


def test_recalls_are_listed_a_page_at_a_time(owner, remember, tenants):
    remember("The deploy goes out from eu-west-1")
    made = {recalled(tenants, f"question {n} about the deploy") for n in range(RECALLS + 2)}
    first = owner.get("/t/default/recalls").text
    more = re.search(r'rel="next" href="([^"]+)"', first)
    assert more is not None
    second = owner.get(more[1].replace("&amp;", "&")).text
    listed = [re.findall(r'href="/t/default/recall/(\w+)"', page) for page in (first, second)]
    assert [len(ids) for ids in listed] == [RECALLS, 2]
    assert {*listed[0], *listed[1]} == made


def test_a_recall_is_rated(owner, remember, tenants):
    remember("The deploy goes out from eu-west-1")
    receipt = recalled(tenants, "where does the deploy go out from")
    path = f"/t/default/recall/{receipt}"
    assert "noted that it helped" in owner.follow(owner.post(f"{path}/rate", verdict="helped")).text
    assert owner.post(f"{path}/rate", verdict="9").status_code == 400
    assert owner.post("/t/default/recall/nobody/rate", verdict="helped").status_code == 404


@pytest.mark.parametrize("asked", ["after=zzz", "silent=x", "project=../x"])
def test_an_invalid_recall_filter_is_reported_on_the_page(owner, asked: str):
    page = owner.get(f"/t/default/recalls?{asked}")
    assert page.status_code == 400 and 'role="alert"' in page.text


# Hostile texts


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_text_is_shown_and_does_nothing(owner, remember, text: str):
    id_ = remember(
        text,
        context=text[:500],
        tags=(BREAKS_OUT[:90], "\u202eevil"),
        created_by=BREAKS_OUT[:90],
        agent=BREAKS_OUT[:90],
        session=BREAKS_OUT[:90],
        source=BREAKS_OUT[:90],
        metadata={BREAKS_OUT: BREAKS_OUT},
    )
    paths = (LIST, f"{LIST}?q=deploy", f"/t/default/memory/{id_}", f"/t/default/memory/{id_}/edit")
    for path in paths:
        page = owner.get(path)
        assert page.status_code == 200
        assert "<script>" not in page.text and "<img" not in page.text and "<svg/" not in page.text
        assert "onerror=alert" not in re.sub(r"&lt;.*?&gt;", "", page.text)
        assert "49" not in re.findall(r">(49)[ <]", page.text)
        if not path.endswith("/edit"):  # there it is unescaped, for editing
            assert not re.search("[\x00-\x08\x1b\u202a-\u202e\u2066-\u2069\u200b\ufeff]", page.text)


@pytest.mark.parametrize("text", [BREAKS_OUT, "\x1b]0;x\x07 deploy", "%00%0d%0aSet-Cookie:x=1"])
def test_a_hostile_query_is_shown_and_does_nothing(owner, remember, text: str):
    remember("We deploy on Tuesdays")
    for name in ("q", "tag", "project", "since", "kind", "after"):
        page = owner.client.get(LIST, query_string={name: text}, headers={"Host": "127.0.0.1:1"})
        assert page.status_code in (200, 400)
        assert "<script>" not in page.text and "<img" not in page.text


@pytest.mark.parametrize(
    "id_", ["<script>alert(1)</script>", "../../etc/passwd", "%2e%2e", "x" * 9_000]
)
def test_an_invalid_id_is_not_found(owner, id_: str):
    assert owner.get(f"/t/default/memory/{id_}").status_code == 404


def test_the_longest_memory_can_be_edited(owner, remember):
    id_ = remember("𝒳 long " + "𝒳" * 65_000)
    assert edit(owner, id_, reason="seen", importance="0.2").status_code == 303


# The wording of the pages


def test_clean_leaves_what_people_read():
    assert clean("naïve 日本語 🙂\n\tשלום") == "naïve 日本語 🙂\n\tשלום"
    assert clean("a\x00b\u202ec\u200bd\ufeffe\x9bf") == "abcdef"


def test_a_line_is_cut_and_has_no_breaks():
    assert line("one\ntwo\t three") == "one two three"
    assert len(line("word " * 1_000, 50)) <= 50
    assert line("x" * 60_000, 50).endswith("…")


def test_differences_leave_out_what_is_far_from_a_change():
    before = "\n".join(map(str, range(50)))
    after = before.replace("25", "changed")
    shown = differences(before, after)
    assert ("gone", "25") in shown and ("new", "changed") in shown
    assert len(shown) < 12
    assert differences("same", "same") == []


@pytest.mark.parametrize(("trust", "label"), [("web", True), ("tool", True), ("agent", False)])
def test_tool_and_web_memories_are_labelled_on_every_page(
    owner: Browser, remember: Callable[..., str], trust: str, label: bool
):
    id_ = remember("The gondola sails at dawn", kind="goal", status="open", trust=trust)
    asked = "q=when+does+the+gondola+sail"
    places = (LIST, f"{LIST}?{asked}", f"/t/default/lab?{asked}", "/t/default/goals")
    for path in (*places, f"/t/default/memory/{id_}"):
        text = owner.get(path).text
        assert "The gondola sails" in text
        assert (f"said by {trust}" in text) == label, path
