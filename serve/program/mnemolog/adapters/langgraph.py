"""
MemoryStore: a memory as LangGraph's long-term store.

An item is a memory with a key. Its value is in the memory's metadata unchanged, and in its text as
words, so that `search` with a query is a recall and agents outside LangGraph find it too. A tag for
each level of its namespace narrows recalls and lists on the server.
"""

import asyncio
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from itertools import islice
from typing import Any
from urllib.parse import quote

from langgraph.store import base
from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
)
from langgraph.store.base.embed import get_text_at_path, tokenize_path

from mnemolog import Client, Draft, wire

_TAG = "langgraph"  # all items have it
_LONGEST_TAG = 100
_LONGEST_TEXT = 60_000  # characters; the value itself is whole in the metadata
_MOST_HITS = 200  # of a recall
_BATCH = 500

Namespace = tuple[str, ...]


class MemoryStore(BaseStore):
    """LangGraph's store in a mnemolog server: `graph.compile(store=MemoryStore(Client()))`.

    Items are shared by all clients of the same server, `project` and tenant. A value may have 32 KB
    of JSON; secrets in it are redacted before they are written. A replaced value stays in the
    memory's history, a deleted item is forgotten. Raises `mnemolog.Error` besides LangGraph's own
    errors.
    """

    supports_ttl = True

    def __init__(
        self,
        client: Client,
        *,
        project: str | None = None,
        trust: wire.Trust = "agent",
        min_confidence: float | None = None,
        ttl: TTLConfig | None = None,
    ) -> None:
        """`min_confidence` is for searches with a query; None: the server's own, by default 0."""
        self._client, self._project, self._trust = client, project, trust
        self._min_confidence = min_confidence
        self.ttl_config = ttl

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Return one result per operation. All reads see the state before the puts; of puts to one
        key the last counts.
        """
        operations = list(ops)
        validate = getattr(base, "validate_op_namespace", lambda op: None)
        for op in operations:
            validate(op)
        results = [self._read(op) for op in operations]
        self._write({(op.namespace, op.key): op for op in operations if isinstance(op, PutOp)})
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Run `batch` in a thread."""
        return await asyncio.to_thread(self.batch, list(ops))

    def _read(self, op: Op) -> Result:
        if isinstance(op, GetOp):
            held = self._held(op.namespace, op.key)
            if held is None:
                return None
            self._refresh([held], op.refresh_ttl)
            return Item(**_item_fields(held))
        if isinstance(op, SearchOp):
            return self._search(op)
        if isinstance(op, ListNamespacesOp):
            return self._list_namespaces(op)
        return None

    def _held(self, namespace: Namespace, key: str) -> wire.ListedMemory | None:
        """Return an item's current memory."""
        return next(self._list(key=_key(namespace, key)), None)

    def _list(self, **filters: Any) -> Iterator[wire.ListedMemory]:
        """Yield items, the newest first."""
        for memory in self._client.memories.list(project=self._project or "", **filters):
            if memory.project == self._project and _TAG in memory.metadata:
                yield memory

    def _search(self, op: SearchOp) -> list[SearchItem]:
        memories = self._recall(op) if op.query else self._list(tag=[_tag(op.namespace_prefix)])
        passing = (memory for memory in memories if _passes(_value(memory), op.filter or {}))
        shown_memories = list(islice(passing, op.offset, op.offset + op.limit))
        self._refresh(shown_memories, op.refresh_ttl)
        return [
            SearchItem(**_item_fields(memory), score=getattr(memory, "score", None))
            for memory in shown_memories
        ]

    def _recall(self, op: SearchOp) -> Iterator[wire.ShownMemory]:
        """Yield the items near a query, the nearest first; items with the same text together."""
        question: wire.Question = {"tags": [_tag(op.namespace_prefix)]}
        question["project"] = self._project or ""
        question["top_k"] = _MOST_HITS if op.filter else min(op.limit + op.offset, _MOST_HITS)
        if self._min_confidence is not None:
            question["min_confidence"] = self._min_confidence
        seen: set[str] = set()
        for hit in self._client.recall(op.query or "", **question).hits:
            same = (self._client.memories.get(id_) for id_ in hit.copies)
            for memory in (hit, *same):
                if memory.id not in seen and self._is_searchable(memory, op.namespace_prefix):
                    seen.add(memory.id)
                    yield memory

    def _is_searchable(self, memory: Any, prefix: Namespace) -> bool:
        is_ours = memory.project == self._project and _TAG in memory.metadata
        is_in = memory.state == "active" and _tag(prefix) in memory.tags
        return is_ours and is_in and memory.metadata[_TAG]["indexed"]

    def _list_namespaces(self, op: ListNamespacesOp) -> list[Namespace]:
        conditions = op.match_conditions or ()
        narrow: Namespace = ()
        for condition in conditions:
            if condition.match_type == "prefix" and "*" not in condition.path:
                narrow = tuple(condition.path)
        namespaces = {_namespace(memory) for memory in self._list(tag=[_tag(narrow)])}
        matching = {
            namespace[: op.max_depth]
            for namespace in namespaces
            if all(_matches(namespace, condition) for condition in conditions)
        }
        return sorted(matching)[op.offset : op.offset + op.limit]

    def _refresh(self, read: Sequence[wire.ShownMemory], is_asked: bool) -> None:
        """Restart the ttl of items that expire."""
        for memory in read if is_asked else ():
            if seconds := _details(memory).get("ttl_s"):
                self._client.memories.patch(memory.id, ttl_s=seconds)

    def _write(self, puts: Mapping[tuple[Namespace, str], PutOp]) -> None:
        drafts: list[Draft] = []
        for op in puts.values():
            held = self._held(op.namespace, op.key)
            if op.value is not None:
                drafts.append(self._draft(op, held))
            elif held is not None:
                self._client.memories.forget(held.id)
        for start in range(0, len(drafts), _BATCH):
            self._client.record_batch(drafts[start : start + _BATCH])

    def _draft(self, op: PutOp, held: wire.ListedMemory | None) -> Draft:
        details: dict[str, Any] = {
            "namespace": list(op.namespace),
            "key": op.key,
            "value": op.value,
            "indexed": op.index is not False,
        }
        if held is not None:
            details["created_at"] = _created_at(held).isoformat()
        levels = range(len(op.namespace) + 1)
        draft: Draft = {
            "content": _text(op),
            "key": _key(op.namespace, op.key),
            "tags": [_tag(op.namespace[:depth]) for depth in levels],
            "trust": self._trust,
            "source": _TAG,
        }
        if op.ttl is not None:
            draft["ttl_s"] = details["ttl_s"] = max(1, math.ceil(op.ttl * 60))
        if self._project is not None:
            draft["project"] = self._project
        draft["metadata"] = {_TAG: details}
        return draft


def _key(namespace: Namespace, key: str) -> str:
    """Return the key of an item's memory: any namespace and key fit, without collisions."""
    return f"{_TAG}.{sha256(json.dumps([namespace, key]).encode()).hexdigest()[:40]}"


def _tag(prefix: Namespace) -> str:
    """Return the tag of all items below a namespace."""
    tag = f"{_TAG}:{'/'.join(quote(label, safe='') for label in prefix)}" if prefix else _TAG
    long = f"{_TAG}:#{sha256(tag.encode()).hexdigest()}"
    return tag if len(tag) <= _LONGEST_TAG else long


def _text(op: PutOp) -> str:
    """Return an item's searchable text: its value's, or that of its indexed fields."""
    value = op.value or {}
    paths = [tokenize_path(path) for path in op.index] if op.index else []
    lines = [text for path in paths for text in get_text_at_path(value, path)]
    text = "\n".join(lines) or "\n".join(_lines(value))
    named = text if any(letter.isalpha() for letter in text) else f"item {op.key}\n{text}"
    return named[:_LONGEST_TEXT]


def _lines(value: Any, path: str = "") -> Iterator[str]:
    """Yield the leaves of a value with their paths: `address.city: Oslo`."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _lines(inner, f"{path}.{name}" if path else str(name))
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _lines(inner, path)
    else:
        yield f"{path}: {value}"


def _details(memory: Any) -> dict[str, Any]:
    details: dict[str, Any] = memory.metadata[_TAG]
    return details


def _namespace(memory: Any) -> Namespace:
    return tuple(_details(memory)["namespace"])


def _value(memory: Any) -> dict[str, Any]:
    value: dict[str, Any] = _details(memory)["value"]
    return value


def _created_at(memory: Any) -> datetime:
    """Return the time of an item's first put; the memory itself is as old as its value."""
    first = _details(memory).get("created_at")
    at: datetime = memory.at
    return datetime.fromisoformat(first) if first else at


def _item_fields(memory: Any) -> dict[str, Any]:
    return {
        "value": _value(memory),
        "key": _details(memory)["key"],
        "namespace": _namespace(memory),
        "created_at": _created_at(memory),
        "updated_at": memory.at,
    }


def _matches(namespace: Namespace, condition: MatchCondition) -> bool:
    path = condition.path
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[-len(path) :]
    return len(part) == len(path) and all(
        wanted in ("*", label) for label, wanted in zip(part, path, strict=True)
    )


def _passes(value: Any, wanted: Any) -> bool:
    """Return True if a value passes a filter: `{"user.city": "Oslo", "score": {"$gte": 3}}`."""
    if not isinstance(wanted, Mapping):
        wanted = list(wanted) if isinstance(wanted, tuple) else wanted
        return bool(value == wanted) and isinstance(value, bool) == isinstance(wanted, bool)
    if any(str(name).startswith("$") for name in wanted):
        return all(_compares(value, name, than) for name, than in wanted.items())
    return all(_passes(_at_path(value, name), inner) for name, inner in wanted.items())


def _at_path(value: Any, name: str) -> Any:
    """Return a field of a value, or a nested one such as `user.city`; None if there is none."""
    if not isinstance(value, Mapping) or name in value or "." not in name:
        return value.get(name) if isinstance(value, Mapping) else None
    outer, inner = name.split(".", 1)
    return _at_path(value.get(outer), inner)


def _compares(value: Any, operator: str, than: Any) -> bool:
    if operator in ("$eq", "$ne"):
        return bool(value == than) == (operator == "$eq")
    if operator not in ("$gt", "$gte", "$lt", "$lte"):
        raise ValueError(f"unknown operator {operator}: $eq, $ne, $gt, $gte, $lt or $lte")
    try:
        left, right = float(value), float(than)
    except (TypeError, ValueError):
        return False
    is_beyond = left > right if operator.startswith("$g") else left < right
    return is_beyond or (operator.endswith("e") and left == right)
