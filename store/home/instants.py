"""
Instants and ids: microseconds UTC, calendar dates, and the ULIDs made from them.

An id sorts by its moment; an id derived from a source is the same each time it is read.
"""

import os
from datetime import UTC, datetime, timedelta
from hashlib import sha256

# microseconds
SECOND, MINUTE, HOUR, DAY = 1_000_000, 60_000_000, 3_600_000_000, 86_400_000_000


def new_id(at: int) -> str:
    """Return a fresh ULID for a moment in microseconds."""
    return _ulid(at, os.urandom(10))


def id_moment(id_: str) -> int:
    """Return the moment of a ULID, microseconds UTC, to the millisecond."""
    milliseconds = 0
    for letter in id_[:10]:
        milliseconds = milliseconds * 32 + _BASE32.index(letter)
    return milliseconds * 1_000


def derived_id(at: int, *parts: str) -> str:
    """Return the ULID derived from `parts`: reading a source twice adds nothing twice."""
    digest = sha256("\x00".join(parts).encode()).digest()
    return _ulid(at, digest[:10])


_BASE32 = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # Crockford's: no I, L, O or U


_PAIRS = [first + second for first in _BASE32 for second in _BASE32]


def _ulid(at: int, chance: bytes) -> str:
    """Return the ULID of a moment's milliseconds and ten bytes: https://github.com/ulid/spec."""
    number = (max(at, 0) // 1000 << 80) + int.from_bytes(chance, "big")
    return "".join([_PAIRS[number >> shift & 1023] for shift in range(120, -1, -10)])


EVER = 2**62  # microseconds: later than any event


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def micros(moment: datetime) -> int:
    """Return microseconds since 1970 UTC; a moment without a zone is taken as UTC."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(microseconds=1)


EARLIEST = micros(datetime.min)  # the range of a calendar


LATEST = micros(datetime.max)


def moment(at: int) -> datetime:
    """Return the UTC datetime of microseconds since 1970."""
    return _EPOCH + timedelta(microseconds=at)


def isoformat(at: int) -> str:
    """Return microseconds as people and programs read them: 2026-11-20T13:08:56Z."""
    return moment(at).replace(tzinfo=None).isoformat(timespec="seconds") + "Z"
