"""
rpc: any input to MCP and to the hooks, also through their clients, is answered by the protocol and
logs no defect.
"""

import json
import logging
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from flask.testing import FlaskClient
from hosts_told import schema
from mcp_client import TOKEN, send
from torture import pipes
from torture.outcome import Outcome, Scale
from torture.sent import event, frame

from serve.app import create_app
from serve.hosts import HOSTS
from serve.hosts.event import decode_payload
from serve.server.open_tenants import OpenTenants
from store.home import tenant
from store.home.config import Settings
from store.log import commands
from store.log.commands import Draft
from store.log.event_log import EventLog

NOW = 1_800_000_000_000_000
KEPT = 200  # requests between two writes of receipts, as a server does every second
NOTES = (
    ("the login test fails when the clock is mocked", "lesson"),
    ("use pnpm, never npm", "lesson"),
    ("We deploy to eu-west-1 on Mondays", "fact"),
)


def attack(folder: Path, scale: Scale) -> Iterator[Outcome]:
    """Yield the outcomes of frames and events, in process and through the bridge and the client."""
    with served(folder / "served") as (client, opened):
        yield _frames(client, opened, scale.of(600, 20_000))
        yield _events(client, opened, scale.of(600, 20_000))
    yield from pipes.attacked(folder / "pipes", scale)


@contextmanager
def served(home: Path) -> Iterator[tuple[FlaskClient, OpenTenants]]:
    """Yield a client of a memory with a few notes, and its tenants."""
    with EventLog(tenant.tenant(home).log, create=True) as log:
        for text, kind in NOTES:
            commands.record(log, Draft(content=text, kind=kind, importance=1.0), NOW)
    opened = OpenTenants(Settings(home))
    # the load of this machine is not under test
    app = create_app(opened, TOKEN, lambda: NOW, hook_deadline_s=60.0)
    try:
        yield app.test_client(), opened
    finally:
        opened.close()


class Defects(logging.Handler):
    """The logged defects of ours."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.told: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        cause = record.exc_info[1] if record.exc_info else None
        self.told.append(f"{record.getMessage()[:200]}: {cause!r:.200}")


@contextmanager
def listened() -> Iterator[Defects]:
    """Yield the defects that are logged meanwhile."""
    defects = Defects()
    logging.getLogger().addHandler(defects)
    try:
        yield defects
    finally:
        logging.getLogger().removeHandler(defects)


def _frames(client: FlaskClient, opened: OpenTenants, count: int) -> Outcome:
    chance, statuses, wrong = random.Random(5), Counter[int](), list[str]()
    with listened() as defects:
        for number in range(count):
            request = frame(chance)
            answer = send(client, request.body, **request.headers)
            statuses[answer.status_code] += 1
            fault = _fault(answer.status_code, answer.data) or "; ".join(defects.told)
            if fault:
                wrong.append(f"frame {number}: {fault}: {request.body!r:.300} {request.headers}")
                defects.told.clear()
            if number % KEPT == 0:
                opened.get("default").notes.write()
    if statuses[200] < count / 4:
        wrong.append(f"only {statuses[200]} came through to the methods")
    counts = ", ".join(
        f"{number:,} answered {status}" for status, number in sorted(statuses.items())
    )
    return Outcome("MCP frames", count, "frames", wrong, counts, floor=20_000)


def _fault(status: int, body: bytes) -> str:
    """Return the fault of an MCP response, or an empty text."""
    if status not in (200, 202, 400, 404):
        return f"{status}: {body!r:.200}"
    if status == 202:
        return "" if not body else "a notification is answered by nothing"
    return message_fault(json.loads(body))


def message_fault(message: Any) -> str:
    """Return the fault of a JSON-RPC message, or an empty text."""
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0" or "id" not in message:
        return f"no message: {message!r:.200}"
    if ("result" in message) == ("error" in message):
        return f"either a result or an error: {message!r:.200}"
    is_ours = "error" in message and message["error"].get("code") == -32603
    return f"an internal error: {message!r:.300}" if is_ours else ""


def _events(client: FlaskClient, opened: OpenTenants, count: int) -> Outcome:
    chance, statuses, wrong = random.Random(6), Counter[int](), list[str]()
    with listened() as defects:
        for number in range(count):
            host, body = event(chance)
            headers = {"Host": "127.0.0.1", "Authorization": f"Bearer {TOKEN}"}
            answer = client.post(
                f"/v1/hooks/{host}", data=body, headers=headers, content_type="application/json"
            )
            statuses[answer.status_code] += 1
            fault = "; ".join(defects.told) or event_fault(
                host, body, answer.status_code, answer.data
            )
            if fault:
                wrong.append(f"event {number} to {host}: {fault}: {body!r:.400}")
                defects.told.clear()
            if number % KEPT == 0:
                opened.get("default").notes.write()
    if statuses[200] < count / 50 or statuses[204] < count / 10:
        wrong.append(f"too few came through: {statuses}")
    counts = ", ".join(
        f"{number:,} answered {status}" for status, number in sorted(statuses.items())
    )
    return Outcome("hook events", count, "events", wrong, counts, floor=20_000)


def event_fault(host: str, body: bytes, status: int, answer: bytes) -> str:
    """Return the fault of a hook's response: unreadable to a host, or a failure."""
    if status == 204:
        return "" if not answer else "204 with a body"
    if status == 400:
        return "" if json.loads(answer).get("detail") else "refused without a word"
    if status != 200:
        return f"{status}: {answer!r:.200}"
    named = HOSTS[host].read(decode_payload(body))
    if named is None:
        return "an event that is none was answered"
    errors = list(schema(host, named.name).iter_errors(json.loads(answer)))
    return f"not in the host's schema: {errors[0].message:.200}" if errors else ""
