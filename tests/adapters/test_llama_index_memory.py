"""LlamaIndex's memory with a block over a live server."""

import asyncio
from pathlib import Path

from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.memory import Memory
from mnemolog import AsyncClient
from mnemolog.adapters.llama_index import MemoryBlock


def ask(memory: Memory, query: str) -> str:
    """Return the whole context that the model would get before a query."""
    messages = asyncio.run(memory.aget(input=query))
    return "\n".join(message.content or "" for message in messages)


def test_what_bears_on_the_last_message_is_told(home: Path, tenant: str):
    async def talk() -> str:
        async with AsyncClient(home=home, tenant=tenant) as client:
            await client.record("Deploys go out from eu-west-1 only", kind="decision")
            await client.record("Ana likes pizza with olives")
            block = MemoryBlock(client=client)
            memory = Memory.from_defaults(session_id="chat-7", memory_blocks=[block])
            await memory.aput(ChatMessage(role="user", content="where do deploys go out from"))
            messages = "\n".join(message.content or "" for message in await memory.aget())
            assert await block.aget([ChatMessage(role="user", content="horses of Spain")]) == ""
            assert await block.aget([]) == ""
            return messages

    messages = asyncio.run(talk())
    assert "decision: Deploys go out from eu-west-1 only" in messages and "olives" not in messages


def test_what_leaves_the_short_term_memory_is_recorded_and_recalled(home: Path, tenant: str):
    messages = [
        ChatMessage(role="user", content="The staging database is called heron"),
        ChatMessage(role="assistant", content="Noted: heron it is"),
        ChatMessage(role=MessageRole.TOOL, content="heron answers on port 5433"),
    ]
    filler = [ChatMessage(role="user", content=f"and then {n} " + "word " * 40) for n in range(6)]

    async def talk() -> None:
        async with AsyncClient(home=home, tenant=tenant) as client:
            block = MemoryBlock(client=client, project="acme/web")
            memory = Memory.from_defaults(
                session_id="chat-8",
                memory_blocks=[block],
                token_limit=300,
                chat_history_token_ratio=0.5,
                token_flush_size=100,
            )
            await memory.aput_messages([*messages, *filler])
            memories = [memory async for memory in client.memories.list(session=["chat-8"])]
            trusts = {memory.text: memory.trust for memory in memories}
            assert trusts["user: The staging database is called heron"] == "user"
            assert trusts["assistant: Noted: heron it is"] == "agent"
            assert trusts["tool: heron answers on port 5433"] == "tool"
            assert {memory.kind for memory in memories} == {"raw_turn"}
            text = await block.aget([ChatMessage(role="user", content="the staging database?")])
            assert "called heron" in text

    asyncio.run(talk())
