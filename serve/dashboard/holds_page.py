"""
Holds page: the brief of a new session in a project, line by line, to be changed or forgotten; below
it the current decisions and facts.
"""

from typing import Any

from flask import Blueprint, Response, render_template, request

from serve.dashboard.page_context import Site, back, tenant_url
from serve.hooks import brief as briefs
from serve.reader.filters import Filter
from serve.reader.memory_json import line_json
from serve.reader.view import View, newest
from serve.recall.context_block import Note, render_parts
from serve.reports import instructions
from serve.reports.facets import project_names
from store.home.errors import InvalidInput
from store.home.instants import EVER
from store.home.projects import optional_project
from store.log import log_queries

SHOWN = 30  # memories of a kind
MOST_PROJECTS = 200  # that can be chosen from
_KINDS = (("Decisions", "decision"), ("Facts", "fact"))


def holds_blueprint(site: Site) -> Blueprint:
    pages = Blueprint("holds", __name__)

    @pages.get("/t/<tenant>/holds")
    def index(tenant: str) -> str:
        opened, now = site.tenant(tenant), site.clock()
        named = request.args.get("project")
        if named is not None:
            project = optional_project(named)
        else:
            sessions = log_queries.newest_sessions(opened.log, EVER, 1)
            project = sessions[0].project if sessions else None
        conditions = Filter(now, project or "")

        def read(view: View) -> dict[str, Any]:
            parts = briefs.brief(view, conditions)
            in_brief = {note["id"] for part in parts for note in part.notes if "id" in note}
            return {
                "projects": project_names(view, MOST_PROJECTS),
                "parts": [
                    (part.heading.rstrip(":"), [_line(view, note) for note in part.notes])
                    for part in parts
                ],
                "block": render_parts(parts, briefs.BYTES).text,
                "instructions": instructions.instructions(view, conditions),
                "more": [
                    (title, _holding(view, conditions, kind, in_brief)) for title, kind in _KINDS
                ],
            }

        payload = opened.reader.answer(read)
        root = site.tenants.roots.get(project or "")
        return render_template("holds.html", project=project or "", root=root, **payload)

    @pages.post("/t/<tenant>/holds/write")
    def write(tenant: str) -> Response:
        opened, now = site.tenant(tenant), site.clock()
        project = optional_project(request.form.get("project")) or ""
        name, root = request.form.get("file", ""), site.tenants.roots.get(project)
        if root is None or name not in instructions.FILES:
            raise InvalidInput(
                f"nobody knows where {project or 'this'} lies since the server started: run "
                "`mnemolog brief --write CLAUDE.md` there"
            )
        file = root / name
        if file.resolve().parent != root.resolve():
            raise InvalidInput(f"{file} leads out of the repository: nothing was written")
        block = opened.reader.answer(
            lambda view: instructions.instructions(view, Filter(now, project))
        )
        instructions.write(file, block)
        return site.redirect(back(tenant_url("holds.index")), f"{file} was written.")

    return pages


def _line(view: View, note: Note) -> dict[str, Any]:
    """Return a line of a brief for the page: its memory, or `words` for a line without one."""
    memory = view.tail.find(note["id"]) if "id" in note else None
    if memory is not None:
        return line_json(memory)
    facts = {
        name.replace("_", " "): ", ".join(value) if isinstance(value, list) else value
        for name, value in note.items()
    }
    return {"words": " · ".join(f"{name}: {value}" for name, value in facts.items())}


def _holding(view: View, conditions: Filter, kind: str, in_brief: set[str]) -> list[dict[str, Any]]:
    """Return a project's newest current memories of a kind, without those in its brief."""
    memories = newest(view, Filter(conditions.now, conditions.project, kinds=(kind,)), SHOWN)
    return [
        line_json(memory)
        for memory in memories
        if memory.id not in in_brief and not view.is_over(memory)
    ]
