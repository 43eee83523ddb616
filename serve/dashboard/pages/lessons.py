"""
Lessons: how often each was shown and followed, and how turns came out where it was.
"""

from collections.abc import Callable, Mapping

from flask import Blueprint, Response, render_template, request

from serve.dashboard.flashes import Undo
from serve.dashboard.sites import Site, back, tenant_url
from serve.lessons.index import rules
from serve.lessons.standing import Standing, Statistics, statistics
from serve.reader.filters import Filter
from serve.server.open_tenants import OpenTenant
from store import lesson_commands
from store.events import Forgotten
from store.home.errors import InvalidInput
from store.memories.memory import Memory

SHOWN = 200  # lessons, and rules that were never shown
_LOWEST = -2.0  # below any impact: what is not known comes last

SORTS: Mapping[str, Callable[[Standing], float]] = {
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


def blueprint(site: Site) -> Blueprint:
    pages = Blueprint("lessons", __name__)

    @pages.get("/t/<tenant>/lessons")
    def index(tenant: str) -> str:
        opened, sort = site.tenant(tenant), request.args.get("sort", "shown")
        if sort not in SORTS:
            raise InvalidInput(f"there is no order {sort!r}: there are {', '.join(SORTS)}")
        found, never = _all(opened, site.clock())
        lessons = sorted(found.lessons, key=SORTS[sort], reverse=True)
        return render_template(
            "lessons.html",
            columns=_columns(sort),
            lessons=lessons[:SHOWN],
            count=len(lessons),
            never=never[:SHOWN],
            never_count=len(never),
            waiting=found.drafts,
        )

    @pages.post("/t/<tenant>/lessons/<id_>")
    def answer(tenant: str, id_: str) -> Response:
        """Make a rule of a statement or draft, or forget it."""
        opened, word = site.tenant(tenant), request.form.get("answer", "")
        here = back(tenant_url("lessons.index"))
        if word == "accept":
            lesson_commands.accept(opened.log, id_, site.clock())
            return site.done(here, "Accepted: it is a rule now.")
        if word != "forget":
            raise InvalidInput(f"answer accept or forget, not {word!r}")
        forgotten = lesson_commands.reject(opened.log, id_, site.clock())
        if not isinstance(forgotten.body, Forgotten):
            return site.done(here, "Rejected: it is not proposed again.")
        fields = (("do", "restore"), ("id", id_), ("back", here))
        undo = Undo(tenant_url("memories.change"), fields)
        return site.done(here, "Forgotten: it is told no more.", undo=undo)

    return pages


def _all(opened: OpenTenant, now: int) -> tuple[Statistics, list[Memory]]:
    """Return how the lessons stand, and the rules that were never shown, the newest first."""
    asked = Filter(now=now)
    found, every = opened.reader.answered(
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
