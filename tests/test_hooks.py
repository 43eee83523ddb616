"""Hook events between the hosts' dialects and the answers: allowed senders, deadlines, projects."""

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from test_app import NOW, OURS, TOKEN, post

from serve.app import create_app
from serve.hooks import answer
from serve.hooks.answer import Hooks
from serve.hooks.call import Call
from serve.hosts.event import HookEvent, Reply
from serve.hosts.host import Host
from serve.reader.session_events import SessionEventCache
from serve.server.callers import hook_key
from serve.server.open_tenants import OpenTenants
from store.home import projects, tenant
from store.home.errors import LogBusy
from store.log.event_kinds import Acted, Prompted, Surfaced
from store.log.event_log import EventLog
from store.log.events import Event

PROMPT = {
    "hook_event_name": "UserPromptSubmit",
    "session_id": "s1",
    "cwd": "/nowhere",
    "prompt": "why does the login test fail?",
}
PLAIN = Host(
    "plain",
    lambda payload: HookEvent("plain", "prompt", "s1", **payload),
    lambda event, reply: {"says": reply.context} if reply.context else {},
)


@pytest.fixture
def hooks(tenants: OpenTenants) -> Iterator[Hooks]:
    made = Hooks(tenants, lambda: NOW, deadline_s=30.0)
    yield made
    made.close()


def saying(monkeypatch: pytest.MonkeyPatch, say: Any) -> None:
    """Answer prompts with a function of the test."""
    monkeypatch.setattr(answer, "_ANSWERS", {"prompt": say})


def event(kind: object, session: str = "s1", id_: str = "e1") -> Event:
    return Event(id_, NOW, kind, id_, session=session)


# Allowed senders


def test_a_hook_key_opens_the_hook_route_of_its_host_and_nothing_else(tenants: OpenTenants):
    client = create_app(tenants, TOKEN, lambda: NOW, hook_deadline_s=30.0).test_client()
    with_key = {"Authorization": f"Bearer {hook_key(TOKEN, 'claude-code')}"}
    assert post(client, "/v1/hooks/claude-code", PROMPT, **with_key).status_code == 204
    for path in ("/v1/hooks/codex", "/v1/recall", "/v1/memories", "/v1/hooks/x/claude-code"):
        assert post(client, path, PROMPT, **with_key).status_code == 401, path
    assert client.get("/v1/overview?topic=x", headers=OURS | with_key).status_code == 401


def test_a_hook_key_opens_one_tenant_and_no_other(tenants: OpenTenants):
    EventLog(tenant.tenant(tenants.settings.home, "acme").log, create=True).close()
    client = create_app(tenants, TOKEN, lambda: NOW, hook_deadline_s=30.0).test_client()
    keys = {None: hook_key(TOKEN, "claude-code"), "acme": hook_key(TOKEN, "claude-code", "acme")}
    for name, key in keys.items():
        for asked in (None, "acme", "other"):
            path = "/v1/hooks/claude-code" + (f"?tenant={asked}" if asked else "")
            told = post(client, path, PROMPT, Authorization=f"Bearer {key}")
            assert told.status_code == (204 if asked == name else 401), (name, asked)


def test_a_new_token_ends_the_hook_keys_of_the_old(tenants: OpenTenants):
    client = create_app(tenants, "another", lambda: NOW, hook_deadline_s=30.0).test_client()
    with_key = {"Authorization": f"Bearer {hook_key(TOKEN, 'claude-code')}"}
    assert post(client, "/v1/hooks/claude-code", PROMPT, **with_key).status_code == 401


def test_an_unknown_host_lists_the_known_ones(tenants: OpenTenants):
    client = create_app(tenants, TOKEN, lambda: NOW, hook_deadline_s=30.0).test_client()
    refused = post(client, "/v1/hooks/emacs", PROMPT)
    assert refused.status_code == 404
    assert "claude-code" in refused.json["detail"]


# Deadlines


def test_an_answer_after_the_deadline_is_dropped(tenants: OpenTenants, monkeypatch, caplog):
    saying(monkeypatch, lambda call: time.sleep(0.3) or Reply("late"))
    hooks = Hooks(tenants, lambda: NOW, deadline_s=0.05)
    assert hooks.answer(PLAIN, {"prompt": "a"}) is None
    assert "not answered within" in caplog.text
    hooks.close()


@pytest.mark.parametrize("failure", [LogBusy("the log is locked"), ZeroDivisionError("ours")])
def test_a_failing_hook_answers_nothing_and_is_logged(
    hooks: Hooks, monkeypatch, caplog, failure: Exception
):
    def fail(call: Call) -> Reply:
        raise failure

    saying(monkeypatch, fail)
    assert hooks.answer(PLAIN, {"prompt": "a"}) is None
    assert str(failure) in caplog.text


def test_the_same_prompt_told_twice_is_answered_once(hooks: Hooks, monkeypatch):
    saying(monkeypatch, lambda call: Reply("once"))
    assert hooks.answer(PLAIN, {"prompt": "a"}) == {"says": "once"}
    assert hooks.answer(PLAIN, {"prompt": "a"}) is None
    assert hooks.answer(PLAIN, {"prompt": "b"}) == {"says": "once"}


# Projects


def test_the_project_comes_from_the_working_directory(hooks: Hooks, monkeypatch, tmp_path: Path):
    repository = tmp_path / "work"
    subprocess.run(["git", "init", "-q", str(repository)], check=True)
    remote = "git@github.com:acme/shop.git"
    subprocess.run(["git", "-C", repository, "remote", "add", "origin", remote], check=True)
    saying(monkeypatch, lambda call: Reply(call.project or "none"))
    inside = hooks.answer(PLAIN, {"prompt": "a", "cwd": str(repository)})
    assert inside == {"says": "github.com/acme/shop"}
    assert hooks.answer(PLAIN, {"prompt": "b", "cwd": str(tmp_path)}) == {"says": "none"}
    assert hooks.answer(PLAIN, {"prompt": "c"}) == {"says": "none"}


def test_outside_a_repository_no_projects_memory_comes_back(tenants: OpenTenants):
    from serve.reader.filters import Filter
    from store.log import commands
    from store.log.commands import Draft

    opened = tenants.get("default")
    for id_, project in (("mine", "acme/shop"), ("anybodys", None)):
        commands.record(opened.log, Draft(id=id_, content="a note", project=project), NOW)
    with opened.reader.view() as view:
        conditions = Filter(NOW, "")
        slots = view.masks.of(conditions).nonzero()[0].tolist()
        assert [memory.id for memory in view.tail.take(slots)] == ["anybodys"]
        assert [memory.id for memory in view.tail.current() if conditions.accepts(memory)] == [
            "anybodys"
        ]


def test_hooks_follow_the_settings_of_their_project(
    hooks: Hooks, home: Path, monkeypatch, tmp_path: Path
):
    repository = tmp_path / "work"
    subprocess.run(["git", "init", "-q", str(repository)], check=True)
    (repository / ".mnemolog.toml").write_text('project = "acme/mono"\ntop_k = 3\n')
    projects.allow_name(home, repository, "acme/mono")
    saying(monkeypatch, lambda call: Reply(f"{call.project} {call.choices.top_k}"))
    assert hooks.answer(PLAIN, {"prompt": "a", "cwd": str(repository)}) == {"says": "acme/mono 3"}


def test_a_project_file_that_cannot_be_used_is_silence(hooks: Hooks, monkeypatch, tmp_path):
    repository = tmp_path / "work"
    subprocess.run(["git", "init", "-q", str(repository)], check=True)
    (repository / ".mnemolog.toml").write_text('tenant = "boss"\n')
    saying(monkeypatch, lambda call: Reply(str(call.choices.top_k)))
    assert hooks.answer(PLAIN, {"prompt": "a", "cwd": str(repository)}) is None


# The acts of a session


def test_a_journal_follows_the_log_and_keeps_sessions_apart(tenants: OpenTenants):
    log = tenants.get("default").log
    journals = SessionEventCache(log)
    log.append([event(Prompted(prompt="a"), id_="p1"), event(Acted(tool="Bash"), "s2", "x")])
    assert [event.id for event in journals.of("s1").events] == ["p1"]
    log.append([event(Acted(tool="Edit"), id_="a1"), event(Prompted(prompt="b"), id_="p2")])
    shown = replace(event(Surfaced(place="tool"), id_="l1"), subject="lesson")
    log.append([shown])
    journal = journals.of("s1")
    assert [event.id for event in journal.events] == ["p1", "a1", "p2", "l1"]
    assert [event.id for event in journal.turn] == ["p2", "l1"]
    assert journal.lesson_ids == {"lesson"}


def test_what_waits_to_be_written_is_part_of_the_journal(tenants: OpenTenants):
    opened = tenants.get("default")
    hook_event = HookEvent("plain", "prompt", "s1")
    call = Call(hook_event, opened, tenants.settings.choices, "", NOW)
    call.write_later(call.new_event(Prompted(prompt="a")))
    assert [type(event.body) for event in call.journal.events] == [Prompted]
    assert len(opened.receipts) == 1  # without waiting for a disk


def test_what_is_written_while_one_looks_is_in_the_journal_once(tenants: OpenTenants):
    opened = tenants.get("default")
    hook_event = HookEvent("plain", "prompt", "s1")
    call = Call(hook_event, opened, tenants.settings.choices, "", NOW)
    call.write(event := call.new_event(Prompted(prompt="a")))
    opened.notes.add(event)
    assert [other.id for other in call.journal.events] == [event.id]
