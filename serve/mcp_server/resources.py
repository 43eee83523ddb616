"""
Memories and episodes as resources, `memory://ID` and `episode://ID`, and the prompt `brief`; all
with completion.
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
from store.log.event_kinds import EPISODE
from store.memories.memory import FORGOTTEN, OPEN, Memory
from store.text.text_features import MAY_RULE

MEMORIES, EPISODES = "memory://", "episode://"
_LISTED = 20  # memories
_LISTED_EPISODES = 10
_TITLE = 70  # characters
_LOOKED_AT = 100  # memories and ids that completion looks at

Place = Callable[[Call], ToolContext]

_TEMPLATES: tuple[tuple[str, str, str, str], ...] = (
    (MEMORIES, "memory", "A memory", "One memory with its provenance, by its id."),
    (
        EPISODES,
        "episode",
        "An episode",
        "One turn of an earlier session, by its id: what was asked, done and answered.",
    ),
)
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
    """Return the newest memories as resources, and after them the newest episodes."""
    memories, episodes = here.filter(), here.filter(kinds=(EPISODE,))
    listed = here.tenant.reader.answer(
        lambda view: [
            *newest(view, memories, _LISTED),
            *newest(view, episodes, _LISTED_EPISODES),
        ]
    )
    return [_resource(memory) for memory in listed]


def _resource(memory: Memory) -> Result:
    payload = memory_note(memory)
    words = " ".join(payload.get("text", "").split())
    return {
        "uri": (EPISODES if memory.kind == EPISODE else MEMORIES) + memory.id,
        "name": memory.id,
        "title": words if len(words) <= _TITLE else words[: _TITLE - 1] + "…",
        "description": ", ".join(payload[name] for name in ("kind", "role", "date", "trust")),
        "mimeType": "text/plain",
    }


def read(here: ToolContext, uri: str) -> list[Result] | None:
    """Return the contents at the address of a memory or an episode; None if there are none.

    An episode does not exist until its turn has ended.
    """
    scheme = next((known for known in (MEMORIES, EPISODES) if uri.startswith(known)), None)
    if scheme is None:
        return None
    memory = here.tenant.reader.answer(lambda view: view.tail.find(uri.removeprefix(scheme)))
    if memory is None or memory.state in (FORGOTTEN, OPEN):
        return None
    if scheme == EPISODES and memory.kind != EPISODE:
        return None
    whole = memory_note(memory, longest=commands.MAX_CONTENT)
    return [{"uri": uri, "mimeType": "text/plain", "text": frame_notes([whole])}]


def templates(place: Place) -> tuple[Template, ...]:
    """Return the templates of memories and episodes, whose ids are completed."""

    def template(scheme: str, name: str, title: str, description: str) -> Template:
        kinds = (EPISODE,) if scheme == EPISODES else ()

        def ids(call: Call, beginning: str) -> Sequence[str]:
            here = place(call)
            if not beginning:
                listed = list_resources(here)
                return [item["name"] for item in listed if item["uri"].startswith(scheme)]
            there = here.tenant.log.ids_with_prefix(beginning, _LOOKED_AT)
            wanted = here.filter(kinds=kinds)
            return here.tenant.reader.answer(lambda view: _visible(view, wanted, there))

        listed: Result = {
            "uriTemplate": scheme + "{id}",
            "name": name,
            "title": title,
            "description": description,
            "mimeType": "text/plain",
        }
        return Template(listed, {"id": ids})

    return tuple(template(*other) for other in _TEMPLATES)


def _visible(view: View, wanted: Filter, ids: Sequence[str]) -> list[str]:
    pairs = ((id_, view.tail.find(id_)) for id_ in ids)
    return [id_ for id_, memory in pairs if memory is not None and wanted.accepts(memory)]


def brief(place: Place) -> Prompt:
    """Return the prompt that gives the model the overview of a project or a topic."""

    def run(call: Call, arguments: Params) -> Result:
        named = {name: arguments[name] for name in ("topic", "project") if arguments.get(name)}
        result = render_result(project_overview(place(call), ProjectOverview(**named)))
        return {"messages": [{"role": "user", "content": result["content"][0]}]}

    def projects(call: Call, beginning: str) -> Sequence[str]:
        here = place(call)
        names = here.tenant.reader.answer(_projects)
        return [name for name in names if beginning.casefold() in name.casefold()]

    def topics(call: Call, beginning: str) -> Sequence[str]:
        here = place(call)
        memories = here.tenant.reader.answer(lambda view: newest(view, here.filter(), _LOOKED_AT))
        tags = Counter(
            tag for memory in memories if memory.trust in MAY_RULE for tag in memory.tags
        )
        return [tag for tag, _ in tags.most_common() if tag.startswith(beginning)]

    return Prompt(BRIEF, run, {"project": projects, "topic": topics})


def _projects(view: View) -> list[str]:
    """Return the names of all projects, sorted."""
    built = view.snapshots.rows.projects.column("name").to_pylist()
    fresh = (memory.project for memory in view.tail.current())
    return sorted({*built, *(name for name in fresh if name)})
