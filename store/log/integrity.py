"""
Sound: what of a log is as it was written, and what is not.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from store.home.errors import LogCorrupt, LogError
from store.log import log_head
from store.log import segments as archive_segments
from store.log.events import Event
from store.log.log_file import MOST_SEQ, Ask, Row
from store.log.rows import COLUMNS, PUT_AWAY, decode_row
from store.log.segments import Segment

_BATCH = 2_000

Whole = Callable[[Sequence[Row]], list[Row]]  # gives rows the bodies that were put away


def problems(
    ask: Ask,
    read: Callable[..., Iterator[Event]],
    segments: Callable[[], Sequence[Segment]],
    path: Path,
) -> list[str]:
    """Return what is wrong with a log, in words: `EventLog.integrity`."""
    told = log_head.read(path)  # before the log is asked: another process may append
    found: list[str] = []
    try:
        found += (f"SQLite: {row[0]}" for row in _checked(ask) if row[0] != "ok")
        found += _damaged_segments(ask, segments(), archive_segments.folder_of(path))
        # what was put away and cannot be read was named; the rest is looked at all the same
        found += _holes(read(cold=not found), log_head.stated(ask))
        if gone := log_head.compare(told, ask):
            found.append(str(gone))
    except LogError as error:
        found.append(str(error))
    return found


def damage(ask: Ask, whole: Whole) -> tuple[str, bool]:
    """Return what is wrong with a log's own file, and whether only its indexes are."""
    try:
        quick = [row[0] for row in ask("PRAGMA quick_check", ()) if row[0] != "ok"]
        stated = log_head.stated(ask)
        if wrong := quick or _untrue(ask, whole, stated):
            return wrong[0], False
        return next((row[0] for row in _checked(ask) if row[0] != "ok"), ""), True
    except LogCorrupt as error:
        return str(error), False


def _untrue(ask: Ask, whole: Whole, stated: Sequence[tuple[int, int]]) -> list[str]:
    """Return which events are not as they were written, those that were put away among them."""
    found, wrong = events(ask, 0)
    away, wrong_away = _put_away(ask, whole)
    numbers = sorted([*(event.seq for event in found), *away])
    return wrong or wrong_away or _missing(numbers, stated)


def _put_away(ask: Ask, whole: Whole) -> tuple[list[int], list[str]]:
    """Return the numbers of what was put away, and what is wrong with their rows.

    A segment that cannot be read is not the log's own file, and its rows are taken for true.
    """
    sql = f"SELECT {COLUMNS} FROM events WHERE body = ? AND seq > ? ORDER BY seq LIMIT ?"
    numbers: list[int] = []
    wrong: list[str] = []
    while rows := ask(sql, (PUT_AWAY, numbers[-1] if numbers else 0, _BATCH)):
        numbers += (row[0] for row in rows)
        for row in _readable(rows, whole):
            try:
                decode_row(row)
            except LogCorrupt as error:
                wrong.append(str(error))
    return numbers, wrong


def _readable(rows: Sequence[Row], whole: Whole) -> list[Row]:
    with suppress(LogCorrupt):
        return whole(rows)
    return []


def events(ask: Ask, after: int) -> tuple[list[Event], list[str]]:
    """Return the whole events after a seq whose hashes are true, and what is wrong with others."""
    found: list[Event] = []
    wrong: dict[str, None] = {}
    for row in _reached(ask, after, wrong):
        try:
            found.append(decode_row(row))
        except LogCorrupt as error:
            wrong[str(error)] = None
    return found, list(wrong)


def _reached(ask: Ask, after: int, wrong: dict[str, None]) -> Iterator[Row]:
    """Yield the rows with bodies after a seq; a page that cannot be read is left behind.

    Ever longer steps are taken there: of a log that is all damage nobody waits for each number.
    """
    sql = f"SELECT {COLUMNS} FROM events WHERE seq > ? AND body != ? ORDER BY seq LIMIT ?"
    most, step = _BATCH, 1
    while True:
        try:
            rows = ask(sql, (after, PUT_AWAY, most))
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


def _checked(ask: Ask) -> list[Row]:
    # quick_check would not hold the indexes to the table: they answer for it
    return ask("PRAGMA integrity_check", ())


def _holes(numbered: Iterator[Event], stated: Sequence[tuple[int, int]]) -> list[str]:
    """Return which numbers hold no event though none of the gaps that are stated says so."""
    return _missing((event.seq for event in numbered), stated)


def _missing(numbers: Iterable[int], stated: Sequence[tuple[int, int]]) -> list[str]:
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


def _damaged_segments(ask: Ask, segments: Sequence[Segment], folder: Path) -> Iterator[str]:
    for one in segments:
        if found := archive_segments.problem(folder, one):
            yield found
    named = sum(one.events for one in segments)
    away = ask("SELECT count(*) FROM events WHERE body = ?", (PUT_AWAY,))[0][0]
    if named != away:
        yield f"{away} events were put away, the segments are to hold {named}"
