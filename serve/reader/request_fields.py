"""
Request fields that REST and MCP both take, each declared once: a bound changed here changes both
schemas.

The parts of a memory (ids, tags, keys, importance) are declared with the kinds of event, for the
log too.
"""

from typing import Annotated

from msgspec import Meta

from store.log.event_kinds import MemoryKind, Unit

# the store's checks are documented here, not repeated: its own codes name the error; "" is none
TenantName = Annotated[
    str,
    Meta(
        description="The tenant; ignored with a tenant token, which has its own.",
        extra_json_schema={"pattern": "^([a-z0-9][a-z0-9_-]{0,62})?$"},
    ),
]
ProjectName = Annotated[
    str,
    Meta(
        description="A project's name: github.com/pallets/flask.",
        extra_json_schema={"pattern": "^([A-Za-z0-9~@][A-Za-z0-9._@/~+-]{0,199})?$"},
    ),
]
Query = Annotated[
    str, Meta(description="What you want to know, in words.", min_length=1, max_length=100_000)
]
Topic = Annotated[str, Meta(description="Only this topic.", max_length=10_000)]
Kinds = Annotated[tuple[MemoryKind, ...], Meta(description="Only these kinds.", max_length=50)]
When = Annotated[
    str, Meta(description="A date like 2026-11-20, or 7d for a week ago.", max_length=64)
]
# documented for programs: a valid value of these forms is never refused
MOMENT_FORMS: list[dict[str, str]] = [
    {"format": "date"},
    {"format": "date-time"},
    {"pattern": "^([1-9][0-9]{0,3}[smhdw]|today|yesterday)$"},
]
PLACE_FORMS = [
    *MOMENT_FORMS,
    {"pattern": "^@?[1-9][0-9]{0,17}$"},
    {"pattern": "^[0-9a-f]{7,40}$"},
]
KnownAt = Annotated[
    str,
    Meta(
        description="As known then: 2026-11-20, 7d, @1234 of the log, or an imported commit.",
        max_length=64,
        extra_json_schema={"anyOf": PLACE_FORMS},
    ),
]
Reason = Annotated[str, Meta(description="The reason, kept in the log.", max_length=2_000)]
Importance = Annotated[Unit, Meta(description="0 to 1.")]
Progress = Annotated[Unit, Meta(description="0 to 1.")]
