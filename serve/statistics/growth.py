"""
Growth: how many events of each sort there are in each step of a log's life.
"""

from dataclasses import dataclass
from itertools import accumulate

from store.log.event_log import EventLog
from store.log.events import KINDS

DAY = 86_400_000_000  # microseconds
STEPS = (1, 7, 28, 364)  # days
MOST = 120  # steps


@dataclass(frozen=True, slots=True)
class Growth:
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
    def held(self) -> tuple[int, ...]:
        """How many memories were recorded up to the end of each step."""
        return tuple(accumulate(self.memories))


def growth(log: EventLog, now: int) -> Growth:
    """Return how a log grew until now, by the shortest step that gives MOST of them or fewer."""
    first = log.at(1) or now
    since = min(first, now) // DAY * DAY
    days = (now - since) // DAY + 1
    step = next((one for one in STEPS if -(-days // one) <= MOST), STEPS[-1])
    steps = int(-(-days // step))
    counts = log.tally(tuple(KINDS), since, step * DAY, steps)
    others = [of for kind, of in counts.items() if kind not in ("recorded", "recalled")]
    return Growth(
        since,
        step * DAY,
        tuple(counts["recorded"]),
        tuple(counts["recalled"]),
        tuple(map(sum, zip(*others, strict=True))),
    )
