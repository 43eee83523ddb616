"""
Summaries: what is known of a topic, what a period brought, how lessons do.
"""

from http import HTTPStatus
from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta

from serve.api.list_query import Moment, Since, Until, parse_moment, period
from serve.api.operation import Call, Nothing, Operation, Reply
from serve.api.shapes import At, InProject, InTenant, Line, ShownMemory, State
from serve.fields import Topic
from serve.lessons import lesson_stats
from serve.reader.filters import Filter
from serve.reader.view import View
from serve.summaries import conflicts, digest, facts, goals, graph, overview
from serve.summaries.overview import item
from store.home.instants import moment
from store.home.projects import named_project
from store.log.event_kinds import GoalStatus, Id, MemoryKind, Trust, Unit
from store.text.mentions import EntityKind

# Facts: what is known of each entity, from when until when; and what cannot hold together.


class OfFacts(InProject, frozen=True, kw_only=True):
    entity: (
        Annotated[str, Meta(description="Only this entity: billing.", max_length=200)] | None
    ) = None
    as_of: Annotated[Moment, Meta(description="As of then: 2026-11-20; default: now.")] | None = (
        None
    )
    all: Annotated[
        bool, Meta(description="Include values that have ended, regardless of `as_of`.")
    ] = False
    limit: Annotated[int, Meta(description="The maximum number.", ge=1, le=1_000)] = 200


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


def list_facts(call: Call[OfFacts, Nothing]) -> Reply:
    query, now = call.query, call.now
    project = named_project(query.project)
    asked = parse_moment("as_of", query.as_of, now)
    at = None if query.all else asked or now
    found = call.tenant.reader.answered(lambda view: facts.known(view, project))
    held = facts.held(found, at, query.entity)
    first = [facts.shown(one) for one in held[: query.limit]]
    return Reply({"facts": first, "more": len(held) - len(first)})


def list_conflicts(call: Call[OfConflicts, Nothing]) -> Reply:
    query, now, tenant = call.query, call.now, call.tenant
    project = named_project(query.project)
    found, is_all = tenant.reader.answered(
        lambda view: conflicts.conflicts(view, tenant.log, now, project)
    )
    return Reply(
        {"conflicts": [conflicts.shown(one, now) for one in found], "compared_all": is_all}
    )


FACT_OPERATIONS = (
    Operation(
        "GET",
        "/v1/facts",
        "listFacts",
        "List the facts about an entity, or all: since when, until when, and their source.",
        list_facts,
        tag="facts",
        query=OfFacts,
        answers={HTTPStatus.OK: Facts},
        problems=("not_found", "invalid_name"),
    ),
    Operation(
        "GET",
        "/v1/conflicts",
        "listConflicts",
        "List contradictions: both sides, and how to settle them.",
        list_conflicts,
        tag="facts",
        query=OfConflicts,
        answers={HTTPStatus.OK: Conflicts},
        problems=("not_found", "invalid_name"),
    ),
)


# Goals: what is wanted and not yet reached, and the milestones on the way.
#
# A goal is a memory of the kind goal: it is set, changed and forgotten as memories are.

DueDay = Annotated[str, Meta(extra_json_schema={"format": "date"})]


class OfGoals(InProject, frozen=True, kw_only=True):
    state: Annotated[
        Literal["open", "blocked", "done", "dropped", "unreached", "all"],
        Meta(description="default: unreached (open or blocked)."),
    ] = "unreached"


class Goal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is wanted; `due` is the day it is due, UTC."""

    id: Id
    text: str
    trust: Trust
    status: GoalStatus | None = None
    progress: Unit | None = None
    due: DueDay | None = None
    overdue: bool = False
    project: str | None = None


class Goals(msgspec.Struct, frozen=True, kw_only=True):
    """Goals, the next due first, and chains of milestones by their names, the oldest first."""

    goals: tuple[Goal, ...]
    chains: dict[str, tuple[Line, ...]]


def list_goals(call: Call[OfGoals, Nothing]) -> Reply:
    query, now = call.query, call.now
    asked = Filter(now, named_project(query.project))

    def of(view: View) -> dict[str, object]:
        chains = goals.chains(view, asked)
        return {
            "goals": goals.shown(
                goals.with_status(view, asked, _statuses(query.state)), moment(now).date()
            ),
            "chains": {one.name: [item(memory) for memory in one.milestones] for one in chains},
        }

    return Reply(call.tenant.reader.answered(of))


def _statuses(state: GoalStatus | Literal["unreached", "all"]) -> tuple[GoalStatus, ...]:
    if state == "unreached":
        return goals.OPEN
    return get_args(GoalStatus) if state == "all" else (state,)


GOAL_OPERATIONS = (
    Operation(
        "GET",
        "/v1/goals",
        "listGoals",
        "List goals not yet reached, the next due first, and milestones.",
        list_goals,
        tag="goals",
        query=OfGoals,
        answers={HTTPStatus.OK: Goals},
        problems=("not_found", "invalid_name"),
    ),
)


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


def show_overview(call: Call[AboutTopic, Nothing]) -> Reply:
    service, asked = call.service, _filter(call)
    question = overview.about(call.query.topic, asked, service.choices)
    embedder = service.tenants.embedder
    found = call.tenant.reader.answered(lambda view: overview.overview(view, question, embedder))
    return Reply(overview.shown(found))


def list_lessons(call: Call[OfLessons, Nothing]) -> Reply:
    tenant, asked = call.tenant, _filter(call)
    tenant.notes.write_if_possible()  # what was told until now is counted
    found = tenant.reader.answered(lambda view: lesson_stats.statistics(view, tenant.log, asked))
    return Reply(lesson_stats.shown(found))


def show_digest(call: Call[OfPeriod, Nothing]) -> Reply:
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


def _filter(call: Call[Any, Nothing]) -> Filter:
    return Filter(call.now, named_project(call.query.project))


OPERATIONS = (
    Operation(
        "GET",
        "/v1/overview",
        "getOverview",
        "Summarize a topic: rules, current facts, goals, background.",
        show_overview,
        tag="summaries",
        query=AboutTopic,
        answers={HTTPStatus.OK: Overview},
        problems=("not_found", "invalid_name"),
    ),
    Operation(
        "GET",
        "/v1/lessons",
        "listLessons",
        "Show how often each lesson was shown and followed, and with what result.",
        list_lessons,
        tag="summaries",
        query=OfLessons,
        answers={HTTPStatus.OK: Lessons},
        problems=("not_found", "invalid_name"),
    ),
    Operation(
        "GET",
        "/v1/digest",
        "getDigest",
        "Summarize a period; default: the last week.",
        show_digest,
        tag="summaries",
        query=OfPeriod,
        answers={HTTPStatus.OK: Digest},
        problems=("not_found", "invalid_name"),
    ),
)


# The graph of what the memories name: its entities by their names, and what lies around one.

EntityName = Annotated[
    str,
    Meta(description="A name or alias: store/log.py, EventLog.", min_length=1, max_length=2_000),
]


class AboutEntity(InTenant, frozen=True, kw_only=True):
    entity: EntityName
    hops: Annotated[int, Meta(description="The distance from it.", ge=1, le=2)] = 1
    limit: Annotated[int, Meta(description="The maximum number of entities.", ge=1, le=200)] = 50


class ByPrefix(InTenant, frozen=True, kw_only=True):
    prefix: Annotated[
        str, Meta(description="A prefix of the name; default: every name.", max_length=2_000)
    ] = ""
    limit: Annotated[int, Meta(description="The maximum number.", ge=1, le=200)] = 20


class Entity(msgspec.Struct, frozen=True, kw_only=True):
    """What the memories name. `memories` counts those that do; `aliases` are how they write it."""

    id: str
    kind: EntityKind
    name: str
    aliases: tuple[str, ...]
    memories: int


class EntityEdge(msgspec.Struct, frozen=True, kw_only=True):
    """Two entities that memories name together, by their ids. A memory that names m of them adds
    1 / (m - 1) to the weight.
    """

    source: str
    target: str
    weight: float


class Neighbourhood(msgspec.Struct, frozen=True, kw_only=True):
    """What lies around an entity; `centre` has the ids of all that the name stands for. `memories`
    are the newest that mention it, of `mentioned` at the last build.
    """

    centre: tuple[str, ...]
    nodes: tuple[Entity, ...]
    edges: tuple[EntityEdge, ...]
    memories: tuple[ShownMemory, ...]
    mentioned: int


class Entities(msgspec.Struct, frozen=True, kw_only=True):
    """The most mentioned first."""

    entities: tuple[Entity, ...]


def show_neighbourhood(call: Call[AboutEntity, Nothing]) -> Reply:
    asked = call.query

    def of(view: View) -> dict[str, object]:
        return graph.shown(view, graph.neighbourhood(view, asked.entity, asked.hops, asked.limit))

    return Reply(call.tenant.reader.answered(of))


def list_entities(call: Call[ByPrefix, Nothing]) -> Reply:
    asked = call.query
    found = call.tenant.reader.answered(
        lambda view: graph.beginning(view, asked.prefix, asked.limit)
    )
    return Reply({"entities": found})


GRAPH_OPERATIONS = (
    Operation(
        "GET",
        "/v1/graph",
        "getNeighbourhood",
        "Show the entities mentioned with an entity, how strongly, and in which memories.",
        show_neighbourhood,
        tag="graph",
        query=AboutEntity,
        answers={HTTPStatus.OK: Neighbourhood},
        problems=("not_found", "invalid_name"),
    ),
    Operation(
        "GET",
        "/v1/entities",
        "listEntities",
        "List the entities that memories mention, by a prefix of a name or alias.",
        list_entities,
        tag="graph",
        query=ByPrefix,
        answers={HTTPStatus.OK: Entities},
        problems=("not_found", "invalid_name"),
    ),
)
