"""The tools, resources and prompt offered over MCP, as a model's host calls them."""

import json
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from flask.testing import FlaskClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcp_client import TOKEN, legacy, message, send
from new_tenants import new_tenants

from serve.app import create_app
from serve.formatting import parse_time
from serve.server.open_tenants import OpenTenants
from store.log import commands
from store.log.commands import Draft
from store.log.event_kinds import Prompted, Rated, Recalled, Recorded, SessionTold
from store.log.event_log import EventLog
from store.log.events import Event
from store.text import frame
from store.text.frame import CLOSING, OPENING

NOW = 1_800_000_000_000_000
RULE = "Use pnpm here, never npm"
SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


@pytest.fixture
def tenants(tmp_path: Path) -> Iterator[OpenTenants]:
    with new_tenants(tmp_path, "default", "work") as opened:
        yield opened


@pytest.fixture
def log(tenants: OpenTenants) -> EventLog:
    return tenants.get("default").log


@pytest.fixture
def client(tenants: OpenTenants) -> FlaskClient:
    return create_app(tenants, TOKEN, lambda: NOW, hook_deadline_s=30.0).test_client()


def called(client: FlaskClient, name: str, headers: dict[str, str] | None = None, **arguments: Any):
    """Return the whole result of a tool."""
    body = message("tools/call", {"name": name, "arguments": arguments})
    return send(client, body, **(headers or {})).json["result"]


def call_tool(
    client: FlaskClient, name: str, headers: dict[str, str] | None = None, **arguments: Any
):
    """Return the structured result of a tool call that succeeds."""
    result = called(client, name, headers, **arguments)
    assert not result.get("isError"), result
    return result["structuredContent"]


def refused(client: FlaskClient, name: str, **arguments: Any) -> str:
    result = called(client, name, **arguments)
    assert result["isError"] is True
    return result["content"][0]["text"]


def remember(client: FlaskClient, content: str, **fields: Any) -> str:
    return call_tool(client, "remember", content=content, **fields)["id"]


def listed(client: FlaskClient) -> dict[str, dict]:
    tools = legacy(client, "tools/list").json["result"]["tools"]
    return {tool["name"]: tool for tool in tools}


# The list of tools


def test_episodes_are_recalled_by_kind(client: FlaskClient):
    kinds = listed(client)["recall"]["inputSchema"]["properties"]["kinds"]
    assert "episode" in kinds["items"]["enum"]
    assert not called(client, "recall", query="deploys", kinds=["episode"]).get("isError")


def characters(tools: Iterable[dict]) -> int:
    """Return the number of characters of the tool definitions that a host gives its model."""
    fields = ("name", "description", "inputSchema")
    listed = [{name: tool[name] for name in fields} for tool in tools]
    return sum(len(json.dumps(tool, separators=(",", ":"))) for tool in listed)


def test_two_tools_are_loaded_and_all_cost_less_than_the_first_ten_did(client: FlaskClient):
    tools = listed(client)
    loaded = [
        tool for tool in tools.values() if tool.get("_meta") == {"anthropic/alwaysLoad": True}
    ]
    assert [tool["name"] for tool in loaded] == ["recall", "remember"]
    assert {"why", "history", "timeline", "link"} <= tools.keys()
    assert characters(loaded) < 2_321
    assert characters(tools.values()) < 7_275


def test_a_parameter_that_a_loaded_tool_describes_is_only_named_in_the_others(client: FlaskClient):
    fields = {name: tool["inputSchema"]["properties"] for name, tool in listed(client).items()}
    assert "decision" in fields["recall"]["kinds"]["items"]["enum"]
    assert fields["recent"]["kinds"] == {"type": "array", "items": {"type": "string"}}
    assert "description" in fields["recall"]["project"]
    assert all(fields[name]["project"] == {"type": "string"} for name in ("recent", "timeline"))
    text = refused(client, "recent", kinds=["poem"])
    assert "decision" in text and "kinds (one of" in text


def test_each_tool_has_a_title_hints_and_schemas(client: FlaskClient):
    tools = listed(client)
    for tool in tools.values():
        assert tool["title"] and len(tool["description"]) < 2_048
        assert tool["inputSchema"]["type"] == tool["outputSchema"]["type"] == "object"
        assert tool["annotations"]["openWorldHint"] is False
        assert tool["annotations"]["title"] == tool["title"]


def test_only_forget_is_destructive_and_reading_tools_are_read_only(client):
    tools = listed(client)
    hints = {name: tool["annotations"] for name, tool in tools.items()}
    assert [name for name in tools if hints[name]["destructiveHint"]] == ["forget"]
    reads = {name for name in tools if hints[name]["readOnlyHint"]}
    assert reads == {
        *("recall", "get_memory", "history", "why"),
        *("recent", "timeline", "project_overview"),
    }


def test_schemas_refer_to_nothing_outside_and_say_no_more_than_json_schema(client: FlaskClient):
    for tool in listed(client).values():
        text = json.dumps(tool["inputSchema"])
        for word in ("$ref", "$defs", "null", "\\\\A", "default"):
            assert word not in text, (tool["name"], word)


def test_aliases_are_taken_and_not_advertised(client: FlaskClient):
    names = {
        name: tool["inputSchema"]["properties"].keys() for name, tool in listed(client).items()
    }
    moments = {"as_of", "known_at"}
    assert names["recall"] == {"query", "limit", "project", "kinds", "since", "until", *moments}
    assert names["forget"] == {"id", "reason"}


# Arguments


@pytest.mark.parametrize("name", ["query", "q", "search", "text", "question"])
def test_the_names_models_guess_for_a_question_are_taken(client: FlaskClient, name: str):
    id_ = remember(client, RULE, kind="preference")
    memories = call_tool(client, "recall", **{name: "which package manager, npm?"})["memories"]
    assert [memory["id"] for memory in memories] == [id_]


@pytest.mark.parametrize("name", ["content", "text", "fact", "memory", "note"])
def test_the_names_models_guess_for_a_memory_are_taken(client: FlaskClient, name: str):
    id_ = call_tool(client, "remember", **{name: RULE, "type": "lesson", "tag": "npm"})["id"]
    memory = call_tool(client, "get_memory", memory_id=id_)["memories"][0]
    assert (memory["text"], memory["kind"], memory["tags"]) == (RULE, "lesson", ["npm"])


@pytest.mark.parametrize("name", ["limit", "top_k", "k", "page_size", "n"])
def test_a_limit_may_come_as_text_and_under_another_name(client: FlaskClient, name: str):
    call_tool(
        client, "remember_batch", memories=[f"the port of service {n} is open" for n in "abc"]
    )
    assert len(call_tool(client, "recent", **{name: "2"})["memories"]) == 2


def test_null_arguments_count_as_missing(client: FlaskClient):
    id_ = remember(client, RULE, project=None, tags=None)
    assert call_tool(client, "recall", query="pnpm", limit=None)["memories"][0]["id"] == id_


def test_an_unknown_parameter_is_named_with_the_right_ones(client: FlaskClient):
    text = refused(client, "recall", query="x", depth=3)
    assert "'depth'" in text and "query, limit, project" in text


@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        ("recall", {}, "missing required field `query`"),
        ("recall", {"query": 5}, "$.query"),
        ("recall", {"query": "x", "q": "y"}, "'query' was given twice"),
        ("recall", {"query": "x", "limit": 1_000}, "$.limit"),
        ("recall", {"query": "x", "since": "soon"}, "write 2026-11-20, or 7d"),
        ("recall", {"query": "x", "project": "../../etc"}, "no project's name"),
        ("recall", {"query": "x", "as_of": "tuesday"}, "'tuesday' is no moment"),
        ("why", {"query": "x"}, "missing required field `id`"),
        ("why", {"query": "x", "id": "nobody"}, "no memory 'nobody'"),
        ("history", {"id": "nobody"}, "nor is it a key here"),
        ("link", {"id": "nobody", "target": "x", "relation": "cause"}, "no memory 'nobody'"),
        ("link", {"id": "a", "target": "b", "relation": "uncle"}, "cause conflict derived support"),
        ("remember", {"content": "x", "kind": "poem"}, "$.kind"),
        ("remember", {"content": "todo"}, "placeholder"),
        ("remember", {"content": "a long text", "value": "eu"}, "needs a `key`"),
        ("remember_batch", {"memories": []}, "$.memories"),
        ("remember_batch", {"memories": [RULE, {"content": "ok"}]}, "memories[1]"),
        ("get_memory", {"id": "nobody"}, "no memory 'nobody'"),
        ("update_memory", {"id": "nobody", "content": "x"}, "no memory 'nobody'"),
        ("forget", {"id": "nobody"}, "no memory 'nobody'"),
        ("feedback", {"id": "nobody", "verdict": "meh"}, "one of helped not_helped wrong"),
        ("goals", {"action": "add"}, "`content` is missing"),
        ("goals", {"action": "update"}, "`id` is missing"),
        ("goals", {"action": "milestone", "content": "half of it is done"}, "`chain` is missing"),
    ],
)
def test_tool_errors_say_what_is_wrong(client, tool, arguments, words: str):
    assert words in refused(client, tool, **arguments)


def test_a_tenant_that_was_never_made_is_named(client: FlaskClient):
    result = called(client, "recent", {"X_Mnemolog_Tenant": "nobody"})
    assert result["isError"] and "no tenant 'nobody'" in result["content"][0]["text"]


# Writing


def test_memories_of_an_agent_have_trust_agent(client: FlaskClient, log: EventLog):
    call = {"name": "remember", "arguments": {"content": RULE}, "_meta": {"threadId": "t1"}}
    send(client, message("tools/call", call), User_Agent="codex-mcp-client/0.169.0")
    event = next(log.read())
    assert (event.trust, event.agent, event.session) == ("agent", "codex-mcp-client", "t1")


def test_the_same_id_and_text_again_is_no_second_memory(client: FlaskClient, log: EventLog):
    first = call_tool(client, "remember", content=RULE, id="mine")
    again = call_tool(client, "remember", content=RULE, id="mine")
    assert (first["new"], again["new"], log.head()) == (True, False, 1)
    assert "already used" in refused(client, "remember", content="something else", id="mine")


def test_a_secret_is_taken_out_and_the_agent_is_told(client: FlaskClient):
    result = call_tool(client, "remember", content=f"the token is {SECRET} for the mirror")
    assert "secret" in result["said"]
    text = call_tool(client, "get_memory", id=result["id"])["memories"][0]["text"]
    assert SECRET not in text


def test_all_of_a_batch_is_remembered_or_none(client: FlaskClient, log: EventLog):
    refused(client, "remember_batch", memories=["the build needs make", "..."])
    assert log.head() == 0
    batch = call_tool(client, "remember_batch", memories=["the build needs make", {"fact": RULE}])
    assert (batch["added"], log.head()) == (2, 2)


def test_update_memory_returns_the_new_text_and_keeps_history(client: FlaskClient, log: EventLog):
    id_ = remember(client, "We deploy on Fridays")
    call_tool(client, "update_memory", id=id_, text="We deploy on Mondays", tags=["deploy"])
    answer = call_tool(client, "get_memory", id=id_)
    assert answer["memories"][0]["text"] == "We deploy on Mondays"
    assert [event["event"] for event in answer["history"]] == ["recorded", "revised"]
    assert "give at least one change" in refused(client, "update_memory", id=id_, reason="because")


def test_forgetting_says_how_to_undo_it_and_happens_once(client: FlaskClient, log: EventLog):
    id_ = remember(client, RULE)
    assert call_tool(client, "forget", id=id_)["undo"] == f"mnemolog restore {id_}"
    call_tool(client, "forget", id=id_)
    assert [event.kind for event in log.events_for(id_)] == ["recorded", "forgotten"]
    assert RULE not in json.dumps(call_tool(client, "get_memory", id=id_))
    assert "memories" not in call_tool(client, "recall", query="pnpm npm")


@pytest.mark.parametrize(
    ("verdict", "value"), [("helped", 1.0), ("not_helped", -0.5), ("wrong", -1.0)]
)
def test_feedback_is_a_rating(client: FlaskClient, log: EventLog, verdict: str, value: float):
    id_ = remember(client, RULE)
    call_tool(client, "feedback", memory_id=id_, rating=verdict, comment="in the lock file")
    *_, event = log.events_for(id_)
    assert event.body == Rated(verdict=value, reason="in the lock file")


def test_a_recall_leaves_its_receipt(client: FlaskClient, tenants: OpenTenants, log: EventLog):
    id_ = remember(client, RULE)
    call_tool(client, "recall", query="pnpm")
    tenants.get("default").notes.write()
    *_, receipt = log.read()
    assert isinstance(receipt.body, Recalled)
    assert [hit.id for hit in receipt.body.hits] == [id_]


def test_unsure_hits_are_marked_and_not_in_the_receipt(
    client: FlaskClient, tenants: OpenTenants, log: EventLog
):
    remember(client, RULE)
    remember(client, "Use pnpm here for the scripts, never npm run")
    query = "pnpm zebra quagga unicorn okapi tapir lemur ibis heron crane stork egret"
    answer = call_tool(client, "recall", query=query)
    assert answer["memories"][0]["unsure"] is True and "recall" not in answer
    assert "do not rely on them" in answer["said"]
    tenants.get("default").notes.write()
    *_, receipt = log.read()
    assert isinstance(receipt.body, Recalled)
    assert (receipt.body.hits, receipt.body.dropped) == ((), {"unsure": 2})


def test_a_recall_without_notes_says_why(client: FlaskClient):
    assert "The memory is empty" in call_tool(client, "recall", query="pnpm")["said"]
    remember(client, RULE)
    assert (
        "No memory passes the filters (project, kinds)"
        in (call_tool(client, "recall", query="pnpm", kinds=["goal"])["said"])
    )


def test_feedback_on_a_recall_rates_all_its_hits(client: FlaskClient, log: EventLog):
    remember(client, RULE)
    answer = call_tool(client, "recall", query="pnpm")
    call_tool(client, "feedback", id=answer["recall"], verdict="wrong")
    *_, event = log.events_for(answer["recall"])
    assert (event.body, event.trust) == (Rated(verdict=-1.0), "agent")


# Goals


def test_a_goal_has_a_status_and_progress(client: FlaskClient):
    id_ = call_tool(client, "goals", content="Answer within 40 ms", progress=0.2)["id"]
    call_tool(client, "goals", id=id_, status="blocked", progress="0.5")
    goal = call_tool(client, "goals")["goals"][0]
    assert goal["text"] == "Answer within 40 ms"
    assert (goal["status"], goal["progress"]) == ("blocked", 0.5)
    call_tool(client, "goals", id=id_, status="done")
    assert "goals" not in call_tool(client, "goals")
    assert call_tool(client, "goals", status="done")["goals"][0]["id"] == id_


def test_the_goal_that_is_due_next_comes_first(client: FlaskClient):
    for text, day in (("Ship it", "2027-02-01"), ("Test it", "2027-01-01")):
        call_tool(client, "goals", content=text, due=day)
    id_ = call_tool(client, "goals", content="Plan it")["id"]
    call_tool(client, "goals", id=id_, due="2026-12-01", progress=0.1)
    goals = call_tool(client, "goals")["goals"]
    assert [goal["due"] for goal in goals] == ["2026-12-01", "2027-01-01", "2027-02-01"]
    assert "$.due" in refused(client, "goals", content="Ship it", due="soon")


def test_milestones_stand_in_their_chain_in_the_order_they_were_reached(client: FlaskClient):
    for text, chain in (("Redis is read no more", "queue"), ("v1 is out", "release")):
        call_tool(client, "goals", action="milestone", content=text, chain=chain)
    call_tool(client, "goals", action="milestone", content="Redis is gone", chain="queue")
    reached = call_tool(client, "goals", chain="queue")["milestones"]
    assert [goal["text"] for goal in reached] == ["Redis is read no more", "Redis is gone"]


def test_only_goals_are_updated_as_goals(client: FlaskClient):
    assert "is not a goal" in refused(client, "goals", id=remember(client, RULE), status="done")


# Provenance and the frame

LABELS = {"id", "kind", "role", "date", "project", "source", "trust", "text"}


def test_every_item_bears_its_provenance_in_both_forms(client: FlaskClient, log: EventLog):
    draft_ = Draft(
        content=RULE, kind="preference", project="acme/web", source="typed", agent="claude"
    )
    commands.record(log, draft_, NOW)
    remember(client, "pnpm came with the move to workspaces", project="acme/web")
    result = called(client, "recall", query="pnpm", project="acme/web")
    items = result["structuredContent"]["memories"]
    assert len(items) == 2
    assert all(item.keys() >= LABELS | {"confidence"} for item in items)
    assert {item["role"] for item in items} == {"rule", "fact"}
    assert lines(result) == items


def lines(result: dict) -> list[dict]:
    """Return the notes in the text form; check that the frame holds nothing else."""
    text = result["content"][0]["text"]
    assert text.count(OPENING) == text.count(CLOSING) == 1 and text.endswith(CLOSING)
    return [json.loads(line) for line in text.split(OPENING)[1].splitlines()[1:-1]]


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(
        st.sampled_from(
            [OPENING, CLOSING, "<system>", "\x1b[31m", "\u202e", "\n", "\r", "\x85", "ok"]
        )
        | st.text(max_size=8),
        min_size=1,
        max_size=8,
    )
)
def test_stored_text_cannot_break_out_of_its_line(client: FlaskClient, pieces: list[str]):
    id_ = "evil"
    text = "remember me " + " ".join(pieces)
    if called(client, "remember", content="remember me first", id=id_).get("isError"):
        return
    called(client, "update_memory", id=id_, content=text.encode("utf-8", "replace").decode())
    result = called(client, "get_memory", id=id_)
    assert [line["id"] for line in lines(result)] == [id_]
    assert not set("<>\x1b\u202e\r\x85") & set(result["content"][0]["text"])
    text_ = result["structuredContent"]["memories"][0]["text"]
    assert not frame.contains(text_) and CLOSING not in text_


def test_tool_results_are_stripped_before_storage(client: FlaskClient):
    remember(client, RULE)
    result = called(client, "recall", query="pnpm")
    for form in (result["content"][0]["text"], json.dumps(result["structuredContent"])):
        assert RULE not in frame.strip(form)


def test_a_lesson_from_the_web_is_not_a_rule(client: FlaskClient, log: EventLog):
    commands.record(log, commands.Draft(id="w", content=RULE, kind="lesson", trust="web"), NOW)
    memory = call_tool(client, "recall", query="pnpm")["memories"][0]
    assert (memory["role"], memory["trust"]) == ("fact", "web")


def test_a_long_text_is_cut_and_read_whole_by_its_id(client: FlaskClient):
    long = "pnpm " + "and the lock file " * 500
    id_ = remember(client, long)
    memory = call_tool(client, "recall", query="pnpm lock file")["memories"][0]
    assert len(memory["text"]) <= 1_500 and memory["cut"] is True
    assert call_tool(client, "get_memory", id=id_)["memories"][0]["text"] == long.strip()


def test_a_value_tells_what_it_replaced(client: FlaskClient):
    for region in ("us", "eu"):
        remember(client, f"We deploy to {region}", key="deploy.region", value=region)
    (memory,) = call_tool(client, "recall", query="where do we deploy?")["memories"]
    assert memory["text"] == "We deploy to eu"
    assert memory["replaced"] == ["2027-01-15, trust agent: We deploy to us"]


def test_an_answer_is_bounded_whatever_there_is(client: FlaskClient):
    for number in range(40):
        remember(client, f"number {number}: " + "the lock file is pnpm's " * 100)
    result = called(client, "recent", limit=50)
    assert len(result["content"][0]["text"]) < 40_000
    assert "more did not fit" in result["structuredContent"]["said"]


# Projects


@pytest.fixture
def repository(tmp_path: Path) -> dict[str, str]:
    """The header that a bridge in a repository of its own sends."""
    folder = tmp_path / "näme with space"
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    config = folder / ".git" / "config"
    config.write_text(config.read_text() + '[remote "origin"]\n\turl = git@host:acme/web.git\n')
    return {"X_Mnemolog_Cwd": quote(str(folder))}


def test_a_memory_belongs_to_the_project_the_host_runs_in(client, repository, log: EventLog):
    call_tool(client, "remember", repository, content=RULE)
    assert next(log.read()).project == "host/acme/web"
    call_tool(
        client, "remember", repository, content="npm is what we use here", project="acme/other"
    )
    assert [event.project for event in log.read()] == ["host/acme/web", "acme/other"]


def test_only_memories_of_this_project_or_none_are_returned(client: FlaskClient, repository):
    here = call_tool(client, "remember", repository, content="pnpm here")["id"]
    there = remember(client, "pnpm there", project="acme/other")
    nowhere = remember(client, "pnpm everywhere")
    for tool in ("recall", "recent", "project_overview"):
        arguments = {"query": "pnpm"} if tool == "recall" else {}
        assert ids(call_tool(client, tool, repository, **arguments)) == {here, nowhere}
        assert ids(call_tool(client, tool, **arguments)) == {nowhere}
        assert ids(call_tool(client, tool, project="acme/other", **arguments)) == {there, nowhere}


def ids(values: dict[str, Any]) -> set[str]:
    groups = (value for value in values.values() if isinstance(value, list))
    return {memory["id"] for group in groups for memory in group}


def test_a_tenant_is_the_one_the_bridge_names(client: FlaskClient, tenants: OpenTenants):
    call_tool(client, "remember", {"X_Mnemolog_Tenant": "work"}, content=RULE)
    assert tenants.get("work").log.head() == 1
    assert "memories" not in call_tool(client, "recent")


# History, reasons and timelines


def draft(log: EventLog, id_: str, content: str, day: str, **fields: Any) -> None:
    commands.record(
        log, commands.Draft(id=id_, content=content, created_at=parse_time(day, NOW), **fields), NOW
    )


def test_as_of_recalls_what_was_valid_then(client: FlaskClient, log: EventLog):
    draft(log, "us", "We deploy to us-east", "2026-01-01", key="deploy.region", value="us-east")
    draft(log, "eu", "We deploy to eu-west", "2026-06-01", key="deploy.region", value="eu-west")
    query = {"query": "where do we deploy?"}
    assert ids(call_tool(client, "recall", **query)) == {"eu"}
    assert ids(call_tool(client, "recall", **query, as_of="2026-03-01")) == {"us"}
    assert ids(call_tool(client, "recall", **query, at="2026-03-01")) == {"us"}
    assert "memories" not in call_tool(client, "recall", **query, as_of="2025-03-01")


def test_known_at_ignores_later_events(client: FlaskClient, log: EventLog):
    draft(log, "port", "The staging port is 5432", "2026-01-01")
    commands.forget(log, "port", NOW)
    head = log.head()
    query = {"query": "staging port"}
    assert "memories" not in call_tool(client, "recall", **query)
    then = call_tool(client, "recall", **query, known_at="@1")
    assert ids(then) == {"port"} and "recall" not in then
    assert then["said"] == "1 memory recalled. As known after event 1."
    why = call_tool(client, "why", **query, id="port", known_at="@1")["said"]
    assert why.startswith("Returned as number 1") and why.endswith("As known after event 1.")
    assert log.head() == head + 1  # only the recall of the present leaves a receipt


@pytest.mark.parametrize("asked", [{"key": "deploy.region"}, {"id": "us"}, {"memory_id": "eu"}])
def test_history_is_of_a_key_or_a_memory(client: FlaskClient, log: EventLog, asked: dict):
    draft(log, "us", "We deploy to us-east", "2026-01-01", key="deploy.region", value="us-east")
    draft(log, "eu", "We deploy to eu-west", "2026-06-01", key="deploy.region", value="eu-west")
    newest, oldest = call_tool(client, "history", **asked)["memories"]
    assert (newest["value"], newest["until"]) == ("eu-west", None)
    assert (oldest["value"], oldest["from"][:10], oldest["until"][:10]) == (
        *("us-east", "2026-01-01"),
        "2026-06-01",
    )
    assert newest.keys() | oldest.keys() >= LABELS - {"project", "source"}


def test_the_history_of_another_projects_key_is_read_by_its_name(client: FlaskClient):
    remember(client, "We deploy to us", key="deploy.region", value="us", project="acme/web")
    assert "`project` names another" in refused(client, "history", key="deploy.region")
    (value,) = call_tool(client, "history", key="deploy.region", project="acme/web")["memories"]
    assert value["value"] == "us"


def test_why_names_the_stage_that_drops_a_memory(client: FlaskClient, log: EventLog):
    here, there = remember(client, RULE), remember(client, "pnpm there", project="acme/web")
    query = {"query": "pnpm"}
    answer = call_tool(client, "why", **query, id=here)
    assert answer["said"].startswith("Returned as number 1: lexical #1")
    head = log.head()
    assert "ask with that `project`" in call_tool(client, "why", **query, id=there)["said"]
    assert "Returned" in call_tool(client, "why", **query, id=there, project="acme/web")["said"]
    assert (
        "the query is for goal"
        in call_tool(client, "why", **query, id=here, kinds=["goal"])["said"]
    )
    call_tool(client, "forget", id=here)
    assert "it was forgotten" in call_tool(client, "why", **query, id=here)["said"]
    assert log.head() == head + 1  # `why` leaves no receipt


def test_a_timeline_goes_from_the_oldest_to_the_newest(client: FlaskClient, log: EventLog):
    draft(log, "b", "pnpm replaced npm", "2026-06-01")
    draft(log, "a", "npm was slow on the build machines", "2026-01-01")
    draft(log, "c", "The office moved to Bern", "2026-07-01")
    memories = call_tool(client, "timeline")["memories"]
    assert [memory["id"] for memory in memories] == ["a", "b", "c"]
    about = call_tool(client, "timeline", topic="npm")["memories"]
    assert [memory["id"] for memory in about] == ["a", "b"]
    since = call_tool(client, "timeline", since="2026-05-01", until="2026-07-01")["memories"]
    assert [memory["id"] for memory in since] == ["b"]
    assert [memory["id"] for memory in call_tool(client, "timeline", limit=1)["memories"]] == ["c"]


def test_a_link_is_created_once_with_trust_agent(client: FlaskClient, log: EventLog):
    effect, cause = remember(client, "The build broke"), remember(client, "npm 12 dropped a flag")
    edge = {"id": effect, "target": cause, "relation": "cause"}
    assert [call_tool(client, "link", **edge)["new"] for _ in range(2)] == [True, False]
    *_, event = log.read()
    assert (event.kind, event.trust, log.head()) == ("linked", "agent", 3)
    edges = call_tool(client, "get_memory", id=cause)["edges"]
    assert edges == [{"source": effect, "relation": "cause", "target": cause}]
    assert "linked to itself" in refused(client, "link", **edge | {"target": effect})


# Reading without a question


def test_recent_lists_the_newest_first_and_since_when(client: FlaskClient):
    for kind in ("fact", "decision"):
        remember(client, f"this is a {kind}", kind=kind)
    memories = call_tool(client, "recent", since="1d")["memories"]
    assert [memory["kind"] for memory in memories] == ["decision", "fact"]
    assert "memories" not in call_tool(client, "recent", since="2030-01-01")
    assert len(call_tool(client, "recent", kinds="fact")["memories"]) == 1


def test_an_overview_has_rules_what_holds_goals_and_background(client: FlaskClient, log: EventLog):
    rule = commands.record(log, Draft(content=RULE, kind="lesson"), NOW).event.id
    advice = remember(client, "Run pnpm dedupe after an upgrade", kind="lesson")
    decision = remember(client, "We deploy to eu-west-1", kind="decision")
    fact = remember(client, "pnpm is faster here")
    goal = call_tool(client, "goals", content="Ship with pnpm only")["id"]
    overview = call_tool(client, "project_overview")
    groups = {
        name: [memory["id"] for memory in overview[name]] for name in ("rules", "now", "goals")
    }
    assert groups == {"rules": [rule], "now": [decision], "goals": [goal]}
    assert {fact, advice} <= {memory["id"] for memory in overview["background"]}
    assert ids(call_tool(client, "project_overview", topic="pnpm")) == {rule, advice, fact, goal}


# Resources, the prompt and completion


def test_memories_are_resources(client: FlaskClient):
    id_ = remember(client, RULE)
    (resource,) = legacy(client, "resources/list").json["result"]["resources"]
    assert (resource["uri"], resource["title"]) == (f"memory://{id_}", RULE)
    read = legacy(client, "resources/read", uri=resource["uri"]).json["result"]["contents"]
    assert read[0]["uri"] == resource["uri"]
    assert RULE in read[0]["text"] and read[0]["text"].startswith(OPENING)
    call_tool(client, "forget", id=id_)
    assert "error" in legacy(client, "resources/read", uri=resource["uri"]).json


def test_resources_are_limited_to_twenty(client: FlaskClient):
    call_tool(client, "remember_batch", memories=[f"service {n} listens on {n}" for n in range(50)])
    assert len(legacy(client, "resources/list").json["result"]["resources"]) == 20


def test_episodes_are_resources_once_their_turn_is_over(client: FlaskClient, log: EventLog):
    remember(client, RULE)
    prompted = Prompted(prompt="why does the cart lose items?", intent="work")
    log.append([Event("turn1", NOW, prompted, "turn1", session="s1")])
    assert "error" in legacy(client, "resources/read", uri="episode://turn1").json
    assert "error" in legacy(client, "resources/read", uri="memory://turn1").json
    session_told = SessionTold(stage="stopped", said="The cart keeps its items now.")
    log.append([Event("end1", NOW, session_told, "end1", session="s1")])
    *_, episode = legacy(client, "resources/list").json["result"]["resources"]
    assert (episode["uri"], episode["title"]) == ("episode://turn1", prompted.prompt)
    (read,) = legacy(client, "resources/read", uri=episode["uri"]).json["result"]["contents"]
    assert session_told.said in read["text"] and read["text"].startswith(OPENING)
    memory = legacy(client, "resources/list").json["result"]["resources"][0]["name"]
    assert "error" in legacy(client, "resources/read", uri=f"episode://{memory}").json
    ref = {"type": "ref/resource", "uri": "episode://{id}"}
    assert complete(client, ref, "id", "") == complete(client, ref, "id", "tur") == ["turn1"]
    assert complete(client, ref, "id", memory[:4]) == []


def complete(client: FlaskClient, ref: dict, name: str, beginning: str) -> list[str]:
    argument = {"name": name, "value": beginning}
    answer = legacy(client, "completion/complete", ref=ref, argument=argument)
    return answer.json["result"]["completion"]["values"]


def test_completion_offers_only_ids_of_this_project(client: FlaskClient):
    template, _ = legacy(client, "resources/templates/list").json["result"]["resourceTemplates"]
    ref = {"type": "ref/resource", "uri": template["uriTemplate"]}
    remember(client, RULE, id="abc")
    remember(client, "another one", id="abd", project="acme/web")
    assert complete(client, ref, "id", "ab") == complete(client, ref, "id", "") == ["abc"]
    assert complete(client, ref, "id", "x") == complete(client, ref, "no", "a") == []


def test_the_brief_prompt_is_rendered_and_its_arguments_completed(client: FlaskClient):
    remember(client, RULE, kind="lesson", project="acme/web", tags=["tooling"])
    remember(client, "The clock is injected", tags=["login"])
    ref = {"type": "ref/prompt", "name": "brief"}
    assert complete(client, ref, "project", "web") == ["acme/web"]
    assert complete(client, ref, "topic", "lo") == ["login"]
    got = legacy(client, "prompts/get", name="brief", arguments={"project": "acme/web"})
    (message_,) = got.json["result"]["messages"]
    assert message_["role"] == "user" and RULE in message_["content"]["text"]


def test_remember_stores_all_fields_of_a_memory(client: FlaskClient, log: EventLog):
    remember(
        client, "We deploy to eu", kind="decision", key="deploy.region", value="eu", importance=0.9
    )
    body = next(log.read()).body
    assert isinstance(body, Recorded)
    assert (body.key, body.value, body.importance) == ("deploy.region", "eu", 0.9)
