"""
Following: whether a lesson that was shown was then followed, by what was done afterwards.

The last deed that says anything decides. A lesson shown before a tool comes too late for that very
call, which therefore says nothing. Of a lesson that names no command and no file nothing can be
told, and nothing is.
"""

from collections.abc import Sequence

from serve.lessons.matching import (
    MAX_ABOUT,
    about,
    forbids,
    is_occasion,
    is_untouchable,
    wants,
)
from serve.lessons.wording import Wording
from store.agents.shell import Call, calls
from store.log.event_kinds import Acted, LessonVerdict, Surfaced

Judged = tuple[LessonVerdict, str | None]


def judged(
    rule: Wording, shown: Surfaced, before: Sequence[Acted], after: Sequence[Acted]
) -> Judged | None:
    """Return the verdict and the command or file that it rests on; None where none can be given.

    `before` and `after` are what was done in the turn until the lesson was shown, and since.
    """
    if not (rule.names_anything or rule.wanted):
        return None
    deeds = _without(shown, after) if shown.place == "tool" else list(after)
    found: Judged = ("not_applicable", None)
    if shown.about and is_untouchable(rule, shown.about) and len(deeds) == len(after):
        found = ("followed", shown.about)  # it was about to be edited, and was not
    done = [call for one in before for call in _calls(one)]
    for deed in deeds:
        for call in _calls(deed):
            found = _of_call(rule, call, done) or found
            done.append(call)
        touched = [path for path in _edited(deed) if is_untouchable(rule, path)]
        found = ("ignored", touched[0][:MAX_ABOUT]) if touched else found
    return found


def _of_call(rule: Wording, call: Call, done: Sequence[Call]) -> Judged | None:
    if forbids(rule, call):
        return "ignored", about(call)
    if wants(rule, call):
        return "followed", about(call)
    if is_occasion(rule, call) and (rule.wanted or rule.efforts):
        is_done = any(wants(rule, one) for one in done)
        return "followed" if is_done else "ignored", about(call)
    return None


def _without(shown: Surfaced, after: Sequence[Acted]) -> list[Acted]:
    """Return what was done but for the call that the lesson was shown before."""
    for place, deed in enumerate(after):
        if shown.about in {*map(about, _calls(deed)), *(path[:MAX_ABOUT] for path in deed.files)}:
            return [*after[:place], *after[place + 1 :]]
    return list(after)


def _calls(deed: Acted) -> Sequence[Call]:
    return calls(deed.command) if deed.command else ()


def _edited(deed: Acted) -> Sequence[str]:
    return deed.files if deed.doing == "edit" and deed.passed is not False else ()
