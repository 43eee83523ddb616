"""
Log queries: named queries on an open log beyond `EventLog`'s own.

Most are answered by an index alone; hashes are checked only if whole events are returned.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from store.log import log_file
from store.log.checks import CHANGES
from store.log.event_kinds import Body, Prompted, Recorded, SessionTold
from store.log.event_log import EventLog
from store.log.events import RECEIPTS, Event, decode
from store.log.log_file import Row
from store.log.rows import COLUMNS, PUT_AWAY, decode_row
from store.redaction import redact


class EventLine(NamedTuple):
    """An event without its body."""

    seq: int
    id: str
    kind: str
    subject: str


class KeyedFact(NamedTuple):
    """A memory that was recorded as the value of a key of its project."""

    seq: int
    id: str
    project: str | None
    key: str


class _Key(msgspec.Struct, frozen=True):
    key: str | None = None


_LINE = "seq, id, kind, subject"
_KEYED = "seq, id, project, body"
_HAS_KEY = 'instr(body, \'"key":"\') > 0'
_decoder = msgspec.json.Decoder(_Key)


def newest_change(log: EventLog, subject: str) -> int:
    """Return the seq of the newest event that changed a memory; 0 if there is none."""
    rows = log.sql(f"SELECT coalesce(max(seq), 0) FROM events WHERE {CHANGES}", (subject,))
    return int(rows[0][0])


def project_names(log: EventLog) -> frozenset[str]:
    """Return the projects that any event belongs to."""
    rows = log.sql("SELECT DISTINCT project FROM events WHERE project IS NOT NULL", ())
    return frozenset(str(name) for (name,) in rows)


def last_change(log: EventLog) -> int:
    """Return the seq of the newest event that is no receipt; 0 if there is none."""
    marks = ", ".join("?" * len(RECEIPTS))
    rows = log.sql(
        f"SELECT seq FROM events WHERE kind NOT IN ({marks}) ORDER BY seq DESC LIMIT 1",
        tuple(sorted(RECEIPTS)),
    )
    return int(rows[0][0]) if rows else 0


def bytes_by_kind(log: EventLog) -> dict[str, int]:
    """Return the approximate size in bytes of the events of each kind; bodies are not read."""
    return dict(
        log.sql(
            "SELECT kind, sum(octet_length(body) + length(id) + length(subject) + 120) "
            "FROM events GROUP BY kind",
            (),
        )
    )


def time_of(log: EventLog, seq: int) -> int | None:
    """Return the time of the event with a seq, microseconds UTC; None if there is none."""
    rows = log.sql("SELECT at FROM events WHERE seq = ?", (seq,))
    return int(rows[0][0]) if rows else None


_RECENT = 100  # events: an import of old ones is soon over, and so is a clock that was ahead


def moment_at(log: EventLog, seq: int) -> int:
    """Return the time at a place in the log, microseconds UTC; 0 before the first event.

    The latest time among the last events up to there: the same for every call.
    """
    rows = log.sql(
        "SELECT max(at) FROM (SELECT at FROM events WHERE seq <= ? ORDER BY seq DESC LIMIT ?)",
        (seq, _RECENT),
    )
    return int(rows[0][0] or 0)


def arrival_times(log: EventLog, now: int) -> dict[str, int]:
    """Return when each recorded memory reached the log, microseconds UTC, by its id.

    An import carries old times but arrived today. An event without a clock, or with a clock ahead
    of `now`, arrived no earlier than the time of any event before it.
    """
    newest = "max(CASE WHEN at <= ?1 THEN at ELSE 0 END) OVER (ORDER BY seq)"
    rows = log.sql(
        "SELECT subject, max(arrived) FROM (SELECT subject, kind, "
        f"CASE WHEN clock <= ?1 THEN clock ELSE {newest} END AS arrived FROM events) "
        "WHERE kind = 'recorded' GROUP BY subject",
        (now,),
    )
    return dict(rows)


def newest_until(log: EventLog, at: int) -> int | None:
    """Return the seq of the last event at or before a time, microseconds UTC; None if there is
    none.
    """
    rows = log.sql("SELECT max(seq) FROM events WHERE at <= ?", (at,))
    return None if rows[0][0] is None else int(rows[0][0])


def imported_commits(log: EventLog, sha: str) -> list[tuple[int, str]]:
    """Return the seq of each event that imported a commit whose hash begins with `sha`, in order,
    and the stored part of that hash, 12 digits.
    """
    rows = log.sql(
        "SELECT seq, json_extract(body, '$.metadata.commit') FROM events WHERE kind = 'recorded' "
        "AND instr(body, ?) > 0 AND json_extract(body, '$.source') = 'git' ORDER BY seq",
        (f'"commit":"{sha[:12]}',),
    )
    return [(seq, commit) for seq, commit in rows if str(commit).startswith(sha[:12])]


def daily_counts(log: EventLog, until: int) -> dict[tuple[str, int], int]:
    """Return the number of events up to a seq by kind and day since 1970 UTC."""
    rows = log.sql(
        "SELECT kind, at / 86400000000, count(*) FROM events WHERE seq <= ? GROUP BY 1, 2",
        (until,),
    )
    return {(kind, day): count for kind, day, count in rows}


def tally(
    log: EventLog, kinds: Sequence[str], since: int, step: int, steps: int
) -> dict[str, list[int]]:
    """Return the number of events of each kind in each of `steps` equal steps of time from `since`.

    Both are in microseconds. Read off an index.
    """
    counts = {kind: [0] * steps for kind in kinds}
    for kind, place, count in log.sql(log_file.TALLY, (steps, since, step, _json(kinds))):
        counts[kind][place] = count
    return counts


def sessions_by_arrival(log: EventLog, kinds: Sequence[str], project: str | None) -> list[str]:
    """Return the sessions with events of some kinds, in a project if one is given, in the order of
    their last written event.
    """
    marks = ", ".join("?" * len(kinds))
    rows = log.sql(
        f"SELECT session FROM events WHERE session IS NOT NULL AND kind IN ({marks}) "
        "AND (? IS NULL OR project = ?) GROUP BY session ORDER BY max(seq)",
        (*kinds, project, project),
    )
    return [session for (session,) in rows]


def newest_bodies(log: EventLog, kind: str, most: int) -> list[tuple[int, Body]]:
    """Return time (microseconds UTC) and body of the `most` newest events of a kind, newest first.

    Archived ones among them are left out. Hashes are not checked.
    """
    rows = log.sql(
        "SELECT at, body FROM events WHERE kind = ? ORDER BY at DESC LIMIT ?", (kind, most)
    )
    return [(at, decode(kind, body)) for at, body in rows if body != PUT_AWAY]


def bodies_between(
    log: EventLog, kind: str, since: int, until: int, holding: str = ""
) -> list[tuple[int, str | None, str, Body]]:
    """Return time, session, subject and body of the events of a kind with `since` <= at < `until`.

    The newest first, archived ones left out; with `holding`, only bodies whose JSON contains that
    text. Read off the index of kinds and times; hashes are not checked.
    """
    rows = log.sql(
        "SELECT at, session, subject, body FROM events WHERE kind = ? AND at >= ? AND at < ? "
        "AND (? = '' OR instr(body, ?)) ORDER BY at DESC",
        (kind, since, until, holding, holding),
    )
    return [(at, of, subject, decode(kind, body)) for at, of, subject, body in rows if body]


def nth_newest(log: EventLog, kind: str, until: int, number: int) -> int | None:
    """Return the time of the event of a kind before `until` that `number` others are newer than.

    None if there are fewer. Read off the same index.
    """
    rows = log.sql(
        "SELECT at FROM events WHERE kind = ? AND at < ? ORDER BY at DESC LIMIT 1 OFFSET ?",
        (kind, until, number),
    )
    return int(rows[0][0]) if rows else None


_ANSWER = 2_000  # characters of a session's last answer: lists show its beginning
_OF_SESSIONS = ("prompted", "recalled")  # the kinds that date a session


class SessionLine(NamedTuple):
    """A session: its first question and last answer, its first and last moment in microseconds UTC,
    the number of events of each kind, and the number of failed commands.
    """

    session: str
    asked: str
    answered: str
    agent: str | None
    project: str | None
    began: int
    ended: int
    counts: dict[str, int]
    failed: int


def newest_sessions(log: EventLog, until: int, limit: int, most: int = 4_000) -> list[SessionLine]:
    """Return the sessions last prompted or asked before `until`, the last one first.

    Only the `most` newest prompts and as many recalls are considered.
    """
    last: dict[str, int] = {}
    for kind in _OF_SESSIONS:
        rows = log.sql(
            "SELECT session, at FROM events WHERE kind = ? AND at < ? ORDER BY at DESC LIMIT ?",
            (kind, until, most),
        )
        for session, at in rows:
            if session is not None:
                last[session] = max(at, last.get(session, at))
    chosen = sorted(last, key=lambda session: (-last[session], session))[:limit]
    rows = log.sql(
        "SELECT session, kind, count(*), min(at), max(at), max(agent), max(project) FROM events "
        "WHERE session IN (SELECT value FROM json_each(?)) GROUP BY session, kind",
        (_json(chosen),),
    )
    of: dict[str, list[Row]] = {session: [] for session in chosen}
    for row in rows:
        of[row[0]].append(row)
    bodies = _bodies(log, chosen, "prompted", "min(seq)")
    answered = _bodies(log, chosen, "session", "max(seq)", '"said":"')
    failed: dict[str, int] = dict(
        log.sql(
            "SELECT session, count(*) FROM events WHERE session IN "
            "(SELECT value FROM json_each(?)) AND +kind = 'action' "
            "AND instr(body, '\"passed\":false') GROUP BY session",
            (_json(chosen),),
        )
    )
    return [
        SessionLine(
            session,
            redact.redact(body.prompt) if isinstance(body := bodies.get(session), Prompted) else "",
            redact.redact((body.said or "")[:_ANSWER])
            if isinstance(body := answered.get(session), SessionTold)
            else "",
            max((row[5] for row in some if row[5]), default=None),
            max((row[6] for row in some if row[6]), default=None),
            min(row[3] for row in some if row[1] in _OF_SESSIONS),
            last[session],
            {row[1]: row[2] for row in some},
            failed.get(session, 0),
        )
        for session, some in of.items()
        if some
    ]


def _bodies(
    log: EventLog, sessions: Sequence[str], kind: str, which: str, holding: str = ""
) -> dict[str, Body]:
    """Return for each session the body of a kind whose JSON contains a text; the SQL aggregate
    `which` selects one. Sessions whose selected body is archived are left out.
    """
    # the body is that of the least or greatest seq: https://www.sqlite.org/lang_select.html#bareagg
    rows = log.sql(
        f"SELECT session, body, {which} FROM events WHERE session IN "
        "(SELECT value FROM json_each(?)) AND +kind = ? AND (? = '' OR instr(body, ?)) "
        "GROUP BY session",
        (_json(sessions), kind, holding, holding),
    )
    return {session: decode(kind, body) for session, body, _ in rows if body != PUT_AWAY}


def subjects_by_kind(log: EventLog, kinds: Sequence[str]) -> dict[str, frozenset[str]]:
    """Return the subjects of the events of each kind."""
    rows = log.sql(
        "SELECT kind, subject FROM events WHERE kind IN (SELECT value FROM json_each(?))",
        (_json(kinds),),
    )
    return {name: frozenset(of for kind, of in rows if kind == name) for name in kinds}


def newest_subjects(
    log: EventLog, kinds: Sequence[str], after: int, until: int, most: int
) -> list[str]:
    """Return the subjects of the newest events of some kinds with `after` < seq <= `until`, newest
    first within each kind; the same share of each kind, `most` in all.
    """
    by_kind = [
        log.sql(
            "SELECT subject FROM events WHERE kind = ? AND seq > ? AND seq <= ? "
            "ORDER BY at DESC LIMIT ?",
            (kind, after, until, most // len(kinds)),
        )
        for kind in kinds
    ]
    return list(dict.fromkeys(str(row[0]) for rows in by_kind for row in rows))


def subjects_of(log: EventLog, ids: Sequence[str]) -> list[str]:
    """Return the subjects of some events, each once, in no order."""
    rows = log.sql(
        "SELECT DISTINCT subject FROM events WHERE id IN (SELECT value FROM json_each(?))",
        (_json(ids),),
    )
    return [row[0] for row in rows]


def plan_that_lacks(log: EventLog, id_: str) -> str | None:
    """Return the plan that wrote an event and was undone, and not applied again; None if there is
    none.
    """
    rows = log.sql(
        f"SELECT subject FROM events AS undone WHERE {log_file.OF_JOBS} AND kind = 'undone' "
        "AND EXISTS (SELECT 1 FROM json_each(body, '$.events') WHERE value = ?) "
        "AND NOT EXISTS (SELECT 1 FROM events WHERE subject = undone.subject "
        "AND kind = 'applied' AND seq > undone.seq)",
        (id_,),
    )
    return rows[0][0] if rows else None


def erased_ids(log: EventLog, until: int, after: int = 0) -> frozenset[str]:
    """Return the ids of the memories that were erased with `after` < seq <= `until`."""
    rows = log.sql(
        "SELECT subject FROM events WHERE seq > ? AND seq <= ? AND kind = 'erased'",
        (after, until),
    )
    return frozenset(row[0] for row in rows)


def newest_plan_ids(log: EventLog) -> list[str]:
    """Return the id of each job's newest plan, newest first."""
    rows = log.sql(
        "SELECT id FROM events WHERE kind = 'planned' AND seq IN (SELECT max(seq) FROM events "
        "WHERE kind = 'planned' GROUP BY json_extract(body, '$.job')) ORDER BY at DESC, seq DESC",
        (),
    )
    return [row[0] for row in rows]


def tried_recalls(log: EventLog, plan: str, since: int) -> list[Event]:
    """Return the receipts since a moment that were part of a plan's trial, in order, without
    archived ones.
    """
    rows = log.sql(
        f"SELECT {COLUMNS} FROM events WHERE kind = 'recalled' AND at >= ? "
        "AND body != ? AND json_extract(body, '$.trial.plan') = ? ORDER BY seq",
        (since, PUT_AWAY, plan),
    )
    return [decode_row(row) for row in rows]


def changes_of(log: EventLog, subjects: Sequence[str], kinds: Sequence[str]) -> list[EventLine]:
    """Return the events of some kinds about some memories, in order, without bodies."""
    # the plus keeps SQLite to the index of subjects: https://www.sqlite.org/optoverview.html
    rows = log.sql(
        f"SELECT {_LINE} FROM events WHERE subject IN (SELECT value FROM json_each(?)) "
        "AND +kind IN (SELECT value FROM json_each(?)) ORDER BY seq",
        (_json(subjects), _json(kinds)),
    )
    return [EventLine(*row) for row in rows]


def other_changes_of(
    log: EventLog, subjects: Sequence[str], kinds: Sequence[str], after: int
) -> list[EventLine]:
    """Return the events about some memories after a seq, except those of some kinds, in order."""
    rows = log.sql(
        f"SELECT {_LINE} FROM events WHERE subject IN (SELECT value FROM json_each(?)) "
        "AND +seq > ? AND kind NOT IN (SELECT value FROM json_each(?)) ORDER BY seq",
        (_json(subjects), after, _json(kinds)),
    )
    return [EventLine(*row) for row in rows]


def restorings(log: EventLog, after: int) -> list[EventLine]:
    """Return the events after a seq that restored memories, in order."""
    rows = log.sql(
        f"SELECT {_LINE} FROM events WHERE +kind = 'restored' AND seq > ? ORDER BY seq", (after,)
    )
    return [EventLine(*row) for row in rows]


def facts_with_key(log: EventLog, ids: Sequence[str]) -> list[KeyedFact]:
    """Return the memories among `ids` that were recorded as the value of a key, in order."""
    rows = log.sql(
        f"SELECT {_KEYED} FROM events WHERE subject IN (SELECT value FROM json_each(?)) "
        f"AND +kind = 'recorded' AND {_HAS_KEY} ORDER BY seq",
        (_json(ids),),
    )
    return _with_keys(rows)


def new_facts_with_key(log: EventLog, after: int) -> list[KeyedFact]:
    """Return the memories recorded after a seq as the value of a key, in order."""
    rows = log.sql(
        f"SELECT {_KEYED} FROM events WHERE +kind = 'recorded' AND seq > ? AND {_HAS_KEY} "
        "ORDER BY seq",
        (after,),
    )
    return _with_keys(rows)


def memories_of_kind(log: EventLog, kind: str) -> list[Event]:
    """Return the events that recorded memories of a kind, in order, as they are stored."""
    rows = log.select_rows("kind = 'recorded' AND body LIKE ?", (f'%"kind":"{kind}"%',))
    events = (decode_row(row) for row in rows)
    return [
        event for event in events if isinstance(event.body, Recorded) and event.body.kind == kind
    ]


def newest_with_text(log: EventLog, text: str) -> int | None:
    """Return the seq of the newest event that recorded or revised a memory containing a text,
    ignoring case; None if there is none.
    """
    wanted = text.casefold()
    rows = log.sql(
        f"SELECT {COLUMNS} FROM events WHERE kind IN ('recorded', 'revised') ORDER BY seq DESC", ()
    )
    for event in map(decode_row, rows):
        if wanted in (getattr(event.body, "content", None) or "").casefold():
            return event.seq
    return None


def has_archived(log: EventLog, kind: str) -> bool:
    """Return True if the body of any event of a kind is in a segment."""
    return bool(log.select_rows("kind = ? AND body = ?", (kind, PUT_AWAY), limit=1))


def row_count(log: EventLog) -> int:
    """Return the number of events in the log."""
    return int(log.sql("SELECT count(*) FROM events")[0][0])


def row_batches(log: EventLog, size: int) -> Iterator[list[Row]]:
    """Yield all rows as stored, in order, up to `size` at a time; each batch is read on demand."""
    return _batches(log, "seq > ?", (), size)


def session_row_batches(
    log: EventLog, kinds: Sequence[str], since: int, until: int, size: int
) -> Iterator[list[Row]]:
    """Yield, as `row_batches` does, the rows of some kinds with a session and `since` <= at <
    `until`.
    """
    marks = ", ".join("?" * len(kinds))
    where = f"seq > ? AND kind IN ({marks}) AND session IS NOT NULL AND at >= ? AND at < ?"
    return _batches(log, where, (*kinds, since, until), size)


def _batches(
    log: EventLog, where: str, values: tuple[object, ...], size: int
) -> Iterator[list[Row]]:
    after = 0
    while rows := log.select_rows(where, (after, *values), limit=size):
        yield rows
        after = rows[-1][0]


def _with_keys(rows: Sequence[Row]) -> list[KeyedFact]:
    keys = ((row, _decoder.decode(row[3]).key) for row in rows)
    return [KeyedFact(row[0], row[1], row[2], key) for row, key in keys if key is not None]


def _json(texts: Sequence[str]) -> str:
    return msgspec.json.encode(list(texts)).decode()


# Names for completion


_MOST_LOOKED_AT = 50_000  # events of a kind, the newest


def projects(log: EventLog) -> list[str]:
    """Return the projects of the newest memories and prompts, the last used first."""
    rows = log.sql(
        "SELECT project, max(at) FROM ("
        "SELECT * FROM (SELECT project, at FROM events WHERE kind = 'recorded' "
        "ORDER BY at DESC LIMIT ?) UNION ALL "
        "SELECT * FROM (SELECT project, at FROM events WHERE kind = 'prompted' "
        "ORDER BY at DESC LIMIT ?)) "
        "WHERE project IS NOT NULL GROUP BY project ORDER BY max(at) DESC, project",
        (_MOST_LOOKED_AT, _MOST_LOOKED_AT),
    )
    return [project for project, _ in rows]


def newest_events(log: EventLog, kinds: Sequence[str], prefix: str, most: int) -> list[Event]:
    """Return up to `most` events of some kinds whose id starts with `prefix`, newest first.

    Only the newest 2,000 of each kind are looked at. Archived ones are left out.
    """
    rows = [
        row
        for kind in kinds
        for row in log.sql(
            f"SELECT {COLUMNS} FROM (SELECT {COLUMNS} FROM events WHERE kind = ? "
            f"ORDER BY at DESC LIMIT 2000) WHERE id >= ? AND id < ? AND body != '{PUT_AWAY}' "
            "ORDER BY at DESC LIMIT ?",
            (kind, prefix, prefix + "\U0010ffff", most),
        )
    ]
    return sorted(map(decode_row, rows), key=lambda event: -event.seq)[:most]
