"""actors: the participants of the long run, each a thread with a connection of its own."""

import json
import random
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path

from client import Client

from serve.reader.reader import Reader
from serve.reader.view import View
from store.embedders.embedder import make_embedder
from store.home.config import Settings
from store.home.tenant import Tenant
from store.log.event_log import EventLog

WORDS = tuple(
    "deploy staging port cache index tenant manifest worker schema retry queue token branch "
    "release sqlite arrow parser lint build budget socket header cursor backup restore merge "
    "review timeout region bucket".split()
)
HELD_S = 40.0  # a reader that holds on; more than the time of three builds is of no use


@dataclass
class Run:
    """The shared state: the server, the acknowledged tickets, the faults and the run's end."""

    port: int
    token: str
    settings: Settings
    tenant: Tenant
    first: int = 0  # the number of the first ticket: earlier ones are another run's
    is_over: threading.Event = field(default_factory=threading.Event)
    done: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    written: list[str] = field(default_factory=list)  # tickets, acknowledged
    gone: set[str] = field(default_factory=set)  # tickets that are or will soon be forgotten

    clients: list[Client] = field(default_factory=list)

    def client(self) -> Client:
        """Return a connection for one thread; `close` ends them all."""
        self.clients.append(Client(self.port, self.token))
        return self.clients[-1]

    def close(self) -> None:
        for client in self.clients:
            client.close()

    def ask(
        self, client: Client, title: str, method: str, path: str, body: object = None
    ) -> bytes | None:
        """Ask, and count it; return None for an error, which is counted too."""
        try:
            while True:
                status, answer = client.asked(method, path, body)  # type: ignore[arg-type]
                if status != 503 or self.is_over.is_set():
                    break
                self.done["sent away (503)"] += 1
                self.is_over.wait(float(client.answered["Retry-After"]))
        except (OSError, HTTPException) as error:
            self.wrong[f"{title}: {error!r}"] += 1
            return None
        if status >= 400 and status not in (404, 409, 503):
            self.wrong[f"{title}: {status} {answer[:120]!r}"] += 1
            return None
        self.done[title] += 1
        return answer


Actor = Callable[[Run], None]


def writes(run: Run) -> None:
    """Write four memories a second, one by one, and sometimes many in a batch and the queue."""
    client, chance = run.client(), random.Random(1)
    while not run.is_over.wait(0.25):
        ticket = f"T{(run.first + len(run.written)) * 7919 + 13}"
        body = {"id": f"run-{ticket}", "content": f"Ticket {ticket} on {_words(chance)}"}
        if run.ask(client, "write", "POST", "/v1/memories", body):
            run.written.append(ticket)
        if chance.random() < 0.01:
            many = [{"content": f"{_words(chance)} {chance.getrandbits(40)}"} for _ in range(20)]
            run.ask(client, "batch", "POST", "/v1/memories/batch", {"memories": many})
            run.ask(client, "ingest", "POST", "/v1/ingest", {"memories": many})


def recalls(run: Run) -> None:
    """Recall written tickets, which must be found, and random words."""
    client, chance = run.client(), random.Random()
    while not run.is_over.wait(0.1):
        count = len(run.written)
        ticket = run.written[chance.randrange(count)] if count and chance.random() < 0.4 else ""
        request = {"query": f"Ticket {ticket}" if ticket else _words(chance)}
        if not ticket:
            request["mode"] = chance.choice(("auto", "lexical", "vector", "entity"))
        data = run.ask(client, "recall", "POST", "/v1/recall", request)
        if data is None:
            continue
        answer = json.loads(data)
        if answer["degraded"]:
            run.wrong[f"recall: degraded {answer.get('notices')}"] += 1
        ids = {hit["id"] for hit in answer["hits"]}
        if ticket and ticket not in run.gone and f"run-{ticket}" not in ids:
            run.wrong["recall: an acknowledged memory was missing"] += 1


def changes(run: Run) -> None:
    """Revise, archive, restore, rate and forget."""
    client, chance = run.client(), random.Random(2)
    while not run.is_over.wait(1.0):
        if len(run.written) < 50:
            continue
        ticket = chance.choice(run.written)
        path = f"/v1/memories/run-{ticket}"
        match chance.randrange(4):
            case 0:
                run.ask(client, "revise", "PATCH", path, {"importance": chance.random()})
            case 1:
                rating = {"id": f"run-{ticket}", "verdict": 1.0}
                run.ask(client, "rate", "POST", "/v1/rate", rating)
            case 2:
                run.gone.add(ticket)
                run.ask(client, "archive", "POST", f"{path}/archive", {})
                run.ask(client, "restore", "POST", f"{path}/restore", {})
            case _:
                run.gone.add(ticket)
                run.ask(client, "forget", "DELETE", path)


def hooks(run: Run) -> None:
    """Act as a host: sessions of some turns each, with the model's tool uses."""
    client, chance, number = run.client(), random.Random(3), 0
    while not run.is_over.is_set():
        number += 1
        whose = {"session_id": f"long-run-{number}", "cwd": str(run.settings.home)}
        tell = _telling(run, client, whose)
        tell({"hook_event_name": "SessionStart", "source": "startup"})
        for _ in range(6):
            tell({"hook_event_name": "UserPromptSubmit", "prompt": f"why {_words(chance)}?"})
            used = {"tool_name": "Bash", "tool_input": {"command": f"make {_words(chance)}"}}
            tell({"hook_event_name": "PreToolUse", **used})
            tell({"hook_event_name": "PostToolUse", **used, "tool_response": _words(chance)})
            tell({"hook_event_name": "Stop"})
            if run.is_over.wait(2.0):
                break
        tell({"hook_event_name": "SessionEnd", "reason": "exit"})


def _telling(
    run: Run, client: Client, whose: dict[str, str]
) -> Callable[[dict[str, object]], None]:
    def tell(event: dict[str, object]) -> None:
        name = f"hook {event['hook_event_name']}"
        run.ask(client, name, "POST", "/v1/hooks/claude-code", whose | event)

    return tell


def mcp(run: Run) -> None:
    """Act as an agent that asks by MCP."""
    client, chance = run.client(), random.Random(4)
    client.headers |= {"Accept": "application/json, text/event-stream"}
    number = 0
    while not run.is_over.wait(1.0):
        number += 1
        call = {"name": "recall", "arguments": {"query": _words(chance)}}
        frame = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": call}
        data = run.ask(client, "mcp", "POST", "/mcp", frame)
        if data is not None and "result" not in json.loads(data):
            run.wrong[f"mcp: {data[:120]!r}"] += 1


READ = (
    "/v1/memories?limit=50",
    "/v1/graph?entity=make",
    "/v1/entities",
    "/v1/overview?topic=deploy",
    "/v1/digest",
    "/v1/lessons",
    "/v1/goals",
    "/v1/receipts",
    "/v1/jobs",
    "/v1/proposals",
    "/metrics",
    "/v1/export",
)


def reads(run: Run) -> None:
    """Read every page of `READ` in turn."""
    client = run.client()
    while not run.is_over.is_set():
        for path in READ:
            run.ask(client, f"GET {path.partition('?')[0]}", "GET", path)
            if run.is_over.wait(1.5):
                return


def holds(run: Run) -> None:
    """Hold one state of the memory open while builds drop its files, and read it again."""
    with EventLog(run.tenant.log) as log:
        while not run.is_over.is_set():
            reader = Reader(run.tenant, log, make_embedder(run.settings.choices.embedder))
            with reader.view() as view:
                before = _current_texts(view)
                run.is_over.wait(HELD_S)
                after = _current_texts(view)
            run.done["a state held open and read again"] += 1
            if before != after:
                run.wrong["a state that was held open changed"] += 1


def _current_texts(view: View) -> list[tuple[str, str]]:
    rows = view.snapshots.rows
    return [(memory.id, memory.content) for memory in rows.take(range(len(rows)))]


ACTORS: tuple[Actor, ...] = (writes, recalls, recalls, changes, hooks, mcp, reads, holds)


def _words(chance: random.Random) -> str:
    return " ".join(chance.choices(WORDS, k=6))


def failures_of(home: Path) -> list[str]:
    """Return the lines of the server's own log that report a defect."""
    path = home / "server.txt"
    lines = path.read_text(errors="replace").splitlines() if path.exists() else []
    return [line for line in lines if "Traceback" in line or "ERROR" in line]
