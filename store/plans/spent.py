"""
Spent: what language models were paid, as the logs tell it; a call that failed counts too.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from store.home.tenant import list_tenants
from store.job_events import Called
from store.log import EventLog

DAY = 86_400_000_000  # microseconds


@dataclass(frozen=True, slots=True)
class Spent:
    """`tokens` are those of both ways, the dollars those of calls whose price is known."""

    calls: int = 0
    failed: int = 0
    tokens: int = 0
    cost_usd: float = 0.0
    models: tuple[str, ...] = ()


def by(log: EventLog, since: int) -> Spent:
    """Return what a tenant's jobs spent since a moment, in microseconds UTC."""
    return summed(_called(log, since))


def today(home: Path, now: int) -> Spent:
    """Return what all tenants of a home spent since midnight UTC: a day's limits are the home's."""
    calls: list[Called] = []
    for one in list_tenants(home):
        with EventLog(one.log) as log:
            calls += _called(log, now - now % DAY)
    return summed(calls)


def _called(log: EventLog, since: int) -> list[Called]:
    events = log.of_jobs(("called",))
    return [one.body for one in events if one.at >= since and isinstance(one.body, Called)]


def summed(calls: Iterable[Called]) -> Spent:
    """Return what some calls cost together."""
    calls = list(calls)
    return Spent(
        calls=len(calls),
        failed=sum(one.error is not None for one in calls),
        tokens=sum(one.prompt_tokens + one.answer_tokens for one in calls),
        cost_usd=sum((one.cost_usd for one in calls), 0.0),
        models=tuple(sorted({one.model for one in calls})),
    )
