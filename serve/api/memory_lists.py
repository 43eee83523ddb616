"""
The list of memories: filtered, in an order, a page at a time.
"""

from collections.abc import Iterable, Iterator
from http import HTTPStatus
from itertools import chain
from threading import BoundedSemaphore
from typing import Annotated

from mnemolog.wire import Memories
from msgspec import Meta

from serve.api.operation import EXPORTS, Call, Nothing, Operation, Reply
from serve.api.parameters import (
    ForAgents,
    InProjectThen,
    InTenant,
    Since,
    Until,
    decode_cursor,
    encode_cursor,
    list_digest,
    period,
)
from serve.reader.filters import Filter
from serve.reader.memory_json import for_agents
from serve.reader.request_fields import ProjectName
from serve.reports.listing import Listing, Sort, State, all_memory_fields, page
from store.home.errors import NotReady
from store.home.projects import check_project, optional_project
from store.importers.jsonl import Exported
from store.log.event_kinds import Key, MemoryKind, Name, Tag, Tier, Trust
from store.maintenance.export import export
from store.memories.memory import FILTERS


class OfMemories(InProjectThen, frozen=True, kw_only=True):
    """Which memories, and how many of them."""

    project: (
        Annotated[
            ProjectName,
            Meta(
                description='Memories of this project or of none; "" means of none; default: all.'
            ),
        ]
        | None
    ) = None
    kind: Annotated[tuple[MemoryKind, ...], Meta(description="Only these kinds.")] = ()
    tier: Annotated[tuple[Tier, ...], Meta(description="Only these tiers.")] = ()
    trust: Annotated[tuple[Trust, ...], Meta(description="Only what these said.")] = ()
    session: Annotated[tuple[Name, ...], Meta(description="Only of these sessions.")] = ()
    tag: Annotated[tuple[Tag, ...], Meta(description="Only with all of these tags.")] = ()
    state: Annotated[State, Meta(description="Only in this state.")] = "active"
    pinned: Annotated[bool, Meta(description="Only pinned, or only unpinned.")] | None = None
    key: Annotated[Key, Meta(description="Only values of this key: deploy.region.")] | None = None
    text: Annotated[str, Meta(description="Only with these words.", max_length=1_000)] = ""
    since: Since | None = None
    until: Until | None = None
    for_agents: ForAgents = False
    sort: Annotated[Sort, Meta(description="- means greatest first.")] = "-created_at"
    limit: Annotated[int, Meta(description="The maximum number.", ge=1, le=200)] = 50
    cursor: (
        Annotated[str, Meta(description="`next` of the previous page, with the same filters.")]
        | None
    ) = None


def list_memories(call: Call[OfMemories, Nothing]) -> Reply:
    query, tenant, now = call.query, call.tenant, call.now
    of = list_digest(call)
    after = None if query.cursor is None else decode_cursor(query.cursor, of)
    since, until = period(query.since, query.until, now)
    conditions = Filter(
        now=now,
        project=check_project(query.project) if query.project else query.project,
        since=since,
        until=until,
        **{name: getattr(query, name.removesuffix("s")) for name in FILTERS},
    )
    text = query.text.strip()
    wanted = Listing(conditions, query.state, query.pinned, query.key, text, query.sort)
    listed = tenant.reader.answer(lambda view: page(view, wanted, query.limit, after))
    with for_agents(lambda: query.for_agents):
        memories = all_memory_fields(listed.memories, now)
    following = None if listed.next is None else encode_cursor(listed.next, of)
    return Reply({"memories": memories, "next": following, "total": listed.total})


OPERATIONS = (
    Operation(
        "GET",
        "/v1/memories",
        "listMemories",
        "List memories, by default newest first; no query is run.",
        list_memories,
        query=OfMemories,
        answers={HTTPStatus.OK: Memories},
        problems=("not_found", "invalid_name", "invalid_cursor", "not_ready"),
    ),
)


# Export: all memories of a tenant as lines of JSON, sent as they are made.
#
# The output of `mnemolog export`, which `mnemolog import jsonl` reads. It covers the log as of the
# request; later writes are left out and never wait for it. Few exports run at once.

MIMETYPE = "application/x-ndjson"

_CHUNK = 64 << 10  # bytes: fewer and larger writes


class OfExport(InTenant, frozen=True, kw_only=True):
    """Which memories."""

    project: Annotated[ProjectName, Meta(description="Only this project; default: all.")] | None = (
        None
    )
    all_states: Annotated[bool, Meta(description="Include memories that are not active.")] = False


def export_memories(call: Call[OfExport, Nothing]) -> Reply:
    query = call.query
    project = optional_project(query.project)
    lines = export(call.tenant.log, call.now, all_states=query.all_states, project=project)
    chunks, exports = _chunks(lines), call.service.exports
    if not exports.acquire(blocking=False):
        raise NotReady(f"{EXPORTS} exports are being sent: try again when one is done")
    turn = _ExportSlot(exports)
    try:
        first = next(chunks, b"")  # at once: an unreadable log is an error, not a cut-off body
    except BaseException:  # on any exception nothing will be sent; then it is re-raised
        turn.end()
        raise
    return Reply(chunks=turn.until_sent(chain((first,), chunks)), mimetype=MIMETYPE, after=turn.end)


class _ExportSlot:
    """One of the few exports at once. It ends once, when all was sent or the client left."""

    def __init__(self, exports: BoundedSemaphore) -> None:
        self._exports: BoundedSemaphore | None = exports

    def end(self) -> None:
        exports, self._exports = self._exports, None
        if exports is not None:
            exports.release()

    def until_sent(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        yield from chunks
        self.end()


def _chunks(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield lines, each with its end, in chunks."""
    waiting = bytearray()
    for line in lines:
        waiting += line + b"\n"
        if len(waiting) >= _CHUNK:
            yield bytes(waiting)
            waiting.clear()
    if waiting:
        yield bytes(waiting)


EXPORT_OPERATIONS = (
    Operation(
        "GET",
        "/v1/export",
        "exportMemories",
        "Send memories as JSON Lines, one of this schema per line, in recording order.",
        export_memories,
        query=OfExport,
        answers={HTTPStatus.OK: Exported},
        problems=("not_found", "invalid_name", "not_ready"),
        sends=MIMETYPE,
    ),
)
