"""
Why a memory came back, or the stage of the recall where it was lost.

Each interface names these parameters differently, so the caller gives the names (`Remedies`).
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from serve.formatting import hit_reason
from serve.reader.reader import Reader
from serve.recall.request import RecallRequest, answer, moment_of
from store.home.config import Choices
from store.home.instants import isoformat, micros
from store.home.projects import holds_in
from store.memories.memory import ACTIVE, ARCHIVED, FILTERS, FORGOTTEN, Memory

_MOST_HITS = 200  # of `top_k`


class Remedies(msgspec.Struct, frozen=True):
    """The change to make in the request, by reason; each ends a sentence."""

    archived: str
    ended: str
    expired: str
    project: str
    confidence: str
    score: str
    rank: str
    insight: str
    as_of: str = "`as_of`"
    since: str = "`since`"
    until: str = "`until`"


def explain_memory(
    reader: Reader,
    request: RecallRequest,
    choices: Choices,
    now: int,
    id_: str,
    remedies: Remedies,
) -> str:
    """Return the reason a memory came back, or the stage that lost it; `request.explain` is set."""
    with reader.view() as view:
        memory = view.tail.find(id_)
    assert memory is not None  # the log named it, and the view holds all the log holds
    if memory.state == FORGOTTEN:
        return "not returned: it was forgotten; `mnemolog restore` undoes that"
    as_of = moment_of(reader, request.as_of)
    if reasons := list(_explain_filter(memory, request, now, as_of, remedies)):
        return f"not returned: {'; '.join(reasons)}"
    payload, _ = answer(reader, request, choices, now)
    for rank, hit in enumerate(payload["hits"], 1):
        if hit["id"] == id_:
            return f"returned as number {rank}: {hit_reason(hit['why'])}"
    wide = msgspec.structs.replace(request, top_k=_MOST_HITS, min_confidence=0.0, min_score=0.0)
    wide_payload, _ = answer(reader, wide, choices, now)
    return "not returned: " + _explain_loss(memory, request, payload, wide_payload, remedies)


def _explain_filter(
    memory: Memory, request: RecallRequest, now: int, as_of: int | None, remedies: Remedies
) -> Iterator[str]:
    """Yield the conditions of the filter that a memory fails, each with its remedy."""
    ended = memory.state != ACTIVE
    if as_of is not None:
        ended = memory.ended_at is not None and memory.ended_at <= as_of
        if memory.created_at > as_of:
            yield f"it dates from {isoformat(memory.created_at)}, after {remedies.as_of}"
    is_archived = memory.state == ARCHIVED
    if request.active_only and ended and not (request.cold and is_archived):
        by = f" by {memory.superseded_by}" if memory.superseded_by else ""
        since = f" since {isoformat(memory.ended_at)}" if memory.ended_at is not None else ""
        remedy = remedies.archived if is_archived else remedies.ended
        yield f"it is {memory.state}{by}{since}; {remedy}"
    at = now if as_of is None else as_of
    is_over = memory.expires_at is not None and memory.expires_at <= at
    if request.active_only and is_over and not request.cold:
        yield f"it expired {isoformat(memory.expires_at or 0)}; {remedies.expired}"
    if not holds_in(memory.project, request.project):
        here = request.project or "no project"
        yield f"it belongs to {memory.project}, not to {here}; {remedies.project}"
    for name, field in FILTERS.items():
        wanted, value = getattr(request, name), getattr(memory, field)
        if wanted and field != "tags" and value not in wanted:
            yield f"it is a {value}, and the query is for {', '.join(wanted)}"
    if missing := [tag for tag in request.tags if tag not in memory.tags]:
        yield f"it has no tag {', '.join(missing)}"
    if request.since is not None and memory.created_at < micros(request.since):
        yield f"it dates from {isoformat(memory.created_at)}, before {remedies.since}"
    if request.until is not None and memory.created_at >= micros(request.until):
        yield f"it dates from {isoformat(memory.created_at)}, not before {remedies.until}"


def _explain_loss(
    memory: Memory,
    request: RecallRequest,
    payload: Mapping[str, Any],
    wide_payload: Mapping[str, Any],
    remedies: Remedies,
) -> str:
    """Return the stage after the filter at which a memory was lost; `wide_payload` is the answer
    to the same request without thresholds.
    """
    bar, most = payload["min_confidence"], payload["why"]["top_k"]
    for rank, hit in enumerate(wide_payload["hits"], 1):
        if hit["id"] != memory.id:
            continue
        evidence = hit_reason(hit["why"])
        if hit["confidence"] < bar:
            sure = f"its confidence {hit['confidence']:.2f}"
            return f"{sure} is below the threshold {bar:.2f}, {remedies.confidence}: {evidence}"
        if hit["score"] < request.min_score:
            floor = f"the floor {request.min_score:.4f}, {remedies.score}"
            return f"its score {hit['score']:.4f} is below {floor}: {evidence}"
        return f"it ranked {rank}, and {most} were requested, {remedies.rank}: {evidence}"
    for hit in wide_payload["hits"]:
        if memory.id in hit.get("copies", ()):
            return f"{hit['id']} is a duplicate and was returned instead"
        if memory.id in hit.get("insights", ()):
            return f"its source {hit['id']} was returned instead; {remedies.insight}"
    return (
        "no channel found it: it shares too few words with the query and is not similar to it; "
        "ask in words of its text"
    )
