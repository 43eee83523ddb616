"""
Writes: one event's row, and the one way in which rows that were written change.

Rows change for two reasons only: an old receipt's body was put away in a segment, or a memory was
erased. Both within `log_file.rewriting`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import apsw

from store.cold.segment import Segment
from store.events import Event, decode, encode, is_erased
from store.home.errors import IdConflict, LogBusy
from store.logfile.file import Row
from store.logfile.rows import BODY, COLUMNS, PUT_AWAY, event_of, hashed
from store.redaction.event import redacted


@dataclass(frozen=True, slots=True)
class Appended:
    """An event as it stands in the log; `is_new` is False where its id was there already."""

    event: Event
    is_new: bool


def insert(connection: apsw.Connection, event: Event, row: Row) -> Appended:
    """Write one event's row; one of its id that says the same is not written again.

    What was put away or erased counts as the same, and so does what an earlier version redacted
    less of. Raise IdConflict where it is something else.
    """
    inserted: list[Row] = connection.execute(
        "INSERT INTO events (id, at, kind, subject, project, session, agent, trust, body, sha256) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING RETURNING seq",
        row,
    ).fetchall()
    if inserted:
        return Appended(event.numbered(inserted[0][0]), is_new=True)
    found: Row = connection.execute(
        f"SELECT {COLUMNS} FROM events WHERE id = ?", (event.id,)
    ).fetchall()[0]
    # as it reads back: JSON knows no tuple and no NaN
    body = decode(event.kind, encode(event.body))
    if found[BODY] == PUT_AWAY:  # no write waits for a segment: kind, subject and project decide
        there = event.numbered(found[0])
        is_same = (found[3], found[4], found[5]) == (event.kind, event.subject, event.project)
    else:
        there = event_of(found)
        known = (there.kind, there.subject, there.project)
        is_same = known == (event.kind, event.subject, event.project)
        is_same = is_same and (
            there.body == body or is_erased(there.body) or redacted(there).body == body
        )
    if not is_same:
        raise IdConflict(
            f"id {event.id} was used before for something else: send a new id, or none"
        )
    return Appended(there, is_new=False)


def rewrite(
    connection: apsw.Connection,
    bodies: Sequence[tuple[Row, str]],
    adding: Sequence[Segment],
    dropping: Sequence[Segment],
) -> None:
    """Give rows other bodies and change the table of segments; the caller holds `rewriting`.

    Raise LogBusy where a row is not any more what the caller read.
    """
    for row, body in bodies:
        mark = row[-1] if body == PUT_AWAY else hashed((*row[1:BODY], body))
        changed = connection.execute(
            "UPDATE events SET body = ?, sha256 = ? WHERE seq = ? AND sha256 = ? AND body = ? "
            "RETURNING seq",
            (body, mark, row[0], row[-1], row[BODY]),
        ).fetchall()
        if not changed:
            raise LogBusy(f"event {row[0]} was rewritten by another process: try again")
    for one in dropping:
        connection.execute("DELETE FROM segments WHERE name = ?", (one.name,))
    for one in adding:
        connection.execute(
            "INSERT INTO segments (name, first, last, events, bytes, sha256) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            (one.name, one.first, one.last, one.events, one.bytes, one.sha256),
        )
