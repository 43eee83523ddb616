"""
Receipts: what was asked of a memory, what came back, and whether it helped.
"""

from http import HTTPStatus
from typing import Annotated

import msgspec
from msgspec import Meta

from serve.api.cursor import asked_for, cursor, position
from serve.api.moments import Since, Until, period
from serve.api.operation import Operation
from serve.api.service import Call, Nothing, Reply
from serve.api.shapes import At, InProject, InTenant, ShownMemory
from serve.summaries import receipts as told
from serve.summaries.listing import Position
from store import receipts
from store.agent_events import Effort
from store.body import Id
from store.events import Route, Trust
from store.home.projects import named_project
from store.job_events import Judge, Verdict
from store.receipts import Wanted


class OfReceipts(InProject, frozen=True, kw_only=True):
    """Which receipts; what is left out asks nothing."""

    since: Since | None = None
    until: Until | None = None
    session: (
        Annotated[str, Meta(description="Of one session of an agent.", max_length=200)] | None
    ) = None
    memory: Annotated[Id, Meta(description="Those that brought this memory.")] | None = None
    silent: (
        Annotated[bool, Meta(description="Those that brought nothing, or those that did.")] | None
    ) = None
    cursor: (
        Annotated[str, Meta(description="`next` of the page before, asked with the same filters.")]
        | None
    ) = None
    limit: Annotated[int, Meta(description="How many at most.", ge=1, le=200)] = 50


class AsHit(msgspec.Struct, frozen=True, kw_only=True):
    """The place of a memory among the hits, from 1."""

    rank: int
    score: float
    confidence: float


class ReceiptInShort(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A recall: `hits` came back, the surest with this `confidence`, `dropped` did not. `rated` is
    the newest rating of it. `as_hit` is told where a memory was asked for.
    """

    id: Id
    seq: int
    at: At
    query: str
    mode: str
    project: str | None
    session: str | None
    agent: str | None
    hits: int
    confidence: float | None
    dropped: int
    took_ms: float
    rated: Verdict | None
    as_hit: AsHit | None = None


class Receipts(msgspec.Struct, frozen=True, kw_only=True):
    """The newest first. `looked_at` were read for it: with few that pass a page may be short, and
    `next` the cursor of what is older all the same; null at the end.
    """

    receipts: tuple[ReceiptInShort, ...]
    next: str | None
    looked_at: int


class HitOfReceipt(AsHit, frozen=True, kw_only=True):
    """What came back, and the memory as it is now; null where it is no more."""

    id: Id
    memory: ShownMemory | None


class Rating(msgspec.Struct, frozen=True, kw_only=True):
    """What was said of the recall, or of a memory that it brought."""

    of: Id
    at: At
    verdict: Verdict
    reason: str | None
    trust: Trust


class OneVerdict(msgspec.Struct, frozen=True, kw_only=True):
    id: Id
    verdict: Verdict
    evidence: str | None


class Judgment(msgspec.Struct, frozen=True, kw_only=True):
    """How the hits turned out, by what was done afterwards."""

    at: At
    by: Judge
    verdicts: tuple[OneVerdict, ...]


class OutcomeOfTurn(msgspec.Struct, frozen=True, kw_only=True):
    """How tests, a build, ... came out in the turn that the recall was part of."""

    at: At
    effort: Effort
    passed: bool
    before: bool | None


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """All there is of a recall: `dropped` counts what did not come back, by the reason."""

    id: Id
    seq: int
    at: At
    query: str
    mode: str
    project: str | None
    session: str | None
    agent: str | None
    manifest: int | None
    watermark: int
    took_ms: float
    hits: tuple[HitOfReceipt, ...]
    dropped: dict[str, int]
    route: Route | None
    ratings: tuple[Rating, ...]
    judged: Judgment | None
    outcomes: tuple[OutcomeOfTurn, ...]


def listed(call: Call[OfReceipts, Nothing]) -> Reply:
    query, tenant = call.query, call.tenant
    since, until = period(query.since, query.until, call.now)
    wanted = Wanted(
        since=since,
        until=until,
        project=named_project(query.project),
        session=query.session,
        memory=query.memory,
        silent=query.silent,
    )
    of = asked_for(call)
    after = None if query.cursor is None else position(query.cursor, of)
    tenant.notes.write_if_possible()  # those of the answers just given, too
    page = receipts.page(tenant.log, wanted, query.limit, after)
    found = [told.in_short(tenant.log, one, query.memory) for one in page.receipts]
    following = page.last and cursor(Position(*page.last), of)
    return Reply({"receipts": found, "next": following, "looked_at": page.looked_at})


def show(call: Call[InTenant, Nothing]) -> Reply:
    tenant = call.tenant
    tenant.notes.write_if_possible()
    receipt = receipts.find(tenant.log, call.path["id"])
    return Reply(tenant.reader.answered(lambda view: told.shown(view, tenant.log, receipt)))


OPERATIONS = (
    Operation(
        "GET",
        "/v1/receipts",
        "listReceipts",
        "List what was recalled, the newest first.",
        listed,
        tag="receipts",
        query=OfReceipts,
        answers={HTTPStatus.OK: Receipts},
        problems=("not_found", "invalid_name", "invalid_cursor"),
    ),
    Operation(
        "GET",
        "/v1/receipts/{id}",
        "getReceipt",
        "Show what a recall brought, what was said of it and how it ended.",
        show,
        tag="receipts",
        query=InTenant,
        answers={HTTPStatus.OK: Receipt},
        problems=("not_found", "invalid_name"),
    ),
)
