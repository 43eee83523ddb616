"""
Receipts of recalls, page by page, newest first: the queries and their results.

A page reads at most LOOKED_AT receipts and returns where it stopped, so a filter that few of them
pass costs no more than one that all do. Bodies are read only for the returned receipts, and for
filters on their contents; those of archived ones a part of a segment at a time.
"""

from collections.abc import Iterable, Sequence
from itertools import islice

import msgspec

from store.home.errors import NotFound
from store.home.instants import DAY
from store.log.event_kinds import Rated, Recalled
from store.log.event_log import EventLog
from store.log.events import Event
from store.log.log_file import Row
from store.log.rows import BODY, COLUMNS, decode_row, redact_event
from store.redaction import redact
from store.text.text_features import MAY_RULE

LOOKED_AT = 8_000  # receipts of a page
_STEP = 2_000  # receipts of a query: a group of a segment
_LAST = 2**62
_NEWEST_FIRST = "ORDER BY at DESC, seq DESC LIMIT ?"

Place = tuple[float, int]  # the time of a receipt, and its seq


class Wanted(msgspec.Struct, frozen=True):
    """A filter on receipts; None means any. Times are microseconds UTC, `until` exclusive.

    `memories` selects receipts with any of these memories among their hits; `silent` those without
    hits (or, False, those with some), `near` those with a near miss.
    """

    since: int | None = None
    until: int | None = None
    project: str | None = None
    session: str | None = None
    memories: tuple[str, ...] = ()
    silent: bool | None = None
    near: bool = False


class Page(msgspec.Struct, frozen=True):
    """The receipts found; `last` is where to continue, None at the end. `looked_at` were read."""

    receipts: tuple[Event, ...]
    last: Place | None
    looked_at: int


def page(
    log: EventLog, wanted: Wanted, limit: int, after: Place | None = None, most: int = LOOKED_AT
) -> Page:
    """Return up to `limit` receipts, newest first, starting after a place.

    Fewer if the `most` receipts read contained no more, with a place to continue from. Raise
    LogCorrupt if an archived one cannot be read.
    """
    receipts: list[Row] = []
    place, looked_at = after or (_LAST, _LAST), 0
    while looked_at < most:
        step = min(_STEP, most - looked_at)
        keys = _keys(log, wanted, place, step)
        rows = _rows(log, wanted, place, keys[-1], limit + 1 - len(receipts)) if keys else []
        receipts += rows
        if len(receipts) > limit:
            last = receipts[limit - 1]
            place = (last[2], last[0])
            looked_at += sum(key >= place for key in keys)
            return Page(_events(receipts[:limit]), place, looked_at)
        looked_at += len(keys)
        if len(keys) < step:
            return Page(_events(receipts), None, looked_at)
        place = keys[-1]
    return Page(_events(receipts), place, looked_at)


def _events(rows: Iterable[Row]) -> tuple[Event, ...]:
    return tuple(redact_event(decode_row(row)) for row in rows)


def find(log: EventLog, id_: str) -> Event:
    """Return one receipt; raise NotFound."""
    events = log.events_for(id_)
    if not events or not isinstance(events[0].body, Recalled):
        raise NotFound(f"no recall {id_!r}")
    return events[0]


def _keys(log: EventLog, wanted: Wanted, after: Place, count: int) -> Sequence[Place]:
    """Return the places of the next receipts, by an index alone unless a session is given."""
    where, values = _base(wanted)
    rows = log.sql(
        f"SELECT at, seq FROM events WHERE {where} AND (at, seq) < (?, ?) {_NEWEST_FIRST}",
        (*values, *after, count),
    )
    return [(at, seq) for at, seq in rows]


def _rows(log: EventLog, wanted: Wanted, after: Place, last: Place, limit: int) -> list[Row]:
    """Return the whole matching rows between two places, the last one included."""
    where, values = _base(wanted)
    where += " AND (at, seq) < (?, ?) AND (at, seq) >= (?, ?)"
    values += (*after, *last)
    if wanted.project is not None:
        where, values = f"{where} AND project = ?", (*values, redact.redact(wanted.project))
    conditions = _text_conditions(wanted)
    if not conditions:
        return _newest_rows(log, where, values, limit)
    for texts, is_in in conditions:
        any_of = " OR ".join(["instr(body, ?) > 0"] * len(texts))
        where += f" AND (body = '' OR ({any_of}) = {is_in:d})"
        values = (*values, *texts)
    rows = _newest_rows(log, where, values, _STEP)
    passed = (
        row
        for row in rows
        if all(any(text in row[BODY] for text in texts) == is_in for texts, is_in in conditions)
    )
    return list(islice(passed, limit))


def _newest_rows(log: EventLog, where: str, values: tuple[object, ...], limit: int) -> list[Row]:
    """Return whole rows, newest first."""
    query = f"SELECT {COLUMNS} FROM events WHERE {where} {_NEWEST_FIRST}"
    return log.whole(log.sql(query, (*values, limit)))


def _base(wanted: Wanted) -> tuple[str, tuple[object, ...]]:
    """Return the condition that an index answers."""
    times = (wanted.since or 0, _LAST if wanted.until is None else wanted.until)
    if wanted.session is None:
        return "kind = 'recalled' AND at >= ? AND at < ?", times
    # the plus keeps SQLite from the index of kinds: https://www.sqlite.org/optoverview.html
    return (
        "session = ? AND +kind = 'recalled' AND at >= ? AND at < ?",
        (redact.redact(wanted.session), *times),
    )


def _text_conditions(wanted: Wanted) -> list[tuple[list[str], bool]]:
    """Return texts of which a body must contain one, or must not: bodies are JSON of one form."""
    conditions: list[tuple[list[str], bool]] = []
    if wanted.memories:
        ids = (msgspec.json.encode(memory).decode() for memory in wanted.memories)
        conditions.append(([f'"id":{id_},"score"' for id_ in ids], True))
    if wanted.silent is not None:
        conditions.append((['"hits":[]'], wanted.silent))
    if wanted.near:  # a quote within a text is escaped with a backslash
        conditions.append((['"near":'], True))
    return conditions


# Unrated receipts: recalls with hits that were neither rated nor judged.

SOON_US = DAY  # a memory's rating applies to recalls that returned it within a day


def pending(log: EventLog, since: int, until: int) -> list[Event]:
    """Return the receipts that await a rating, with `since` <= at < `until`, oldest first.

    A receipt is rated directly, by a rating of one of its hits within a day, or by a judgment; an
    undone judgment still counts: a person did not want it.
    """
    events = log.events_between(("recalled",), since, until)
    judged = {event.subject for event in log.job_events(("judged",))}
    rated = log.events_between(("rated",), since, until + SOON_US)
    return [
        event
        for event in events
        if isinstance(event.body, Recalled)
        and event.body.hits
        and event.id not in judged
        and not _is_rated(event, event.body, rated)
    ]


def may_rate(event: Event) -> bool:
    """Return True if an event may rate a memory: events of a tool or the web may not."""
    return event.trust in MAY_RULE


def _is_rated(recall: Event, body: Recalled, ratings: Sequence[Event]) -> bool:
    brought = {hit.id for hit in body.hits}
    return any(
        event.subject == recall.id
        or (event.subject in brought and recall.at <= event.at <= recall.at + SOON_US)
        for event in ratings
        if isinstance(event.body, Rated) and may_rate(event)
    )
