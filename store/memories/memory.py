"""
Memory: one memory, the treatment of its fields, its searchable texts, its edges, and its default
scores.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Literal

import msgspec

from store.home.instants import DAY
from store.text.mentions import speaker_name

ACTIVE, ARCHIVED, SUPERSEDED, FORGOTTEN = "active", "archived", "superseded", "forgotten"
STALE = "stale"  # an insight with an outdated source
OPEN = "open"  # an unfinished episode, or one without a result
STATES = (ACTIVE, ARCHIVED, SUPERSEDED, FORGOTTEN, STALE, OPEN)
UNSEEN = (FORGOTTEN, OPEN)  # never returned by any query
FALLEN = (SUPERSEDED, FORGOTTEN, STALE)  # insights made from these become stale
ERASED = bytes(16)  # in place of a text's hash: no text has it
AUTO = "auto"  # a tier that is left to the rules
COMMIT = "git"  # the source of memories made of commits and releases
DEFAULT_SCORE = 0.5


# structs, for a build makes one of each event: a frozen dataclass of as many fields takes ten times
# as long to make
class Memory(msgspec.Struct, frozen=True, gc=False):
    """One memory as it is now. Times are microseconds UTC; `metadata` is JSON text.

    It is valid from `created_at`, when it became true, until `ended_at` or the end of its ttl.
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
    # fields added later need a default
    author: str | None = None  # who wrote the text; None: not known

    def holds_at(self, at: int) -> bool:
        """Return True if the memory was valid at a moment; never for an `UNSEEN` state."""
        ends = (end for end in (self.ended_at, self.expires_at) if end is not None)
        return self.state not in UNSEEN and self.created_at <= at < min(ends, default=at + 1)

    @property
    def unsaid_importance(self) -> float:
        """The memory's default importance."""
        return default_importance(self.kind, self.trust, self.key)

    @property
    def auto_tier(self) -> str:
        """The memory's default tier."""
        return default_tier(self.kind, self.session, self.key, pinned=self.pinned)

    @property
    def text(self) -> str:
        """The embedded text, by which memories are deduplicated: content, other fields and tags."""
        return indexed_text(self.content, self.context, self.action, self.result, self.tags)

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields embedded beside the whole text: context, action and result."""
        return tuple(text for text in (self.context, self.action, self.result) if text)

    @property
    def searched_text(self) -> str:
        """The text of the word index: the memory's text, its speaker and its day."""
        return searched_text(self.text, self.created_by, self.created_at)


VERSION = 9  # of the table: raise it when the same log is to give other rows

KEPT: Any = object()  # an erased memory keeps it
Shown = Literal["hit", "list", "whole", "never"]


class Field(msgspec.Struct, frozen=True):
    """The treatment of a memory's field. The table's column follows from its type in `Memory`;
    fields of the same name in `Recorded` and `Revised` set it and are exported.

    A "hit" field is shown wherever the memory is, a "list" field also in lists, a "whole" field
    only in the complete memory. `blank` is the value in an erased memory.
    """

    name: str
    shown: Shown = "never"
    blank: Any = None
    shown_as: str = ""  # its name in JSON, where that is another
    always: bool = False  # shown in a hit even if empty
    is_moment: bool = False  # microseconds, shown as ISO 8601
    code_bits: int = 0  # of its column, which is a dictionary; 0: it is none
    filter: str = ""  # its name as a recall filter: matches any given value, for a tuple all
    archived: bool = False  # in the file of `mnemolog archive`
    label: str = ""  # on its page, where that gives it no place of its own


# In display order. A text is blanked by erasing and redacted unless its entry states otherwise.
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


# the fields of a memory's text, as in `indexed_text`
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

    A role ("user", "assistant") does not distinguish memories and is left out.
    """
    speaker = created_by if created_by and speaker_name(created_by) else ""
    return f"{speaker}\n{text}\n{_day(created_at // DAY)}".strip()


_MONTHS = """January February March April May June July August September October November
    December""".split()


@lru_cache(maxsize=4_096)
def _day(number: int) -> str:
    """Return a day, counted from 1970, as a person writes it: 7 May 2023."""
    day = datetime.fromordinal(_EPOCH + number)
    return f"{day.day} {_MONTHS[day.month - 1]} {day.year}"


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC).toordinal()


# Scoring: a memory's default importance and tier.
#
# Computed from fields known at the write that never change, so that a replay gives the same.
# Mild on purpose: importance may move a memory among those that answer nearly as well, no
# further (docs/recall.md). The job `importance` revises it later.

TOOL_TRUSTS = ("tool", "web")  # trusts of text from neither a person nor an agent
_LESS = 0.05  # subtracted for these
_MORE = 0.05  # added for the value of a key: it is looked up

# 0.5 is neutral; kinds that bind later work are above it, mere events below
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
    """Return a memory's default importance, 0 to 1, by its kind, its trust and having a key."""
    importance = IMPORTANCE_BY_KIND.get(kind, 0.5)
    importance += _MORE if key is not None else 0.0
    importance -= _LESS if trust in TOOL_TRUSTS else 0.0
    return round(importance, 2)


def default_tier(kind: str, session: str | None, key: str | None, *, pinned: bool) -> str:
    """Return a memory's default tier.

    "working" is for goals and the context of a session, "episodic" for events, "semantic" for
    lasting facts. Pinned memories and those with a key are semantic.
    """
    if pinned or key is not None:
        return "semantic"
    if kind == "goal" or (kind in _OF_ITS_SESSION and session is not None):
        return "working"
    return "episodic" if kind in _HAPPENED else "semantic"
