"""
Clients generated from the API's document accept every answer of a live server: in Python
(openapi-python-client) and in TypeScript (Hey API, which checks answers by its own schemas).

The TypeScript tools need Node 22 and come with `make node-tools`; without them, that half is
skipped.
"""

import importlib
import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from api_client import TOKEN
from api_memory import NOW, populated
from background import served
from conftest import ROOT, Built

from serve.app import create_app
from serve.server.open_tenants import OpenTenants
from store.log.event_kinds import Acted, Prompted, Recorded, SessionTold
from store.log.events import Event

NODE = ROOT / ".node"
HEY_API = NODE / "node_modules" / "@hey-api" / "openapi-ts"
NOTE = {"content": "the deploy runs at noon"}
# one call a line: the operation, its path parameters, its query, its body; a value with $ is taken
# from the answer kept under that name
CALLS: list[dict[str, Any]] = [
    {"op": "recall", "body": {"query": "what listens", "kinds": ["episode"], "min_confidence": 0}},
    {"op": "recall", "body": {"query": "what listens", "explain": True}, "keep": "recalled"},
    {"op": "recall", "body": {"query": "who prefers rebase over merge", "min_confidence": 0}},
    {"op": "searchMemories", "body": {"query": "deploy region", "top_k": 50, "min_confidence": 0}},
    {"op": "rate", "body": {"id": "$recalled.recall", "verdict": 1}},
    {"op": "createMemory", "body": NOTE | {"id": "n1", "kind": "decision"}},
    {"op": "createMemory", "body": NOTE | {"id": "n1", "kind": "decision"}},
    {"op": "createMemories", "body": {"memories": [NOTE | {"id": "n2"}, NOTE]}},
    {"op": "listMemories", "query": {"state": "any", "limit": 200}},
    {"op": "listMemories", "query": {"kind": ["episode"]}},
    {"op": "getMemory", "path": {"id": "n1"}},
    {"op": "getMemory", "path": {"id": "ep1"}},
    {"op": "getMemory", "path": {"id": "st1"}},
    {"op": "reviseMemory", "path": {"id": "n1"}, "body": {"pinned": True, "tags": ["x"]}},
    {"op": "getHistory", "path": {"id": "n1"}},
    {"op": "getLineage", "path": {"id": "ep1"}},
    {"op": "getLineage", "path": {"id": "n1"}},
    {"op": "getKeyHistory", "path": {"key": "deploy.region"}},
    {"op": "archiveMemory", "path": {"id": "n1"}, "body": {"reason": "old"}},
    {"op": "restoreMemory", "path": {"id": "n1"}, "body": {}},
    {"op": "supersedeMemory", "path": {"id": "n1"}, "body": {"by": "n2"}},
    {"op": "linkMemory", "path": {"id": "n2"}, "body": {"target": "m01", "relation": "cause"}},
    {"op": "forgetMemory", "path": {"id": "n2"}},
    {"op": "exportMemories", "query": {"all_states": True}},
    {"op": "getOverview", "query": {"topic": "deploy"}},
    {"op": "listLessons"},
    {"op": "getDigest", "query": {"since": "90d"}},
    {"op": "listFacts", "query": {"all": True}},
    {"op": "listConflicts"},
    {"op": "listGoals"},
    {"op": "listEntities", "query": {"limit": 5}, "keep": "entities"},
    {"op": "getNeighbourhood", "query": {"entity": "$entities.entities.0.name"}},
    {"op": "listProposals", "query": {"state": "waiting"}, "keep": "waiting"},
    {"op": "getProposal", "path": {"id": "$waiting.proposals.0.id"}},
    {"op": "acceptProposal", "path": {"id": "$waiting.proposals.0.id"}, "body": {}},
    {"op": "undoProposal", "path": {"id": "$waiting.proposals.0.id"}, "body": {}},
    {"op": "rejectProposal", "path": {"id": "$waiting.proposals.1.id"}, "body": {}},
    {"op": "listProposals", "query": {"state": "undone"}},
    {"op": "listReceipts", "keep": "receipts"},
    {"op": "getReceipt", "path": {"id": "$receipts.receipts.0.id"}},
    {"op": "ingest", "body": {"memories": [NOTE]}, "keep": "job"},
    {"op": "listJobs"},
    {"op": "getJob", "path": {"id": "$job.id"}},
    {"op": "createTenant", "body": {"tenant": "acme"}},
    {"op": "listTenants"},
    {"op": "getTenant", "path": {"tenant": "acme"}},
    {"op": "getTenantStats", "path": {"tenant": "default"}},
    {
        "op": "createToken",
        "path": {"tenant": "acme"},
        "body": {"name": "ci", "scopes": ["read"]},
        "keep": "token",
    },
    {"op": "listTokens", "path": {"tenant": "acme"}},
    {"op": "revokeToken", "path": {"tenant": "acme", "id": "$token.id"}},
    {"op": "deleteTenant", "path": {"tenant": "acme"}},
    {"op": "getHealth"},
    {"op": "getOpenApi"},
]
# a refusal is an answer, too; a test server has no background threads and is never ready
REFUSED = [
    {"op": "getReadiness"},
    {"op": "getMemory", "path": {"id": "nobody"}},
    {"op": "recall", "body": {"query": "x", "top_k": 0}},
    {"op": "requeueJob", "path": {"id": "nobody"}, "body": {}},
]
TEXT = {"getMetrics"}  # for Prometheus: no JSON
LINES = "exportMemories"  # one JSON object per line, which openapi-python-client does not decode


@pytest.fixture
def port(built: Built, built_tenants: OpenTenants) -> Iterator[int]:
    """Serve a memory with an example of everything; yield the port."""
    populated(built)
    turn = {"project": None, "session": "s9", "agent": "claude-code"}
    text = "I always prefer rebase over merge"
    built.log.append(
        [
            Event("ep1", NOW + 20, Prompted(prompt=f"What listens? {text}"), "ep1", **turn),
            Event(
                "st1",
                NOW + 20,
                Recorded(content=text, kind="statement", insight_type="preference"),
                "st1",
                **turn,
            ),
            Event(
                "ac1",
                NOW + 21,
                Acted(tool="Bash", doing="run", command="ss -ltn", passed=True),
                "ac1",
                **turn,
            ),
            Event("ss1", NOW + 22, SessionTold(stage="stopped", said="The server."), "ss1", **turn),
        ]
    )
    built.rebuild()
    with served(create_app(built_tenants, TOKEN, lambda: NOW + 99)) as at:
        yield at


@pytest.fixture
def document(port: int, tmp_path: Path) -> Path:
    import urllib.request

    path = tmp_path / "openapi.json"
    asked = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/openapi.json", headers={"Authorization": f"Bearer {TOKEN}"}
    )
    with urllib.request.urlopen(asked) as answer:
        path.write_bytes(answer.read())
    return path


def resolve(value: Any, kept: Mapping[str, Any]) -> Any:
    """Return a value with its $ references replaced from the kept answers."""
    if isinstance(value, dict):
        return {name: resolve(inner, kept) for name, inner in value.items()}
    if not (isinstance(value, str) and value.startswith("$")):
        return value
    name, *path = value[1:].split(".")
    found = kept[name]
    for part in path:
        found = found[int(part)] if part.isdigit() else found[part]
    return found


def test_every_operation_is_asked(document: Path):
    paths = json.loads(document.read_text())["paths"]
    declared = {method["operationId"] for methods in paths.values() for method in methods.values()}
    assert declared == {call["op"] for call in (*CALLS, *REFUSED)} | TEXT


def test_a_python_client_takes_every_answer(document: Path, port: int, monkeypatch):
    from openapi_python_client import Config, MetaType, generate
    from openapi_python_client.config import ConfigFile

    config = Config.from_sources(
        ConfigFile(post_hooks=[]),
        MetaType.NONE,
        document,
        "utf-8",
        False,
        document.parent / "made_client",
    )
    errors = generate(config=config)
    assert [error.header for error in errors if "/v1/export" not in (error.header or "")] == []
    monkeypatch.syspath_prepend(str(document.parent))
    client = importlib.import_module("made_client.client").AuthenticatedClient(
        base_url=f"http://127.0.0.1:{port}", token=TOKEN, raise_on_unexpected_status=True
    )
    kept: dict[str, Any] = {}
    with client:
        for call in (*CALLS, *REFUSED):
            if call["op"] == LINES:
                continue
            answer = ask_in_python(client, document, call, kept)
            if call in REFUSED:
                assert answer.status_code >= 400 and answer.parsed.code, call
                continue
            assert answer.status_code < 300, (call, answer.content)
            assert answer.parsed is not None or not answer.content, call
            if "keep" in call:
                kept[call["keep"]] = json.loads(answer.content)


def ask_in_python(client: Any, document: Path, call: Mapping[str, Any], kept: Any) -> Any:
    """Return the generated client's answer to a call."""
    words = "".join(f"_{c.lower()}" if c.isupper() else c for c in call["op"])
    paths = json.loads(document.read_text())["paths"]
    [tag] = [
        method["tags"][0]
        for methods in paths.values()
        for method in methods.values()
        if method["operationId"] == call["op"]
    ]
    run = importlib.import_module(f"made_client.api.{tag}.{words}").sync_detailed
    parameters = resolve(call.get("path", {}) | call.get("query", {}), kept)
    hints = get_type_hints(run)
    if "body" in call:
        parameters["body"] = hints["body"].from_dict(resolve(call["body"], kept))
    named = {name if name in hints else f"{name}_": value for name, value in parameters.items()}
    return run(client=client, **{name: typed(value, hints[name]) for name, value in named.items()})


def typed(value: Any, hint: Any) -> Any:
    """Return a value as a generated function takes it: vocabulary words become enums."""
    [*enums] = [
        enum
        for part in (hint, *get_args(hint))
        for enum in (part, *get_args(part))
        if isinstance(enum, type) and issubclass(enum, Enum)
    ]
    if not enums:
        return value
    return [enums[0](item) for item in value] if isinstance(value, list) else enums[0](value)


@pytest.mark.skipif(not HEY_API.exists(), reason="no Hey API in .node: run `make node-tools`")
def test_a_typescript_client_takes_every_answer(document: Path, port: int):
    folder = document.parent
    (folder / "node_modules").symlink_to(NODE / "node_modules")
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "calls.json").write_text(json.dumps({"calls": CALLS, "refused": REFUSED}))
    (folder / "ask.ts").write_text((Path(__file__).parent / "generated_client.ts").read_text())
    environ = os.environ | {
        "PATH": os.pathsep.join([str(NODE / "bin"), os.environ["PATH"]]),
        "MNEMOLOG_URL": f"http://127.0.0.1:{port}",
        "MNEMOLOG_TOKEN": TOKEN,
    }

    def run(*words: str) -> str:
        result = subprocess.run(words, cwd=folder, env=environ, capture_output=True, text=True)
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout

    (folder / "openapi-ts.config.mjs").write_text(
        "export default { input: './openapi.json', output: { path: './ts', module: "
        "{ extension: '.ts' } }, logs: { level: 'silent' }, plugins: ['@hey-api/client-fetch', "
        "'@hey-api/typescript', 'zod', { name: '@hey-api/sdk', validator: true }] };"
    )
    run("node", str(HEY_API / "bin" / "run.js"), "-f", "openapi-ts.config.mjs")
    options = ["--noEmit", "--strict", "--allowImportingTsExtensions", "--skipLibCheck"]
    shape = ["--target", "es2022", "--module", "nodenext", "--moduleResolution", "nodenext"]
    run("node", "node_modules/typescript/bin/tsc", *options, *shape, "ts/sdk.gen.ts")
    answered = run("node", "--disable-warning=ExperimentalWarning", "ask.ts")
    assert answered.split() == [str(len(CALLS)), "taken,", str(len(REFUSED)), "refused"]
