"""
What a turn leaves behind if the agent recorded nothing itself: one templated note, or none.

Worth a note are files that were changed and then tried, an error that went away, a build, a
deployment. The words are the prompt's, the commands' and the agent's last; no model writes any. A
note is an activity or a bugfix, so never a rule, and one that quotes a tool's error is a tool's.
"""

from collections.abc import Sequence

import msgspec

from serve.hooks.call import Call
from store import commands, frame
from store.agent_events import Acted, Prompted
from store.commands import Draft
from store.errors import InvalidInput
from store.events import Event, Recorded, derived_id
from store.importers.excerpt import excerpt, one_line
from store.importers.fixes import fixes
from store.importers.turn import Called, Said

MAX_FILES = 8
MAX_COMMANDS = 4
_SAYS_NOTHING = ("small_talk", "command")
_RESULTS = ("test", "build", "lint", "deploy")


def note(call: Call, turn: Sequence[Event]) -> Event | None:
    """Return the event that records what a turn came to; None where it is worth no note, or has
    one already.
    """
    first = turn[0] if turn else None
    if first is None or not isinstance(first.body, Prompted) or call.event.is_continued:
        return None
    if any(_records(event) for event in turn):
        return None
    acted = [event.body for event in turn if isinstance(event.body, Acted)]
    draft = _bugfix(turn, call.event.said) or _activity(acted, first.body, call.event.said)
    id_ = derived_id(first.at, "ambient", call.event.session, first.id)
    if draft is None or call.tenant.log.known([id_]):
        return None
    event = call.event
    try:
        return commands.recorded(
            msgspec.structs.replace(
                draft,
                id=id_,
                source="ambient",
                source_ids=(first.id,),
                created_by=event.host,
                project=call.project or None,
                session=event.session,
                agent=event.host,
            ),
            call.now,
        )
    except InvalidInput:  # its words make no memory
        return None


def _records(event: Event) -> bool:
    is_told = isinstance(event.body, Acted) and event.body.doing == "remember"
    return is_told or isinstance(event.body, Recorded)


def _bugfix(turn: Sequence[Event], said: str) -> Draft | None:
    fix = next(fixes(_steps(turn, said)), None)
    if fix is None:
        return None
    return Draft(
        kind="bugfix",
        trust="tool",  # it quotes what a tool wrote
        content=fix.content,
        context=fix.context,
        action=fix.action,
        result=fix.result,
    )


def _steps(turn: Sequence[Event], said: str) -> list[Said | Called]:
    """Return a turn's deeds as importers know them; what was said in the end is of every cure."""
    steps: list[Said | Called] = []
    for event in turn:
        deed = event.body
        if not isinstance(deed, Acted) or deed.doing not in ("run", "edit"):
            continue
        is_done, tool = deed.passed is not False, "Edit" if deed.doing == "edit" else deed.tool
        for path in deed.files or (None,):
            error = deed.error if deed.effort in _RESULTS else None
            steps.append(Called(event.id, event.at, tool, deed.command, path, is_done, error))
        if deed.error and said:
            steps.append(Said(said, None, event.at))
    return steps


def _activity(acted: Sequence[Acted], asked: Prompted, said: str) -> Draft | None:
    changed = [one.files for one in acted if one.doing == "edit" and one.passed is not False]
    files = list(dict.fromkeys(path for some in changed for path in some))
    last = {one.effort: one for one in acted if one.effort in _RESULTS and one.passed is not None}
    passed = {effort for effort, one in last.items() if one.passed}
    is_worth_it = bool(files and passed) or not passed.isdisjoint(("build", "deploy"))
    if not is_worth_it:
        return None
    results = [f"`{one_line(one.command or '', 120)}` {_came(one)}" for one in last.values()]
    parts = [
        one_line(asked.prompt, 200) if asked.intent not in _SAYS_NOTHING else "",
        f"Changed {_listed(files)}." if files else "",
        f"{', '.join(results[:MAX_COMMANDS])}.",
    ]
    return Draft(
        kind="activity",
        trust="agent",
        content="\n".join(part for part in parts if part),
        result=excerpt(frame.strip(said), 600) or None,
    )


def _came(deed: Acted) -> str:
    return "passed" if deed.passed else "failed"


def _listed(files: Sequence[str]) -> str:
    more = f" and {len(files) - MAX_FILES} more" if len(files) > MAX_FILES else ""
    return ", ".join(files[:MAX_FILES]) + more
