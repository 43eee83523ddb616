"""
statistics(): every figure of one tenant that the overview, `mnemolog stats` and programs show.

Nothing is kept between two calls. What grows with the memory is counted in columns or off an index
of the log; of receipts and ratings the newest are read. So all of it is some tens of milliseconds
at a hundred thousand memories and as many receipts.
"""

from dataclasses import dataclass
from pathlib import Path

from serve.reader.view import View
from serve.statistics.builds import Builds, builds, tail
from serve.statistics.growth import Growth, growth
from serve.statistics.holdings import Disk, Memories, disk, memories
from serve.statistics.recalls import Answered, Rate, Ratings, answered, rate, ratings
from serve.statistics.spending import Spending, spending
from serve.statistics.usefulness import Usefulness, usefulness
from store.home.tenant import Tenant
from store.log.event_log import EventLog

LIVE = 500  # receipts behind the counters that are asked for every few seconds


@dataclass(frozen=True, slots=True)
class Statistics:
    """The figures at one moment, `at` in microseconds UTC.

    `waiting` are plans, drafts and recommendations that nobody answered; some may be outdated.
    """

    tenant: str
    at: int
    events: int
    memories: Memories
    disk: Disk
    growth: Growth
    rate: Rate
    answered: Answered
    ratings: Ratings
    builds: Builds
    spending: Spending
    usefulness: Usefulness
    waiting: int


def statistics(home: Path, tenant: Tenant, log: EventLog, view: View, now: int) -> Statistics:
    """Return how a tenant stands now."""
    return Statistics(
        tenant=tenant.name,
        at=now,
        events=log.event_count(),
        memories=memories(view, now),
        disk=disk(tenant),
        growth=growth(log, now),
        rate=rate(log, now),
        answered=answered(log),
        ratings=ratings(log),
        builds=builds(home, tenant, log, view),
        spending=spending(log, now),
        usefulness=usefulness(log, view, now),
        waiting=waiting(log),
    )


@dataclass(frozen=True, slots=True)
class Live:
    """The few figures that move while one looks on; `silence` is of the newest LIVE recalls."""

    at: int
    events: int
    memories: int  # active ones
    tail: int
    a_minute: float  # recalls
    last_hour: int
    last_day: int
    minutes: tuple[int, ...]
    silence: float | None
    p50_ms: float | None
    p95_ms: float | None


def live(log: EventLog, view: View, now: int) -> Live:
    """Return what moves; it costs a few milliseconds."""
    asked, said, head = rate(log, now), answered(log, LIVE), log.head()
    return Live(
        at=now,
        events=head,
        memories=memories(view, now).active,
        tail=tail(head, view),
        a_minute=asked.a_minute,
        last_hour=asked.last_hour,
        last_day=asked.last_day,
        minutes=asked.minutes,
        silence=said.silence,
        p50_ms=said.took(0.5),
        p95_ms=said.took(0.95),
    )


def waiting(log: EventLog) -> int:
    """Return how much waits for a person's yes or no."""
    of = log.subjects(("planned", "applied", "proposed", "accepted", "rejected"))
    said = of["applied"] | of["accepted"] | of["rejected"]
    return len((of["planned"] | of["proposed"]) - said)
