"""
Rows: an event as a row of the log's table, redacted and hashed, and back; how rows are written.

The body of an archived row is empty: it is in a segment (`store.log.segments`), and must match the
row's own hash.
"""

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import TypeVar, cast

import apsw
import msgspec
from msgspec.structs import replace

from store.home.errors import IdConflict, InvalidInput, LogBusy, LogCorrupt
from store.log import event_clock
from store.log.events import Event, decode, encode, is_erased
from store.log.log_file import Row
from store.log.segments import Segment
from store.redaction import redact

COLUMNS = (
    "seq, id, at, kind, subject, project, session, agent, trust, body, author, origin, clock, "
    "sha256"
)
BODY = 9  # the place of the body among the columns
PUT_AWAY = ""  # marks an archived body: an empty one is written as {}
MAX_NAME = 1_024  # bytes of an id, and of the name of a project, session or agent


def encode_row(event: Event) -> tuple[Event, Row]:
    """Return the event as it is stored, and its columns from id to clock; raise InvalidInput for
    one that cannot be stored.
    """
    for name in ("id", "subject", "project", "session", "agent", "origin"):
        size = len((getattr(event, name) or "").encode(errors="replace"))
        if size > MAX_NAME:
            raise InvalidInput(f"{name} may have {MAX_NAME} bytes, not {size}: send a shorter one")
    try:
        # as JSON: to_builtins leaves tuples, which are no JSON, and a tag in one unread
        values = redact.redact_value(msgspec.json.decode(encode(event.body)))
        event = replace(
            event,
            body=msgspec.convert(values, type(event.body)),
            project=redact.redact(event.project) if event.project else None,
            session=redact.redact(event.session) if event.session else None,
            agent=redact.redact(event.agent) if event.agent else None,
        )
        return event, row_columns(event)
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        raise InvalidInput(f"event {event.id} cannot be recorded: {error}") from error


def row_columns(event: Event) -> Row:
    """Return the columns of an event from id to clock."""
    return (
        event.id,
        event.at,
        event.kind,
        event.subject,
        event.project,
        event.session,
        event.agent,
        event.trust,
        encode(event.body),
        event.author,
        event.origin,
        event.clock or None,
    )


def row_hash(row: Row) -> bytes:
    """Return the hash of a row's columns from id to clock.

    A row without author, origin and clock has the hash it had before these columns existed.
    """
    if row[-1] is None and row[-2] is None and row[-3] is None:
        row = row[:BODY]
    return sha256(msgspec.json.encode(row)).digest()


def decode_row(row: Row) -> Event:
    """Return the event of a whole row; raise LogCorrupt if its hash does not match."""
    seq, id_, at, kind, subject, project, session, agent, trust, body = row[: BODY + 1]
    author, origin, clock, digest = row[BODY + 1 :]
    if row_hash(row[1:-1]) != digest:
        raise LogCorrupt(f"event {seq} does not match its hash: restore a backup")
    try:
        value = decode(kind, body)
    except msgspec.MsgspecError as error:
        raise LogCorrupt(f"event {seq} ({kind}) cannot be read: {error}") from error
    return Event(
        id_, at, value, subject, project, session, agent, trust, seq, author, origin, clock or 0
    )


def stamp_rows(
    connection: apsw.Connection,
    rows: Sequence[tuple[Event, Row]],
    origin: str | None,
    wall: int,
) -> Sequence[tuple[Event, Row]]:
    """Return events and their columns, with origin and clock filled in if missing; the caller holds
    the log.
    """
    if all(event.clock for event, _ in rows):
        return rows
    last, heard = _newest_clocks(connection, origin, wall + event_clock.MAX_SKEW)
    stamped = []
    for event, row in rows:
        if event.clock:
            heard = max(heard, event.clock if event.clock <= wall + event_clock.MAX_SKEW else 0)
        else:
            last = event_clock.next_clock(wall, last, heard)
            event = event.with_stamp(event.origin or origin, last)
            row = (*row[:-2], event.origin, event.clock)
        stamped.append((event, row))
    return stamped


def _newest_clocks(connection: apsw.Connection, origin: str | None, most: int) -> tuple[int, int]:
    """Return this home's newest clock, and the greatest clock up to `most` of the events received
    since; earlier ones are less, as that newest clock was set after them.
    """
    newest: list[Row] = connection.execute(
        "SELECT origin, clock FROM events ORDER BY seq DESC LIMIT 1"
    ).fetchall()
    if newest and newest[0][0] == origin and newest[0][1] is not None:
        return newest[0][1], 0
    own: list[Row] = connection.execute(
        "SELECT seq, clock FROM events WHERE origin IS ? AND clock IS NOT NULL "
        "ORDER BY seq DESC LIMIT 1",
        (origin,),
    ).fetchall()
    seq, last = own[0] if own else (0, 0)
    since: list[Row] = connection.execute(
        "SELECT max(clock) FROM events WHERE seq > ? AND clock <= ?", (seq, most)
    ).fetchall()
    return last, since[0][0] or 0


# Rows change for three reasons only: an old receipt's body was archived in a segment, a memory was
# erased, or another home wrote the same event before. All within `log_file.rewrite_transaction`.


class Appended(msgspec.Struct, frozen=True):
    """An event as stored in the log; `is_new` is False if its id was there already."""

    event: Event
    is_new: bool


_INSERT = f"INSERT INTO events ({COLUMNS}) VALUES ({', '.join('?' * len(COLUMNS.split()))})"


def insert_numbered(connection: apsw.Connection, rows: Iterable[Row]) -> None:
    """Write whole rows under their own numbers."""
    connection.executemany(_INSERT, rows)


def insert_row(connection: apsw.Connection, event: Event, row: Row) -> Appended:
    """Write an event with the columns from `encode_row`, unless the same event is already stored
    under its id.

    An archived or erased event counts as the same, and so does one redacted less by an earlier
    version. Raise IdConflict if the stored event differs.
    """
    inserted: list[Row] = connection.execute(
        f"{_INSERT} ON CONFLICT (id) DO NOTHING RETURNING seq",
        (None, *row, row_hash(row)),
    ).fetchall()
    if inserted:
        return Appended(event.with_seq(inserted[0][0]), is_new=True)
    stored: Row = connection.execute(
        f"SELECT {COLUMNS} FROM events WHERE id = ?", (event.id,)
    ).fetchall()[0]
    # as it reads back: JSON knows no tuple and no NaN
    body = decode(event.kind, encode(event.body))
    if stored[BODY] == PUT_AWAY:  # no write waits for a segment: kind, subject and project decide
        there = event.with_seq(stored[0])
        is_same = (stored[3], stored[4], stored[5]) == (event.kind, event.subject, event.project)
    else:
        there = decode_row(stored)
        envelope = (there.kind, there.subject, there.project)
        is_same = envelope == (event.kind, event.subject, event.project) and (
            there.body == body or is_erased(there.body) or redact_event(there).body == body
        )
    if not is_same:
        raise IdConflict(
            f"id {event.id} was already used for something else: send a new id, or none"
        )
    return Appended(there, is_new=False)


def rewrite_rows(
    connection: apsw.Connection,
    bodies: Sequence[tuple[Row, str]],
    adding: Sequence[Segment],
    dropping: Sequence[Segment],
) -> None:
    """Give rows other bodies and change the table of segments; the caller holds the transaction.

    Raise LogBusy if a row has changed since the caller read it.
    """
    for row, body in bodies:
        columns = (*row[1:BODY], body, *row[BODY + 1 : -1])
        mark = row[-1] if body == PUT_AWAY else row_hash(columns)
        changed = connection.execute(
            "UPDATE events SET body = ?, sha256 = ? WHERE seq = ? AND sha256 = ? AND body = ? "
            "RETURNING seq",
            (body, mark, row[0], row[-1], row[BODY]),
        ).fetchall()
        if not changed:
            raise LogBusy(f"event {row[0]} was rewritten by another process: try again")
    for segment in dropping:
        connection.execute("DELETE FROM segments WHERE name = ?", (segment.name,))
    for segment in adding:
        connection.execute(
            "INSERT INTO segments (name, first, last, events, bytes, sha256) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            (
                segment.name,
                segment.first,
                segment.last,
                segment.events,
                segment.bytes,
                segment.sha256,
            ),
        )


def replace_rows(connection: apsw.Connection, rows: Sequence[tuple[Row, Row]]) -> None:
    """Give rows the columns, from id to clock, that another home wrote under the same ids before;
    the caller holds the transaction.

    Raise LogBusy if a row has changed since the caller read it.
    """
    names = COLUMNS.split(", ")[2:]  # all but seq and id
    for old, row in rows:
        changed = connection.execute(
            f"UPDATE events SET {', '.join(f'{name} = ?' for name in names)} "
            "WHERE seq = ? AND sha256 = ? RETURNING seq",
            (*row[1:], row_hash(row), old[0], old[-1]),
        ).fetchall()
        if not changed:
            raise LogBusy(f"event {old[0]} was rewritten by another process: try again")


# The log keeps secrets that an earlier version did not recognise, until `mnemolog erase` removes
# them. Snapshots and output are redacted again by today's patterns.

T = TypeVar("T")


def redact_event(event: Event) -> Event:
    """Return an event without the secrets in it: itself, if there are none.

    The result is not validated: a tag may grow beyond the limit for tags from outside.
    """
    body = _redact_fields(event.body)
    names = [_redact_fields(name) for name in (event.project, event.session, event.agent)]
    if body is event.body and names == [event.project, event.session, event.agent]:
        return event
    return replace(event, body=body, project=names[0], session=names[1], agent=names[2])


def _redact_fields(value: T) -> T:
    redacted: object = value
    if isinstance(value, str):
        redacted = redact.redact(value)
    elif isinstance(value, tuple):
        redacted = tuple(map(_redact_fields, value))
    elif isinstance(value, dict):
        redacted = redact.redact_value(value)
    elif isinstance(value, msgspec.Struct):
        old = {name: getattr(value, name) for name in value.__struct_fields__}
        new = {name: _redact_fields(field) for name, field in old.items()}
        changed = {name: field for name, field in new.items() if field is not old[name]}
        redacted = msgspec.structs.replace(value, **changed) if changed else value
    return value if redacted == value else cast(T, redacted)
