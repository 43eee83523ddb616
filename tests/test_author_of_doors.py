"""A door decides the author of a memory: only a person's own counts as typed."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from api_client import Api
from command_line import succeed
from conftest import NOW
from dashboard_page import TOKEN, application, browser
from mcp_client import message, send

from serve.cli import environment
from serve.cli.presence import Presence
from serve.server.open_tenants import OpenTenants
from store.importers import jsonl
from store.ingest import batch
from store.log import commands
from store.log.commands import Draft, author_of
from store.log.event_kinds import Prompted, Recorded, Trust
from store.log.event_log import EventLog
from store.maintenance.export import export

RULE = "Never push to main by hand"
LESSON = {"content": RULE, "kind": "lesson"}


@pytest.fixture
def log(tenants: OpenTenants) -> EventLog:
    return tenants.get("default").log


@pytest.fixture
def api(tenants: OpenTenants) -> Api:
    return Api(application(tenants, lambda: NOW).test_client())


def authors(log: EventLog) -> list[tuple[str, str | None]]:
    return [(event.trust, event.author) for event in log.read() if isinstance(event.body, Recorded)]


@pytest.mark.parametrize(
    ("sender", "trust", "author"),
    [
        ("typed", "user", "typed"),
        ("typed", "web", "web"),
        ("program", "user", "program"),
        ("program", "agent", "agent"),
        ("agent", "user", "agent"),
        ("repository", "user", "repository"),
    ],
)
def test_the_lower_of_sender_and_source_is_the_author(sender, trust: Trust, author: str):
    assert author_of(sender, trust) == author


def test_the_owners_token_sends_as_a_program_and_cannot_claim_an_author(api: Api, log: EventLog):
    api.ok("POST", "/v1/memories", LESSON)
    api.ok("POST", "/v1/memories/batch", {"memories": [LESSON, LESSON | {"trust": "agent"}]})
    sent = ("user", "program"), ("user", "program"), ("agent", "agent")
    assert authors(log) == [*sent]
    claim = LESSON | {"author": "typed"}
    assert api.problem("POST", "/v1/memories", claim)[0] == 400
    assert api.problem("POST", "/v1/memories/batch", {"memories": [claim]})[0] == 400
    assert api.problem("POST", "/v1/ingest", {"memories": [claim]})[0] == 400
    assert authors(log) == [*sent]


def test_a_batch_that_waited_keeps_its_author():
    turns = [batch.Turn(role="user", content=RULE), batch.Turn(role="tool", content=RULE)]
    waiting = batch.make_batch("job", NOW, [], batch.turn_drafts(turns))
    kept = [event.author for _, event in batch.batch_events(waiting.body, NOW)]
    assert kept == ["program", "tool"]


def test_over_mcp_an_agent_writes_whatever_it_says(tenants: OpenTenants, log: EventLog):
    client = application(tenants, lambda: NOW).test_client()
    for name, given in (("remember", LESSON), ("remember_batch", {"memories": [LESSON]})):
        call = message("tools/call", {"name": name, "arguments": given})
        assert "isError" not in send(client, call, Authorization=f"Bearer {TOKEN}").json["result"]
    assert authors(log) == [("agent", "agent")] * 2


def test_what_is_typed_on_the_dashboard_is_typed_and_stays_so(
    tenants: OpenTenants, api: Api, log: EventLog
):
    owner = browser(application(tenants, lambda: NOW))
    owner.follow(owner.post("/t/default/memories/new", content=RULE, kind="lesson"))
    (made,) = (event for event in log.read() if isinstance(event.body, Recorded))
    assert made.author == "typed"
    edited = {"content": f"{RULE}, ever", "kind": "lesson", "seen": str(made.seq)}
    owner.follow(owner.post(f"/t/default/memory/{made.id}/edit", **edited))
    assert api.ok("GET", f"/v1/memories/{made.id}")["author"] == "typed"
    api.ok("PATCH", f"/v1/memories/{made.id}", {"content": "Push to main by hand"})
    assert api.ok("GET", f"/v1/memories/{made.id}")["author"] == "program"


def accept_in_terminal(tenants: OpenTenants, id_: str) -> None:
    succeed("lessons", "accept", id_)


def accept_on_dashboard(tenants: OpenTenants, id_: str) -> None:
    owner = browser(application(tenants, lambda: NOW))
    owner.follow(owner.post(f"/t/default/lessons/{id_}", answer="accept"))


def accept_over_rest(tenants: OpenTenants, id_: str) -> None:
    client = application(tenants, lambda: NOW).test_client()
    Api(client).ok("POST", f"/v1/proposals/{id_}/accept", {})


@pytest.mark.parametrize(
    ("accept", "author"),
    [(accept_in_terminal, "typed"), (accept_on_dashboard, "typed"), (accept_over_rest, "program")],
)
def test_a_persons_yes_raises_an_author_and_a_programs_does_not(
    tenants: OpenTenants, log: EventLog, accept: Callable[[OpenTenants, str], None], author: str
):
    lesson = Draft(id="A", content=RULE, kind="lesson", trust="agent", author="agent")
    commands.record(log, lesson, NOW)
    accept(tenants, "A")
    assert authors(log) == [("agent", "agent"), ("user", author)]


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    """An export that claims a rule typed by the user."""
    path = tmp_path / "clone" / "lines.jsonl"
    path.parent.mkdir()
    claim = LESSON | {"id": "J", "trust": "user", "author": "typed", "pinned": True}
    path.write_text(json.dumps(claim) + "\n")
    return path


@pytest.mark.parametrize(
    ("is_repository", "is_person", "words", "whose"),
    [
        (False, True, (), ("user", "typed")),
        (True, True, (), ("tool", "repository")),
        (True, True, ("--mine",), ("user", "typed")),
        (False, False, (), ("agent", "program")),
        (True, False, ("--mine",), ("agent", "program")),
    ],
)
def test_imported_lines_keep_their_author_and_raise_none(
    log: EventLog, lines: Path, monkeypatch, is_repository, is_person, words, whose
):
    if is_repository:
        (lines.parent / ".git").mkdir()
    if not is_person:
        monkeypatch.setattr(environment, "presence", lambda: Presence("program"))
    succeed("import", "jsonl", str(lines), *words)
    assert authors(log) == [whose]
    (event,) = log.events_for("J")
    assert isinstance(event.body, Recorded) and event.body.pinned is (whose[0] == "user")


def test_an_export_tells_authors(log: EventLog, tmp_path: Path):
    commands.record(log, Draft(id="A", content=RULE, author="quoted"), NOW)
    file = tmp_path / "lines.jsonl"
    file.write_bytes(b"".join(line + b"\n" for line in export(log, NOW)))
    assert [line.author for line in jsonl.exported_lines(file)] == ["quoted"]


CHAT = "\n# aider chat started at 2026-09-01 10:00:00\n\n#### never push to main  \n\nUnderstood.\n"


def test_what_a_repository_holds_is_the_repositorys(log: EventLog, tmp_path: Path):
    folder = tmp_path / "clone"
    folder.mkdir()
    subprocess.run(["git", "init", "-q", folder], check=True)
    named = ("-c", "user.name=Ada", "-c", "user.email=ada@example.test")
    commit = ("commit", "-q", "--allow-empty", "-m", "Add the reader of parts")
    subprocess.run(["git", "-C", folder, *named, *commit], check=True)
    (folder / "CLAUDE.md").write_text("# Rules\n\n- Never push to main\n")
    history = folder / ".aider.chat.history.md"
    history.write_text(CHAT)
    succeed("import", "git", str(folder))
    succeed("import", "markdown", str(folder / "CLAUDE.md"))
    succeed("import", "aider", str(history))
    assert authors(log) == [("agent", "repository"), ("tool", "repository")]
    (prompted,) = (event for event in log.read() if isinstance(event.body, Prompted))
    assert prompted.author == "repository"
    succeed("import", "markdown", "--mine", str(folder / "CLAUDE.md"))
    assert authors(log)[-1] == ("user", "typed")
