"""
Entity tags of a memory: `"12-9f3a2c1b"`, its newest change's seq and a digest of the body.

`If-Match` checks the seq, when the log is written, so no change is lost; effects of other memories
(a newer value of its key, a duplicate) never refuse a request. `If-None-Match` checks the whole
tag. RFC 9110, sections 8.8.3 and 13.1: https://www.rfc-editor.org/rfc/rfc9110.
"""

import base64
import re
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import msgspec

from serve.api.operation import Call
from store.home.errors import InvalidInput
from store.log import checks
from store.log.checks import Check
from store.log.event_log import Appended

IF_MATCH = ("If-Match",)

_TAG = r'(?:W/)?"[\x21\x23-\x7e\x80-\xff]*"'
_TAGS = re.compile(rf"{_TAG}(?:[ \t]*,[ \t]*{_TAG})*")
_STRONG = re.compile(r'(?<!W/)"([^"]*)"')
_OURS = re.compile(r"([1-9][0-9]{0,18})(?:-[0-9a-f]{8})?", re.ASCII)
_DIGITS = 8  # of the digest


def make_etag(seq: int, sent: bytes = b"") -> str:
    """Return the tag of a memory from the seq of its newest change and the body `sent`."""
    digest = f"-{sha256(sent).hexdigest()[:_DIGITS]}" if sent else ""
    return f'"{seq}{digest}"'


def expected_seqs(call: Call[Any, Any]) -> frozenset[int] | None:
    """Return the seqs in `If-Match`, one of which must be the newest; None if any may be.

    Raise InvalidInput if the header is not a list of tags.
    """
    sent = call.header("If-Match")
    if sent is None or sent.strip() == "*":  # a missing memory is not found anyway
        return None
    if not _TAGS.fullmatch(sent.strip()):
        raise InvalidInput('`If-Match` is not a list of entity tags: send "12-9f3a2c1b", or *')
    ours = (_OURS.fullmatch(one) for one in _STRONG.findall(sent))
    return frozenset(int(match[1]) for match in ours if match)


def unchanged_check(call: Call[Any, Any], event_id: str | None = None) -> tuple[Check, ...]:
    """Return the check that `If-Match` requires of the memory in the path; none without the header.

    `event_id` is that of a keyed request, which is carried out once.
    """
    seqs = expected_seqs(call)
    return () if seqs is None else (checks.require_unchanged(call.path["id"], seqs, event_id),)


def is_cached(call: Call[Any, Any], current: str) -> bool:
    """Return True if `If-None-Match` says that the client already has the `current` response."""
    sent = call.header("If-None-Match") or ""
    return sent.strip() == "*" or current in re.findall(r'"[^"]*"', sent)


# Idempotency keys: a POST sent again with the same `Idempotency-Key` is carried out once.
#
# Nothing is kept for it beside the log. The ids of the request's objects derive from the caller,
# the tenant, the key and their place in the request, so a retry names existing events, even after a
# crash, and for good. The end of such an id encodes the request: the same key with another request
# gives the same beginning and another end, and is refused when the log is written.
#
# A memory with an id of its own keeps it: the id alone makes its retry safe.
#
# https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/

IDEMPOTENCY_KEY = "Idempotency-Key"
MARK = 16  # characters of an id that encode caller, key and place; the rest encode the request

_LONGEST = 255
_QUOTED = re.compile(r'"((?:[ !#-\[\]-~]|\\["\\])*)"')  # a String of RFC 8941, as the draft asks
_BARE = re.compile(r"[!#-+\--~]+")  # as most clients send it


class IdempotencyKey(msgspec.Struct, frozen=True):
    """A request's caller, tenant and key, and a digest of the request."""

    whose: str
    said: str

    def id(self, place: str) -> str:
        """Return the id of the object that the request makes at a place ("memory/3")."""
        return _base32(f"{self.whose}\x00{place}".encode(), MARK) + self.said


def idempotency_key(call: Call[Any, Any]) -> IdempotencyKey | None:
    """Return the key of a request, None without one; raise InvalidInput for an invalid key."""
    sent = call.header(IDEMPOTENCY_KEY)
    if sent is None:
        return None
    match = _QUOTED.fullmatch(sent) or _BARE.fullmatch(sent)
    key = re.sub(r"\\(.)", r"\1", match[1]) if match and match.re is _QUOTED else sent
    if match is None or not 0 < len(key) <= _LONGEST:
        raise InvalidInput(
            f"`{IDEMPOTENCY_KEY}` is no key: send up to {_LONGEST} visible characters in quotes, "
            'a "UUID"'
        )
    who = call.caller.token_id or call.caller.name
    return IdempotencyKey("\x00".join((who, call.tenant.tenant.name, key)), _digest_request(call))


def derive_id(call: Call[Any, Any], place: str) -> str | None:
    """Return the id of the object that a request makes at a place; None without a key."""
    key = idempotency_key(call)
    return key.id(place) if key else None


def first_use_check(id_: str | None) -> tuple[Check, ...]:
    """Return the check that a derived id's key was never used with another request."""
    return (checks.alone(id_, id_[:MARK]),) if id_ else ()


def replay_header(id_: str | None, appended: Sequence[Appended]) -> dict[str, str]:
    """Return the header that marks a keyed request as already carried out."""
    is_old = id_ is not None and any(
        change.event.id == id_ and not change.is_new for change in appended
    )
    return {"Idempotency-Replayed": "true"} if is_old else {}


def _digest_request(call: Call[Any, Any]) -> str:
    try:
        data = msgspec.json.encode((call.path, call.body), order="deterministic")
    except (UnicodeEncodeError, RecursionError) as error:
        raise InvalidInput(f"the body cannot be read as JSON again: {error}") from error
    return _base32(data, 8)


def _base32(data: bytes, length: int) -> str:
    """Return a digest in capitals and digits; `length` is a multiple of eight."""
    return base64.b32hexencode(sha256(data).digest()[: length * 5 // 8]).decode()
