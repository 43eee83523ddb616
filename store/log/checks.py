"""
Checks: conditions on the log when events are appended to it, tested in their transaction.

No other writer can come between a check and the events it admits, so of two that rest on the same
state one is refused. The caller passes the checks it needs; `refuse_erased` runs for every append.
"""

from collections.abc import Callable, Collection, Iterator, Sequence

import apsw
import msgspec

from store.home.errors import ChangedSince, IdempotencyMismatch, NotFound
from store.log.event_kinds import (
    Body,
    Erased,
    Judged,
    Linked,
    Planned,
    Proposed,
    Recorded,
    Superseded,
)
from store.log.events import RECEIPTS, Event, decode
from store.log.log_file import Row

Check = Callable[[apsw.Connection], None]  # raises one of our errors

# showing or rating a memory does not change it; sorted, as the names are part of a statement
_NO_CHANGES = sorted(RECEIPTS | {"rated"})
CHANGES = f"subject = ? AND kind NOT IN ({', '.join(map(repr, _NO_CHANGES))})"


def require_unchanged(subject: str, seen: Collection[int], event: str | None = None) -> Check:
    """Admit events while the newest change of a memory is one of those `seen`, by their seq.

    If the `event` with that id is already in the log, it is always admitted: it was carried out.
    Otherwise raise ChangedSince.
    """

    def check(connection: apsw.Connection) -> None:
        if event is not None and _has(connection, "id = ?", event):
            return
        rows = connection.execute(f"SELECT max(seq) FROM events WHERE {CHANGES}", (subject,))
        newest = next(iter(rows))[0]
        if newest not in seen:
            raise ChangedSince(f"memory {subject} has changed: read it again")

    return check


def alone(id_: str, beginning: str) -> Check:
    """Admit events if no other id than `id_` begins with `beginning`, else raise
    IdempotencyMismatch.
    """

    def check(connection: apsw.Connection) -> None:
        if _has(connection, "id >= ? AND id < ? AND id != ?", beginning, beginning + "~", id_):
            raise IdempotencyMismatch(
                "this Idempotency-Key was used for another request: use a new one for each"
            )

    return check


def refuse_erased(connection: apsw.Connection, events: Sequence[Event]) -> None:
    """Raise NotFound if a new event is about an erased memory.

    It accepts no more events, not even from callers that read it before its erasure.
    """
    ids = {id_ for event in events for id_ in _reference_ids(event.id, event.subject, event.body)}
    if not ids:
        return
    # only an erased memory has no text
    erased: list[Row] = connection.execute(
        "SELECT id FROM events WHERE id IN (SELECT value FROM json_each(?)) "
        "AND +kind = 'recorded' AND json_extract(body, '$.content') = '' LIMIT 1",
        (msgspec.json.encode(sorted(ids)).decode(),),
    ).fetchall()
    if erased:
        raise NotFound(erasure_message(erased[0][0]))


def erasure_message(id_: str) -> str:
    """Return the message of the error for an erased memory."""
    return f"memory {id_!r} was erased: nothing brings it back"


def _reference_ids(id_: str, subject: str, body: Body) -> Iterator[str]:
    """Yield the ids of the memories an event is about, except its own."""
    if isinstance(body, Erased):
        return
    if subject != id_:
        yield subject
    match body:
        case Recorded(made=made, source_ids=ids) if made is not None:
            yield from ids
        case Superseded(by=by):
            yield by
        case Linked(target=target):
            yield target
        case Proposed(source_ids=ids):
            yield from ids
        case Judged(evidence=evidence):
            yield from evidence
        case Planned(steps=steps):
            for step in steps:
                would = decode(step.event, msgspec.json.encode(step.body).decode())
                yield from _reference_ids(id_, step.subject, would)


def _has(connection: apsw.Connection, where: str, *values: str) -> bool:
    return bool(
        connection.execute(f"SELECT 1 FROM events WHERE {where} LIMIT 1", values).fetchall()
    )
