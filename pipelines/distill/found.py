"""
Found: what one session taught. The same found in several sessions is one lesson.

Its `key` says what makes it the same. Words of a tool are only ever quoted, in what has a tool's
trust: so they are never a rule (`serve.rules`), however often they are found.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

from store.log.event_kinds import Made, MemoryKind, Trust

_NUMBERS = re.compile(r"0x[0-9a-f]+|\d+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Found:
    """`memories` and `events` are ids of its sources, `files` those it speaks of, relative to the
    project; `at` is when it happened, microseconds UTC. `rule` is what it says once it was found
    twice.
    """

    key: str
    kind: MemoryKind
    content: str
    trust: Trust
    session: str
    at: int
    memories: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    project: str | None = None
    context: str | None = None
    result: str | None = None
    rule: str | None = None
    made: Made | None = None  # where a model found it
    until: int = 0  # the last event of the session that a model was shown
    is_told: bool = False  # a memory of the session says it already


def key(*parts: str | None) -> str:
    """Return what stands for the same thing wherever it is found; 16 letters of hex."""
    plain = "\x00".join(" ".join((part or "").casefold().split()) for part in parts)
    return sha256(plain.encode()).hexdigest()[:16]


def alike(error: str) -> str:
    """Return an error's line without what differs from one run to the next."""
    return _NUMBERS.sub("#", error)


def plain(text: str) -> str:
    """Return a text as two are compared: no case, no white space, no full stop."""
    return " ".join(text.casefold().split()).strip(" .!")


def listed(names: Sequence[str], most: int = 6) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
