"""
Lessons: how often each was shown and followed, and how turns came out where it was.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any, get_args

import msgspec
from flask import Blueprint, Response, render_template, request

from serve.dashboard.page_context import Site, Undo, back, tenant_url
from serve.dashboard.rendering import pretty
from serve.lessons.lesson_stats import LessonStats, Statistics, statistics
from serve.lessons.rule_index import rules
from serve.reader import goals
from serve.reader.filters import Filter
from serve.reader.goals import Chain
from serve.reader.memory_json import visible_json
from serve.reader.view import View, newest
from serve.server.open_tenants import OpenTenant
from store.home.errors import InvalidInput, NotFound
from store.log import commands
from store.log.commands import change_goal
from store.log.event_kinds import GOAL_STATUSES, Forgotten, Revised
from store.memories.memory import Memory
from store.plans import lesson_proposals, proposals
from store.plans.proposals import Changed, Proposal, State

LESSONS_SHOWN = 200  # lessons, and rules that were never shown
_LOWEST = -2.0  # below any impact: what is not known comes last

SORTS: Mapping[str, Callable[[LessonStats], float]] = {
    "shown": lambda one: one.counts["surfaced"],
    "followed": lambda one: one.counts["followed"],
    "ignored": lambda one: one.counts["ignored"],
    "impact": lambda one: one.impact.value if one.impact else _LOWEST,
    "last": lambda one: one.counts["last_surfaced_at"],
}
_COLUMNS = (
    ("shown", "Shown"),
    ("followed", "Followed"),
    ("ignored", "Ignored"),
    ("impact", "Impact"),
    ("last", "Last shown"),
)


def lessons_blueprint(site: Site) -> Blueprint:
    pages = Blueprint("lessons", __name__)

    @pages.get("/t/<tenant>/lessons")
    def index(tenant: str) -> str:
        opened, sort = site.tenant(tenant), request.args.get("sort", "shown")
        if sort not in SORTS:
            raise InvalidInput(f"unknown order {sort!r}: choose from {', '.join(SORTS)}")
        found, never = _lessons(opened, site.clock())
        lessons = sorted(found.lessons, key=SORTS[sort], reverse=True)
        return render_template(
            "lessons.html",
            columns=_columns(sort),
            lessons=lessons[:LESSONS_SHOWN],
            count=len(lessons),
            never=never[:LESSONS_SHOWN],
            never_count=len(never),
            waiting=found.drafts,
        )

    @pages.post("/t/<tenant>/lessons/<id_>")
    def answer(tenant: str, id_: str) -> Response:
        """Make a rule of a statement or draft, or forget it."""
        opened, word = site.tenant(tenant), request.form.get("answer", "")
        here = back(tenant_url("lessons.index"))
        if word == "accept":
            lesson_proposals.accept(opened.log, id_, site.clock())
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


def _lessons(opened: OpenTenant, now: int) -> tuple[Statistics, list[Memory]]:
    """Return how the lessons stand, and the rules that were never shown, the newest first."""
    asked = Filter(now=now)
    found, every = opened.reader.answer(
        lambda view: (statistics(view, opened.log, asked), rules(view, asked))
    )
    shown = {one.memory.id for one in found.lessons}
    never = [one for one in every if one.id not in shown]
    return found, sorted(never, key=lambda one: -one.created_at)


def _columns(sort: str) -> list[dict[str, str]]:
    """Return the columns of the table; each sorts by itself, the largest first."""
    sorted_by = [
        {
            "title": title,
            "href": tenant_url("lessons.index", sort=name),
            "class": "" if name == "impact" else "num",
            **({"sorted": "descending"} if name == sort else {}),
        }
        for name, title in _COLUMNS
    ]
    return [{"title": "Lesson", "class": "wide"}, *sorted_by]


# Goals: what is wanted and how far it is, what was reached, and the milestones on the way.

ENDED = 50  # goals that are done or dropped


def goals_blueprint(site: Site) -> Blueprint:
    pages = Blueprint("goals", __name__)

    @pages.get("/t/<tenant>/goals")
    def index(tenant: str) -> str:
        opened, now = site.tenant(tenant), site.clock()
        wanted, ended, chains = opened.reader.answer(lambda view: _goals(view, now))
        today = datetime.fromtimestamp(now / 1e6, UTC).date()
        return render_template(
            "goals.html",
            groups=[
                ("Open", [_goal_view(one, today) for one in wanted if one.status == "open"]),
                ("Blocked", [_goal_view(one, today) for one in wanted if one.status == "blocked"]),
                ("Done and dropped", [_goal_view(one, today) for one in ended]),
            ],
            chains=[
                (chain.name, [visible_json(one) for one in chain.milestones]) for chain in chains
            ],
            statuses=GOAL_STATUSES,
        )

    @pages.post("/t/<tenant>/goals/<id_>")
    def change(tenant: str, id_: str) -> Response:
        opened = site.tenant(tenant)
        id_ = commands.resolve(opened.log, id_)
        before = opened.reader.answer(lambda view: view.tail.find(id_))
        if before is None:
            raise NotFound(f"no goal {id_!r}")
        given, day = _goal_form()
        change_goal(opened.log, id_, given, site.clock(), day)
        fields = (("status", before.status or "open"), ("percent", _percent(before)))
        undo = Undo(tenant_url("goals.change", id_=id_), tuple(one for one in fields if one[1]))
        return site.redirect(back(tenant_url("goals.index")), "The goal was changed.", undo=undo)

    return pages


def _goals(view: View, now: int) -> tuple[list[Memory], list[Memory], list[Chain]]:
    """Return the goals that are wanted, those that ended, and the chains of milestones."""
    asked = Filter(now=now)
    wanted = goals.open_goals(view, asked)
    every = newest(view, replace(asked, kinds=("goal",)), goals.MOST_GOALS)
    ended = [one for one in every if one.status in ("done", "dropped")]
    ended.sort(key=lambda one: (-one.updated_at, -one.seq))
    return wanted, ended[:ENDED], goals.milestone_chains(view, asked)


def _goal_view(goal: Memory, today: date) -> dict[str, Any]:
    (shown,) = goals.goals_payload([goal], today)
    return {
        **visible_json(goal),
        "status": goal.status or "open",
        "progress": goal.progress,
        "percent": _percent(goal),
        "due": shown.get("due"),
        "overdue": "overdue" in shown and goal.status in ("open", "blocked"),
        "updated_at": goal.updated_at,
    }


def _percent(goal: Memory) -> str:
    return "" if goal.progress is None else str(round(goal.progress * 100))


def _goal_form() -> tuple[Revised, date | None]:
    """Return what a form says of a goal; an empty field says nothing. Raise InvalidInput."""
    percent, day = (request.form.get(name, "").strip() for name in ("percent", "due"))
    try:
        progress = float(percent) / 100 if percent else None
        due = date.fromisoformat(day) if day else None
    except ValueError as error:
        raise InvalidInput(f"give a percentage, and a day like 2026-12-01: {error}") from error
    if progress is not None and not math.isfinite(progress):
        raise InvalidInput(f"{percent} is not a percentage")
    try:
        given = {"status": request.form.get("status") or None, "progress": progress}
        return msgspec.convert(given, Revised), due
    except msgspec.ValidationError as error:
        raise InvalidInput(str(error)) from error


# Proposals: plans, recommendations and drafts of lessons as diffs; accepted, rejected, taken back.

PROPOSALS_SHOWN = 100  # proposals, or steps of one, at once
STATES: tuple[State, ...] = get_args(State)
_ANSWERS = {"accept": proposals.accept, "reject": proposals.reject, "undo": proposals.undo}
_SAID = {
    "accept": "Accepted: it is done.",
    "reject": "Rejected: it will not be proposed again.",
    "undo": "Taken back.",
}


def proposals_blueprint(site: Site) -> Blueprint:
    pages = Blueprint("proposals", __name__)

    @pages.get("/t/<tenant>/proposals")
    def index(tenant: str) -> str:
        opened = site.tenant(tenant)
        wanted = request.args.get("state", "waiting")
        if wanted not in (*STATES, "all"):
            raise InvalidInput(f"unknown state {wanted!r}: choose from {', '.join(STATES)}, all")
        start, found = max(0, request.args.get("from", 0, int)), proposals.every(opened.log)
        of_state = [one for one in found if wanted in (one.state, "all")]
        counts = Counter(one.state for one in found)
        return render_template(
            "proposals.html",
            wanted=wanted,
            tabs=[*((name, counts[name]) for name in STATES), ("all", len(found))],
            proposals=of_state[start : start + PROPOSALS_SHOWN],
            next=_page_url(wanted, start + PROPOSALS_SHOWN)
            if start + PROPOSALS_SHOWN < len(of_state)
            else "",
            first=_page_url(wanted, 0) if start else "",
        )

    @pages.get("/t/<tenant>/proposals/<id_>")
    def show(tenant: str, id_: str) -> str:
        opened = site.tenant(tenant)
        one, start = proposals.find(opened.log, id_), max(0, request.args.get("from", 0, int))
        end, here = start + PROPOSALS_SHOWN, tenant_url("proposals.show", id_=id_)
        shown = proposals.steps(one, start, PROPOSALS_SHOWN)
        return render_template(
            "proposal.html",
            one=one,
            steps=shown,
            trusts=_trusts(opened, one, shown),
            start=start,
            next=f"{here}?from={end}" if end < len(one.made) else "",
            first=here if start else "",
            words=_words,
        )

    @pages.post("/t/<tenant>/proposals/<id_>")
    def answer(tenant: str, id_: str) -> Response:
        opened = site.tenant(tenant)
        word = request.form.get("answer", "")
        if word not in _ANSWERS:
            raise InvalidInput(f"answer {', '.join(_ANSWERS)}, not {word!r}")
        _ANSWERS[word](opened.log, id_, site.clock())
        here = tenant_url("proposals.show", id_=id_)
        action = tenant_url("proposals.answer", id_=id_)
        undo = Undo(action, (("answer", "undo"),)) if word == "accept" else None
        return site.redirect(back(here), _SAID[word], undo=undo)

    return pages


def _page_url(state: str, start: int) -> str:
    return tenant_url("proposals.index", **{"state": state, "from": start})


def _trusts(opened: OpenTenant, one: Proposal, shown: Sequence[Changed]) -> dict[str, str]:
    """Return whose word the memories are that some steps are about, by id."""
    ids = [id_ for step in shown for id_ in (step.subject, step.other) if id_ is not None]
    trusts: dict[str, str] = {
        step.subject: step.trust for step in one.made if step.event == "recorded"
    }

    def find_all(view: View) -> list[Memory]:
        return [memory for id_ in ids if (memory := view.tail.find(id_)) is not None]

    return trusts | {memory.id: memory.trust for memory in opened.reader.answer(find_all)}


def _words(value: Any) -> str:
    """Return a field's value as lines to compare; nothing where it has none."""
    return value if isinstance(value, str) else "" if value is None else pretty(value)
