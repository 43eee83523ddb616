"""
The lessons that name the command or file a tool is about to touch.

Advice and never a permission: each is said here once in a session, whatever a brief or a prompt
said of it before, at most two at a time, and only what names this very command or file. A lesson
that nobody ever followed is at rest (`serve.lessons`).
"""

import threading

from serve.hooks.block import block, note
from serve.hooks.call import Call
from serve.hooks.event import SILENCE, Reply
from serve.hooks.paths import in_project
from serve.lessons.index import named_by_tool
from serve.lessons.matching import Named
from store.agent_events import Acted, Surfaced
from store.deeds.tools import ToolUse
from store.events import Event

MOST = 2  # lessons at a time

_choosing = threading.Lock()  # of tools called side by side, one is told


def answered(call: Call) -> Reply:
    """Return the lessons that name what is about to be done, if there are any."""
    tool = call.event.tool
    if tool is None or tool.is_ours or tool.doing not in ("run", "edit"):
        return SILENCE
    found = _named(call, tool)
    if not found:
        return SILENCE
    with _choosing:
        said = call.tenant.journals.of(call.event.session).surfaced_at("tool")
        new = [one for one in found if one.memory.id not in said][:MOST]
        if not new or not call.is_in_time:
            return SILENCE
        answer = block(note(one.memory, call.project) for one in new)
        size = len(answer.text)
        call.write(
            *(_surfaced(call, one, None if place else size) for place, one in enumerate(new))
        )
    return Reply(answer.text)


def _named(call: Call, tool: ToolUse) -> list[Named]:
    files = in_project(tool.files, call.event.cwd) if tool.doing == "edit" else ()
    found = call.answered(lambda view: named_by_tool(view, call.filter, tool.command, files))
    if tool.command is None or all(one.is_forbidden for one in found):
        return found
    # what a lesson wants done first may be done already: the journal is only read for this
    acted = [event.body for event in call.journal.turn if isinstance(event.body, Acted)]
    before = [one.command for one in acted if one.command and one.passed is not False]
    return call.answered(lambda view: named_by_tool(view, call.filter, tool.command, files, before))


def _surfaced(call: Call, named: Named, characters: int | None) -> Event:
    body = Surfaced(place="tool", about=named.about, characters=characters)
    return call.told(body, subject=named.memory.id)
