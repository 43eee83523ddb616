"""
CrewMemory: a memory as that of a CrewAI crew or agent.

CrewAI's own memory asks a model for the scope and the importance of a text, and another for its
vector. Here neither is asked: a text stays in the scope that it was given, and recall finds it by
its words and our own vectors.
"""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Literal, cast

from crewai.memory.storage.backend import StorageBackend
from crewai.memory.types import MemoryMatch, MemoryRecord, ScopeInfo
from crewai.memory.unified_memory import Memory
from crewai.memory.utils import join_scope_paths, normalize_scope_path

from mnemolog import Client, Draft, NotFound, wire

_TAG = "crewai"
_LOOKED_AT = 200  # hits searched by a recall with a filter


class CrewMemory(Memory):
    """A memory for `Crew(agents=..., tasks=..., memory=CrewMemory(Client(), project="acme/web"))`.

    A crew's memories have the trust `agent`. A recall without a scope also returns other memories
    of the project, as records of the scope "/"; only a crew's own records are listed, changed or
    forgotten.
    """

    def __init__(self, client: Client, *, project: str | None = None, **settings: Any) -> None:
        """`settings` are those of CrewAI's Memory; `llm` serves `extract_memories` alone."""
        super().__init__(storage=cast(StorageBackend, _Storage(client, project)), **settings)

    @property
    def _held(self) -> "_Storage":
        return cast(_Storage, self._storage)

    def remember(
        self,
        content: str,
        scope: str | None = None,
        categories: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        importance: float | None = None,
        source: str | None = None,
        private: bool = False,
        agent_role: str | None = None,
        root_scope: str | None = None,
    ) -> MemoryRecord | None:
        """Record one text, on disk when this returns; return None if this memory is read-only."""
        records = self.remember_many(
            [content],
            scope,
            categories,
            metadata,
            importance,
            source,
            private,
            agent_role,
            root_scope,
        )
        return records[0] if records else None

    def remember_many(
        self,
        contents: list[str],
        scope: str | None = None,
        categories: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        importance: float | None = None,
        source: str | None = None,
        private: bool = False,
        agent_role: str | None = None,
        root_scope: str | None = None,
    ) -> list[MemoryRecord]:
        """Record texts, all or none, on disk when this returns."""
        if self.read_only:
            return []
        root = root_scope if root_scope is not None else self.root_scope
        return self._held.record(
            [
                MemoryRecord(
                    content=content,
                    scope=join_scope_paths(root, scope),
                    categories=categories or [],
                    metadata=metadata or {},
                    importance=self.default_importance if importance is None else importance,
                    source=source,
                    private=private,
                )
                for content in contents
                if content.strip()
            ],
            agent=agent_role,
        )

    def recall(
        self,
        query: str,
        scope: str | None = None,
        categories: list[str] | None = None,
        limit: int = 10,
        depth: Literal["shallow", "deep"] = "deep",
        source: str | None = None,
        include_private: bool = False,
    ) -> list[MemoryMatch]:
        """Return the memories that bear on a query, the best first; `depth` changes nothing.

        `score` is the recall's confidence. Unsure hits, which are only near, are left out.
        """
        within = None if scope is None and not self.root_scope else _join(self.root_scope, scope)
        matches = []
        is_filtered = bool(categories) or within is not None
        for record, score in self._held.recall(query, _LOOKED_AT if is_filtered else limit):
            if not _is_in(record.scope, within) or not _has_any(record, categories):
                continue
            if record.private and not include_private and record.source != source:
                continue
            matches.append(MemoryMatch(record=record, score=score, match_reasons=["recall"]))
        return matches[:limit]

    def update(
        self,
        record_id: str,
        content: str | None = None,
        scope: str | None = None,
        categories: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        importance: float | None = None,
    ) -> MemoryRecord:
        """Change a record; its earlier state stays in its history. Raise ValueError for none."""
        record = self._held.get_record(record_id)
        if record is None:
            raise ValueError(f"Record not found: {record_id}")
        if self.read_only:
            return record
        fields = {
            "content": content,
            "scope": scope,
            "categories": categories,
            "metadata": metadata,
            "importance": importance,
        }
        changed = {name: value for name, value in fields.items() if value is not None}
        new = record.model_copy(update=changed)
        self._held.update(new)
        return new


class _Storage:
    """The records of crews, with the interface of a CrewAI storage."""

    def __init__(self, client: Client, project: str | None) -> None:
        self._client, self._project = client, project

    def record(self, records: list[MemoryRecord], agent: str | None) -> list[MemoryRecord]:
        """Record new records; return them with the ids of their memories."""
        batch = self._client.record_batch([self._draft(record, agent) for record in records])
        return [
            record.model_copy(update={"id": acknowledged.id})
            for record, acknowledged in zip(records, batch, strict=True)
        ]

    def recall(self, query: str, limit: int) -> Iterator[tuple[MemoryRecord, float]]:
        question: wire.Question = {"top_k": max(1, limit)}
        if self._project is not None:
            question["project"] = self._project
        for hit in self._client.recall(query, **question).hits:
            if not (hit.unsure or hit.held):
                yield _record(hit), hit.confidence

    def save(self, records: list[MemoryRecord]) -> None:
        self.record(records, None)

    def delete(
        self,
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        record_ids: list[str] | None = None,
        older_than: datetime | None = None,
        metadata_filter: dict[str, Any] | None = None,
    ) -> int:
        """Forget the records that pass all filters; return their number."""
        before = older_than
        if before is not None and before.tzinfo:
            before = before.astimezone(UTC).replace(tzinfo=None)
        ids = [
            record.id
            for record in self._records(scope_prefix)
            if _has_any(record, categories)
            and (record_ids is None or record.id in record_ids)
            and (before is None or record.created_at < before)
            and (metadata_filter or {}).items() <= record.metadata.items()
        ]
        for id_ in ids:
            self._client.memories.forget(id_)
        return len(ids)

    def update(self, record: MemoryRecord) -> None:
        changes: wire.Changes = {
            "content": record.content,
            "importance": record.importance,
            "metadata": {_TAG: _details(record)},
        }
        self._client.memories.patch(record.id, **changes)

    def get_record(self, record_id: str) -> MemoryRecord | None:
        try:
            memory = self._client.memories.get(record_id)
        except NotFound:
            return None
        is_ours = memory.state == "active" and _TAG in memory.metadata
        return _record(memory) if is_ours else None

    def list_records(
        self, scope_prefix: str | None = None, limit: int = 200, offset: int = 0
    ) -> list[MemoryRecord]:
        return list(self._records(scope_prefix))[offset : offset + limit]

    def get_scope_info(self, scope: str) -> ScopeInfo:
        records = list(self._records(scope))
        times = [record.created_at for record in records]
        return ScopeInfo(
            path=normalize_scope_path(scope),
            record_count=len(records),
            categories=sorted(self.list_categories(scope)),
            oldest_record=min(times, default=None),
            newest_record=max(times, default=None),
            child_scopes=self.list_scopes(scope),
        )

    def list_scopes(self, parent: str = "/") -> list[str]:
        above = normalize_scope_path(parent).rstrip("/") + "/"
        below = (record.scope for record in self._records(parent) if record.scope.startswith(above))
        names = {scope.removeprefix(above).split("/", 1)[0] for scope in below}
        return sorted(above + name for name in names if name)

    def list_categories(self, scope_prefix: str | None = None) -> dict[str, int]:
        records = self._records(scope_prefix)
        return dict(Counter(name for record in records for name in record.categories))

    def count(self, scope_prefix: str | None = None) -> int:
        return sum(1 for _ in self._records(scope_prefix))

    def reset(self, scope_prefix: str | None = None) -> None:
        self.delete(scope_prefix)

    def _records(self, scope: str | None) -> Iterator[MemoryRecord]:
        """Yield the records in a scope and below it, newest first."""
        for memory in self._client.memories.list(tag=[_TAG], project=self._project or ""):
            if memory.project == self._project and _TAG in memory.metadata:
                record = _record(memory)
                if _is_in(record.scope, scope):
                    yield record

    def _draft(self, record: MemoryRecord, agent: str | None) -> Draft:
        draft: Draft = {
            "content": record.content,
            "importance": record.importance,
            "tags": [_TAG],
            "trust": "agent",
            "metadata": {_TAG: _details(record)},
        }
        if agent is not None:
            draft["agent"] = agent
        if self._project is not None:
            draft["project"] = self._project
        return draft


def _details(record: MemoryRecord) -> dict[str, Any]:
    names = ("scope", "categories", "metadata", "source", "private", "importance")
    return {name: getattr(record, name) for name in names}


def _record(memory: Any) -> MemoryRecord:
    """Return a memory as a record, in the scope "/" if no crew recorded it."""
    details = memory.metadata.get(_TAG, {"metadata": memory.metadata})
    at = memory.at.replace(tzinfo=None)  # CrewAI's own are naive UTC
    return MemoryRecord(id=memory.id, content=memory.text, created_at=at, **details)


def _join(root: str | None, scope: str | None) -> str:
    joined: str = join_scope_paths(root, scope)  # normalized
    return joined


def _is_in(scope: str, prefix: str | None) -> bool:
    """Return True if a scope is `prefix` or below it."""
    above = normalize_scope_path(prefix or "/").rstrip("/")
    return f"{scope.rstrip('/')}/".startswith(f"{above}/")


def _has_any(record: MemoryRecord, categories: list[str] | None) -> bool:
    return not categories or not set(categories).isdisjoint(record.categories)
