"""
Summaries: what is known of a topic, what a period brought, how lessons do.
"""

from http import HTTPStatus
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from serve.api.goals import Goal
from serve.api.moments import Since, Until, period
from serve.api.operation import Operation
from serve.api.service import Call, Nothing, Reply
from serve.api.shapes import At, InProject, Line
from serve.fields import Topic
from serve.lessons import standing
from serve.reader.filters import Filter
from serve.summaries import digest, overview
from store.body import Id
from store.events import MemoryKind
from store.home.projects import named_project
from store.text.mentions import EntityKind

DIGEST_US = 7 * 86_400 * 1_000_000  # a digest reaches back a week


class AboutTopic(InProject, frozen=True, kw_only=True):
    topic: Annotated[Topic, Meta(description="In words.", pattern=r"\S")]


class OfPeriod(InProject, frozen=True, kw_only=True):
    since: Since | None = None
    until: Until | None = None


class OfLessons(InProject, frozen=True, kw_only=True):
    """The parameters of how lessons do."""


class Named(msgspec.Struct, frozen=True, kw_only=True):
    """Someone or something that the memories name, and in how many of them."""

    kind: EntityKind
    name: str
    memories: int


class Overview(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known of a topic: each memory in one group, the best first; `timeline` has them by
    their days. `found` counts all that came back.
    """

    topic: str
    found: int
    now: tuple[Line, ...]
    rules: tuple[Line, ...]
    goals: tuple[Line, ...]
    background: tuple[Line, ...]
    timeline: tuple[Line, ...]
    replaced: tuple[Line, ...]
    names: tuple[Named, ...]
    degraded: bool
    notices: tuple[str, ...] = ()


class EditedFile(msgspec.Struct, frozen=True, kw_only=True):
    file: str
    times: int


class Runs(msgspec.Struct, frozen=True, kw_only=True):
    """How often tests, a build, ... passed and failed."""

    for_: str = msgspec.field(name="for")
    passed: int
    failed: int


class Failing(msgspec.Struct, frozen=True, kw_only=True):
    """A command that failed and did not pass since."""

    for_: str = msgspec.field(name="for")
    command: str | None


class Day(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What happened on one day, UTC; what did not is left out. `more` memories are not shown, and
    `others` are of other kinds.
    """

    day: str
    decided: tuple[Line, ...] = ()
    learned: tuple[Line, ...] = ()
    done: tuple[Line, ...] = ()
    others: int = 0
    more: int = 0
    sessions: int = 0
    asked: tuple[str, ...] = ()
    edited: tuple[EditedFile, ...] = ()
    ran: tuple[Runs, ...] = ()
    failing: tuple[Failing, ...] = ()


class Digest(msgspec.Struct, frozen=True, kw_only=True):
    """Days with something in them, the oldest first, and what is open now."""

    since: At
    until: At
    days: tuple[Day, ...]
    open: tuple[Goal, ...]


class Turns(msgspec.Struct, frozen=True, kw_only=True):
    """Turns that came out well or badly, by whether they followed the lesson."""

    good_followed: int
    bad_followed: int
    good_ignored: int
    bad_ignored: int


class Impact(msgspec.Struct, frozen=True, kw_only=True):
    """How much oftener turns came out well, from -1 to 1, and its 95 % interval."""

    value: float
    low: float
    high: float


class Lesson(msgspec.Struct, frozen=True, kw_only=True):
    """How a lesson does; an `impact` of too few turns is null. `at_rest`, nobody goes by it, so it
    is no longer said before a tool.
    """

    id: Id
    text: str
    kind: MemoryKind
    project: str | None
    surfaced: int
    followed: int
    ignored: int
    not_applicable: int
    last_surfaced_at: At | None
    turns: Turns
    efforts: dict[str, Turns]
    impact: Impact | None
    at_rest: bool


class LessonDraft(msgspec.Struct, frozen=True, kw_only=True):
    """Lasting words of the user, or a draft, that wait for a yes: `POST /v1/proposals/{id}/accept`.

    `kind` is what it becomes.
    """

    id: Id
    at: At
    project: str | None
    session: str | None
    because: str | None
    kind: MemoryKind | None
    text: str | None


class Lessons(msgspec.Struct, frozen=True, kw_only=True):
    """Lessons, the most shown first; `never_shown` counts the others."""

    lessons: tuple[Lesson, ...]
    never_shown: int
    drafts: tuple[LessonDraft, ...]


def overview_of(call: Call[AboutTopic, Nothing]) -> Reply:
    service, asked = call.service, _those(call)
    question = overview.about(call.query.topic, asked, service.choices)
    embedder = service.tenants.embedder
    found = call.tenant.reader.answered(lambda view: overview.overview(view, question, embedder))
    return Reply(overview.shown(found))


def lessons(call: Call[OfLessons, Nothing]) -> Reply:
    tenant, asked = call.tenant, _those(call)
    tenant.notes.write_if_possible()  # what was told until now is counted
    found = tenant.reader.answered(lambda view: standing.statistics(view, tenant.log, asked))
    return Reply(standing.shown(found))


def digest_of(call: Call[OfPeriod, Nothing]) -> Reply:
    now, tenant, query = call.now, call.tenant, call.query
    since, until = period(query.since, query.until, now)
    asked = Filter(
        now,
        named_project(query.project),
        since=now - DIGEST_US if since is None else since,
        until=now if until is None else until,
    )
    found = tenant.reader.answered(lambda view: digest.digest(view, tenant.log, asked))
    return Reply(digest.shown(found, now))


def _those(call: Call[Any, Nothing]) -> Filter:
    return Filter(call.now, named_project(call.query.project))


OPERATIONS = (
    Operation(
        "GET",
        "/v1/overview",
        "getOverview",
        "Show what is known of a topic: rules, what holds now, goals, background.",
        overview_of,
        tag="summaries",
        query=AboutTopic,
        answers={HTTPStatus.OK: Overview},
        problems=("not_found", "invalid_name"),
    ),
    Operation(
        "GET",
        "/v1/lessons",
        "listLessons",
        "Show how often each lesson was told and followed, and what came of it.",
        lessons,
        tag="summaries",
        query=OfLessons,
        answers={HTTPStatus.OK: Lessons},
        problems=("not_found", "invalid_name"),
    ),
    Operation(
        "GET",
        "/v1/digest",
        "getDigest",
        "Show what a period brought: last week where nothing else is said.",
        digest_of,
        tag="summaries",
        query=OfPeriod,
        answers={HTTPStatus.OK: Digest},
        problems=("not_found", "invalid_name"),
    ),
)
