"""
Integrity: whether the log is unaltered, its readable events, and its stated gaps.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from store.home.errors import LogCorrupt, LogError
from store.log import log_file, log_head, segments
from store.log.event_log import EventLog
from store.log.events import Event
from store.log.log_file import MOST_SEQ, Row
from store.log.log_head import Gap, OtherLog
from store.log.rows import COLUMNS, PUT_AWAY, decode_row

_BATCH = 2_000


def problems(log: EventLog) -> list[str]:
    """Return the problems of a log, in words; empty if every check passes.

    Checks SQLite's own structures, every event's hash, the numbering (except for stated gaps), the
    segments and the head beside the log.
    """
    head = log_head.read(log.path)  # before the log is queried: another process may append
    texts: list[str] = []
    try:
        texts += (f"SQLite: {row[0]}" for row in _sqlite_check(log) if row[0] != "ok")
        texts += _segment_problems(log)
        # archived events that cannot be read were reported; the rest is checked all the same
        texts += _holes((event.seq for event in log.read(cold=not texts)), gaps(log))
        if gap := log_head.compare(head, log.sql):
            texts.append(str(gap))
    except LogError as error:
        texts.append(str(error))
    return texts


def damage(log: EventLog) -> tuple[str, bool]:
    """Return the first problem of the file itself, and whether only its indexes are affected; "" if
    there is none. Neither segments nor head are checked.
    """
    try:
        quick = [row[0] for row in log.sql("PRAGMA quick_check") if row[0] != "ok"]
        if wrong := quick or _untrue(log, gaps(log)):
            return wrong[0], False
        return next((row[0] for row in _sqlite_check(log) if row[0] != "ok"), ""), True
    except LogCorrupt as error:
        return str(error), False


def head_gap(log: EventLog) -> Gap | OtherLog | None:
    """Return the events that are gone according to the head beside the log; None if all are there.

    The next append states them. It costs microseconds.
    """
    if log.until is not None:
        return None  # the head is that of the whole log
    return log_head.compare(log_head.read(log.path), log.sql)


def gaps(log: EventLog, after: int = 0, until: int = MOST_SEQ) -> list[tuple[int, int]]:
    """Return the gaps, the first and last number of each, that the log states at a seq above
    `after` and up to `until`. Raise LogCorrupt if that cannot be read.
    """
    return log_head.read_gaps(log.sql, after, until)


def event_count(log: EventLog) -> int:
    """Return the number of events up to the head: all numbers except the stated gaps.

    Raise LogCorrupt if these cannot be read.
    """
    return log.head() - sum(last - first + 1 for first, last in gaps(log))


def reindex(log: EventLog) -> None:
    """Rebuild the indexes from the table."""
    with log.writer() as connection:
        connection.execute("REINDEX")


def state_gap(log: EventLog, gap: Gap, at: int) -> None:
    """State in the log that events are gone; numbering continues after them."""
    with log.writer() as connection, log_file.immediate(connection):
        log_head.state_gap(connection, gap, at)


def make_head(log: EventLog) -> None:
    """Write the head beside the log anew, from the log."""
    log_head.make(log.path, log.sql)


def _untrue(log: EventLog, stated: Sequence[tuple[int, int]]) -> list[str]:
    """Return the problems of altered or missing events, archived ones included."""
    events, wrong = readable_events(log, 0)
    away, wrong_away = _check_archived(log)
    numbers = sorted([*(event.seq for event in events), *away])
    return wrong or wrong_away or _holes(numbers, stated)


def _check_archived(log: EventLog) -> tuple[list[int], list[str]]:
    """Return the numbers of the archived events, and the problems of their rows.

    An unreadable segment is a problem of its own file: its rows are assumed correct.
    """
    sql = f"SELECT {COLUMNS} FROM events WHERE body = ? AND seq > ? ORDER BY seq LIMIT ?"
    numbers: list[int] = []
    wrong: list[str] = []
    while rows := log.sql(sql, (PUT_AWAY, numbers[-1] if numbers else 0, _BATCH)):
        numbers += (row[0] for row in rows)
        readable: list[Row] = []
        with suppress(LogCorrupt):
            readable = log.whole(rows)
        for row in readable:
            try:
                decode_row(row)
            except LogCorrupt as error:
                wrong.append(str(error))
    return numbers, wrong


def readable_events(log: EventLog, after: int) -> tuple[list[Event], list[str]]:
    """Return the unarchived events after a seq whose hashes match, and the problems of others.

    For a log that shows its past, later erasures come at the end.
    """
    events: list[Event] = []
    wrong: dict[str, None] = {}
    for row in _readable_rows(log, after, wrong):
        try:
            events.append(decode_row(row))
        except LogCorrupt as error:
            wrong[str(error)] = None
    return events + log.later_erasures(), list(wrong)


def _readable_rows(log: EventLog, after: int, wrong: dict[str, None]) -> Iterator[Row]:
    """Yield the rows with bodies after a seq; unreadable pages are skipped.

    The steps over them double, so that a log that is all damage is not tried number by number.
    """
    sql = f"SELECT {COLUMNS} FROM events WHERE seq > ? AND body != ? ORDER BY seq LIMIT ?"
    most, step = _BATCH, 1
    while True:
        try:
            rows = log.sql(sql, (after, PUT_AWAY, most))
        except LogCorrupt as error:
            wrong[str(error)] = None
            if most > 1:  # those before the damage one by one
                most = max(1, most // 8)
                continue
            after, step = after + step, step * 2
            if after > MOST_SEQ:
                return
            continue
        if not rows:
            return
        yield from rows
        after, step, most = rows[-1][0], 1, min(_BATCH, most * 2)


def _sqlite_check(log: EventLog) -> list[Row]:
    # quick_check would not compare the indexes with the table
    return log.sql("PRAGMA integrity_check")


def _holes(numbers: Iterable[int], stated: Sequence[tuple[int, int]]) -> list[str]:
    missing: list[str] = []
    ends = dict(stated)
    expected = 1
    for seq in numbers:
        while expected < seq and expected in ends:
            expected = ends[expected] + 1
        if expected < seq:
            are = "is" if expected == seq - 1 else "are"
            missing.append(f"{log_head.numbers([(expected, seq - 1)])} {are} missing")
        expected = seq + 1
    return missing


def _segment_problems(log: EventLog) -> Iterator[str]:
    listed, folder = log.segments(), segments.folder_of(log.path)
    for segment in listed:
        if problem := segments.problem(folder, segment):
            yield problem
    named = sum(segment.events for segment in listed)
    away = log.sql("SELECT count(*) FROM events WHERE body = ?", (PUT_AWAY,))[0][0]
    if named != away:
        yield f"{away} events were put away, the segments are to hold {named}"
