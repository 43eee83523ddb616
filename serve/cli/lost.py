"""
What `why` says of one memory: why it came back, or the one stage where it was lost.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from serve.cli import explain
from serve.reader.reader import Reader
from serve.recall.request import RecallRequest, answer, moment_of
from store.embedders.embedder import Embedder
from store.home.config import Choices
from store.home.instants import isoformat, micros
from store.memories.memory import ACTIVE, ARCHIVED, FORGOTTEN, Memory

_MOST = 200  # of `top_k`


def reason(
    reader: Reader, embedder: Embedder, asked: RecallRequest, choices: Choices, now: int, id_: str
) -> str:
    """Return why a memory came back, or at which stage it was lost."""
    with reader.view() as view:
        memory = view.tail.find(id_)
    assert memory is not None  # the log named it, and the view holds all the log holds
    if memory.state == FORGOTTEN:
        return "not returned: it was forgotten; `mnemolog restore` undoes that"
    if lost := list(_filtered(memory, asked, now, moment_of(reader, asked.as_of))):
        return f"not returned: {'; '.join(lost)}"
    payload, _ = answer(reader, embedder, asked, choices, now)
    for rank, one in enumerate(payload["hits"], 1):
        if one["id"] == id_:
            return f"returned as number {rank}: {explain.hit(one['why'])}"
    return "not returned: " + _lost(reader, embedder, asked, choices, now, memory, payload)


def _filtered(memory: Memory, asked: RecallRequest, now: int, as_of: int | None) -> Iterator[str]:
    """Yield what the filter has against a memory."""
    ended = memory.state != ACTIVE
    if as_of is not None:
        ended = memory.ended_at is not None and memory.ended_at <= as_of
        if memory.created_at > as_of:
            yield f"it dates from {isoformat(memory.created_at)}, after --as-of"
    if asked.active_only and ended and not (asked.cold and memory.state == ARCHIVED):
        by = f" by {memory.superseded_by}" if memory.superseded_by else ""
        since = f" since {isoformat(memory.ended_at)}" if memory.ended_at is not None else ""
        option = "--cold" if memory.state == ARCHIVED else "--include-archived"
        yield f"it is {memory.state}{by}{since}; {option} includes it"
    at = now if as_of is None else as_of
    is_over = memory.expires_at is not None and memory.expires_at <= at
    if asked.active_only and is_over and not asked.cold:
        yield f"it expired {isoformat(memory.expires_at or 0)}; --cold includes it"
    if asked.project is not None and memory.project not in (None, asked.project):
        yield f"it belongs to {memory.project}, not to {asked.project}; try --all-projects"
    if asked.kinds and memory.kind not in asked.kinds:
        yield f"it is a {memory.kind}, and the query is for {', '.join(asked.kinds)}"
    if missing := [tag for tag in asked.tags if tag not in memory.tags]:
        yield f"it has no tag {', '.join(missing)}"
    if asked.since is not None and memory.created_at < micros(asked.since):
        yield f"it dates from {isoformat(memory.created_at)}, before --since"
    if asked.until is not None and memory.created_at >= micros(asked.until):
        yield f"it dates from {isoformat(memory.created_at)}, not before --until"


def _lost(
    reader: Reader,
    embedder: Embedder,
    asked: RecallRequest,
    choices: Choices,
    now: int,
    memory: Memory,
    as_asked: Mapping[str, Any],
) -> str:
    """Return at which stage after the filter a memory was lost that `as_asked` does not hold."""
    wide = msgspec.structs.replace(asked, top_k=_MOST, min_confidence=0.0, min_score=0.0)
    payload, _ = answer(reader, embedder, wide, choices, now)
    bar, most = as_asked["min_confidence"], as_asked["why"]["top_k"]
    for rank, one in enumerate(payload["hits"], 1):
        if one["id"] != memory.id:
            continue
        evidence = explain.hit(one["why"])
        if one["confidence"] < bar:
            sure = f"its confidence {one['confidence']:.2f}"
            return f"{sure} is below the threshold {bar:.2f}: {evidence}"
        if one["score"] < asked.min_score:
            score = f"{one['score']:.4f}"
            return f"its score {score} is below the floor {asked.min_score:.4f}: {evidence}"
        return f"it ranked {rank}, and {most} were requested: {evidence}"
    for one in payload["hits"]:
        if memory.id in one.get("copies", ()):
            return f"{one['id']} is a duplicate and was returned instead"
        if memory.id in one.get("insights", ()):
            return f"its source {one['id']} was returned instead; --kind insight includes it"
    return "no channel found it: it shares too few words with the query and is not similar to it"
