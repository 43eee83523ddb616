"""
Copies: the rows of a log as stored, read to be written elsewhere, and written into a new log.

With `origins`, ids of homes, only rows written there and useful to the same person's other homes
are read.
"""

from collections.abc import Iterator, Sequence

import msgspec

from store.home.projects import SHARED
from store.log import log_file, vocabulary
from store.log.event_log import EventLog
from store.log.log_file import Row
from store.log.merging import LOCAL
from store.log.rows import decode_row, insert_numbered

_MOST_ROWS = 20_000
# notes shared in a checked-out tree are read there by each home
_TRAVELS = (
    "(origin IS NULL OR origin IN (SELECT value FROM json_each(?))) "
    "AND instr(coalesce(project, ''), ?) = 0 "
    f"AND kind NOT IN ({', '.join(map(repr, sorted(LOCAL)))})"
)


def rows_between(
    log: EventLog, after: int, until: int, most_bytes: int, origins: Sequence[str] = ()
) -> Iterator[Sequence[Row]]:
    """Yield the whole rows with `after` < seq <= `until`, in order, at most so many bytes of bodies
    at a time, or a single row.

    Raise LogCorrupt if a segment with some of them is missing.
    """
    where, values = _chosen(origins)
    while after < until:
        size, last = 0, after
        for seq, length in log.sql(
            f"SELECT seq, octet_length(body) FROM events WHERE seq > ? AND seq <= ? AND {where} "
            "ORDER BY seq LIMIT ?",
            (after, until, *values, _MOST_ROWS),
        ):
            size += length
            if last > after and size > most_bytes:
                break
            last = seq
        if last == after:  # the rest is lost, as a later event states
            return
        yield log.whole(
            log.select_rows(f"seq > ? AND seq <= ? AND {where}", (after, last, *values))
        )
        after = last


def hashes_between(
    log: EventLog, first: int, last: int, origins: Sequence[str] = ()
) -> list[tuple[int, bytes]]:
    """Return seq and hash of the rows from `first` to `last`, in order; no body is read."""
    where, values = _chosen(origins)
    sql = f"SELECT seq, sha256 FROM events WHERE seq >= ? AND seq <= ? AND {where} ORDER BY seq"
    return [(seq, digest) for seq, digest in log.sql(sql, (first, last, *values))]


def _chosen(origins: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    if not origins:
        return "1", ()
    return _TRAVELS, (msgspec.json.encode(list(origins)).decode(), SHARED)


def id_at(log: EventLog, seq: int) -> str | None:
    """Return the id of an event by its seq; None if there is none."""
    rows = log.sql("SELECT id FROM events WHERE seq = ?", (seq,))
    return rows[0][0] if rows else None


def count_after(log: EventLog, seq: int, origins: Sequence[str] = ()) -> tuple[int, int | None]:
    """Return the number of events after a seq, and the time of the first of them (microseconds UTC;
    None if there is none).
    """
    where, values = _chosen(origins)
    sql = f"SELECT count(*), min(coalesce(clock, at)) FROM events WHERE seq > ? AND {where}"
    count, since = log.sql(sql, (seq, *values))[0]
    return int(count), since


def read_origins(log: EventLog) -> frozenset[str]:
    """Return the ids of the homes whose events a log has; reads every row."""
    rows = log.sql("SELECT DISTINCT origin FROM events WHERE origin IS NOT NULL")
    return frozenset(row[0] for row in rows)


def append_rows(log: EventLog, rows: Sequence[Row]) -> None:
    """Write whole rows under their own numbers into a log that no other process has open; raise
    LogCorrupt if one does not match its hash.
    """
    events = [decode_row(row) for row in rows]
    newest = log.sql("SELECT origin FROM events ORDER BY seq DESC LIMIT 1")
    origins = {event.origin for event in events} | {origin for (origin,) in newest}
    merged = {vocabulary.MERGED: 1} if len(origins - {None}) > 1 else {}
    with log.writer() as connection, log_file.immediate(connection):
        insert_numbered(connection, rows)
        log_file.note_vocabulary(connection, log.path, vocabulary.needed(events) | merged)
