"""
MemorySession: a conversation of the OpenAI Agents SDK, kept in a memory.

Each item of the conversation is a memory of kind `raw_turn` in the session of that name: it is
stored whole, and its words are recalled like any other turn.
"""

import json
from collections.abc import AsyncIterator
from typing import Any

from agents.memory import SessionSettings
from agents.memory.session import SessionABC

from mnemolog import AsyncClient, Draft, wire

_TAG = "openai-agents"
_LONGEST_TEXT = 60_000  # characters; the item itself is whole in the metadata
_BATCH = 500


class MemorySession(SessionABC):
    """A session for `Runner.run(agent, "...", session=MemorySession("chat-7", AsyncClient()))`.

    An item may have 32 KB of JSON, or `mnemolog.Invalid` is raised; secrets in it are redacted
    before they are written. Popped or cleared items are forgotten.
    """

    def __init__(
        self,
        session_id: str,
        client: AsyncClient,
        *,
        project: str | None = None,
        trust: wire.Trust = "agent",
        session_settings: SessionSettings | None = None,
    ) -> None:
        """`trust` is for items of the model and its tools; the user's items have trust `user`."""
        self.session_id = session_id
        self.session_settings = session_settings or SessionSettings()
        self._client, self._project, self._trust = client, project, trust

    async def get_items(self, limit: int | None = None) -> list[Any]:
        """Return the latest items, as many as `limit`, oldest first; None: the settings' limit."""
        if limit is None and self.session_settings is not None:
            limit = self.session_settings.limit
        items: list[Any] = []
        if limit is None or limit > 0:
            async for memory in self._newest_first():
                items.append(memory.metadata[_TAG])
                if len(items) == limit:
                    break
        return items[::-1]

    async def add_items(self, items: list[Any]) -> None:
        """Add items to the end, on disk when this returns; those of one call together."""
        for start in range(0, len(items), _BATCH):
            drafts = [self._draft(dict(item)) for item in items[start : start + _BATCH]]
            await self._client.record_batch(drafts)

    async def pop_item(self) -> Any | None:
        """Remove the latest item and return it; None if there is none."""
        async for memory in self._newest_first():
            await self._client.memories.forget(memory.id)
            return memory.metadata[_TAG]
        return None

    async def clear_session(self) -> None:
        """Forget all items."""
        for memory in [listed_memory async for listed_memory in self._newest_first()]:
            await self._client.memories.forget(memory.id)

    async def _newest_first(self) -> AsyncIterator[wire.ListedMemory]:
        filters: wire.Filters = {"session": [self.session_id], "tag": [_TAG]}
        filters["project"] = self._project or ""
        async for memory in self._client.memories.list(**filters):
            if memory.project == self._project:
                yield memory

    def _draft(self, item: dict[str, Any]) -> Draft:
        draft: Draft = {
            "content": _text(item)[:_LONGEST_TEXT],
            "kind": "raw_turn",
            "session": self.session_id,
            "tags": [_TAG],
            "trust": "user" if item.get("role") == "user" else self._trust,
            "metadata": {_TAG: item},
        }
        if self._project is not None:
            draft["project"] = self._project
        return draft


def _text(item: dict[str, Any]) -> str:
    """Return an item's text with its role, or the item as JSON."""
    content = item.get("content")
    if isinstance(content, list):
        content = "\n".join(part["text"] for part in content if isinstance(part.get("text"), str))
    if isinstance(content, str) and content.strip():
        return f"{item.get('role', 'agent')}: {content}"
    return json.dumps(item, ensure_ascii=False, default=str)
