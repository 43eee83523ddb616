"""
Export: all memories of a tenant as lines of JSON, sent as they are made.

What `mnemolog export` writes, for `mnemolog import jsonl` to take back. It is read from the log as
it was when asked; what is written meanwhile is not in it, and waits for nothing. Few are sent at
once.
"""

from collections.abc import Iterable, Iterator
from http import HTTPStatus
from itertools import chain
from threading import BoundedSemaphore
from typing import Annotated

from msgspec import Meta

from serve.api.operation import Operation
from serve.api.service import EXPORTS, Call, Nothing, Reply
from serve.api.shapes import InTenant
from serve.fields import ProjectName
from store.export import export
from store.home.errors import NotReady
from store.home.projects import named_project
from store.importers.jsonl import Exported

MIMETYPE = "application/x-ndjson"

_CHUNK = 64 << 10  # bytes: fewer and larger writes


class OfExport(InTenant, frozen=True, kw_only=True):
    """Which memories."""

    project: Annotated[ProjectName, Meta(description="Only its own; else all.")] | None = None
    all_states: Annotated[bool, Meta(description="Also what is not active; else not.")] = False


def exported(call: Call[OfExport, Nothing]) -> Reply:
    query = call.query
    project = named_project(query.project)
    lines = export(call.tenant.log, call.now, all_states=query.all_states, project=project)
    chunks, exports = _chunks(lines), call.service.exports
    if not exports.acquire(blocking=False):
        raise NotReady(f"{EXPORTS} exports are being sent: ask again when one is done")
    turn = _Turn(exports)
    try:
        first = next(chunks, b"")  # at once: a log that cannot be read is said so, not cut off
    except BaseException:  # whatever it is, nothing will be sent; then it goes on
        turn.end()
        raise
    return Reply(chunks=turn.until_sent(chain((first,), chunks)), mimetype=MIMETYPE, after=turn.end)


class _Turn:
    """One of the few exports at once. It ends once, whether all was sent or who asked left."""

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
        problems=("not_found", "invalid_name", "not_ready"),
        sends=MIMETYPE,
    ),
)
