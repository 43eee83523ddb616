"""
Receipts as people read them: the question, the hits, the ratings and the outcome.

A list has each in a line; a single receipt has its hits with the memories as they are now, the
later ratings and judgment, and the outcomes of tests, a build, ... in its turn.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from serve.reader.memory_json import visible_json
from serve.reader.view import View
from store.home.instants import isoformat
from store.log.event_kinds import Judged, Outcome, Prompted, Rated, Recalled
from store.log.event_log import EventLog
from store.log.events import Event
from store.log.receipts import SOON_US, may_rate


def receipt_summary(log: EventLog, receipt: Event, memory: str | None = None) -> dict[str, Any]:
    """Return a receipt as an item of a list; with `memory`, also the place of that hit."""
    body = _body(receipt)
    ratings = [
        event.body.verdict for event in log.events_for(receipt.id) if isinstance(event.body, Rated)
    ]
    summary = _question_fields(receipt) | {
        "hits": len(body.hits),
        "confidence": max((hit.confidence for hit in body.hits), default=None),
        "dropped": sum(body.dropped.values()),
        "took_ms": body.took_us / 1000,
        "rated": ratings[-1] if ratings else None,
    }
    if memory is not None:
        as_hit = (
            {"rank": rank, "score": hit.score, "confidence": hit.confidence}
            for rank, hit in enumerate(body.hits, 1)
            if hit.id == memory
        )
        summary["as_hit"] = next(as_hit, None)
    return summary


def receipt_fields(view: View, log: EventLog, receipt: Event) -> dict[str, Any]:
    """Return all data of a receipt; its memories as they are now, null for erased ones."""
    body = _body(receipt)
    hits = []
    for rank, hit in enumerate(body.hits, 1):
        memory = view.tail.find(hit.id)
        hits.append(
            {
                "rank": rank,
                "id": hit.id,
                "score": hit.score,
                "confidence": hit.confidence,
                "memory": visible_json(memory) if memory is not None else None,
            }
        )
    return _question_fields(receipt) | {
        "manifest": body.manifest,
        "watermark": body.watermark,
        "door": body.door,
        "basis": msgspec.to_builtins(body.basis) if body.basis else None,
        "digest": body.digest,
        "characters": body.characters,
        "took_ms": body.took_us / 1000,
        "hits": hits,
        "dropped": body.dropped,
        "route": msgspec.to_builtins(body.route) if body.route else None,
        "trial": msgspec.to_builtins(body.trial) if body.trial else None,
        "ratings": _ratings(log, receipt),
        "judged": _judgement(log, receipt),
        "outcomes": list(_outcomes(log, receipt)),
    }


def _question_fields(receipt: Event) -> dict[str, Any]:
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
    }


def _ratings(log: EventLog, receipt: Event) -> list[dict[str, Any]]:
    """Return the ratings of a recall, and within a day those of its hits, the oldest first."""
    of_hits = (
        event
        for hit in _body(receipt).hits
        for event in log.events_for(hit.id)
        if receipt.at <= event.at <= receipt.at + SOON_US
    )
    return [
        {
            "of": event.subject,
            "at": isoformat(event.at),
            "verdict": event.body.verdict,
            "reason": event.body.reason,
            "trust": event.trust,
        }
        for event in sorted((*log.events_for(receipt.id), *of_hits), key=lambda event: event.seq)
        if isinstance(event.body, Rated) and may_rate(event)
    ]


def _judgement(log: EventLog, receipt: Event) -> dict[str, Any] | None:
    """Return the newest judgment that is not undone."""
    undone = log.undone_ids(log.head())
    for event in reversed(log.events_for(receipt.id)):
        if isinstance(body := event.body, Judged) and event.id not in undone:
            return {
                "at": isoformat(event.at),
                "by": body.by,
                "verdicts": [
                    {"id": id_, "verdict": verdict, "evidence": body.evidence.get(id_)}
                    for id_, verdict in body.verdicts.items()
                ],
            }
    return None


def _outcomes(log: EventLog, receipt: Event) -> Iterator[dict[str, Any]]:
    """Yield the outcomes of tests, a build, ... in the turn of a receipt, of its session."""
    if receipt.session is None:
        return
    for event in log.session_events(receipt.session, receipt.seq):
        if isinstance(event.body, Prompted):
            return
        if isinstance(event.body, Outcome):
            yield {
                "at": isoformat(event.at),
                "effort": event.body.effort,
                "passed": event.body.passed,
                "before": event.body.before,
            }


def _body(receipt: Event) -> Recalled:
    assert isinstance(receipt.body, Recalled)
    return receipt.body
