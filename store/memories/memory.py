"""
Memory: one memory, what becomes of each of its fields, the texts it is found by, its edges, and the
scores it gets by default.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Literal

import msgspec

from store.text.mentions import speaker_name

ACTIVE, ARCHIVED, SUPERSEDED, FORGOTTEN = "active", "archived", "superseded", "forgotten"
STALE = "stale"  # what it was made of does not hold any more
OPEN = "open"  # an episode that goes on, or one of which nothing came
STATES = (ACTIVE, ARCHIVED, SUPERSEDED, FORGOTTEN, STALE, OPEN)
UNSEEN = (FORGOTTEN, OPEN)  # nobody finds these, whatever is asked
FALLEN = (SUPERSEDED, FORGOTTEN, STALE)  # nothing that a job made of it holds either
ERASED = bytes(16)  # in place of a text's hash: no text has it
AUTO = "auto"  # a tier that is left to the rules
DEFAULT_SCORE = 0.5


# structs, for a build makes one of each event: a frozen dataclass of as many fields takes ten times
# as long to make
class Memory(msgspec.Struct, frozen=True, gc=False):
    """One memory as it is now. Times are microseconds UTC; `metadata` is JSON text.

    It holds from `created_at`, when it became true, until `ended_at`, or until its ttl runs out.
    `ended_at` is null while the memory is active and only then. `job` made it of its sources; None:
    a person or an agent did.
    """

    id: str
    seq: int
    kind: str
    state: str
    content: str
    context: str | None
    action: str | None
    result: str | None
    tags: tuple[str, ...]
    project: str | None
    session: str | None
    agent: str | None
    trust: str
    source: str | None
    created_by: str | None
    importance: float
    score: float
    pinned: bool
    tier: str
    parent_id: str | None
    source_ids: tuple[str, ...]
    insight_type: str | None
    job: str | None
    superseded_by: str | None
    key: str | None
    value: str | None
    chain: str | None
    status: str | None
    progress: float | None
    created_at: int
    updated_at: int
    expires_at: int | None
    ended_at: int | None
    metadata: str
    text_hash: bytes
    # what comes later stands here, with a default
    author: str | None = None  # who wrote the text; None: not known

    def holds_at(self, at: int) -> bool:
        """Return whether the memory held at a moment; one that nobody finds never did."""
        ends = (end for end in (self.ended_at, self.expires_at) if end is not None)
        return self.state not in UNSEEN and self.created_at <= at < min(ends, default=at + 1)

    @property
    def unsaid_importance(self) -> float:
        """What the memory's importance is where nobody gave one."""
        return default_importance(self.kind, self.trust, self.key)

    @property
    def auto_tier(self) -> str:
        """What the memory is kept as where nobody said so."""
        return default_tier(self.kind, self.session, self.key, pinned=self.pinned)

    @property
    def text(self) -> str:
        """What is embedded, and what makes two memories the same: the content and its company."""
        return indexed_text(self.content, self.context, self.action, self.result, self.tags)

    @property
    def fields(self) -> tuple[str, ...]:
        """What is embedded beside the whole text: what was going on, was done, came of it."""
        return tuple(text for text in (self.context, self.action, self.result) if text)

    @property
    def searched_text(self) -> str:
        """What is indexed by its words: the text, who said it, and on which day."""
        return searched_text(self.text, self.created_by, self.created_at)


VERSION = 9  # of the table: raise it when the same log is to give other rows

KEPT: Any = object()  # an erased memory keeps it
Shown = Literal["hit", "list", "whole", "never"]


class Field(msgspec.Struct, frozen=True):
    """What becomes of a field of a memory. The table's column follows from its type in `Memory`;
    what `Recorded` and `Revised` call the same sets it, and is exported.

    A "hit" field is shown wherever the memory is, a "list" field also in lists, a "whole" one only
    in all there is of it. `blank` is what an erased memory has instead.
    """

    name: str
    shown: Shown = "never"
    blank: Any = None
    shown_as: str = ""  # its name in JSON, where that is another
    always: bool = False  # shown in a hit even where it says nothing
    is_moment: bool = False  # microseconds, shown as ISO 8601
    code_bits: int = 0  # of its column, which is a dictionary; 0: it is none
    filter: str = ""  # what a filter of recall calls it: any of some values, of a tuple all of them
    archived: bool = False  # in the file of `mnemolog archive`
    label: str = ""  # on its page, where that gives it no place of its own


# In the order in which they are shown. A text is blanked by erasing and redacted unless it says
# otherwise.
FIELDS = (
    Field("id", "hit", KEPT, always=True, archived=True),
    Field("content", "hit", "", "text", always=True, archived=True),
    Field("kind", "hit", KEPT, always=True, code_bits=16, filter="kinds", archived=True),
    Field("project", "hit", KEPT, always=True, code_bits=32, archived=True),
    Field("created_at", "hit", KEPT, "at", always=True, is_moment=True, archived=True),
    Field("context", "hit", archived=True),
    Field("action", "hit", archived=True),
    Field("result", "hit", archived=True),
    Field("tags", "hit", (), filter="tags", archived=True),
    Field("source", "hit", archived=True),
    Field("created_by", "hit", archived=True),
    Field("agent", "hit", KEPT, archived=True),
    Field("session", "hit", KEPT, filter="sessions", archived=True),
    Field("trust", "hit", KEPT, code_bits=8, filter="trusts", archived=True),
    Field("author", "hit", KEPT, code_bits=8, archived=True),
    Field("pinned", "hit", False, archived=True),
    Field("state", "hit", FORGOTTEN, code_bits=8, archived=True),
    Field("superseded_by", "hit", archived=True),
    Field("ended_at", "hit", KEPT, is_moment=True, archived=True),
    Field("tier", "list", AUTO, code_bits=8, filter="tiers"),
    Field("importance", "list", 0.0, archived=True),
    Field("score", "whole", DEFAULT_SCORE),
    Field("parent_id", "whole", KEPT, label="Parent"),
    Field("source_ids", "whole", KEPT, archived=True),
    Field("insight_type", "whole", label="Insight"),
    Field("key", "list", archived=True),
    Field("value", "list", archived=True),
    Field("chain", "whole"),
    Field("status", "list"),
    Field("progress", "list"),
    Field("updated_at", "list", KEPT, is_moment=True, archived=True),
    Field("expires_at", "list", is_moment=True),
    Field("metadata", "list", "{}", archived=True),
    Field("job", blank=KEPT, code_bits=8),
    Field("seq", blank=KEPT),
    Field("text_hash", blank=ERASED),
)
FILTERS = {
    field.filter: field.name for field in FIELDS if field.filter
}  # fields by the filters' names


class Edge(msgspec.Struct, frozen=True, gc=False):
    """A reasoning edge: `source` is the memory the link was drawn from."""

    source: str
    target: str
    relation: str
    seq: int


# what a memory's text is made of: that of `indexed_text`
TEXT_FIELDS = ("content", "context", "action", "result", "tags")


def indexed_text(
    content: str,
    context: str | None,
    action: str | None,
    result: str | None,
    tags: Iterable[str],
) -> str:
    """Return the text under which a memory is found: its fields, one a line, tags last."""
    return "\n".join(part for part in (content, context, action, result, " ".join(tags)) if part)


def searched_text(text: str, created_by: str | None, created_at: int) -> str:
    """Return a text with the person who said it before it and the day, in words, after it.

    A role ("user", "assistant") says nothing about one memory and is left out.
    """
    speaker = created_by if created_by and speaker_name(created_by) else ""
    return f"{speaker}\n{text}\n{_day(created_at // _DAY)}".strip()


_DAY = 86_400 * 1_000_000  # microseconds
_MONTHS = """January February March April May June July August September October November
    December""".split()


@lru_cache(maxsize=4_096)
def _day(number: int) -> str:
    """Return a day, counted from 1970, as a person writes it: 7 May 2023."""
    day = datetime.fromordinal(_EPOCH + number)
    return f"{day.day} {_MONTHS[day.month - 1]} {day.year}"


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC).toordinal()


# Scoring: how much a memory matters and what it is kept as, where nobody said so.
#
# Told by what is known when it is written and does not change, so that a replay gives the same.
# Mild on purpose: importance may move a memory among those that answer nearly as well, no
# further (docs/recall.md). The job `importance` revises it later.

TOOL_TRUSTS = ("tool", "web")  # trusts of what no person and no agent said
_LESS = 0.05  # what is taken off there
_MORE = 0.05  # what the value of a key gains: it is looked up

# a half says nothing; what binds what is done next is above it, what merely happened below
IMPORTANCE_BY_KIND: Mapping[str, float] = {
    "antipattern": 0.7,
    "preference": 0.7,
    "decision": 0.65,
    "lesson": 0.65,
    "bugfix": 0.6,
    "goal": 0.6,
    "milestone": 0.6,
    "pattern": 0.6,
    "fact": 0.5,
    "insight": 0.5,  # rests on others, and is not to pass them
    "summary": 0.5,
    "context": 0.5,
    "raw_turn": 0.5,
    "observation": 0.45,
    "activity": 0.4,
    "statement": 0.6,
    "episode": 0.5,
}
_HAPPENED = frozenset(
    "raw_turn activity observation context milestone bugfix summary episode".split()
)
_OF_ITS_SESSION = frozenset(("activity", "context"))


def default_importance(kind: str, trust: str, key: str | None) -> float:
    """Return how much a memory matters, 0 to 1, by its kind, who said it, and whether it has a
    key.
    """
    importance = IMPORTANCE_BY_KIND.get(kind, 0.5)
    importance += _MORE if key is not None else 0.0
    importance -= _LESS if trust in TOOL_TRUSTS else 0.0
    return round(importance, 2)


def default_tier(kind: str, session: str | None, key: str | None, *, pinned: bool) -> str:
    """Return what a memory is kept as.

    "working" is what is at hand: goals, and what was going on in a session; "episodic" what
    happened; "semantic" what holds. What is pinned or has a key holds.
    """
    if pinned or key is not None:
        return "semantic"
    if kind == "goal" or (kind in _OF_ITS_SESSION and session is not None):
        return "working"
    return "episodic" if kind in _HAPPENED else "semantic"
