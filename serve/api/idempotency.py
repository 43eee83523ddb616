"""
Idempotency keys: a POST sent again with the same `Idempotency-Key` is carried out once.

Nothing is kept for it beside the log. What a request makes gets ids that follow from who asks, the
tenant, the key and its place in the request, so a retry names events that are there already; also
after a crash, and for good. The end of such an id stands for what the request said: the same key
with another request begins alike and ends otherwise, and is refused where the log is written.

A memory that brings an id of its own keeps it: that alone makes its retry safe.

https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/
"""

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import msgspec

from serve.api.service import Call
from store.home.errors import InvalidInput
from store.log import Appended
from store.logfile import checks
from store.logfile.checks import Check

HEADER = "Idempotency-Key"
MARK = 16  # characters of an id that stand for who, key and place; the rest for what was said

_LONGEST = 255
_QUOTED = re.compile(r'"((?:[ !#-\[\]-~]|\\["\\])*)"')  # a String of RFC 8941, as the draft asks
_BARE = re.compile(r"[!#-+\--~]+")  # as most clients send it


@dataclass(frozen=True, slots=True)
class Key:
    """The key of one request: whose it is, and a digest of what the request says."""

    whose: str
    said: str

    def id(self, place: str) -> str:
        """Return the id of what the request makes at a place ("memory/3")."""
        return _base32(f"{self.whose}\x00{place}".encode(), MARK) + self.said


def key_of(call: Call[Any, Any]) -> Key | None:
    """Return the key of a request, None where it has none; raise InvalidInput for a bad one."""
    sent = call.header(HEADER)
    if sent is None:
        return None
    found = _QUOTED.fullmatch(sent) or _BARE.fullmatch(sent)
    key = re.sub(r"\\(.)", r"\1", found[1]) if found and found.re is _QUOTED else sent
    if found is None or not 0 < len(key) <= _LONGEST:
        raise InvalidInput(
            f'`{HEADER}` is no key: send up to {_LONGEST} visible characters in quotes, a "UUID"'
        )
    who = call.caller.token_id or call.caller.name
    return Key("\x00".join((who, call.tenant.tenant.name, key)), _said(call))


def derived(call: Call[Any, Any], place: str) -> str | None:
    """Return the id of what a request makes at a place; None where it has no key."""
    key = key_of(call)
    return key.id(place) if key else None


def first_use(id_: str | None) -> tuple[Check, ...]:
    """Return the check that a derived id's key never came with another request."""
    return (checks.alone(id_, id_[:MARK]),) if id_ else ()


def replayed(id_: str | None, appended: Sequence[Appended]) -> dict[str, str]:
    """Return the header that says that a keyed request was carried out before."""
    is_old = id_ is not None and any(one.event.id == id_ and not one.is_new for one in appended)
    return {"Idempotency-Replayed": "true"} if is_old else {}


def _said(call: Call[Any, Any]) -> str:
    try:
        said = msgspec.json.encode((call.path, call.body), order="deterministic")
    except (UnicodeEncodeError, RecursionError) as error:
        raise InvalidInput(f"the body cannot be read as JSON again: {error}") from error
    return _base32(said, 8)


def _base32(data: bytes, length: int) -> str:
    """Return a digest in capitals and digits; `length` is a multiple of eight."""
    return base64.b32hexencode(sha256(data).digest()[: length * 5 // 8]).decode()
