"""The page of a project's standing memories: given to new sessions, editable, forgettable."""

import html
import re
from collections.abc import Callable

import pytest
from dashboard_page import HOST, NOW, TOKEN
from test_dashboard_memories import owner, tenants

from serve.hooks.brief import brief
from serve.reader.filters import Filter
from serve.server.open_tenants import OpenTenants
from store.log import commands
from store.log.commands import Draft

__all__ = ["owner", "tenants"]  # fixtures

PROJECT = "acme/shop"
PAGE = f"/t/default/holds?project={PROJECT}"


@pytest.fixture
def remember(tenants: OpenTenants) -> Callable[..., str]:
    """Record a memory of the project and return its id."""

    def record(content: str, kind: str, project: str = PROJECT, **more: object) -> str:
        draft = Draft(content=content, kind=kind, project=project, **more)  # type: ignore[arg-type]
        return commands.record(tenants.get("default").log, draft, NOW - 1).event.id

    return record


def sections(page: str) -> dict[str, str]:
    """Return the text under each heading, without tags."""
    parts = re.split(r"<h2[^>]*>(.*?)</h2>", page)
    clean = [" ".join(html.unescape(re.sub("<[^>]+>", " ", part)).split()) for part in parts]
    return dict(zip(clean[1::2], clean[2::2], strict=True))


def test_the_page_shows_what_a_new_session_is_told_line_by_line(owner, remember, tenants):
    rule = remember("Never edit files under legacy", "preference", trust="user")
    decision = remember("Amounts are kept in cents", "decision")
    remember("The other shop is closed on Mondays", "decision", project="acme/other")
    shown = sections(owner.get(PAGE).text)["Rules and decisions"]
    assert "Never edit files under legacy" in shown and "Amounts are kept in cents" in shown
    assert "closed on Mondays" not in owner.get(PAGE).text.partition("</form>")[2]
    told = tenants.get("default").reader.answer(lambda view: brief(view, Filter(NOW, PROJECT)))
    assert [note["id"] for part in told for note in part.notes] == [rule, decision]
    assert "As the model gets it" in owner.get(PAGE).text


def test_a_line_is_forgotten_with_one_button_and_taken_back(owner, remember):
    id_ = remember("Amounts are kept in cents", "decision")
    assert f"/t/default/memory/{id_}/edit" in owner.get(PAGE).text
    sent = {"do": "forget", "id": id_, "back": PAGE}
    page = owner.follow(owner.post("/t/default/memories/change", **sent)).text
    assert "Rules and decisions" not in page
    form = re.search(r'<div class="flash.*?action="([^"]+)">(.*?)</form>', page, re.DOTALL)
    assert form
    fields = {
        name: html.unescape(value)
        for name, value in re.findall(r'name="([^"]+)" value="([^"]*)"', form[2])
        if name != "csrf"
    }
    assert "kept in cents" in owner.follow(owner.post(form[1], **fields)).text


def test_what_the_user_said_is_accepted_here(owner, tenants):
    event = {"hook_event_name": "UserPromptSubmit", "session_id": "s1", "cwd": "/tmp/shop"}
    sent = event | {"prompt": "from now on always use pnpm, never npm, in the frontend"}
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    owner.client.post("/v1/hooks/claude-code", json=sent, headers=HOST | bearer)
    tenants.get("default").notes.write()
    page = owner.get("/t/default/holds").text  # of the newest session's project
    text = sections(page)["Said by the user here, not confirmed as rules"]
    assert "always use pnpm" in text and "Accept Change Forget" in text


def test_further_decisions_and_facts_that_hold_are_listed(owner, remember):
    for number in range(40):
        remember(f"Decision {number}: the {'very ' * 12}long quay {number} is painted", "decision")
    shown = sections(owner.get(PAGE).text)
    [further] = [
        text for heading, text in shown.items() if heading.startswith("Decisions that hold")
    ]
    told = shown["Rules and decisions"]
    numbers = (
        set(re.findall(r"Decision (\d+):", told)),
        set(re.findall(r"Decision (\d+):", further)),
    )
    assert numbers[0] and numbers[1] and not numbers[0] & numbers[1]


def test_a_project_without_memories_is_told_nothing(owner, remember):
    assert "is told nothing" in owner.get("/t/default/holds?project=acme/new").text
    assert owner.get("/t/default/holds?project=../x").status_code == 400


def test_milestones_of_no_chain_are_shown_among_the_goals(owner, remember):
    remember("Version 2 is out", "milestone")
    page = owner.get("/t/default/goals").text
    assert "Version 2 is out" in page and "No milestone" not in page
