"""
Goals: what is wanted and how far it is, what was reached, and the milestones on the way.
"""

import math
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

import msgspec
from flask import Blueprint, Response, render_template, request

from serve.dashboard.flashes import Undo
from serve.dashboard.sites import Site, back, tenant_url
from serve.reader.filters import Filter
from serve.reader.reader import View
from serve.recall.request import seen
from serve.summaries import goals
from serve.summaries.goals import Chain
from serve.summaries.newest import newest
from store import commands
from store.events import GOAL_STATUSES, Revised
from store.goal_commands import change_goal
from store.home.errors import InvalidInput, NotFound
from store.memories.memory import Memory

ENDED = 50  # goals that are done or dropped


def blueprint(site: Site) -> Blueprint:
    pages = Blueprint("goals", __name__)

    @pages.get("/t/<tenant>/goals")
    def index(tenant: str) -> str:
        opened, now = site.tenant(tenant), site.clock()
        wanted, ended, chains = opened.reader.answered(lambda view: _every(view, now))
        today = datetime.fromtimestamp(now / 1e6, UTC).date()
        return render_template(
            "goals.html",
            groups=[
                ("Open", [_shown(one, today) for one in wanted if one.status == "open"]),
                ("Blocked", [_shown(one, today) for one in wanted if one.status == "blocked"]),
                ("Done and dropped", [_shown(one, today) for one in ended]),
            ],
            chains=[(chain.name, [seen(one) for one in chain.milestones]) for chain in chains],
            statuses=GOAL_STATUSES,
        )

    @pages.post("/t/<tenant>/goals/<id_>")
    def change(tenant: str, id_: str) -> Response:
        opened = site.tenant(tenant)
        id_ = commands.resolve(opened.log, id_)
        before = opened.reader.answered(lambda view: view.tail.find(id_))
        if before is None:
            raise NotFound(f"no goal {id_!r}")
        given, day = _sent()
        change_goal(opened.log, id_, given, site.clock(), day)
        fields = (("status", before.status or "open"), ("percent", _percent(before)))
        undo = Undo(tenant_url("goals.change", id_=id_), tuple(one for one in fields if one[1]))
        return site.done(back(tenant_url("goals.index")), "The goal is changed.", undo=undo)

    return pages


def _every(view: View, now: int) -> tuple[list[Memory], list[Memory], list[Chain]]:
    """Return the goals that are wanted, those that ended, and the chains of milestones."""
    asked = Filter(now=now)
    wanted = goals.open_goals(view, asked)
    every = newest(view, replace(asked, kinds=("goal",)), goals.LOOKED_AT)
    ended = [one for one in every if one.status in ("done", "dropped")]
    ended.sort(key=lambda one: (-one.updated_at, -one.seq))
    return wanted, ended[:ENDED], goals.chains(view, asked)


def _shown(goal: Memory, today: date) -> dict[str, Any]:
    (shown,) = goals.shown([goal], today)
    return {
        **seen(goal),
        "status": goal.status or "open",
        "progress": goal.progress,
        "percent": _percent(goal),
        "due": shown.get("due"),
        "overdue": "overdue" in shown and goal.status in ("open", "blocked"),
        "updated_at": goal.updated_at,
    }


def _percent(goal: Memory) -> str:
    return "" if goal.progress is None else str(round(goal.progress * 100))


def _sent() -> tuple[Revised, date | None]:
    """Return what a form says of a goal; an empty field says nothing. Raise InvalidInput."""
    percent, day = (request.form.get(name, "").strip() for name in ("percent", "due"))
    try:
        progress = float(percent) / 100 if percent else None
        due = date.fromisoformat(day) if day else None
    except ValueError as error:
        raise InvalidInput(f"a number of percent, and a day like 2026-12-01: {error}") from error
    if progress is not None and not math.isfinite(progress):
        raise InvalidInput(f"{percent} is no number of percent")
    try:
        given = {"status": request.form.get("status") or None, "progress": progress}
        return msgspec.convert(given, Revised), due
    except msgspec.ValidationError as error:
        raise InvalidInput(str(error)) from error
