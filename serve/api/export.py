"""
Export: all memories of a tenant as lines of JSON, sent as they are made.

What `mnemolog export` writes, for `mnemolog import jsonl` to take back. It is read from the log as
it was when asked; what is written meanwhile is not in it, and waits for nothing.
"""

from collections.abc import Iterable, Iterator
from http import HTTPStatus
from itertools import chain
from typing import Annotated

from msgspec import Meta

from serve.api.operation import Operation
from serve.api.service import Call, Nothing, Reply
from serve.api.shapes import InTenant
from store.export import export
from store.importers.jsonl import Exported
from store.tenant import named_project

MIMETYPE = "application/x-ndjson"

_CHUNK = 64 << 10  # bytes: fewer and larger writes


class OfExport(InTenant, frozen=True, kw_only=True):
    """Which memories."""

    project: Annotated[str, Meta(description="Only its own; else all.")] | None = None
    all_states: Annotated[bool, Meta(description="Also what is not active; else not.")] = False


def exported(call: Call[OfExport, Nothing]) -> Reply:
    query = call.query
    project = named_project(query.project)
    lines = export(call.tenant.log, call.now, all_states=query.all_states, project=project)
    chunks = _chunks(lines)
    first = next(chunks, b"")  # at once: a log that cannot be read is said so, not cut off
    return Reply(chunks=chain((first,), chunks), mimetype=MIMETYPE)


def _chunks(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield lines, each with its end, some at a time."""
    waiting = bytearray()
    for line in lines:
        waiting += line + b"\n"
        if len(waiting) >= _CHUNK:
            yield bytes(waiting)
            waiting.clear()
    if waiting:
        yield bytes(waiting)


OPERATIONS = (
    Operation(
        "GET",
        "/v1/export",
        "exportMemories",
        "Send memories as JSON Lines, each of this schema, in the order of their recording.",
        exported,
        query=OfExport,
        answers={HTTPStatus.OK: Exported},
        problems=("not_found", "invalid_name"),
        sends=MIMETYPE,
    ),
)
