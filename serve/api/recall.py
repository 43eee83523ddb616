"""
Recall: query a memory, and rate the answers.
"""

from http import HTTPStatus
from typing import Annotated

from mnemolog.wire import Rated, Recalled, Receipt, Receipts
from msgspec import Meta, structs

from serve.api import preconditions
from serve.api.operation import Call, Nothing, Operation, Reply
from serve.api.parameters import (
    InProject,
    InTenant,
    Since,
    Until,
    decode_cursor,
    encode_cursor,
    list_digest,
    period,
)
from serve.api.preconditions import derive_id, first_use_check, replay_header
from serve.recall.request import Asker, RateRequest, RecallRequest, answer
from serve.reports.listing import Position
from serve.reports.receipts import receipt_fields, receipt_summary
from store.home.projects import optional_project
from store.log import commands, receipts
from store.log.event_kinds import Id
from store.log.receipts import Wanted


def recall(call: Call[Nothing, RecallRequest]) -> Reply:
    tenant, request, past = call.tenant, call.body, call.past
    if past is not None:
        request = structs.replace(request, touch=False)  # reads of the past leave no receipt
    asker = Asker(shared=() if past is not None else call.shared(tenant))
    payload, receipt = answer(tenant.reader, request, call.choices, call.now, asker)
    if receipt is not None:
        tenant.notes.add(receipt)
    if past is not None:
        payload |= past.place
        if past.notes:
            payload["notices"] = [*payload.get("notices", ()), *past.notes]
    return Reply(payload)


def rate(call: Call[Nothing, RateRequest]) -> Reply:
    tenant, request = call.tenant, call.body
    own = derive_id(call, "rated")
    tenant.notes.write()  # the rated recall may be the latest one
    event = commands.rating_event(
        tenant.log, request.id, request.verdict, call.now, request.reason, event_id=own
    )
    appended = tenant.log.append([event], first_use_check(own))
    rated = Rated(id=request.id, seq=appended[0].event.seq)
    return Reply(rated, HTTPStatus.CREATED, replay_header(own, appended))


OPERATIONS = (
    Operation(
        "POST",
        "/v1/recall",
        "recall",
        "Recall memories for a query; no model is called.",
        recall,
        tag="recall",
        body=RecallRequest,
        answers={HTTPStatus.OK: Recalled},
        problems=("not_found", "invalid_name", "not_ready"),
    ),
    Operation(
        "POST",
        "/v1/memories/search",
        "searchMemories",
        "The same as POST /v1/recall, at another address.",
        recall,
        body=RecallRequest,
        answers={HTTPStatus.OK: Recalled},
        problems=("not_found", "invalid_name", "not_ready"),
    ),
    Operation(
        "POST",
        "/v1/rate",
        "rate",
        "Rate whether a memory, or all results of a recall, helped.",
        rate,
        "write",
        tag="recall",
        body=RateRequest,
        answers={HTTPStatus.CREATED: Rated},
        problems=("not_found", "invalid_name", "idempotency_mismatch"),
        headers=(preconditions.IDEMPOTENCY_KEY,),
    ),
)


# Receipts: a recall's request, its hits, and their ratings.


class OfReceipts(InProject, frozen=True, kw_only=True):
    """Which receipts; what is left out asks nothing."""

    since: Since | None = None
    until: Until | None = None
    session: (
        Annotated[str, Meta(description="Only this session of an agent.", max_length=200)] | None
    ) = None
    memory: Annotated[Id, Meta(description="Only recalls that returned this memory.")] | None = None
    silent: (
        Annotated[
            bool, Meta(description="Only recalls without results, or only those with results.")
        ]
        | None
    ) = None
    cursor: (
        Annotated[str, Meta(description="`next` of the previous page, with the same filters.")]
        | None
    ) = None
    limit: Annotated[int, Meta(description="The maximum number.", ge=1, le=200)] = 50


def list_receipts(call: Call[OfReceipts, Nothing]) -> Reply:
    query, tenant = call.query, call.tenant
    since, until = period(query.since, query.until, call.now)
    wanted = Wanted(
        since=since,
        until=until,
        project=optional_project(query.project),
        session=query.session,
        memories=(query.memory,) if query.memory else (),
        silent=query.silent,
    )
    of = list_digest(call)
    after = None if query.cursor is None else decode_cursor(query.cursor, of)
    tenant.notes.write_if_possible()  # including those of the latest answers
    page = receipts.page(tenant.log, wanted, query.limit, after)
    summaries = [receipt_summary(tenant.log, event, query.memory) for event in page.receipts]
    following = page.last and encode_cursor(Position(*page.last), of)
    return Reply({"receipts": summaries, "next": following, "looked_at": page.looked_at})


def show_receipt(call: Call[InTenant, Nothing]) -> Reply:
    tenant = call.tenant
    tenant.notes.write_if_possible()
    receipt = receipts.find(tenant.log, call.path["id"])
    return Reply(tenant.reader.answer(lambda view: receipt_fields(view, tenant.log, receipt)))


RECEIPT_OPERATIONS = (
    Operation(
        "GET",
        "/v1/receipts",
        "listReceipts",
        "List recalls, newest first.",
        list_receipts,
        tag="receipts",
        query=OfReceipts,
        answers={HTTPStatus.OK: Receipts},
        problems=("not_found", "invalid_name", "invalid_cursor"),
    ),
    Operation(
        "GET",
        "/v1/receipts/{id}",
        "getReceipt",
        "Show a recall's results, its ratings and how the turn ended.",
        show_receipt,
        tag="receipts",
        query=InTenant,
        answers={HTTPStatus.OK: Receipt},
        problems=("not_found", "invalid_name"),
    ),
)
