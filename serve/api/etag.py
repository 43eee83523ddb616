"""
Entity tags of a memory: `"12-9f3a2c1b"`, its newest change's seq and a digest of what was sent.

`If-Match` looks at the seq, where the log is written, so no change is lost; what follows from other
memories (a newer value of its key, a duplicate) refuses nobody's. `If-None-Match` looks at all of
it. RFC 9110, sections 8.8.3 and 13.1: https://www.rfc-editor.org/rfc/rfc9110.
"""

import re
from hashlib import sha256
from typing import Any

from serve.api.service import Call
from store.home.errors import InvalidInput
from store.logfile import checks
from store.logfile.checks import Check

HEADERS = ("If-Match",)

_TAG = r'(?:W/)?"[\x21\x23-\x7e\x80-\xff]*"'
_TAGS = re.compile(rf"{_TAG}(?:[ \t]*,[ \t]*{_TAG})*")
_STRONG = re.compile(r'(?<!W/)"([^"]*)"')
_OURS = re.compile(r"([1-9][0-9]{0,18})(?:-[0-9a-f]{8})?", re.ASCII)
_DIGITS = 8  # of the digest


def tag(seq: int, sent: bytes = b"") -> str:
    """Return the tag of a memory whose newest change has a seq, shown as `sent`."""
    shown = f"-{sha256(sent).hexdigest()[:_DIGITS]}" if sent else ""
    return f'"{seq}{shown}"'


def seen(call: Call[Any, Any]) -> frozenset[int] | None:
    """Return the seqs that `If-Match` names, one of which must be the newest; None: any may be.

    Raise InvalidInput where it is no list of tags.
    """
    sent = call.header("If-Match")
    if sent is None or sent.strip() == "*":  # what is not there at all is not found anyway
        return None
    if not _TAGS.fullmatch(sent.strip()):
        raise InvalidInput('`If-Match` is no list of entity tags: send "12-9f3a2c1b", or *')
    ours = (_OURS.fullmatch(one) for one in _STRONG.findall(sent))
    return frozenset(int(one[1]) for one in ours if one)


def unchanged(call: Call[Any, Any], event_id: str | None = None) -> tuple[Check, ...]:
    """Return the check that `If-Match` asks of the memory in the path; none where it is not sent.

    `event_id` is that of a keyed request, which is carried out once.
    """
    seqs = seen(call)
    return () if seqs is None else (checks.unchanged(call.path["id"], seqs, event_id),)


def is_known(call: Call[Any, Any], current: str) -> bool:
    """Return whether `If-None-Match` says that who asks has what would be sent."""
    sent = call.header("If-None-Match") or ""
    return sent.strip() == "*" or current in re.findall(r'"[^"]*"', sent)
