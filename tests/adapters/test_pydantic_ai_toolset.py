"""An agent of Pydantic AI with the memory's tools, over a live server."""

import asyncio
from pathlib import Path
from typing import Any

from mnemolog import AsyncClient
from mnemolog.adapters.pydantic_ai import MemoryToolset
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel


def calling(tool: str, **arguments: Any) -> FunctionModel:
    """Return a model that calls one tool and repeats its answer."""

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        assert {tool.name for tool in info.function_tools} == {"recall", "remember"}
        [*_, last] = messages[-1].parts
        if isinstance(last, ToolReturnPart):
            return ModelResponse(parts=[TextPart(last.model_response_str())])
        return ModelResponse(parts=[ToolCallPart(tool, arguments)])

    return FunctionModel(answer)


def run(toolset: MemoryToolset, tool: str, **arguments: Any) -> str:
    agent = Agent(calling(tool, **arguments), toolsets=[toolset])
    return agent.run_sync("go on").output


def test_what_an_agent_remembers_is_recalled(home: Path, tenant: str):
    client = AsyncClient(home=home, tenant=tenant)
    toolset = MemoryToolset(client, project="acme/web")
    stored = run(toolset, "remember", text="Deploys go out from eu-west-1 only", kind="decision")
    assert stored.startswith("kept as ")
    answer = run(toolset, "recall", query="where do deploys go out from")
    assert "Deploys go out from eu-west-1 only" in answer and '"trust":"agent"' in answer
    assert (
        run(toolset, "recall", query="the horses of the queen of Spain")
        == "Nothing is known of this."
    )
    other = MemoryToolset(client, project="acme/other")
    assert run(other, "recall", query="where do deploys go out from") == "Nothing is known of this."
    asyncio.run(client.aclose())


def test_a_refusal_is_told_to_the_model_and_ends_no_run(home: Path, tenant: str):
    client = AsyncClient(home=home, tenant=tenant)
    answer = run(MemoryToolset(client), "remember", text=" ")
    assert answer.startswith("The memory cannot do this: ")
    asyncio.run(client.aclose())


def test_the_model_reads_what_each_tool_is_for(home: Path, tenant: str):
    sent: dict[str, Any] = {}

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        sent.update({tool.name: tool for tool in info.function_tools})
        return ModelResponse(parts=[TextPart("done")])

    toolset = MemoryToolset(AsyncClient(home=home, tenant=tenant))
    Agent(FunctionModel(answer), toolsets=[toolset]).run_sync("go on")
    assert "earlier work" in sent["recall"].description
    assert sent["recall"].parameters_json_schema["required"] == ["query"]
    assert "decision" in repr(sent["remember"].parameters_json_schema["properties"]["kind"])
