"""
Receipts as people read them: what was asked and what came back, whether it helped, how it ended.

A list tells each in a line; one alone has its hits with what the memories say now, the ratings and
the judgment given later, and how tests, a build, ... came out in the turn that it was part of.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from serve.reader.memory_json import visible_json
from serve.reader.view import View
from store.home.instants import isoformat
from store.log.event_kinds import Hit, Judged, Outcome, Prompted, Rated, Recalled
from store.log.event_log import EventLog
from store.log.events import Event
from store.log.receipts import SOON_US, may_rate


def receipt_summary(log: EventLog, receipt: Event, memory: str | None = None) -> dict[str, Any]:
    """Return a receipt as a list sends it; with a memory, as which hit that came back."""
    body = _body(receipt)
    ratings = [
        event.body.verdict for event in log.events_for(receipt.id) if isinstance(event.body, Rated)
    ]
    said = {
        "id": receipt.id,
        "seq": receipt.seq,
        "at": isoformat(receipt.at),
        "query": body.query,
        "mode": body.mode,
        "project": receipt.project,
        "session": receipt.session,
        "agent": receipt.agent,
        "hits": len(body.hits),
        "confidence": max((hit.confidence for hit in body.hits), default=None),
        "dropped": sum(body.dropped.values()),
        "took_ms": body.took_us / 1000,
        "rated": ratings[-1] if ratings else None,
    }
    return said if memory is None else said | {"as_hit": _place(body.hits, memory)}


def receipt_fields(view: View, log: EventLog, receipt: Event) -> dict[str, Any]:
    """Return all there is of a receipt."""
    body = _body(receipt)
    return {
        "id": receipt.id,
        "seq": receipt.seq,
        "at": isoformat(receipt.at),
        "query": body.query,
        "mode": body.mode,
        "project": receipt.project,
        "session": receipt.session,
        "agent": receipt.agent,
        "manifest": body.manifest,
        "watermark": body.watermark,
        "door": body.door,
        "basis": msgspec.to_builtins(body.basis) if body.basis else None,
        "digest": body.digest,
        "characters": body.characters,
        "took_ms": body.took_us / 1000,
        "hits": [_hit(view, hit, rank) for rank, hit in enumerate(body.hits, 1)],
        "dropped": body.dropped,
        "route": msgspec.to_builtins(body.route) if body.route else None,
        "trial": msgspec.to_builtins(body.trial) if body.trial else None,
        "ratings": [_rating(event) for event in ratings(log, receipt)],
        "judged": _judgement(log, receipt),
        "outcomes": [_outcome(event) for event in outcomes(log, receipt)],
    }


def ratings(log: EventLog, receipt: Event) -> list[Event]:
    """Return what was said of a recall, and within a day of what it brought, the oldest first."""
    body = _body(receipt)
    of_hits = (
        event
        for hit in body.hits
        for event in log.events_for(hit.id)
        if receipt.at <= event.at <= receipt.at + SOON_US
    )
    events = [
        event
        for event in (*log.events_for(receipt.id), *of_hits)
        if isinstance(event.body, Rated) and may_rate(event)
    ]
    return sorted(events, key=lambda event: event.seq)


def outcomes(log: EventLog, receipt: Event) -> Iterator[Event]:
    """Yield how tests, a build, ... came out in the turn of a receipt, of its session."""
    if receipt.session is None:
        return
    for event in log.session_events(receipt.session, receipt.seq):
        if isinstance(event.body, Prompted):
            return
        if isinstance(event.body, Outcome):
            yield event


def _hit(view: View, hit: Hit, rank: int) -> dict[str, Any]:
    """Return a hit and its memory as it is now; null where there is none any more."""
    memory = view.tail.find(hit.id)
    return {
        "rank": rank,
        "id": hit.id,
        "score": hit.score,
        "confidence": hit.confidence,
        "memory": visible_json(memory) if memory is not None else None,
    }


def _place(hits: Sequence[Hit], memory: str) -> dict[str, Any] | None:
    for rank, hit in enumerate(hits, 1):
        if hit.id == memory:
            return {"rank": rank, "score": hit.score, "confidence": hit.confidence}
    return None


def _rating(event: Event) -> dict[str, Any]:
    assert isinstance(event.body, Rated)
    return {
        "of": event.subject,
        "at": isoformat(event.at),
        "verdict": event.body.verdict,
        "reason": event.body.reason,
        "trust": event.trust,
    }


def _judgement(log: EventLog, receipt: Event) -> dict[str, Any] | None:
    """Return the newest judgment that stands."""
    gone = log.undone_ids(log.head())
    events = [
        event
        for event in log.events_for(receipt.id)
        if isinstance(event.body, Judged) and event.id not in gone
    ]
    if not events:
        return None
    body = events[-1].body
    assert isinstance(body, Judged)
    return {
        "at": isoformat(events[-1].at),
        "by": body.by,
        "verdicts": [
            {"id": id_, "verdict": verdict, "evidence": body.evidence.get(id_)}
            for id_, verdict in body.verdicts.items()
        ],
    }


def _outcome(event: Event) -> dict[str, Any]:
    assert isinstance(event.body, Outcome)
    return {
        "at": isoformat(event.at),
        "effort": event.body.effort,
        "passed": event.body.passed,
        "before": event.body.before,
    }


def _body(receipt: Event) -> Recalled:
    assert isinstance(receipt.body, Recalled)
    return receipt.body


# Ingested: an accepted batch as people and programs are told of it.
