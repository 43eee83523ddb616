"""
The lessons that name the command or file a tool is about to touch.

Advice, unless the user set `enforce`: each is said here once in a session, whatever a brief or a
prompt said of it before, at most two at a time, and only what names this very command or file. A
lesson that nobody ever followed is at rest (`serve.lessons`). A host reads advice once the tool
ran. Enforced, a rule that speaks against the tool makes the host ask, or refuse, each time: only a
rule that the user wrote or accepted, never one that an agent, a job or an imported file brought.
"""

import threading

from serve.hooks.call import Call
from serve.hooks.event import SILENCE, Decision, Reply
from serve.hooks.paths import in_project
from serve.lessons.index import named_by_tool
from serve.lessons.matching import Named
from serve.recall.context_block import block, note, short_id
from store.agents.tool_calls import ToolUse
from store.log.event_kinds import Acted, Surfaced
from store.log.events import Event
from store.log.lesson_commands import ACCEPTED, DRAFTED
from store.memories.memory import Memory

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
    decision, against = _decided(call, found)
    if decision == "deny":  # the model reads why, and nothing runs that advice could be about
        call.write(*(_surfaced(call, one) for one in against))
        return Reply(decision=decision, reason=_reason(call, against))
    with _choosing:
        said = call.tenant.journals.of(call.event.session).surfaced_at("tool")
        new = [one for one in found if one.memory.id not in said][:MOST]
        if not call.is_in_time:
            return SILENCE
        if new:
            advice = block(note(one.memory, call.project) for one in new).text
            size = len(advice)
            call.write(
                *(_surfaced(call, one, None if place else size) for place, one in enumerate(new))
            )
        else:
            advice = ""
    return Reply(advice, decision=decision, reason=_reason(call, against) if decision else "")


def _decided(call: Call, found: list[Named]) -> tuple[Decision | None, list[Named]]:
    """Return what becomes of the tool, and the rules of the user's that it would break."""
    wanted = call.choices.enforced(call.project)
    if wanted == "advise" or wanted not in call.event.decides:
        return None, []
    against = [one for one in found if one.is_forbidden and _is_users(one.memory)][:MOST]
    return (wanted, against) if against else (None, [])


def _is_users(rule: Memory) -> bool:
    """Return whether the user wrote or accepted a rule, and no job or import brought it."""
    is_own = rule.source in (None, ACCEPTED, DRAFTED)
    return rule.trust == "user" and rule.job is None and is_own


def _reason(call: Call, against: list[Named]) -> str:
    said = [note(one.memory, call.project) for one in against]
    rules = "; ".join(
        f"\u201c{one['rule']}\u201d ({short_id(one['id'])}, {one['on']})" for one in said
    )
    return f"mnemolog has this on record as the user's own rule: {rules}"


def _named(call: Call, tool: ToolUse) -> list[Named]:
    files = in_project(tool.files, call.event.cwd) if tool.doing == "edit" else ()
    found = call.answered(lambda view: named_by_tool(view, call.filter, tool.command, files))
    if tool.command is None or all(one.is_forbidden for one in found):
        return found
    # what a lesson wants done first may be done already: the journal is only read for this
    acted = [event.body for event in call.journal.turn if isinstance(event.body, Acted)]
    before = [one.command for one in acted if one.command and one.passed is not False]
    return call.answered(lambda view: named_by_tool(view, call.filter, tool.command, files, before))


def _surfaced(call: Call, named: Named, characters: int | None = None) -> Event:
    body = Surfaced(place="tool", about=named.about, characters=characters)
    return call.told(body, subject=named.memory.id)
