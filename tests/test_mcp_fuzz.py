"""
Whatever is sent to the MCP endpoint, no request ends in a failure of the server.

2,000 requests here; as many as FUZZED says with `make torture`.
"""

import json
import os
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient
from mcp_client import ENVELOPE, MODERN, NAMED_BY, TOKEN, send

from serve.app import create_app
from serve.mcp_server.methods import _COMMON, _LEGACY, _MODERN
from serve.mcp_server.tools import OURS
from serve.process.tenants import OpenTenants
from store import tenant
from store.config import Settings
from store.log import EventLog

FUZZED = int(os.environ.get("FUZZED", "2000"))
NOW = 1_800_000_000_000_000
METHODS = [*_COMMON, *_LEGACY, *_MODERN, "tools/call", "tools/call", "no/such", "notifications/x"]
JUNK: list[Any] = [
    *(None, True, False, 0, -1, 1.5, 2**53, 2**63, 2**64, 2**200, 1e308, "", "x", "\x00", "\ud800"),
    *("é" * 50, "a" * 5_000, "../x", "memory://", "memory://x", "\u202e", [], [[]], [1, "a"], {}),
    *({"": 0}, {"a": {"b": []}}, [{}], "2026-07-28", "2026-11-20", "recall", "ref/prompt", "brief"),
]


@pytest.fixture
def client(tmp_path: Path) -> Iterator[FlaskClient]:
    EventLog(tenant.tenant(tmp_path).log, create=True).close()
    opened = OpenTenants(Settings(tmp_path))
    yield create_app(opened, TOKEN, lambda: NOW).test_client()
    opened.close()


def junk(chance: random.Random, depth: int = 0) -> Any:
    """Return any JSON value, mostly small ones."""
    if depth < 3 and chance.random() < 0.2:
        several = [junk(chance, depth + 1) for _ in range(chance.randrange(4))]
        return several if chance.random() < 0.5 else {str(one)[:9]: one for one in several}
    return chance.choice(JUNK)


def changed(chance: random.Random, value: Any) -> Any:
    """Return a value with a part of it missing, changed, or of another kind."""
    if isinstance(value, dict) and value and chance.random() < 0.85:
        name = chance.choice(list(value))
        if chance.random() < 0.2:
            return {key: one for key, one in value.items() if key != name}
        if chance.random() < 0.2:
            return value | {chance.choice([name + "s", "id", "query", "_meta"]): junk(chance)}
        return value | {name: changed(chance, value[name])}
    return junk(chance)


def arguments(chance: random.Random, tool: Any) -> dict[str, Any]:
    names = [*tool.takes.names, *list(tool.takes.aliases)[:3]]
    chosen = chance.sample(names, chance.randrange(len(names) + 1))
    return {name: chance.choice([junk(chance), "a text of words", 3, "helped"]) for name in chosen}


def sent(chance: random.Random) -> tuple[Any, dict[str, str]]:
    """Return a request, right but for nothing, one thing or several."""
    method = chance.choice(METHODS)
    params: dict[str, Any] = {"name": "brief", "arguments": {}, "uri": "memory://x"}
    params |= {"protocolVersion": MODERN, "argument": {"name": "id", "value": ""}}
    params |= {"ref": {"type": "ref/resource", "uri": "memory://{id}"}}
    if method == "tools/call":
        tool = chance.choice(OURS)
        params |= {"name": tool.name, "arguments": arguments(chance, tool)}
    headers = {}
    if chance.random() < 0.5:
        params["_meta"] = ENVELOPE | {"progressToken": junk(chance), "threadId": junk(chance)}
        named = params.get(NAMED_BY.get(method, ""))
        headers = {"MCP_Protocol_Version": MODERN, "Mcp_Method": method}
        headers |= {"Mcp_Name": named} if isinstance(named, str) else {}
    headers |= {"X_Mnemolog_Cwd": chance.choice(["/", "%00", "%ff", "a" * 300, "~", "%2e%2e"])}
    if chance.random() < 0.05:
        headers["X_Mnemolog_Tenant"] = chance.choice(["nobody", "../x", "default"])
    body: Any = {"jsonrpc": "2.0", "id": chance.randrange(99), "method": method, "params": params}
    for _ in range(chance.choice([0, 1, 1, 2, 5])):
        body = changed(chance, body)
    return body, headers


def test_no_request_is_a_failure_of_the_server(client: FlaskClient):
    chance, statuses = random.Random(5), Counter[int]()
    for number in range(FUZZED):
        body, headers = sent(chance)
        text = json.dumps(body)
        if chance.random() < 0.03:
            text = text[: chance.randrange(len(text) + 1)]
        answer = send(client, text.encode(), **headers)
        statuses[answer.status_code] += 1
        assert answer.status_code < 500, (number, body, headers, answer.text)
        if answer.status_code != 202:
            assert answer.json["jsonrpc"] == "2.0" and ("result" in answer.json) != (
                "error" in answer.json
            )
    assert statuses.keys() <= {200, 202, 400, 404}
    assert statuses[200] > FUZZED / 4  # most of it came through to the methods
