"""
Budget: the spending of a run and a day on models, and the remainder.

It fails closed: a call is made only if its maximum cost still fits. A day is UTC's, and its
spending is read from the logs of all tenants of the home, whichever process wrote them. A home
makes one call at a time, so no two calls share the last of the budget.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import filelock

from pipelines.llm.provider import Price
from store.home.config import Llm
from store.home.errors import BudgetSpent, ModelError
from store.home.files import make_folder
from store.home.instants import DAY
from store.home.tenant import list_tenants
from store.log.event_kinds import Called
from store.log.event_log import EventLog


@dataclass(frozen=True, slots=True)
class Spent:
    """The cost of calls: dollars as far as prices are known, tokens of both ways, their number."""

    usd: float = 0.0
    tokens: int = 0
    calls: int = 0

    def with_(self, called: Called) -> "Spent":
        return Spent(
            self.usd + called.cost_usd,
            self.tokens + called.prompt_tokens + called.answer_tokens,
            self.calls + 1,
        )


@dataclass(frozen=True, slots=True)
class Most:
    """The maximum cost of a call; the dollars are None where no price is known.

    With `has_cost` they are known after the call.
    """

    prompt_tokens: int
    answer_tokens: int
    price: Price | None
    has_cost: bool = False

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.answer_tokens

    @property
    def usd(self) -> float | None:
        return self.price.of(self.prompt_tokens, self.answer_tokens) if self.price else None


class Budget:
    """The limits of one run, which begins with it. `clock` gives microseconds UTC."""

    def __init__(self, home: Path, limits: Llm, clock: Callable[[], int]) -> None:
        self._home, self._limits, self._clock = home, limits, clock
        self._run = Spent()
        self._day, self._today = -1, Spent()
        self._read: dict[str, int] = {}  # the last call of each tenant's log that was counted

    @contextmanager
    def room_for(self, most: Most) -> Iterator[None]:
        """Hold the home's single call slot; raise BudgetSpent where the call does not fit."""
        make_folder(self._home)
        try:
            with filelock.FileLock(self._home / "model.lock", timeout=_PATIENCE_S, mode=0o600):
                self._check(most)
                yield
        except filelock.Timeout:
            raise ModelError("another job's model call is taking too long") from None

    def add(self, called: Called) -> None:
        """Count a call of this run; the day's cost is read from the logs."""
        self._run = self._run.with_(called)

    def room(self) -> dict[str, float | None]:
        """Return the remainder of each limit; None where there is no limit."""
        today = self.today()
        limits = self._limits
        spending = {
            "usd_a_run": (limits.usd_a_run, self._run.usd),
            "usd_a_day": (limits.usd_a_day, today.usd),
            "tokens_a_run": (limits.tokens_a_run, self._run.tokens),
            "tokens_a_day": (limits.tokens_a_day, today.tokens),
            "calls_a_run": (limits.calls_a_run, self._run.calls),
            "calls_a_day": (limits.calls_a_day, today.calls),
        }
        return {
            name: max(0, limit - spent) if limit else None
            for name, (limit, spent) in spending.items()
        }

    def today(self) -> Spent:
        """Return the spending of all tenants of the home since midnight, UTC."""
        day = self._clock() // DAY
        if day != self._day:
            self._day, self._today, self._read = day, Spent(), {}
        for tenant in list_tenants(self._home):
            with EventLog(tenant.log) as log:
                for event in log.job_events(("called",), self._read.get(tenant.name, 0)):
                    self._read[tenant.name] = event.seq
                    if isinstance(event.body, Called) and event.at // DAY == day:
                        self._today = self._today.with_(event.body)
        return self._today

    def _check(self, most: Most) -> None:
        for name, room in self.room().items():
            unit = name.partition("_")[0]
            needed = {"usd": most.usd, "tokens": most.tokens, "calls": 1}[unit]
            if room is None:
                continue
            spent = f"the budget is spent: llm.{name} leaves {_amount(room, unit)}"
            if needed is None and most.has_cost and room <= 0:
                raise BudgetSpent(f"{spent}, and what one more call costs is known only after it")
            if needed is not None and needed > room:
                raise BudgetSpent(f"{spent}, and one more call may cost {_amount(needed, unit)}")


def _amount(value: float, unit: str) -> str:
    return f"{value:.4f} dollars" if unit == "usd" else f"{value:,.0f} {unit}"


_PATIENCE_S = 1_200.0
