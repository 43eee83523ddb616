"""
When a tenant is due a build: enough waits, in changes or bytes, or something has waited for a day.

Its clock is on the disk, so that a server that ends when idle still does what is due daily: an
event bears its own moment, and a file beside the log tells of the last build that was begun. One
that was refused, or died, is not begun again for the same log.
"""

from dataclasses import dataclass
from pathlib import Path

import msgspec

from store.home.files import replace_file
from store.home.tenant import Tenant

DAY = 86_400_000_000  # microseconds
A_FEW = 100  # events: recalls and actions are worth a build a day, not each by itself
MANY_BYTES = 1 << 20  # of text: half of what recall indexes before a build
MANY = 10_000  # events of whatever kind: a server reads them all when it starts


@dataclass(frozen=True, slots=True)
class Waiting:
    """What the log holds after the published manifest. `since` is when the first was written."""

    watermark: int  # of the manifest; 0 where there is none
    head: int
    changes: int  # events that change a memory
    since: int  # microseconds UTC
    bytes: int = 0  # of the texts these changed


class Begun(msgspec.Struct, frozen=True):
    """The last build that was begun: when, and what waited then."""

    at: int
    head: int
    changes: int
    bytes: int = 0


# made once, before there are threads: msgspec 0.22 crashes where two meet a type for the first time
_decoder = msgspec.json.Decoder(Begun)


def is_due(waiting: Waiting, begun: Begun | None, now: int, build_after: int) -> bool:
    """Return whether to begin a build; `build_after` is how many changes are enough, 0: never."""
    changes, events, since = waiting.changes, waiting.head - waiting.watermark, waiting.since
    size = waiting.bytes
    if begun is not None and begun.head > waiting.watermark:  # and it was not published
        changes, events, since = changes - begun.changes, waiting.head - begun.head, begun.at
        size -= begun.bytes
    if not build_after or events <= 0:
        return False
    is_old = abs(now - since) >= DAY  # from the future: a clock was wrong, and nobody waits for it
    is_much = changes >= build_after or size >= MANY_BYTES or events >= MANY
    return is_much or (is_old and (changes > 0 or events >= A_FEW))


def begin(tenant: Tenant, waiting: Waiting, now: int) -> None:
    """Keep that a build is begun."""
    begun = Begun(now, waiting.head, waiting.changes, waiting.bytes)
    replace_file(_path(tenant), msgspec.json.encode(begun))


def last_begun(tenant: Tenant) -> Begun | None:
    """Return the last build that was begun; None where there was none, or nobody can tell."""
    try:
        return _decoder.decode(_path(tenant).read_bytes())
    except (OSError, UnicodeDecodeError, msgspec.MsgspecError):
        return None


def _path(tenant: Tenant) -> Path:
    return tenant.root / "upkeep.json"
