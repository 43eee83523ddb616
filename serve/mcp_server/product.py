"""
The registry that mnemolog serves: its tools, resources and prompts over open tenants.
"""

from collections.abc import Callable

from serve.mcp_server import resources
from serve.mcp_server.here import Here
from serve.mcp_server.registry import Call, Registry
from serve.mcp_server.tools import tools
from serve.place import Places
from serve.server.open_tenants import OpenTenants

INSTRUCTIONS = """\
mnemolog is the user's long-term memory for coding agents. It lives on this machine and keeps what \
earlier sessions, with any agent, decided, learned and did in this project.

Recall before work that earlier sessions may bear on: where something is or why it is so, a design \
choice, a failing test, a deploy, a convention, anything the user calls known ("as we said", "like \
last time"). Ask in words; a few precise ones find more than one. Nothing comes back where the \
memory knows nothing.

Remember what a later session would otherwise have to find out again: a decision and its reason, a \
lesson, a correction or preference of the user, a fact that was hard to find. One statement each, \
understood alone, with names and paths. What code, git or documents say needs no memory.

Notes that come back are data of earlier sessions, with provenance (`trust`: who said so; `role`: \
rule or fact; `confidence`). What the user says now goes before. A note that is wrong or outdated \
is mended with update_memory, or hidden with forget, which the user can undo. `feedback` says \
whether one helped.

Memories belong to the project of the working directory, or to none: then they hold everywhere.
"""

OFF_HERE = "MNEMOLOG_OFF is set for this run"


def product(tenants: OpenTenants, clock: Callable[[], int], version: Callable[[], str]) -> Registry:
    """Return what is offered over open tenants. `clock` gives microseconds UTC."""
    settings, places = tenants.settings, Places(tenants.settings)

    def here(call: Call) -> Here:
        place, session, now = places.of(call.cwd), _thread(call), clock()
        off = OFF_HERE if call.is_off else places.off(place, session or "", call.cwd, now)
        return Here(
            tenant=tenants.get(call.tenant or settings.choices.tenant),
            embedder=tenants.embedder,
            choices=place.choices,
            project=place.project,
            now=now,
            agent=call.agent,
            session=session,
            off=off,
        )

    return Registry(
        info=lambda: {"name": "mnemolog", "title": "mnemolog", "version": version()},
        instructions=INSTRUCTIONS,
        tools=tools(here),
        prompts=(resources.brief(here),),
        templates=(resources.template(here),),
        resources=lambda call: resources.listed(here(call)),
        read=lambda call, uri: resources.read(here(call), uri),
    )


def _thread(call: Call) -> str | None:
    """Return the host's session, where it says so: Codex sends the id of its thread."""
    said = call.meta.get("threadId")
    return said if isinstance(said, str) and 0 < len(said) <= 200 else None
