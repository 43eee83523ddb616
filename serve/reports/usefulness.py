"""
Usefulness: the notes given to agents unasked in a day, a week and a month, and their effect.

Days are those of UTC, the running one among them. A block is the answer to one prompt, one start of
a session or one use of a tool; its parts share a session and a moment. At most LOOKED_AT events of
each kind are read, the newest: earlier ones are left out, and `since` is moved up to the first.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec
import numpy as np

from serve.reader.filters import Filter
from serve.reader.view import View, newest
from store.agents.prompt_statements import SAID_OTHERWISE
from store.home.instants import DAY
from store.log import log_queries
from store.log.event_kinds import (
    EPISODE,
    STATEMENT,
    Body,
    Followed,
    Forgotten,
    Place,
    Prompted,
    Rated,
    Recalled,
    Restored,
    SessionTold,
    Superseded,
    Surfaced,
)
from store.log.event_log import EventLog
from store.memories.memory import Memory
from store.plans.lesson_proposals import MADE_A_RULE

PERIODS: Mapping[str, int] = {"today": 1, "last_7_days": 7, "last_30_days": 30}
LOOKED_AT = 5_000  # events of a kind
CHARACTERS = 4  # that are counted as a token
LISTED = 20  # statements

# the text that marks the bodies to read of each kind; JSON never has it within a string
_KINDS: Mapping[str, str] = {
    "prompted": "",
    "recalled": '"mode":"auto"',
    "surfaced": "",
    "session": '"characters":',
    "followed": "",
    "rated": "",
    "superseded": "",
    "forgotten": "",
    "restored": "",
}
BlockKey = tuple[Place, str | None, int]  # with a session and microseconds UTC: one hook event


class Block(msgspec.Struct, frozen=True):
    """A text given to a model at once. `characters` is None for one of an earlier version, which
    did not record its length.
    """

    place: Place
    at: int
    session: str | None
    notes: frozenset[str]
    characters: int | None


class Period(msgspec.Struct, frozen=True):
    """The figures of a time up to now; `since` is its start, microseconds UTC.

    `told` are the prompts with a block, `near` those of the others with a memory nearly sure
    enough; receipts of earlier versions do not record that. `notes` are those of all blocks, of
    which `warnings` were given before a tool; `measured` counts the blocks with a length, and
    `characters` is the sum of the lengths. `contradicted` are notes that later words of the user
    superseded. `kept`, `accepted` and `taken_back` are statements.
    """

    since: int
    prompts: int
    told: int
    near: int
    briefs: int
    warnings: int
    blocks: int
    notes: int
    measured: int
    characters: int
    followed: int
    ignored: int
    not_applicable: int
    contradicted: int
    helped: int
    harmed: int
    kept: int
    accepted: int
    taken_back: int
    episodes: int

    @property
    def silent(self) -> int:
        return self.prompts - self.told

    @property
    def tokens(self) -> int | None:
        """The approximate tokens of the blocks with a length; None where no block has one."""
        if self.blocks and not self.measured:
            return None
        return math.ceil(self.characters / CHARACTERS)


class Usefulness(msgspec.Struct, frozen=True):
    """The periods by name; `kept_today` are today's valid statements, the newest first.

    `cut_at` is the time of the first event read where there were too many, microseconds UTC.
    """

    periods: Mapping[str, Period]
    kept_today: tuple[Memory, ...]
    cut_at: int | None = None


class _Row(msgspec.Struct, frozen=True):
    """The fields of an event that are counted here."""

    at: int
    session: str | None
    subject: str
    body: Body


_Rows = Mapping[str, Sequence[_Row]]  # by kind, each the oldest first


def usefulness(log: EventLog, view: View, now: int) -> Usefulness:
    """Return the figures of the notes given to agents up to now, and of their effect."""
    today = now - now % DAY
    starts = {name: today - (days - 1) * DAY for name, days in PERIODS.items()}
    first = min(starts.values())
    cuts = (log_queries.nth_newest(log, kind, now + 1, LOOKED_AT) for kind in _KINDS)
    cut_at = max((cut + 1 for cut in cuts if cut is not None and cut >= first), default=None)
    first = max(first, cut_at or 0)
    rows = {
        kind: [
            _Row(*row)
            for row in reversed(log_queries.bodies_between(log, kind, first, now + 1, holding))
        ]
        for kind, holding in _KINDS.items()
    }
    blocks = _blocks(rows)
    stated = Filter(now, kinds=(STATEMENT,), since=today)
    return Usefulness(
        {
            name: _period(view, rows, blocks, max(since, first), now)
            for name, since in starts.items()
        },
        tuple(newest(view, stated, LISTED)),
        cut_at,
    )


def _blocks(rows: _Rows) -> list[Block]:
    notes: dict[BlockKey, set[str]] = {}
    sizes: dict[BlockKey, int] = {}
    for row in (*rows["recalled"], *rows["surfaced"], *rows["session"]):
        place: Place = "prompt"
        ids: tuple[str, ...] = ()
        size: int | None = None
        body = row.body
        # only of a prompt hook's recalls; an earlier version's receipt names no door
        if isinstance(body, Recalled) and (
            body.door == "prompt" or (body.door is None and body.mode == "auto")
        ):
            ids, size = tuple(hit.id for hit in body.hits), body.characters
        elif isinstance(body, Surfaced):
            place, ids, size = body.place, (row.subject,), body.characters
        elif isinstance(body, SessionTold):
            place, size = "session", body.characters
        key = place, row.session, row.at
        if ids or size:
            notes.setdefault(key, set()).update(ids)
        if size:
            sizes[key] = size
    return [
        Block(place, at, session, frozenset(ids), sizes.get((place, session, at)))
        for (place, session, at), ids in notes.items()
    ]


def _period(view: View, all_rows: _Rows, every: Iterable[Block], since: int, now: int) -> Period:
    rows = {kind: [row for row in of if row.at >= since] for kind, of in all_rows.items()}
    blocks = [block for block in every if block.at >= since]
    prompts = {
        (row.session, row.at)
        for row in rows["prompted"]
        if isinstance(row.body, Prompted) and not row.body.imported
    }
    verdicts = [row.body.verdict for row in rows["followed"] if isinstance(row.body, Followed)]
    ratings = [row.body.verdict for row in rows["rated"] if isinstance(row.body, Rated)]
    sizes = [block.characters for block in blocks if block.characters]
    ended = _supersessions(rows["superseded"], SAID_OTHERWISE)
    contradicted = {
        id_ for block in blocks for id_ in block.notes if block.at <= ended.get(id_, -1)
    }
    changes = sorted((*rows["forgotten"], *rows["restored"]), key=lambda row: row.at)
    last_change = {
        row.subject: row.body for row in changes if isinstance(row.body, Forgotten | Restored)
    }
    forgotten = [id_ for id_, body in last_change.items() if isinstance(body, Forgotten)]
    return Period(
        since=since,
        prompts=len(prompts),
        told=len(
            prompts & {(block.session, block.at) for block in blocks if block.place == "prompt"}
        ),
        near=sum(
            isinstance(row.body, Recalled) and "near" in row.body.dropped
            for row in rows["recalled"]
        ),
        briefs=sum(block.place == "session" for block in blocks),
        warnings=sum(len(block.notes) for block in blocks if block.place == "tool"),
        blocks=len(blocks),
        notes=sum(len(block.notes) for block in blocks),
        measured=len(sizes),
        characters=sum(sizes),
        followed=verdicts.count("followed"),
        ignored=verdicts.count("ignored"),
        not_applicable=verdicts.count("not_applicable"),
        contradicted=len(contradicted),
        helped=sum(rating > 0 for rating in ratings),
        harmed=sum(rating < 0 for rating in ratings),
        kept=_count(view, STATEMENT, since, now),
        accepted=len(_supersessions(rows["superseded"], MADE_A_RULE)),
        taken_back=len(_statements(view, forgotten)),
        episodes=_count(view, EPISODE, since, now),
    )


def _supersessions(rows: Iterable[_Row], reason: str) -> dict[str, int]:
    """Return the last moment of each memory that was superseded for a reason, by id."""
    return {
        row.subject: row.at
        for row in rows
        if isinstance(row.body, Superseded) and row.body.reason == reason
    }


def _statements(view: View, ids: Collection[str]) -> list[str]:
    """Return the ids of the statements among some memories, in any state."""
    if not ids:
        return []
    rows = view.snapshots.rows
    is_stated = rows.equal("kind", (STATEMENT,))
    statements = []
    for id_ in ids:
        slot, row = view.tail.slot(id_), rows.row(id_)
        if slot is not None:
            (memory,) = view.tail.take([slot])
            is_one = memory.kind == STATEMENT
        else:
            is_one = row is not None and bool(is_stated[row])
        if is_one:
            statements.append(id_)
    return statements


def _count(view: View, kind: str, since: int, now: int) -> int:
    """Return the number of memories of a kind made since a time, in any state; erased episodes do
    not count.
    """
    rows, tail = view.snapshots.rows, view.tail
    is_current = np.ones(len(rows), np.bool_)
    is_current[tail.hidden_rows] = False
    count = 0
    for source, mask in ((rows, is_current), (tail.columns, tail.live)):
        mask = mask & source.equal("kind", (kind,)) & (source.created_at >= np.int64(since))
        if kind == EPISODE:
            mask &= source.active_at(now)
        count += int(np.count_nonzero(mask))
    return count
