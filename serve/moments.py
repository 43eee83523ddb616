"""
Times as people type and read them: 30d, 2026-11-20, "3 d ago".
"""

import re
from datetime import UTC, datetime, timedelta

from store.home.errors import InvalidInput

_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 7 * 86_400}
_SPAN = re.compile(r"(\d{1,9})([smhdw])")
_POSITION = re.compile(r"@([1-9][0-9]{0,17})", re.ASCII)


def seconds(text: str) -> int:
    """Return the seconds of "90s", "15m", "6h", "30d", "2w"; raise InvalidInput otherwise."""
    found = _SPAN.fullmatch(text.strip().lower())
    if found is None:
        raise InvalidInput(f"{text!r} is no span of time: write 90s, 15m, 6h, 30d or 2w")
    return int(found[1]) * _SECONDS[found[2]]


def moment(text: str, now: int) -> datetime:
    """Return a moment given as an ISO date or as a span before `now` (microseconds UTC).

    "today" and "yesterday" are when that day began. A date or time without a zone is taken as UTC.
    Raise InvalidInput for anything else.
    """
    days = {"today": 0, "yesterday": 1}.get(text.strip().lower())
    if days is not None:
        began = datetime.fromtimestamp(now / 1e6, UTC).replace(hour=0, minute=0, second=0)
        return began.replace(microsecond=0) - timedelta(days=days)
    try:
        if _SPAN.fullmatch(text.strip().lower()):
            return datetime.fromtimestamp(now / 1e6, UTC) - timedelta(seconds=seconds(text))
        found = datetime.fromisoformat(text.strip())
    except (ValueError, OverflowError) as error:
        raise InvalidInput(
            f"{text!r} is no date: write 2026-11-20, or 7d for a week ago"
        ) from error
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def point(text: str, now: int) -> datetime | int:
    """Return a moment as `moment` does, or the position in the log that "@1234" names."""
    if found := _POSITION.fullmatch(text.strip()):
        return int(found[1])
    try:
        return moment(text, now)
    except InvalidInput as error:
        raise InvalidInput(
            f"{text!r} is no moment: write 2026-11-20, 7d for a week ago, or @1234 for a place in "
            "the log"
        ) from error


def moment_if_any(text: str | None, now: int) -> datetime | None:
    """Return the moment of a text as `moment` does; None where there is none."""
    return moment(text, now) if text else None


def ago(passed: int) -> str:
    """Return seconds that passed as people say it: "3 h ago"."""
    for unit in "wdhm":
        if passed >= 2 * _SECONDS[unit]:
            return f"{passed // _SECONDS[unit]} {unit} ago"
    return f"{passed} s ago"
