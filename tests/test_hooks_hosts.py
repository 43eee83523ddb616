"""What hosts send is understood, and what they are told is what their documentation allows."""

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from serve.hooks.event import MAX_CONTEXT, MAX_OUTPUT, MAX_PROMPT, HookEvent, Reply, ToolUse
from serve.hooks.hosts import HOSTS
from serve.hooks.hosts.payload import decoded, ending
from serve.hooks.hosts.tools import tool_use
from store import frame
from store.errors import InvalidInput

DATA = Path(__file__).parent / "data" / "hosts"
RECORDED = {
    host: [json.loads(line) for line in (DATA / f"{host}.jsonl").read_text().splitlines()]
    for host in HOSTS
}
ALL = [(host, payload) for host, payloads in RECORDED.items() for payload in payloads]
OURS = f"{frame.OPENING}\n{{}}\n{frame.CLOSING}"


def read(host: str, name: str, **fields: Any) -> HookEvent | None:
    """Return a recorded event of a host as it is understood, some fields changed."""
    return HOSTS[host].read(recorded(host, name) | fields)


def recorded(host: str, name: str) -> dict[str, Any]:
    return next(one for one in RECORDED[host] if one.get("hook_event_name") == name)


# What is understood


@pytest.mark.parametrize(("host", "payload"), ALL)
def test_every_recorded_event_is_understood_or_none_of_ours(host: str, payload: dict[str, Any]):
    event = HOSTS[host].read(payload)
    if event is not None:
        assert event.host == host
        assert event.session
        assert event.cwd == "/home/dev/proj"


def test_a_prompt_is_the_persons_words():
    event = read("claude-code", "UserPromptSubmit")
    assert (event.moment, event.prompt) == ("prompt", "why does the login test fail?")
    assert event.turn == "e785b033-f2f0-4a3e-8b17-28d94720c758"
    machine = f"<system-reminder>tidy up</system-reminder>{OURS}fix it"
    assert read("claude-code", "UserPromptSubmit", prompt=machine).prompt == "fix it"


@pytest.mark.parametrize("source", ["system", "loop_wakeup", "schedule_wakeup", "poll_event"])
def test_a_prompt_that_nobody_typed_is_none(source: str):
    assert read("claude-code", "UserPromptSubmit", source=source) is None
    assert read("claude-code", "UserPromptSubmit", prompt=OURS) is None


def test_codex_names_its_turn():
    event = read("codex", "UserPromptSubmit")
    assert (event.moment, event.turn) == ("prompt", "01a1f913-08ec-7860-9a84-2bcc39b00575")


@pytest.mark.parametrize("cwd", ["proj", "", "/a\0b", 7, None, ["/x"], "/" + "x" * 5_000])
def test_a_working_directory_that_is_none_is_left_out(cwd: object):
    assert read("claude-code", "UserPromptSubmit", cwd=cwd).cwd is None


def test_our_own_tools_are_known_however_a_host_names_them():
    names = """mcp__mnemolog__recall mcp__plugin_mnemolog_mnemolog__recall mcp_mnemolog_recall
        mnemolog-recall mnemolog_recall MCP:mnemolog/recall""".split()
    for name in names:
        tool = tool_use(name, {})
        assert (tool.is_ours, tool.doing) == (True, "recall"), name
    assert tool_use("remember", {}, server="plugin:mnemolog:mnemolog").doing == "remember"
    for name in ("recall", "mcp__other__recall", "mcp__mymnemolog__recall"):
        assert not tool_use(name, {}).is_ours, name


def test_a_patch_names_its_files():
    patch = "*** Begin Patch\n*** Update File: a/b.py\n@@\n-x\n+y\n*** Add File: c.py\n+z\n"
    for field in ("input", "command"):
        tool = tool_use("apply_patch", {field: patch})
        assert (tool.doing, tool.files) == ("edit", ("a/b.py", "c.py"))


def test_a_command_in_words_is_one_line():
    assert tool_use("shell", {"command": ["bash", "-lc", "make test"]}).command == "make test"
    assert tool_use("shell", {"command": ["ls", "a b"]}).command == "ls 'a b'"
    assert tool_use("Bash", {"command": 7}).command is None


def test_a_tool_tells_whether_it_did_its_work():
    bash = {"hook_event_name": "PostToolUse", "session_id": "s", "tool_name": "Bash"}
    bash["tool_input"] = {"command": "make test"}
    claude = HOSTS["claude-code"].read
    done = claude(bash | {"tool_response": {"stdout": "ok", "stderr": "", "interrupted": False}})
    assert (done.tool.passed, done.tool.output) == (True, "ok")
    stopped = claude(bash | {"tool_response": {"stdout": "", "interrupted": True}})
    assert stopped.tool.passed is None
    behind = claude(bash | {"tool_response": {"stdout": "", "backgroundTaskId": "b1"}})
    assert behind.tool.passed is None
    failed = bash | {"hook_event_name": "PostToolUseFailure", "error": "Exit code 2\nno rule"}
    assert claude(failed).tool == ToolUse(
        "Bash", "run", "make test", passed=False, output="Exit code 2\nno rule"
    )


def test_the_end_of_an_output_is_kept_without_a_block_of_ours():
    long = OURS + "x" * MAX_OUTPUT
    assert ending({"stdout": long, "stderr": ""}) == "x" * MAX_OUTPUT
    assert ending([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]) == "a\nb"
    assert OURS not in ending("before " + OURS)


def test_a_text_cut_within_an_emoji_is_understood():
    assert decoded(rb'{"a": "x\ud83d", "b": "\ud83d\ude00 \\ud83d"}') == {
        "a": "x�",
        "b": "😀 \\ud83d",
    }


def test_a_pasted_document_is_read_in_one_pass():
    long = "<system-reminder " * 200_000
    assert len(read("claude-code", "UserPromptSubmit", prompt="a " + long).prompt) <= MAX_PROMPT


def test_a_payload_that_is_not_the_hosts_is_refused():
    for payload in ({}, {"hook_event_name": "Stop"}, {"hook_event_name": 3, "session_id": "s"}):
        with pytest.raises(InvalidInput, match="send the host's own JSON"):
            HOSTS["claude-code"].read(payload)


# What hosts are told


@pytest.mark.parametrize(("host", "payload"), ALL)
def test_what_a_host_is_told_is_in_its_own_schema(host: str, payload: dict[str, Any]):
    schema = json.loads((DATA / f"{host}.output.json").read_text())
    event = HOSTS[host].read(payload)
    if event is None:
        return
    told = HOSTS[host].write(event, Reply("é" * (MAX_CONTEXT // 2)))
    if told is not None:
        Draft202012Validator(schema["$defs"][event.name]).validate(told)
        assert len(json.dumps(told, ensure_ascii=False).encode()) <= 9_011 + 200


@pytest.mark.parametrize("host", HOSTS)
def test_the_end_of_a_turn_is_told_nothing(host: str):
    """What Stop is told would keep the agent going."""
    for payload in RECORDED[host]:
        event = HOSTS[host].read(payload)
        if event is not None and event.moment in ("stop", "session_end", "compacted"):
            assert HOSTS[host].write(event, Reply("a note")) is None
