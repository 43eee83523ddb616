"""Inputs and candidates of `distill`: past sessions from the log, and the findings of a session."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256

import numpy as np
import pyarrow.compute as pc

from pipelines.jobs import Context
from store.home.instants import HOUR
from store.log import log_queries
from store.log.event_kinds import EPISODE, Acted, Made, Prompted, RecordedKind, SessionTold, Trust
from store.log.events import Event
from store.memories.memory import Memory

MOST = 200  # sessions at a time, the newest
KINDS = ("prompted", "action", "session", "outcome", "followed")
_QUIET = HOUR  # a session without an event for an hour is over


@dataclass(frozen=True)
class PastSession:
    """One session: its events in the order of the log, and its live memories."""

    id: str
    events: Sequence[Event]
    memories: Sequence[Memory]

    @cached_property
    def actions(self) -> list[tuple[Event, Acted]]:
        return [(event, event.body) for event in self.events if isinstance(event.body, Acted)]

    @cached_property
    def prompts(self) -> list[tuple[Event, Prompted]]:
        return [(event, event.body) for event in self.events if isinstance(event.body, Prompted)]

    @property
    def until(self) -> int:
        """The seq of its last event or memory."""
        seqs = [
            *(event.seq for event in self.events[-1:]),
            *(memory.seq for memory in self.memories),
        ]
        return max(seqs, default=0)

    def prompt_before(self, event: Event) -> tuple[Event, Prompted] | None:
        """Return the prompt of an event's turn."""
        before = [pair for pair in self.prompts if pair[0].seq < event.seq]
        return before[-1] if before else None

    def is_over(self, now: int) -> bool:
        if not self.events:
            return True  # an import
        last = self.events[-1]
        has_stopped = isinstance(last.body, SessionTold) and last.body.stage in ("stopped", "ended")
        return has_stopped or now - last.at > _QUIET


def recent_sessions(context: Context) -> tuple[list[PastSession], int]:
    """Return the sessions that reached the log last, the oldest first, and the number of others.

    With a session in the context, only that one. An old session is new when it is imported.
    """
    every = (
        log_queries.sessions_by_arrival(context.log, KINDS, context.project)
        if context.session is None
        else [context.session]
    )
    newest = every[-MOST:]
    events = {
        id_: [
            event
            for event in context.log.session_events(id_)
            if event.kind in KINDS and context.project in (None, event.project)
        ]
        for id_ in newest
    }
    memories: dict[str, list[Memory]] = {}
    for memory in memories_where(context, "session", newest):
        if memory.kind != EPISODE:  # it repeats the events
            memories.setdefault(memory.session or "", []).append(memory)
    past = [PastSession(id_, events[id_], memories.get(id_, ())) for id_ in newest if events[id_]]
    return past, len(every) - len(newest)


def imported_sessions(
    memories: Sequence[Memory], logged: Sequence[PastSession]
) -> list[PastSession]:
    """Return the sessions that have memories and no events, the oldest first."""
    logged_ids = {session.id for session in logged}
    imported: dict[str, list[Memory]] = {}
    for memory in memories:
        if memory.session is not None and memory.session not in logged_ids:
            imported.setdefault(memory.session, []).append(memory)
    return [PastSession(id_, (), own) for id_, own in imported.items()][-MOST:]


def memories_where(context: Context, column: str, values: Sequence[str]) -> list[Memory]:
    """Return the live memories with one of some values in a column, in row order."""
    rows = np.flatnonzero(context.rows.equal(column, values))
    return context.memories(np.intersect1d(rows, context.live_rows))


def agent_memories(context: Context) -> list[Memory]:
    """Return the living memories of sessions with an agent, as imports leave them; no episodes:
    these repeat events.
    """
    table = context.tables("memories")["memories"]
    has_both = pc.and_(pc.is_valid(table.column("agent")), pc.is_valid(table.column("session")))
    rows = np.intersect1d(np.flatnonzero(has_both.to_numpy()), context.live_rows)
    return [
        memory
        for memory in context.memories(rows)
        if memory.kind != EPISODE and context.session in (None, memory.session)
    ]


# A candidate's `key` identifies it: the same finding in several sessions is one lesson. Words of a
# tool are only quoted, with a tool's trust, so they never become a rule
# (`serve.reader.memory_json`), however often they recur.

_NUMBERS = re.compile(r"0x[0-9a-f]+|\d+", re.IGNORECASE)
_MOST_NAMES = 6


@dataclass(frozen=True, slots=True)
class Candidate:
    """A finding of one session; `memories` and `events` are the ids of its sources.

    `files` are the files it mentions, relative to the project; `at` is its time, microseconds UTC.
    `rule` is its text once it was found twice.
    """

    key: str
    kind: RecordedKind
    content: str
    trust: Trust
    session: str
    at: int
    memories: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    project: str | None = None
    context: str | None = None
    rule: str | None = None
    made: Made | None = None  # where a model found it
    until: int = 0  # the last event of the session shown to a model
    is_told: bool = False  # a memory of the session states it already


def candidate_key(*parts: str | None) -> str:
    """Return a finding's key, equal in every session; 16 hex digits."""
    plain = "\x00".join(" ".join((part or "").casefold().split()) for part in parts)
    return sha256(plain.encode()).hexdigest()[:16]


def without_numbers(error: str) -> str:
    """Return an error's line without the numbers that differ between runs."""
    return _NUMBERS.sub("#", error)


def fold_text(text: str) -> str:
    """Return a text for comparison: without case, white space and full stop."""
    return " ".join(text.casefold().split()).strip(" .!")


def join_names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more
