"""
Summaries: what is known of a topic, what a period brought, how lessons do.
"""

from datetime import datetime
from http import HTTPStatus
from typing import Annotated, Any

from msgspec import Meta

from serve.api.operation import Operation
from serve.api.service import Call, Nothing, Reply
from serve.api.shapes import InProject
from serve.filters import Filter
from serve.lessons import standing
from serve.summaries import digest, overview
from store.errors import InvalidInput
from store.events import micros
from store.tenant import checked_project

DIGEST_US = 7 * 86_400 * 1_000_000  # a digest reaches back a week


class AboutTopic(InProject, frozen=True, kw_only=True):
    topic: Annotated[str, Meta(description="In words.", max_length=10_000)] = ""


class OfPeriod(InProject, frozen=True, kw_only=True):
    since: Annotated[str, Meta(description="2026-11-20 or 2026-11-20T13:00Z.")] | None = None
    until: Annotated[str, Meta(description="Exclusive.")] | None = None


def overview_of(call: Call[AboutTopic, Nothing]) -> Reply:
    service, asked = call.service, _those(call)
    question = overview.about(call.query.topic, asked, service.choices)
    embedder = service.tenants.embedder
    found = call.tenant.reader.answered(lambda view: overview.overview(view, question, embedder))
    return Reply(overview.shown(found))


def lessons(call: Call[InProject, Nothing]) -> Reply:
    tenant, asked = call.tenant, _those(call)
    tenant.write_receipts()  # what was told until now is counted
    found = tenant.reader.answered(lambda view: standing.statistics(view, tenant.log, asked))
    return Reply(standing.shown(found))


def digest_of(call: Call[OfPeriod, Nothing]) -> Reply:
    now, tenant, query = call.now, call.tenant, call.query
    asked = Filter(
        now,
        checked_project(query.project) if query.project else None,
        since=moment("since", query.since, now - DIGEST_US),
        until=moment("until", query.until, now),
    )
    found = tenant.reader.answered(lambda view: digest.digest(view, tenant.log, asked))
    return Reply(digest.shown(found, now))


def _those(call: Call[Any, Nothing]) -> Filter:
    project = call.query.project
    return Filter(call.now, checked_project(project) if project else None)


def moment(name: str, given: str | None, otherwise: int) -> int:
    """Return the microseconds of an ISO 8601 moment; raise InvalidInput."""
    if not given:
        return otherwise
    try:
        return micros(datetime.fromisoformat(given))
    except (ValueError, OverflowError) as error:
        raise InvalidInput(
            f"`{name}` is no moment: send 2026-11-20 or 2026-11-20T13:00Z"
        ) from error


OPERATIONS = (
    Operation(
        "GET",
        "/v1/overview",
        "getOverview",
        "Show what is known of a topic: rules, what holds now, goals, background.",
        overview_of,
        tag="summaries",
        query=AboutTopic,
        answers={HTTPStatus.OK: dict[str, Any]},
        problems=("not_found", "invalid_name"),
    ),
    Operation(
        "GET",
        "/v1/lessons",
        "listLessons",
        "Show how often each lesson was told and followed, and what came of it.",
        lessons,
        tag="summaries",
        query=InProject,
        answers={HTTPStatus.OK: dict[str, Any]},
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
        answers={HTTPStatus.OK: dict[str, Any]},
        problems=("not_found", "invalid_name"),
    ),
)
