"""
Memories: found, listed and changed, many at once or one by one.
"""

from flask import Blueprint, render_template, request

from serve.answers import seen
from serve.dashboard.sites import Site
from serve.filters import Filter
from serve.summaries.newest import newest

SHOWN = 50


def blueprint(site: Site) -> Blueprint:
    pages = Blueprint("memories", __name__)

    @pages.get("/t/<tenant>/memories")
    def index(tenant: str) -> str:
        opened = site.tenant(tenant)
        asked = Filter(now=site.clock())
        found = opened.reader.answered(lambda view: newest(view, asked, SHOWN))
        return render_template(
            "memories.html", query=request.args.get("q", ""), memories=[seen(one) for one in found]
        )

    @pages.get("/t/<tenant>/memories/<id_>")
    def show(tenant: str, id_: str) -> str:
        site.tenant(tenant)
        return id_

    return pages
