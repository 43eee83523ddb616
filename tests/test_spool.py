"""Events that no server took: kept redacted and complete, recorded once, oldest first."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from background import end, mnemolog, said, until

from serve.app import create_app
from serve.hooks.answer import Hooks
from serve.hooks.endpoint import DELIVERY_HEADER, KEPT_HEADER
from serve.hooks.intake import WAITING_US
from serve.hosts import HOSTS
from serve.hosts.event import SILENCE
from serve.server.open_tenants import OpenTenants
from store.home import pauses, spool, spooling
from store.home.config import Settings
from store.home.errors import LogFull
from store.home.registry import live_server
from store.home.tenant import tenant
from store.log.commands import Draft, record
from store.log.event_kinds import Prompted, SessionTold
from store.log.event_log import EventLog
from store.log.events import Event

NOW = 1_795_000_000_000_000
CLAUDE = HOSTS["claude-code"]
SECRET = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"
posix = pytest.mark.skipif(os.name != "posix", reason="modes, and processes that fork")


def payload(prompt: str, name: str = "UserPromptSubmit", **more: object) -> dict[str, object]:
    return {"session_id": "s1", "cwd": "/", "hook_event_name": name, "prompt": prompt} | more


def delivery(number: int) -> str:
    return f"{NOW + number * 1_000_000:020d}-{number:032x}"


def keep(home: Path, number: int, sent: dict[str, object], tenant: str = "") -> bool:
    event = json.dumps(sent).encode()
    return spooling.keep(str(home), "claude-code", tenant, event, delivery(number))


@pytest.fixture
def hooks(home: Path) -> Iterator[Hooks]:
    EventLog(tenant(home).log, create=True).close()
    tenants = OpenTenants(Settings(home))
    hooks_ = Hooks(tenants, lambda: NOW + 100_000_000, deadline_s=30.0)
    yield hooks_
    hooks_.close()
    tenants.close()


def events(home: Path) -> list[Event]:
    with EventLog(tenant(home).log) as log:
        return list(log.read())


def prompts(home: Path) -> list[str]:
    return [event.body.prompt or "" for event in events(home) if isinstance(event.body, Prompted)]


def test_spooled_prompts_are_recorded_in_order_with_their_time(home: Path, hooks: Hooks):
    for number in (2, 1, 3):
        assert keep(home, number, payload(f"prompt {number}"))
    assert hooks.take_in_spool() == 3
    assert prompts(home) == ["prompt 1", "prompt 2", "prompt 3"]
    assert [event.at for event in events(home)] == [NOW + n * 1_000_000 for n in (1, 2, 3)]
    assert spool.entries(home) == [] and hooks.take_in_spool() == 0


def test_a_delivery_that_the_server_took_is_not_recorded_again(home: Path, hooks: Hooks):
    sent = payload("where do the tides go?")
    parsed = spool.parse_delivery(delivery(1))
    assert hooks.deliver(CLAUDE, sent, delivery=parsed)[1]
    keep(home, 1, sent)
    hooks.take_in_spool()
    assert prompts(home) == ["where do the tides go?"]


def test_a_delivery_that_was_taken_in_is_not_recorded_by_a_late_request(home: Path, hooks: Hooks):
    sent = payload("where do the tides go?")
    keep(home, 1, sent)
    hooks.take_in_spool()
    assert hooks.deliver(CLAUDE, sent, delivery=spool.parse_delivery(delivery(1)))[1]
    assert prompts(home) == ["where do the tides go?"]


@pytest.mark.parametrize("name", ["UserPromptSubmit", "SessionStart"])
def test_an_event_whose_client_still_waits_is_left_to_be_answered(home: Path, name: str):
    with EventLog(tenant(home).log, create=True) as log:
        record(log, Draft(content="the tides go to the bay of Fundy"), NOW - 1)
        record(log, Draft(content="pin the tide table", pinned=True, kind="lesson"), NOW - 1)
    at = [NOW + 1_000_000]
    tenants = OpenTenants(Settings(home))
    hooks = Hooks(tenants, lambda: at[0], deadline_s=30.0)
    sent = payload("where do the tides go?", name, source="startup")
    keep(home, 1, sent)
    assert hooks.take_in_spool() == 0
    hooks.deliver(CLAUDE, payload("of another session", session_id="s2"))
    answer, is_kept = hooks.deliver(CLAUDE, sent, delivery=spool.parse_delivery(delivery(1)))
    assert "tide" in json.dumps(answer) and is_kept
    at[0] += WAITING_US
    assert hooks.take_in_spool() == 0 and spool.entries(home) == []
    keep(home, 2, payload("a client that was killed", name))
    assert hooks.take_in_spool() == 0
    at[0] += WAITING_US
    assert hooks.take_in_spool() == 1
    hooks.close()
    tenants.close()


def test_a_lost_start_of_a_session_comes_before_the_end_of_its_turn(home: Path):
    EventLog(tenant(home).log, create=True).close()
    tenants = OpenTenants(Settings(home))
    hooks = Hooks(tenants, lambda: NOW + 2_000_000, deadline_s=30.0)
    keep(home, 1, payload("", "SessionStart", source="startup"))
    hooks.deliver(CLAUDE, payload("", "Stop", last_assistant_message="the pump"))
    stages = [event.body.stage for event in events(home) if isinstance(event.body, SessionTold)]
    assert stages[0] == "started"
    hooks.close()
    tenants.close()


def test_a_crash_between_log_and_spool_records_nothing_twice(home: Path, hooks: Hooks):
    for _ in range(2):
        keep(home, 1, payload("once"))
        hooks.take_in_spool()
    assert prompts(home) == ["once"]


def test_a_spooled_prompt_comes_before_the_live_end_of_its_turn(home: Path, hooks: Hooks):
    keep(home, 1, payload("what broke?"))
    hooks.deliver(CLAUDE, payload("", "Stop", last_assistant_message="the pump"))
    kinds = [type(event.body) for event in events(home)]
    assert kinds.index(Prompted) < kinds.index(SessionTold)


def test_a_kept_answer_is_on_the_disk(home: Path, hooks: Hooks):
    parsed = spool.parse_delivery(delivery(1))
    assert hooks.deliver(CLAUDE, payload("is it written?"), delivery=parsed)[1]
    assert prompts(home) == ["is it written?"]  # over another connection


def test_what_cannot_be_written_is_not_confirmed_and_waits_in_the_spool(
    home: Path, hooks: Hooks, monkeypatch: pytest.MonkeyPatch
):
    def refuse(*rows: object) -> None:
        raise LogFull("no space left")

    parsed = spool.parse_delivery(delivery(1))
    with monkeypatch.context() as full:
        full.setattr(EventLog, "append", refuse)
        assert not hooks.deliver(CLAUDE, payload("is it written?"), delivery=parsed)[1]
        keep(home, 1, payload("is it written?"))
        keep(home, 2, payload("and this?"))
        assert hooks.take_in_spool() == 0
        assert len(spool.entries(home)) == 2
    hooks.take_in_spool()
    assert prompts(home) == ["is it written?", "and this?"]
    assert spool.entries(home) == []


def test_a_handler_that_fails_is_not_confirmed(hooks: Hooks, monkeypatch: pytest.MonkeyPatch):
    parsed = spool.parse_delivery(delivery(1))
    monkeypatch.setattr("serve.hooks.answer._ANSWERS", {"prompt": lambda call: 1 // 0})
    assert not hooks.deliver(CLAUDE, payload("fails"), delivery=parsed)[1]
    monkeypatch.setattr("serve.hooks.answer._ANSWERS", {"prompt": lambda call: SILENCE})
    assert hooks.deliver(CLAUDE, payload("is idle"), delivery=parsed)[1]


def test_what_was_paused_when_it_happened_is_dropped(home: Path, hooks: Hooks):
    pauses.pause(home, "session", "s1", NOW, NOW + 1_500_000)
    keep(home, 1, payload("while paused"))
    keep(home, 2, payload("after it"))
    hooks.take_in_spool()
    assert prompts(home) == ["after it"] and spool.entries(home) == []


def test_no_secret_reaches_the_spool(home: Path):
    keep(home, 1, payload(f"use {SECRET} here", tool_input={"password": "hunter2-and-more"}))
    [(path, _)] = spool.entries(home)
    assert SECRET not in path.read_text() and "hunter2" not in path.read_text()
    assert "use [redacted" in path.read_text()


@posix
def test_the_spool_is_its_owners_alone(home: Path):
    keep(home, 1, payload("private"))
    [(path, _)] = spool.entries(home)
    modes = [other.stat().st_mode & 0o077 for other in (home, path.parent, path)]
    assert modes == [0, 0, 0]


@pytest.mark.parametrize(
    "sent", [b"{", b"[]", b"null", b"\xff", b"[" * 100_000, b'{"hook_event_name": "PreToolUse"}']
)
def test_what_records_nothing_is_not_kept(home: Path, sent: bytes):
    assert not spooling.keep(str(home), "claude-code", "", sent, delivery(1))
    assert not home.exists()


def test_what_no_host_sent_is_dropped_and_holds_up_nothing(home: Path, hooks: Hooks):
    keep(home, 1, {"hook_event_name": "UserPromptSubmit"})
    keep(home, 3, payload("sound"))
    (spool.folder_of(home) / f"{delivery(2)}.json").write_bytes(b"{")
    (spool.folder_of(home) / "notes.txt").write_text("not ours")
    assert hooks.take_in_spool() == 1
    assert prompts(home) == ["sound"] and spool.entries(home) == []


def test_an_event_of_a_missing_tenant_waits_for_it(home: Path, hooks: Hooks):
    keep(home, 1, payload("for work"), "work")
    keep(home, 2, payload("for all"))
    assert hooks.take_in_spool() == 1
    assert [entry.id for _, entry in spool.entries(home)] == [f"{1:032x}"]


def test_a_full_spool_counts_what_it_drops_and_doctor_reports_it(
    home: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(spooling, "MOST_FILES", 2)
    assert [keep(home, number, payload("p")) for number in range(4)] == [True, True, False, False]
    assert (spool.backlog(home).events, spool.backlog(home).dropped) == (2, 2)
    mnemolog("init")
    reported = mnemolog("doctor").stdout
    assert "2 hook events since" in reported and "2 hook events found no room" in reported
    assert said("status")["spool"]["events"] == 2
    assert "2 hook events" in mnemolog("status").stdout


def test_the_route_confirms_only_what_is_on_the_disk(home: Path):
    EventLog(tenant(home).log, create=True).close()
    tenants = OpenTenants(Settings(home))
    client = create_app(tenants, "owner", lambda: NOW, hook_deadline_s=30.0).test_client()
    headers = {"Authorization": "Bearer owner", "Host": "127.0.0.1"}
    answer = client.post(
        "/v1/hooks/claude-code",
        json=payload("hello there"),
        headers=headers | {DELIVERY_HEADER: delivery(1)},
    )
    assert answer.headers[KEPT_HEADER] == "1"
    refused = client.post("/v1/hooks/claude-code", json={}, headers=headers)
    assert KEPT_HEADER not in refused.headers
    tenants.close()


@pytest.mark.parametrize("text", ["", "1-2", f"{1:020d}-{'g' * 32}", f"{'9' * 20}-{'a' * 32}"])
def test_what_names_no_delivery_is_none(text: str):
    assert spool.parse_delivery(text) is None


def test_connect_makes_the_memory_of_the_first_prompt(home: Path, tmp_path: Path):
    completed = mnemolog("connect", "claude-code", "--yes", HOME=str(tmp_path))
    assert completed.returncode == 0, completed.stderr
    assert tenant(home).exists


def test_the_first_prompt_of_a_fresh_install_is_recorded(home: Path):
    from test_client import event, run

    try:
        assert run(event(prompt="the very first prompt")) == b""
        until(lambda: live_server(Settings(home)))  # may come before the spooled event
        until(lambda: prompts(home) == ["the very first prompt"])
    finally:
        end(home)
