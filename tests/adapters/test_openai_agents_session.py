"""Sessions of the OpenAI Agents SDK over a live server: the tests of its own, then ours."""

import asyncio
import inspect
from pathlib import Path
from typing import Any

import pytest
from agents import Agent
from agents.memory import Session
from agents.testing import ScriptedModel
from mnemolog import AsyncClient
from mnemolog.adapters.openai_agents import MemorySession
from sources import load

THEIRS = load("openai_agents", "tests/extensions/memory/test_async_sqlite_session.py")
# tests that need SQLite: broken rows, timestamps written past it, its connections
OF_SQLITE = (
    "corrupt",
    "timestamp",
    "close",
    "cancel",
    "failed",
    "failure",
    "wal_",
    "initialization",
)


def _theirs() -> list[str]:
    return [
        name
        for name, test in inspect.getmembers(THEIRS, inspect.iscoroutinefunction)
        if name.startswith("test_")
        and {*inspect.signature(test).parameters} <= {"agent"}
        and not any(word in name for word in OF_SQLITE)
    ]


class Closing(MemorySession):
    """A session that ends its own client, as theirs ends its connection."""

    async def close(self) -> None:
        await self._client.aclose()


@pytest.mark.parametrize("name", _theirs())
def test_what_the_sdk_tests_of_its_session_holds(
    name: str, home: Path, tenant: str, monkeypatch: pytest.MonkeyPatch
):
    def make(session: str, path: object = None, **settings: Any) -> MemorySession:
        return Closing(session, AsyncClient(home=home, tenant=tenant), **settings)

    monkeypatch.setattr(THEIRS, "AsyncSQLiteSession", make)
    test = getattr(THEIRS, name)
    takes = inspect.signature(test).parameters
    asyncio.run(test(**({"agent": Agent(name="test", model=ScriptedModel())} if takes else {})))


def test_a_conversation_is_recalled_and_outlives_its_client(home: Path, tenant: str):
    call = {"type": "function_call", "call_id": "1", "name": "deploy", "arguments": "{}"}

    async def talk() -> None:
        async with AsyncClient(home=home, tenant=tenant) as client:
            session = MemorySession("chat-7", client, project="acme/web")
            assert isinstance(session, Session)
            items = [{"role": "user", "content": "We deploy to eu-west-1"}, call]
            await session.add_items(items)
        async with AsyncClient(home=home, tenant=tenant) as client:
            session = MemorySession("chat-7", client, project="acme/web")
            assert await session.get_items() == items
            assert await MemorySession("chat-7", client).get_items() == []
            answer = await client.recall("where do we deploy", project="acme/web")
            assert answer.hits[0].text == "user: We deploy to eu-west-1"
            assert (answer.hits[0].trust, answer.hits[0].session) == ("user", "chat-7")
            assert await session.pop_item() == call
            await session.clear_session()
            assert await session.get_items() == []

    asyncio.run(talk())
