"""
Parameters that several operations share: the tenant and project, cursors, moments.
"""

import base64
from hashlib import sha256
from typing import Annotated, Any

import msgspec
from msgspec import Meta, structs

from serve.api.operation import Call
from serve.formatting import parse_time
from serve.reader.request_fields import (
    MOMENT_FORMS,
    KnownAt,
    ProjectName,
    TenantName,
    When,
)
from serve.reports.listing import Position
from store.home.errors import InvalidCursor, InvalidInput
from store.home.instants import micros
from store.log.commands import Draft


class InTenant(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The parameters of what concerns one tenant."""

    tenant: TenantName | None = None


class InProject(InTenant, frozen=True, kw_only=True):
    project: ProjectName | None = None


class KnownThen(InTenant, frozen=True, kw_only=True):
    """The parameters of what can be asked as it was known."""

    known_at: KnownAt | None = None


class InProjectThen(InProject, frozen=True, kw_only=True):
    known_at: KnownAt | None = None


class SentDraft(Draft, frozen=True, kw_only=True):
    """A memory as a caller asks for it: what is recorded, and whose it is."""

    made: None = None  # is for jobs to set
    author: None = None  # the server sets it


ForAgents = Annotated[
    bool, Meta(description="Without the words of what is held back from agents until accepted.")
]

# Cursors: the start of the next page, and the list it belongs to, as opaque text

Number = Annotated[int, Meta(ge=-(2**62), le=2**62)]

_decoder = msgspec.json.Decoder(tuple[Number | float, Number, str])


def filter_digest(of: str, filters: object) -> str:
    """Return a digest of a list's filters and order, to tell two lists apart."""
    data = msgspec.json.encode((of, filters), order="deterministic")
    return sha256(data).hexdigest()[:12]


def list_digest(call: Call[Any, Any]) -> str:
    """Return the digest of the requested list, the same for all its pages."""
    every = structs.replace(call.query, tenant=call.tenant.tenant.name, limit=1, cursor=None)
    return filter_digest(type(every).__name__, every)


def encode_cursor(position: Position, of: str) -> str:
    """Return the cursor of a position in the list with a digest."""
    data = msgspec.json.encode((*position, of))
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decode_cursor(sent: str, of: str) -> Position:
    """Return the position of a cursor; raise InvalidCursor if it is malformed or another list's."""
    try:
        data = base64.b64decode(sent + "=" * (-len(sent) % 4), b"-_", validate=True)
        value, seq, other = _decoder.decode(data)
    except (ValueError, msgspec.MsgspecError) as error:
        raise InvalidCursor("invalid cursor: omit it for the first page") from error
    if other != of:
        raise InvalidCursor("this cursor belongs to other filters: send those, or omit it")
    return Position(value, seq)


# Moments, as people type them and as programs write them

Moment = Annotated[When, Meta(extra_json_schema={"anyOf": MOMENT_FORMS})]
Since = Annotated[Moment, Meta(description="From this time on: 2026-11-20, or 7d ago.")]
Until = Annotated[Moment, Meta(description="Before this time: 2026-11-20T13:00:00Z.")]


def parse_moment(name: str, text: str | None, now: int) -> int | None:
    """Return the microseconds UTC of a moment, None if none is given; raise InvalidInput."""
    if text is None:
        return None
    try:
        return micros(parse_time(text, now))
    except InvalidInput as error:
        raise InvalidInput(f"`{name}`: {error}") from error


def period(since: str | None, until: str | None, now: int) -> tuple[int | None, int | None]:
    """Return both ends of a period; raise InvalidInput if the first is not before the second."""
    first, last = parse_moment("since", since, now), parse_moment("until", until, now)
    if first is not None and last is not None and first >= last:
        raise InvalidInput("`since` must lie before `until`")
    return first, last
