"""sent: requests of hosts and MCP clients with no, one or several errors."""

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hosts_told import RECORDED, in_session
from mcp_client import ENVELOPE, MODERN, NAMED_BY
from torture.hostile_texts import hostile

from serve.mcp_server.methods import _COMMON, _LEGACY, _MODERN
from serve.mcp_server.tools import TOOLS

METHODS = [*_COMMON, *_LEGACY, *_MODERN, "tools/call", "tools/call", "no/such", "notifications/x"]
JUNK: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1.5, 2**53, 2**63, 2**64, 2**200, 1e308, "", "x", "\x00", "\ud800"),
    *("é" * 50, "a" * 5_000, "../x", "memory://", "memory://x", "\u202e", [], [[]], [1, "a"], {}),
    *({"": 0}, {"a": {"b": []}}, [{}], "2026-07-28", "2026-11-20", "recall", "ref/prompt", "brief"),
)
# bodies no encoder writes: deep, duplicate keys, NaN, not UTF-8, cut short, several values
ODD_BODIES: tuple[bytes, ...] = (
    b"[" * 100_000,
    b'{"jsonrpc":"2.0","id":1,"method":"ping","params":' + b'{"a":' * 5_000 + b"1" + b"}" * 5_001,
    b'{"jsonrpc":"2.0","id":1,"method":"ping","id":2,"method":"tools/list"}',
    b'{"jsonrpc":"2.0","id":NaN,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"recall","arguments":'
    b'{"query":"x","limit":Infinity}}}',
    b'{"jsonrpc":"2.0","id":' + b"9" * 5_000 + b',"method":"ping"}',
    b'{"jsonrpc":"2.0","id":1e400,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":"\xff\xfe","method":"ping"}',
    b'{"jsonrpc":"2.0","id":"\xc3","method":"pi',
    b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":1,"method":"ping"}{"jsonrpc":"2.0","id":2,"method":"ping"}',
    b'[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"ping"}]',
    b"[]", b"", b" ", b"null", b"0", b'"ping"', b"{}", b"\x00", b"\x1f\x8b\x08\x00",
)  # fmt: skip
_CWDS = ("/", "%00", "%ff", "a" * 300, "~", "%2e%2e", "/proc/self/fd", "%ed%a0%80", "/dev/null/x")


@dataclass(frozen=True, slots=True)
class Frame:
    """A request to MCP: its body and headers."""

    body: bytes
    headers: dict[str, str] = field(default_factory=dict)


def junk(chance: random.Random, depth: int = 0) -> Any:
    """Return a random JSON value, mostly a small one."""
    if depth < 3 and chance.random() < 0.2:
        several = [junk(chance, depth + 1) for _ in range(chance.randrange(4))]
        return several if chance.random() < 0.5 else {str(value)[:9]: value for value in several}
    if chance.random() < 0.1:
        return hostile(chance, longest=2_000)
    return chance.choice(JUNK)


def changed(chance: random.Random, value: Any) -> Any:
    """Return a value with a part missing, changed, or of another type."""
    if isinstance(value, dict) and value and chance.random() < 0.85:
        name = chance.choice(list(value))
        if chance.random() < 0.2:
            return {key: item for key, item in value.items() if key != name}
        if chance.random() < 0.2:
            return value | {chance.choice([name + "s", "id", "query", "_meta"]): junk(chance)}
        return value | {name: changed(chance, value[name])}
    if isinstance(value, list) and value and chance.random() < 0.7:
        place = chance.randrange(len(value))
        return [*value[:place], changed(chance, value[place]), *value[place + 1 :]]
    return junk(chance)


def frame(chance: random.Random) -> Frame:
    """Return a request to MCP of either revision, sometimes an invalid one."""
    if chance.random() < 0.03:
        return Frame(chance.choice(ODD_BODIES))
    method = chance.choice(METHODS)
    params: dict[str, Any] = {"name": "brief", "arguments": {}, "uri": "memory://x"}
    params |= {"protocolVersion": MODERN, "argument": {"name": "id", "value": ""}}
    params |= {"ref": {"type": "ref/resource", "uri": "memory://{id}"}}
    if chance.random() < 0.3:
        params["uri"] = f"memory://{hostile(chance, longest=200)}"
    if method == "tools/call":
        tool = chance.choice(TOOLS)
        params |= {"name": tool.name, "arguments": _arguments(chance, tool)}
    headers = {"X_Mnemolog_Cwd": chance.choice(_CWDS)}
    if chance.random() < 0.5:
        params["_meta"] = ENVELOPE | {"progressToken": junk(chance), "threadId": junk(chance)}
        named = params.get(NAMED_BY.get(method, ""))
        headers |= {"MCP_Protocol_Version": MODERN, "Mcp_Method": method}
        headers |= (
            {"Mcp_Name": named}
            if isinstance(named, str) and named.isascii() and named.isprintable()
            else {}
        )
    if chance.random() < 0.05:
        headers["X_Mnemolog_Tenant"] = chance.choice(["nobody", "../x", "default"])
    if chance.random() < 0.05:
        headers["Mcp_Session_Id"] = chance.choice(["1", "x" * 500, "\xff"])
    body: Any = {"jsonrpc": "2.0", "id": chance.randrange(99), "method": method, "params": params}
    for _ in range(chance.choice([0, 0, 1, 1, 2, 5])):
        body = changed(chance, body)
    return Frame(_torn(chance, json.dumps(body).encode()), headers)


def _arguments(chance: random.Random, tool: Any) -> dict[str, Any]:
    names = [*tool.takes.names, *list(tool.takes.aliases)[:3]]
    chosen = chance.sample(names, chance.randrange(len(names) + 1))
    likely = ("a text of words", 3, "helped", hostile(chance, longest=3_000))
    return {name: chance.choice([junk(chance), *likely]) for name in chosen}


def _torn(chance: random.Random, body: bytes) -> bytes:
    """Return a body, sometimes cut short or with changed bytes."""
    if chance.random() < 0.03:
        return body[: chance.randrange(len(body) + 1)]
    if chance.random() < 0.03:
        place = chance.randrange(len(body))
        return body[:place] + chance.randbytes(chance.randrange(4)) + body[place + 1 :]
    return body


_NAMES: Sequence[str] = sorted(
    {name for payloads in RECORDED.values() for payload in payloads for name in payload}
    | {"tool_result", "agent_id", "is_interrupt", "metadata", "exit_code", "error", "mcp_server"}
)
TOLD = [(host, payload) for host, payloads in RECORDED.items() for payload in payloads]
TOLD += [
    (host, payload) for host in RECORDED for _, payload in TOLD[::3]
]  # to another host's route


def event(chance: random.Random) -> tuple[str, bytes]:
    """Return a host and a body: a recorded event, with parts changed or missing."""
    host, payload = chance.choice(TOLD)
    body: Any = in_session(payload, f"s{chance.randrange(9_999)}")
    for _ in range(chance.choice((0, 0, 1, 1, 2))):
        if isinstance(body, dict) and chance.random() < 0.3:
            body = body | {chance.choice(_NAMES): junk(chance)}
        else:
            body = changed(chance, body)
    if isinstance(body, dict) and "prompt" in body and chance.random() < 0.5:
        body = body | {"prompt": hostile(chance, longest=20_000)}
    if chance.random() < 0.01:
        return host, chance.choice(ODD_BODIES)
    return host, _torn(chance, json.dumps(body).encode())
