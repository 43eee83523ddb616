"""Our own blocks come back in transcripts, prompts, tool output and summaries: none is stored."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from flask.testing import FlaskClient
from hook_session import speaks_where_recall_is_sure
from test_app import TOKEN, post

from serve.app import create_app
from serve.cli import main
from serve.server.open_tenants import OpenTenants
from store.home import tenant
from store.home.config import Settings
from store.log import commands
from store.log.commands import Draft
from store.log.event_kinds import Prompted, Recorded, SessionTold
from store.log.event_log import EventLog
from store.log.events import encode
from store.text.frame import OPENING, contains

NOW = 1_790_000_000_000_000
MINUTE = 60_000_000
KNOWN = [
    "The upload service retries five times with exponential backoff before it gives up",
    "Never restart the upload service by hand; the watchdog counts restarts",
    "We chose Postgres for the upload queue because SKIP LOCKED does what Redis did",
]
ASKED = (
    "how often does the upload service retry before it gives up?",
    "may the upload service be restarted by hand?",
    "why does the upload queue lie in Postgres, what did Redis do?",
)


@pytest.fixture
def tenants(home: Path) -> Iterator[OpenTenants]:
    with EventLog(tenant.tenant(home).log, create=True) as log:
        for number, text in enumerate(KNOWN):
            kind = "lesson" if text.startswith("Never") else "decision"
            commands.record(log, Draft(id=f"m{number}", content=text, kind=kind), NOW)
    opened = OpenTenants(Settings(home))
    yield opened
    opened.close()


@pytest.fixture
def client(tenants: OpenTenants) -> FlaskClient:
    times = iter(range(NOW, NOW + 10_000 * MINUTE, MINUTE))
    return create_app(tenants, TOKEN, lambda: next(times), hook_deadline_s=30.0).test_client()


def tell(client: FlaskClient, session: str, name: str, **fields: object) -> str:
    """Send a hook event as Claude Code does; return the text injected into the model's context."""
    event = {"session_id": session, "cwd": "/nowhere", "hook_event_name": name, **fields}
    answer = post(client, "/v1/hooks/claude-code", event)
    assert answer.status_code in (200, 204), answer.text
    return answer.json["hookSpecificOutput"]["additionalContext"] if answer.data else ""


def a_turn(client: FlaskClient, session: str, number: int, block: str) -> str:
    """Play a turn with the block in every field that can hold it; return the injected text."""
    quoted = f"As the notes say:\n{block}\nSo I left it.\n> " + block.replace("\n", "\n> ")
    bash = {"tool_name": "Bash", "tool_input": {"command": f"cat notes-{number}.md"}}
    text = tell(
        client,
        session,
        "UserPromptSubmit",
        prompt=f"{block}\n{ASKED[number % len(ASKED)]} (attempt {number})",
    )
    output = {"stdout": quoted, "stderr": block}
    tell(client, session, "PostToolUse", **bash, tool_use_id=f"t{number}", tool_response=output)
    failed = f"exit 1\n{'x' * 3_900}\n{block}"
    tell(client, session, "PostToolUseFailure", **bash, tool_use_id=f"f{number}", error=failed)
    echo = {"tool_name": "Bash", "tool_input": {"command": f"echo '{block}' > notes.md"}}
    tell(client, session, "PostToolUse", **echo, tool_use_id=f"e{number}", tool_response={})
    tell(client, session, "Stop", last_assistant_message=quoted)
    tell(client, session, "PostCompact", trigger="auto", compact_summary=quoted)
    again = tell(client, session, "SessionStart", source="compact")
    post(client, "/v1/memories", {"content": block})
    return f"{text}\n{again}".strip()


def test_fifty_turns_of_our_own_blocks_leave_nothing_behind(
    client: FlaskClient, tenants: OpenTenants, monkeypatch: pytest.MonkeyPatch
):
    speaks_where_recall_is_sure(monkeypatch)
    block, injected = "", ""
    for number in range(50):
        block = a_turn(client, f"s{number // 5}", number, block) or block
        injected += block
    assert [text for text in KNOWN if text not in injected] == []
    opened = tenants.get("default")
    opened.notes.write()
    bodies = [encode(event.body) for event in opened.log.read()]
    assert [body for body in bodies if contains(body)] == []
    for text in KNOWN:
        assert sum(text in body for body in bodies) == 1, text


def test_a_transcript_full_of_our_blocks_gives_no_memory_of_them(
    client: FlaskClient, tenants: OpenTenants, tmp_path: Path
):
    block = a_turn(client, "s0", 0, "")
    path = tmp_path / "projects" / "transcript.jsonl"
    path.parent.mkdir()
    path.write_text("".join(json.dumps(line) + "\n" for line in transcript(block)))
    result = CliRunner().invoke(main, ["import", "claude-code", str(path.parent)])
    assert result.exit_code == 0, result.output
    log = tenants.get("default").log
    recorded = [event.body for event in log.read() if isinstance(event.body, Recorded)]
    bodies = [event.body for event in log.read() if isinstance(event.body, (Prompted, SessionTold))]
    around = [encode(body) for body in bodies if "heartbeat" in encode(body)]
    assert len(around) >= 2  # the sentences around the blocks
    for text in KNOWN:
        assert sum(text in encode(body) for body in recorded) == 1, text
    assert not any(OPENING in encode(body) for body in (*recorded, *bodies))


def transcript(block: str) -> Iterator[dict[str, object]]:
    """Yield the lines of a session with the block in every text."""
    around = {"sessionId": "s9", "cwd": "/home/dev/up", "gitBranch": "main", "isSidechain": False}
    texts = [
        ("user", f"{block}\nPlease make the upload worker write a heartbeat every minute."),
        ("user", f"<user-prompt-submit-hook>{block}</user-prompt-submit-hook>"),
        ("assistant", f"{block}\nI chose a heartbeat file because the watchdog reads it already."),
        ("user", f"UserPromptSubmit hook additional context: {block}"),
        ("assistant", f"Done: the worker writes it, because of this.\n{block}"),
    ]
    for number, (role, text) in enumerate(texts):
        message = {"role": role, "content": [{"type": "text", "text": text}]}
        at = f"2026-09-21T13:4{number}:00.000Z"
        yield {**around, "type": role, "message": message, "uuid": f"u{number}", "timestamp": at}
    summary = {"role": "user", "content": f"This session is being continued. {block}"}
    at = "2026-09-21T13:50:00.000Z"
    yield {
        **around,
        "type": "user",
        "isCompactSummary": True,
        "message": summary,
        "uuid": "u9",
        "timestamp": at,
    }
