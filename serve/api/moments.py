"""
Moments in the query of a request, as people type them and as programs do.
"""

from typing import Annotated, Any

from msgspec import Meta

from serve.fields import When
from serve.moments import moment
from store.home.errors import InvalidInput
from store.home.instants import micros

# said to programs: what `moment` reads of these is never refused
_FORMS: dict[str, Any] = {
    "anyOf": [
        {"format": "date"},
        {"format": "date-time"},
        {"pattern": "^([1-9][0-9]{0,3}[smhdw]|today|yesterday)$"},
    ]
}
Moment = Annotated[When, Meta(extra_json_schema=_FORMS)]
Since = Annotated[Moment, Meta(description="From this moment on: 2026-11-20, or 7d ago.")]
Until = Annotated[Moment, Meta(description="Before this moment: 2026-11-20T13:00:00Z.")]


def micros_of(name: str, given: str | None, now: int) -> int | None:
    """Return the microseconds UTC of a moment, None where none is given; raise InvalidInput."""
    if given is None:
        return None
    try:
        return micros(moment(given, now))
    except InvalidInput as error:
        raise InvalidInput(f"`{name}`: {error}") from error


def period(since: str | None, until: str | None, now: int) -> tuple[int | None, int | None]:
    """Return both ends of a period; raise InvalidInput where the first is not before the other."""
    first, last = micros_of("since", since, now), micros_of("until", until, now)
    if first is not None and last is not None and first >= last:
        raise InvalidInput("`since` must lie before `until`")
    return first, last
