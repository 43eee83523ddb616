"""
Index of the rules and lessons that may be shown, by the commands, files and efforts they name.

The rules of a snapshot are read once for as long as it is served, those of the tail when it
changed; the filter is applied each time.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from serve.lessons import rule_tokens
from serve.lessons.impact import is_at_rest, likely_followed
from serve.lessons.matching import RuleMatch, Rules
from serve.reader.filters import Filter
from serve.reader.held import is_held
from serve.reader.memory_json import is_lesson
from serve.reader.snapshots import Snapshots
from serve.reader.view import View
from store.derived.feedback import Counts
from store.memories.memory import ACTIVE, Memory
from store.text.text_features import MAY_RULE, RULE_KINDS


def tail_rules(view: View) -> list[Memory]:
    """Return the rules made or changed since the snapshot."""
    tail = view.tail
    slots = np.flatnonzero(tail.live & tail.columns.equal("kind", KINDS))
    return [memory for memory in tail.take(slots.tolist()) if is_lesson(memory)]


def rules(view: View, conditions: Filter) -> list[Memory]:
    """Return all rules and agents' lessons that pass a filter, those of the snapshot first."""
    passing = [
        memory for memory in view.snapshots.once(RowRules.of).memories if _is_current(view, memory)
    ]
    return [memory for memory in [*passing, *tail_rules(view)] if conditions.accepts(memory)]


def rules_for_tool(
    view: View,
    conditions: Filter,
    command: str | None = None,
    files: Sequence[str] = (),
    before: Sequence[str] = (),
) -> list[RuleMatch]:
    """Return the rules that name a command line about to run or a file about to be edited.

    Rules that forbid it come first, then the most followed, then the newest; those at rest or held
    are left out. `before` are the command lines that ran before in the same turn; files have
    forward slashes and are relative to the project if inside it.
    """

    def look(among: Rules) -> list[RuleMatch]:
        of_files = [match for path in files for match in among.of_file(path)]
        return [*(among.of_command(command, before) if command else ()), *of_files]

    return _find_rules(view, conditions, look)


def rules_for_prompt(view: View, conditions: Filter, prompt: str) -> list[RuleMatch]:
    """Return the rules about a program, file or effort that a prompt names.

    In the order of `rules_for_tool`; those at rest or held are left out.
    """
    words, wanted = requested_work(prompt)
    if not words and not wanted:
        return []
    return _find_rules(view, conditions, lambda among: among.of_words(words, wanted))


def rests(view: View, memory: Memory) -> bool:
    """Return True if a memory is a lesson that is not followed, as of the last build."""
    return is_at_rest(_counts(view, memory.id), pinned=memory.pinned)


def unjudged_tellings(view: View, memory: Memory) -> int:
    """Return how often a memory was shown before a tool, as of the last build; 0 if any of it was
    ever judged by what followed.
    """
    counts = _counts(view, memory.id)
    was_judged = counts["followed"] or counts["ignored"] or counts["not_applicable"]
    return 0 if was_judged else counts["before_tool"]


def _find_rules(
    view: View, conditions: Filter, look: Callable[[Rules], list[RuleMatch]]
) -> list[RuleMatch]:
    """Return the rules of `look` that may be shown, in the order of `rules_for_tool`."""
    matches = {
        match.memory.id: match
        for match in look(view.snapshots.once(RowRules.of).index)
        if _is_current(view, match.memory)
    }
    matches |= {match.memory.id: match for match in look(Rules(tail_rules(view)))}
    passing = [
        match
        for match in matches.values()
        if conditions.accepts(match.memory)
        and not rests(view, match.memory)
        and not is_held(match.memory)
    ]
    return sorted(
        passing,
        key=lambda match: (
            not match.is_forbidden,
            -likely_followed(_counts(view, match.memory.id)),
            -match.memory.created_at,
        ),
    )


def _counts(view: View, id_: str) -> Counts:
    """Return the counts of a lesson in the last build."""
    lessons = view.snapshots.lessons
    return Counts() if lessons is None else lessons.of(id_)


def _is_current(view: View, memory: Memory) -> bool:
    row = view.snapshots.rows.row(memory.id)
    return row is not None and not view.tail.is_hidden(row)


KINDS = (*sorted(RULE_KINDS), "insight")


@dataclass(frozen=True)
class RowRules:
    """The rules among the rows of one snapshot. Threads may share it."""

    memories: list[Memory]

    @classmethod
    def of(cls, snapshots: Snapshots) -> "RowRules":
        """Read the rules of a snapshot; use `snapshots.once(RowRules.of)`."""
        rows = snapshots.rows
        mask = rows.equal("kind", KINDS) & rows.equal("trust", tuple(sorted(MAY_RULE)))
        mask &= rows.equal("state", (ACTIVE,))
        memories = rows.take(np.flatnonzero(mask).tolist())
        return cls([memory for memory in memories if is_lesson(memory)])

    @cached_property
    def index(self) -> Rules:
        return Rules(self.memories)


MAX_CHARS = 4_000
# an imperative at the beginning of a clause: "deploy it", "please commit"
_IMPERATIVES = frozenset({"deploy", "release", "publish", "ship", "commit", "install", "push"})
_LEADS = frozenset("please now then and can could you run also bitte let's lets to".split())


def requested_work(prompt: str) -> tuple[tuple[str, ...], frozenset[str]]:
    """Return the programs and files that a prompt names, and the efforts it requests."""
    named: dict[str, None] = {}
    efforts: set[str] = set()
    is_lead = True  # the clause had only polite words so far
    for token in rule_tokens.tokenize_rule(prompt[:MAX_CHARS]):
        if token.is_stop:
            is_lead = True
            continue
        word = token.written
        if token.is_code:
            named[word.split(" ")[0]] = None
        elif word in rule_tokens.PLAIN_TOOLS or rule_tokens.file_pattern(word):
            named[word] = None
        elif is_lead and token.text in _IMPERATIVES:
            efforts |= {
                effort for start, effort in rule_tokens.OCCASIONS if token.text.startswith(start)
            }
        is_lead = is_lead and token.text in _LEADS
    return tuple(named), frozenset(efforts)
