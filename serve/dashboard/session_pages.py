"""
Sessions: what agents did, as a timeline; each turn with what was put before the agent and what it
left behind.
"""

from itertools import groupby
from typing import Any

from flask import Blueprint, render_template, request

from serve.dashboard.page_context import Site, tenant_url
from serve.dashboard.recall_pages import receipt_rows
from serve.formatting import day
from serve.reader.memory_json import visible_json
from serve.reader.view import View
from serve.reports.session_timeline import Turn, session_turns
from serve.server.open_tenants import OpenTenant
from store.agents.work import work
from store.home.errors import InvalidInput, NotFound
from store.log import log_queries
from store.log.event_kinds import Acted, Outcome, SessionTold

SHOWN = 40  # sessions of a page
MOST_TURNS = 100  # of a session: the newest
LINES = 12  # memories and files of a turn
_LATEST = 2**62


def sessions_blueprint(site: Site) -> Blueprint:
    pages = Blueprint("sessions", __name__)

    @pages.get("/t/<tenant>/sessions")
    def index(tenant: str) -> str:
        opened = site.tenant(tenant)
        before = request.args.get("before", type=int, default=_LATEST)
        found = log_queries.newest_sessions(opened.log, before, SHOWN)
        days = [(of, list(some)) for of, some in groupby(found, key=lambda one: day(one.ended))]
        following = (
            tenant_url("sessions.index", before=min(one.ended for one in found))
            if len(found) == SHOWN
            else ""
        )
        return render_template("sessions.html", days=days, next=following, before=before < _LATEST)

    @pages.get("/t/<tenant>/session")
    def show(tenant: str) -> str:
        opened, session = site.tenant(tenant), request.args.get("session", "")
        if not session:
            raise InvalidInput("name a session: `?session=ID`")
        turns = session_turns(opened.log.session_events(session))
        if not turns:
            raise NotFound(f"no session {session!r}")
        shown = turns[-MOST_TURNS:]
        return render_template(
            "session.html",
            session=session,
            title=next((one.prompt for one in turns if one.prompt), session),
            turns=[_turn_fields(opened, one) for one in reversed(shown)],
            left=len(turns) - len(shown),
            agent=next((one.agent for turn in turns for one in turn.events if one.agent), None),
            project=next((one.project for turn in turns for one in turn.events if one.project), ""),
            began=turns[0].at,
            ended=turns[-1].events[-1].at,
        )

    return pages


def _turn_fields(opened: OpenTenant, turn: Turn) -> dict[str, Any]:
    """Return a turn as the timeline shows it."""
    done = work(turn.events)
    recalls = receipt_rows(opened, turn.recalls)
    acts = [one.body for one in turn.events if isinstance(one.body, Acted)]
    ended = [one.body for one in turn.events if isinstance(one.body, SessionTold)]

    told = {hit["id"] for one in recalls for hit in one["notes"]}

    def read(view: View) -> dict[str, Any]:
        return {
            "made": [_line(view, id_) for id_ in turn.recorded[:LINES]],
            "warned": [_line(view, id_) for id_ in turn.surfaced[:LINES] if id_ not in told],
        }

    return {
        "at": turn.at,
        "prompt": turn.prompt,
        "is_imported": turn.is_imported,
        "recalls": recalls,
        "edited": done.edited[:LINES],
        "runs": done.runs,
        "commands": [one for one in acts if one.command][:LINES],
        "acts": len(acts),
        "outcomes": [one.body for one in turn.events if isinstance(one.body, Outcome)],
        "said": next((one.said for one in reversed(ended) if one.said), ""),
        "stages": [one.stage for one in ended if one.stage not in ("stopped", "started")],
    } | opened.reader.answer(read)


def _line(view: View, id_: str) -> dict[str, Any]:
    found = view.tail.find(id_)
    return (
        {"id": id_, "text": ""} if found is None else visible_json(found) | {"state": found.state}
    )
