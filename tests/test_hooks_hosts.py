"""The hosts' events are understood, and the answers are valid by the hosts' documentation."""

from pathlib import Path
from typing import Any

import pytest
from hosts_home import install, machine
from hosts_told import (
    OUTCOMES,
    PROMPT,
    PROMPTS,
    RECORDED,
    UNSTARTED,
    contexts,
    event_name,
    laced,
    ours,
    renamed,
    reworded,
    schema,
)

from serve.connect import connecting
from serve.hosts import HOSTS
from serve.hosts.event import MAX_CONTEXT, MAX_PROMPT, HookEvent, Reply, decode_payload
from store.agents.json_fields import MAX_OUTPUT, output_tail
from store.agents.tool_calls import ToolUse, tool_use
from store.home.errors import InvalidInput

ALL = [(host, payload) for host, payloads in RECORDED.items() for payload in payloads]
OURS = ours("{}")


def read(host: str, event: str, **fields: Any) -> HookEvent | None:
    """Return a host's recorded event as we read it, with some fields changed."""
    return HOSTS[host].read(recorded(host, event) | fields)


def recorded(host: str, event: str) -> dict[str, Any]:
    return next(payload for payload in RECORDED[host] if event_name(payload) == event)


# Reading events


@pytest.mark.parametrize(("host", "payload"), ALL)
def test_every_recorded_event_is_understood_or_none_of_ours(host: str, payload: dict[str, Any]):
    event = HOSTS[host].read(payload)
    if event is not None:
        assert event.host == host
        assert event.session
        is_placed = "/home/dev/proj" in str(payload)  # Windsurf sends a prompt without a folder
        assert event.cwd == ("/home/dev/proj" if is_placed else None)


def test_a_prompt_is_the_persons_words():
    event = read("claude-code", "UserPromptSubmit")
    assert (event.moment, event.prompt) == ("prompt", PROMPT)
    assert event.turn == "e785b033-f2f0-4a3e-8b17-28d94720c758"
    machine = f"<system-reminder>tidy up</system-reminder>{OURS}fix it"
    assert read("claude-code", "UserPromptSubmit", prompt=machine).prompt == "fix it"


@pytest.mark.parametrize("source", ["system", "loop_wakeup", "schedule_wakeup", "poll_event"])
def test_a_prompt_that_nobody_typed_is_none(source: str):
    assert read("claude-code", "UserPromptSubmit", source=source) is None
    assert read("claude-code", "UserPromptSubmit", prompt=OURS) is None


def test_a_prompt_of_the_sdk_is_of_a_run_that_nobody_types_into():
    assert read("claude-code", "UserPromptSubmit", source="sdk").is_unattended
    assert not read("claude-code", "UserPromptSubmit", source="user").is_unattended


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
        assert tool.diff.splitlines()[1:4] == ["@@", "- x", "+ y"]


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
    assert output_tail({"stdout": long, "stderr": ""}) == "x" * MAX_OUTPUT
    assert output_tail([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]) == "a\nb"
    assert OURS not in output_tail("before " + OURS)


def test_a_text_cut_within_an_emoji_is_understood():
    assert decode_payload(rb'{"a": "x\ud83d", "b": "\ud83d\ude00 \\ud83d"}') == {
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


@pytest.mark.parametrize("host", RECORDED)
def test_what_a_hosts_session_does_is_told_the_same_way(host: str):
    """The hosts differ in names and shapes, but report the same facts of one piece of work."""
    events = [event for payload in RECORDED[host] if (event := HOSTS[host].read(payload))]
    assert events
    told = {event.moment: event for event in events}
    tools = [event.tool for event in events if event.moment == "after_tool"]
    if host in OUTCOMES:
        expected = {"prompt", "before_tool", "after_tool", "stop"}
        assert expected <= told.keys() <= expected | {"session_start", "session_end"}
        assert ("session_start" in told) == (host not in UNSTARTED)
        assert {"run", "edit"} <= {tool.doing for tool in tools}
    assert told["prompt"].prompt == PROMPT
    assert all(tool.command for tool in tools if tool.doing == "run")
    assert all(tool.files for tool in tools if tool.doing == "edit")
    assert all(event.tool.passed is None for event in events if event.moment == "before_tool")


@pytest.mark.parametrize("host", OUTCOMES)
def test_what_came_of_a_command_is_known_where_the_host_tells(host: str):
    events = [HOSTS[host].read(payload) for payload in RECORDED[host]]
    done = [event.tool for event in events if event is not None and event.moment == "after_tool"]
    runs = [tool for tool in done if tool.doing == "run"]
    assert [(tool.command, tool.passed) for tool in runs] == OUTCOMES[host]


def test_of_geminis_shell_the_output_is_kept_and_not_what_gemini_writes_around_it():
    def output(*lines: str) -> tuple[str, bool | None]:
        wrote = "\n".join(["<untrusted_context>", *lines, "</untrusted_context>"])
        event = read("gemini", "AfterTool", tool_response={"llmContent": wrote})
        return event.tool.output, event.tool.passed

    assert output("Output: a\nb", "Process Group PGID: 7") == ("a\nb", True)
    assert output("Output: (empty)", "Background PIDs: 8", "Process Group PGID: 7") == ("", True)
    assert output("Output: no", "Exit Code: 2") == ("no\nExit Code: 2", False)
    assert output("Command was cancelled by user.") == ("Command was cancelled by user.", None)


def test_quotes_that_opencode_run_puts_around_a_prompt_are_not_the_persons():
    def prompt(typed: str) -> str:
        return read("opencode", "UserPromptSubmit", prompt=typed).prompt

    assert prompt('"why does it fail?"') == "why does it fail?"
    assert prompt('"what is \\"HEAD\\" here?"') == 'what is "HEAD" here?'
    assert prompt('"HEAD" or "main"?') == '"HEAD" or "main"?'


@pytest.mark.parametrize("host", ["claude-code", "codex", "copilot", "opencode"])
def test_what_a_model_asks_of_its_subagent_is_no_prompt(host: str):
    assert read(host, "UserPromptSubmit", agent_id="a1") is None


def test_what_a_subagent_of_copilot_does_belongs_to_the_session_it_works_for():
    event = read("copilot", "PostToolUse", session_id="a1", agent_id="a1", parent_agent_id="s1")
    assert event.session == "s1"


def test_a_tool_that_was_stopped_neither_passed_nor_failed():
    came = {"llmContent": "Command was cancelled by user."}
    assert read("gemini", "AfterTool", tool_response=came).tool.passed is None
    assert read("cursor", "postToolUseFailure", is_interrupt=True).tool.passed is None
    assert read("cursor", "postToolUseFailure", failure_type="permission").tool.passed is None


@pytest.mark.parametrize("host", RECORDED)
def test_a_block_of_ours_is_taken_out_wherever_a_host_puts_it(host: str):
    """Our own text must not return as the words of a person, a tool or the agent."""
    for payload in RECORDED[host]:
        event = HOSTS[host].read(laced(payload, ours("mark-of-ours")))
        if event is not None:
            tool = event.tool or ToolUse("none")
            for kept in (event.prompt, event.said, tool.output, tool.command or ""):
                assert "Notes recalled" not in kept
                assert "mark-of-ours" not in kept


def test_our_own_words_alone_are_no_prompt():
    for host, asked in PROMPTS.items():
        assert HOSTS[host].read(reworded(asked, OURS)) is None, host


# Hooks installed in hosts


@pytest.mark.parametrize("host", RECORDED)
def test_connect_asks_a_host_for_events_that_are_understood(host: str, tmp_path: Path):
    documents = connecting.documents(HOSTS[host], machine(tmp_path / "a"), install(tmp_path / "a"))
    asked = [document.path.name for document in documents if document.is_program]
    asked += [
        event
        for document in documents
        if document.start  # of a JSON file
        for event in document.values(document.put(document.start)).get("hooks", {})
    ]
    if host in OUTCOMES:
        assert bool(asked) == (host not in ("amp", "opencode"))  # our plugins handle these
    recorded = {event_name(payload): payload for payload in RECORDED[host]}
    for event in asked:
        told = recorded.get(event) or renamed(PROMPTS[host], event)
        assert HOSTS[host].read(told) is not None, event


# Answers to hosts


@pytest.mark.parametrize(("host", "payload"), ALL)
def test_what_a_host_is_told_is_in_its_own_schema(host: str, payload: dict[str, Any]):
    event = HOSTS[host].read(payload)
    if event is None or not event.is_heard:
        return
    told = HOSTS[host].write(event, Reply("é" * (MAX_CONTEXT // 2)))
    schema(host, event.name).validate(told)
    assert all(len(text.encode()) <= MAX_CONTEXT for text in contexts(told))


@pytest.mark.parametrize("host", RECORDED)
def test_the_end_of_a_turn_is_told_nothing(host: str):
    """Any answer to Stop would keep the agent going."""
    for payload in RECORDED[host]:
        event = HOSTS[host].read(payload)
        if event is not None and event.moment in ("stop", "session_end", "compacted"):
            assert not event.is_heard


def test_a_host_that_drops_what_is_said_to_a_prompt_is_known():
    heard = {host: HOSTS[host].read(PROMPTS[host]).is_heard for host in OUTCOMES}
    drops = {"cursor", "goose", "vscode"}
    assert heard == {host: host not in drops for host in OUTCOMES}


def test_claude_codes_hooks_run_by_another_program_are_heard_as_that_one_hears():
    vscode = recorded("vscode", "UserPromptSubmit")
    assert not HOSTS["claude-code"].read(vscode).is_heard
    cursor = {"cursor_version": "2.4.0"}
    assert not read("claude-code", "UserPromptSubmit", **cursor).is_heard
    assert not read("claude-code", "PreToolUse", **cursor).is_heard
    assert read("claude-code", "PostToolUse", **cursor).is_heard
    assert HOSTS["claude-code"].read(recorded("copilot", "UserPromptSubmit")).is_heard
