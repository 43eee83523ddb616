"""
Lessons: how often each was shown and followed, and its effect on turns; and the goals.
"""

import math
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from typing import Any

from flask import Blueprint, Response, render_template, request
from msgspec.structs import replace

from serve.dashboard.forms import convert
from serve.dashboard.page_context import Site, Undo, back, tenant_url
from serve.lessons.lesson_stats import LessonStats, statistics
from serve.lessons.rule_index import rules
from serve.reader import goals
from serve.reader.filters import Filter
from serve.reader.goals import Chain
from serve.reader.memory_json import visible_json
from serve.reader.view import View, newest
from store.home.errors import InvalidInput, NotFound
from store.log import commands
from store.log.commands import change_goal
from store.log.event_kinds import GOAL_STATUSES, Forgotten, Revised
from store.memories.memory import Memory
from store.plans import lesson_proposals

LESSONS_SHOWN = 200  # lessons, and rules that were never shown
_LOWEST = -2.0  # below any impact: an unknown one comes last

# the columns that the table can be sorted by: the title, and the value, largest first
SORTS: Mapping[str, tuple[str, Callable[[LessonStats], float]]] = {
    "shown": ("Shown", lambda stats: stats.counts["surfaced"]),
    "followed": ("Followed", lambda stats: stats.counts["followed"]),
    "ignored": ("Ignored", lambda stats: stats.counts["ignored"]),
    "impact": ("Impact", lambda stats: stats.impact.value if stats.impact else _LOWEST),
    "last": ("Last shown", lambda stats: stats.counts["last_surfaced_at"]),
}


def lessons_blueprint(site: Site) -> Blueprint:
    pages = Blueprint("lessons", __name__)

    @pages.get("/t/<tenant>/lessons")
    def index(tenant: str) -> str:
        opened, sort = site.tenant(tenant), request.args.get("sort", "shown")
        if sort not in SORTS:
            raise InvalidInput(f"unknown order {sort!r}: choose from {', '.join(SORTS)}")
        conditions = Filter(now=site.clock())
        shown, every = opened.reader.answer(
            lambda view: (statistics(view, opened.log, conditions), rules(view, conditions))
        )
        lessons = sorted(shown.lessons, key=SORTS[sort][1], reverse=True)
        was_shown = {stats.memory.id for stats in shown.lessons}
        never = [memory for memory in every if memory.id not in was_shown]
        never.sort(key=lambda memory: -memory.created_at)
        return render_template(
            "lessons.html",
            columns=_columns(sort),
            lessons=lessons[:LESSONS_SHOWN],
            count=len(lessons),
            never=never[:LESSONS_SHOWN],
            never_count=len(never),
            waiting=shown.drafts,
        )

    @pages.post("/t/<tenant>/lessons/<id_>")
    def answer(tenant: str, id_: str) -> Response:
        """Make a rule of a statement or draft, or forget it."""
        opened, word = site.tenant(tenant), request.form.get("answer", "")
        here = back(tenant_url("lessons.index"))
        if word == "accept":
            lesson_proposals.accept(opened.log, id_, site.clock(), "typed")
            return site.redirect(here, "Accepted: it is now a rule.")
        if word != "forget":
            raise InvalidInput(f"answer accept or forget, not {word!r}")
        forgotten = lesson_proposals.reject(opened.log, id_, site.clock())
        if not isinstance(forgotten.body, Forgotten):
            return site.redirect(here, "Rejected: it will not be proposed again.")
        fields = (("do", "restore"), ("id", id_), ("back", here))
        undo = Undo(tenant_url("memories.change"), fields)
        return site.redirect(here, "Forgotten: it is no longer recalled.", undo=undo)

    return pages


def _columns(sort: str) -> list[dict[str, str]]:
    """Return the columns of the table; each sorts by itself, the largest first."""
    sorted_by = [
        {
            "title": title,
            "href": tenant_url("lessons.index", sort=name),
            "class": "" if name == "impact" else "num",
            **({"sorted": "descending"} if name == sort else {}),
        }
        for name, (title, _) in SORTS.items()
    ]
    return [{"title": "Lesson", "class": "wide"}, *sorted_by]


# Goals: the open ones and their progress, those that ended, and the milestones.

ENDED = 50  # goals that are done or dropped


def goals_blueprint(site: Site) -> Blueprint:
    pages = Blueprint("goals", __name__)

    @pages.get("/t/<tenant>/goals")
    def index(tenant: str) -> str:
        opened, now = site.tenant(tenant), site.clock()
        wanted, ended, chains, alone = opened.reader.answer(lambda view: _goals(view, now))
        today = datetime.fromtimestamp(now / 1e6, UTC).date()
        return render_template(
            "goals.html",
            groups=[
                (
                    "Open",
                    [_goal_view(memory, today) for memory in wanted if memory.status == "open"],
                ),
                (
                    "Blocked",
                    [_goal_view(memory, today) for memory in wanted if memory.status == "blocked"],
                ),
                ("Done and dropped", [_goal_view(memory, today) for memory in ended]),
            ],
            chains=[
                (chain.name, [visible_json(memory) for memory in chain.milestones])
                for chain in chains
            ],
            alone=[visible_json(memory) for memory in alone],
            statuses=GOAL_STATUSES,
        )

    @pages.post("/t/<tenant>/goals/<id_>")
    def change(tenant: str, id_: str) -> Response:
        opened = site.tenant(tenant)
        id_ = commands.resolve(opened.log, id_)
        before = opened.reader.answer(lambda view: view.tail.find(id_))
        if before is None:
            raise NotFound(f"no goal {id_!r}")
        revision, day = _goal_form()
        change_goal(opened.log, id_, revision, site.clock(), day)
        fields = (("status", before.status or "open"), ("percent", _percent(before)))
        undo = Undo(
            tenant_url("goals.change", id_=id_), tuple(field for field in fields if field[1])
        )
        return site.redirect(back(tenant_url("goals.index")), "The goal was changed.", undo=undo)

    return pages


def _goals(view: View, now: int) -> tuple[list[Memory], list[Memory], list[Chain], list[Memory]]:
    """Return the open goals, the ended ones, the chains of milestones, and the newest milestones
    without a chain.
    """
    conditions = Filter(now=now)
    wanted = goals.open_goals(view, conditions)
    every = newest(view, replace(conditions, kinds=("goal",)), goals.MOST_GOALS)
    ended = [memory for memory in every if memory.status in ("done", "dropped")]
    ended.sort(key=lambda memory: (-memory.updated_at, -memory.seq))
    milestones = newest(view, replace(conditions, kinds=("milestone",)), goals.MOST_GOALS)
    alone = [memory for memory in milestones if memory.chain is None]
    return wanted, ended[:ENDED], goals.milestone_chains(view, conditions), alone[:ENDED]


def _goal_view(goal: Memory, today: date) -> dict[str, Any]:
    (payload,) = goals.goals_payload([goal], today)
    return {
        **visible_json(goal),
        "status": goal.status or "open",
        "progress": goal.progress,
        "percent": _percent(goal),
        "due": payload.get("due"),
        "overdue": "overdue" in payload and goal.status in ("open", "blocked"),
        "updated_at": goal.updated_at,
    }


def _percent(goal: Memory) -> str:
    return "" if goal.progress is None else str(round(goal.progress * 100))


def _goal_form() -> tuple[Revised, date | None]:
    """Return a form's changes of a goal; an empty field changes nothing. Raise InvalidInput."""
    percent, day = (request.form.get(name, "").strip() for name in ("percent", "due"))
    try:
        progress = float(percent) / 100 if percent else None
        due = date.fromisoformat(day) if day else None
    except ValueError as error:
        raise InvalidInput(f"give a percentage, and a day like 2026-12-01: {error}") from error
    if progress is not None and not math.isfinite(progress):
        raise InvalidInput(f"{percent} is not a percentage")
    values = {"status": request.form.get("status") or None, "progress": progress}
    return convert(values, Revised), due
