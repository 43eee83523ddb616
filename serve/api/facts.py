"""
Facts: what is known of each entity, from when until when; and what cannot hold together.
"""

from http import HTTPStatus
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from serve.api.moments import Moment, micros_of
from serve.api.operation import Operation
from serve.api.service import Call, Nothing, Reply
from serve.api.shapes import At, InProject, State
from serve.summaries import conflicts, facts
from store.body import Id
from store.events import Trust
from store.home.projects import named_project


class OfFacts(InProject, frozen=True, kw_only=True):
    entity: Annotated[str, Meta(description="Of this entity: billing.", max_length=200)] | None = (
        None
    )
    as_of: (
        Annotated[Moment, Meta(description="What held then: 2026-11-20; now, if left out.")] | None
    ) = None
    all: Annotated[bool, Meta(description="Also what holds no more, whatever `as_of` says.")] = (
        False
    )
    limit: Annotated[int, Meta(description="How many at most.", ge=1, le=1_000)] = 200


class OfConflicts(InProject, frozen=True, kw_only=True):
    """The parameters of a list of conflicts."""


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """A value of an entity's relation, and the memory that says so; `until` is null for what still
    holds. A `singleton` has one value at a time.
    """

    entity: str
    relation: str
    value: str
    since: At
    until: At | None
    singleton: bool
    id: Id
    source_ids: tuple[Id, ...]
    project: str | None
    said_by: str
    trust: Trust
    text: str


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """By entity and relation; `more` were left out."""

    facts: tuple[Fact, ...]
    more: int


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """A memory and the value it says, null where it is all of its words."""

    id: Id
    text: str
    value: str | None
    at: At
    said_by: str
    trust: Trust
    project: str | None
    state: State
    holds: bool


class Conflict(msgspec.Struct, frozen=True, kw_only=True):
    """What cannot hold together: the sides in the order of their days, and commands that settle it,
    of which one is enough.
    """

    what: Literal["overridden", "facts", "linked", "wording", "stale"]
    about: str
    why: str
    sides: tuple[Side, ...]
    settle: tuple[str, ...]


class Conflicts(msgspec.Struct, frozen=True, kw_only=True):
    """The surest sort first; without `compared_all` only the newest texts were compared."""

    conflicts: tuple[Conflict, ...]
    compared_all: bool


def listed(call: Call[OfFacts, Nothing]) -> Reply:
    query, now = call.query, call.now
    project = named_project(query.project)
    asked = micros_of("as_of", query.as_of, now)
    at = None if query.all else asked or now
    found = call.tenant.reader.answered(lambda view: facts.known(view, project))
    held = facts.held(found, at, query.entity)
    first = [facts.shown(one) for one in held[: query.limit]]
    return Reply({"facts": first, "more": len(held) - len(first)})


def disagreeing(call: Call[OfConflicts, Nothing]) -> Reply:
    query, now, tenant = call.query, call.now, call.tenant
    project = named_project(query.project)
    found, is_all = tenant.reader.answered(
        lambda view: conflicts.conflicts(view, tenant.log, now, project)
    )
    return Reply(
        {"conflicts": [conflicts.shown(one, now) for one in found], "compared_all": is_all}
    )


OPERATIONS = (
    Operation(
        "GET",
        "/v1/facts",
        "listFacts",
        "List what is known of an entity, or of all: since when, until when, who says so.",
        listed,
        tag="facts",
        query=OfFacts,
        answers={HTTPStatus.OK: Facts},
        problems=("not_found", "invalid_name"),
    ),
    Operation(
        "GET",
        "/v1/conflicts",
        "listConflicts",
        "List what cannot hold together: both sides, and what settles it.",
        disagreeing,
        tag="facts",
        query=OfConflicts,
        answers={HTTPStatus.OK: Conflicts},
        problems=("not_found", "invalid_name"),
    ),
)
