"""Recorded events of agent hosts, and the schemas of the answers that they accept."""

import json
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from serve.hosts import HOSTS
from store.text import frame

DATA = Path(__file__).parent / "data" / "hosts"
RECORDED = {
    host: [json.loads(line) for line in (DATA / f"{host}.jsonl").read_text().splitlines()]
    for host in HOSTS
    if HOSTS[host].read
}
PROMPT = "why does the login test fail?"
PROMPTS = {
    host: next(
        payload for payload in payloads if (event := HOSTS[host].read(payload)) and event.prompt
    )
    for host, payloads in RECORDED.items()
}
# Hosts with a whole recorded session: the commands run in it, and their outcomes.
OUTCOMES = {
    "amp": [("npm install lodash", True), ("make test", False)],
    "cline": [("echo hello", True), ("ls /nope", False), ("make test", None)],
    "claude-code": [("echo hello", True), ("ls /nope", False)],
    "codex": [("echo hello", None), ("ls /nope", None)],  # Codex does not report it
    "copilot": [("echo hello", True), ("ls /nope", False)],
    "cursor": [("npm install lodash", True), ("make test", False)],
    "goose": [("echo hello", True), ("ls /nope", False)],
    "gemini": [("npm install lodash", True), ("make test", False)],
    "opencode": [("npm install lodash", True), ("make test", False)],
    "vscode": [("npm install lodash", None)],
}
# Hosts that do not report the start of a session.
UNSTARTED = {"cline"}
_SCHEMAS = {
    host: json.loads(path.read_text())["$defs"]
    for host in HOSTS
    if (path := DATA / f"{host}.output.json").exists()
}
# The keys under which hosts name an event and its session.
_EVENT = ("hook_event_name", "hookEventName", "hookName", "agent_action_name", "event")
_SESSION = ("session_id", "sessionId", "conversation_id", "taskId", "execution_id")
_TEXTS = frozenset(
    """prompt command stdout stderr error output text llmContent text_result_for_llm tool_response
    tool_output error_message last_assistant_message prompt_response result outputText
    user_prompt command_line response mcp_result message""".split()
)


def schema(host: str, event: str) -> Draft202012Validator:
    """Return the schema of a host's accepted answers to an event; any object if it has none."""
    return Draft202012Validator(_SCHEMAS[host][event] if host in _SCHEMAS else {"type": "object"})


def event_name(payload: dict[str, Any]) -> str:
    """Return an event's name."""
    return next(payload[key] for key in _EVENT if key in payload)


def moment(host: str, payload: dict[str, Any]) -> str | None:
    """Return our moment for an event; None if we do not use it."""
    read = HOSTS[host].read
    event = read(payload) if read else None
    return event.moment if event else None


def renamed(payload: dict[str, Any], name: str) -> dict[str, Any]:
    """Return an event under another name."""
    return payload | {key: name for key in _EVENT if key in payload}


def reworded(payload: dict[str, Any], prompt: str) -> dict[str, Any]:
    """Return a recorded prompt's event with another prompt."""
    return json.loads(json.dumps(payload).replace(json.dumps(PROMPT), json.dumps(prompt)))


def in_session(payload: dict[str, Any], session: str) -> dict[str, Any]:
    """Return an event as if reported in another session."""
    return payload | {field: session for field in _SESSION if field in payload}


def ours(text: str) -> str:
    """Return a text in the frame of our own blocks."""
    return f"{frame.OPENING}\n{text}\n{frame.CLOSING}"


def laced(value: Any, text: str, field: str = "") -> Any:
    """Return a payload in which every text written by people, tools or agents ends with `text`."""
    if isinstance(value, dict):
        return {key: laced(one, text, key) for key, one in value.items()}
    if isinstance(value, list):
        return [laced(one, text, field) for one in value]
    return f"{value}\n{text}" if isinstance(value, str) and field in _TEXTS else value


def contexts(payload: dict[str, Any]) -> list[str]:
    """Return the texts in a host's output that reach the model, once for every place they occur."""
    inner = payload.get("hookSpecificOutput", {}).get("additionalContext")
    texts = [payload.get("additionalContext"), payload.get("additional_context"), inner]
    texts.append(payload.get("contextModification"))
    return [text for text in texts if text is not None]
