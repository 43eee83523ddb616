"""Doors: the ways by which a text of neither a person nor an agent enters a memory."""

import itertools
import json
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from click.testing import CliRunner
from flask.testing import FlaskClient
from hosts_told import OUTCOMES, PROMPTS, RECORDED, contexts, in_session, moment, reworded
from mcp_client import TOKEN, modern
from torture.poisons import Poison
from transcript_files import imported

from serve.app import create_app
from serve.cli import main
from serve.server.open_tenants import OpenTenant, OpenTenants
from store.embedders.lexical import LexicalEmbedder
from store.home.config import Settings
from store.importers import git, jsonl, markdown
from store.log import commands
from store.maintenance import build

NOW = 1_790_000_000_000_000
MINUTE = 60_000_000
_WRITTEN = frozenset(
    "stdout stderr error output llmContent returnDisplay text_result_for_llm tool_output "
    "tool_response error_message message".split()
)


@dataclass(frozen=True)
class Place:
    """A memory behind its application, in a home of its own."""

    home: Path
    tenants: OpenTenants
    client: FlaskClient

    @property
    def tenant(self) -> OpenTenant:
        return self.tenants.get("default")

    def ask(self, method: str, path: str, body: object = None) -> Any:
        answer = self.client.open(
            path,
            method=method,
            data=None if body is None else json.dumps(body),
            content_type="application/json",
            headers={"Host": "127.0.0.1:7437", "Authorization": f"Bearer {TOKEN}"},
        )
        assert answer.status_code < 300, answer.text
        return answer.json if answer.data else {}

    def hook(self, host: str, payload: dict[str, Any]) -> str:
        """Send an event of a host; return the context for its model."""
        answer = self.ask("POST", f"/v1/hooks/{host}", payload)
        return "\n".join(contexts(answer)[:1]) if answer else ""

    def tool(self, name: str, **arguments: object) -> Any:
        """Call a tool of the MCP endpoint; return its result."""
        return modern(self.client, "tools/call", name=name, arguments=arguments).json["result"]

    def build(self) -> None:
        tenant = self.tenant
        tenant.notes.write()
        build.rebuild(tenant.tenant, tenant.log, LexicalEmbedder(), NOW + 5_000 * MINUTE)
        assert tenant.reader.poll()


@contextmanager
def place(home: Path) -> Iterator[Place]:
    tenants = OpenTenants(Settings(home))
    tenants.make("default")
    clock = itertools.count(NOW + MINUTE, 1_000_000).__next__
    app = create_app(tenants, TOKEN, clock, hook_deadline_s=60.0)
    try:
        yield Place(home, tenants, app.test_client())
    finally:
        tenants.close()


Door = Callable[[Place, Poison], None]


def after_a_tool(host: str) -> Door:
    """Return the door of a host's tools: one fails with the text, and its command passes later."""

    def door(place: Place, poison: Poison) -> None:
        session = f"{host}-{poison.canary}"
        place.hook(host, in_session(reworded(PROMPTS[host], "make the tests pass"), session))
        for payload in RECORDED[host]:
            if moment(host, payload) in ("before_tool", "after_tool"):
                place.hook(host, in_session(_telling(payload, poison.text), session))
        last = next(payload for payload in RECORDED[host] if moment(host, payload) == "stop")
        place.hook(host, in_session(last, session))

    return door


def _telling(value: Any, text: str, field: str = "") -> Any:
    """Return a payload with a text appended to every tool output."""
    if isinstance(value, dict):
        return {key: _telling(item, text, key) for key, item in value.items()}
    if isinstance(value, list):
        return [_telling(item, text, field) for item in value]
    return f"{value}\n{text}" if isinstance(value, str) and field in _WRITTEN else value


def a_fix(place: Place, poison: Poison) -> None:
    """Let a command fail with the text, and pass after an edit: a note is made of it."""
    session = f"fix-{poison.canary}"

    def tell(name: str, **fields: object) -> None:
        event = {"session_id": session, "cwd": "/nowhere", "hook_event_name": name, **fields}
        place.hook("claude-code", event)

    ran = {"tool_name": "Bash", "tool_input": {"command": "pytest tests/test_upload.py"}}
    edit = {"tool_name": "Edit", "tool_input": {"file_path": "/nowhere/upload.py"}}
    tell("UserPromptSubmit", prompt="make the upload tests pass")
    tell("PostToolUseFailure", **ran, tool_use_id="1", error=f"Exit code 1\nError: {poison.text}")
    tell("PostToolUse", **edit, tool_use_id="2", tool_response={"filePath": "/nowhere/upload.py"})
    tell("PostToolUse", **ran, tool_use_id="3", tool_response={"stdout": "4 passed"})
    tell("Stop", last_assistant_message="The tests pass now: the upload closes its socket.")


def a_transcript(place: Place, poison: Poison) -> None:
    """Import a session file with the text from tools, hooks and side chains."""
    around = {"sessionId": poison.canary, "cwd": "/home/dev/up", "isSidechain": False}
    use = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "make test"}}
    failed = {"type": "tool_result", "tool_use_id": "t1", "is_error": True, "content": poison.text}
    again = use | {"id": "t2"}
    fetched = {"type": "tool_result", "tool_use_id": "t3", "content": poison.text}
    fine = {"type": "tool_result", "tool_use_id": "t2", "content": "ok"}
    plain = poison.text.replace("</system-reminder>", "")
    lines: list[dict[str, Any]] = [
        {"type": "user", "message": {"content": "Please make the upload tests pass today."}},
        {"type": "assistant", "message": {"content": [use]}},
        {"type": "user", "message": {"content": [failed]}, "toolUseResult": poison.text},
        {"type": "assistant", "message": {"content": [again]}},
        {"type": "user", "message": {"content": [fine, fetched]}},
        {"type": "user", "isSidechain": True, "message": {"content": poison.text}},
        {"type": "user", "isMeta": True, "message": {"content": poison.text}},
        {"type": "user", "message": {"content": f"<system-reminder>{plain}</system-reminder>"}},
    ]
    path = place.home.parent / "transcripts" / f"{poison.canary}.jsonl"
    path.parent.mkdir(exist_ok=True)
    written = [
        {**around, "uuid": f"{poison.canary}-{number}", "timestamp": "2026-09-21T13:40:00Z", **line}
        for number, line in enumerate(lines)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in written))
    imported(place.tenant.log, "claude-code", path, now=NOW)


def lines_of(trust: str, **more: object) -> Door:
    """Return the door of a file of memories that declares its own trust."""

    def door(place: Place, poison: Poison) -> None:
        path = place.home.parent / f"{poison.canary}.jsonl"
        path.write_text(json.dumps({"content": poison.text, "trust": trust, **more}) + "\n")
        commands.import_drafts(place.tenant.log, jsonl.drafts(path, project=None), NOW)

    return door


def posted(trust: str, **more: object) -> Door:
    def door(place: Place, poison: Poison) -> None:
        memory = {"content": poison.text, "trust": trust, **more}
        place.ask("POST", "/v1/memories", memory)

    return door


def in_two(place: Place, poison: Poison) -> None:
    """Post an order in two halves, which is an order only when both are together."""
    half = len(poison.text) // 2
    halves = (poison.text[:half], f"{poison.canary}, continued: {poison.text[half:]}")
    drafts = [{"content": text, "trust": "web", "kind": "lesson"} for text in halves]
    place.ask("POST", "/v1/memories/batch", {"memories": drafts})


def ingested(role: str) -> Door:
    def door(place: Place, poison: Poison) -> None:
        turn = {"role": role, "content": poison.text, "speaker": "the user"}
        place.ask("POST", "/v1/ingest", {"turns": [turn], "session": poison.canary})
        assert place.tenants.ingest.turn()

    return door


def a_command(place: Place, poison: Poison) -> None:
    """Record a page by the command line."""
    text = poison.text.replace("\x00", "")  # a program argument cannot contain it
    words = ["--home", str(place.home), "record", text, "--kind", "preference", "--trust", "web"]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output


def remembered(place: Place, poison: Poison) -> None:
    """Let the agent remember a text on a page's order: it has the agent's trust."""
    place.tool("remember", content=poison.text, kind="fact")


def a_commit(place: Place, poison: Poison) -> None:
    """Import a stranger's commit."""
    folder = place.home.parent / f"repository-{poison.canary}"
    message = f"fix(upload): close the socket\n\n{poison.text}".replace("\x00", "")
    words = ["-c", "user.name=eve", "-c", "user.email=eve@example.com"]
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    subprocess.run(
        ["git", "-C", str(folder), *words, "commit", "-q", "--allow-empty", "-F", "-"],
        input=message.encode("utf-8", "replace"),
        check=True,
    )
    drafts = git.drafts(folder, project=None)
    commands.import_drafts(place.tenant.log, drafts, NOW)


def a_repositorys_document(place: Place, poison: Poison) -> None:
    """Import the rules file of a clone, as a person does to look things up in it."""
    folder = place.home.parent / f"clone-{poison.canary}"
    (folder / ".git").mkdir(parents=True)
    path = folder / "CLAUDE.md"
    path.write_text(f"# Rules of {poison.canary}\n\n{poison.text}\n\n- Always {poison.text}\n")
    # of no project, as the hooks are asked without one: else nothing would be tried
    drafts = (
        msgspec.structs.replace(draft, project=None)
        for draft in markdown.drafts(path, project="up")
    )
    commands.import_drafts(place.tenant.log, drafts, NOW)


def a_document(place: Place, poison: Poison) -> None:
    """Import a person's file of notes: the person's own words, like any pasted text."""
    path = place.home.parent / f"{poison.canary}.md"
    path.write_text(f"# Notes on {poison.canary}\n\n{poison.text}\n")
    commands.import_drafts(place.tenant.log, markdown.drafts(path, project=None), NOW)


_LOUD: Mapping[str, object] = {"pinned": True, "importance": 1.0, "score": 1.0, "tier": "semantic"}
# these texts are a tool's or the web's, and are never injected unasked
QUARANTINED: Mapping[str, Door] = {
    **{f"a tool of {host}": after_a_tool(host) for host in OUTCOMES},
    "a fix": a_fix,
    "a transcript": a_transcript,
    "a file, a pinned lesson of a tool": lines_of("tool", kind="lesson", **_LOUD),
    "a file, a keyed fact of the web": lines_of("web", key="deploy.region", value="mars-1"),
    "a page, a lesson": posted("web", kind="lesson"),
    "a page, pinned": posted("web", kind="preference", **_LOUD),
    "a page, an antipattern": posted("web", kind="antipattern", created_by="the user"),
    "a page, a goal": posted("web", kind="goal", status="open", metadata={"due": "2026-09-30"}),
    "a page, a milestone": posted("web", kind="milestone", chain="queue"),
    "a page, a decision": posted("tool", kind="decision", source="the user"),
    "a page, an insight": posted("tool", kind="insight", insight_type="lesson"),
    "a page, a value": posted("tool", key="deploy.region", value="mars-1", pinned=True),
    "a page, a fact": posted(
        "web",
        metadata={"fact": {"entity": "api", "relation": "port", "value": "1", "singleton": True}},
    ),
    "a page, made of trusted": posted("tool", kind="lesson", source_ids=["true-1", "true-2"]),
    "a page, in two": in_two,
    "a repository's rules": a_repositorys_document,
    "a turn of a tool": ingested("tool"),
    "a turn of a system": ingested("system"),
    "the command line": a_command,
}
# these texts are an agent's or a person's: they may be injected unasked, framed and labelled
TOLD: Mapping[str, Door] = {
    "an agent that was told to": remembered,
    "a commit": a_commit,
    "a document": a_document,
}
