"""
Recalls: how many there are, how fast they are answered, how often with nothing.

Counts are of all of them. What receipts tell is read from the newest ones only, so it costs the
same in a log of any length.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from store.log.event_kinds import Rated, Recalled
from store.log.event_log import EventLog

MINUTE, HOUR, DAY = 60_000_000, 3_600_000_000, 86_400_000_000  # microseconds
NEWEST = 1_000  # receipts and ratings that are read

Values = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Rate:
    """Recalls by minute of the last hour and by day of the last thirty, the oldest first.

    The last step of each is the one that runs now; minutes and days begin where clocks say so, UTC.
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


def rate(log: EventLog, now: int) -> Rate:
    """Return how often was asked, up to now."""
    first_minute = now - now % MINUTE - 59 * MINUTE
    first_day = now - now % DAY - 29 * DAY
    kinds = ("recalled",)
    return Rate(
        tuple(log.tally(kinds, first_minute, MINUTE, 60)["recalled"]),
        first_minute,
        tuple(log.tally(kinds, first_day, DAY, 30)["recalled"]),
        first_day,
        log.tally(kinds, now - DAY, DAY + 1, 1)["recalled"][0],  # up to now, now too
    )


@dataclass(frozen=True)
class Answered:
    """What the newest receipts say. `since` is the oldest of them, microseconds UTC.

    `took_ms` is that of each, the newest first; the confidence and score are those of each hit.
    """

    since: int | None
    took_ms: Values
    hits: npt.NDArray[np.int64]  # how many came back to each
    confidence: Values
    score: Values

    @property
    def looked_at(self) -> int:
        return len(self.hits)

    @property
    def silent(self) -> int:
        """How many brought nothing."""
        return int(np.count_nonzero(self.hits == 0))

    @property
    def silence(self) -> float | None:
        """The share that brought nothing; None where nothing was asked."""
        return self.silent / self.looked_at if self.looked_at else None

    def newest(self, most: int) -> "Answered":
        """Return what the newest of them say; since when is left open."""
        hits = self.hits[:most]
        ends = int(hits.sum())
        return Answered(None, self.took_ms[:most], hits, self.confidence[:ends], self.score[:ends])

    def took(self, share: float) -> float | None:
        """Return the time in ms within which a share of them was answered."""
        return float(np.quantile(self.took_ms, share)) if self.looked_at else None


def answered(log: EventLog, most: int = NEWEST) -> Answered:
    """Return what the newest receipts say, of those that were not put away."""
    found = [(at, body) for at, body in log.newest("recalled", most) if isinstance(body, Recalled)]
    hits = [hit for _, body in found for hit in body.hits]
    return Answered(
        since=found[-1][0] if found else None,
        took_ms=np.array([body.took_us / 1_000 for _, body in found], np.float64),
        hits=np.array([len(body.hits) for _, body in found], np.int64),
        confidence=np.array([hit.confidence for hit in hits], np.float64),
        score=np.array([hit.score for hit in hits], np.float64),
    )


@dataclass(frozen=True, slots=True)
class Ratings:
    """What the newest ratings say: verdicts from -1, harmful, to 1, decisive."""

    looked_at: int
    helped: int  # verdicts over 0
    harmed: int  # below
    mean: float | None


def ratings(log: EventLog, most: int = NEWEST) -> Ratings:
    """Return what the newest ratings say."""
    said = [body.verdict for _, body in log.newest("rated", most) if isinstance(body, Rated)]
    return Ratings(
        looked_at=len(said),
        helped=sum(one > 0 for one in said),
        harmed=sum(one < 0 for one in said),
        mean=sum(said) / len(said) if said else None,
    )
