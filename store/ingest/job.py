"""
Job: an accepted batch, what became of it, and when it is tried again.
"""

from dataclasses import dataclass
from typing import Literal, get_args

import msgspec

from store.ingest.batch import Refused
from store.log.events import Event

State = Literal["queued", "running", "done", "dead"]
STATES: tuple[State, ...] = get_args(State)

MOST_ATTEMPTS = 5
LEASE_US = 30_000_000
FIRST_RETRY_US = 2_000_000
_GROWS = 4  # times, from one retry to the next: 2, 8, 32 and 128 seconds


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A batch as the queue knows it; moments are microseconds UTC.

    `done` counts the items that were looked at, `refused` those of them that make no memory. A dead
    one was tried `MOST_ATTEMPTS` times, and waits for a person: `error` is why.
    """

    number: int
    id: str
    at: int
    state: State
    attempts: int
    next_at: int
    owner: str | None
    lease_until: int | None
    ended_at: int | None
    items: int
    turns: int
    done: int
    refused: int
    error: str | None

    @property
    def is_over(self) -> bool:
        return self.state in ("done", "dead")


class Outcome(msgspec.Struct, frozen=True):
    """The memory of each item, None where it was refused, and why those were."""

    ids: tuple[str | None, ...]
    refused: tuple[Refused, ...]


@dataclass(frozen=True, slots=True)
class Lease:
    """A job that is ours until its lease ends, and what of it is left to record, by place."""

    job: Job
    owner: str
    left: tuple[tuple[int, Event], ...]


def retry_us(attempts: int, chance: float) -> int:
    """Return how long to wait after the last of so many attempts; `chance` is in [0, 1).

    It grows fourfold, and up to half of it is left to chance: what failed together must not come
    back together.
    """
    longest: int = FIRST_RETRY_US * _GROWS ** (attempts - 1)
    return round(longest * (1 - chance / 2))
