"""
Statistics of one tenant: growth, recalls, ratings, spending, and a short form for its owner.

Nothing is kept between two calls. Figures that grow with the memory are counted in columns or off
an index of the log; of receipts and ratings only the newest are read. So all of it takes some tens
of milliseconds at a hundred thousand memories and as many receipts.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import numpy.typing as npt

from serve.reader.view import View
from serve.reports.holdings import (
    BuildHistory,
    DiskUsage,
    MemoryCounts,
    build_history,
    disk_usage,
    memory_counts,
    tail_length,
)
from serve.reports.usefulness import Usefulness, usefulness
from serve.reports.waiting import Waiting, find_waiting
from store.home.instants import DAY, MINUTE, moment
from store.home.tenant import Tenant
from store.log import integrity, log_queries
from store.log.event_kinds import Called, Rated, Recalled
from store.log.event_log import EventLog
from store.log.events import KINDS
from store.plans.job_catalog import ModelCost, sum_calls

if TYPE_CHECKING:
    from mnemolog import wire

# Growth

GROWTH_STEPS = (1, 7, 28, 364)  # days
MOST_STEPS = 120  # steps


class Growth(msgspec.Struct, frozen=True):
    """Counts by step of `step` microseconds from `since` on; the last step is still running."""

    since: int
    step: int
    memories: tuple[int, ...]  # recorded
    recalls: tuple[int, ...]
    others: tuple[int, ...]  # events of other kinds

    @property
    def starts(self) -> tuple[int, ...]:
        """When each step begins, microseconds UTC."""
        return tuple(self.since + place * self.step for place in range(len(self.memories)))

    @property
    def totals(self) -> tuple[int, ...]:
        """The number of memories recorded up to the end of each step."""
        return tuple(accumulate(self.memories))


def growth(log: EventLog, now: int) -> Growth:
    """Return the growth of a log until now, by the shortest step that gives MOST_STEPS or fewer."""
    first = log_queries.time_of(log, 1) or now
    since = min(first, now) // DAY * DAY
    days = (now - since) // DAY + 1
    step = _step(days)
    steps = int(-(-days // step))
    counts = log_queries.tally(log, tuple(KINDS), since, step * DAY, steps)
    others = [of for kind, of in counts.items() if kind not in ("recorded", "recalled")]
    return Growth(
        since,
        step * DAY,
        tuple(counts["recorded"]),
        tuple(counts["recalled"]),
        tuple(map(sum, zip(*others, strict=True))),
    )


def _step(days: int) -> int:
    """Return the shortest step, in days, that gives MOST_STEPS of them or fewer."""
    return next((step for step in GROWTH_STEPS if -(-days // step) <= MOST_STEPS), GROWTH_STEPS[-1])


class Timeline(msgspec.Struct, frozen=True):
    """Active memories by event time, in steps of `step` microseconds from `since` on."""

    since: int
    step: int
    counts: tuple[int, ...]

    @property
    def starts(self) -> tuple[int, ...]:
        """When each step begins, microseconds UTC."""
        return tuple(self.since + place * self.step for place in range(len(self.counts)))


def timeline(view: View, now: int) -> Timeline:
    """Count the active memories by the time of their events; older ones count in the first step."""
    rows, tail = view.snapshots.rows, view.tail
    mask = rows.active_at(now)
    mask[tail.hidden_rows] = False
    of_tail = tail.columns.created_at[tail.columns.active_at(now) & tail.live]
    moments = np.minimum(np.concatenate([rows.created_at[mask], of_tail]), now)
    if not len(moments):
        return Timeline(now, DAY, ())
    first = max(int(moments.min()), now - GROWTH_STEPS[-1] * (MOST_STEPS - 1) * DAY) // DAY * DAY
    step = _step((now - first) // DAY + 1) * DAY
    places = np.maximum(moments - first, 0) // step
    counts = np.bincount(places, minlength=int((now - first) // step) + 1)
    return Timeline(first, step, tuple(counts.tolist()))


# Recalls and ratings

NEWEST = 1_000  # receipts and ratings that are read

Values = npt.NDArray[np.float64]


class RecallRate(msgspec.Struct, frozen=True):
    """Recalls by minute of the last hour and by day of the last thirty, the oldest first.

    The last step of each is the running one; minutes and days are those of the clock, UTC.
    """

    minutes: tuple[int, ...]
    first_minute: int  # microseconds UTC
    days: tuple[int, ...]
    first_day: int
    last_day: int  # recalls in the 24 hours before now

    @property
    def last_hour(self) -> int:
        return sum(self.minutes)

    @property
    def a_minute(self) -> float:
        """The mean of the last ten whole minutes."""
        return sum(self.minutes[-11:-1]) / 10


def recall_rate(log: EventLog, now: int) -> RecallRate:
    """Return the rate of recalls up to now."""
    first_minute = now - now % MINUTE - 59 * MINUTE
    first_day = now - now % DAY - 29 * DAY
    kinds = ("recalled",)
    return RecallRate(
        tuple(log_queries.tally(log, kinds, first_minute, MINUTE, 60)["recalled"]),
        first_minute,
        tuple(log_queries.tally(log, kinds, first_day, DAY, 30)["recalled"]),
        first_day,
        log_queries.tally(log, kinds, now - DAY, DAY + 1, 1)["recalled"][0],  # up to now, now too
    )


@dataclass(frozen=True)
class RecallOutcomes:
    """The outcomes of the newest receipts. `since` is the oldest of them, microseconds UTC.

    `took_ms` is that of each, the newest first; the confidence and score are those of each hit.
    """

    since: int | None
    took_ms: Values
    hits: npt.NDArray[np.int64]  # the number of hits of each
    confidence: Values
    score: Values

    @property
    def looked_at(self) -> int:
        return len(self.hits)

    @property
    def silent(self) -> int:
        """The number without a hit."""
        return int(np.count_nonzero(self.hits == 0))

    @property
    def silence(self) -> float | None:
        """The share of recalls without a hit; None without any recall."""
        return self.silent / self.looked_at if self.looked_at else None

    def newest(self, most: int) -> "RecallOutcomes":
        """Return the outcomes of the newest of them; `since` is left open."""
        hits = self.hits[:most]
        ends = int(hits.sum())
        return RecallOutcomes(
            None, self.took_ms[:most], hits, self.confidence[:ends], self.score[:ends]
        )

    def took(self, share: float) -> float | None:
        """Return the time in ms within which a share of the recalls was answered."""
        return float(np.quantile(self.took_ms, share)) if self.looked_at else None


def recall_outcomes(log: EventLog, most: int = NEWEST) -> RecallOutcomes:
    """Return the outcomes of the newest receipts that are not archived."""
    recalls = [
        (at, body)
        for at, body in log_queries.newest_bodies(log, "recalled", most)
        if isinstance(body, Recalled)
    ]
    hits = [hit for _, body in recalls for hit in body.hits]
    return RecallOutcomes(
        since=recalls[-1][0] if recalls else None,
        took_ms=np.array([body.took_us / 1_000 for _, body in recalls], np.float64),
        hits=np.array([len(body.hits) for _, body in recalls], np.int64),
        confidence=np.array([hit.confidence for hit in hits], np.float64),
        score=np.array([hit.score for hit in hits], np.float64),
    )


class RatingCounts(msgspec.Struct, frozen=True):
    """The newest ratings: verdicts from -1, harmful, to 1, decisive."""

    looked_at: int
    helped: int  # verdicts over 0
    harmed: int  # below
    mean: float | None


def rating_counts(log: EventLog) -> RatingCounts:
    """Return the counts of the newest ratings."""
    verdicts = [
        body.verdict
        for _, body in log_queries.newest_bodies(log, "rated", NEWEST)
        if isinstance(body, Rated)
    ]
    return RatingCounts(
        looked_at=len(verdicts),
        helped=sum(verdict > 0 for verdict in verdicts),
        harmed=sum(verdict < 0 for verdict in verdicts),
        mean=sum(verdicts) / len(verdicts) if verdicts else None,
    )


# Spending on models

SPENDING_DAYS = 30


class Spending(msgspec.Struct, frozen=True):
    """Days are those of UTC, the running one among them; a purpose that cost most comes first."""

    today: ModelCost
    month: ModelCost  # of DAYS days
    by_purpose: Mapping[str, ModelCost]
    days: tuple[float, ...]  # dollars, the oldest day first
    first_day: int  # microseconds UTC


def spending(log: EventLog, now: int) -> Spending:
    """Return the spending up to now."""
    today = now - now % DAY
    first_day = today - (SPENDING_DAYS - 1) * DAY
    rows = log_queries.bodies_between(log, "called", first_day, today + DAY)
    calls = [(at, body) for at, _, _, body in reversed(rows) if isinstance(body, Called)]
    costs = [
        (purpose, sum_calls(body for _, body in calls if body.purpose == purpose))
        for purpose in sorted({body.purpose for _, body in calls})
    ]
    days = [0.0] * SPENDING_DAYS
    for at, body in calls:
        days[(at - first_day) // DAY] += body.cost_usd
    return Spending(
        today=sum_calls(body for at, body in calls if at >= today),
        month=sum_calls(body for _, body in calls),
        by_purpose=dict(sorted(costs, key=lambda cost: (-cost[1].cost_usd, -cost[1].tokens))),
        days=tuple(days),
        first_day=first_day,
    )


LIVE_RECALLS = 500  # receipts behind the counters that a page polls every few seconds


class Statistics(msgspec.Struct, frozen=True):
    """The figures at one moment, `at` in microseconds UTC.

    `waiting` are the decisions that wait for a person, by sort.
    """

    tenant: str
    at: int
    events: int
    memories: MemoryCounts
    disk: DiskUsage
    growth: Growth
    timeline: Timeline
    rate: RecallRate
    answered: RecallOutcomes
    ratings: RatingCounts
    builds: BuildHistory
    spending: Spending
    usefulness: Usefulness
    waiting: tuple[Waiting, ...]


def statistics(home: Path, tenant: Tenant, log: EventLog, view: View, now: int) -> Statistics:
    """Return the figures of a tenant now."""
    return Statistics(
        tenant=tenant.name,
        at=now,
        events=integrity.event_count(log),
        memories=memory_counts(view, now),
        disk=disk_usage(tenant),
        growth=growth(log, now),
        timeline=timeline(view, now),
        rate=recall_rate(log, now),
        answered=recall_outcomes(log),
        ratings=rating_counts(log),
        builds=build_history(home, tenant, log, view),
        spending=spending(log, now),
        usefulness=usefulness(log, view, now),
        waiting=find_waiting(view, log, now),
    )


class LiveCounters(msgspec.Struct, frozen=True):
    """The few figures that a page updates live; `silence` is of the newest LIVE_RECALLS."""

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


def live_counters(log: EventLog, view: View, now: int) -> LiveCounters:
    """Return the live figures; it takes a few milliseconds."""
    rate, outcomes, head = recall_rate(log, now), recall_outcomes(log, LIVE_RECALLS), log.head()
    return LiveCounters(
        at=now,
        events=head,
        memories=memory_counts(view, now).active,
        tail=tail_length(head, view),
        a_minute=rate.a_minute,
        last_hour=rate.last_hour,
        last_day=rate.last_day,
        minutes=rate.minutes,
        silence=outcomes.silence,
        p50_ms=outcomes.took(0.5),
        p95_ms=outcomes.took(0.95),
    )


# A tenant in a few figures, for its owner


def tenant_stats(tenant: Tenant, log: EventLog, view: View, now: int) -> "wire.TenantStats":
    """Return the figures of a tenant; `now` is microseconds UTC."""
    from mnemolog import wire  # 40 ms, for these figures alone

    counts, disk, head = memory_counts(view, now), disk_usage(tenant), log.head()
    manifest = view.snapshots.manifest
    return wire.TenantStats(
        tenant=tenant.name,
        memories={kind: dict(states) for kind, states in counts.by_kind.items()},
        active=counts.active,
        events=integrity.event_count(log),
        tail=tail_length(head, view),
        log_bytes=disk.log,
        snapshot_bytes=disk.snapshots,
        manifest=None
        if manifest is None
        else wire.Served(
            number=manifest.number,
            at=moment(manifest.at).replace(microsecond=0),
            age_s=max(0, now - manifest.at) // 1_000_000,
            watermark=manifest.watermark,
        ),
        recalls_of_day=recall_rate(log, now).last_day,
        silence_rate=recall_outcomes(log).silence,
    )
