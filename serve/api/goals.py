"""
Goals: what is wanted and not yet reached, and the milestones on the way.

A goal is a memory of the kind goal: it is set, changed and forgotten as memories are.
"""

from http import HTTPStatus
from typing import Annotated, Literal, get_args

import msgspec
from msgspec import Meta

from serve.api.operation import Operation
from serve.api.service import Call, Nothing, Reply
from serve.api.shapes import InProject, Line
from serve.reader.filters import Filter
from serve.reader.reader import View
from serve.summaries import goals
from serve.summaries.overview import item
from store.body import Id, Unit
from store.events import GoalStatus, Trust
from store.home.instants import moment
from store.home.projects import named_project

Day = Annotated[str, Meta(extra_json_schema={"format": "date"})]


class OfGoals(InProject, frozen=True, kw_only=True):
    state: Annotated[
        Literal["open", "blocked", "done", "dropped", "unreached", "all"],
        Meta(description="unreached, what is open or blocked, if left out."),
    ] = "unreached"


class Goal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is wanted; `due` is the day it is due, UTC."""

    id: Id
    text: str
    trust: Trust
    status: GoalStatus | None = None
    progress: Unit | None = None
    due: Day | None = None
    overdue: bool = False
    project: str | None = None


class Goals(msgspec.Struct, frozen=True, kw_only=True):
    """Goals, the next due first, and chains of milestones by their names, the oldest first."""

    goals: tuple[Goal, ...]
    chains: dict[str, tuple[Line, ...]]


def listed(call: Call[OfGoals, Nothing]) -> Reply:
    query, now = call.query, call.now
    asked = Filter(now, named_project(query.project))

    def of(view: View) -> dict[str, object]:
        chains = goals.chains(view, asked)
        return {
            "goals": goals.shown(
                goals.with_status(view, asked, _wanted(query.state)), moment(now).date()
            ),
            "chains": {one.name: [item(memory) for memory in one.milestones] for one in chains},
        }

    return Reply(call.tenant.reader.answered(of))


def _wanted(state: GoalStatus | Literal["unreached", "all"]) -> tuple[GoalStatus, ...]:
    if state == "unreached":
        return goals.OPEN
    return get_args(GoalStatus) if state == "all" else (state,)


OPERATIONS = (
    Operation(
        "GET",
        "/v1/goals",
        "listGoals",
        "List what is wanted and not yet reached, the next due first, and the milestones.",
        listed,
        tag="goals",
        query=OfGoals,
        answers={HTTPStatus.OK: Goals},
        problems=("not_found", "invalid_name"),
    ),
)
