"""A client of the MCP endpoint: the requests of each era, through Flask's test client."""

import json
from typing import Any

from flask.testing import FlaskClient
from werkzeug.test import TestResponse

TOKEN = "the-owner's-token"
OURS = {"Host": "127.0.0.1:7437", "Authorization": f"Bearer {TOKEN}"}
MODERN = "2026-07-28"
META = "io.modelcontextprotocol/"
ENVELOPE = {
    META + "protocolVersion": MODERN,
    META + "clientInfo": {"name": "tester", "version": "1"},
    META + "clientCapabilities": {},
}
NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


def message(method: str, params: object = None, id_: object = 1) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id_, "method": method} | (
        {} if params is None else {"params": params}
    )


def send(client: FlaskClient, body: object, **headers: str) -> TestResponse:
    """Post a body unchanged, with the given headers: `Mcp_Name` stands for Mcp-Name."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return client.post("/mcp", data=data, content_type="application/json", headers=OURS | named)


def modern(client: FlaskClient, method: str, **params: object) -> TestResponse:
    """Send a request as a client of 2026-07-28 does, with headers that match the body."""
    headers = {"MCP_Protocol_Version": MODERN, "Mcp_Method": method}
    if isinstance(name := params.get(NAMED_BY.get(method, "")), str):
        headers["Mcp_Name"] = name
    return send(client, message(method, params | {"_meta": ENVELOPE}), **headers)


def legacy(client: FlaskClient, method: str, **params: object) -> TestResponse:
    """Send a request as a client that sent `initialize` before."""
    return send(client, message(method, params), MCP_Protocol_Version="2025-06-18")


def error(answer: TestResponse) -> tuple[int, int]:
    """Return the status and the code of a JSON-RPC error."""
    assert answer.json["jsonrpc"] == "2.0" and answer.json["error"]["message"]
    return answer.status_code, answer.json["error"]["code"]
