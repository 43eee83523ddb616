"""
Effects: what one event makes of the row of its subject, whatever else there is.

What follows from it for other memories is the fold's (`memory.fold`).
"""

from typing import Any

import msgspec
from msgspec.structs import replace

from store.events import (
    Archived,
    Erased,
    Event,
    Forgotten,
    Pinned,
    Quarantined,
    Recorded,
    Restored,
    Revised,
    Superseded,
    micros,
)
from store.job_events import Staled
from store.projections.memory import scoring
from store.projections.memory.memory import (
    ACTIVE,
    ARCHIVED,
    AUTO,
    DEFAULT_SCORE,
    ERASED,
    FORGOTTEN,
    STALE,
    SUPERSEDED,
    Memory,
    indexed_text,
)
from store.text.text_features import MAY_RULE
from store.text.tokenizer import text_hash


def recorded(event: Event, body: Recorded) -> Memory:
    """Return the row of a new memory, active whatever else holds its key."""
    created = micros(body.created_at) if body.created_at else event.at
    tags = tuple(dict.fromkeys(body.tags))
    text = indexed_text(body.content, body.context, body.action, body.result, tags)
    pinned = body.pinned and event.trust in MAY_RULE  # else it would confirm itself
    return Memory(
        id=event.id,
        seq=event.seq,
        kind=body.kind,
        state=ACTIVE,
        content=body.content,
        context=body.context,
        action=body.action,
        result=body.result,
        tags=tags,
        project=event.project,
        session=event.session,
        agent=event.agent,
        trust=event.trust,
        source=body.source,
        created_by=body.created_by,
        importance=(
            scoring.importance(body.kind, event.trust, body.key)
            if body.importance is None
            else body.importance
        ),
        score=DEFAULT_SCORE if body.score is None else body.score,
        pinned=pinned,
        tier=(
            scoring.tier(body.kind, event.session, body.key, pinned=pinned)
            if body.tier == AUTO
            else body.tier
        ),
        parent_id=body.parent_id,
        source_ids=body.source_ids,
        insight_type=body.insight_type,
        job=body.made.job if body.made else None,
        superseded_by=None,
        key=body.key,
        value=body.value,
        chain=body.chain,
        status=body.status or ("open" if body.kind == "goal" else None),
        progress=body.progress,
        created_at=created,
        updated_at=event.at,
        # a ttl runs from the moment of writing: an import of old notes would expire at once
        expires_at=event.at + body.ttl_s * 1_000_000 if body.ttl_s else None,
        ended_at=None,
        metadata=msgspec.json.encode(body.metadata).decode(),
        text_hash=text_hash(text),
    )


# what is left of an erased memory is told by its place, its ids and its time alone, so that it is
# the same whether its events were folded before they were blanked or after
_BLANK: dict[str, Any] = {
    "state": FORGOTTEN,
    "content": "",
    "tags": (),
    "importance": 0.0,
    "score": DEFAULT_SCORE,
    "pinned": False,
    "tier": "auto",
    "metadata": "{}",
    "text_hash": ERASED,
    **dict.fromkeys(
        "context action result source created_by insight_type superseded_by key value chain status "
        "progress expires_at".split()
    ),
}


def tiered(before: Memory, after: Memory) -> Memory:
    """Return a changed memory; a tier that was, or is to be, what the rules say goes by them."""
    if after.tier == AUTO or (after.tier == before.tier == before.auto_tier):
        return replace(after, tier=after.auto_tier)
    return after


_REVISABLE = ("content", "context", "action", "result", "importance", "tier", "status", "progress")


def changes_of(event: Event) -> dict[str, Any]:
    """Return the columns an event sets on the row of its subject."""
    match event.body:
        case Revised() as body:
            changes = {
                name: value for name in _REVISABLE if (value := getattr(body, name)) is not None
            }
            if body.tags is not None:
                changes["tags"] = tuple(dict.fromkeys(body.tags))
            if body.metadata is not None:
                changes["metadata"] = msgspec.json.encode(body.metadata).decode()
            if body.ttl_s is not None:
                changes["expires_at"] = event.at + body.ttl_s * 1_000_000
            return changes
        case Superseded(by=by):
            return {"state": SUPERSEDED, "superseded_by": by, "ended_at": event.at}
        case Archived():
            return {"state": ARCHIVED, "ended_at": event.at}
        case Forgotten() | Quarantined():
            return {"state": FORGOTTEN, "ended_at": event.at}
        case Staled():
            return {"state": STALE, "ended_at": event.at}
        case Restored(state=state) if state != ACTIVE:
            return {"state": state}  # what ended it, and what took its place, did not change
        case Restored():
            return {"state": ACTIVE, "superseded_by": None, "expires_at": None, "ended_at": None}
        case Erased():
            return {**_BLANK, "ended_at": event.at}
        case Pinned(pinned=pinned):
            return {"pinned": pinned}
        case _:
            return {}
