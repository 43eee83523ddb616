"""
Cursors: where a page of a list ended, as the next request names it.

Opaque to who gets one, and of the list it came with: a cursor of another list or other filters is
refused, since it would leave something out or tell it twice.
"""

import base64
from collections.abc import Sequence
from hashlib import sha256
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from store.errors import InvalidCursor

Cursor = Annotated[
    str,
    Meta(description="`next` of the page before; with the same filters.", max_length=512),
]
Place = tuple[int | str, ...]  # the key of the last row: of an order that never changes

_Kept = tuple[str, Place]
_decoder = msgspec.json.Decoder(_Kept)
_NOT_IN = ("cursor", "limit", "tenant")  # of the filters: they may differ from page to page


def written(place: Sequence[int | str], of: str, query: msgspec.Struct) -> str:
    """Return the cursor of a place in a list, of a name, as it was asked for."""
    return base64.urlsafe_b64encode(msgspec.json.encode((_mark(of, query), tuple(place)))).decode()


def read(cursor: str, of: str, query: msgspec.Struct, place: Any) -> Any:
    """Return the place that a cursor of this list names, of a type; raise InvalidCursor."""
    try:
        mark, found = _decoder.decode(base64.urlsafe_b64decode(cursor.encode()))
        if mark == _mark(of, query):
            return msgspec.convert(found, place)
    except (ValueError, msgspec.MsgspecError):  # no base64, no UTF-8, no JSON, another place
        pass
    raise InvalidCursor("this cursor is of another list, or of other filters: begin without one")


def _mark(of: str, query: msgspec.Struct) -> str:
    filters = {
        name: getattr(query, name) for name in query.__struct_fields__ if name not in _NOT_IN
    }
    return sha256(of.encode() + msgspec.json.encode(filters)).hexdigest()[:16]
