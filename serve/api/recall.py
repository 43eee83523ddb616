"""
Recall: ask a memory, and say whether what came back helped.
"""

from http import HTTPStatus
from typing import Any, Literal

import msgspec

from serve.api import idempotency
from serve.api.idempotency import derived, first_use, replayed
from serve.api.operation import Operation
from serve.api.service import Call, Nothing, Reply
from serve.api.shapes import At, ShownMemory
from serve.recall.request import RateRequest, RecallRequest, answer
from store import commands
from store.events import Trust


class Replaced(msgspec.Struct, frozen=True, kw_only=True):
    """What a memory took the place of."""

    id: str
    text: str
    at: At
    trust: Trust


class ShownHit(ShownMemory, frozen=True, kw_only=True, omit_defaults=True):
    """A memory that came back. `confidence` is the calibrated chance that it bears on the query.

    `copies` say the same and were folded into it; `conflicts_with` is a newer one that says another
    value; `history` what it replaced, newest first; `insights` are of jobs, and gave way to it. A
    `rule` is to be followed, a `fact` is background. `why`, where asked for, is its evidence.
    """

    role: Literal["rule", "fact"]
    score: float
    confidence: float
    copies: tuple[str, ...] = ()
    conflicts_with: str | None = None
    insights: tuple[str, ...] = ()
    history: tuple[Replaced, ...] = ()
    why: dict[str, Any] | None = None


class Recalled(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer. `recall` is its receipt's id, by which it can be rated; `below_bar` counts what
    was not sure enough to come back.
    """

    hits: tuple[ShownHit, ...]
    below_bar: int
    min_confidence: float
    degraded: bool
    manifest: int | None
    watermark: int
    took_ms: float
    notices: tuple[str, ...] = ()
    recall: str | None = None
    why: dict[str, Any] | None = None


class Rated(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    seq: int


def recall(call: Call[Nothing, RecallRequest]) -> Reply:
    tenant, service = call.tenant, call.service
    payload, receipt = answer(
        tenant.reader, service.tenants.embedder, call.body, service.choices, call.now
    )
    if receipt is not None:
        tenant.notes.add(receipt)
    return Reply(payload)


def rate(call: Call[Nothing, RateRequest]) -> Reply:
    tenant, asked = call.tenant, call.body
    own = derived(call, "rated")
    tenant.notes.write()  # the recall that is rated may be the one just answered
    event = commands.rated(
        tenant.log, asked.id, asked.verdict, call.now, asked.reason, event_id=own
    )
    done = tenant.log.append([event], first_use(own))
    said = Rated(id=asked.id, seq=done[0].event.seq)
    return Reply(said, HTTPStatus.CREATED, replayed(own, done))


OPERATIONS = (
    Operation(
        "POST",
        "/v1/recall",
        "recall",
        "Recall what bears on a query; no model is asked.",
        recall,
        tag="recall",
        body=RecallRequest,
        answers={HTTPStatus.OK: Recalled},
        problems=("not_found", "invalid_name"),
    ),
    Operation(
        "POST",
        "/v1/memories/search",
        "searchMemories",
        "Recall, by another address: takes, does and answers what POST /v1/recall does.",
        recall,
        body=RecallRequest,
        answers={HTTPStatus.OK: Recalled},
        problems=("not_found", "invalid_name"),
    ),
    Operation(
        "POST",
        "/v1/rate",
        "rate",
        "Say whether a memory, or all that a recall brought, helped.",
        rate,
        "write",
        tag="recall",
        body=RateRequest,
        answers={HTTPStatus.CREATED: Rated},
        problems=("not_found", "invalid_name", "idempotency_mismatch"),
        headers=(idempotency.HEADER,),
    ),
)
