"""
Checks: what must hold of the log when events are appended to it, asked in their transaction.

Nobody else can write between a check and the events it lets in, so of two that rest on the same
state one is refused.
"""

from collections.abc import Callable, Collection

import apsw

from store.errors import ChangedSince, IdempotencyMismatch
from store.events import RECEIPTS

Check = Callable[[apsw.Connection], None]  # raises one of our errors

# a memory is what it was when it was shown or rated; in an order, for it is part of a statement
_NO_CHANGES = sorted(RECEIPTS | {"rated"})
CHANGES = f"subject = ? AND kind NOT IN ({', '.join(map(repr, _NO_CHANGES))})"


def unchanged(subject: str, seen: Collection[int], event: str | None = None) -> Check:
    """Let events in while the newest change of a memory is one of those `seen`, by their seq.

    The `event` of that id is let in always where it is in the log already: it was carried out.
    Otherwise raise ChangedSince.
    """

    def check(connection: apsw.Connection) -> None:
        if event is not None and _has(connection, "id = ?", event):
            return
        found = connection.execute(f"SELECT max(seq) FROM events WHERE {CHANGES}", (subject,))
        newest = next(iter(found))[0]
        if newest not in seen:
            raise ChangedSince(f"memory {subject} was changed since: read it again")

    return check


def alone(id_: str, beginning: str) -> Check:
    """Let events in where no other id but `id_` begins so, else raise IdempotencyMismatch."""

    def check(connection: apsw.Connection) -> None:
        if _has(connection, "id >= ? AND id < ? AND id != ?", beginning, beginning + "~", id_):
            raise IdempotencyMismatch(
                "this Idempotency-Key came with another request before: use a new one for each"
            )

    return check


def _has(connection: apsw.Connection, where: str, *values: str) -> bool:
    return bool(
        connection.execute(f"SELECT 1 FROM events WHERE {where} LIMIT 1", values).fetchall()
    )
