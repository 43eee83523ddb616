"""
Sessions: what agents did, turn by turn; each turn with the memories that were injected and those
that it left behind.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from flask import Blueprint, render_template, request

from serve.dashboard.memory_page import memory_line
from serve.dashboard.page_context import Site, tenant_url
from serve.dashboard.recall_pages import receipt_rows
from serve.dashboard.rendering import signed_lines
from serve.formatting import day
from serve.reader.filters import Filter
from serve.reader.view import View
from serve.reports import listing
from serve.reports.listing import Listing
from serve.reports.session_timeline import Edits, Turn, session_turns
from serve.server.open_tenants import OpenTenant
from store.agents.work import work
from store.home.errors import InvalidInput, NotFound
from store.home.instants import EVER
from store.log import log_queries
from store.log.event_kinds import EPISODE, MEMORY_KINDS, Recalled
from store.log.events import Event
from store.memories.memory import COMMIT

SHOWN = 40  # sessions of a page
TURNS = 25  # of a page
LINES = 12  # memories, files and commits in a list
WORDS = 8  # of a search
_AFTER = 60 * 60 * 1_000_000  # a session's work is committed after its last prompt, too


def sessions_blueprint(site: Site) -> Blueprint:
    pages = Blueprint("sessions", __name__)

    @pages.get("/t/<tenant>/sessions")
    def index(tenant: str) -> str:
        opened = site.tenant(tenant)
        before = request.args.get("before", type=int, default=EVER)
        sessions = log_queries.newest_sessions(opened.log, before, SHOWN)
        days = [(of, list(lines)) for of, lines in groupby(sessions, key=lambda s: day(s.ended))]
        following = (
            tenant_url("sessions.index", before=min(session.ended for session in sessions))
            if len(sessions) == SHOWN
            else ""
        )
        return render_template("sessions.html", days=days, next=following, before=before < EVER)

    @pages.get("/t/<tenant>/session")
    def show(tenant: str) -> str:
        opened, session = site.tenant(tenant), request.args.get("session", "")
        if not session:
            raise InvalidInput("name a session: `?session=ID`")
        query = request.args.get("q", "").strip()
        words = query.split()[:WORDS]
        start = request.args.get("from", type=int, default=1)
        events = opened.log.session_events(session)
        turns = session_turns(events)
        if not turns:
            raise NotFound(f"no session {session!r}")
        matching = [turn for turn in turns if turn.holds(words)]
        first = max(1, min(start, len(matching)))
        on_page = matching[first - 1 :][:TURNS]

        def address(place: int) -> str:
            return tenant_url(
                "sessions.show",
                session=session,
                q=query or None,
                **{"from": place if place > 1 else None},
            )

        last = (len(matching) - 1) // TURNS * TURNS + 1
        following = first + TURNS if first + TURNS <= len(matching) else None
        return render_template(
            "session.html",
            session=session,
            query=query,
            words=words,
            title=next((turn.prompt for turn in turns if turn.prompt), session),
            summary=_summary(opened, turns, events),
            turns=[_turn_fields(opened, turn, words) for turn in on_page],
            place=(first, first + len(on_page) - 1, len(matching)),
            previous=address(max(1, first - TURNS)) if first > 1 else "",
            next=address(following) if following else "",
            last=address(last) if following and following < last else "",
        )

    return pages


def _summary(opened: OpenTenant, turns: Sequence[Turn], events: Sequence[Event]) -> dict[str, Any]:
    """Return the figures of a whole session. Times are microseconds UTC."""
    project = next((event.project for event in events if event.project), None)
    of_all = work(events)
    began, ended = turns[0].at, events[-1].at
    commands = [act for turn in turns for act in turn.acts if act.command]
    recalls = [body for event in events if isinstance(body := event.body, Recalled)]

    def commits(view: View) -> list[dict[str, Any]]:
        """Return the project's imported commits made during the session."""
        kinds = tuple(kind for kind in MEMORY_KINDS if kind != EPISODE)
        conditions = Filter(ended, project, kinds=kinds, since=began, until=ended + _AFTER)
        wanted = Listing(conditions, state="any", sort="created_at")
        memories = listing.page(view, wanted, LINES).memories if project else ()
        return [memory_line(view, memory.id) for memory in memories if memory.source == COMMIT]

    return {
        "agent": next((event.agent for event in events if event.agent), None),
        "project": project,
        "began": began,
        "ended": ended,
        "is_imported": any(turn.is_imported for turn in turns),
        "prompts": sum(bool(turn.prompt) for turn in turns),
        "edited": of_all.edited,
        "runs": of_all.runs,
        "commands": len(commands),
        "failed": sum(act.passed is False for act in commands),
        "notes": sum(len(body.hits) for body in recalls if body.characters),
        "commits": opened.reader.answer(commits),
    }


def _turn_fields(opened: OpenTenant, turn: Turn, words: Sequence[str]) -> dict[str, Any]:
    """Return the fields of a turn for the page; diffs that hold one of `words` are open."""
    recalls = receipt_rows(opened, turn.recalls)
    in_recalls = {hit["id"] for recall in recalls for hit in recall["notes"]}

    def memories(view: View) -> dict[str, Any]:
        warned = [id_ for id_ in turn.surfaced[:LINES] if id_ not in in_recalls]
        return {
            "made": [memory_line(view, id_) for id_ in turn.recorded[:LINES]],
            "warned": [memory_line(view, id_) for id_ in warned],
        }

    return {
        "number": turn.number,
        "at": turn.at,
        "prompt": turn.prompt,
        "recalls": recalls,
        "edits": [_edit_fields(edits, words) for edits in turn.edits],
        "runs": turn.work.runs,
        "commands": [act for act in turn.acts if act.command],
        "answer": turn.answer,
        "stages": turn.stages,
    } | opened.reader.answer(memories)


def _edit_fields(edits: Edits, words: Sequence[str]) -> dict[str, Any]:
    diff = "\n@@\n".join(edits.diffs)
    lines = signed_lines(diff)
    signs = Counter(sign for sign, _ in lines)
    return {
        "files": ", ".join(edits.files) or "a file",
        "lines": lines,
        "added": signs["new"],
        "removed": signs["gone"],
        "is_open": any(word.casefold() in diff.casefold() for word in words),
    }
