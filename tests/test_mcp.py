"""The MCP endpoint: both protocol eras, refusals, and messages recorded from real hosts."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import mcp_fixture
import pytest
from flask.testing import FlaskClient
from mcp_client import ENVELOPE, META, MODERN, OURS, TOKEN, error, legacy, message, modern, send
from new_tenants import new_tenants

from serve.app import create_app
from serve.mcp_server.endpoint import blueprint

HOSTS = Path(__file__).parent / "data" / "hosts"
NOW = 1_800_000_000_000_000
RECORDED = [
    pytest.param(json.loads(line), id=f"{host}-{number}")
    for host in ("claude-code", "codex")
    for number, line in enumerate((HOSTS / f"{host}.mcp.jsonl").read_text().splitlines())
]


@pytest.fixture
def client(tmp_path: Path) -> Iterator[FlaskClient]:
    with new_tenants(tmp_path) as opened:
        app = create_app(opened, TOKEN, lambda: NOW)
        app.register_blueprint(blueprint(mcp_fixture.REGISTRY, "fixture"), url_prefix="/v1/fixture")
        yield app.test_client()


# Messages recorded from real hosts


@pytest.mark.parametrize("recorded", RECORDED)
def test_recorded_host_requests_are_answered(client: FlaskClient, recorded: dict):
    sent = client.post("/mcp", json=recorded["body"], headers=recorded["headers"] | OURS)
    body = recorded["body"]
    if "id" not in body:
        assert (sent.status_code, sent.data) == (202, b"")
        return
    assert sent.status_code == 200 and sent.content_type == "application/json"
    assert sent.json["id"] == body["id"]
    assert not sent.json["result"].get("isError"), sent.json
    is_modern = "Mcp-Method" in recorded["headers"]
    assert (sent.json["result"].get("resultType") == "complete") == is_modern


def test_an_agent_is_known_by_the_name_its_host_sent(client: FlaskClient):
    for request in (param.values[0] for param in RECORDED):
        if request["body"]["method"] == "tools/call":
            call = {"name": "remember", "arguments": {"content": f"said by {request['headers']}"}}
            body = request["body"] | {"params": request["body"]["params"] | call}
            headers = request["headers"] | {"Mcp-Name": "remember"}
            client.post("/mcp", json=body, headers=headers | OURS)
    content = legacy(client, "tools/call", name="recent").json["result"]["structuredContent"]
    sources = {memory["source"] for memory in content["memories"]}
    assert sources == {"claude-code", "codex-mcp-client"}


# Both eras


@pytest.mark.parametrize("version", ["2025-03-26", "2025-06-18", "2025-11-25"])
def test_initialize_agrees_on_the_version_asked_for(client: FlaskClient, version: str):
    result = send(client, message("initialize", {"protocolVersion": version})).json["result"]
    assert result["protocolVersion"] == version
    assert result["serverInfo"]["name"] == "mnemolog"
    assert result["capabilities"].keys() == {"tools", "resources", "prompts", "completions"}


def test_initialize_offers_the_newest_it_knows_to_a_client_from_elsewhen(client: FlaskClient):
    for version in ("1999-01-01", MODERN):
        answer = send(client, message("initialize", {"protocolVersion": version}))
        assert answer.json["result"]["protocolVersion"] == "2025-11-25"


def test_discover_says_what_is_spoken_and_offered(client: FlaskClient):
    result = modern(client, "server/discover").json["result"]
    assert result["supportedVersions"][0] == MODERN
    assert result["_meta"][META + "serverInfo"]["name"] == "mnemolog"
    assert (result["ttlMs"] > 0, result["cacheScope"]) == (True, "public")


def test_the_instructions_are_short_enough_for_every_host(client: FlaskClient):
    instructions = modern(client, "server/discover").json["result"]["instructions"]
    assert "remember" in instructions.lower() and "recall" in instructions.lower()
    assert len(instructions.encode()) < 2_048


def test_removed_methods_are_unknown(client: FlaskClient):
    for method in ("initialize", "ping", "logging/setLevel", "resources/subscribe", "no/such"):
        assert error(modern(client, method, protocolVersion=MODERN)) == (404, -32601)
    assert legacy(client, "ping").json["result"] == {}
    assert error(legacy(client, "server/discover")) == (200, -32601)


def test_only_a_request_is_answered(client: FlaskClient):
    notice = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    response = {"jsonrpc": "2.0", "id": 1, "result": {}}
    for body in (notice, response, notice | {"params": {"_meta": ENVELOPE}}):
        answer = send(client, body)
        assert (answer.status_code, answer.data) == (202, b"")


def test_there_is_no_stream_to_get_and_no_session_to_delete(client: FlaskClient):
    for method in ("GET", "DELETE"):
        answer = client.open("/mcp", method=method, headers=OURS)
        assert answer.status_code == 405
        assert "POST" in answer.headers["Allow"]


def test_the_request_guard_covers_mcp(client: FlaskClient):
    body = message("ping")
    assert client.post("/mcp", json=body, headers={"Host": "127.0.0.1"}).status_code == 401
    for wrong, status in (
        ({"Host": "evil.example"}, 421),
        ({"Origin": "http://evil.example"}, 403),
    ):
        assert client.post("/mcp", json=body, headers=OURS | wrong).status_code == status


# Refusals


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", -32700),
        (b"\xff", -32700),
        (b'{"a": NaN}', -32700),
        (b"[" * 100_000, -32600),
        (message("ping", {"a": json.loads("[" * 70 + "]" * 70)}), -32600),
        ([message("ping")], -32600),
        ("ping", -32600),
        ({"id": 1, "method": "ping"}, -32600),
        (message("ping", id_=None), -32600),
        (message("ping", id_=True), -32600),
        (message("ping", id_=1.5), -32600),
        (message("ping", id_=2**60), -32600),
        (message("ping", id_=[1]), -32600),
        ({"jsonrpc": "2.0", "id": 1, "method": ["ping"]}, -32600),
        (message("ping", [1]), -32602),
        (message("ping", {"_meta": "x"}), -32602),
    ],
)
def test_malformed_messages_are_protocol_errors(client: FlaskClient, body, code: int):
    assert error(send(client, body)) == (400, code)


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", {}),
        ("tools/call", {"name": ["recall"]}),
        ("tools/call", {"name": "no_such"}),
        ("tools/call", {"name": "recall", "arguments": [1]}),
        ("tools/list", {"cursor": "x"}),
        ("prompts/get", {"name": {"a": 1}}),
        ("prompts/get", {"name": "brief", "arguments": {"topic": 1}}),
        ("prompts/get", {"name": "brief", "arguments": {"project": "../x"}}),
        ("completion/complete", {"ref": {"type": "ref/prompt", "name": "no"}, "argument": {}}),
        ("completion/complete", {"ref": [], "argument": {"name": "a", "value": "b"}}),
        ("initialize", {}),
    ],
)
def test_params_that_do_not_fit_are_an_error_that_names_them(client: FlaskClient, method, params):
    assert error(send(client, message(method, params))) == (200, -32602)


def test_modern_requests_must_name_their_client(client: FlaskClient):
    for missing in (META + "protocolVersion", META + "clientCapabilities"):
        meta = {name: value for name, value in ENVELOPE.items() if name != missing}
        body = message("tools/list", {"_meta": meta})
        answer = send(client, body, MCP_Protocol_Version=MODERN, Mcp_Method="tools/list")
        assert error(answer) == (400, -32602)


@pytest.mark.parametrize(
    "wrong",
    [
        {"MCP_Protocol_Version": "2025-11-25"},
        {"Mcp_Method": "prompts/list"},
        {"Mcp_Method": "TOOLS/CALL"},
        {"Mcp_Name": "recent"},
        {"Mcp_Name": "=?base64?cmVjYWxs!!?="},
    ],
)
def test_headers_must_match_the_body(client: FlaskClient, wrong: dict):
    headers = {"MCP_Protocol_Version": MODERN, "Mcp_Method": "tools/call", "Mcp_Name": "recall"}
    params = {"name": "recall", "arguments": {"query": "x"}, "_meta": ENVELOPE}
    assert send(client, message("tools/call", params), **headers).status_code == 200
    coded = base64.b64encode(b"recall").decode()
    same = headers | {"Mcp_Name": f"=?base64?{coded}?="}
    assert send(client, message("tools/call", params), **same).status_code == 200
    assert error(send(client, message("tools/call", params), **headers | wrong)) == (400, -32020)


def test_a_version_that_is_not_spoken_is_told_which_are(client: FlaskClient):
    meta = ENVELOPE | {META + "protocolVersion": "2030-01-01"}
    headers = {"MCP_Protocol_Version": "2030-01-01", "Mcp_Method": "tools/list"}
    answer = send(client, message("tools/list", {"_meta": meta}), **headers)
    assert error(answer) == (400, -32022)
    assert answer.json["error"]["data"]["requested"] == "2030-01-01"
    assert MODERN in answer.json["error"]["data"]["supported"]
    assert error(send(client, message("ping"), MCP_Protocol_Version="1999")) == (400, -32022)


def test_a_resource_that_is_not_there_is_named(client: FlaskClient):
    answer = modern(client, "resources/read", uri="memory://nobody")
    assert error(answer) == (400, -32602)
    assert answer.json["error"]["data"] == {"uri": "memory://nobody"}
    assert error(legacy(client, "resources/read", uri="http://elsewhere")) == (200, -32002)


# Streams, tested with the fixture: none of our own tools streams


def streamed(client: FlaskClient, **params: object) -> list[dict]:
    body = message("tools/call", {"name": "test_tool_with_progress", "arguments": {}, **params})
    answer = client.post("/v1/fixture/mcp", json=body, headers=OURS)
    if answer.content_type == "application/json":
        return [answer.json]
    assert answer.content_type.startswith("text/event-stream")
    lines = answer.text.splitlines()
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]


def test_progress_is_streamed_to_the_client_that_asked_for_it(client: FlaskClient):
    *on_the_way, last = streamed(client, _meta={"progressToken": "p"})
    assert [notification["params"]["progress"] for notification in on_the_way] == [0, 50, 100]
    assert {notification["params"]["progressToken"] for notification in on_the_way} == {"p"}
    assert last["id"] == 1 and last["result"]["content"]


def test_without_progress_the_answer_is_plain_json(client: FlaskClient):
    assert [message["id"] for message in streamed(client)] == [1]
