"""
Memories as resources, `memory://ID`, and the prompt `brief`; both with completion.
"""

from collections import Counter
from collections.abc import Callable, Sequence

from serve.mcp_server.methods import Call, Prompt, Result, Template
from serve.mcp_server.protocol import Params
from serve.mcp_server.read_tools import ProjectOverview, project_overview
from serve.mcp_server.tool_context import ToolContext, frame_notes, memory_note, render_result
from serve.reader.filters import Filter
from serve.reader.view import View, newest
from store.log import commands
from store.memories.memory import FORGOTTEN, Memory
from store.text.text_features import MAY_RULE

SCHEME = "memory://"
_LISTED = 20
_TITLE = 70  # characters
_LOOKED_AT = 100  # memories and ids that completion looks at

Place = Callable[[Call], ToolContext]

TEMPLATE: Result = {
    "uriTemplate": SCHEME + "{id}",
    "name": "memory",
    "title": "A memory",
    "description": "One memory with its provenance, by its id.",
    "mimeType": "text/plain",
}
BRIEF: Result = {
    "name": "brief",
    "title": "Brief",
    "description": "An overview of this project or of a topic: rules, decisions, open goals.",
    "arguments": [
        {"name": "topic", "description": "Only this topic.", "required": False},
        {"name": "project", "description": "Another project than this one.", "required": False},
    ],
}


def list_resources(here: ToolContext) -> list[Result]:
    """Return the newest memories as resources."""
    found = here.tenant.reader.answer(lambda view: newest(view, here.filter(), _LISTED))
    return [_resource(one) for one in found]


def _resource(memory: Memory) -> Result:
    said = memory_note(memory)
    words = " ".join(said.get("text", "").split())
    return {
        "uri": SCHEME + memory.id,
        "name": memory.id,
        "title": words if len(words) <= _TITLE else words[: _TITLE - 1] + "…",
        "description": ", ".join(said[name] for name in ("kind", "role", "date", "trust")),
        "mimeType": "text/plain",
    }


def read(here: ToolContext, uri: str) -> list[Result] | None:
    """Return the contents of a memory's address; None where there is no such memory."""
    id_ = uri.removeprefix(SCHEME)
    if id_ == uri:
        return None
    memory = here.tenant.reader.answer(lambda view: view.tail.find(id_))
    if memory is None or memory.state == FORGOTTEN:
        return None
    whole = memory_note(memory, longest=commands.MAX_CONTENT)
    return [{"uri": uri, "mimeType": "text/plain", "text": frame_notes([whole])}]


def template(place: Place) -> Template:
    """Return the template of all memories, whose ids are completed."""

    def ids(call: Call, beginning: str) -> Sequence[str]:
        here = place(call)
        if not beginning:
            return [one["name"] for one in list_resources(here)]
        there = here.tenant.log.ids_with_prefix(beginning, _LOOKED_AT)
        return here.tenant.reader.answer(lambda view: _visible(view, here.filter(), there))

    return Template(TEMPLATE, {"id": ids})


def _visible(view: View, wanted: Filter, ids: Sequence[str]) -> list[str]:
    found = ((id_, view.tail.find(id_)) for id_ in ids)
    return [id_ for id_, memory in found if memory is not None and wanted.accepts(memory)]


def brief(place: Place) -> Prompt:
    """Return the prompt that puts what is known of a project or a topic before the model."""

    def run(call: Call, given: Params) -> Result:
        named = {name: given[name] for name in ("topic", "project") if given.get(name)}
        told = render_result(project_overview(place(call), ProjectOverview(**named)))
        return {"messages": [{"role": "user", "content": told["content"][0]}]}

    def projects(call: Call, beginning: str) -> Sequence[str]:
        here = place(call)
        names = here.tenant.reader.answer(_projects)
        return [name for name in names if beginning.casefold() in name.casefold()]

    def topics(call: Call, beginning: str) -> Sequence[str]:
        here = place(call)
        found = here.tenant.reader.answer(lambda view: newest(view, here.filter(), _LOOKED_AT))
        tags = Counter(tag for one in found if one.trust in MAY_RULE for tag in one.tags)
        return [tag for tag, _ in tags.most_common() if tag.startswith(beginning)]

    return Prompt(BRIEF, run, {"project": projects, "topic": topics})


def _projects(view: View) -> list[str]:
    """Return the names of all projects there are, in order."""
    built = view.snapshots.rows.projects.column("name").to_pylist()
    fresh = (memory.project for memory in view.tail.current())
    return sorted({*built, *(name for name in fresh if name)})
