"""
Cursors: where the next page of a list begins, and of which list, in letters that mean nothing.
"""

import base64
from hashlib import sha256
from typing import Annotated, Any

import msgspec
from msgspec import Meta, structs

from serve.api.service import Call
from serve.summaries.listing import Position
from store.home.errors import InvalidCursor

Number = Annotated[int, Meta(ge=-(2**62), le=2**62)]

_decoder = msgspec.json.Decoder(tuple[Number | float, Number, str])


def digest(of: str, filters: object) -> str:
    """Return what stands for a list: two of other filters or another order have two of them."""
    said = msgspec.json.encode((of, filters), order="deterministic")
    return sha256(said).hexdigest()[:12]


def asked_for(call: Call[Any, Any]) -> str:
    """Return what stands for the list that a request asks for, whatever page of it."""
    every = structs.replace(call.query, tenant=call.tenant.tenant.name, limit=1, cursor=None)
    return digest(type(every).__name__, every)


def cursor(position: Position, of: str) -> str:
    """Return the cursor of a position in the list that a digest stands for."""
    said = msgspec.json.encode((*position, of))
    return base64.urlsafe_b64encode(said).rstrip(b"=").decode()


def position(sent: str, of: str) -> Position:
    """Return the position of a cursor; raise InvalidCursor where it is of no or another list."""
    try:
        said = base64.b64decode(sent + "=" * (-len(sent) % 4), b"-_", validate=True)
        value, seq, other = _decoder.decode(said)
    except (ValueError, msgspec.MsgspecError) as error:
        raise InvalidCursor("this is no cursor: leave it out for the first page") from error
    if other != of:
        raise InvalidCursor("this cursor is of other filters: send those, or leave it out")
    return Position(value, seq)
