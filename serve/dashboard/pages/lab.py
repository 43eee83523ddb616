"""
Recall lab: a question under one or two settings, and what every stage made of it.

The address is the experiment: it asks the same for whoever opens it. Reading writes nothing, not
even a receipt, and no language model is asked.
"""

from urllib.parse import urlencode

from flask import Blueprint, render_template, request

from serve.dashboard.sites import Site, tenant_url
from serve.evaluation import lab as asking
from serve.evaluation.lab import answer_side, compare_hits, parse_parameters, preview_prompt_hook
from serve.reader.reader import View
from serve.recall.explanation import SPOKEN, WANTS
from store.events import MEMORY_KINDS, TIERS
from store.home.instants import isoformat
from store.log import EventLog

MOST_PROJECTS = 200  # that can be chosen from
_DAY = 86_400_000_000


def blueprint(site: Site) -> Blueprint:
    pages = Blueprint("lab", __name__)

    @pages.get("/t/<tenant>/lab")
    def index(tenant: str) -> str:
        opened, now, usual = site.tenant(tenant), site.clock(), site.settings.choices
        asked = parse_parameters(request.args, usual)
        found = [
            answer_side(opened.reader, site.tenants.embedder, asked, side, usual, now)
            for side in (asked.a, asked.b)
            if asked.query and side is not None
        ]
        projects = opened.reader.answered(_projects)
        if asked.project not in (asking.ANY, asking.NONE, *projects):
            projects.append(asked.project)
        project = "" if asked.project in (asking.ANY, asking.NONE) else asked.project
        return render_template(
            "lab.html",
            asked=asked,
            unasked=preview_prompt_hook(
                opened, site.tenants.embedder, asked.query, project, usual, now
            )
            if asked.query
            else None,
            b=asked.b or asked.a,
            found=found,
            compared=compare_hits(found[0].hits, found[1].hits) if len(found) == 2 else None,
            link=f"{tenant_url('lab.index')}?{urlencode(asking.link(asked, usual))}",
            projects=projects,
            life=_life(opened.log, now),
            asking=asking,
            kinds=MEMORY_KINDS,
            tiers=TIERS,
            spoken=SPOKEN,
            wants=WANTS,
        )

    return pages


def _projects(view: View) -> list[str]:
    names: list[str] = view.snapshots.rows.projects.column("name").to_pylist()
    return sorted(names)[:MOST_PROJECTS]


def _life(log: EventLog, now: int) -> dict[str, object]:
    """Return the days of the log's life: the first, the last, and how many lie between."""
    first = min(log.at(1) or now, now)
    days = now // _DAY - first // _DAY
    return {"first": isoformat(first)[:10], "last": isoformat(now)[:10], "days": days}
