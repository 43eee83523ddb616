"""
power_loss_log: a log that grows by some hundred events, and its required content after a power cut.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from functools import cache
from itertools import accumulate
from pathlib import Path
from random import Random

from torture.work import Acknowledge

from store.home import tenant as tenants
from store.home.errors import MnemologError
from store.log import integrity
from store.log.event_kinds import Recorded
from store.log.event_log import EventLog
from store.log.events import Event
from store.log.log_file import Row
from store.log.rows import BODY, encode_row

NOW = 1_790_000_000_000_000  # microseconds UTC
_LONG = 6_000  # characters: some events take more than one page


@cache
def batches(events: int) -> Sequence[Sequence[Event]]:
    """Return `events` events in batches of one or several, the same every time."""
    chance, batches = Random(events), []
    number = 0
    while number < events:
        size = min(chance.choice((1, 1, 1, 1, 7)), events - number)
        batches.append([_event(chance, number + place) for place in range(size)])
        number += size
    return batches


def _event(chance: Random, number: int) -> Event:
    size = _LONG if chance.random() < 0.03 else chance.randrange(20, 400)
    text = " ".join(f"{chance.randrange(10**6):06}" for _ in range(size // 7 + 1))
    id_ = f"{chance.randrange(10**8):08}-{number}"  # unordered: any page of the index may change
    return Event(id_, NOW + number, Recorded(content=f"{number}: {text}"), id_)


def write(home: Path, acknowledge: Acknowledge, *, events: int) -> None:
    """Append the batches to a new log, one after the other."""
    with EventLog(tenants.tenant(home).log, create=True) as log:
        for number, some in enumerate(batches(events), 1):
            log.append(some)
            acknowledge(str(number))


def problems(home: Path, acknowledged: Collection[str], *, events: int) -> list[str]:
    """Return the faults of a log, given the acknowledged batches."""
    path, count = tenants.tenant(home).log, len(acknowledged)
    if count and not path.exists():
        return [f"the log is gone, and {count} acknowledged batches with it"]
    try:
        with EventLog(path, create=not count) as log:
            wrong = [f"integrity: {problem}" for problem in integrity.problems(log)]
            return [*wrong, *_compared(log, batches(events), count)]
    except MnemologError as error:
        return [f"with {count} batches acknowledged: {error}"]


def _compared(log: EventLog, sent: Sequence[Sequence[Event]], acknowledged: int) -> Iterator[str]:
    marks, ends = _marks(sum(map(len, sent)))
    there = _rows(log)
    whole = bisect_left(ends, len(there))
    if not acknowledged <= whole <= acknowledged + 1:
        sent_too = acknowledged + 1
        yield f"{acknowledged} batches were acknowledged and {sent_too} sent, {whole} are there"
        return
    if there != marks[: ends[whole]]:
        yield f"the log holds {len(there)} events, not those of the first {whole} batches"
    for batch in sent[max(acknowledged - 1, 0) : acknowledged + 1]:  # the last and the current one
        log.append(batch)
    if _rows(log) != marks[: ends[min(max(whole, acknowledged + 1), len(sent))]]:
        yield "what was sent again is not there exactly once"


def _rows(log: EventLog) -> list[Row]:
    return [row[1 : BODY + 1] for row in log.select_rows("1", ())]


@cache
def _marks(events: int) -> tuple[list[Row], list[int]]:
    """Return the columns of each event up to its body, as the log assigns origin and clock, and the
    number of events after each batch, from none.
    """
    sent = batches(events)
    marks = [encode_row(event)[1][:BODY] for batch in sent for event in batch]
    return marks, [0, *accumulate(map(len, sent))]
