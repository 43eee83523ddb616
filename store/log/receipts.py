"""
Receipts of recalls, page by page, the newest first: what was asked, and what came back.

A page looks at LOOKED_AT receipts at most and says where it stopped, so that a filter few of them
pass costs no more than one that all do. Bodies are read of what is returned, and where a filter
asks for what they say; of those that were put away one part of a segment at a time.
"""

from collections.abc import Iterable, Sequence
from itertools import islice

import msgspec

from store.home.errors import NotFound
from store.log.event_kinds import Rated, Recalled
from store.log.event_log import EventLog
from store.log.events import Event
from store.log.log_file import Row
from store.log.rows import BODY, COLUMNS, decode_row, redact_event
from store.redaction import redact
from store.text.text_features import MAY_RULE

LOOKED_AT = 8_000  # receipts of a page
_STEP = 2_000  # of a query: a group of a segment
_LAST = 2**62
_NEWEST_FIRST = "ORDER BY at DESC, seq DESC LIMIT ?"

Place = tuple[float, int]  # when a receipt was written, and its seq


class Wanted(msgspec.Struct, frozen=True):
    """Which receipts; None asks nothing. Moments are microseconds UTC, `until` exclusive.

    `memories` asks for those that brought one of some memories; `silent` for those that brought
    nothing (or, False, for those that brought something), `near` for those that nearly brought it.
    """

    since: int | None = None
    until: int | None = None
    project: str | None = None
    session: str | None = None
    memories: tuple[str, ...] = ()
    silent: bool | None = None
    near: bool = False


class Page(msgspec.Struct, frozen=True):
    """The receipts found; `last` is where to go on, None at the end. `looked_at` were read."""

    receipts: tuple[Event, ...]
    last: Place | None
    looked_at: int


def page(
    log: EventLog, wanted: Wanted, limit: int, after: Place | None = None, most: int = LOOKED_AT
) -> Page:
    """Return up to `limit` receipts, the newest first, from after a place on.

    Fewer where the `most` that are looked at held no more, with a place to go on from. Raise
    LogCorrupt where one that was put away cannot be read.
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
    """Return the places of the next receipts, by an index alone unless a session is asked for."""
    where, values = _base(wanted)
    rows = log.sql(
        f"SELECT at, seq FROM events WHERE {where} AND (at, seq) < (?, ?) {_NEWEST_FIRST}",
        (*values, *after, count),
    )
    return [(at, seq) for at, seq in rows]


def _rows(log: EventLog, wanted: Wanted, after: Place, last: Place, limit: int) -> list[Row]:
    """Return the whole rows between two places, the last one too, that pass."""
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
    """Return the texts of which a body must hold one, or must not: bodies are JSON of one form."""
    conditions: list[tuple[list[str], bool]] = []
    if wanted.memories:
        ids = (msgspec.json.encode(memory).decode() for memory in wanted.memories)
        conditions.append(([f'"id":{id_},"score"' for id_ in ids], True))
    if wanted.silent is not None:
        conditions.append((['"hits":[]'], wanted.silent))
    if wanted.near:  # a quote within a text is written with a backslash before it
        conditions.append((['"near":'], True))
    return conditions


# Unrated receipts: recalls that brought memories and were neither rated nor judged.

SOON_US = 86_400 * 1_000_000  # a rating of a memory speaks of what brought it within a day
DAY_US = 86_400 * 1_000_000


def pending(log: EventLog, since: int, until: int) -> list[Event]:
    """Return the receipts that wait for a word, with `since` <= at < `until`, the oldest first.

    One is answered by a rating of its own or, within a day, of what it brought, and by a judgment;
    a judgment that was undone counts as said: a person did not want it.
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
    """Return whether an event may say how good a memory is: a tool's or the web's may not."""
    return event.trust in MAY_RULE


def _is_rated(recall: Event, body: Recalled, ratings: Sequence[Event]) -> bool:
    brought = {hit.id for hit in body.hits}
    return any(
        event.subject == recall.id
        or (event.subject in brought and recall.at <= event.at <= recall.at + SOON_US)
        for event in ratings
        if isinstance(event.body, Rated) and may_rate(event)
    )
