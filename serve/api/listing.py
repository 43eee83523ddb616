"""
The list of memories: filtered, in an order, a page at a time.
"""

from http import HTTPStatus
from typing import Annotated

import msgspec
from msgspec import Meta

from serve.api.cursor import asked_for, cursor, position
from serve.api.moments import Since, Until, period
from serve.api.operation import Operation
from serve.api.service import Call, Nothing, Reply
from serve.api.shapes import At, InProject, ShownMemory
from serve.fields import ProjectName
from serve.reader.filters import Filter
from serve.summaries.listing import Listing, Sort, State, page, shown_all
from store.body import Key, Tag
from store.events import GoalStatus, MemoryKind, Tier
from store.home.projects import checked_project


class OfMemories(InProject, frozen=True, kw_only=True):
    """Which memories, and how many of them."""

    project: (
        Annotated[
            ProjectName,
            Meta(
                description='Of this project, or of none; "" asks for those of none; else of all.'
            ),
        ]
        | None
    ) = None
    kind: Annotated[tuple[MemoryKind, ...], Meta(description="Only of these kinds.")] = ()
    tier: Annotated[tuple[Tier, ...], Meta(description="Only of these tiers.")] = ()
    tag: Annotated[tuple[Tag, ...], Meta(description="Only with all of these tags.")] = ()
    state: Annotated[State, Meta(description="Only in this state.")] = "active"
    pinned: Annotated[bool, Meta(description="Only what is pinned, or is not.")] | None = None
    key: Annotated[Key, Meta(description="Only values of this key: deploy.region.")] | None = None
    text: Annotated[str, Meta(description="Only what holds these words.", max_length=1_000)] = ""
    since: Since | None = None
    until: Until | None = None
    sort: Annotated[Sort, Meta(description="- stands for the greatest first.")] = "-created_at"
    limit: Annotated[int, Meta(description="How many at most.", ge=1, le=200)] = 50
    cursor: (
        Annotated[str, Meta(description="`next` of the page before, asked with the same filters.")]
        | None
    ) = None


class ListedMemory(ShownMemory, frozen=True, kw_only=True, omit_defaults=True):
    """A memory in a list; of a forgotten one only its tombstone."""

    tier: Tier | None = None
    importance: float | None = None
    key: str | None = None
    value: str | None = None
    status: GoalStatus | None = None
    progress: float | None = None
    updated_at: At | None = None
    expires_at: At | None = None


class Memories(msgspec.Struct, frozen=True, kw_only=True):
    """A page; `next` is the cursor of the one after it, null at the end. `total` counts all that
    pass the filters, on whatever page.
    """

    memories: tuple[ListedMemory, ...]
    next: str | None
    total: int


def list_memories(call: Call[OfMemories, Nothing]) -> Reply:
    query, tenant, now = call.query, call.tenant, call.now
    of = asked_for(call)
    after = None if query.cursor is None else position(query.cursor, of)
    asked = _listing(query, now)
    found = tenant.reader.answered(lambda view: page(view, asked, query.limit, after))
    return Reply(
        {
            "memories": shown_all(found.memories, now),
            "next": None if found.next is None else cursor(found.next, of),
            "total": found.total,
        }
    )


def _listing(query: OfMemories, now: int) -> Listing:
    since, until = period(query.since, query.until, now)
    those = Filter(
        now=now,
        project=checked_project(query.project) if query.project else query.project,
        kinds=query.kind,
        tiers=query.tier,
        tags=query.tag,
        since=since,
        until=until,
    )
    return Listing(those, query.state, query.pinned, query.key, query.text.strip(), query.sort)


OPERATIONS = (
    Operation(
        "GET",
        "/v1/memories",
        "listMemories",
        "List memories, the newest first where nothing else is said; no question is asked.",
        list_memories,
        query=OfMemories,
        answers={HTTPStatus.OK: Memories},
        problems=("not_found", "invalid_name", "invalid_cursor"),
    ),
)
