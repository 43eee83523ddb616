"""The hook route under hosts that repeat themselves, drop answers, or send nonsense."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from flask.testing import FlaskClient
from hosts_told import (
    PROMPTS,
    RECORDED,
    contexts,
    event_name,
    in_session,
    laced,
    ours,
    renamed,
    schema,
)
from msgspec.structs import replace
from test_app import NOW, TOKEN, post

from serve.app import create_app
from serve.hooks import answer
from serve.hooks.answer import WITHIN_S, Dedupe, DeferredReplies, Hooks
from serve.hosts import HOSTS
from serve.hosts.event import MAX_CONTEXT, HookEvent, Reply, ToolUse
from serve.server.open_tenants import OpenTenants
from store.home import tenant
from store.home.config import Settings
from store.log import commands
from store.log.commands import Draft
from store.log.event_log import EventLog
from store.text import frame


@pytest.fixture(scope="module")
def tenants(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenTenants]:
    """Open a memory with notes on the prompts and tool calls of the recorded sessions."""
    home = tmp_path_factory.mktemp("home")
    log = EventLog(tenant.tenant(home).log, create=True)
    for text in ("the login test fails when the clock is mocked", "use pnpm, never npm"):
        commands.record(log, Draft(content=text, kind="lesson", importance=1.0), NOW)
    log.close()
    opened = OpenTenants(Settings(home))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def client(tenants: OpenTenants) -> FlaskClient:
    return create_app(tenants, TOKEN, lambda: NOW, hook_deadline_s=30.0).test_client()


@pytest.fixture
def hooks(tenants: OpenTenants, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hooks]:
    """Yield hooks that answer every event."""
    said = {moment: lambda call: Reply(f"a note to {call.event.moment}") for moment in MOMENTS}
    monkeypatch.setattr(answer, "_ANSWERS", said)
    made = Hooks(tenants, lambda: NOW, deadline_s=30.0)
    yield made
    made.close()


MOMENTS = "session_start prompt before_tool after_tool stop session_end compacted".split()


def told(hooks: Hooks, host: str, payload: dict[str, Any]) -> str:
    """Return the answer to a host's event, as text."""
    said = hooks.answer(HOSTS[host], payload)
    return json.dumps(said) if said else ""


# Every host's session


@pytest.mark.parametrize("host", RECORDED)
def test_a_recorded_session_is_answered_in_its_hosts_own_schema(hooks: Hooks, host: str):
    answers = 0
    read = [HOSTS[host].read(payload) for payload in RECORDED[host]]
    heard = sum(event is not None and event.is_heard for event in read)
    assert heard >= 2 or host in ("goose", "windsurf")  # these take no notes
    for payload in RECORDED[host]:
        said = hooks.answer(HOSTS[host], payload)
        if said is not None:
            schema(host, event_name(payload)).validate(said)
            answers += 1
    assert answers >= min(2, heard)


@pytest.mark.parametrize("host", PROMPTS)
def test_a_prompts_answer_reaches_the_model_in_the_same_turn(hooks: Hooks, host: str):
    """Hosts that drop the answer to a prompt get it with the next event that they read, if any."""
    payloads = RECORDED[host]
    begun = payloads.index(PROMPTS[host])
    said = [told(hooks, host, payload) for payload in payloads[begun:]]
    events = [HOSTS[host].read(payload) for payload in payloads[begun:]]
    hears = any(event is not None and event.is_heard for event in events)
    assert sum("a note to prompt" in text for text in said) == hears


def test_fifty_turns_in_which_our_own_words_come_back_store_none_of_them(
    client: FlaskClient, tenants: OpenTenants
):
    log, text, answers = tenants.get("default").log, ours("loginHandler knows"), 0
    head = log.head()
    for turn in range(50):
        host = sorted(RECORDED)[turn % len(RECORDED)]
        for payload in RECORDED[host]:
            told = in_session(laced(payload, text), f"turn {turn}")
            answer = post(client, f"/v1/hooks/{host}", told)
            if answer.status_code == 200:
                text, answers = contexts(answer.json)[0], answers + 1
    tenants.get("default").notes.write()
    events = list(log.read(head))
    assert answers >= 50
    assert {"prompted", "action", "recalled", "session"} <= {event.kind for event in events}
    for words in ("loginHandler", "clock is mocked", frame.OPENING, frame.CLOSING):
        assert [event for event in events if words in repr(event)] == []


# Deferred answers


PROMPT = HookEvent("cursor", "prompt", "s1", is_heard=False)
TOOL = HookEvent("cursor", "after_tool", "s1")


def test_what_was_said_where_nobody_listens_is_said_at_the_next_event():
    late = DeferredReplies()
    assert late.release("t", PROMPT, "a") == ""
    assert late.release("t", replace(TOOL, session="s2"), "") == ""
    assert late.release("u", TOOL, "") == ""
    assert late.release("t", TOOL, "b") == "a\nb"
    assert late.release("t", TOOL, "b") == "b"


def test_what_was_never_heard_waits_for_a_later_turn():
    """A memory is shown once in a session: if dropped here, it would never be shown."""
    late = DeferredReplies()
    late.release("t", PROMPT, "a")
    assert late.release("t", replace(PROMPT, moment="stop"), "") == ""
    assert late.release("t", PROMPT, "b") == ""
    assert late.release("t", TOOL, "c") == "a\nb\nc"


@pytest.mark.parametrize("moment", ["compacted", "session_end"])
def test_what_waited_is_gone_with_the_session_or_its_context(moment: Any):
    late = DeferredReplies()
    late.release("t", PROMPT, "a")
    late.release("t", replace(PROMPT, moment=moment), "")
    assert late.release("t", TOOL, "") == ""


def test_what_waited_and_does_not_fit_waits_on():
    late, long = DeferredReplies(), "x" * (MAX_CONTEXT - 1)
    late.release("t", PROMPT, "ab")
    assert late.release("t", TOOL, long) == long
    assert late.release("t", TOOL, "") == "ab"


# Duplicate events


def test_a_prompt_told_through_two_hosts_at_once_is_answered_once(hooks: Hooks):
    """Copilot CLI and VS Code run all the hook files they find, side by side."""
    payload = PROMPTS["copilot"]
    hosts = ["copilot", "vscode", "claude-code", "codex"] * 8
    for turn in range(5):
        asked = payload | {"prompt": f"question {turn}"}
        with ThreadPoolExecutor(8) as threads:
            said = list(threads.map(lambda host, asked=asked: told(hooks, host, asked), hosts))
        assert sum(map(bool, said)) == 1


def test_a_tool_told_by_two_hosts_is_one_action_however_they_name_it():
    deliveries = Dedupe(lambda: 0.0)
    bash = replace(TOOL, host="claude-code", tool=ToolUse("Bash", "run", "make test", id="a"))
    shell = replace(TOOL, tool=ToolUse("Shell", "run", "make test", id="b"))
    assert deliveries.is_first("t", bash)
    assert not deliveries.is_first("t", shell)


def test_a_tool_used_again_is_another_action():
    deliveries = Dedupe(lambda: 0.0)
    for tool in (ToolUse("Bash", "run", "ls", id="a"), ToolUse("Bash", "run", "ls", id="b")):
        assert deliveries.is_first("t", replace(TOOL, tool=tool))
        assert not deliveries.is_first("t", replace(TOOL, tool=tool))
    unnumbered = replace(TOOL, session="s2", tool=ToolUse("Bash", "run", "ls"))
    assert deliveries.is_first("t", unnumbered)
    assert deliveries.is_first("t", unnumbered)


def test_the_same_words_in_another_turn_tenant_or_minute_are_another_prompt():
    at = 0.0
    deliveries = Dedupe(lambda: at)
    event = replace(PROMPT, prompt="go on", turn="1")
    assert deliveries.is_first("t", event)
    assert deliveries.is_first("t", replace(event, turn="2"))
    assert deliveries.is_first("u", event)
    unnumbered = replace(event, session="s2", turn=None)
    assert deliveries.is_first("t", unnumbered)
    at = WITHIN_S
    assert not deliveries.is_first("t", unnumbered)
    at = WITHIN_S + 1
    assert deliveries.is_first("t", unnumbered)


def test_a_turn_that_ends_twice_ended_twice():
    deliveries = Dedupe(lambda: 0.0)
    stop = replace(PROMPT, moment="stop", turn="1")
    assert deliveries.is_first("t", stop)
    assert deliveries.is_first("t", stop)
    assert not deliveries.is_first("t", replace(stop, host="claude-code"))


# Nonsense


NOT_JSON = [b"", b"{", b"[]", b"null", b'"Stop"', b"{'a': 1}", b'{"a": 1} x', b"\xff\xfe{}"]
NOT_JSON += [b'{"a": ' + b"[" * 5_000 + b"]" * 5_000 + b"}", b'{"hook_event_name": "Stop"}']


@pytest.mark.parametrize("host", RECORDED)
@pytest.mark.parametrize("body", NOT_JSON, ids=range(len(NOT_JSON)))
def test_what_is_no_event_of_a_host_is_refused(client: FlaskClient, host: str, body: bytes):
    refused = post(client, f"/v1/hooks/{host}", body)
    assert refused.status_code == 400
    assert refused.json["detail"]


def test_a_host_that_runs_no_hooks_has_no_route(client: FlaskClient):
    refused = post(client, "/v1/hooks/zed", {"hook_event_name": "Stop", "session_id": "s"})
    assert refused.status_code == 404
    assert refused.json["detail"] == "Zed runs no hooks: its MCP server serves it"


@pytest.mark.parametrize("host", PROMPTS)
def test_an_event_we_do_not_know_is_silence(client: FlaskClient, host: str):
    for unknown in ("WorktreeCreate", "Setup", "preCompact", "x" * 200):
        payload = renamed(PROMPTS[host], unknown)
        silent = post(client, f"/v1/hooks/{host}", payload)
        assert (silent.status_code, silent.data) == (204, b"")
