"""
Hooks around a tool: lessons that name its command or file before it runs, and the user's statements
about it (`serve.lessons.deeds`); a record of it after.

A lesson is advice, unless the user set `enforce`: each is given here once in a session, even if a
brief or a prompt gave it before, at most two at a time, and only if it names this very command or
file. A lesson that was never followed is at rest (`serve.lessons`). A host reads advice once the
tool ran. If enforced, a rule against the tool makes the host ask, or refuse, each time: only a rule
that the user wrote or accepted, never one from an agent, a job or an import.

Actions are appended at once; those that only look wait for the next write.
"""

import threading
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePath, PureWindowsPath

from serve.hooks.call import Call
from serve.hooks.model_context import model_context
from serve.hosts.event import SILENCE, Decision, Reply
from serve.lessons.deeds import statements_for_tool
from serve.lessons.matching import RuleMatch
from serve.lessons.rule_index import rules_for_tool
from serve.reader.held import is_accepted
from serve.reader.view import View
from serve.recall.context_block import block, note, short_id
from store.agents import efforts
from store.agents.tool_calls import MAX_SOURCE, ToolUse, action_event
from store.home.projects import git_root
from store.log.event_kinds import Acted, Surfaced
from store.log.events import Event

MOST = 2  # lessons at a time

_choosing = threading.Lock()  # of tools called side by side, one gets the advice


def answer_before_tool(call: Call) -> Reply:
    """Return the lessons that name the tool's command or files, or silence."""
    tool = call.event.tool
    if tool is None or tool.is_ours or tool.doing not in ("run", "edit"):
        return SILENCE
    matches = _matching_rules(call, tool)
    if not matches:
        return SILENCE
    decision, against = _decide(call, matches)
    if decision == "deny":  # the model reads why, and nothing runs that advice could be about
        call.write(*(_surface_event(call, match) for match in against))
        return Reply(decision=decision, reason=_reason(call, against))
    with _choosing:
        before = call.tenant.journals.of(call.event.session).lesson_ids_at("tool")
        new = [match for match in matches if match.memory.id not in before][:MOST]
        if call.is_held_out:  # but a rule that is enforced, is
            new = []
        if not call.is_in_time:
            return SILENCE
        advice = ""
        if new:
            advice = block(note(match.memory, call.project) for match in new).text
            call.write(
                *(
                    _surface_event(call, match, None if place else len(advice))
                    for place, match in enumerate(new)
                )
            )
    return Reply(advice, decision=decision, reason=_reason(call, against) if decision else "")


def _decide(call: Call, matches: list[RuleMatch]) -> tuple[Decision | None, list[RuleMatch]]:
    """Return the decision on the tool, and the user's rules that it would break."""
    wanted = call.choices.enforcement(call.project)
    if wanted == "advise" or wanted not in call.event.decides:
        return None, []
    against = [match for match in matches if match.is_forbidden and is_accepted(match.memory)][
        :MOST
    ]
    return (wanted, against) if against else (None, [])


def _reason(call: Call, against: list[RuleMatch]) -> str:
    notes = [note(match.memory, call.project) for match in against]
    rules = "; ".join(
        f"\u201c{line['rule']}\u201d ({short_id(line['id'])}, {line['on']})" for line in notes
    )
    return f"mnemolog has this on record as the user's own rule: {rules}"


def _matching_rules(call: Call, tool: ToolUse) -> list[RuleMatch]:
    files = in_project(tool.files, call.event.cwd) if tool.doing == "edit" else ()

    def find(view: View) -> tuple[list[RuleMatch], list[RuleMatch]]:
        return (
            rules_for_tool(view, call.filter, tool.command, files),
            statements_for_tool(view, call.filter, tool.command, files),
        )

    matches, stated = call.ask(find)
    if stated:
        own = model_context(call.journal).own  # the model heard them
        stated = [match for match in stated if match.memory.id not in own]
    if tool.command is None or all(match.is_forbidden for match in matches):
        return [*matches, *stated]
    # a lesson's first step may be done already: the journal is read only for this
    acted = [event.body for event in call.journal.turn if isinstance(event.body, Acted)]
    before = [act.command for act in acted if act.command and act.passed is not False]
    again = call.ask(lambda view: rules_for_tool(view, call.filter, tool.command, files, before))
    return [*again, *stated]


def _surface_event(call: Call, named: RuleMatch, characters: int | None = None) -> Event:
    body = Surfaced(place="tool", about=named.about, characters=characters)
    return call.new_event(body, subject=named.memory.id)


MAX_READ = 4  # edited files whose definitions are looked at


def record_after_tool(call: Call) -> Reply:
    """Record the tool's action, silently."""
    tool, cwd = call.event.tool, call.event.cwd
    action = action_event(tool, in_project(tool.files, cwd), _sources(tool, cwd)) if tool else None
    if action is None:
        return SILENCE
    if action.doing == "read" or (action.command and efforts.only_looks(action.command)):
        call.write_later(call.new_event(action))
    else:
        call.write(call.new_event(action))
    return SILENCE


def _sources(tool: ToolUse, cwd: str | None) -> Iterator[str]:
    """Yield the text of the edited files, except those that are large or not ours."""
    for path in tool.files[:MAX_READ] if cwd is not None and tool.doing == "edit" else ():
        try:
            file = Path(cwd or "", path)
            if file.is_file() and file.stat().st_size <= MAX_SOURCE:
                yield file.read_text(encoding="utf-8", errors="replace")
        except (OSError, ValueError):  # gone, not ours to read, or no path
            continue


def in_project(files: Iterable[str], cwd: str | None) -> tuple[str, ...]:
    """Return files relative to the work tree that contains `cwd`, else to `cwd`.

    A file elsewhere keeps its whole path; the disk is read only to find that tree.
    """
    if cwd is None:
        return tuple(file.replace("\\", "/") for file in files)
    here = Path(cwd)
    root = git_root(here) or here
    return tuple(_relative(file, here, root) for file in files)


def _relative(file: str, here: PurePath, root: PurePath) -> str:
    is_windows = "\\" in file and "/" not in file
    path = here / (PureWindowsPath(file).as_posix() if is_windows else file)
    parts: list[str] = []
    for part in path.parts:
        if part == ".." and parts:
            parts.pop()
        elif part != "..":
            parts.append(part)
    plain = type(path)(*parts)
    return plain.relative_to(root).as_posix() if plain.is_relative_to(root) else plain.as_posix()
