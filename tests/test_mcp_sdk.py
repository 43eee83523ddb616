"""The official SDK's client as a judge: over standard input and output, and over HTTP."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from background import ROOT, end, said

from store.home.config import Settings
from store.home.registry import HOST, live_server

pytest.importorskip("mcp", reason="the MCP SDK is not installed: `pip install mcp`")
from mcp import Client, MCPError
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp_types import PromptReference, ResourceTemplateReference

BRIDGE = ROOT / "serve" / "mcp_bridge.py"
RULE = "Use pnpm here, never npm"
ERAS = {"legacy": "2025-11-25", "auto": "2026-07-28", "2026-07-28": "2026-07-28"}


@pytest.fixture(autouse=True)
def server(home: Path) -> Iterator[None]:
    said("start")
    yield
    end(home)


@asynccontextmanager
async def connected(home: Path, way: str, era: str) -> AsyncIterator[Client]:
    """Yield an SDK client, which validates the answers against the protocol's schemas."""
    if way == "stdio":
        words = ["-I", "-S", str(BRIDGE), "--home", str(home)]
        command = StdioServerParameters(command=sys.executable, args=words, env=dict(os.environ))
        async with Client(stdio_client(command), mode=era) as client:
            yield client
        return
    server = live_server(Settings(home))
    assert server is not None
    token = {"Authorization": f"Bearer {(home / 'token').read_text()}"}
    url = f"http://{HOST}:{server.port}/mcp"
    async with create_mcp_http_client(headers=token) as http:
        async with Client(streamable_http_client(url, http_client=http), mode=era) as client:
            yield client


async def session(client: Client) -> dict[str, Any]:
    """Use every feature; return the facts that must be equal for every transport and era."""
    tools = (await client.list_tools()).tools
    id_ = (await called(client, "remember", text=RULE, kind="preference", tags=["npm"]))["id"]
    resource = (await client.list_resources()).resources[0]
    template, episodes = (await client.list_resource_templates()).resource_templates
    read = await client.read_resource(resource.uri)
    brief = await client.get_prompt("brief", {"topic": "npm"})
    topic = {"name": "topic", "value": "n"}
    unknown = await client.call_tool("recall", {"question_": "x"})
    facts = {
        "tools": [json.dumps(tool.model_dump(mode="json"), sort_keys=True) for tool in tools],
        "recalled": (await called(client, "recall", q="npm or pnpm?"))["memories"][0],
        "updated": (await called(client, "update_memory", id=id_, importance=0.9))["said"],
        "overview": (await called(client, "project_overview"))["background"][0]["text"],
        "goal": (await called(client, "goals", content="Ship with pnpm only"))["said"],
        "rated": (await called(client, "feedback", id=id_, verdict="helped"))["verdict"],
        "history": (await called(client, "history", id=id_))["memories"][0]["until"],
        "why": (await called(client, "why", query="npm or pnpm?", id=id_))["said"].split(":")[0],
        "timeline": (await called(client, "timeline", topic="npm"))["memories"][0]["text"],
        "as_of": (await called(client, "recall", query="npm", as_of="2020-01-01"))["said"][:7],
        "episodes": episodes.uri_template,
        "recent": len((await called(client, "recent"))["memories"]),
        "resource": (resource.title, template.uri_template, read.contents[0].mime_type),
        "brief": RULE in brief.messages[0].content.text,
        "topics": (await completed(client, PromptReference(name="brief"), topic)),
        "ids": id_
        in await completed(
            client,
            ResourceTemplateReference(uri=template.uri_template),
            {"name": "id", "value": id_[:20]},
        ),
        "unknown": (unknown.is_error, unknown.content[0].text),
        "forgotten": (await called(client, "forget", id=id_))["said"].split("`")[0],
    }
    with pytest.raises(MCPError, match="unknown resource"):
        await client.read_resource(resource.uri)
    facts["recalled"] = {
        name: facts["recalled"][name] for name in ("kind", "role", "trust", "text")
    }
    return facts


async def called(client: Client, tool: str, **arguments: object) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return result.structured_content


async def completed(client: Client, ref: Any, argument: dict[str, str]) -> list[str]:
    return (await client.complete(ref, argument)).completion.values


@pytest.mark.parametrize("way", ["stdio", "http"])
def test_the_official_client_sees_the_same_in_every_era(home: Path, way: str):
    async def seen(era: str) -> dict[str, Any]:
        async with connected(home, way, era) as client:
            assert client.protocol_version == ERAS[era]
            if era != "2026-07-28":  # a pinned client sends no request before the first call
                assert "long-term memory" in client.instructions
            return await session(client)

    first, *others = [asyncio.run(seen(era)) for era in ERAS]
    assert first["recalled"]["text"] == RULE and first["recalled"]["role"] == "fact"
    assert first["brief"] and first["ids"] and first["topics"] == ["npm"]
    assert first["history"] is None and first["timeline"] == RULE
    assert first["why"] == "Returned as number 1" and first["as_of"] == "Nothing"
    assert first["unknown"][0] and "'question_'" in first["unknown"][1]
    for other in others:
        recent, goals = other.pop("recent"), first["recent"]
        assert recent > goals  # each left a goal behind
        assert other == {name: value for name, value in first.items() if name != "recent"}


def test_calls_at_once_are_each_answered_as_their_own(home: Path):
    async def run() -> list[str]:
        async with connected(home, "stdio", "auto") as client:
            calls = [called(client, "remember", content=f"service {n} is red") for n in range(12)]
            ids = [memory["id"] for memory in await asyncio.gather(*calls)]
            answers = await asyncio.gather(*(called(client, "get_memory", id=id_) for id_ in ids))
            return [answer["memories"][0]["text"] for answer in answers]

    assert asyncio.run(run()) == [f"service {n} is red" for n in range(12)]
