"""
Summaries: the overview of a topic, the events of a period, the effect of lessons.
"""

from collections.abc import Collection
from http import HTTPStatus
from typing import Annotated, Any, Literal, get_args

from mnemolog.wire import (
    Conflicts,
    Digest,
    Entities,
    Facts,
    Goals,
    Lessons,
    Neighbourhood,
    Overview,
)
from msgspec import Meta

from serve.api.operation import Call, Nothing, Operation, Reply
from serve.api.parameters import (
    InProject,
    InProjectThen,
    InTenant,
    Moment,
    Since,
    Until,
    parse_moment,
    period,
)
from serve.lessons import lesson_stats
from serve.reader import goals
from serve.reader.filters import Filter
from serve.reader.request_fields import Topic
from serve.reader.view import View
from serve.reports import conflicts, graph_views, overviews
from serve.reports.overviews import memory_item
from store.home.instants import DAY, moment
from store.home.projects import optional_project
from store.log.event_kinds import GoalStatus

# Facts: the facts about each entity with their periods, and contradictions among them.


class OfFacts(InProjectThen, frozen=True, kw_only=True):
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


def list_facts(call: Call[OfFacts, Nothing]) -> Reply:
    query, now = call.query, call.now
    project = optional_project(query.project)
    as_of = parse_moment("as_of", query.as_of, now)
    at = None if query.all else as_of or now
    every = call.tenant.reader.answer(lambda view: conflicts.all_facts(view, project))
    facts = conflicts.facts_held_at(every, at, query.entity)
    first = [conflicts.fact_payload(fact) for fact in facts[: query.limit]]
    return Reply({"facts": first, "more": len(facts) - len(first)})


def list_conflicts(call: Call[OfConflicts, Nothing]) -> Reply:
    query, now, tenant = call.query, call.now, call.tenant
    project = optional_project(query.project)
    pairs, is_all = tenant.reader.answer(
        lambda view: conflicts.conflicts(view, tenant.log, now, project)
    )
    return Reply(
        {
            "conflicts": [conflicts.conflict_payload(conflict, now) for conflict in pairs],
            "compared_all": is_all,
        }
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
        problems=("not_found", "invalid_name", "not_ready"),
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


# Goals: the open goals, and the milestones on the way.
#
# A goal is a memory of the kind goal: it is set, changed and forgotten as memories are.

DueDay = Annotated[str, Meta(extra_json_schema={"format": "date"})]


class OfGoals(InProjectThen, frozen=True, kw_only=True):
    state: Annotated[
        Literal["open", "blocked", "done", "dropped", "unreached", "all"],
        Meta(description="default: unreached (open or blocked)."),
    ] = "unreached"


def list_goals(call: Call[OfGoals, Nothing]) -> Reply:
    query, now = call.query, call.now
    conditions = Filter(now, optional_project(query.project))
    statuses: Collection[GoalStatus]
    if query.state == "unreached":
        statuses = goals.OPEN_STATUSES
    else:
        statuses = get_args(GoalStatus) if query.state == "all" else (query.state,)

    def of(view: View) -> dict[str, object]:
        chains = goals.milestone_chains(view, conditions)
        return {
            "goals": goals.goals_payload(
                goals.goals_with_status(view, conditions, statuses), moment(now).date()
            ),
            "chains": {
                chain.name: [memory_item(memory) for memory in chain.milestones] for chain in chains
            },
        }

    return Reply(call.tenant.reader.answer(of))


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
        problems=("not_found", "invalid_name", "not_ready"),
    ),
)


DIGEST_US = 7 * DAY  # a digest reaches back a week


class AboutTopic(InProjectThen, frozen=True, kw_only=True):
    topic: Annotated[Topic, Meta(description="In words.", pattern=r"\S")]


class OfPeriod(InProjectThen, frozen=True, kw_only=True):
    since: Since | None = None
    until: Until | None = None


class OfLessons(InProjectThen, frozen=True, kw_only=True):
    """The parameters of how lessons do."""


def show_overview(call: Call[AboutTopic, Nothing]) -> Reply:
    question = overviews.overview_question(call.query.topic, _filter(call), call.choices)
    overview = call.tenant.reader.answer(lambda view: overviews.overview(view, question))
    return Reply(overviews.overview_payload(overview))


def list_lessons(call: Call[OfLessons, Nothing]) -> Reply:
    tenant, conditions = call.tenant, _filter(call)
    tenant.notes.write_if_possible()  # so that the latest deliveries are counted
    statistics = tenant.reader.answer(
        lambda view: lesson_stats.statistics(view, tenant.log, conditions)
    )
    return Reply(lesson_stats.stats_json(statistics))


def show_digest(call: Call[OfPeriod, Nothing]) -> Reply:
    now, tenant, query = call.now, call.tenant, call.query
    since, until = period(query.since, query.until, now)
    conditions = Filter(
        now,
        optional_project(query.project),
        since=now - DIGEST_US if since is None else since,
        until=now if until is None else until,
    )
    digest = tenant.reader.answer(lambda view: overviews.digest(view, tenant.log, conditions))
    return Reply(overviews.digest_payload(digest, now))


def _filter(call: Call[Any, Nothing]) -> Filter:
    return Filter(call.now, optional_project(call.query.project))


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
        problems=("not_found", "invalid_name", "not_ready"),
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
        problems=("not_found", "invalid_name", "not_ready"),
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
        problems=("not_found", "invalid_name", "not_ready"),
    ),
)


# The graph of the entities named in memories, and the neighbourhood of an entity.

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


def show_neighbourhood(call: Call[AboutEntity, Nothing]) -> Reply:
    entity = call.query

    def of(view: View) -> dict[str, object]:
        return graph_views.neighbourhood_payload(
            view, graph_views.neighbourhood(view, entity.entity, entity.hops, entity.limit)
        )

    return Reply(call.tenant.reader.answer(of))


def list_entities(call: Call[ByPrefix, Nothing]) -> Reply:
    prefix = call.query
    entities = call.tenant.reader.answer(
        lambda view: graph_views.entities_with_prefix(view, prefix.prefix, prefix.limit)
    )
    return Reply({"entities": entities})


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
