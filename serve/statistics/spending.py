"""
Spending: what a tenant's jobs paid language models, today and in thirty days, and what for.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from store.log.event_kinds import Called
from store.log.event_log import EventLog
from store.plans.job_catalog import DAY, ModelCost, sum_calls

DAYS = 30


@dataclass(frozen=True, slots=True)
class Spending:
    """Days are those of UTC, the running one among them; a purpose that cost most comes first."""

    today: ModelCost
    month: ModelCost  # of DAYS days
    by_purpose: Mapping[str, ModelCost]
    days: tuple[float, ...]  # dollars, the oldest day first
    first_day: int  # microseconds UTC


def spending(log: EventLog, now: int) -> Spending:
    """Return what was spent, up to now."""
    today = now - now % DAY
    first_day = today - (DAYS - 1) * DAY
    events = log.events_between(("called",), first_day, today + DAY)
    calls = [(one.at, one.body) for one in events if isinstance(one.body, Called)]
    by_purpose = {
        purpose: sum_calls(body for _, body in calls if body.purpose == purpose)
        for purpose in sorted({body.purpose for _, body in calls})
    }
    days = [0.0] * DAYS
    for at, body in calls:
        days[(at - first_day) // DAY] += body.cost_usd
    return Spending(
        today=sum_calls(body for at, body in calls if at >= today),
        month=sum_calls(body for _, body in calls),
        by_purpose=dict(
            sorted(by_purpose.items(), key=lambda one: (-one[1].cost_usd, -one[1].tokens))
        ),
        days=tuple(days),
        first_day=first_day,
    )
