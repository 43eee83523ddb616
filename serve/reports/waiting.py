"""
The queue of a person's decisions, found in one place for every command and page.

Statements, agents' lessons, held advice and drafts are those that `mnemolog lessons` lists; plans
and recommendations those that still apply.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec

from serve.lessons.lesson_stats import waiting_lessons
from serve.reader.filters import Filter
from serve.reader.view import View
from store.log.event_log import EventLog
from store.maintenance import quarantine
from store.plans import proposals
from store.text.excerpt import plural

# each sort, the command that lists it and the dashboard's page
_SORTS = (
    ("statement", "mnemolog lessons", "lessons.index"),
    ("lesson of an agent", "mnemolog lessons", "lessons.index"),
    ("note held back from agents", "mnemolog lessons", "lessons.index"),
    ("draft", "mnemolog lessons", "lessons.index"),
    ("plan", "mnemolog plans", "proposals.index"),
    ("recommendation", "mnemolog recommendations", "proposals.index"),
    ("memory in quarantine", "mnemolog quarantine", "errors.index"),
)

_NEWEST = 3  # of each sort, enough for a daily look


class Waiting(msgspec.Struct, frozen=True):
    """The number of waiting items of a sort; `command` and the dashboard's `page` list them.

    `newest` are a few rows of `waiting_lessons`; empty for sorts that it does not list.
    """

    sort: str
    count: int
    command: str
    page: str
    newest: tuple[Mapping[str, Any], ...] = ()

    def __str__(self) -> str:
        noun, of, rest = self.sort.partition(" ")
        return plural(self.count, noun) + of + rest


def find_waiting(view: View, log: EventLog, now: int) -> tuple[Waiting, ...]:
    """Return the sorts with waiting items, and their counts."""
    lessons = waiting_lessons(view, log, Filter(now))
    counts = Counter(row["sort"] for row in lessons)
    counts["plan"] = len(proposals.every(log, "waiting", "plan"))
    counts["recommendation"] = len(proposals.every(log, "waiting", "recommendation"))
    counts["memory in quarantine"] = len(quarantine.entries(log))
    return tuple(
        Waiting(
            sort,
            counts[sort],
            command,
            page,
            tuple(row for row in lessons if row["sort"] == sort)[:_NEWEST],
        )
        for sort, command, page in _SORTS
        if counts[sort]
    )
