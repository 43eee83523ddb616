"""
The rules that may be shown here and now, found without looking at the other memories.

Those of a snapshot are read once for as long as it is served, those of the tail when it changed;
who may see them is asked anew each time.
"""

from collections.abc import Callable, Sequence

import numpy as np

from serve.lessons import asking
from serve.lessons.impact import is_at_rest, likely_followed
from serve.lessons.matching import Named, Rules
from serve.lessons.row_rules import KINDS
from serve.reader.filters import Filter
from serve.reader.reader import View
from serve.rules import role
from store.derived.lessons import Counts
from store.memories.memory import Memory


def fresh(view: View) -> list[Memory]:
    """Return the rules that were made or changed since the snapshot."""
    tail = view.tail
    mask = tail.live & tail.columns.equal("kind", KINDS)
    slots = np.flatnonzero(mask)
    return [one for one in tail.take(slots.tolist()) if role(one) == "rule"] if len(slots) else []


def rules(view: View, asked: Filter) -> list[Memory]:
    """Return all rules that may come back, those of the snapshot first."""
    passing = [one for one in view.snapshots.rules.memories if _is_current(view, one)]
    return [one for one in [*passing, *fresh(view)] if asked.accepts(one)]


def named_by_tool(
    view: View,
    asked: Filter,
    command: str | None = None,
    files: Sequence[str] = (),
    before: Sequence[str] = (),
) -> list[Named]:
    """Return the rules that name a command line about to run or a file about to be edited.

    What they speak against comes first, then what is followed oftenest, then the newest; those at
    rest are left out. `before` are the command lines that ran before in the same turn; files have
    forward slashes and are relative to the project where they lie in it.
    """

    def look(among: Rules) -> list[Named]:
        of_files = [one for path in files for one in among.of_file(path)]
        return [*(among.of_command(command, before) if command else ()), *of_files]

    return _awake(view, _named(view, asked, look))


def named_by_text(view: View, asked: Filter, prompt: str) -> list[Named]:
    """Return the rules that name a program or file a prompt names, or what it asks to be done.

    In the order of `named_by_tool`; those at rest are left out.
    """
    words, wanted = asking.asked_for(prompt)
    if not words and not wanted:
        return []
    return _awake(view, _named(view, asked, lambda among: among.of_words(words, wanted)))


def rests(view: View, memory: Memory) -> bool:
    """Return whether a memory is a lesson that nobody goes by, as of the last build."""
    return is_at_rest(_counts(view, memory.id), pinned=memory.pinned)


def _awake(view: View, found: list[Named]) -> list[Named]:
    return [one for one in found if not rests(view, one.memory)]


def _named(view: View, asked: Filter, look: Callable[[Rules], list[Named]]) -> list[Named]:
    found = {
        one.memory.id: one
        for one in look(view.snapshots.rules.named)
        if _is_current(view, one.memory)
    }
    found |= {one.memory.id: one for one in look(Rules(fresh(view)))}
    passing = [one for one in found.values() if asked.accepts(one.memory)]
    return sorted(
        passing,
        key=lambda one: (
            not one.is_forbidden,
            -likely_followed(_counts(view, one.memory.id)),
            -one.memory.created_at,
        ),
    )


def _counts(view: View, id_: str) -> Counts:
    """Return what the last build counted of a lesson."""
    lessons = view.snapshots.lessons
    return Counts() if lessons is None else lessons.of(id_)


def _is_current(view: View, memory: Memory) -> bool:
    row = view.snapshots.rows.row(memory.id)
    return row is not None and not view.tail.is_hidden(row)
