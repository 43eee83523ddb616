"""Leak doors: the ways by which a secret comes in, and a record of the secrets by door."""

import itertools
import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from hosts_told import RECORDED, in_session, laced
from torture.secret_kinds import KINDS, Secret
from torture.traces import KNOWN

MARKER = "thornbushes"  # no secret: it is kept with its text
_LARGE = 900_000  # bytes: waitress would put so many into a file


@dataclass(slots=True)
class Here:
    """The places of an attack, and the secrets sent by each door."""

    home: Path
    spool: Path
    folder: Path
    planted: list[tuple[str, str]] = field(default_factory=list)
    doors: set[str] = field(default_factory=set)
    answered: set[str] = field(default_factory=set)
    spooled: dict[str, bytes] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=itertools.count)

    @property
    def repository(self) -> Path:
        return self.folder / "repository"

    def secret(self, door: str, *, is_name: bool = False) -> str:
        """Return a secret to send by a door, and record it for the search; with `is_name` one
        without a slash.
        """
        number = next(self.numbers)
        kinds = [kind for kind in KNOWN if kind != "url password"] if is_name else KNOWN
        kind = kinds[number % len(kinds)]
        secret: Secret = KINDS[kind](random.Random(f"leak {number}"))
        self.planted.append((door, secret.core))
        self.doors.add(door)
        return secret.value

    def text(self, door: str) -> str:
        return f"the {MARKER} use {self.secret(door)} since monday"


Send = Callable[..., int]
Door = Callable[[Here, Send], None]


def _recorded(here: Here, send: Send) -> None:
    def of(name: str) -> str:
        return here.text(f"memory, {name}")

    memory: dict[str, Any] = {name: of(name) for name in ("content", "context", "action", "result")}
    memory |= {name: of(name)[:190] for name in ("source", "created_by", "session", "agent")}
    memory |= {"tags": [of("tag")[:90]], "insight_type": of("insight")[:190]}
    memory |= {"key": f"db.{here.secret('memory, key', is_name=True)}", "value": of("value")}
    memory |= {"metadata": {here.secret("metadata, name"): {"deep": [of("metadata")]}}}
    key = f'"{here.secret("idempotency")[:60]}"'
    send("POST", "/v1/memories", memory, **{"Idempotency-Key": key})


def _changed(here: Here, send: Send) -> None:
    id_ = f"leak-{next(here.numbers)}"
    send("POST", "/v1/memories", {"id": id_, "content": here.text("memory, content")})
    path = f"/v1/memories/{id_}"
    send("PATCH", path, {"content": here.text("revision"), "reason": here.text("reason")})
    send("POST", "/v1/rate", {"id": id_, "verdict": 1.0, "reason": here.text("rating")})
    send("DELETE", path, {"reason": here.text("forgetting")})


def _refused(here: Here, send: Send) -> None:
    send("POST", "/v1/memories", {"id": here.secret("id")[:64], "content": "it has a wrong id"})
    send("POST", "/v1/memories", {"content": "x", "unknown": here.text("unknown field")})
    send("POST", "/v1/memories", b'{"content": "' + here.text("broken JSON").encode())
    send("GET", f"/v1/memories/{quote(here.secret('path'), '')}")
    send("GET", f"/v1/{quote(here.secret('unknown path'), '')}?token={quote(here.secret('query'))}")
    send("POST", "/v1/tenants", {"name": here.secret("tenant").lower()[:60]})
    send("POST", "/v1/memories", {"content": "a", "project": here.secret("project")[:190]})
    send("GET", "/v1/status", None, **{"X-Mnemolog-Tenant": here.secret("tenant in a header")})


def _ingested(here: Here, send: Send) -> None:
    turn = {"role": "tool", "content": here.text("turn"), "speaker": here.text("speaker")[:190]}
    memory = {"content": here.text("batch"), "metadata": {"password": here.text("a named one")}}
    body = {"turns": [turn], "memories": [memory], "session": here.text("batch, session")[:190]}
    send("POST", "/v1/ingest", body, **{"Idempotency-Key": f'"{here.secret("job key")[:60]}"'})


def _large(here: Here, send: Send) -> None:
    """Send more than waitress keeps in memory by default."""
    words = "a long memory of little use " * 100
    memories = [{"content": f"{words} {here.text('a large body')}"} for _ in range(_LARGE // 2_900)]
    send("POST", "/v1/ingest", {"memories": memories})


def _ask_all(here: Here, send: Send) -> None:
    send("POST", "/v1/recall", {"query": here.text("query")})
    send("GET", f"/v1/memories?text={quote(here.text('search'))}")
    send("GET", f"/v1/memories?project={quote(here.secret('project asked for'))}")
    send("GET", f"/v1/overview?topic={quote(here.text('topic'))}")
    send("GET", f"/v1/receipts?session={quote(here.text('session asked for'))}")


def _by_mcp(here: Here, send: Send) -> None:
    def call(name: str, **arguments: object) -> None:
        params = {"name": name, "arguments": arguments}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        send("POST", "/mcp", body, **{"MCP-Protocol-Version": "2025-06-18"})

    call("remember", content=here.text("MCP, content"), tags=[here.secret("MCP, tag")[:90]])
    call("recall", query=here.text("MCP, query"))
    call("goals", content=here.text("MCP, goal"), action="add")
    call("feedback", id=here.secret("MCP, id"), verdict="wrong", reason=here.text("MCP, reason"))
    call(here.secret("MCP, tool"), **{here.secret("MCP, argument"): here.text("MCP, value")})


def _by_hooks(here: Here, send: Send) -> None:
    for host, payloads in RECORDED.items():
        session = here.secret(f"{host}, session")
        for payload in payloads:
            payload_ = in_session(laced(payload, here.text(f"{host}, texts")), session)
            send("POST", f"/v1/hooks/{host}", _in(payload_, here, host))


def _in(payload: dict[str, Any], here: Here, host: str) -> dict[str, Any]:
    """Return an event in a repository with a password in its remote, on files with secret names."""
    payload_ = payload | {"cwd": str(here.repository)} if "cwd" in payload else payload
    if isinstance(payload_.get("tool_input"), dict):
        payload_["tool_input"] = payload_["tool_input"] | {
            name: f"{here.repository}/{here.secret(f'{host}, file', is_name=True)}"
            for name in ("file_path", "filePath")
            if name in payload_["tool_input"]
        }
    return payload_


def _named(here: Here, send: Send) -> None:
    token = {"name": here.secret("token's name")[:100], "scopes": ["read"]}
    send("POST", "/v1/tenants/default/tokens", token)
    send("GET", "/v1/status", None, Authorization=f"Bearer {here.secret('wrong token')}")
    send("GET", "/v1/status", None, Host=here.secret("host").replace("/", ""))
    send("GET", "/v1/status", None, **{"User-Agent": here.secret("user agent")})
    send("GET", f"/?key={quote(here.secret('dashboard key'))}")
    form = f"csrf={quote(here.secret('form'))}&content={quote(here.text('form, content'))}"
    form_type = {"Content-Type": "application/x-www-form-urlencoded"}
    send("POST", "/memories/new", form.encode(), **form_type)


DOORS: Sequence[Door] = (
    _named,
    _recorded,
    _ask_all,
    _changed,
    _refused,
    _by_mcp,
    _ingested,
    _by_hooks,
    _large,
)


COMMANDS: Sequence[Callable[[Here], list[str]]] = (
    lambda here: ["record", here.text("command line"), "--tag", here.secret("tag")[:90]],
    lambda here: ["import", "markdown", str(_file(here, "notes.md", here.text("Markdown")))],
    lambda here: ["hook", "claude-code"],
    lambda here: ["import", "jsonl", str(_file(here, "one.jsonl", _line(here)))],
    lambda here: ["recall", here.text("command line, query")],
    lambda here: ["list", "--project", here.secret("command line, project")],
    lambda here: ["show", here.secret("command line, id")],
)


def _file(here: Here, name: str, text: str) -> Path:
    """Write a person's own file beside the memory."""
    path = here.repository / name
    path.write_text(text + "\n")
    return path


def _line(here: Here) -> str:
    return json.dumps({"content": here.text("import, JSON Lines")})
